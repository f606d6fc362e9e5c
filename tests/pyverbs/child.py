# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""
Runs in the distribution's python on the folder that holds its `tests`: lists the tests of modules, or lists and
runs them. Writes one JSON line per event to a file, so that a crash leaves behind which test was running.

usage: child.py FOLDER LOG list|run DEVICE GID ADDRESS NAME...
NAME: a module, MODULE.Class.method, or all. GID: an index, or any. ADDRESS: that of the device's interface; any: the
tests look for it themselves, beneath the device in sysfs, where soft-RoCE has none.
"""
import importlib
import json
import os
import random
import re
import sys
import unittest


def say(log, **event):
    log.write(json.dumps(event) + "\n")
    log.flush()


def load(module):
    importlib.import_module("tests.utils")  # it and mlx5_base import each other: this way round
    return importlib.import_module("tests." + module)


def every_module():
    return sorted(name[:-len(".py")] for name in os.listdir("tests")
                  if name.startswith("test_") and name.endswith(".py"))


def tests_of(log, module):
    """The names of a module's tests, if it can be imported."""
    try:
        loaded = load(module)
    except BaseException as e:      # SkipTest is one of them
        say(log, module=module, unusable=f"{type(e).__name__}: {e}")
        return
    for cls in vars(loaded).values():
        if isinstance(cls, type) and issubclass(cls, unittest.TestCase) and cls.__module__ == loaded.__name__:
            for test in unittest.defaultTestLoader.getTestCaseNames(cls):
                yield f"{module}.{cls.__name__}.{test}"


def expand(log, names):
    for name in names:
        if "." in name:
            yield name
        else:
            yield from tests_of(log, name)


def last_line(text):
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


class Result(unittest.TestResult):
    """One event when a test begins, and one for each thing that becomes of it."""

    def __init__(self, log):
        super().__init__()
        self.log = log

    def event(self, test, what, why=""):
        if isinstance(test, unittest.TestCase):
            say(self.log, test=test.id().split(".", 1)[1], what=what, why=why)
        else:       # "setUpClass (tests.MODULE.Class)": it speaks for all of them
            say(self.log, of=re.search(r"\(tests\.(.*)\)", test.id())[1], what=what, why=why)

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


def run_tests(log, tests):
    suite = unittest.TestSuite()
    for test in tests:
        module, name = test.split(".", 1)
        suite.addTest(unittest.defaultTestLoader.loadTestsFromName(name, load(module)))
    suite.run(Result(log))
    with open("/proc/self/maps") as maps:
        shift = "/lib/shift/libibverbs.so" in maps.read()
    say(log, end=True, shift=shift)


def know_address(address):
    """As the tests enter what they find."""
    def enter(test, device, port, gid):
        test.args.append([device, port, gid, address, None])

    importlib.import_module("tests.base").RDMATestCase._get_ip_mac = enter


def main():
    folder, log_path, what, device, gid, address, *names = sys.argv[1:]
    os.chdir(folder)
    sys.path[:0] = [folder, os.path.join(folder, "tests")]
    sys.argv[1:] = ["--dev", device] + ([] if gid == "any" else ["--gid", gid])
    from args_parser import parser
    parser.parse_args()
    if address != "any":
        know_address(address)
    with open(log_path, "a") as log:
        tests = list(expand(log, every_module() if names == ["all"] else names))
        say(log, tests=tests)
        if what == "run":
            run_tests(log, tests)


main()
