#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The words of shiftlib/base/lock.h mean something: clang refuses a function that wants the lock and is called without it.

The build by clang holds all of shiftlib against these words. Here clang is given sources made up to break them, and one that
keeps to them. The mutex behind the lock is named by few files, so that nobody passes by the words.

usage: check_lock.py [ROOT]
"""
import glob
import os
import shutil
import subprocess
import sys

MUTEX = "sh_lock_mutex"
MUTEX_FILES = {"shiftlib/base/lock.h", "shiftlib/base/lock.c", "shiftlib/process.c"}
FLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-fsyntax-only", "-Wall", "-Wthread-safety", "-Werror=thread-safety", "-x", "c", "-"]
HEAD = """#include "shiftlib/base/lock.h"
int wanted(void) SH_LOCKED;
int dropped(void) SH_DROPS;
"""

# What clang says of each function; None: nothing.
SAMPLES = {
    "int f(void);\nint f(void)\n{\n\treturn wanted();\n}\n": "calling function 'wanted' requires holding",
    "int f(void);\nint f(void)\n{\n\treturn dropped();\n}\n": "calling function 'dropped' requires holding",
    "void f(void);\nvoid f(void)\n{\n\tsh_lock();\n}\n": "still held at the end of function",
    "void f(void);\nvoid f(void)\n{\n\tsh_unlock();\n}\n": "that was not held",
    "void f(void);\nvoid f(void)\n{\n\tsh_lock();\n\tsh_lock();\n\tsh_unlock();\n}\n": "already held",
    "int f(int n);\nint f(int n)\n{\n\tif (n)\n\t\tsh_lock();\n\treturn wanted();\n}\n": "requires holding",
    "int f(void) SH_LOCKED;\nint f(void)\n{\n\tsh_unlock();\n\treturn 0;\n}\n": "to be held at the end of function",
    "int f(void);\nint f(void)\n{\n\tif (!sh_lock_try())\n\t\treturn wanted();\n\tsh_unlock();\n\treturn 0;\n}\n": "requires holding",
    "int f(void);\nstatic int g(void) SH_LOCKED\n{\n\tsh_unlock();\n\tsh_lock();\n\treturn wanted() + dropped();\n}\n"
    "int f(void)\n{\n\tint ret = -1;\n\n\tif (sh_lock_try()) {\n\t\tret = g();\n\t\tsh_unlock();\n\t}\n\treturn ret;\n}\n": None,
    "void f(void *arg);\nvoid f(void *arg)\n{\n\tsh_lock_assert_held();\n\t(void)wanted();\n}\n": None,
}


def clang_says(clang, root, source):
    done = subprocess.run([clang, *FLAGS, f"-I{root}"], input=HEAD + source, capture_output=True, text=True)
    return done.returncode, done.stderr


def wrong_samples(clang, root):
    for source, wanted in SAMPLES.items():
        status, said = clang_says(clang, root, source)
        if wanted is None and (status or said):
            yield f"refused, and it keeps to the words:\n{source}{said}"
        if wanted is not None and (not status or wanted not in said):
            yield f"not refused by '{wanted}':\n{source}{said}"


def wrong_files(root):
    for path in glob.glob(os.path.join(root, "shiftlib", "**", "*.[ch]"), recursive=True):
        name = os.path.relpath(path, root)
        with open(path, encoding="utf-8") as f:
            if name not in MUTEX_FILES and MUTEX in f.read():
                yield f"{name} names {MUTEX}: it is to call sh_lock() and its like"


def main():
    root = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else ".")
    wrong = list(wrong_files(root))
    clang = shutil.which("clang")
    if clang:
        wrong += wrong_samples(clang, root)
    print("\n".join(wrong))
    if wrong:
        return 1
    if not clang:
        print("clang is not here: its part is left out")
        return 77
    print(f"{len(SAMPLES)} sources are judged as they should be")
    return 0


if __name__ == "__main__":
    sys.exit(main())
