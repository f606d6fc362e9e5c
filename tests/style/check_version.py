#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""CMakeLists.txt has the version, from which programs, the wheel and the source archive take it. The files whose
format wants the number itself name the same one: debian/changelog, the spec file and CHANGELOG.md, each at its head.

usage: check_version.py [ROOT]
"""
import os
import re
import sys

SOURCE = ("CMakeLists.txt", r"^project\(shift VERSION ([\d.]+) ")
COPIES = {
    "debian/changelog": r"\Ashift-rdma \(([^)]+)\) ",
    "CHANGELOG.md": r"^## (\S+) \(\d{4}-\d\d-\d\d\)$",
    "rpm/shift-rdma.spec": r"^Version: +(\S+)$",
}


def found(root, name, pattern):
    with open(os.path.join(root, name), encoding="utf-8") as f:
        match = re.search(pattern, f.read(), re.M)
    return match.group(1) if match else "none"


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    version = found(root, *SOURCE)
    wrong = [f"{name} has version {found(root, name, pattern)}, {SOURCE[0]} {version}"
             for name, pattern in COPIES.items() if found(root, name, pattern) != version]
    print("\n".join(wrong) or f"version {version}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
