#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Every SHIFT_ variable that the code reads is in docs/man/shift.7, and nothing else is; all but the one
that names the settings file can be set in it; the pages pass groff without a warning where it is installed.

usage: check_man.py [ROOT]
"""
import glob
import os
import re
import shutil
import subprocess
import sys

READ = re.compile(r'(?:getenv|config_text|config_ms|config_number|config_on|sh_setting|settings_true)\(\s*"(SHIFT_[A-Z0-9_]+)"')
# In the library they must be read by secure_getenv(): setuid programs ignore them.
PLAIN = re.compile(r'(?<!secure_)getenv\(\s*(?:"SHIFT_|"XDG_|name)')
LIBRARY = ("libibverbs", "shiftlib", "kvclient")
MODULES = ("libibverbs", "shiftlib", "providers", "kvclient", "tools")


def read_by_code(root):
    names = {}
    for module in MODULES:
        for path in glob.glob(os.path.join(root, module, "**", "*.[ch]"), recursive=True):
            with open(path, encoding="utf-8") as f:
                for name in READ.findall(f.read()):
                    names.setdefault(name, os.path.relpath(path, root))
    return names


def read_plainly(root):
    for module in LIBRARY:
        for path in glob.glob(os.path.join(root, module, "**", "*.[ch]"), recursive=True):
            with open(path, encoding="utf-8") as f:
                if PLAIN.search(f.read()):
                    yield f"{os.path.relpath(path, root)} reads a variable by plain getenv()"


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", "..")
    with open(os.path.join(root, "docs/man/shift.7"), encoding="utf-8") as f:
        documented = set(re.findall(r"^\.B (SHIFT_[A-Z0-9_]+)$", f.read(), re.M))
    code = read_by_code(root)
    wrong = [f"{code[name]} reads {name}, which docs/man/shift.7 does not describe"
             for name in sorted(set(code) - documented)]
    wrong += [f"docs/man/shift.7 describes {name}, which nothing reads"
              for name in sorted(documented - set(code))] if code else ["no variable is read"]
    with open(os.path.join(root, "shiftlib/base/settings.c"), encoding="utf-8") as f:
        settable = set(re.findall(r'"(SHIFT_[A-Z0-9_]+)"', f.read().split("names[] = {")[1].split("}")[0]))
    wrong += [f"{name} is described, but cannot be set in shift.conf, or the other way round"
              for name in sorted((documented - {"SHIFT_CONF"}) ^ settable)]
    wrong += read_plainly(root)
    for page in sorted(path for folder in ("docs", "sdr/docs") for path in glob.glob(os.path.join(root, folder, "man/*.[1-8]"))):
        if shutil.which("groff"):
            said = subprocess.run(["groff", "-man", "-Tascii", "-ww", "-z", page], text=True,
                                  capture_output=True, check=False).stderr
            wrong += said.splitlines()
    print("\n".join(wrong) if wrong else f"{len(documented)} variables are described")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
