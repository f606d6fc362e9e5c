#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A program maps other memory at the address of a region that is registered. A NIC that comes back, and registers by address, must
not get that memory under the region's key.

  remapped.py --build DIR [CASE...]
"""
import os
import re
import sys

from shiftlab.lab import Shift, cases_main, free_port, wait_for
from shiftlab.perftest import SOON, Failed

SAID = "other memory is mapped now where"


def await_word(program, word):
    wait_for(f"{word} of {program.name}", lambda: re.search(rf"^{word}", program.out(), re.M)
             or not program.running(), 60)
    if not re.search(rf"^{word}", program.out(), re.M):
        raise Failed(f"{program.name} ended with {program.process.returncode}, before {word}: {program.tail()}")


def protected(lab, program):
    """What the log says last of its connection."""
    said = re.findall(r"QP 0x\w+ (is not protected|on \S+ is protected)", lab.shift_log(program))
    return bool(said) and said[-1] != "is not protected"


def run(lab, fault):
    argv = [os.path.join(lab.out, "bin", "remapped"), "-p", str(free_port())]
    how = Shift(log="info", **SOON)
    both = [lab.start("h0", argv + ["-s"], "server", how, stdin=True),
            lab.start("h1", argv, "client", how, stdin=True)]
    server = both[0]
    for p in both:
        await_word(p, "READY")
    for p in both:
        wait_for("protection", lambda p=p: lab.protected(p) or not p.running(), 30)
    for host in ("h0", "h1"):
        lab.fault(fault, f"{host}/mlx5_1")
    for p in both:
        wait_for("the loss of its standby", lambda p=p: not protected(lab, p), 30)
        p.say("gone")
    for p in both:
        await_word(p, "REMAPPED")
    for host in ("h0", "h1"):
        lab.ctl("heal", f"{host}/mlx5_1")
    for p in both:
        wait_for("the NIC's return", lambda p=p: "mlx5_1: the device is back" in lab.shift_log(p), 30)
        p.say("back")
    for p in both:
        await_word(p, "CHECKED")
    if SAID not in lab.shift_log(server):
        raise Failed("nothing was said of memory that is another one")
    if protected(lab, server):
        raise Failed("protected, though a region is missing on the standby's NIC")
    for p in both:
        p.say("end")
    for p in both:
        await_word(p, "FREED")
    for p in both:      # without that region the connection is as any other
        wait_for("protection again", lambda p=p: protected(lab, p) or not p.running(), 60)
        p.say("end")
    for p in both:
        if p.wait(60):
            raise Failed(f"{p.name} ended with {p.process.returncode}: {p.tail()}")


if __name__ == "__main__":
    sys.exit(cases_main({"nic-internal-error": None}, run))
