#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Timestamps of completions, while NICs' clocks differ: each is a time of the default NIC, through a fault of its port
that a connection without SHIFT outlives too. Such connections are not protected, and status says why.

  stamps.py --build DIR [CASE...]
"""
import os
import re
import sys
import time

from shiftlab.lab import Shift, cases_main, wait_for
from shiftlab.perftest import SOON, Failed

CASES = ("raw", "wall", "plain")    # by the device's clock, by the wall clock, one end without
FAR = {"h0/mlx5_0": 5000, "h0/mlx5_1": 100}   # seconds that they have run
WHY = {"ring": "its completions have timestamps, and each NIC has a clock of its own",
       "foreign": "its completion queue gives what SHIFT's engine cannot, such as timestamps"}


def run_once(lab, name, shift):
    program = lab.start("h0", [os.path.join(lab.out, "bin", "stamps"), name], "shift" if shift else "stock", shift,
                        stdin=True)
    wait_for("connection", lambda: "CONNECTED\n" in program.out() or not program.running(), 20)
    if shift:
        def unprotected():
            return [c["why"] for c in lab.connections("h0") if c["why"] in WHY.values()]
        wait_for("reason", lambda: not program.running() or len(unprotected()) >= (1 if name == "plain" else 2), 20)
    lab.fault("port-down", "h0/mlx5_0")
    time.sleep(0.3)
    lab.ctl("heal", "h0/mlx5_0")
    time.sleep(0.3)
    program.say("end")
    if program.wait(40):
        raise Failed(f"{program.name} ended with {program.process.returncode}")
    stamps = int(re.search(r"^OK (\d+)$", program.out(), re.M).group(1))
    if stamps < 20:
        raise Failed(f"{program.name}: only {stamps} timestamps")


def run(lab, name):
    for nic, seconds in FAR.items():
        lab.ctl("clock", nic, seconds, 20000 if nic.endswith("0") else -20000)
    run_once(lab, name, None)
    run_once(lab, name, Shift(log="info", **SOON))


if __name__ == "__main__":
    sys.exit(cases_main(CASES, run))
