#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Who gets a second chance of run.py, on a folder of ctest's own form whose tests fail as often as they are told."""
import os
import subprocess
import sys
import tempfile

RUN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run.py")
# Fails the first COUNT times that it is run.
SCRIPT = """#!/bin/sh
echo "lead $1"
echo x >> "$1.runs"
echo "$TESTS_DRAW" >> "$1.drawn"
[ "$(wc -l < "$1.runs")" -gt "$2" ]
"""
ALWAYS = 99


def project(folder, tests):
    """tests: {name: (label, how often it fails)}; "skip" instead of a number: it is skipped."""
    script = os.path.join(folder, "script.sh")
    with open(script, "w", encoding="ascii") as f:
        f.write(SCRIPT)
    with open(os.path.join(folder, "CTestTestfile.cmake"), "w", encoding="ascii") as f:
        for name, (label, fails) in tests.items():
            command = '"-c" "echo no NIC; exit 77"' if fails == "skip" else f'"{script}" "{name}" "{fails}"'
            f.write(f'add_test({name} "/bin/sh" {command})\n'
                    f'set_tests_properties({name} PROPERTIES LABELS "{label}" WORKING_DIRECTORY "{folder}" '
                    "SKIP_RETURN_CODE 77)\n")


class Outcome:
    """A run of run.py over such tests. Each lane has a test that passes, as ctest wants one."""

    def __init__(self, **tests):
        tests = {name.replace("__", "."): how for name, how in tests.items()}
        tests.update({"unit": ("unit", 0), "nic": ("unit;simnic", 0), "e2e.calm": ("e2e;calm", 0),
                      "e2e.alone": ("e2e", 0)})
        with tempfile.TemporaryDirectory(prefix="shift-run-") as folder:
            project(folder, tests)
            done = subprocess.run([sys.executable, RUN, folder, "--plain", "--jobs", "2", "--out", folder],
                                  capture_output=True, text=True, check=False)
            self.status, self.said = done.returncode, done.stdout + done.stderr
            self.logs = {name: open(os.path.join(folder, "flaked", name), encoding="utf-8").read()
                         for name in self.names(os.path.join(folder, "flaked"))}
            self.drawn = {name: open(os.path.join(folder, name), encoding="ascii").read().split()
                          for name in self.names(folder) if name.endswith(".drawn")}
            self.runs = {name[:-len(".runs")]: os.path.getsize(os.path.join(folder, name)) // 2
                         for name in self.names(folder) if name.endswith(".runs")}

    @staticmethod
    def names(folder):
        return os.listdir(folder) if os.path.isdir(folder) else []

    def expect(self, status, *closing):
        """The exit status and the last lines, to the letter."""
        self.require(self.status == status, f"exit status {self.status}, not {status}")
        last = self.said.splitlines()[-len(closing):]
        self.require(last == list(closing), f"closes with {last}, not {list(closing)}")

    def require(self, truth, what):
        if not truth:
            raise SystemExit(f"FAILED: {what}\n{self.said}")


def test_all_pass():
    run = Outcome()
    run.expect(0, "4 passed, 0 failed, 0 skipped")
    run.require("minutes" in run.said.splitlines()[-2], "the minutes come before the closing line")
    run.require(not run.logs, "nothing flaked, and there is a log")


def test_program_fails_once():
    run = Outcome(e2e__once=("e2e", 1))
    run.expect(0, "5 passed, 0 failed, 0 skipped", "flaked: e2e.once")
    run.require("lead e2e.once" in run.logs["e2e.once.log"], "the first run's words are kept")
    run.require(run.runs["e2e.calm"] == 1, "only what failed runs again")
    first, *second = run.drawn["e2e.once.drawn"]
    run.require(second == [first], "the second run draws the same")


def test_program_that_waits_fails_once():
    run = Outcome(e2e__once=("e2e;calm", 1))
    run.expect(0, "5 passed, 0 failed, 0 skipped", "flaked: e2e.once")
    run.require(run.runs["e2e.alone"] == 1, "no test is in two lanes")


def test_program_fails_twice():
    run = Outcome(e2e__twice=("e2e", 2))
    run.expect(1, "4 passed, 1 failed, 0 skipped")
    run.require(run.runs["e2e.twice"] == 2, "there is one second chance, no third")
    run.require(not run.logs, "a failure is no flake")


def test_others_have_one_chance():
    for label in ("unit", "unit;simnic", "fuzz", "sanitizer", "unit;style"):
        run = Outcome(once=(label, 1))
        run.expect(1, "4 passed, 1 failed, 0 skipped")
        run.require(run.runs["once"] == 1, f"{label} ran again")


def test_flake_beside_failure():
    run = Outcome(e2e__once=("e2e", 1), e2e__never=("e2e", ALWAYS))
    run.expect(1, "5 passed, 1 failed, 0 skipped", "flaked: e2e.once")


def test_skipped():
    run = Outcome(e2e__skip=("e2e", "skip"), skip=("unit", "skip"))
    run.expect(0, "4 passed, 0 failed, 2 skipped")
    run.require("e2e.skip (programs): no NIC" in run.said, "the reason is said")


def test_no_build():
    done = subprocess.run([sys.executable, RUN, "/nonexistent", "--plain"], capture_output=True, text=True,
                          check=False)
    if not done.returncode or done.stdout.splitlines()[-1] != "0 passed, 4 failed, 0 skipped":
        raise SystemExit("FAILED: no build folder\n" + done.stdout)


def main():
    for test in (test_all_pass, test_program_fails_once, test_program_that_waits_fails_once, test_program_fails_twice, test_others_have_one_chance,
                 test_flake_beside_failure, test_skipped, test_no_build):
        test()
        print("ok    ", test.__name__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
