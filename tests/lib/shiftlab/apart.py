# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Programs that take each other for being on different machines, though they are on one.

Libraries with several ways to a peer (UCX, NCCL) look at the host's name and the kernel's boot id, and take shared
memory where both are their own. Each host of a fabric gets a name and an id of its own. Only root can do that.
"""
import os
import uuid

from shiftlab.lab import SKIPPED
from shiftlab.redis import Redis

BOOT_ID = "/proc/sys/kernel/random/boot_id"
ENTER = f'hostname "$1"; mount --bind "$2" {BOOT_ID}; shift 2; exec "$@"'


def missing():
    """Why that cannot be had; None: it can."""
    return None if os.geteuid() == 0 else "only root gives a host a name and a boot id of its own"


def begin(lab):
    """Ends on machines apart find each other by Redis: a file's leases are of one boot."""
    lab.kv = Redis(lab).start().url


def command(lab, host, argv):
    """What runs argv, which is for this host, there."""
    path = os.path.join(lab.folder, "boot-id-" + host)
    if not os.path.exists(path):
        with open(path, "x", encoding="ascii") as f:
            f.write(f"{uuid.uuid4()}\n")
    return ["unshare", "--uts", "--mount", "sh", "-c", ENTER, "sh", host, path, *argv]


def skip():
    """Prints the reason and returns the exit status; None: nothing is missing."""
    if not missing():
        return None
    print("SKIP: " + missing())
    return SKIPPED
