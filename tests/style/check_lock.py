#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The words of shiftlib/base/locked.h mean something: clang refuses a function that wants the lock and is called without it.

clang reads the sources of the drop-in with the options of the build by gcc, and holds each call against these words
(-Wthread-safety -Werror). It is also given sources made up to break them, and some that keep to them. The mutex behind the
lock is named by few files, so that nobody passes by the words.

usage: check_lock.py --build DIR
"""
import argparse
import glob
import json
import os
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", ".."))
MUTEX = "sh_lock_mutex"
MUTEX_FILES = {"shiftlib/base/lock.h", "shiftlib/base/lock.c", "shiftlib/process.c"}
FOLDERS = ("shiftlib/", "libibverbs/")
MIN_SOURCES = 100       # fewer: the build was not understood
# Warnings of another kind are the builds' matter.
FLAGS = ["-fsyntax-only", "-Wno-everything", "-Wthread-safety", "-Werror=thread-safety"]
OWN = ["-std=gnu11", "-D_GNU_SOURCE", f"-I{ROOT}"]
KEPT = ("-I", "-D", "-isystem", "-std=")    # of a command of the build
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


def clang_says(clang, options, text=None):
    """(status, what it says) of a source: the last of the options, or the text."""
    end = [] if text is None else ["-x", "c", "-"]
    done = subprocess.run([clang, *FLAGS, *options, *end], cwd=ROOT, input=text, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def wrong_samples(clang):
    for source, wanted in SAMPLES.items():
        status, said = clang_says(clang, OWN, HEAD + source)
        if wanted is None and (status or said):
            yield f"refused, and it keeps to the words:\n{source}{said}"
        if wanted is not None and (not status or wanted not in said):
            yield f"not refused by '{wanted}':\n{source}{said}"


def commands(build):
    """{source of the drop-in: options of its build}"""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
        entries = json.load(f)
    found = {}
    for entry in entries:
        name = os.path.relpath(os.path.join(entry["directory"], entry["file"]), ROOT)
        if name.startswith(FOLDERS):
            found.setdefault(name, [word for word in shlex.split(entry["command"]) if word.startswith(KEPT)])
    return found


def wrong_sources(clang, sources):
    if len(sources) < MIN_SOURCES:
        yield f"only {len(sources)} sources are in the build"
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for status, said in pool.map(lambda item: clang_says(clang, [*item[1], item[0]]), sorted(sources.items())):
            if status or said:
                yield said or f"clang ended with {status}"


def wrong_files():
    for path in glob.glob(os.path.join(ROOT, "shiftlib", "**", "*.[ch]"), recursive=True):
        name = os.path.relpath(path, ROOT)
        with open(path, encoding="utf-8") as f:
            if name not in MUTEX_FILES and MUTEX in f.read():
                yield f"{name} names {MUTEX}: it is to call sh_lock() and its like"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--build", required=True)
    args = parser.parse_args()
    wrong, sources = list(wrong_files()), commands(os.path.abspath(args.build))
    clang = shutil.which("clang")
    if clang:
        wrong += [*wrong_samples(clang), *wrong_sources(clang, sources)]
    print("\n".join(wrong))
    if wrong:
        return 1
    if not clang:
        print("clang is not here: its part is left out")
        return 77
    print(f"{len(SAMPLES)} samples are judged as they should be; {len(sources)} sources keep to the words")
    return 0


if __name__ == "__main__":
    sys.exit(main())
