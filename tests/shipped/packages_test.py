#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""check-packages.py, by which each `make deb` and `make rpm` ends, notices packages that are wrong. RPMs where rpmbuild is.

usage: packages_test.py ROOT CC
"""
import os
import shutil
import subprocess
import sys
import tempfile

ROOT, CC = sys.argv[1:3]
LATE = "#include <pthread.h>\nint f(pthread_t t) { return pthread_join(t, 0); }\n"     # of libc.so.6 since 2.34
EARLY = "#include <stdlib.h>\nvoid *f(void) { return malloc(1); }\n"
CONTROL = "Package: t\nVersion: 1\nArchitecture: all\nMaintainer: t <t@t.invalid>\nDepends: libc6 (>= {})\nDescription: t\n"
SPEC = """Name: shift-rdma
Version: 1
Release: 1
Summary: t
License: t
%global _build_id_links none
%global debug_package %{{nil}}
{more}
%description
t
%install
cp -a {tree}/. %{{buildroot}}
%files
/usr/lib/libt.so
"""


def tree(folder, name, source):
    path = os.path.join(folder, name)
    os.makedirs(path + "/usr/lib")
    os.chmod(path, 0o755)
    with open(path + ".c", "w", encoding="ascii") as f:
        f.write(source)
    subprocess.run([CC, "-shared", "-fPIC", "-o", path + "/usr/lib/libt.so", path + ".c"], check=True)
    return path


def deb(folder, name, source, asked):
    path = tree(folder, name, source)
    os.mkdir(path + "/DEBIAN")
    with open(path + "/DEBIAN/control", "w", encoding="ascii") as f:
        f.write(CONTROL.format(asked))
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", path, path + ".deb"], check=True, stdout=subprocess.DEVNULL)
    return path + ".deb"


def rpm(folder, name, source, more):
    path = tree(folder, name, source)
    with open(path + ".spec", "w", encoding="ascii") as f:
        f.write(SPEC.format(tree=path, more=more))
    subprocess.run(["rpmbuild", "-bb", "--quiet", "--define", f"_topdir {path}-top", path + ".spec"], check=True,
                   capture_output=True)
    found = [os.path.join(top, n) for top, _, names in os.walk(path + "-top/RPMS") for n in names]
    return found[0]


def said(path):
    done = subprocess.run([sys.executable, "-B", os.path.join(ROOT, "scripts/check-packages.py"), path], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return ("" if done.returncode else "well: ") + done.stdout


def main():
    if not shutil.which("dpkg-deb"):
        print("skipped: this is no Debian")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        cases = [("well: ", deb(folder, "good", EARLY, "2.28")), ("wants glibc 2.34", deb(folder, "late", LATE, "2.28")),
                 ("Depends on libc6", deb(folder, "asks", EARLY, "2.34"))]
        if all(map(shutil.which, ("rpmbuild", "rpm2archive"))):
            quiet = "%global __provides_exclude_from .*"
            cases += [("well: ", rpm(folder, "r-good", EARLY, quiet)), ("wants glibc 2.34", rpm(folder, "r-late", LATE, quiet)),
                      ("Provides: libt.so", rpm(folder, "r-provides", EARLY, "")),
                      ("Requires: libhiredis", rpm(folder, "r-asks", EARLY, quiet + "\nRequires: libhiredis.so.0.14()(64bit)"))]
        wrong = [f"{path}: {said(path)}" for want, path in cases if want not in said(path)]
    print("\n".join(wrong) or f"{len(cases)} packages judged")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
