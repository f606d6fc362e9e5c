#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Orders of memory that SHIFT relies on, tried on Arm's own model of its architecture by herd7: each *.litmus of this
folder has one of them in arm64's instructions, and an outcome that must never be. Each barrier, left out as the file's
"without" lines say, must let that outcome be: so the test can fail, and the barrier is needed.

  run_litmus.py [--herd7 PROGRAM] [NAME...]

In front of a test stand: (* code: FILE WORD *), where the pattern is, which must have that word; and
(* without: OLD -> NEW and OLD -> NEW *). Ends with 77 if there is no herd7.
"""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def observed(herd7, text):
    """Never, Sometimes or Always: whether the outcome can be. Or what herd7 says instead."""
    with tempfile.NamedTemporaryFile("w", suffix=".litmus") as f:
        f.write(text)
        f.flush()
        done = subprocess.run([herd7, f.name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300,
                              check=False)
    found = re.search(r"^Observation \S+ (\w+) ", done.stdout, re.M)
    return found[1] if found and not done.returncode else done.stdout.strip()


def weaker(text, rule):
    """The test without a barrier, of its code alone."""
    head, brace, code = text.partition("\n{")
    for change in rule.split(" and "):
        old, new = change.strip().split(" -> ")
        if old not in code:
            raise ValueError(f"nothing here is {old}")
        code = re.sub(rf"(?<!\w){re.escape(old)}(?!\w)", new, code)
    return head + brace + code


def judge(herd7, path):
    """Sentences about what is wrong, and how many runs there were."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    wrong, rules = [], re.findall(r"\(\* without: (.*?) \*\)", text)
    for file, word in re.findall(r"\(\* code: (\S+) (\S+) \*\)", text) or [("", "")]:
        if not file or word not in open(os.path.join(ROOT, file), encoding="utf-8").read():
            wrong.append(f"{file} has no {word}: the pattern is elsewhere now, or gone")
    if not rules:
        wrong.append("no barrier is left out")
    said = observed(herd7, text)
    if said != "Never":
        wrong.append(f"the outcome is possible: {said}")
    for rule in rules:
        said = observed(herd7, weaker(text, rule))
        if said != "Sometimes":
            wrong.append(f"the same without it ({rule}): {said}")
    return wrong, 1 + len(rules)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--herd7", default="herd7")
    p.add_argument("names", nargs="*")
    args = p.parse_args()
    paths = sorted(glob.glob(os.path.join(HERE, "*.litmus")))
    paths = [path for path in paths if not args.names or os.path.basename(path)[:-len(".litmus")] in args.names]
    herd7 = shutil.which(args.herd7)
    if not herd7:
        print(f"skipped: no {args.herd7} (scripts/install-litmus.sh gets it)\n0 passed, 0 failed, {len(paths)} skipped")
        return 77
    begun, failed = time.monotonic(), 0
    for path in paths:
        wrong, runs = judge(herd7, path)
        failed += bool(wrong)
        print(f"{os.path.basename(path)}: {'; '.join(wrong) or f'never; {runs - 1} without a barrier: possible'}", flush=True)
    print(f"{time.monotonic() - begun:.1f} s\n{len(paths) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
