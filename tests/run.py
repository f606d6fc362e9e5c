#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""All tests: those of the plain build, then units and simulation again under ASan+UBSan, units with threads under TSan.

  run.py BUILD_DIR [--out DIR] [--jobs N] [--plain]

A test with the label e2e that failed runs once more, alone, after all others. One that then passes counts as
passed: it is named behind the closing line as "flaked: NAME", and OUT/flaked/NAME.log keeps what it said when
it failed. No other test gets a second chance. Which of their cases tests run they draw by TESTS_DRAW, which is
printed and may be given: the second run draws the same. The closing line is "N passed, N failed, N skipped"; the
exit status is 1 if a test or a build failed."""
import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
import typing
import xml.etree.ElementTree as ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SANITIZERS = ("address", "thread")
ALONE = "^(e2e|simnic)$"      # labels of what has the machine to itself
CALM = 1                         # so many programs more than jobs at a time, of those that mostly wait
BUILD_TAIL = 4000       # characters of a failed build's output
NOISE = re.compile(r"^(Internal ctest|Test project| *Start .*|)$")


class Test(typing.NamedTuple):
    """What became of one; fate: passed, failed or skipped."""
    name: str
    fate: str
    said: str


class Lane(typing.NamedTuple):
    """One run of ctest. second_chance: a test that fails runs again, alone, when all lanes have ended."""
    name: str
    build: str
    args: tuple
    second_chance: bool = False


def fate_of(case):
    """By its element in JUnit's form: ctest has "notrun" for a skipped test and for a missing program."""
    skipped = case.find("skipped")
    if skipped is not None and skipped.get("message", "").startswith("SKIP_"):
        return "skipped"
    return "passed" if case.get("status") == "run" else "failed"


def read_results(path):
    """[Test]; none where ctest did not come to write them."""
    try:
        cases = ElementTree.parse(path).getroot().iter("testcase")
    except (OSError, ElementTree.ParseError):
        return []
    return [Test(c.get("name"), fate_of(c), c.findtext("system-out") or "") for c in cases]


def run_ctest(build, args):
    """Runs ctest and passes on what it says; [Test]. A failure that no test accounts for is one of ctest."""
    with tempfile.NamedTemporaryFile(suffix=".xml") as junit:
        argv = ["ctest", "--test-dir", build, "--output-on-failure", "--no-tests=error", "--output-junit",
                junit.name, *args]
        with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace") as ctest:
            for line in ctest.stdout:
                if not NOISE.match(line.rstrip("\n")):
                    print(line, end="", flush=True)
        results = read_results(junit.name)
    if ctest.returncode and all(t.fate != "failed" for t in results):
        results.append(Test("ctest", "failed", f"{' '.join(argv)}: exit {ctest.returncode}"))
        print(results[-1].said, flush=True)
    return results


class SanitizerBuilds:
    """The builds of what runs without the drop-in being preloaded, made one after the other beside other tests, which come
    first: what mostly waits leaves them time enough."""

    def __init__(self, jobs):
        self.jobs = jobs
        self.failures = {}      # sanitizer: the end of what the build said
        self.thread = threading.Thread(target=self.make, daemon=True)
        self.thread.start()

    @staticmethod
    def folder(sanitizer):
        return os.path.join(ROOT, "build-" + sanitizer)

    def make(self):
        for sanitizer in SANITIZERS:
            folder = self.folder(sanitizer)
            for argv in (["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja",
                          "-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DSHIFT_SANITIZE=" + sanitizer],
                         ["ninja", "-C", folder, "-j", str(self.jobs)]):
                done = subprocess.run(["nice", "-n", "19", *argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                      text=True, errors="replace", check=False)
                if done.returncode:
                    self.failures[sanitizer] = done.stdout[-BUILD_TAIL:]
                    break

    def await_all(self):
        self.thread.join()


class Run:
    """The lanes' results, and the flakes."""

    def __init__(self, out):
        self.out = out
        self.results = []       # (lane, Test)
        self.flaked = []

    def lane(self, lane):
        print(f"== tests: {lane.name}", flush=True)
        begun = time.monotonic()
        self.results += [(lane, test) for test in run_ctest(lane.build, lane.args)]
        print(f"== tests: {lane.name} took {(time.monotonic() - begun) / 60:.1f} minutes", flush=True)

    def fail(self, lane, name, said):
        print(f"{said}\n{name} failed", flush=True)
        self.results.append((lane, Test(name, "failed", said)))

    def second_chances(self):
        for i, (lane, test) in enumerate(self.results):
            if lane.second_chance and test.fate == "failed" and test.name != "ctest":
                print(f"== tests: {test.name}, once more and alone", flush=True)
                again = run_ctest(lane.build, ("-R", f"^{re.escape(test.name)}$"))
                if [t.fate for t in again] == ["passed"]:
                    self.keep(test)
                    self.results[i] = (lane, again[0])

    def keep(self, test):
        self.flaked.append(test.name)
        os.makedirs(os.path.join(self.out, "flaked"), exist_ok=True)
        with open(os.path.join(self.out, "flaked", test.name + ".log"), "w", encoding="utf-8") as f:
            f.write(time.strftime("%Y-%m-%d %H:%M UTC\n", time.gmtime()) + test.said)

    def count(self, fate):
        return sum(test.fate == fate for _, test in self.results)

    def close(self, minutes):
        """What remains to be said of all lanes; the exit status."""
        for lane, test in self.results:
            if test.fate == "skipped":
                reason = test.said.strip().splitlines() or ["it says no reason"]
                print(f"skipped {test.name} ({lane.name}): {reason[-1]}")
        for lane, test in self.results:
            if test.fate == "failed":
                print(f"FAILED {test.name} ({lane.name})")
        print(f"{minutes:.1f} minutes")
        print(f"{self.count('passed')} passed, {self.count('failed')} failed, {self.count('skipped')} skipped")
        for name in self.flaked:
            print(f"flaked: {name}")
        sys.stdout.flush()
        return 1 if self.count("failed") else 0


def run_all(run, args):
    """What drives programs and NICs has the machine to itself, the rest shares it; also with the builds. So do programs
    that mostly wait (label calm)."""
    parallel = ("-j", str(args.jobs))
    builds = None if args.plain else SanitizerBuilds(args.jobs)
    run.lane(Lane("plain", args.build, ("-LE", ALONE, *parallel)))
    calm = ("-j", str(args.jobs + CALM))
    run.lane(Lane("programs that wait", args.build, ("-L", "^calm$", *calm), second_chance=True))
    if builds:
        builds.await_all()
    run.lane(Lane("NICs", args.build, ("-L", "^simnic$")))
    run.lane(Lane("programs", args.build, ("-L", "^e2e$", "-LE", "^calm$"), second_chance=True))
    for sanitizer in SANITIZERS if builds else ():
        lane = Lane(sanitizer, builds.folder(sanitizer), ("-LE", ALONE, *parallel))
        if sanitizer in builds.failures:
            run.fail(lane, f"build of {sanitizer}", builds.failures[sanitizer])
        else:
            run.lane(lane)
    run.second_chances()


def parse_args():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build")
    p.add_argument("--out", default="out", help="where flaked/ goes")
    p.add_argument("--jobs", type=int, default=int(os.environ.get("JOBS") or os.cpu_count()))
    p.add_argument("--plain", action="store_true", help="without the sanitizer builds")
    args = p.parse_args()
    args.build, args.out = os.path.abspath(args.build), os.path.abspath(args.out)
    return args


def main():
    args = parse_args()
    os.environ.setdefault("TESTS_DRAW", str(random.SystemRandom().randrange(1, 1 << 31)))
    print(f"== tests: TESTS_DRAW={os.environ['TESTS_DRAW']}", flush=True)
    begun = time.monotonic()
    run = Run(args.out)
    run_all(run, args)
    return run.close((time.monotonic() - begun) / 60)


if __name__ == "__main__":
    sys.exit(main())
