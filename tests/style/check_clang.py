#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""clang reads the sources of the drop-in as gcc builds them, and holds each call against the lock that it wants
(shiftlib/base/locked.h): -Wthread-safety -Werror. A function that calls without the lock is named, with the call.

usage: check_clang.py --build DIR
"""
import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

FOLDERS = ("shiftlib/", "libibverbs/")
FLAGS = ["-fsyntax-only", "-Wno-everything", "-Wthread-safety", "-Werror=thread-safety"]
KEPT = ("-I", "-D", "-isystem", "-std=")
UNLOCKED = '#include "shiftlib/base/lock.h"\nint wanted(void) SH_LOCKED;\nint f(void);\nint f(void)\n{\n\treturn wanted();\n}\n'


def commands(build, root):
    """{source: its -I, -D and the like}"""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
        entries = json.load(f)
    found = {}
    for entry in entries:
        name = os.path.relpath(os.path.join(entry["directory"], entry["file"]), root)
        if name.startswith(FOLDERS):
            found.setdefault(name, [word for word in shlex.split(entry["command"]) if word.startswith(KEPT)])
    return found


def refuses(clang, root, flags, source):
    """What clang says of it; empty: nothing."""
    text = source.endswith("\n")
    done = subprocess.run([clang, *FLAGS, *flags, *(["-x", "c", "-"] if text else [source])], cwd=root,
                          input=source if text else None, capture_output=True, text=True, check=False)
    return done.stderr or (f"clang ended with {done.returncode}" if done.returncode else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--build", required=True)
    args = parser.parse_args()
    root = os.path.abspath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", ".."))
    clang = shutil.which("clang")
    if not clang:
        print("clang is not here")
        return 77
    if "requires holding" not in refuses(clang, root, [f"-I{root}"], UNLOCKED):
        print("check_clang.py does not work: a call without the lock is not refused")
        return 1
    sources = commands(os.path.abspath(args.build), root)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        said = list(pool.map(lambda item: refuses(clang, root, item[1], item[0]), sorted(sources.items())))
    wrong = [text for text in said if text]
    print("\n".join(wrong) if wrong else f"{len(sources)} sources call with the lock that each function wants")
    return 1 if wrong or len(sources) < 100 else 0


if __name__ == "__main__":
    sys.exit(main())
