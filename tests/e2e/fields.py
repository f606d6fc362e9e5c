#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""All public fields of the public structures (infiniband/verbs.h), after each verb, through a fault and back: as
on stock, but for those that are listed here with the reason.

  fields.py --build DIR [CASE...]
"""
import os
import re
import sys

from shiftlab.lab import Shift, cases_main, wait_for
from shiftlab.perftest import SOON, Failed

CASES = ("same",)
LINE = re.compile(r"^FIELD (\S+) (\S+) (\S+) (.*)$", re.M)
ACKED = re.compile(r"^ACKED (\S+) (\S+) (\d+) (\d+)$", re.M)
# What differs, and why that is right.
DIFFERS = {
    "ibv_context.async_fd": "an eventfd of SHIFT's, which is readable for what the program shall see",
    "ibv_qp.qp_num": "SHIFT has queue pairs of its own on the NIC, which numbers all of them",
    "ibv_mr.lkey": "SHIFT registers memory on the NIC, which draws the keys of all of it",
    "ibv_mr.rkey": "as lkey",
    "ibv_mw.rkey": "as lkey",
    "ibv_comp_channel.fd": "an epoll descriptor of SHIFT's, which covers the channels of all NICs",
}


def run_once(lab, shift):
    program = lab.start("h0", [os.path.join(lab.out, "bin", "fields")], "shift" if shift else "stock", shift,
                        stdin=True)

    def reached(word):
        wait_for(word, lambda: word + "\n" in program.out() or not program.running(), 40)
        if word + "\n" not in program.out():
            raise Failed(f"{program.name} ended with {program.process.returncode}, before {word}")

    def moved(way):
        if shift:
            wait_for("move from " + way, lambda: len(set(re.findall(
                r"QP (0x\w+) moved from " + way, lab.shift_log(program)))) >= 2 or not program.running(), 30)

    reached("CONNECTED")
    if shift:
        wait_for("protection", lambda: lab.protected(program) >= 2, 30)
    program.say("protected")
    reached("READY")
    lab.fault("port-down", "h0/mlx5_0")
    moved("mlx5_0 to mlx5_1")
    program.say("down")
    reached("SENT")
    lab.ctl("heal", "h0/mlx5_0")
    program.say("up")
    reached("POLLED")
    moved("mlx5_1 to mlx5_0")
    program.say("back")
    if program.wait(20) or not program.out().endswith("OK\n"):
        raise Failed(f"{program.name} ended with {program.process.returncode}")
    return program.out()


def read(out):
    """By step, object and field, the values in their order: steps may come again."""
    values = {}
    for step, name, field, value in LINE.findall(out):
        values.setdefault((step, name, field), []).append(value)
    return values


def run(lab, _):
    told, own = (run_once(lab, shift) for shift in (None, Shift(log="info", **SOON)))
    stock, shift = read(told), read(own)
    if not any(int(n) for *_, n, _ in ACKED.findall(told)) or not any(int(n) for *_, n in ACKED.findall(told)):
        raise Failed("the program has acknowledged no events")
    if re.findall("^HAS NO .*", told, re.M) != re.findall("^HAS NO .*", own, re.M):
        raise Failed("the objects are not the same")
    wrong, differs = {}, set()
    for key in sorted(stock.keys() | shift.keys()):
        one, other = ({*values.get(key, [])} for values in (stock, shift))
        if one == other:
            continue
        differs.add(key[2])
        if key[2] not in DIFFERS:
            wrong.setdefault((key[1], key[2]), (key[0], one, other))
    for (name, field), (step, one, other) in wrong.items():
        print(f"       {field} of {name} at {step}: stock {one}, SHIFT {other}")
    if wrong:
        raise Failed(f"{len(wrong)} fields differ, of {len({key[1:] for key in stock})}")
    if {*DIFFERS} - differs:
        raise Failed(f"no longer different: {', '.join({*DIFFERS} - differs)}")
    print(f"       {len({key[1:] for key in stock})} fields, {len(stock)} looks; "
          f"not here: {', '.join(re.findall('^HAS NO (.*)', told, re.M))}")


if __name__ == "__main__":
    sys.exit(cases_main(CASES, run))
