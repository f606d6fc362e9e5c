#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A program forks while its threads are inside verbs of every kind; each child opens the device anew and uses it.
Nobody hangs: not under SHIFT, with its threads at work, and not on stock.

  forks.py --build DIR [--seed N] [--rounds N] [CASE...]
"""
import os
import sys

from shiftlab.lab import Shift, cases_main
from shiftlab.perftest import SOON, Failed

CASES = {   # settings of SHIFT, or None: stock; children
    "stock": (None, 40),
    "plain": ({}, 100),
    # threads of SHIFT and of the program write the log at each step
    "debug": ({"log": "debug"}, 40),
    "spread": ({"backup": "spread"}, 40),
}


def run(lab, name):
    settings, children = CASES[name]
    children = int(os.environ.get("FORKS_CHILDREN", children))  # more: FORKS_CHILDREN=3000
    shift = None if settings is None else Shift(**{**SOON, **settings})
    argv = [os.path.join(lab.out, "bin", "forks"), "-S", lab.seed, children]
    program = lab.start("h0", argv, "forks", shift)
    while program.running():    # requests for the status are answered with the lock held
        lab.shiftctl("h0", "status", "--json", check=False)
    if program.wait(1) or not program.out().endswith("OK\n"):
        raise Failed(f"the program ended with {program.process.returncode}")


if __name__ == "__main__":
    sys.exit(cases_main(CASES, run, seeded=True, hosts=1, nics=3))
