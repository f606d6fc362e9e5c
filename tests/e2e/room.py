#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Completion queues that are as small as their program needs them: what SHIFT's own moves complete takes no place in them.

  room.py --build DIR [CASE...]
"""
import os
import re
import sys
import time

from shiftlab.lab import PATIENT, Shift, cases_main, free_port, wait_for
from shiftlab.perftest import SOON

GROWS_US = 50000    # a command: that long, at least, a queue takes to be larger
SIZES = re.compile(r"^(?:CQE \d+|RESIZED .*)$", re.M)


class Failed(Exception):
    """What a case found wrong."""


class Room:
    """The program with the small queue, its peer, and a stranger, who has no SHIFT."""

    def __init__(self, lab, mode, shift=True, program="room", **settings):
        self.lab = lab
        port = str(free_port())
        argv = [os.path.join(lab.out, "bin", program), mode, "-p", port]
        name = "" if shift else "stock-"
        with_shift = Shift(log="info", backup="pair", **{**SOON, **PATIENT, **settings}) if shift else None
        self.server = lab.start("h0", argv + ["-s"], name + "server", with_shift, stdin=True)
        self.ends = [self.server, lab.start("h1", argv, name + "client", with_shift)]
        if mode == "beside":
            self.said("FIRST")
            self.ends.append(lab.start("h1", argv, name + "stranger", None))
        for end in self.ends:
            self.said("CONNECTED", end)

    def said(self, word, end=None):
        end = end or self.server
        wait_for(f"{word} of {end.name}", lambda: re.search(f"^{word}", end.out(), re.M) or not end.running(), 40)
        if not re.search(f"^{word}", end.out(), re.M):
            raise Failed(f"{end.name} ended with {end.process.returncode}, before {word}: {end.tail(3)}")

    def protected(self):
        wait_for("protection", lambda: self.lab.protected(self.server) >= 1 or not self.server.running(), 30)

    def moved(self, n=1):
        wait_for(f"move {n}", lambda: self.log().count(" moved from ") >= n or not self.server.running(), 40)

    def log(self):
        return self.lab.shift_log(self.server)

    def done(self):
        for end in self.ends:
            if end.wait(60) or "OK" not in end.out().splitlines():
                raise Failed(f"{end.name} ended with {end.process.returncode}: {end.tail(3)}")


def again(lab):
    """What moves off with a full send queue leaves its completion queue as it was: queue pairs on it go on."""
    room = Room(lab, "alone")
    room.protected()
    room.server.say("go")
    room.said("FLOWS")
    for n in range(2):
        lab.fault("port-down", "h0/mlx5_0")
        room.moved(2 * n + 1)
        lab.ctl("heal", "h0/mlx5_0")
        room.moved(2 * n + 2)
    room.server.say("stop")
    room.done()


def at_once(lab, kind, target):
    """The first requests are out, and the queue is not larger yet: what leads to a move then ends no connection."""
    room = Room(lab, "unused", program="room_direct")
    room.protected()
    lab.ctl("cost", "h0/mlx5_0", GROWS_US)
    room.server.say("go")
    room.said("FLOWS")
    if kind == "drain":
        lab.shiftctl(target, "drain", "mlx5_0")
    else:
        lab.fault(kind, target)
    room.moved()
    lab.ctl("heal", "all")
    room.server.say("stop")
    room.done()


def peers_drain_at_once(lab):
    at_once(lab, "drain", "h1")


def peers_link_at_once(lab):
    at_once(lab, "port-down", "h1/mlx5_0")


def link_at_once(lab):
    at_once(lab, "port-down", "h0/mlx5_0")


def flap(lab, shift, **settings):
    room = Room(lab, "beside", shift, **settings)
    if shift:
        room.protected()
    room.server.say("go")
    room.said("FLOWS")
    lab.fault("port-down", "h0/mlx5_0")
    time.sleep(0.3)  # the flap
    lab.ctl("heal", "h0/mlx5_0")
    if shift:
        room.moved()
    room.server.say("stop")
    room.done()


def beside(lab):
    """A flap that stock outlives: a connection to a stranger and datagrams on the queue of one that moves."""
    flap(lab, True)


def beside_stock(lab):
    flap(lab, False)


def refused(lab):
    """The queue cannot be made larger: its connection is not protected, which is said; an overrun of its own is told."""
    lab.ctl("limit", "h0/mlx5_0", "cq-resize", 0)
    room = Room(lab, "overrun")
    wait_for("the reason", lambda: "could not be made larger" in room.log() or not room.server.running(), 30)
    if lab.protected(room.server):
        raise Failed("protected, though its completion queue has no room")
    room.server.say("go")
    room.said("TOLD")
    room.server.say("stop")
    room.done()


def resized(lab):
    """The program's own resizes, and what it reads of the size: all as on stock, and there is room behind each."""
    answers = []
    for shift in (False, True):
        room = Room(lab, "resize", shift)
        if shift:
            room.protected()
        room.server.say("go")
        room.said("FLOWS")
        if shift:
            lab.fault("port-down", "h0/mlx5_0")
            room.moved()
            lab.ctl("heal", "h0/mlx5_0")
            room.moved(2)
        room.server.say("stop")
        room.done()
        answers.append(SIZES.findall(room.server.out()))
    if os.environ.get("SHIFT_ENGINE") == "ledger":  # its provider reads the field
        return
    if answers[0] != answers[1]:
        raise Failed(f"stock {answers[0]}, SHIFT {answers[1]}")


CASES = {"peers_drain_at_once": peers_drain_at_once, "peers_link_at_once": peers_link_at_once, "link_at_once": link_at_once,
         "again": again, "beside_stock": beside_stock, "beside": beside, "refused": refused, "resized": resized}


if __name__ == "__main__":
    sys.exit(cases_main(CASES, lambda lab, name: CASES[name](lab)))
