#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Makes the wheel of shift-rdma out of a build: the drop-in, shiftctl, the exporter, simnic, man pages and the packages
in python/. The same build gives the same bytes. Needs Python and binutils alone.

usage: make-wheel.py BUILD FOLDER      where the wheel goes; it is made
"""
import base64
import hashlib
import os
import re
import sys
import tempfile
import zipfile

from shipped import ROOT, glibc, installed, machine, version

NAME = "shift_rdma"
# What is taken of an installation, and where it goes in shift/_files/.
BINARIES = [
    (r"lib/.*shift/(libibverbs\.so\.1|librdmacm\.so\.1)$", r"lib/shift/\1"),
    (r"lib/.*shift/modules/(libshift-redis\.so)$", r"lib/shift/modules/\1"),
    (r"lib/.*simnic/(libsimnic\.so)$", r"lib/\1"),
    (r"lib/.*?(libnccl-net-sdr\.so)$", r"lib/sdr/\1"),
    (r"lib/.*?(libsdr\.so\.1)[\d.]*$", r"lib/sdr/\1"),
    (r"bin/(sdr_perf|shiftctl|shift-exporter|simnicctl)$", r"bin/\1"),
    (r"libexec/shift/(shift-probe)$", r"bin/\1"),     # where shiftctl looks first
]
MAN = r"share/man/(man\d/(?:shift(?!_).*|simnicctl|sdr_perf|nccl-net-sdr)\.\d)$"
PACKAGES = ("shift", "simnic")
SCRIPTS = {"shiftctl": "shiftctl", "shiftrun": "shiftrun", "simnicctl": "simnicctl", "shift-exporter": "exporter", "sdr_perf": "sdr_perf"}
# Wheels know no time before 1980.
STAMP = (1980, 1, 1, 0, 0, 0)


def metadata(tag):
    with open(os.path.join(ROOT, "docs/wheel.md"), encoding="utf-8") as f:
        text = f.read().split("-->\n", 1)[1]
    head = ["Metadata-Version: 2.1", "Name: shift-rdma", f"Version: {version()}",
            "Summary: keep RDMA programs running when a NIC, cable, port or switch dies",
            "License: GPL-2.0-only OR Linux-OpenIB", "Requires-Python: >=3.8", "Classifier: Operating System :: POSIX :: Linux",
            "Classifier: Typing :: Typed", "Description-Content-Type: text/markdown"]
    wheel = ["Wheel-Version: 1.0", f"Generator: make-wheel ({version()})", "Root-Is-Purelib: false", f"Tag: py3-none-{tag}"]
    points = ["[console_scripts]", *(f"{name} = shift._main:{function}" for name, function in SCRIPTS.items()),
              "[pytest11]", "simnic = simnic._pytest"]
    return {"METADATA": "\n".join(head) + "\n\n" + text, "WHEEL": "\n".join(wheel) + "\n",
            "entry_points.txt": "\n".join(points) + "\n", "top_level.txt": "".join(f"{package}\n" for package in PACKAGES)}


def contents(build, folder):
    """{name in the wheel: (bytes, whether it is a program)}, and its tag."""
    info, data = f"{NAME}-{version()}.dist-info", f"{NAME}-{version()}.data"
    files, newest, kind, taken = {}, (2, 17), None, set()
    for path, name in installed(build, folder):
        with open(path, "rb") as f:
            content = f.read()
        for pattern, place in BINARIES:
            match = re.search(pattern, name)
            if match:
                taken.add(match.group(1))
                files["shift/_files/" + match.expand(place)] = (content, True)
                newest, kind = max(newest, glibc(path)), machine(path)
        match = re.search(MAN, name)
        if match:
            files[f"{data}/data/share/man/{match.group(1)}"] = (content, False)
    missing = {"libibverbs.so.1", "librdmacm.so.1", "libshift-redis.so", "libsimnic.so", "libnccl-net-sdr.so", "libsdr.so.1", *SCRIPTS} - {"shiftrun"} - taken
    if missing:
        sys.exit(f"make-wheel: {build} installs no {', '.join(sorted(missing))}")
    if newest > (2, 28):
        sys.exit(f"make-wheel: the build wants glibc {newest}; build with SHIFT_GLIBC_FLOOR=2.28")
    tag = f"manylinux_2_28_{kind}"
    for package in PACKAGES:
        for name in sorted(os.listdir(os.path.join(ROOT, "python", package))):
            if name.endswith((".py", ".typed")):
                with open(os.path.join(ROOT, "python", package, name), "rb") as f:
                    files[f"{package}/{name}"] = (f.read().replace(b"@VERSION@", version().encode()), False)
    for name in sorted(os.listdir(os.path.join(ROOT, "LICENSES"))):
        with open(os.path.join(ROOT, "LICENSES", name), "rb") as f:
            files[f"{info}/licenses/{name}"] = (f.read(), False)
    files.update({f"{info}/{name}": (text.encode(), False) for name, text in metadata(tag).items()})
    return files, tag


def record(files):
    """The list of all files with their sums, which a wheel must have."""
    lines = []
    for name, (content, _) in sorted(files.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(content)}")
    return "\n".join([*lines, f"{NAME}-{version()}.dist-info/RECORD,,", ""]).encode()


def write(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, (content, program) in files.items():
            entry = zipfile.ZipInfo(name, STAMP)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = (0o100755 if program else 0o100644) << 16
            archive.writestr(entry, content)


def main():
    build, where = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as folder:
        files, tag = contents(build, folder)
    files = dict(sorted(files.items()))
    files[f"{NAME}-{version()}.dist-info/RECORD"] = (record(files), False)
    os.makedirs(where, exist_ok=True)
    path = os.path.join(where, f"{NAME}-{version()}-py3-none-{tag}.whl")
    write(path, files)
    print(path)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip().splitlines()[-1])
    main()
