#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Which librdmacm functions come to SHIFT, in each way in which its library is loaded, and which do not.

usage: companion_test.py FOLDER INSTALLED-LIBRDMACM
"""
import os
import re
import shutil
import subprocess
import sys

HOOKED = {"rdma_get_cm_event", "rdma_ack_cm_event", "rdma_disconnect", "rdma_destroy_id",
          "rdma_migrate_id"}
BINDING = re.compile(r"binding file (\S+) \[\d+\] to (\S+) \[\d+\]: normal symbol `(rdma_\w+)'")
DLOPEN = """
import ctypes
library = ctypes.CDLL("librdmacm.so.1", mode=0)
for name in ("rdma_get_cm_event", "rdma_disconnect", "rdma_connect", "rdma_create_id"):
    ctypes.cast(getattr(library, name), ctypes.c_void_p)
"""


def bindings(argv, env):
    """{(from, name): to} by what the loader says, files by their last name."""
    done = subprocess.run(argv, env={**os.environ, "LD_BIND_NOW": "1", "LD_DEBUG": "bindings", **env},
                          capture_output=True, text=True, timeout=60)
    found = BINDING.findall(done.stderr)
    return {(os.path.basename(src), name): os.path.realpath(to) for src, to, name in found}


def check(what, found, ours, installed, least):
    wrong = [f"{src}: {name} is bound to {to}" for (src, name), to in found.items()
             if to != os.path.realpath(ours if name in HOOKED else installed)]
    hooked = {name for _, name in found} & HOOKED
    print(f"{what}: {len(found)} bindings, hooked {' '.join(sorted(hooked))}")
    if len(hooked) < least:
        wrong.append(f"only {hooked} are hooked")
    for line in wrong:
        print(f"FAILED {what}: {line}")
    return not wrong


def main():
    folder, installed = sys.argv[1:]
    ours = os.path.join(folder, "libibverbs.so.1")
    rping = shutil.which("rping")
    if not rping:
        print("skipped: rping is not installed (rdmacm-utils)")
        return 77
    ways = {"path": {"LD_LIBRARY_PATH": folder}, "preload": {"LD_PRELOAD": ours},
            "both": {"LD_LIBRARY_PATH": folder, "LD_PRELOAD": ours}}
    good = True
    for way, env in ways.items():
        found = bindings([rping, "-h"], env)
        good &= check(f"rping, {way}", found, ours, installed, 4)
        # a synchronous id waits inside librdmacm, which must hear of what was made up too
        inside = [to for (src, name), to in found.items() if "rdmacm" in src and name == "rdma_get_cm_event"]
        if inside != [os.path.realpath(ours)]:
            print(f"FAILED {way}: librdmacm's own calls are bound to {inside}")
            good = False
    for way in ("path", "both"):
        good &= check(f"dlopen, {way}", bindings([sys.executable, "-c", DLOPEN], ways[way]), ours, installed, 2)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
