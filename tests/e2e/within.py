#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Queue pairs that are connected to one of the same process, or to themselves, through faults of
their NIC and back. Both ends are on the NIC that fails: one that is sick but not gone may still
execute what it has, at both ends, so that nobody can count what arrived. Those connections end with
errors, as on stock. A loopback QP that has nothing under way moves even then.

  within.py --build DIR [CASE...]
"""
import os
import re
import sys
import time

from shiftlab.lab import PATIENT, Shift, cases_main, wait_for
from shiftlab.perftest import SOON, Failed

QPS = 3
CASES = {
    "calm": None,
    "port": ("port-down", "h0/mlx5_0"),
    "taken_away": ("nic-disassociate", "h0/mlx5_0"),
    "drain": None,
    "fatal": ("nic-internal-error", "h0/mlx5_0"),
    "hang": ("nic-hang", "h0/mlx5_0"),
    "fatal_idle": ("nic-internal-error", "h0/mlx5_0"),
    "hang_idle": ("nic-hang", "h0/mlx5_0"),
}
ENDS = ("fatal", "hang")
SOME = 100      # messages from now, of which one is under way when the NIC fails


def await_moved(lab, program, way, qps=QPS):
    pattern = re.compile(r"QP (0x\w+) moved from " + " to ".join(way))

    def moved():
        if not program.running():
            raise Failed("the program ended")
        return len(set(pattern.findall(lab.shift_log(program)))) >= qps

    wait_for("move of all queue pairs from " + " to ".join(way), moved, 30)


def begin(lab, name):
    if name == "drain":
        lab.shiftctl("h0", "drain", "mlx5_0")
    else:
        lab.fault(*CASES[name])


def finish(lab, name):
    if name == "drain":
        lab.shiftctl("h0", "undrain", "mlx5_0")
    else:
        lab.ctl("heal", CASES[name][1])


def expect_error(lab, program, name):
    lab.fault(*CASES[name], at_message=SOME)
    if not program.wait(60):
        raise Failed("ended well, though its requests' fate cannot be known")
    if "FAILED status 12" not in program.out():
        raise Failed("ended, but not with an error completion")


def run_idle(lab, name):
    program = lab.start("h0", [os.path.join(lab.out, "bin", "within"), "idle"], "within",
                        Shift(log="info", **SOON), stdin=True)
    wait_for("protection", lambda: lab.protected(program) >= 1, 30)
    begin(lab, name)
    await_moved(lab, program, ("mlx5_0", "mlx5_1"), 1)
    program.say("talk")
    time.sleep(0.2)
    finish(lab, name)
    await_moved(lab, program, ("mlx5_1", "mlx5_0"), 1)
    program.say("end")
    if program.wait(60) or not re.search(r"OK 0 0 [1-9]\d*, [1-9]", program.out()):
        raise Failed(f"ended with {program.process.returncode}")


def run(lab, name):
    if name.endswith("idle"):
        run_idle(lab, name)
        return
    # Where no NIC is sick, none is taken for sick either.
    patience = PATIENT if name in ("calm", "drain") else {}
    program = lab.start("h0", [os.path.join(lab.out, "bin", "within")], "within",
                        Shift(log="info", **{**SOON, **patience}), stdin=True)
    wait_for("protection", lambda: lab.protected(program) >= QPS, 30)
    time.sleep(0.2)
    if name in ENDS:
        expect_error(lab, program, name)
        return
    if name != "calm":
        begin(lab, name)
        await_moved(lab, program, ("mlx5_0", "mlx5_1"))
        time.sleep(0.2)
        finish(lab, name)
        await_moved(lab, program, ("mlx5_1", "mlx5_0"))
        time.sleep(0.2)
    program.say("end")
    if program.wait(60):
        raise Failed(f"ended with {program.process.returncode}")
    if not re.search(r"OK [1-9]\d* [1-9]\d* [1-9]\d*, [1-9]", program.out()):
        raise Failed("some connection carried nothing")


if __name__ == "__main__":
    sys.exit(cases_main(CASES, run))
