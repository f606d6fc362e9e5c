#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""shift_uid(3): additions whose queue pair ends with them under way, on the distribution's library alone, and under SHIFT.

  uid.py --build DIR [CASE...]
"""
import os
import re
import sys

from shiftlab.lab import Shift, cases_main, free_port, wait_for
from shiftlab.perftest import SOON, Failed, said

ROUNDS = 6
FAULTS = (("port-down", "h0/mlx5_0"), ("lose-tx", "h1/mlx5_0"), ("lose-acks", "h1/mlx5_0"))
DOWN_S = 1.2    # longer than the queue pair tries again


def good(client):
    return int((re.findall(r"^GOOD (\d+)", client.out(), re.M) or ["0"])[-1])


def count(lab, shift):
    argv = [os.path.join(lab.out, "bin", "uid"), "-p", str(free_port())]
    server = lab.start("h1", argv + ["-s"], "server", shift)
    client = lab.start("h0", argv, "client", shift, stdin=True)
    said(client, "^CONNECTED")
    if shift:
        wait_for("protection", lambda: lab.protected(client) or not client.running(), 30)
    for i in range(ROUNDS):
        before = good(client)
        wait_for("progress", lambda b=before: good(client) > b or not client.running(), 30)
        lab.ctl("fault", *FAULTS[i % len(FAULTS)], "--for", str(DOWN_S))
        before = good(client)
        wait_for("progress through a fault", lambda b=before: good(client) > b + 100 or not client.running(), 60)
        lab.ctl("heal", "all")
    client.say("end")
    added, wrong, resumed = map(int, said(client, r"^ADDED (\d+), (\d+) wrong, (\d+) resumed$", 60).groups())
    counter = int(said(server, r"^COUNTER (\d+)$")[1])
    print(f"       {added} additions, {counter} counted, {wrong} wrong results, {resumed} queue pairs")
    if added != counter or wrong:
        raise Failed("results did not survive")
    for p in (client, server):
        if p.wait(60):
            raise Failed(f"{p.name} ended with {p.process.returncode}: {p.tail()}")
    return resumed


def stock(lab):
    if not count(lab, None):
        raise Failed("no queue pair ended: nothing was tried")


def shift(lab):
    if count(lab, Shift(log="info", atomics="uid", **SOON)):
        raise Failed("a queue pair ended that nothing may end")
    if "it waits for that" in lab.shift_logs():
        raise Failed("a flap was waited out for an answer that the library does not need")


CASES = {f.__name__: f for f in (stock, shift)}

if __name__ == "__main__":
    sys.exit(cases_main(CASES, lambda lab, name: CASES[name](lab)))
