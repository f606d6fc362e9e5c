#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A NIC with hundreds of queue pairs is drained, and comes back: its connections move in turns. Few stand still at a time, though the
NIC's commands take their time, and nothing is sent again.

  turns.py --build DIR [CASE...]
"""
import os
import statistics
import sys

from shiftlab.lab import PATIENT, Shift, cases_main, free_port, wait_for
from shiftlab.perftest import SOON, Failed

QPS = 256
TURNS = 32          # conn/turn.c
COST_US = 200       # of a command


class Many:
    """Two processes with that many connections, which rest."""

    def __init__(self, lab, qps=QPS, hosts=("h0", "h1"), name=""):
        argv = [os.path.join(lab.out, "bin", "control"), "--port", free_port(), "--qps", qps]
        shift = Shift(log="info", **{**SOON, **PATIENT})
        self.lab, self.qps, self.hosts = lab, qps, hosts
        self.ends = [lab.start(host, argv + [end], f"{end[2:]}{name}", shift, stdin=True)
                     for host, end in zip(hosts, ("--server", "--client"))]
        for p in self.ends:
            wait_for("rest of " + p.name, lambda p=p: "RESTING" in p.out() or not p.running(), 60)
        self.await_all("protection", lambda q: q["level"] == "protected")

    def mine(self, host):
        for p in self.ends:
            if not p.running():
                raise Failed(f"{p.name} ended\n{p.tail()}")
        return self.lab.connections(host)

    def await_all(self, what, truth):
        for host in self.hosts:
            wait_for(f"{what}, {host}", lambda host=host: sum(map(truth, self.mine(host))) == self.qps, 120)

    def await_on(self, nic):
        self.await_all("traffic on " + nic, lambda q: q["nic"] == nic)

    def end(self):
        for p in self.ends:
            p.say("end")
        for p in self.ends:
            if p.wait(120):
                raise Failed(f"{p.name} ended with {p.process.returncode}\n{p.tail()}")

    def ordered(self, to):
        """[(from when to when it stood still)], of each end."""
        for p in self.ends:
            moves = [m for m in self.lab.stats(p)["moves"] if m["ordered"] and m["to"] == to]
            if any(m["resubmitted_wrs"] for m in moves):
                raise Failed(f"{p.name}: something was sent again")
            yield [(m["error_ns"], m["settled_ns"]) for m in moves]


def at_a_time(spans):
    """The most that stood still at once."""
    edges = sorted([(begin, 1) for begin, _ in spans] + [(end, -1) for _, end in spans])
    n = most = 0
    for _, step in edges:
        n += step
        most = max(most, n)
    return most


def check(many, to):
    for spans in many.ordered(to):
        if len(spans) < QPS:
            raise Failed(f"{len(spans)} connections moved to {to}, not {QPS}")
        most, still = at_a_time(spans), [(end - begin) / 1e6 for begin, end in spans]
        took = (max(end for _, end in spans) - min(begin for begin, _ in spans)) / 1e6
        print(f"       to {to}: at most {most} at a time, each {statistics.median(still):.1f} ms ({max(still):.1f} at most), "
              f"all in {took:.0f} ms")
        # where a turn is late the next one begins; but by far not all of them
        if most > QPS * 3 // 4:
            raise Failed(f"{most} of {QPS} moved at a time")


def slow_nics(lab):
    for host in ("h0", "h1"):
        for nic in (0, 1):
            lab.ctl("cost", f"{host}/mlx5_{nic}", COST_US)


def comes_back(lab):
    many = Many(lab)
    slow_nics(lab)
    lab.fault("port-down", "h1/mlx5_0")
    many.await_on("mlx5_1")
    lab.ctl("heal", "h1/mlx5_0")
    many.await_on("mlx5_0")
    many.end()
    check(many, "mlx5_0")


def drained(lab):
    many = Many(lab)
    slow_nics(lab)
    lab.shiftctl("h0", "drain", "mlx5_0", "--wait", "60")
    many.await_on("mlx5_1")
    lab.shiftctl("h0", "undrain", "mlx5_0")
    many.await_on("mlx5_0")
    many.end()
    for to in ("mlx5_1", "mlx5_0"):
        check(many, to)


CASES = {f.__name__: f for f in (comes_back, drained)}

if __name__ == "__main__":
    sys.exit(cases_main(CASES, lambda lab, name: CASES[name](lab)))
