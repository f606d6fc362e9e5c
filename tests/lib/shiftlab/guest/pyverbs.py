# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""rdma-core's python tests inside a guest: under SHIFT, and on stock where one did not pass. Nothing may be worse."""
import json
import os

from shiftlab.guest.cases import Skipped, check
from shiftlab.lab import Stuck
from shiftlab.pyverbs import tests_installed, unpack_tests


def launcher(rig, start, seconds):
    """Runs a program of the tests to its end, for a Runner. start(argv, name, shift): the Program; shift: None on stock."""
    def launch(way, argv):
        program = start(argv, f"{way}-{len(rig.programs)}", rig.shift() if way == "shift" else None)
        try:
            return program.wait(seconds)
        except Stuck:
            program.end()
            return None
    return launch


def no_worse(rig, name, modules, runner):
    """The Batch of what these modules have. runner: makes a Runner of the folder with the tests."""
    missing = tests_installed()
    if missing:
        raise Skipped(missing)
    folder = os.path.join(rig.folder, "pyverbs")
    os.mkdir(folder)
    unpack_tests(folder)
    batch = runner(folder).run(name, modules)
    with open(os.path.join(rig.folder, "results.json"), "w", encoding="utf-8") as f:
        json.dump(batch.results, f, indent=1)
    worse = batch.worse()
    check(not worse, "worse under SHIFT: " + "; ".join(f"{t}: {batch.results['shift'][t]}" for t in worse))
    check(batch.count("shift", "passed"), "no test has passed")
    return batch
