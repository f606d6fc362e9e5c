#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""
The rdma-core python tests that the distribution ships, on the software NIC: as it is, and with
SHIFT under them. With SHIFT nothing may fail that passes without: the exit status says so.

Each test class has a fabric and a process of its own. A test that crashes or hangs ends only
itself: the rest of its class runs on in a new process.

Exit: 0 nothing is worse with SHIFT; 1 something is; 77 the tests are not installed.
"""
import argparse
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

from shiftlab.lab import SKIPPED, Lab, Shift, Stuck
from shiftlab.pyverbs import ENDINGS, ENV, PACKAGE, WAYS, Batch, Runner, tests_installed, unpack_tests

HERE = os.path.dirname(os.path.abspath(__file__))
RESULTS = os.path.join(HERE, "results.txt")
DEVX = {"SIMNIC_DEVX": "1"}  # as kernels grant it: keys of lists are made by it
ADDRESS = "10.0.0.1"        # of h0/mlx5_0: `ip`, which the tests would ask, does not know it


class Simnic:
    """Each process has a fabric of its own."""

    def __init__(self, args, folder):
        self.args = args
        self.runner = Runner(folder, "mlx5_0", self.launch, address=ADDRESS)

    def launch(self, way, argv):
        with Lab(self.args.build) as lab:
            program = lab.start("h0", argv, shift=Shift() if way == "shift" else None, env={**ENV, **DEVX})
            try:
                status = program.wait(self.args.seconds)
            except Stuck:
                program.end()
                status = None
            if self.args.verbose:
                print(program.tail(200), flush=True)
        return status

    def classes(self):
        """Every class that was asked for, and the modules that cannot even be imported."""
        tests, unusable = self.runner.list()
        found = {}
        for test in tests:
            name = test.rpartition(".")[0]
            found.setdefault(name, Batch(name, [])).tests.append(test)
        return [c for c in found.values() if re.search(self.args.only, c.name)], unusable

    def run(self):
        begun = time.monotonic()
        classes, unusable = self.classes()
        for cls in classes:
            for way in self.args.ways:
                self.runner.run_batch(cls, way)
            sums = ", ".join(f"{way} {'/'.join(str(n) for n in cls.counts(way))}" for way in self.args.ways)
            print(f"{cls.name:52} {sums}", flush=True)
            for test in cls.worse():
                print(f"    WORSE {test}: {cls.results['shift'][test]}", flush=True)
        print(f"{len(classes)} classes, {time.monotonic() - begun:.0f} s "
              "(passed/failed/skipped)")
        return classes, unusable


# ---- the page -----------------------------------------------------------------------------------

def tidy(why):
    """One reason for what differs only in numbers or addresses; on one line."""
    why = re.sub(r"0x[0-9a-f]{6,}", "0x…", why)
    why = re.sub(r"^(\w+\.)*(Pyverbs\w+Error|AssertionError|unittest\.case\.SkipTest): ", "", why)
    why = why.replace("\n", " ")
    return why if len(why) <= 110 else why[:107] + "…"


def outcomes(classes, way):
    """By ending and reason: in which classes, and how many of their tests."""
    where = collections.defaultdict(list)
    for cls in classes:
        counted = collections.Counter((ending, tidy(why)) for ending, why in cls.results[way].values())
        for outcome, n in counted.items():
            where[outcome].append(f"{cls.name[len('test_'):]} {n}")
    return where


def lists(classes, way, endings=ENDINGS):
    where = outcomes(classes, way)
    for ending, why in sorted((o for o in where if o[0] in endings), key=lambda o: (ENDINGS.index(o[0]), o[1])):
        yield f"- {ending}{why and ': ' + why}: {', '.join(where[ending, why])}"


def versions():
    asked = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${Version}, ", PACKAGE,
                            "libibverbs1", "ibverbs-providers"],
                           capture_output=True, text=True, check=False)
    return asked.stdout.rstrip(", ")


INTRO = """<!-- SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB -->
# The rdma-core python tests on simnic

Written by `make pyverbs` (`tests/pyverbs/run_pyverbs.py --write`); do not edit. The tests of the distribution's
python3-pyverbs run unchanged on one NIC of the software fabric, each class in its own process, without SHIFT and under
`shiftctl run`. The target fails if a test passes only without SHIFT. `tests/pyverbs/results.txt` has the results
of each class, and why tests were skipped: simnic does not offer what they need.

The same on a real kernel's soft-RoCE: `make test-kernel CASE='pyverbs.*'` ([the kernel lane](../tests/kernel/README.md)).
"""


def write_page(path, classes, unusable):
    """A summary; what failed and what SHIFT changed."""
    stock, shift = (", ".join(f"{sum(c.count(way, e) for c in classes)} {e}" for e in ENDINGS) for way in WAYS)
    worse = sum(len(c.worse()) for c in classes)
    differ = [c for c in classes if outcomes([c], "stock") != outcomes([c], "shift")]
    lines = [INTRO, f"With {versions()}:", "", f"- without SHIFT: {stock}", f"- with SHIFT: {shift}; worse: **{worse}**"]
    lines += ["", "Failures without SHIFT, by class, with the number of tests:", "", *lists(classes, "stock", ("failed",))]
    if differ:
        lines += ["", "With SHIFT these classes differ:", "", *lists(differ, "shift")]
    if unusable:
        lines += ["", "Modules that cannot be imported, and so are not run:", ""]
        lines += [f"- {module}: {tidy(why)}" for module, why in unusable]
    with open(path, "w") as f:
        f.write("\n".join(lines) + "\n")


def summary(cls, way):
    counted = collections.Counter((ENDINGS.index(e), tidy(w)) for e, w in cls.results[way].values())
    return ", ".join(f"{n} {ENDINGS[ending]}{why and f' ({why})'}" for (ending, why), n in sorted(counted.items()))


def write_results(path, classes):
    """Of each class, in the tests' words."""
    lines = ["Written by make pyverbs: numbers of tests without SHIFT, and with SHIFT where these differ.", ""]
    for cls in classes:
        stock, shift = (summary(cls, way) for way in WAYS)
        lines.append(f"{cls.name[len('test_'):]}: {stock}" + (f"; with SHIFT: {shift}" if shift != stock else ""))
    with open(path, "w") as f:
        f.write("\n".join(lines) + "\n")


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build")
    p.add_argument("--only", default="", help="classes whose module.Class matches this expression")
    p.add_argument("--ways", type=lambda s: s.split(","), default=list(WAYS))
    p.add_argument("--seconds", type=float, default=60, help="for one process")
    p.add_argument("--write", help="where the page goes")
    p.add_argument("--results", default=RESULTS, help="where these go")
    p.add_argument("--verbose", action="store_true", help="what the tests print")
    args = p.parse_args()
    missing = tests_installed()
    if missing:
        print("skipped: " + missing)
        return SKIPPED
    folder = tempfile.mkdtemp(prefix="shift-pyverbs-")
    try:
        unpack_tests(folder)
        classes, unusable = Simnic(args, folder).run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not classes:
        print("no class matches")
        return 1
    if args.write:
        write_page(args.write, classes, unusable)
        write_results(args.results, classes)
    for way in args.ways:
        print(f"{way}: " + ", ".join(f"{sum(c.count(way, e) for c in classes)} {e}" for e in ENDINGS))
    worse = sum(len(c.worse()) for c in classes)
    print(f"worse with SHIFT: {worse}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
