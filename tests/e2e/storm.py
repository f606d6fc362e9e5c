#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A program that never stops making queue pairs. A connection that carries traffic is protected all the
same, and survives a fault; one that rests is protected in the end.

  storm.py --build DIR [CASE...]
"""
import os
import re
import sys

from shiftlab.lab import Shift, cases_main, free_port, wait_for
from shiftlab.perftest import SOON, Failed

HOSTS = ("h0", "h1")


class Storm:
    def __init__(self, lab):
        argv = [os.path.join(lab.out, "bin", "storm"), "--port", free_port()]
        shift = Shift(log="info", **SOON)
        self.lab = lab
        self.ends = [lab.start("h0", argv + ["--server"], "server", shift, stdin=True),
                     lab.start("h1", argv, "client", shift, stdin=True)]

    def await_all(self, what, seen, seconds=60):
        for p in self.ends:
            wait_for(f"{what}, {p.name}", lambda p=p: seen(p) or not p.running(), seconds)
            if not p.running():
                raise Failed(f"{p.name} ended with {p.process.returncode}: {p.tail()}")

    def await_protected(self, word):
        def seen(p):
            qpn = re.search(rf"^{word}\|(\w+)$", p.out(), re.M)
            return qpn and re.search(rf"QP {qpn.group(1)} on \S+ is protected", self.lab.shift_log(p))
        self.await_all(f"protection of the one that {word.lower()}", seen)

    def end(self):
        for p in self.ends:
            p.say("end")
        for p in self.ends:
            if p.wait(60):
                raise Failed(f"{p.name} ended with {p.process.returncode}: {p.tail()}")
            print(f"       {p.name}: {re.search(r'MADE.(.*)', p.out()).group(1)} queue pairs made")


def traffic(lab):
    """What carries traffic is protected while the storm goes on; both its ends move."""
    storm = Storm(lab)
    storm.await_protected("TALKS")
    lab.fault("port-down", "h0/mlx5_0")
    storm.await_all("move", lambda p: "moved from mlx5_0 to mlx5_1" in lab.shift_log(p))
    lab.fault("port-up", "h0/mlx5_0")
    storm.end()


def rest(lab):
    """What rests as well, in the end."""
    storm = Storm(lab)
    storm.await_protected("RESTS")
    storm.end()


CASES = {f.__name__: f for f in (traffic, rest)}

if __name__ == "__main__":
    sys.exit(cases_main(CASES, lambda lab, name: CASES[name](lab)))
