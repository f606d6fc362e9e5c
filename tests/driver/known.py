# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Differences between a kernel's driver and simnic that are known, each with its reason. docs/hardware.md has them in words."""
import fnmatch

# (fault, difference as belief.differences() words it; both may have wildcards), reason
KNOWN = (
    ("*", "channel_ends: kernel Input/output error, simnic Success",
     "simnic's event files are sockets: their end reads like that of a file, and errno is left"),
    ("*", "async_ends: kernel none, simnic Success",
     "a read of the asynchronous events that waits while their file is closed waits on in the kernel"),
)


def reason(fault, difference):
    """Why this difference is accepted; None."""
    return next((why for of, what, why in KNOWN
                 if fnmatch.fnmatchcase(fault, of) and fnmatch.fnmatchcase(difference, what)), None)
