#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""All tests: those of the plain build, then units and simulation again under ASan+UBSan, units under TSan.

  run.py BUILD_DIR [--out DIR] [--jobs N] [--plain]

A test with the label e2e that failed runs once more, alone, after all others. One that then passes counts as
passed: it is named behind the closing line as "flaked: NAME", and OUT/flaked/NAME.log keeps what it said when
it failed. No other test gets a second chance. The closing line is "N passed, N failed, N skipped"; the exit
status is 1 if a test or a build failed.

What only computes (proofs, the model, the simulation, fuzzing) and the sanitizers' builds get the CPU time that the
others leave: they run beside them, in the kernel's idle class, and say at their end what they have to say."""
import argparse
import os
import re
import signal
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
CALM = 3                         # so many programs at a time, of those that mostly wait
COMPUTES = r"^(proof|model|sim)\.|^fuzz\.(random|sdr)$"
# Linux weighs the idle class within a session's group of tasks (sched(7), "autogroup"): such a group gets the least
# weight as well.
WHEN_IDLE = ("sh", "-c", 'echo 19 2>/dev/null >/proc/self/autogroup; exec chrt --idle 0 "$@"', "sh")
BUILD_TAIL = 4000       # characters of a failed build's output
NOISE = re.compile(r"^((Internal ctest|Test project| *Start) .*|)$")


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
    when_idle: bool = False


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


def say(text):
    """Whole, also when two threads have something to say."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def start(argv, when_idle):
    """What it says comes by its stdout."""
    return subprocess.Popen([*(WHEN_IDLE if when_idle else ()), *argv], cwd=ROOT, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=when_idle)


def run_ctest(lane, args, watch=lambda child: None):
    """Runs ctest and passes on what it says, when_idle: all at the end; [Test]. A failure that no test accounts for
    is one of ctest. watch() gets the process."""
    with tempfile.TemporaryDirectory(prefix="shift-ctest-") as folder:
        # A folder of its own: two may run in one build.
        with open(os.path.join(folder, "CTestTestfile.cmake"), "w", encoding="utf-8") as f:
            f.write(f'subdirs("{lane.build}")\n')
        junit = os.path.join(folder, "junit.xml")
        argv = ["ctest", "--test-dir", folder, "--output-on-failure", "--no-tests=error", "--output-junit",
                junit, *args]
        with start(argv, lane.when_idle) as ctest:
            watch(ctest)
            lines = (line for line in map(str.rstrip, ctest.stdout) if not NOISE.match(line))
            for said in ("\n".join(lines),) if lane.when_idle else lines:
                say(said)
        results = read_results(junit)
    if ctest.returncode and all(t.fate != "failed" for t in results):
        results.append(Test("ctest", "failed", f"{' '.join(argv)}: exit {ctest.returncode}"))
        say(results[-1].said)
    return results


class Background(threading.Thread):
    """The sanitizers' builds, of what runs without the drop-in being preloaded; and behind them lanes."""

    def __init__(self, run, jobs, sanitizers, lanes):
        super().__init__(daemon=True)
        self.run_of_all, self.jobs, self.sanitizers, self.lanes = run, jobs, sanitizers, lanes
        self.failures = {}      # sanitizer: the end of what the build said
        self.built = threading.Event()
        self.child = None
        self.start()

    @staticmethod
    def folder(sanitizer):
        return os.path.join(ROOT, "build-" + sanitizer)

    def run(self):
        for sanitizer in self.sanitizers:
            self.build(sanitizer)
        self.built.set()
        for lane in self.lanes:
            self.run_of_all.lane(lane, self.watch)

    def watch(self, child):
        self.child = child

    def build(self, sanitizer):
        folder = self.folder(sanitizer)
        for argv in (("cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
                      "-DSHIFT_SANITIZE=" + sanitizer), ("ninja", "-C", folder, "-j", str(self.jobs))):
            with start(argv, True) as child:
                self.watch(child)
                said = child.communicate()[0]
            if child.returncode:
                self.failures[sanitizer] = said[-BUILD_TAIL:]
                return

    def stop(self):
        """For who leaves early: the group is the child's own."""
        if self.is_alive() and self.child and self.child.poll() is None:
            os.killpg(self.child.pid, signal.SIGTERM)


class Run:
    """The lanes' results, and the flakes."""

    def __init__(self, out):
        self.out = out
        self.results = []       # (lane, Test)
        self.flaked = []

    def lane(self, lane, watch=lambda child: None):
        begun = time.monotonic()
        say(f"== tests: {lane.name}{' begins, beside others' if lane.when_idle else ''}")
        results = run_ctest(lane, lane.args, watch)
        self.results += [(lane, test) for test in results]
        say(f"== tests: {lane.name} took {(time.monotonic() - begun) / 60:.1f} minutes")

    def fail(self, lane, name, said):
        print(f"{said}\n{name} failed", flush=True)
        self.results.append((lane, Test(name, "failed", said)))

    def second_chances(self):
        for i, (lane, test) in enumerate(self.results):
            if lane.second_chance and test.fate == "failed" and test.name != "ctest":
                print(f"== tests: {test.name}, once more and alone", flush=True)
                again = run_ctest(lane, ("-R", f"^{re.escape(test.name)}$"))
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
    """What drives programs and NICs has the machine to itself but for what waits for idle time."""
    parallel = ("-j", str(args.jobs))
    sanitizers = () if args.plain else SANITIZERS
    computing = ("-R", COMPUTES, *parallel)
    lanes = [Lane("computing", args.build, computing, when_idle=True)]
    if sanitizers:
        lanes.append(Lane("computing, address", Background.folder("address"), computing, when_idle=True))
    background = Background(run, args.jobs, sanitizers, lanes)
    try:
        for lane in (Lane("plain", args.build, ("-LE", ALONE, "-E", COMPUTES, *parallel)),
                     Lane("NICs", args.build, ("-L", "^simnic$")),
                     Lane("programs", args.build, ("-L", "^e2e$", "-j", str(min(args.jobs + 1, CALM))),
                          second_chance=True)):
            run.lane(lane)
        background.built.wait()
        for sanitizer in sanitizers:
            lane = Lane(sanitizer, Background.folder(sanitizer), ("-LE", ALONE, "-E", COMPUTES, *parallel))
            if sanitizer in background.failures:
                run.fail(lane, f"build of {sanitizer}", background.failures[sanitizer])
            else:
                run.lane(lane)
        background.join()
    finally:
        background.stop()
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
    begun = time.monotonic()
    run = Run(args.out)
    run_all(run, args)
    return run.close((time.monotonic() - begun) / 60)


if __name__ == "__main__":
    sys.exit(main())
