#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Settings of a connection that a queue pair on another NIC cannot have, or need not: ibv_modify_qp() and ibv_query_qp() answer as
on stock, before a move, behind it and behind the return; what loads an alternate path is not protected, and the log says why.

  alternate.py --build DIR [CASE...]
"""
import os
import re
import sys

from shiftlab.lab import Shift, cases_main, free_port, wait_for
from shiftlab.perftest import SOON, Failed

WHY = "is not protected: its program has loaded an alternate path"
UNSIGNED = "MLX5_QP_SIGNATURE or MLX5_SRQ_SIGNATURE is set"
HARMLESS = ("rate", "migrated", "usual")


class Ends:
    def __init__(self, lab, shift, protected=True):
        self.lab, self.shift = lab, shift
        how = Shift(log="info", backup="pair", **SOON) if shift else None
        argv = [os.path.join(lab.out, "bin", "alternate"), "-p", free_port()]
        kind = "shift" if shift else "stock"
        self.both = [lab.start("h0", argv + ["-s"], "server-" + kind, how, stdin=True),
                     lab.start("h1", argv, "client-" + kind, how, stdin=True)]
        self.talked = 0
        self.reached()
        if shift and protected:
            self.protected()

    def wait(self, p, what, test):
        wait_for(f"{what} of {p.name}", lambda: test() or not p.running(), 30)
        if not test():
            raise Failed(f"{p.name} ended with {p.process.returncode} before {what}: {p.tail()}")

    def reached(self):
        self.talked += 1
        for p in self.both:
            self.wait(p, "TALKED", lambda p=p: len(re.findall("^TALKED", p.out(), re.M)) >= self.talked)

    def protected(self):
        for p in self.both:
            self.wait(p, "protection", lambda p=p: self.lab.protected(p))

    def say(self, word):
        for p in self.both:
            p.say(word)
        self.reached()

    def logged(self, text, n=1):
        for p in self.both if self.shift else ():
            self.wait(p, f"'{text}' in the log", lambda p=p: len(re.findall(text, self.lab.shift_log(p))) >= n)

    def drain(self, on):
        """Of the server's NIC; on stock nothing moves."""
        if self.shift:
            self.lab.shiftctl("h0", "drain" if on else "undrain", "mlx5_0")
        self.logged("moved from mlx5_0 to mlx5_1" if on else "moved from mlx5_1 to mlx5_0")
        self.say("talk")

    def end(self):
        for p in self.both:
            p.say("end")
        for p in self.both:
            if p.wait(30) or "OK" not in p.out().splitlines():
                raise Failed(f"{p.name} ended with {p.process.returncode}: {p.tail()}")
        return [re.findall("^(?:SET|ASKED) .*", p.out(), re.M) for p in self.both]


def stays(ends):
    for word in HARMLESS:
        ends.say(word)
    if ends.shift:
        ends.protected()
    ends.say("alternate")
    ends.logged(WHY)


def moved(ends):
    ends.drain(True)
    for word in HARMLESS + ("alternate",):
        ends.say(word)
    ends.drain(False)
    for word in HARMLESS:
        ends.say(word)


def signature(lab):
    """libmlx5 would sign the requests of shared queues, which SHIFT's engine does not: the program runs on, and the log says why
    nothing is protected. (The software NIC has no signatures: a program with a shared queue, or one of MLX5_QP_SIGNATURE, ends.)"""
    os.environ["MLX5_SRQ_SIGNATURE"] = "1"
    try:
        ends = Ends(lab, True, protected=False)
    finally:
        del os.environ["MLX5_SRQ_SIGNATURE"]
    ends.logged(f"mlx5_0 is foreign: {UNSIGNED}")
    ends.say("usual")
    ends.end()


CASES = {"stays": stays, "moved": moved, "signature": None}


def run(lab, name):
    seen = []
    if name == "signature":
        signature(lab)
        return
    for shift in (False, True):
        ends = Ends(lab, shift)
        CASES[name](ends)
        seen.append(ends.end())
    if seen[0] != seen[1]:
        raise Failed("\n".join(f"stock: {stock}\nSHIFT: {here}" for stock, here in zip(sum(seen[0], []), sum(seen[1], []))
                               if stock != here) or f"{seen}")


if __name__ == "__main__":
    sys.exit(cases_main(CASES, run))
