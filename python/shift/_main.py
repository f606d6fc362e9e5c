# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The commands of the wheel: the programs in it, told where the links are."""
import os
import sys
from typing import List, NoReturn

from shift import __version__, _links

NEED_LIBRARY = ("run", "doctor", "version")     # commands of shiftctl that take --libdir


def _said(what: str) -> NoReturn:
    print(f"shift: {what}", file=sys.stderr)
    sys.exit(1)


def _become(name: str, args: List[str]) -> NoReturn:
    try:
        path = _links.program(name)
        sys.stdout.flush()
        os.execv(path, [name, *args])
    except (_links.Error, OSError) as error:
        _said(str(error))


def _shiftctl(args: List[str]) -> NoReturn:
    try:
        if args and args[0] in NEED_LIBRARY and not set(args[1:2]) & {"-h", "--help"}:
            args = [args[0], "--libdir", _links.folder(), *args[1:]]
    except (_links.Error, OSError) as error:
        _said(str(error))
    _become("shiftctl", args)


def shiftctl() -> NoReturn:
    """shiftctl(1)"""
    _shiftctl(sys.argv[1:])


def shiftrun() -> NoReturn:
    """`shiftrun [OPTION...] [--] COMMAND...`: shiftctl run."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        print("shiftrun", __version__)
        sys.exit(0)
    _shiftctl(["run", *sys.argv[1:]])


def simnicctl() -> NoReturn:
    """simnicctl(1)"""
    _become("simnicctl", sys.argv[1:])


def sdr_perf() -> NoReturn:
    """sdr_perf(1)"""
    _become("sdr_perf", sys.argv[1:])


def exporter() -> NoReturn:
    """shift-exporter(1), which needs a library that no wheel has."""
    import ctypes   # for this command alone
    try:
        ctypes.CDLL("libmicrohttpd.so.12")
    except OSError:
        _said("shift-exporter needs libmicrohttpd.so.12: install libmicrohttpd12 (Debian) or libmicrohttpd (RHEL)")
    _become("shift-exporter", sys.argv[1:])
