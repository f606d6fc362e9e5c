#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What a NIC that hangs may hold up, and what not: a read of its port's files waits in the driver, as its commands do.

  hung.py --build DIR [CASE...]
"""
import os
import sys
import time

from shiftlab.lab import Shift, cases_main, free_port, wait_for
from shiftlab.perftest import SOON, Failed

QPS = 2
HOSTS = ("h0", "h1")
HUNG = "mlx5_0"
LOOKS_S = 3     # in which each NIC in use is looked at, more than once
WAIT_S = 40     # a read of a NIC that hangs takes 65


class Pair:
    """Two processes with connections that rest."""

    def __init__(self, lab):
        argv = [os.path.join(lab.out, "bin", "control"), "--port", free_port(), "--qps", QPS]
        shift = Shift(log="info", **SOON)
        self.lab = lab
        self.ends = [lab.start(host, argv + [end], end[2:], shift, stdin=True)
                     for host, end in zip(HOSTS, ("--server", "--client"))]
        self.wait("protection", lambda q: q["level"] == "protected")

    def all_are(self, truth):
        for p in self.ends:
            if not p.running():
                raise Failed(f"{p.name} ended\n{p.tail()}")
        found = [self.lab.connections(host) for host in HOSTS]
        return all(len(qps) == QPS and all(map(truth, qps)) for qps in found)

    def wait(self, what, truth):
        wait_for(what, lambda: self.all_are(truth), WAIT_S)

    def leave(self, nics, what):
        self.wait(f"move away from {what}", lambda q: q["nic"] not in nics and q["level"] == "protected")

    def end(self):
        for p in self.ends:
            p.say("end")
        for p in self.ends:
            if p.wait(60):
                raise Failed(f"{p.name} ended with {p.process.returncode}\n{p.tail()}")


def others(lab):
    """The workers of the other NICs go on: they make standbys, whichever NIC is left and comes back."""
    pair = Pair(lab)
    lab.fault("nic-hang", f"h1/{HUNG}")
    pair.leave((HUNG,), "the NIC that hangs")
    time.sleep(LOOKS_S)
    for nic in ("mlx5_1", "mlx5_2"):
        lab.fault("port-down", f"h1/{nic}")
        pair.wait(f"move away from {nic}", lambda q, nic=nic: q["nic"] not in (HUNG, nic))
        lab.fault("port-up", f"h1/{nic}")
        pair.wait("protection by it", lambda q: q["level"] == "protected")
        time.sleep(LOOKS_S)
    lab.ctl("heal", f"h1/{HUNG}")
    pair.wait("return", lambda q: q["nic"] == HUNG and q["level"] == "protected")
    pair.end()


CASES = {"others": others}


if __name__ == "__main__":
    sys.exit(cases_main(CASES, lambda lab, name: CASES[name](lab), nics=3))
