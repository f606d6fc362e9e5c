#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A NIC that does not read its host's memory any more answers requests with errors that look like a program's own, and
only later is its host told that it is broken. The connections move, and no byte is wrong. Where nobody is ever told, the
error is passed on, as without SHIFT.

  blind.py --build DIR [--seed N] [CASE...]
"""
import json
import os
import sys
import time

from shiftlab.lab import Shift, cases_main, free_port, wait_for
from shiftlab.perftest import SOON, Failed

QPS = 2
SOON_S = 0.1    # until the schedule of both faults stands
TRIES = 8
TOLD_S = 0.02   # from the first error to the event, as of AER by Linux
# NIC that goes blind, what its host is told (None: nothing), patterns of verify
CASES = {
    "answers": ("h1", "nic-pci-error", "b"),
    "sends": ("h0", "nic-internal-error", "b"),
    "hangs": ("h1", "nic-hang", "ab"),
    "untold": ("h1", None, "b"),
}


def start(lab, patterns):
    argv = [os.path.join(lab.out, "bin", "verify"), "--seed", lab.seed, "--port", free_port(), "--control", "--dev",
            "mlx5_0", "--gid-index", 0, "--qps", QPS, "--patterns", patterns, "--timeout", 14, "--retry", 7,
            "--stuck", 30, "--may-fail", "--allow-events"]
    how = Shift(log="debug", **SOON)
    return [lab.start("h0", argv + ["--server"], "server", how, stdin=True),
            lab.start("h1", argv + ["--client", "127.0.0.1"], "client", how, stdin=True)]


def summary(program):
    program.wait(60)
    rows = [row for row in program.out().splitlines() if row.startswith("SUMMARY ")]
    if not rows:
        raise Failed(f"{program.name}: no summary\n{program.tail()}")
    return json.loads(rows[-1][8:])


def moved(lab, p):
    return lab.shift_log(p).count(" moved from mlx5_0 to mlx5_1 ") >= QPS


def once(lab, host, told, patterns):
    """Returns whether a request ended by the NIC's answer: with two busy cores there may be none in so short a time."""
    ends = start(lab, patterns)
    for p in ends:
        wait_for("protection of " + p.name, lambda p=p: lab.protected(p) or not p.running(), 40)
    time.sleep(0.3)
    path = os.path.join(lab.folder, "faults")
    with open(path, "w", encoding="ascii") as f:
        f.write(f"nic-blind {host}/mlx5_0 --after {SOON_S}\n")
        if told:
            f.write(f"{told} {host}/mlx5_0 --after {SOON_S + TOLD_S}\n")
    lab.ctl("script", path)
    if told:
        for p in ends:
            wait_for("move of " + p.name, lambda p=p: moved(lab, p) or not p.running(), 40)
    else:
        wait_for("an error of the program's", lambda: any("the program's own" in lab.shift_log(p) for p in ends), 40)
    time.sleep(1)
    for p in ends:
        p.say("stop")
    results = [summary(p) for p in ends]
    for p, s in zip(ends, results):
        if s["result"] != "ok":
            raise Failed(f"{p.name}: {s['reason']}: {s['text']}")
    failed = [q["qp"] for s in results for q in s["qps"] if q["failed"]]
    if told and failed:
        raise Failed(f"queue pairs {failed} failed, and the NIC was sick")
    if not told and not failed:
        raise Failed("no queue pair failed, and nobody was told that the NIC is sick")
    return not told or any("a sick NIC's" in lab.shift_log(p) for p in ends)


def run(lab, name):
    for _ in range(TRIES):
        if once(lab, *CASES[name]):
            return
        lab.ctl("heal", "all")
    raise Failed(f"no request ended by the NIC's answer in {TRIES} tries: the case shows nothing")


if __name__ == "__main__":
    sys.exit(cases_main(CASES, run, seeded=True))
