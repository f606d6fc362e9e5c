# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""SHIFT's Debian packages, installed as a user would. The guest's root is a memory overlay: the host sees nothing."""
import glob
import os
import re
import shutil

from shiftlab.guest.cases import case
from rig import GID, BACKUPS, Skipped, check, device, run
from shiftlab.lab import free_port

PACKAGES = ("shift-rdma", "libibverbs1-shift")
DPKG = "/var/lib/dpkg"
SLOW_S = 50


def debs(rig):
    if not rig.debs:
        raise Skipped("no packages: make deb, or --debs FOLDER")
    found = [glob.glob(os.path.join(rig.debs, name + "_*.deb")) for name in PACKAGES]
    if not all(found):
        raise Skipped(f"no packages of SHIFT in {rig.debs}: make deb")
    return [max(names, key=os.path.getmtime) for names in found]


def database(rig, files):
    """
    dpkg's own, but with what the packages name alone: it reads the file list of each package that is installed,
    which are hundreds here, over 9p.
    """
    said = "".join(run("dpkg-deb", "-f", path, "Depends", "Pre-Depends") for path in files)
    names = set(re.findall(r"[:,|]\s*([a-z0-9][a-z0-9+.-]+)", said)) | {"libc-bin"}    # ldconfig's trigger
    folder = os.path.join(rig.folder, "dpkg")
    for part in ("info", "triggers", "updates", "parts", "alternatives"):
        os.makedirs(os.path.join(folder, part))
    with open(DPKG + "/status", encoding="utf-8") as f:
        stanzas = [s for s in f.read().split("\n\n") if s.split("\n", 1)[0].removeprefix("Package: ") in names]
    check(any(s.startswith("Package: libibverbs1\n") for s in stanzas), "libibverbs1 is not installed here")
    with open(folder + "/status", "w", encoding="utf-8") as f:
        f.write("\n\n".join(stanzas) + "\n\n")
    for name in names:
        for path in glob.glob(f"{DPKG}/info/{name}.*") + glob.glob(f"{DPKG}/info/{name}:*"):
            shutil.copy(path, folder + "/info")
    for name in ("diversions", "statoverride", "triggers/ldconfig", "info/format"):
        if os.path.exists(f"{DPKG}/{name}"):
            shutil.copy(f"{DPKG}/{name}", f"{folder}/{name}")
    return folder


def pingpong(rig, way, command, **env):
    """A pair of rc_pingpongs that has SHIFT's library inside; the log of each says so."""
    port = free_port()
    settings = {"SHIFT_KV": rig.kv, "SHIFT_LOG": "info", **env}
    argv = [*command, "ibv_rc_pingpong", "-e", "-g", GID, "-n", 100, "-p", port]
    ends = []
    for end, more in (("a", []), ("b", ["127.0.0.1"])):
        log = {"SHIFT_BACKUP": BACKUPS[end], "SHIFT_LOG_FILE": os.path.join(rig.folder, f"{way}-{end}.log")}
        ends.append(rig.start(end, [*argv, "-d", device(end), *more], f"{way}-{end}", env={**settings, **log}))
        if end == "a":
            rig.await_server(ends[0])
    rig.ends_well(*ends)
    for end in "ab":
        path = os.path.join(rig.folder, f"{way}-{end}.log")
        check(os.path.exists(path) and os.path.getsize(path), f"{way}: SHIFT has written no log at end {end}")


@case("packages.installed", needs=("dpkg", "ibv_rc_pingpong"))
def installed(rig):
    """dpkg -i of SHIFT's packages; shiftctl run, then SHIFT in the library's place; both go again."""
    files = debs(rig)
    run("mount", "--bind", database(rig, files), DPKG)
    try:
        run("dpkg", "-i", *files, timeout=SLOW_S)
        rig.tell("dpkg -i is done")
        said = run("shiftctl", "version")
        pingpong(rig, "run", ("shiftctl", "run", "--"))
        pingpong(rig, "system", (), SHIFT_ENABLE="1")
    finally:
        run("dpkg", "--purge", *reversed(PACKAGES), timeout=SLOW_S)
        run("umount", DPKG)
    return said.strip().splitlines()[0]
