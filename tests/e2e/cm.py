#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Connections of rdma_cm, over a librdmacm of the test's own: what a program hears while SHIFT masks a fault,
and how it hears of an end where the default path is dead and the kernel's word cannot come.

  cm.py --build DIR [CASE...]
"""
import os
import sys

from shiftlab.lab import Shift, cases_main, free_port, wait_for
from shiftlab.perftest import SOON, Failed

# rdma_disconnect() over another NIC; events of the kernels of both ends before it; a peer that dies
CASES = ("disconnect", "removed", "killed")


def await_word(program, word):
    wait_for(f"{word} of {program.name}",
             lambda: word in program.out().splitlines() or not program.running(), 60)
    if word not in program.out().splitlines():
        raise Failed(f"{program.name} ended with {program.process.returncode}, before {word}: {program.tail()}")


def run(lab, way):
    port = free_port()
    ends = [lab.start(host, [os.path.join(lab.out, "bin", "cm"), way, role, port], role[2:],
                      Shift(log="info", **SOON), stdin=True)
            for host, role in (("h0", "--server"), ("h1", "--client"))]
    for program in ends:
        await_word(program, "CONNECTED")
    for program in ends:
        wait_for(f"protection of {program.name}", lambda p=program: lab.protected(p) >= 1, 30)
        program.say("go")
    for program in ends:
        await_word(program, "READY")
    lab.fault("switch-down", "rail0")
    for program in ends:
        program.say("dead")     # the traffic moves it
    for program, host in zip(ends, ("h0", "h1")):
        await_word(program, "MOVED")
        if [c["nic"] for c in lab.connections(host)] != ["mlx5_1"]:
            raise Failed(f"{program.name} is not on mlx5_1")
        program.say("on")
    if way == "killed":
        ends[1].kill()
        ends.pop()
        ends[0].say("killed")
    for program in ends:
        if program.wait(60):
            raise Failed(f"{program.name} ended with {program.process.returncode}: {program.tail()}")
        if "kept back" not in lab.shift_log(program) and way != "disconnect":
            raise Failed(f"{program.name} was told of all events")


if __name__ == "__main__":
    sys.exit(cases_main({case: None for case in CASES}, run))
