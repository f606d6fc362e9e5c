#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Access rights that change while a connection lives hold on every NIC that it comes to. "before": taken
away, then the connection moves; "after": taken away where it has moved to, and used when it is back;
"here": used there at once; "both": taken away when it is back; "given": a right that was given.

  rights.py --build DIR [CASE...]
"""
import os
import re
import sys

from shiftlab.lab import Shift, cases_main, wait_for
from shiftlab.perftest import SOON, Failed

QPS = 2
CASES = {       # the program's word; does the connection come back before the right is used?
    "before": ("before", False),
    "before_back": ("before", True),
    "after": ("after", True),
    "here": ("after", False),
    "both": ("both", True),
    "given": ("given", True),
}


def await_word(program, word):
    wait_for(f"{word} of {program.name}",
             lambda: word in program.out().splitlines() or not program.running(), 30)
    if word not in program.out().splitlines():
        raise Failed(f"ended with {program.process.returncode}, before {word}: {program.tail()}")


def await_moved(lab, program, way):
    pattern = re.compile(r"QP (0x\w+) moved from " + " to ".join(way))
    wait_for("move from " + " to ".join(way),
             lambda: len(set(pattern.findall(lab.shift_log(program)))) >= QPS
             or not program.running(), 30)


def run(lab, name):
    word, back = CASES[name]
    program = lab.start("h0", [os.path.join(lab.out, "bin", "rights"), word], name,
                        Shift(log="info", **SOON), stdin=True)
    await_word(program, "CONNECTED")
    wait_for("protection", lambda: lab.protected(program) >= QPS, 30)
    program.say("go")
    await_word(program, "READY")
    lab.fault("port-down", "h0/mlx5_0")
    await_moved(lab, program, ("mlx5_0", "mlx5_1"))
    program.say("moved")
    await_word(program, "THERE")
    if back:
        lab.ctl("heal", "h0/mlx5_0")
        await_moved(lab, program, ("mlx5_1", "mlx5_0"))
    program.say("back")
    if program.wait(60):
        raise Failed(f"ended with {program.process.returncode}: {program.tail()}")


if __name__ == "__main__":
    sys.exit(cases_main(CASES, run))
