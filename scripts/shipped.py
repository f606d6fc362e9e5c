# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What the scripts of this folder share: the version, what a build installs, and what is in a package."""
import os
import re
import subprocess
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def version():
    with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as f:
        return re.search(r"project\(shift VERSION ([\d.]+)", f.read()).group(1)


def is_elf(path):
    with open(path, "rb") as f:
        return f.read(4) == b"\x7fELF"


def machine(path):
    """The architecture of an ELF file, as Python names it."""
    with open(path, "rb") as f:
        head = f.read(20)
    return {62: "x86_64", 183: "aarch64"}[int.from_bytes(head[18:20], "little")]


def glibc(path):
    """The newest version of glibc that a file wants."""
    out = subprocess.run(["readelf", "-W", "--dyn-syms", path], capture_output=True, text=True, check=True).stdout
    return max((tuple(map(int, v.split("."))) for v in re.findall(r"@GLIBC_([\d.]+)", out)), default=(2, 17))


def installed(build, folder):
    """(path, name below the prefix) of each regular file."""
    subprocess.run(["cmake", "--install", build, "--strip"], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "DESTDIR": folder})
    for top, _, names in sorted(os.walk(folder)):
        for name in sorted(names):
            path = os.path.join(top, name)
            if not os.path.islink(path):
                yield path, os.path.relpath(path, folder)


def unpack(package, folder):
    """Of a .deb, a binary .rpm or a .whl."""
    if package.endswith(".deb"):
        subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
    elif package.endswith(".rpm"):
        with open(package, "rb") as f:
            archive = subprocess.run(["rpm2archive", "-n"], stdin=f, stdout=subprocess.PIPE, check=True).stdout
        subprocess.run(["tar", "-xf", "-", "-C", folder], input=archive, check=True)
    else:
        with zipfile.ZipFile(package) as archive:
            archive.extractall(folder)


def elf_files(folder):
    """The paths of the ELF files that are loaded or run."""
    for top, _, names in os.walk(folder):
        for path in (os.path.join(top, name) for name in names):
            if not os.path.islink(path) and is_elf(path):
                yield path
