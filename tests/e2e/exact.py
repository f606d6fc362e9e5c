#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Requests whose answers were lost, or that were lost themselves: which of them ran is known exactly, by the expected
PSN that the peer's NIC tells of its queue pair.

  exact.py --build DIR [CASE...]
"""
import os
import re
import sys

from shiftlab.lab import Shift, cases_main, free_port, wait_for
from shiftlab.perftest import SOON, Failed

MOVED = " moved from mlx5_0 to mlx5_1 "
PROVEN, DISPROVEN = "it tells the expected PSN", "are settled by the count of receives alone"
LOSES = {"lose-acks": "h0/mlx5_0", "lose-rx": "h1/mlx5_0"}
CASES = {   # what the client does; how often; which fault; what becomes of the words: over, once, none; settings; quirk
    # they ran, and a third party wrote over what it saw: nothing may come again
    "write_seen": ("write", 8, "lose-acks", ("over",), {}, None),
    # what SHIFT does where a NIC cannot tell: the old bytes come again, as promises.md says
    "write_off": ("write", 8, "lose-acks", ("once",), {"exact": "off"}, None),
    "write_stale": ("write", 8, "lose-acks", ("once",), {}, "stale-psn"),
    "write_lost": ("write", 8, "lose-rx", ("over",), {}, None),
    # atomics that never ran do, once; those that ran have lost their results
    "add_lost": ("add", 8, "lose-rx", ("once",), {}, None),
    "swap_lost": ("swap", 8, "lose-rx", ("once",), {}, None),
    "add_ran": ("add", 1, "lose-acks", ("once", "error"), {}, None),
    "add_lost_off": ("add", 8, "lose-rx", ("none", "error"), {"exact": "off"}, None),
}


def said(program, pattern):
    wait_for(f"'{pattern}' of {program.name}",
             lambda: re.search(pattern, program.out(), re.M) or not program.running(), 40)
    match = re.search(pattern, program.out(), re.M)
    if not match:
        raise Failed(f"{program.name} ended with {program.process.returncode}: {program.tail()}")
    return match


def run(lab, name):
    what, words, fault, (becomes, *error), settings, quirk = CASES[name]
    argv = [os.path.join(lab.out, "bin", "exact"), "-p", str(free_port()), "-n", str(words)]
    if quirk:
        lab.ctl("quirk", "h1/mlx5_0", quirk)
    both = [lab.start(host, argv + extra + [what], side, Shift(log="info", **SOON, **settings), stdin=True)
            for host, extra, side in (("h1", ["-s"], "server"), ("h0", [], "client"))]
    server, client = both
    for p in both:
        said(p, "^CONNECTED")
        wait_for(f"protection of {p.name}", lambda p=p: lab.protected(p) or not p.running(), 30)
    if settings.get("exact") != "off":
        word = DISPROVEN if quirk else PROVEN
        wait_for(f"what mlx5_0 can tell: {word}", lambda: f"mlx5_0: {word}" in lab.shift_log(server) or
                 re.search(f"mlx5_0: .*{word}", lab.shift_log(server)), 30)
    lab.fault(fault, LOSES[fault])
    for p in both:
        p.say("go")
    said(client, "^POSTED")
    said(server, "^SEEN")
    good, wrong = map(int, said(client, r"^DONE (\d+) good, (\d+) wrong").groups())
    if not error:
        for p in both:
            wait_for(f"the move of {p.name}", lambda p=p: MOVED in lab.shift_log(p) or not p.running(), 30)
    server.say("done")
    numbers = map(int, said(server, r"^ARE (\d+) once, (\d+) over, (\d+) none").groups())
    are = dict(zip(("once", "over", "none"), numbers))
    if are[becomes] != words:
        raise Failed(f"{words} words should be {becomes}: {are}")
    if wrong or good != (0 if error else words):
        raise Failed(f"{good} of {words} requests completed well, {wrong} with wrong data")
    for p in both:
        if p.wait(60):
            raise Failed(f"{p.name} ended with {p.process.returncode}: {p.tail()}")


if __name__ == "__main__":
    sys.exit(cases_main(CASES, run))
