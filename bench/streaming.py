# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A stream of WRITEs between two hosts at full load, and the times without a completion in it."""
import os
import time

from shiftlab.lab import free_port, wait_for

SETTLE_S = 0.2


class Stream:
    """Both ends; the client (h1) posts. gaps and moves are known once it was stopped. dmabufs: so many regions of the server's."""

    def __init__(self, lab, shift=None, timeout=20, dmabufs=0):
        argv = [os.path.join(lab.out, "bin", "stream"), "--port", free_port(), "--timeout", timeout]
        self.lab = lab
        self.server = lab.start("h0", argv + ["--server", "--dmabufs", dmabufs], "server", shift, stdin=True)
        self.client = lab.start("h1", argv + ["--client"], "client", shift, stdin=True)
        self.gaps, self.moves = [], []
        for p in (self.server, self.client):
            wait_for("start of " + p.name, lambda p=p: "STREAMING" in p.out() or not p.running(), 15)
            if shift:
                wait_for("protection of " + p.name, lambda p=p: lab.protected(p), 15)
        time.sleep(SETTLE_S)

    def stop(self):
        for p in (self.client, self.server):
            p.say("end")
        for p in (self.client, self.server):
            if p.wait(60):
                raise RuntimeError(f"{p.name} ended with {p.process.returncode}\n{p.tail()}"
                                   + self.lab.shift_log(p)[-2000:])
            self.moves += [dict(m, end=p.name) for m in self.lab.moves(p)]
        self.gaps = [tuple(int(n) for n in r.split()[1:]) for r in self.client.out().splitlines()
                     if r.startswith("GAP")]

    def longest_gap(self, start_ns, end_ns):
        """(from, to) of the longest time without a completion that ended in this window."""
        within = [g for g in self.gaps if start_ns < g[1] <= end_ns]
        return max(within, key=lambda g: g[1] - g[0], default=None)
