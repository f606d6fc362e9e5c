#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A NIC acknowledges WRITEs and dies before they are in memory. A message behind them must find them, or end
with an error at both ends; what the application has not seen complete is written again.

  placed.py --build DIR [CASE...]
"""
import os
import re
import sys

from shiftlab.lab import Shift, cases_main, free_port, wait_for
from shiftlab.perftest import SOON, Failed

GOOD = "success"
LIFETIME_MS, SETTLE_S = 8000, 0.01
TRIES = 20
MOVED = " moved from mlx5_0 to mlx5_1 "
TRIED = ": it tells the expected PSN"
CALM = {"heartbeat_ms": 5000}   # each is a completion, which pushes what was acknowledged before it into memory
BACK = "mlx5_0: the device is back"
FAULTS = ("nic-unplug", "nic-pci-error", "nic-internal-error")
CASES = {       # HOW of the program; does the message come?; fault; settings
    "unseen": ("We", True, FAULTS[0], {}),
    "unsignaled": ("wwWe", True, FAULTS[0], {}),
    "seen_before": ("WpwWe", False, FAULTS[0], {}),
    "no_master": ("We", True, FAULTS[1], {}),
    "read_behind": ("WRp", True, FAULTS[0], {}),
    "seen": ("Wp", False, FAULTS[0], {}),
    "seen_more": ("Wp+", False, FAULTS[1], {}),
    "seen_drained": ("Wp", True, FAULTS[2], {}),  # it has its way to memory still
    # it was asked, before it came back as another one
    "seen_back": ("Wp", True, FAULTS[2], {"log": "debug", "packet_lifetime_ms": LIFETIME_MS}),
    "trusted": ("Wp", None, FAULTS[0], {"unplaced": "trust"}),
}


def said(programs, pattern):
    found = []
    for p in programs:
        wait_for(f"'{pattern}' of {p.name}",
                 lambda p=p: re.search(pattern, p.out(), re.M) or not p.running(), 30)
        match = re.search(pattern, p.out(), re.M)
        if not match:
            raise Failed(f"{p.name} ended with {p.process.returncode}: {p.tail()}")
        found.append(match)
    return found


def say(programs, word):
    for p in programs:
        p.say(word)


def come_back(lab, server, client, fault):
    """The NIC is well again before the move ends, and was seen to reach memory behind the peer's leaving."""
    def stamps(pattern):
        return [float(at) for at in re.findall(r"\[([0-9.]+)\] " + pattern, lab.shift_log(server))]

    def seen():
        died = stamps("event .*: nic-down mlx5_0")
        left = [at for at in stamps("QP .*: MSG_STATE ") if died and at > died[0]]
        return left and any(at > left[0] + SETTLE_S for at in stamps("mlx5_0: it reaches memory"))

    lab.fault(fault, "h1/mlx5_0")
    wait_for("a look at it behind the peer's leaving", seen, LIFETIME_MS / 1e3)
    lab.ctl("heal", "h1/mlx5_0")
    wait_for("its return", lambda: BACK in lab.shift_log(server), 30)
    wait_for("the move", lambda: MOVED in lab.shift_log(server), 30)
    if lab.shift_log(server).index(MOVED) < lab.shift_log(server).index(BACK):
        raise Failed("the move was over before the NIC was back")


def once(lab, name, turn=""):
    """How many bytes are stale, where that is left to trust."""
    how, comes, fault, settings = CASES[name]
    argv = [os.path.join(lab.out, "bin", "placed"), "-p", str(free_port())]
    # far longer than the case: it lands when something pushes it, or never
    lab.ctl("posted-writes", "h1/mlx5_0", "60000000", "lost")
    both = [lab.start(host, argv + extra + [how], side, Shift(**{"log": "info", **SOON, **CALM, **settings}), stdin=True)
            for host, extra, side in (("h1", ["-s"], "server" + turn), ("h0", [], "client" + turn))]
    server, client = both
    said(both, "^CONNECTED")
    for p in both:
        wait_for(f"protection of {p.name}", lambda p=p: lab.protected(p) or not p.running(), 30)
    # which reads, and so pushes what its NIC had acknowledged into memory
    wait_for("the trial of the server's NICs",
             lambda: lab.shift_log(server).count(TRIED) == 2 or not server.running(), 30)
    say(both, "go")
    said(both, "^ACKED")
    if name == "seen_back":
        come_back(lab, server, client, fault)
    else:
        lab.fault(fault, "h1/mlx5_0")
    for p in both:
        wait_for(f"the move of {p.name}",
                 lambda p=p: MOVED in lab.shift_log(p) or not p.running(), 30)
    say(both, "moved")
    sent = said([client], "^SENT (.*)$")[0][1]
    got, stale = said([server], r"^GOT (.*), (\d+) stale$")[0].groups()
    if "+" in how and said([client], "^WRITE (.*)$")[0][1] != GOOD:
        raise Failed("a WRITE behind the one that may be lost does not run")
    if comes and (sent != GOOD or got != GOOD or stale != "0"):
        raise Failed(f"sent: {sent}, came: {got}, {stale} bytes stale")
    if comes is False and (sent == GOOD or got == GOOD):
        raise Failed(f"sent: {sent}, came: {got} with {stale} bytes stale: no error at both ends")
    if comes is None and (sent != GOOD or got != GOOD):
        raise Failed(f"sent: {sent}, came: {got}: it should have been trusted")
    for p in both:
        if p.wait(60):
            raise Failed(f"{p.name} ended with {p.process.returncode}: {p.tail()}")
    return int(stale)


def run(lab, name):
    """What is trusted may be in memory after all: a late word of the peer's SHIFT is a completion, which pushes it there."""
    if CASES[name][1] is not None:
        once(lab, name)
        return
    for turn in range(TRIES):
        if once(lab, name, str(turn)):
            return
        lab.ctl("heal", "h1/mlx5_0")
    raise Failed(f"no byte was stale in {TRIES} tries: nothing was left to trust")


if __name__ == "__main__":
    sys.exit(cases_main(CASES, run))
