# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""
Runs in the distribution's python on the folder that holds its `tests`: lists the test classes, or
runs the tests that it is given. Writes one JSON line per event to a file, so that a crash leaves
behind which test was running.

usage: child.py FOLDER LOG list | child.py FOLDER LOG run MODULE TEST...    (TEST: Class.method)
"""
import importlib
import json
import os
import random
import sys
import unittest


def say(log, **event):
    log.write(json.dumps(event) + "\n")
    log.flush()


def list_tests(log):
    for name in sorted(os.listdir("tests")):
        if not name.startswith("test_") or not name.endswith(".py"):
            continue
        module = name[:-len(".py")]
        try:
            loaded = importlib.import_module("tests." + module)
        except BaseException as e:      # SkipTest is one of them
            say(log, module=module, unusable=f"{type(e).__name__}: {e}")
            continue
        for cls in vars(loaded).values():
            if isinstance(cls, type) and issubclass(cls, unittest.TestCase) \
                    and cls.__module__ == loaded.__name__:
                for test in unittest.defaultTestLoader.getTestCaseNames(cls):
                    say(log, module=module, test=f"{cls.__name__}.{test}")


def last_line(text):
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


class Result(unittest.TestResult):
    """One event when a test begins, and one for each thing that becomes of it."""

    def __init__(self, log):
        super().__init__()
        self.log = log

    def event(self, test, what, why=""):
        name = test.id().split(".", 2)[-1] if isinstance(test, unittest.TestCase) else None
        say(self.log, test=name, what=what, why=why)

    def startTest(self, test):
        super().startTest(test)
        random.seed(test.id())  # the tests draw attributes: the same ones with and without SHIFT
        self.event(test, "begun")

    def addSuccess(self, test):
        self.event(test, "passed")

    def addSkip(self, test, reason):
        self.event(test, "skipped", reason)

    def failed(self, test, err):
        say(sys.stderr, test=str(test), trace=self._exc_info_to_string(err, test))
        self.event(test, "failed", last_line(self._exc_info_to_string(err, test)))

    addError = addFailure = failed

    def addSubTest(self, test, subtest, err):
        if err:
            self.failed(test, err)

    def addExpectedFailure(self, test, err):
        self.event(test, "passed")

    def addUnexpectedSuccess(self, test):
        self.event(test, "failed", "it was expected to fail")


def run_tests(log, module, tests):
    suite = unittest.TestSuite()
    importlib.import_module("tests.utils")  # it and mlx5_base import each other: this way round
    loaded = importlib.import_module("tests." + module)
    for test in tests:
        suite.addTest(unittest.defaultTestLoader.loadTestsFromName(test, loaded))
    suite.run(Result(log))
    with open("/proc/self/maps") as maps:
        loaded = "/lib/shift/libibverbs.so" in maps.read()
    say(log, end=True, shift=loaded)


def main():
    folder, log_path, what, *rest = sys.argv[1:]
    os.chdir(folder)
    sys.path[:0] = [folder, os.path.join(folder, "tests")]
    sys.argv[1:] = ["--dev", "mlx5_0"]
    from args_parser import parser
    parser.parse_args()
    with open(log_path, "a") as log:
        if what == "list":
            list_tests(log)
        else:
            run_tests(log, rest[0], rest[1:])


main()
