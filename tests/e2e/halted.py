#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A process is halted, its NIC is not, and a cable is out for a second: without SHIFT the connection goes on as soon
as the cable is back, whether the process does or not; so it does with SHIFT (P9).

  halted.py --build DIR [--few] [CASE...]
"""
import os
import signal
import sys
import time

from shiftlab import perftest
from shiftlab.lab import Shift, cases_main, draw, free_port, wait_for
from shiftlab.perftest import Failed

OUT_S = 1           # the cable
TOOL_S = 600        # perftest's -D; it is ended when it has shown what it should
RETRIES = ["-u", "20"]  # the QP's own take 30 s
STEADY = 3          # paths, as bits
MORE = 10000        # bytes, at least
UNANSWERED = "its peer has not answered for"
SERVER, CLIENT = "h0", "h1"


def halt(program):
    """When it returns, no thread of it runs."""
    tasks = f"/proc/{program.pid}/task"

    def state(task):
        with open(f"{tasks}/{task}/stat", encoding="ascii") as f:
            return f.read().rpartition(")")[2].split()[0]

    os.kill(program.pid, signal.SIGSTOP)
    wait_for("halt", lambda: all(state(t) == "T" for t in os.listdir(tasks)))


class Tool:
    """A stock tool between the hosts; with SHIFT it is protected, and its paths are steady."""

    def __init__(self, lab, tool, shift, **settings):
        self.lab, self.tool, self.shift = lab, tool, shift
        use = Shift(log="info", holddown_ms=200, **settings) if shift else None
        argv = [tool, "-d", "mlx5_0", "-x", "0", "-F", "-p", free_port(), "-D", TOOL_S, *RETRIES]
        self.server = lab.start(SERVER, argv, shift=use, name="server")
        self.server.await_listening()
        self.client = lab.start(CLIENT, argv + ["127.0.0.1"], shift=use, name="client")
        if shift:
            wait_for("protection, and steady paths", lambda: all(map(self.steady, (SERVER, CLIENT))), 30)
        self.goes_on("traffic")

    def steady(self, host):
        qps = self.lab.connections(host)
        return qps and all(q["level"] == "protected" and q["paths"]["up"] == STEADY and
                           q["paths"]["steady"] == STEADY for q in qps)

    def goes_on(self, what, nic=0):
        before = self.lab.carried(nic)
        wait_for(what, lambda: self.lab.carried(nic) > before + MORE or not self.alive(), 30)
        if not self.alive():
            raise Failed(f"{what}: ended\n{self.server.tail()}{self.client.tail()}")

    def alive(self):
        return self.server.running() and self.client.running()

    def stayed(self):
        if self.shift and " moved from " in self.lab.shift_log(self.client):
            raise Failed("left for a peer that cannot follow")

    def end(self):
        perftest.end(self.tool, self.server, self.client)
        for p in (self.server, self.client):
            if p.wait(90):
                raise Failed(f"{p.name} failed\n{p.tail()}")


def cable_out(lab, host):
    lab.fault("port-down", host + "/mlx5_0")
    time.sleep(OUT_S)
    lab.ctl("heal", host + "/mlx5_0")


def one_sided(lab, tool, shift, host, **settings):
    """The client goes on while its peer is halted."""
    pair = Tool(lab, tool, shift, **settings)
    halt(pair.server)
    cable_out(lab, host)
    pair.goes_on("traffic, the peer halted")
    pair.stayed()
    os.kill(pair.server.pid, signal.SIGCONT)
    pair.goes_on("traffic, both running")
    pair.end()


def messages(lab, shift, host):
    """Receives of who is halted run out; then its peer waits for them, and no longer."""
    pair = Tool(lab, "ib_send_bw", shift)
    halt(pair.server)
    cable_out(lab, host)
    os.kill(pair.server.pid, signal.SIGCONT)
    pair.goes_on("messages")
    pair.end()


def oneself(lab, shift, host):
    """Who is halted is the one that sends, and finds all of it behind it."""
    pair = Tool(lab, "ib_write_bw", shift)
    halt(pair.client)
    cable_out(lab, host)
    os.kill(pair.client.pid, signal.SIGCONT)
    pair.goes_on("traffic")
    pair.end()


def lives_without_a_fault(lab):
    """Each NIC answers from the memory of who is halted."""
    pair = Tool(lab, "ib_write_bw", False)
    halt(pair.server)
    pair.goes_on("traffic, the peer halted")
    os.kill(pair.server.pid, signal.SIGCONT)
    pair.end()


def leaves_when_it_can(lab):
    """The cable stays out: both leave as soon as the peer goes on. Until then the log says why nothing happens."""
    pair = Tool(lab, "ib_write_bw", True)
    halt(pair.server)
    lab.fault("port-down", CLIENT + "/mlx5_0")
    wait_for("a line about the silent peer", lambda: UNANSWERED in lab.shift_log(pair.client) or not pair.alive(), 30)
    pair.stayed()
    os.kill(pair.server.pid, signal.SIGCONT)
    for p in (pair.server, pair.client):
        wait_for("move of " + p.name, lambda p=p: " moved from " in lab.shift_log(p) or not p.running(), 30)
    pair.goes_on("traffic", nic=1)
    pair.end()


CASES = {
    "stock": lives_without_a_fault,
    "stock-write": lambda lab: one_sided(lab, "ib_write_bw", False, CLIENT),
    "write": lambda lab: one_sided(lab, "ib_write_bw", True, CLIENT),
    "write-lazy": lambda lab: one_sided(lab, "ib_write_bw", True, CLIENT, lazy="on"),
    "write-peers-cable": lambda lab: one_sided(lab, "ib_write_bw", True, SERVER),
    "read": lambda lab: one_sided(lab, "ib_read_bw", True, CLIENT),
    "atomic": lambda lab: one_sided(lab, "ib_atomic_bw", True, CLIENT),
    "send": lambda lab: messages(lab, True, CLIENT),
    "send-peers-cable": lambda lab: messages(lab, True, SERVER),
    "oneself": lambda lab: oneself(lab, True, CLIENT),
    "leaves": leaves_when_it_can,
}


def few():
    """What failed before, and one of the others."""
    return ["write", *draw([name for name in CASES if name != "write"], 1)]


if __name__ == "__main__":
    sys.exit(cases_main(CASES, lambda lab, name: CASES[name](lab), few=few))
