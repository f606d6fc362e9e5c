# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Breaks one rule of an engine at a time, in a copy of its source, and runs the tests, one of which must notice."""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))))
LIMIT = 180  # seconds: a mutant that hangs is noticed too


class Engine:
    """mutants: (what, file, text, instead), the text there once. libs: of the build, in front of whose objects lie those
    of the edited file. tests: (source, whether it takes rounds and a seed)."""

    def __init__(self, name, mutants, libs, tests):
        self.name, self.mutants, self.libs, self.tests = name, mutants, libs, tests

    def source(self, tree, file):
        return os.path.join(tree, "providers", self.name, file)

    def misplaced(self, mutant):
        """Why that edit does not find its one place; empty: it does."""
        _, file, text, _ = mutant
        with open(self.source(ROOT, file), encoding="utf-8") as f:
            count = f.read().count(text)
        return "" if count == 1 else f"{file} has {count} times {text!r}"

    def edit(self, tree, mutant):
        """What is to be compiled then."""
        what, file, text, instead = mutant
        why = self.misplaced(mutant)
        if why:
            raise SystemExit(f"{what}: {why}: bring the list up to date")
        path = self.source(tree, file)
        with open(path, encoding="utf-8") as f:
            source = f.read()
        with open(path, "w", encoding="utf-8") as f:
            f.write(source.replace(text, instead))
        return [path] if file.endswith(".c") else self.users(tree, file)

    def users(self, tree, header):
        """Of functions that a header has in it."""
        folder = self.source(tree, "")
        sources = [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".c")]
        return [path for path in sources if f"providers/{self.name}/{header}" in open(path, encoding="utf-8").read()]


def build_test(engine, tree, build, edited, test):
    program = os.path.join(tree, os.path.basename(test)[:-2])
    done = subprocess.run(["gcc", "-O1", "-g", "-std=gnu11", "-w", "-D_GNU_SOURCE", "-fno-strict-aliasing",
                           "-I", tree, "-I", ROOT, *edited, os.path.join(ROOT, test), "-o", program,
                           *(os.path.join(build, lib) for lib in engine.libs),
                           f"-Wl,-rpath,{os.path.join(build, 'tests', 'lib')}", "-ldl", "-lpthread", "-lcmocka"],
                          capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    return program


def said(output):
    """What the test noticed, without the place of the source."""
    lines = [line for line in output.split("\n") if re.search(r"replay with|NIC trips|\[  FAILED  \]", line)]
    return re.sub(r"^\S*/", "", lines[0]) if lines else output.strip().split("\n")[0][:100]


def noticed(args, program, takes_rounds):
    """What it said; empty: it passed."""
    argv = [program, str(args.rounds), str(args.seed)] if takes_rounds else [program]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return "it hangs"
    return (said(done.stderr) or f"it ended with {done.returncode}") if done.returncode else ""


def judge(engine, args, mutant):
    first = ""
    with tempfile.TemporaryDirectory() as tree:
        shutil.copytree(os.path.join(ROOT, "providers"), os.path.join(tree, "providers"))
        edited = engine.edit(tree, mutant)
        for test, takes_rounds in engine.tests:
            first = noticed(args, build_test(engine, tree, args.build, edited, test), takes_rounds)
            if first:
                break
    print(f"{'ok  ' if first else 'FAIL'} {mutant[0]}: {first or 'NOT noticed'}", flush=True)
    return bool(first)


def apply_all(engine):
    reasons = [f"{mutant[0]}: {why}" for mutant in engine.mutants if (why := engine.misplaced(mutant))]
    print("\n".join(reasons) if reasons else f"all {len(engine.mutants)} edits apply")
    return 1 if reasons else 0


def main(engine, usage, rounds):
    p = argparse.ArgumentParser(description=usage)
    p.add_argument("build", nargs="?", default="build")
    p.add_argument("--apply", action="store_true", help="only sees whether each edit still finds its place: takes no time")
    p.add_argument("--only", default="", help="a part of its name")
    p.add_argument("--rounds", type=int, default=rounds)
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args()
    args.build = os.path.abspath(args.build)
    if args.apply:
        sys.exit(apply_all(engine))
    results = [judge(engine, args, mutant) for mutant in engine.mutants if args.only in mutant[0]]
    print(f"{sum(results)} of {len(results)} were noticed")
    sys.exit(0 if results and all(results) else 1)
