#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Forty connections whose CQs are all on one completion channel, driven by its events alone, through
faults and back: all are protected, all move, and none stands still for want of an event.

  crowd.py --build DIR [CASE...]
"""
import os
import re
import sys

from shiftlab.lab import NO_NIC_IS_SICK, Shift, cases_main, free_port, wait_for
from shiftlab.perftest import SOON, Failed

QPS = 40
ENOUGH = 20     # messages of each connection
LEAST = re.compile(r"^LEAST (\d+)$", re.M)
CASES = {
    "calm": (),
    "link": (("port-down", "h0/mlx5_0"),),
    "switch": (("switch-down", "rail0"),),
    "taken_away_twice": (("nic-disassociate", "h1/mlx5_0"), ("nic-disassociate", "h1/mlx5_0")),
    "drain": (("drain", "h0"),),
}


def least(program):
    before = len(LEAST.findall(program.out()))
    program.say("count")
    wait_for("count of " + program.name, lambda: len(LEAST.findall(program.out())) > before, 20)
    return int(LEAST.findall(program.out())[-1])


def await_traffic(programs):
    for p in programs:
        before = least(p)
        wait_for("messages of all connections of " + p.name,
                 lambda p=p, before=before: least(p) >= before + ENOUGH, 30)


def await_moved(lab, programs, way, times):
    pattern = re.compile(r"QP (0x\w+) moved from " + " to ".join(way))

    def moved():
        if not all(p.running() for p in programs):
            raise Failed("a program ended")
        return all(len(pattern.findall(lab.shift_log(p))) >= times * QPS for p in programs)

    wait_for("move of all queue pairs from " + " to ".join(way), moved, 60)


LIVES = {"taken_away_twice": 3}


def check_no_queries(lab, lives=1):
    """
    What a standby needs is captured from the application's own calls: nobody asks a NIC for it. Nor for the expected PSN
    of queue pairs that only exchange messages; but each NIC shows once in each of its lives that it knows it.
    """
    for host in lab.status()["hosts"]:
        for nic in host["nics"]:
            if not nic["commands"] or nic["qp_queries"] > lives:
                raise Failed(f"{nic['name']}: {nic['commands']} commands, "
                             f"{nic['qp_queries']} of them query_qp")


def run(lab, name):
    argv = [os.path.join(lab.out, "bin", "crowd")]
    port, shift = free_port(), Shift(log="info", **{**SOON, **NO_NIC_IS_SICK})
    programs = [lab.start("h0", argv + ["-s", port], "server", shift, stdin=True),
                lab.start("h1", argv + [port], "client", shift, stdin=True)]
    for p in programs:
        wait_for("protection of all of " + p.name, lambda p=p: lab.protected(p) >= QPS, 60)
    for p in programs:
        p.say("go")
    await_traffic(programs)
    for i, (kind, target) in enumerate(CASES[name]):
        if kind == "drain":
            lab.shiftctl(target, "drain", "mlx5_0")
        else:
            lab.fault(kind, target)
        await_moved(lab, programs, ("mlx5_0", "mlx5_1"), i + 1)
        await_traffic(programs)
        if kind == "drain":
            lab.shiftctl(target, "undrain", "mlx5_0")
        else:
            lab.ctl("heal", target)
        await_moved(lab, programs, ("mlx5_1", "mlx5_0"), i + 1)
        await_traffic(programs)
    for p in programs:
        p.say("end")
    for p in programs:
        if p.wait(60) or not p.out().endswith("OK\n"):
            raise Failed(f"{p.name} ended with {p.process.returncode}")
    check_no_queries(lab, LIVES.get(name, 1))


if __name__ == "__main__":
    sys.exit(cases_main(CASES, run))
