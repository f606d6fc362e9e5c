#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A shared receive queue with fewer receives than queue pairs, through a flap at each end and back: each message arrives and, when
the flap is over, each datagram. One thing is under way at a time, and a datagram that is lost is sent again.
"1_of_3": one receive for three connections; "beside": and for a queue pair for datagrams, which SHIFT does not move.
"reset": when all have moved and are back, the program resets its queue pairs and connects them again. "reset_one": one of them;
"reset_away": while they are on the other NIC.
Each other case runs on stock and with SHIFT.

  scarce.py --build DIR [--drawn N] [CASE...]
"""
import os
import re
import sys

from shiftlab.lab import PATIENT, Shift, cases_main, free_port, wait_for
from shiftlab.perftest import SOON, Failed, said

MORE = 30
COUNT = re.compile(r"^COUNT (\d+) (\d+) AGAIN (\d+)$", re.M)
CASES = {f"{r}_of_{q}{beside}": (r, q, [] if not beside else ["-u"])
         for r in (1, 2, 3) for q in (1, 3) for beside in ("", "_beside") if r < q + bool(beside)}
CASES.update(dict.fromkeys(("reset", "reset_one", "reset_away"), (3, 2, [])), reset_one_beside=(2, 2, ["-u"]))


class Pair:
    """The server, whose receives are few, and its client."""

    def __init__(self, lab, name, shift):
        receives, self.lanes, self.more = CASES[name]
        self.lab, self.shift = lab, shift
        port = free_port()
        argv = [os.path.join(lab.out, "bin", "scarce"), "-p", port, "-q", self.lanes, "-r", receives, *self.more]
        # A machine that is busy is no fault
        use = Shift(log="info", backup="pair", **{**SOON, **PATIENT}) if shift else None
        kind = "" if shift else "stock-"
        self.server = lab.start("h0", argv + ["-s"], kind + "server", use)
        self.client = lab.start("h1", argv, kind + "client", use, stdin=True)
        for p in (self.server, self.client):
            said(p, "^CONNECTED")
        self.protected()

    def protected(self):
        for p in (self.server, self.client):
            wait_for(f"protection of {p.name}",
                     lambda p=p: not self.shift or self.lab.protected(p) >= self.lanes or not p.running(), 30)

    def counts(self):
        """Messages on the lane with the fewest, datagrams, and those that were sent again."""
        before = len(COUNT.findall(self.client.out()))
        self.client.say("count")
        wait_for("count", lambda: len(COUNT.findall(self.client.out())) > before or not self.alive(), 60)
        if not self.alive():
            raise Failed(f"ended: {self.server.tail(3)} {self.client.tail(3)}")
        return [int(n) for n in COUNT.findall(self.client.out())[-1]]

    def alive(self):
        return self.server.running() and self.client.running()

    def flows(self, what, datagrams):
        start = self.counts()

        def enough():
            now = self.counts()
            return now[0] > start[0] + MORE and (not datagrams or now[1] > start[1] + MORE)
        wait_for(f"messages {what}", enough, 60)

    def moved(self, n, way):
        if self.shift:
            wait_for(f"{way} of all", lambda: self.lab.shift_log(self.server).count(f"moved from {way}") >= n or not self.alive(), 40)

    def reset(self, word):
        before = self.client.out().count("RESET\n")
        self.client.say(word)
        wait_for("reset", lambda: self.client.out().count("RESET\n") > before or not self.alive(), 40)

    def flap(self, host, turn, away=False):
        self.client.say("lanes")
        self.lab.fault("port-down", host + "/mlx5_0")
        self.moved(turn * self.lanes, "mlx5_0 to mlx5_1")
        if self.shift and host == "h1":   # what lies on the server's own NIC can be taken back from there
            self.flows("during the flap", False)
        if away:
            self.reset("reset")
        self.lab.ctl("heal", host + "/mlx5_0")
        self.flows("as the flap ends", False)
        if not away:    # else they are connected anew on their own NIC
            self.moved(turn * self.lanes, "mlx5_1 to mlx5_0")
        self.client.say("all")
        self.flows("behind the flap", bool(self.more))

    def done(self):
        again = self.counts()[2]
        self.client.say("end")
        for p in (self.client, self.server):
            if p.wait(60) or "OK" not in p.out().splitlines():
                raise Failed(f"{p.name} ended with {p.process.returncode}: {p.tail(3)}")
        print(f"  {'SHIFT' if self.shift else 'stock'}: {again} datagrams sent again")


def run_on(lab, name, shift):
    pair = Pair(lab, name, shift)
    pair.flows("before", bool(pair.more))
    if name == "reset_away":
        pair.flap("h1", 1, away=True)
        pair.protected()
        return pair.done()
    for turn, host in enumerate(("h1", "h0"), 1):
        pair.flap(host, turn)
        for _ in range(2 if name.startswith("reset") else 0):
            pair.reset("one" if "one" in name else "reset")
            pair.protected()
            pair.flows("behind the reset", bool(pair.more))
    return pair.done()


def run(lab, name):
    for shift in (True,) if name == "reset_away" else (False, True):   # stock is not away
        run_on(lab, name, shift)


if __name__ == "__main__":
    sys.exit(cases_main(CASES, run))
