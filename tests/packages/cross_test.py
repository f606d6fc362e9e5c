#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Packages and the wheel for arm64, by their looks: every ELF file is of that machine, wants no later glibc than 2.28, and
can be mapped with pages of 64 KiB; and the names in them are those of this machine's own packages, which are beside them.

usage: cross_test.py FOLDER OWN      FOLDER: packages for arm64; OWN: this machine's, may be missing
"""
import glob
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../scripts"))
from shipped import elf_files, glibc, machine, unpack   # pylint: disable=wrong-import-position

MACHINE = "aarch64"
FLOOR = (2, 28)
PAGE = 1 << 16
LIBRARIES = r"\b(x86_64|aarch64)-linux-gnu\b"
# What is in a name by chance: build ids, and how debhelper compresses.
BY_CHANCE = r"/\.build-id/|\.debug$"


def readelf(*argv):
    return subprocess.run(["readelf", "-W", *argv], capture_output=True, text=True, check=True).stdout


def wrong_with(path):
    """Sentences."""
    if machine(path) != MACHINE:
        return [f"is of machine {machine(path)}"]
    wanted = glibc(path)
    segments = re.findall(r"^\s+LOAD .* (0x[0-9a-f]+)$", readelf("-l", path), re.M)
    aligned = min((int(segment, 16) for segment in segments), default=PAGE)
    return [f"wants glibc {wanted}"] * (wanted > FLOOR) + [f"is aligned to {aligned} bytes"] * (aligned < PAGE)


def names_of(package):
    """As all machines have them."""
    with tempfile.TemporaryDirectory() as folder:
        unpack(package, folder)
        names = [os.path.relpath(os.path.join(top, name), folder) for top, _, names in os.walk(folder) for name in names]
    return {re.sub(LIBRARIES, "TRIPLET", name) for name in names if not re.search(BY_CHANCE, name)}


def own_of(package, own):
    """This machine's package of that name; None."""
    kind = r"_(arm64)\.deb$|_(aarch64)\.whl$"
    pattern = re.sub(kind, lambda m: "_*.deb" if m[1] else "_*.whl", os.path.basename(package))
    found = glob.glob(os.path.join(own, pattern))
    return found[0] if len(found) == 1 else None


def check(package, own):
    """How many ELF files there are, and sentences."""
    with tempfile.TemporaryDirectory() as folder:
        unpack(package, folder)
        files = list(elf_files(folder))
        wrong = [f"{os.path.relpath(path, folder)} {said}" for path in files for said in wrong_with(path)]
    other = own_of(package, own)
    if other:
        here, there = names_of(package), names_of(other)
        wrong += [f"has no {name}" for name in sorted(there - here)] + [f"has {name} more" for name in sorted(here - there)]
    return len(files), wrong, other


def main():
    folder, own = sys.argv[1:3]
    packages = sorted(path for kind in ("deb", "whl") for path in glob.glob(os.path.join(folder, "*." + kind))
                      if "-dbgsym_" not in path)
    passed = failed = skipped = 0
    for package in packages:
        files, wrong, other = check(package, own)
        name = os.path.basename(package)
        failed += bool(wrong)
        skipped += not wrong and not other
        passed += not wrong and bool(other)
        print(f"{name}: {files} ELF files" + ("" if other else f"; skipped: {own} has none to compare its names with"))
        print("".join(f"  FAILED: {line}\n" for line in wrong), end="")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not packages else 0


if __name__ == "__main__":
    sys.exit(main())
