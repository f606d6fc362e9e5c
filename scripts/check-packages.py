#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What packages ask of a system, and what they promise to others: each file in them runs from the glibc for which the
build links (SHIFT_GLIBC_FLOOR), the package says so, and an RPM takes part in no search for libraries.

usage: check-packages.py PACKAGE...     .deb, .rpm (binary ones) or .whl
"""
import os
import re
import subprocess
import sys
import tempfile

from shipped import ROOT, elf_files, glibc, unpack

# What an RPM may ask for, besides files and packages of its own; GLIBC_ is held to the floor.
ASKED = (r"rpmlib\(.*|/bin/sh|/usr/bin/pkg-config|config\(shift-rdma\).*|shift-rdma.*|rtld\(GNU_HASH\)|libibverbs\.so\.1\(\)\(64bit\)|"
         r"libmlx5\.so\.1\(\)\(64bit\)|libisal\.so\.2\(\)\(64bit\)|nccl-net-sdr.*|(libc\.so\.6|libpthread\.so\.0|libdl\.so\.2|librt\.so\.1|libm\.so\.6|ld-linux-[\w-]+\.so\.\d)"
         r"\((GLIBC_([\d.]+))?\)\(64bit\)")


def number(text):
    return tuple(int(part) for part in text.split("."))


def floor():
    with open(os.path.join(ROOT, "cmake/floor/floor.cmake"), encoding="utf-8") as f:
        return re.search(r"^set\(SHIFT_GLIBC_FLOOR ([\d.]+) ", f.read(), re.M).group(1)


def output(*argv, **more):
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, **more).stdout


def programs(folder):
    """{name: newest version of glibc} of the ELF files that are loaded or run."""
    return {os.path.relpath(path, folder): glibc(path) for path in elf_files(folder)}


def wrong_deb(path, oldest, found):
    depends = output("dpkg-deb", "-f", path, "Depends", text=True)
    asked = re.findall(r"\blibc6 \(>= ([\d.]+)\)", depends)
    if found and asked != [oldest]:
        yield f"Depends on libc6 {asked or 'not at all'}, and runs from {oldest}"
    yield from (f"Depends: {word} is one distribution's alone" for word in re.findall(r"libhiredis\S*|libjansson\S*", depends))


def wrong_rpm(path, oldest, _):
    for line in output("rpm", "-qp", "--nosignature", "--requires", path, text=True).splitlines():
        match = re.fullmatch(ASKED, line.strip())
        if not match or match.group(3) and number(match.group(3)) > number(oldest):
            yield f"Requires: {line}"
    for line in output("rpm", "-qp", "--nosignature", "--provides", path, text=True).splitlines():
        if ".so" in line:
            yield f"Provides: {line}"


def wrong_wheel(path, oldest, _):
    if "manylinux_" + oldest.replace(".", "_") not in path:
        yield f"its name does not say that it runs from glibc {oldest}"


def wrong_with(path, oldest):
    with tempfile.TemporaryDirectory() as folder:
        unpack(path, folder)
        found = programs(folder)
    yield from (f"{name} wants glibc {'.'.join(map(str, version))}" for name, version in sorted(found.items())
                if version > number(oldest))
    kind = {".deb": wrong_deb, ".rpm": wrong_rpm, ".whl": wrong_wheel}[os.path.splitext(path)[1]]
    yield from kind(path, oldest, found)


def main():
    paths = [path for path in sys.argv[1:] if not path.endswith(".src.rpm") and "-dbgsym_" not in path]
    oldest = floor()
    wrong = [f"{os.path.basename(path)}: {line}" for path in paths for line in wrong_with(path, oldest)]
    print("\n".join(wrong) or f"check-packages: {len(paths)} packages run from glibc {oldest}, and say so")
    return bool(wrong)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__.strip().splitlines()[-1])
    sys.exit(main())
