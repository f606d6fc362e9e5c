#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Queue pairs that SHIFT drives and others (UC) on one completion queue, in both orders: the program sees its own objects and
each completion once, as on stock. "moved": the driven ones run on the other NIC meanwhile. "ex": the queue is extended; the
RC queue pairs that come second to it are not protected, and SHIFT says why.

  mixed.py --build DIR [CASE...]
"""
import os
import re
import sys

from shiftlab.lab import Shift, cases_main, wait_for
from shiftlab.perftest import SOON, Failed

CASES = {"rc_first": [], "uc_first": ["-u"], "meanwhile": ["-u", "-t"], "moved": ["-u", "-l"], "moved_second": ["-l"],
         "ex_rc_first": ["-x"], "ex_uc_first": ["-x", "-u"], "ex_moved_second": ["-x", "-l"],
         "overrun": ["-o"], "ex_overrun": ["-o", "-x"]}
UNDRIVEN = "is foreign: its completion queue is shared with a queue pair that SHIFT cannot drive"


def run_once(lab, words, shift):
    look = "-l" in words
    p = lab.start("h0", [os.path.join(lab.out, "bin", "mixed"), *words, *(["-g"] if shift else [])], "shift" if shift else "stock", shift, stdin=True)

    def reached(word):
        wait_for(word, lambda: word + "\n" in p.out() or not p.running(), 60)
        if word + "\n" not in p.out():
            raise Failed(f"{p.name} ended with {p.process.returncode} before {word}: {p.tail()}")
    if look:
        reached("READY")
        if shift:
            wait_for("protection", lambda: lab.protected(p) >= 2 or not p.running(), 30)
            lab.shiftctl("h0", "drain", "mlx5_0", check=False)  # UC stays
            wait_for("move", lambda: lab.shift_log(p).count("moved from mlx5_0 to mlx5_1") >= 2 or not p.running(), 30)
        p.say("moved")
    if p.wait(60) or not p.out().endswith("OK\n"):
        raise Failed(f"{p.name} ended with {p.process.returncode}: {p.tail()}")
    if shift:
        undriven = re.findall("is foreign: its (?:completion|shared).*", lab.shift_log(p))
        left_alone = "-x" in words and "-u" in words
        if len(undriven) != (2 if left_alone else 0) or (left_alone and UNDRIVEN not in undriven):
            raise Failed(f"{p.name}: not driven because of others: {undriven}")
    return p.out()


def run(lab, name):
    stock, shift = (run_once(lab, CASES[name], how) for how in (None, Shift(log="info", backup="pair", **SOON)))
    if stock != shift:
        raise Failed(f"stock: {stock.split()}, SHIFT: {shift.split()}")


if __name__ == "__main__":
    sys.exit(cases_main(CASES, run))
