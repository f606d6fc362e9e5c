# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""
The rdma-core python tests that the distribution ships, each twice: as they are, and with SHIFT under them. Where
they run, a software NIC or a guest's soft-RoCE, is the caller's business.

A test that crashes or hangs ends only itself: the rest runs on in a new process.
"""
import glob
import gzip
import json
import os
import signal
import subprocess

PYTHON = "/usr/bin/python3"     # python3-pyverbs is built for the distribution's own
CHILD = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "pyverbs", "child.py")
TESTS = "/usr/share/doc/rdma-core/tests"
PACKAGE = "python3-pyverbs"
WAYS = ("stock", "shift")
ENDINGS = ("passed", "failed", "skipped")
ENV = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
NIL = ("", "")


def tests_installed():
    """Why not, or None."""
    if not glob.glob(os.path.join(TESTS, "test_qp.py*")):
        return f"no tests in {TESTS}; Debian ships them with {PACKAGE}"
    probe = subprocess.run([PYTHON, "-c", "import pyverbs.qp"], capture_output=True, text=True, check=False)
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
    if status is None:
        return "it did not end in its time"
    if status < 0 or status > 128:
        number = -status if status < 0 else status - 128
        return f"the process died of {signal.Signals(number).name}"
    return f"the process ended with {status}"


class Batch:
    """Tests that share a process, named MODULE.Class.method, and for each way what became of them."""

    def __init__(self, name, tests):
        self.name, self.tests = name, tests
        self.results = {way: {} for way in WAYS}    # way -> test -> (ending, why)

    def count(self, way, ending):
        return sum(1 for got, _ in self.results[way].values() if got == ending)

    def counts(self, way):
        return [self.count(way, e) for e in ENDINGS]

    def worse(self):
        """Tests that passed and no longer do, or were skipped and now fail."""
        rank = {"passed": 2, "skipped": 1, "failed": 0}
        stock, shift = (self.results[way] for way in WAYS)
        return [t for t in self.tests if t in stock and t in shift
                and rank[shift[t][0]] < rank[stock[t][0]]]


class Runner:
    """
    folder: has the tests, by unpack_tests(), and gets the logs. launch(way, argv) runs a program to its end, and
    returns its exit status; None: it did not end in its time, and was ended. address: that of the device's interface.
    """

    def __init__(self, folder, device, launch, gid="any", address="any"):
        self.folder, self.launch = folder, launch
        self.where = [device, str(gid), address]
        self.turns = 0

    def _child(self, way, what, names):
        """One process: (its events, its exit status)"""
        self.turns += 1
        log = os.path.join(self.folder, f"events-{self.turns}")
        argv = [PYTHON, CHILD, self.folder, log, what, *self.where, *names]
        status = self.launch(way, argv)
        return read_events(log), status

    def list(self):
        """All tests, and the modules that cannot even be imported, with the reason."""
        events, status = self._child("stock", "list", ["all"])
        found = next((e["tests"] for e in events if "tests" in e), None)
        if status or found is None:
            raise RuntimeError("the tests cannot be listed: " + how_it_died(status))
        return found, [(e["module"], e["unusable"]) for e in events if "unusable" in e]

    def run(self, name, modules):
        """A batch of all that these modules have; on stock only what did not pass under SHIFT: else it cannot be worse."""
        batch = Batch(name, list(modules))
        self.run_batch(batch, "shift")
        left = [t for t, (ending, _) in batch.results["shift"].items() if ending != "passed"]
        if left:
            doubtful = Batch(name, left)
            self.run_batch(doubtful, "stock")
            batch.results["stock"] = doubtful.results["stock"]
        return batch

    def run_batch(self, batch, way):
        """If the batch names modules, it then has their tests."""
        left = batch.tests
        while left:
            events, status = self._child(way, "run", left)
            if left is batch.tests:
                left = batch.tests = next((e["tests"] for e in events if "tests" in e), left)
            rest = take(batch.results[way], way, events, left, status)
            if len(rest) == len(left):
                raise RuntimeError(f"{batch.name}: no test had a result; {how_it_died(status)}")
            left = rest


def take(results, way, events, left, status):
    """Enters what a process said. Returns the tests that it did not come to."""
    running, done = None, False
    for event in events:
        done |= "end" in event
        if event.get("shift", way == "shift") != (way == "shift"):
            raise RuntimeError(f"SHIFT was loaded where it should not be, or not: {way}")
        test, what = event.get("test"), event.get("what")
        if what == "begun":
            running = test
        elif what and test is None:
            for t in left:
                if t.startswith(event["of"] + "."):
                    results.setdefault(t, (what, event["why"]))
        elif what and results.get(test, NIL)[0] != "failed":
            results[test] = (what, event["why"])
    if not done:
        # Between tests, or after the last: the first that is left has to answer for it.
        results[running or left[0]] = ("failed", how_it_died(status))
    elif status:
        results[left[-1]] = ("failed", "at exit: " + how_it_died(status))
    return [t for t in left if t not in results]
