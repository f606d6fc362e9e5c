#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""
UCX's own gtest on the software NIC: as it is, and with SHIFT under it. Nothing may be worse with SHIFT, and each failure
without SHIFT is explained in explained.txt: the exit status says so.

Each test suite has a fabric and a process of its own. A test that crashes or hangs ends only itself: the rest of its suite
runs on in a new process.

Exit: 0 nothing is worse with SHIFT and nothing unexplained; 1 otherwise; 77 there is no gtest (scripts/build-ucx-gtest.sh).
"""
import argparse
import os
import re
import sys
import time

from shiftlab.lab import SKIPPED, Lab, Shift, Stuck
from shiftlab.pyverbs import WAYS, Batch, how_it_died

HERE = os.path.dirname(os.path.abspath(__file__))
EXPLAINED = os.path.join(HERE, "explained.txt")
# SHIFT does not look after objects that are made by mlx5's own commands; shiftctl run sets this as well.
ENV = {"UCX_IB_MLX5_DEVX": "n", "UCX_WARN_UNUSED_ENV_VARS": "n"}


def names(listed):
    """The tests of gtest's list, each as PREFIX/SUITE.CASE/N."""
    suite, found = None, []
    for line in listed.splitlines():
        line = line.partition("#")[0].rstrip()
        if re.fullmatch(r"[\w/]+\.", line):
            suite = line
        elif suite and line.startswith("  "):
            found.append(suite + line.strip())
    return found


def test_of(text):
    """The test's own name of a line of results: without parameter and time."""
    return text.split(" ", 1)[0].rstrip(",")


def events(said):
    """(what, test or reason), as the process told them."""
    for line in said.splitlines():
        found = re.match(r"^\[ *(RUN|OK|SKIP|FAILED) *\] ?(.*)$", line)
        if found:
            yield found.groups()
        elif re.match(r".*: Failure$", line):
            yield "why", line


def take(results, said, left, status):
    """Enters what a process said of the tests left. Returns those that it did not come to."""
    running, skipped, why, ended = None, None, "", set()
    for what, text in events(said):
        test = test_of(text)
        if what == "RUN":
            running, skipped, why = test, None, ""
        elif what == "SKIP":
            skipped = text
        elif what == "why":
            why = why or os.path.basename(text)
        elif test == running and test in left:
            ending = "failed" if what == "FAILED" else "passed" if skipped is None else "skipped"
            results[test] = (ending, why if ending == "failed" else skipped or "")
            ended.add(test)
            running = None
    if running:
        results[running] = ("failed", how_it_died(status))
    elif not ended:
        results[left[0]] = ("failed", "it was not run: " + how_it_died(status))
    elif status and not any(results[t][0] == "failed" for t in ended):
        results[left[-1]] = ("failed", "at exit: " + how_it_died(status))
    return [t for t in left if t not in results]


class Gtest:
    """The program, each time on a fabric of its own."""

    def __init__(self, args):
        self.args = args

    def launch(self, way, *argv):
        """(what it said, its exit status; None: it did not end in its time)"""
        env = dict(ENV)
        with Lab(self.args.build, hosts=1, nics=2) as lab:
            shift = Shift() if way == "shift" else None
            program = lab.start("h0", [self.args.gtest, *argv], shift=shift, env=env)
            try:
                status = program.wait(self.args.seconds)
            except Stuck:
                program.end()
                status = None
            if self.args.verbose:
                print(program.out(), program.err(), flush=True)
            return program.out() + program.err(), status

    def batches(self):
        chosen = ":".join(f"{tl}/*" for tl in self.args.transports)
        said, status = self.launch("stock", "--gtest_list_tests", "--gtest_filter=" + chosen)
        if status:
            raise RuntimeError("the tests cannot be listed: " + how_it_died(status))
        found = {}
        for test in names(said):
            if test.split("/")[0] in self.args.transports:
                suite = test.partition(".")[0]
                found.setdefault(suite, Batch(suite, [])).tests.append(test)
        return [b for b in found.values() if re.search(self.args.only, b.name)
                and not (self.args.without and re.search(self.args.without, b.name))]

    def run(self, batch, way):
        left = list(batch.tests)
        while left:
            said, status = self.launch(way, "--gtest_filter=" + ":".join(left))
            left = take(batch.results[way], said, left, status)


def explanations():
    """[(expression, why)] of the lines EXPRESSION: WHY."""
    with open(EXPLAINED, encoding="utf-8") as f:
        lines = [line.strip() for line in f if line.strip() and not line.startswith("#")]
    return [(re.compile(name), why) for name, _, why in (line.partition(": ") for line in lines)]


def report(batches, ways):
    """Prints sums by transport, and what is not explained. Returns whether all is well."""
    known, well, used = explanations(), True, set()
    for tl in sorted({b.name.split("/")[0] for b in batches}):
        of = [b for b in batches if b.name.split("/")[0] == tl]
        print(f"{tl}: " + "; ".join(
            f"{way} {sum(b.count(way, 'passed') for b in of)} passed, {sum(b.count(way, 'failed') for b in of)} failed, "
            f"{sum(b.count(way, 'skipped') for b in of)} skipped" for way in ways))
    for b in batches:
        for way in ways:
            for test, (ending, why) in b.results[way].items():
                if ending != "failed":
                    continue
                reason = next(((name, text) for name, text in known if name.search(test)), None)
                used.add(reason and reason[0])
                well &= reason is not None
                print(f"{'explained' if reason else 'UNEXPLAINED'} {way} {test}: {reason[1] if reason else why}")
        for test in b.worse() if len(ways) == len(WAYS) else ():
            well = False
            print(f"WORSE {test}: {b.results['shift'][test]}")
    for name, why in known:
        if name not in used:
            print(f"note: nothing failed that {EXPLAINED} explains by {name.pattern}: {why}")
    return well


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build")
    p.add_argument("--gtest", help="the program; default: that of scripts/build-ucx-gtest.sh")
    p.add_argument("--transports", type=lambda s: s.split(","), metavar="PREFIX,...",
                   default=["rc_verbs", "ud_verbs", "rc_mlx5", "ud_mlx5"], help="prefixes of suites; UCP's are rcx and udx, and two tests rcv")
    p.add_argument("--only", default="", help="suites whose PREFIX/NAME matches this expression")
    p.add_argument("--without", default="perf",
                   help="but those that match this one; default: those that measure speed, and judge nothing")
    p.add_argument("--ways", type=lambda s: s.split(","), default=list(WAYS))
    p.add_argument("--seconds", type=float, default=300, help="for one process")
    p.add_argument("--verbose", action="store_true", help="what the tests print")
    args = p.parse_args()
    args.gtest = args.gtest or os.path.join(args.build, "ucx-gtest", "gtest")
    if not os.access(args.gtest, os.X_OK):
        print(f"skipped: no {args.gtest}; scripts/build-ucx-gtest.sh builds it")
        return SKIPPED
    args.gtest = os.path.abspath(args.gtest)
    begun, gtest = time.monotonic(), Gtest(args)
    batches = gtest.batches()
    if not batches:
        print("no suite matches")
        return 1
    for batch in batches:
        since = time.monotonic()
        for way in args.ways:
            gtest.run(batch, way)
        sums = ", ".join(f"{way} {'/'.join(str(n) for n in batch.counts(way))}" for way in args.ways)
        print(f"{batch.name:52} {sums}, {time.monotonic() - since:.0f} s", flush=True)
    print(f"{len(batches)} suites, {time.monotonic() - begun:.0f} s (passed/failed/skipped)")
    return 0 if report(batches, args.ways) else 1


if __name__ == "__main__":
    sys.exit(main())
