#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Queue pairs that are reset, moved to ERR or destroyed in the middle of a move, with work outstanding, and connected
anew, round after round; one end does so while the other still sends. Nothing of an old connection may come to a new
one, and one beside them must not notice.

  midway.py --build DIR [--rounds N] [--seed N]
"""
import argparse
import os
import random
import sys
import threading
import time

from shiftlab.lab import Shift, free_port, run_case, wait_for
from shiftlab.perftest import SOON, Failed

LANES = 5
HOSTS = ("h0", "h1")
KINDS = ("port-down", "cut-message", "cable-down", "switch-down", "drain")
SOON_S = 0.005      # between two looks


def said(programs, word):
    for p in programs:
        wait_for(f"{word} of {p.name}",
                 lambda p=p: word in p.out().splitlines() or not p.running(), 40, SOON_S)
        if word not in p.out().splitlines():
            raise Failed(f"{p.name} ended with {p.process.returncode}, before {word}")


def await_protected(lab, programs):
    def ready():
        return not all(p.running() for p in programs) or \
            [q["level"] for host in HOSTS for q in lab.connections(host)] == ["protected"] * 2 * LANES

    wait_for("protection of all", ready, 60, SOON_S)


def await_moved(lab):
    wait_for("move of all", lambda: all(q["nic"] == "mlx5_1" for host in HOSTS
                                        for q in lab.connections(host)), 30, SOON_S)


def set_cost(lab, cost_us):
    for host in HOSTS:
        for nic in ("mlx5_0", "mlx5_1"):
            lab.ctl("cost", f"{host}/{nic}", cost_us)


class Fault:
    """Of the default NIC of a host, or of its switch."""

    def __init__(self, rng):
        self.kind = rng.choice(KINDS)
        self.host = rng.choice(HOSTS)
        self.target = "rail0" if self.kind == "switch-down" else self.host + "/mlx5_0"
        self.at_message = rng.randint(1, 300) if self.kind not in ("switch-down", "drain") and \
            rng.random() < 0.5 else None
        self.before_s = rng.choice((0, 0, 0.002, 0.01))
        self.is_over = rng.random() < 0.4   # the move, when they are stopped
        self.cost_us = rng.choice((0, 0, 1000, 5000))   # of a command, when they are
        self.thread = None

    def __str__(self):
        return f"{self.kind} {self.target}" + (f" at +{self.at_message}" if self.at_message else "") + \
            (", moved" if self.is_over else "") + (f", {self.cost_us} us a command" if self.cost_us else "")

    def begin(self, lab):
        if self.kind == "drain":    # it waits until all have moved
            self.thread = threading.Thread(
                target=lab.shiftctl, args=(self.host, "drain", "mlx5_0"), kwargs={"check": False})
            self.thread.start()
        else:
            lab.fault(self.kind, self.target, at_message=self.at_message)
        if self.is_over:
            await_moved(lab)
        if self.cost_us:
            set_cost(lab, self.cost_us)
        time.sleep(self.before_s)

    def finish(self, lab):
        if self.cost_us:
            set_cost(lab, 0)
        if self.kind == "drain":
            self.thread.join()
            lab.shiftctl(self.host, "undrain", "mlx5_0")
        else:
            lab.ctl("heal", self.target)


def rounds(lab, n):
    rng = random.Random(lab.seed)
    argv = [os.path.join(lab.out, "bin", "midway"), "-p", free_port(), "-S", lab.seed]
    shift = Shift(log="info", **SOON)
    programs = [lab.start("h0", argv + ["-s"], "server", shift, stdin=True),
                lab.start("h1", argv, "client", shift, stdin=True)]
    for number in range(n):
        said(programs, f"CONNECTED {number}")
        await_protected(lab, programs)
        fault = Fault(rng)
        print(f"       {number}: {fault}", flush=True)
        fault.begin(lab)
        for p in programs:
            p.say("go")
        said(programs, f"STOPPED {number}")
        fault.finish(lab)
        for p in programs:
            p.say("next" if number + 1 < n else "end")
    for p in programs:
        if p.wait(60) or "\nOK " not in p.out():
            raise Failed(f"{p.name} ended with {p.process.returncode}")
    if not any(m["settled_ns"] for p in programs for m in lab.moves(p)):
        raise Failed("nothing moved")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 1 << 31))
    args = parser.parse_args()
    name = f"midway, {args.rounds} rounds --seed {args.seed}"
    return 0 if run_case(args.build, name, lambda lab: rounds(lab, args.rounds), seed=args.seed) else 1


if __name__ == "__main__":
    sys.exit(main())
