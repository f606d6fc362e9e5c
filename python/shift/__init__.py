# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""SHIFT keeps RDMA programs running when a NIC, cable, port or switch dies.

A library is chosen when a process starts, so this module cannot put the running interpreter under SHIFT; it does so
for the processes that are started from it:

    subprocess.run(["python3", "train.py"], env=shift.environ(kv="redis://head:6379"))

From a shell, `shiftrun torchrun train.py` does the same.
"""
import os
import subprocess
from typing import Dict, Mapping, Optional

from shift import _links

__all__ = ["Error", "environ", "libdir", "nccl_net_plugin"]
__version__ = "@VERSION@"

Error = _links.Error


def libdir() -> str:
    """The folder whose libibverbs.so.1 is SHIFT's, as for `shiftctl run --libdir`; made if need be.

    Raises Error where no libibverbs is installed, or no folder can be made.
    """
    return _links.folder()


def environ(env: Optional[Mapping[str, str]] = None, *, kv: Optional[str] = None, backup: Optional[str] = None,
            log: Optional[str] = None, lazy: bool = False, no_env: bool = False, ll128: bool = False) -> Dict[str, str]:
    """A copy of env (default: os.environ) in which programs run under SHIFT.

    kv, backup, log, lazy, no_env and ll128 are the options of `shiftctl run`. Variables of NCCL, UCX and Open MPI that the user
    has not set are in the copy, as they are for `shiftctl run`; no_env leaves them out. Raises Error, with shiftctl's own words, where
    programs would not run under SHIFT.
    """
    folder = libdir()
    argv = [_links.program("shiftctl"), "run", "--libdir", folder]
    for name, value in (("kv", kv), ("backup", backup), ("log", log)):
        if value is not None:
            argv += [f"--{name}", value]
    argv += [option for option, given in (("--lazy", lazy), ("--no-env", no_env), ("--ll128", ll128)) if given]
    done = subprocess.run([*argv, "--", "/usr/bin/env", "-0"], env=dict(os.environ if env is None else env),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    made = dict(os.fsdecode(entry).split("=", 1) for entry in done.stdout.split(b"\0") if b"=" in entry)
    if done.returncode or folder not in made.get("LD_LIBRARY_PATH", ""):
        raise Error(os.fsdecode(done.stderr).strip() or f"shiftctl ended with {done.returncode}")
    made.pop("_", None)
    return made


def nccl_net_plugin() -> str:
    """The path of SDR's network plugin for NCCL, for jobs over two sites: the value of NCCL_NET_PLUGIN. It needs nothing of SHIFT.

    Raises Error where the wheel has none.
    """
    return _links.file("lib", "sdr", "libnccl-net-sdr.so")
