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
import contextlib
import glob
import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from shiftlab.lab import SKIPPED, Lab, Shift, Stuck

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = "/usr/bin/python3"     # python3-pyverbs is built for the distribution's own
CHILD = os.path.join(HERE, "child.py")
TESTS = "/usr/share/doc/rdma-core/tests"
PACKAGE = "python3-pyverbs"
RESULTS = os.path.join(HERE, "results.txt")
WAYS = ("stock", "shift")
ENDINGS = ("passed", "failed", "skipped")
NIL = ("", "")


def tests_installed():
    """Why not, or None."""
    if not glob.glob(os.path.join(TESTS, "test_qp.py*")):
        return f"no tests in {TESTS}; Debian ships them with {PACKAGE}"
    probe = subprocess.run([PYTHON, "-c", "import pyverbs.qp"], capture_output=True, text=True,
                           check=False)
    return f"{PYTHON} cannot import pyverbs ({PACKAGE})" if probe.returncode else None


def unpack_tests(folder):
    """Documentation is compressed where it is large."""
    os.mkdir(os.path.join(folder, "tests"))
    for path in glob.glob(os.path.join(TESTS, "*.py*")):
        name = os.path.basename(path)
        packed = name.endswith(".gz")
        to = os.path.join(folder, "tests", name[:-len(".gz")] if packed else name)
        with (gzip.open if packed else open)(path, "rb") as src, open(to, "wb") as dst:
            dst.write(src.read())
    # The package's own __init__ imports every test module: one that fails would hide the rest.
    with open(os.path.join(folder, "tests", "__init__.py"), "w"):
        pass


def read_events(path):
    """A line may be cut short where its writer died."""
    events = []
    try:
        with open(path) as f:
            for line in f:
                try:
                    events.append(json.loads(line))
                except ValueError:
                    pass
    except FileNotFoundError:
        pass
    return events


def how_it_died(status):
    if status < 0 or status > 128:
        number = -status if status < 0 else status - 128
        return f"the process died of {signal.Signals(number).name}"
    return f"the process ended with {status}"


class Class:
    """One test class: its tests, and for each way what became of them."""

    def __init__(self, module, name):
        self.module, self.name = module, name
        self.tests = []
        self.results = {way: {} for way in WAYS}    # way -> test -> (ending, why)

    def full_name(self):
        return f"{self.module}.{self.name}"

    def count(self, way, ending):
        return sum(1 for got, _ in self.results[way].values() if got == ending)

    def worse(self):
        """Tests that passed and no longer do, or were skipped and now fail."""
        rank = {"passed": 2, "skipped": 1, "failed": 0}
        stock, shift = (self.results[way] for way in WAYS)
        return [t for t in self.tests if t in stock and t in shift
                and rank[shift[t][0]] < rank[stock[t][0]]]


class Runner:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder

    @contextlib.contextmanager
    def fabric(self):
        """The tests ask `ip` for the addresses of a NIC's interface, and simnic's are but names."""
        with Lab(self.args.build) as lab:
            lab.ctl("netdev", "h0/mlx5_0", "none")
            yield lab

    def children(self, lab, shift, log, *what):
        """Runs child.py once; returns (exit status, or None: it hung)."""
        program = lab.start("h0", [PYTHON, CHILD, self.folder, log] + list(what), shift=shift,
                            env={"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"})
        try:
            status = program.wait(self.args.seconds)
        except Stuck:
            program.end()
            status = None
        if self.args.verbose:
            print(program.tail(200), flush=True)
        return status

    def classes(self):
        """Every class, and the modules that cannot even be imported."""
        log = os.path.join(self.folder, "list")
        with self.fabric() as lab:
            self.children(lab, None, log, "list")
        found, unusable = {}, []
        for event in read_events(log):
            if "unusable" in event:
                unusable.append((event["module"], event["unusable"]))
                continue
            name, _ = event["test"].split(".")
            cls = found.setdefault((event["module"], name), Class(event["module"], name))
            cls.tests.append(event["test"])
        chosen = [c for c in found.values() if re.search(self.args.only, c.full_name())]
        return chosen, unusable

    def take(self, cls, way, log, left, status):
        """Enters what a process said. Returns the tests that it did not come to."""
        results, running, done = cls.results[way], None, False
        for event in read_events(log):
            done |= "end" in event
            if event.get("shift", way == "shift") != (way == "shift"):
                raise RuntimeError(f"SHIFT was loaded where it should not be, or not: {way}")
            test, what = event.get("test"), event.get("what")
            if what == "begun":
                running = test
            elif what and test is None:       # setUpClass: it speaks for all
                for t in left:
                    results.setdefault(t, (what, event["why"]))
            elif what and results.get(test, NIL)[0] != "failed":
                results[test] = (what, event["why"])
        if not done:
            died = f"no end within {self.args.seconds} s" if status is None \
                else how_it_died(status)
            # Between tests, or after the last: the first that is left has to answer for it.
            blame = running or left[0]
            results[blame] = ("failed", died)
        elif status:
            results[left[-1]] = ("failed", "at exit: " + how_it_died(status))
        return [t for t in left if t not in results]

    def run_class(self, cls, way):
        shift = Shift() if way == "shift" else None
        left, turn = list(cls.tests), 0
        while left:
            log = os.path.join(self.folder, f"{cls.full_name()}.{way}.{turn}")
            with self.fabric() as lab:
                status = self.children(lab, shift, log, "run", cls.module, *left)
                rest = self.take(cls, way, log, left, status)
            if len(rest) == len(left):
                raise RuntimeError(f"{cls.full_name()}: no test had a result")
            left, turn = rest, turn + 1

    def run(self):
        begun = time.monotonic()
        classes, unusable = self.classes()
        for cls in classes:
            for way in self.args.ways:
                self.run_class(cls, way)
            sums = ", ".join("{} {}".format(way, "/".join(str(cls.count(way, e)) for e in ENDINGS))
                             for way in self.args.ways)
            print(f"{cls.full_name():52} {sums}", flush=True)
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
            where[outcome].append(f"{cls.full_name()[len('test_'):]} {n}")
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


def write_results(classes):
    """Of each class, in the tests' words."""
    lines = ["Written by make pyverbs: numbers of tests without SHIFT, and with SHIFT where these differ.", ""]
    for cls in classes:
        stock, shift = (summary(cls, way) for way in WAYS)
        lines.append(f"{cls.full_name()[len('test_'):]}: {stock}" + (f"; with SHIFT: {shift}" if shift != stock else ""))
    with open(RESULTS, "w") as f:
        f.write("\n".join(lines) + "\n")


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build")
    p.add_argument("--only", default="", help="classes whose module.Class matches this expression")
    p.add_argument("--ways", type=lambda s: s.split(","), default=list(WAYS))
    p.add_argument("--seconds", type=float, default=60, help="for one process")
    p.add_argument("--write", help="where the page goes; the results of each class go to results.txt")
    p.add_argument("--verbose", action="store_true", help="what the tests print")
    args = p.parse_args()
    missing = tests_installed()
    if missing:
        print("skipped: " + missing)
        return SKIPPED
    folder = tempfile.mkdtemp(prefix="shift-pyverbs-")
    try:
        unpack_tests(folder)
        classes, unusable = Runner(args, folder).run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not classes:
        print("no class matches")
        return 1
    if args.write:
        write_page(args.write, classes, unusable)
        write_results(classes)
    worse = sum(len(c.worse()) for c in classes)
    print(f"worse with SHIFT: {worse}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
