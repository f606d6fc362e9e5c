#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Both NICs of a host die, one after the other: both ends get errors, also the one that only waits. Where both
ports of a host go down, and none of its NICs died, it waits on, as it would without SHIFT. Where NICs retry for four times
the nominal time, so does who sends: all ports are back before they give up.

  dark.py --build DIR [--few] [CASE...]
"""
import os
import re
import sys
import time

from shiftlab.lab import Shift, cases_main, free_port, wait_for
from shiftlab.perftest import Failed

MOVED = " moved from mlx5_0 to mlx5_1 "
SETTINGS = {"heartbeat_idle_ms": 1000, "holddown_ms": 200, "packet_lifetime_ms": 50}
LONG = 60       # seconds; far longer than the ten that a silent peer has, and a second to find out
CASES = {       # host, fault, does the end that waits get an error? The longest first.
    "ports": ("h0", "port-down", False),
    "of_the_sender": ("h0", "nic-unplug", True),
    "of_the_receiver": ("h1", "nic-internal-error", True),
    "hung": ("h0", "nic-hang", True),
    "retries": None,
}
TIMEOUT = 18    # of the queue pairs: with 7 retries 8.6 s, which NICs that take four times as long make 34
DOWN = 24       # seconds: longer than the ten for which a flap is waited out, and the ten that a move has at least


def said(program, pattern, seconds):
    wait_for(f"'{pattern}' of {program.name}",
             lambda: re.search(pattern, program.out(), re.M) or not program.running(), seconds)
    return re.search(pattern, program.out(), re.M)


def retries(lab):
    """Stock's connection, and one that SHIFT protects, over the same cables, which pass nothing for a while."""
    pairs = []
    for how in (None, Shift(log="info", **SETTINGS)):
        argv = [os.path.join(lab.out, "bin", "placed"), "-p", str(free_port()), "-w", str(LONG), "-t", str(TIMEOUT)]
        pairs.append([lab.start(h, argv + extra + ["W"], side + ("" if how else "_of_stock"), how, stdin=True)
                      for h, extra, side in (("h1", ["-s"], "server"), ("h0", [], "client"))])
    for i, both in enumerate(pairs):
        for p in both:
            said(p, "^CONNECTED", 30)
            wait_for(f"protection of {p.name}", lambda p=p: not i or lab.protected(p) or not p.running(), 30)
            p.say("go")
        said(both[1], "^ACKED", 30)
    for host in ("h0", "h1"):
        for nic in ("mlx5_0", "mlx5_1"):
            lab.ctl("retry", f"{host}/{nic}", 4)
    lab.fault("switch-down", "rail1")   # nobody is told: it leaves for that path, and waits for the peer's answer
    lab.fault("port-down", "h0/mlx5_0")
    for both in pairs:
        for p in both:
            p.say("moved")
    time.sleep(DOWN)
    lab.fault("switch-up", "rail1")
    lab.fault("port-up", "h0/mlx5_0")
    for server, client in pairs:
        sent, got = said(client, "^SENT (.*)$", LONG), said(server, "^GOT (.*), ", LONG)
        if not sent or not got or {sent[1], got[1]} != {"success"}:
            raise Failed(f"it ended before its NIC gave up: {client.tail()} {server.tail()}")
        for p in (server, client):
            if p.wait(60):
                raise Failed(f"{p.name} ended with {p.process.returncode}: {p.tail()}")


def run(lab, name):
    if name == "retries":
        retries(lab)
        return
    host, fault, ends = CASES[name]
    argv = [os.path.join(lab.out, "bin", "placed"), "-p", str(free_port()), "-w", str(LONG if ends else 20)]
    both = [lab.start(h, argv + extra + ["W"], side, Shift(log="info", **SETTINGS), stdin=True)
            for h, extra, side in (("h1", ["-s"], "server"), ("h0", [], "client"))]
    server, client = both
    for p in both:
        said(p, "^CONNECTED", 30)
        wait_for(f"protection of {p.name}", lambda p=p: lab.protected(p) or not p.running(), 30)
        p.say("go")
    said(client, "^ACKED", 30)
    lab.fault(fault, host + "/mlx5_0")
    for p in both:
        wait_for(f"the move of {p.name}", lambda p=p: MOVED in lab.shift_log(p) or not p.running(), 30)
    lab.fault(fault, host + "/mlx5_1")
    time.sleep(0.5)     # nothing goes out any more: the message is sent in vain
    for p in both:
        p.say("moved")
    sent = said(client, "^SENT (.*)$", LONG)
    if not sent or sent[1] == "success":
        raise Failed(f"the sender got no error: {client.tail()}")
    got = said(server, "^GOT (.*), ", LONG)
    if ends and (not got or got[1] == "success"):
        raise Failed(f"who waits got no error: {server.tail()}")
    if not ends and (got or "in time" not in server.out()):
        raise Failed(f"who waits was ended, though stock would wait: {server.tail()}")
    for p in both:
        if fault == "nic-hang" and p.name == ("client" if host == "h0" else "server"):
            continue    # closing on two NICs that hang hangs, as without SHIFT
        code = p.wait(60)
        if ends and code:
            raise Failed(f"{p.name} ended with {code}: {p.tail()}")


if __name__ == "__main__":
    sys.exit(cases_main(CASES, run, together=2, few=lambda: [name for name in CASES if name != "retries"]))
