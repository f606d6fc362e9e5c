# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The folder of links that the loader needs: libibverbs.so.1 is SHIFT's, libibverbs-distro.so.1 the installed one.

A wheel cannot hold links, its own folder may be read-only, and only this machine knows where its libibverbs is. So
the folder is made in the user's cache when it is first asked for. It is never changed: its name tells what its links
lead to, and it appears complete. The links lead to libibverbs.so.1, not to the file behind that name, so that they
hold when the system's package is upgraded.
"""
import hashlib
import os
import re
import shutil
import stat
import subprocess
import tempfile
from typing import Dict, Iterator, List, Optional

FILES = os.path.join(os.path.dirname(os.path.realpath(__file__)), "_files")
OURS = os.path.join(FILES, "lib", "shift")
MARK = b"libibverbs-distro.so.1"    # a library that names it is SHIFT's


class Error(RuntimeError):
    """Programs cannot be put under SHIFT here."""


def program(name: str) -> str:
    """The path of a program of the wheel."""
    path = os.path.join(FILES, "bin", name)
    if not os.access(path, os.X_OK):
        raise Error(f"{path} is missing, or not executable; install shift-rdma again")
    return path


def file(*names: str) -> str:
    """The path of a file of the wheel."""
    path = os.path.join(FILES, *names)
    if not os.path.exists(path):
        raise Error(f"{path} is missing; install shift-rdma again")
    return path


def _cache_of_loader(name: str) -> Iterator[str]:
    """As the loader's cache has them: for all kinds of machines."""
    for ldconfig in ("/sbin/ldconfig", "/usr/sbin/ldconfig"):
        if os.access(ldconfig, os.X_OK):
            out = subprocess.run([ldconfig, "-p"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                 check=False).stdout
            yield from re.findall(rf"^\s*{re.escape(name)} .*=> (\S+)$", os.fsdecode(out), re.M)
            return


def _candidates(name: str) -> Iterator[str]:
    """In the loader's order; places of an upgrade before the cache knows of it come last."""
    for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":"):
        if folder:
            yield os.path.join(folder, name)
    yield from _cache_of_loader(name)
    machine = os.uname().machine
    for folder in (f"/usr/lib/{machine}-linux-gnu", "/usr/lib64", "/usr/lib", "/lib64", "/usr/local/lib64",
                   "/usr/local/lib"):
        yield os.path.join(folder, name)


def _is_theirs(path: str) -> bool:
    """True for a library of this machine that is not SHIFT itself."""
    try:
        with open(path, "rb") as f, open(os.path.join(OURS, "libibverbs.so.1"), "rb") as ours:
            data = f.read()
            return data[:20] == ours.read(20)[:20] and MARK not in data
    except OSError:
        return False


def system_library(name: str) -> Optional[str]:
    """The installed library of this name, by that name; None: there is none."""
    return next((path for path in _candidates(name) if _is_theirs(path)), None)


def _targets() -> Dict[str, str]:
    """Each link, and where it leads to."""
    verbs = system_library("libibverbs.so.1")
    if not verbs:
        raise Error("no libibverbs.so.1 is installed here: install libibverbs1 (Debian), libibverbs (RHEL), "
                         "or DOCA-OFED")
    links = {"libibverbs.so.1": os.path.join(OURS, "libibverbs.so.1"), "libibverbs.so": "libibverbs.so.1",
             "libibverbs-distro.so.1": verbs}
    rdmacm = system_library("librdmacm.so.1")
    if rdmacm:
        links["librdmacm.so.1"] = os.path.join(OURS, "librdmacm.so.1")
        links["librdmacm-distro.so.1"] = rdmacm
    return links


def _private(folder: str) -> bool:
    """True if nobody else can put anything there."""
    found = os.lstat(folder)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def _parents() -> List[str]:
    """Where a folder may be made, the first choice first."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    places = [os.path.join(place, "shift-rdma") for place in (cache, os.environ.get("XDG_RUNTIME_DIR")) if place]
    places.append(os.path.join(tempfile.gettempdir(), f"shift-rdma-{os.geteuid()}"))
    return [place for place in places if os.path.isabs(place) and not re.search(r"[:; \t]", place)]


def _made(parent: str, links: Dict[str, str]) -> str:
    """The folder of these links in parent. Raises OSError."""
    name = hashlib.sha256("\0".join(f"{k}\0{v}" for k, v in sorted(links.items())).encode()).hexdigest()[:16]
    folder = os.path.join(parent, f"links-{name}")
    os.makedirs(parent, mode=0o700, exist_ok=True)
    if not _private(parent):
        raise PermissionError(f"{parent} is not a directory of yours alone")
    if os.path.isdir(folder):
        return folder
    new = tempfile.mkdtemp(prefix=".new-", dir=parent)
    try:
        for link, target in links.items():
            os.symlink(target, os.path.join(new, link))
        os.rename(new, folder)
    except OSError:
        shutil.rmtree(new, ignore_errors=True)
        if not os.path.isdir(folder):   # else another process was faster
            raise
    return folder


def folder() -> str:
    """The folder of links; see the module's text. Raises Error."""
    links, said = _targets(), []
    for parent in _parents():
        try:
            return _made(parent, links)
        except OSError as error:
            said.append(str(error))
    raise Error("no folder for links can be made: " + "; ".join(said) + "; set XDG_CACHE_HOME")
