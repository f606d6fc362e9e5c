#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A program that polls at SCHED_FIFO on the only core that SHIFT's threads may run on: a masked fault must not leave it
without completion and error, and a SHIFT that cannot run must say so.

  starved.py --build DIR [CASE...]
"""
import os
import re
import sys
import time

from shiftlab.lab import SKIPPED, Shift, cases_main, free_port, wait_for
from shiftlab.perftest import SOON, Failed

MOVED = r"moved from mlx5_0 to mlx5_1"
CASES = ["port", "ex", "silent", "policy"]
FAULTS = ("port", "ex")     # what a completion tells of: a dead NIC shows none to a poller on stock either
skipped = []


def await_word(program, word):
    wait_for(f"{word} of {program.name}", lambda: re.search(rf"^{word}", program.out(), re.M)
             or not program.running(), 30)
    if not re.search(rf"^{word}", program.out(), re.M):
        raise Failed(f"{program.name} ended with {program.process.returncode}, before {word}: {program.tail()}")


def start(lab, way, name, host, *more):
    argv = [os.path.join(lab.out, "bin", "starved"), "-p", str(lab.port), *more, way]
    return lab.start(host, argv, name, Shift(log="info", **SOON), stdin=True)


def fault(lab, name):
    way = "ex" if name == "ex" else "fault"
    server, client = start(lab, way, "server", "h0", "-s"), start(lab, way, "client", "h1")
    if client_skips(client):
        return
    for p in (server, client):
        await_word(p, "CONNECTED")
    for p in (server, client):
        wait_for("protection", lambda p=p: lab.protected(p) or not p.running(), 30)
    client.say("begin")
    await_word(client, "POLLS")
    time.sleep(0.1)     # it is in the middle of its messages
    lab.fault("port-down", "h1/mlx5_0")
    wait_for("the move", lambda: re.search(MOVED, lab.shift_log(client)) or not client.running(), 20)
    client.say("end")
    end(server, client)


def client_skips(client):
    wait_for("a word of the client", lambda: client.out() or not client.running(), 30)
    if "SKIPPED" in client.out():
        skipped.append(client.out())
    return "SKIPPED" in client.out()


def end(*programs):
    for p in programs:
        if p.wait(30):
            raise Failed(f"{p.name} ended with {p.process.returncode}: {p.tail()}")


def silent(lab):
    server, client = start(lab, "silent", "server", "h0", "-s"), start(lab, "silent", "client", "h1")
    if client_skips(client):
        return
    end(server, client)
    found = re.findall(r"gets no processor.*", lab.shift_log(client))
    if len(found) != 1:
        raise Failed(f"said {len(found)} times that SHIFT cannot run")
    if "gets no processor" in lab.shift_log(server):
        raise Failed("the server's SHIFT could run, and says that it could not")


def policy(lab):
    client = start(lab, "policy", "client", "h1")
    if client_skips(client):
        return
    end(client)
    threads, real_time = map(int, re.search(r"THREADS (\d+), real-time (\d+)", client.out()).groups())
    if not threads or real_time:
        raise Failed(f"{real_time} of SHIFT's {threads} threads have a real-time policy")


def run(lab, name):
    lab.port = free_port()
    if name in FAULTS:
        fault(lab, name)
    else:
        {"silent": silent, "policy": policy}[name](lab)


if __name__ == "__main__":
    status = cases_main({case: None for case in CASES}, run)
    if skipped and not status:
        print(skipped[0])
        status = SKIPPED
    sys.exit(status)
