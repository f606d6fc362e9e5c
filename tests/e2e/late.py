#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Regions that are deregistered behind the application's back, on NICs that no connection is on: nobody writes into their
memory when connections come there, and none is left on a NIC that they have come to. NICs take their time to register
regions, as the seed says.

  late.py --build DIR [--seed N] [--rounds N] [CASE...]
"""
import os
import random
import re
import sys
import time

from shiftlab.lab import Shift, cases_main, free_port, wait_for
from shiftlab.perftest import SOON, Failed

QPS = 6
NICS = 4
SLOW_US = 20000     # a command to a NIC: 48 regions take a second there
REGION_US = (0, 0, 1000, 10000)    # a registration there
MOVES = 12
FOUR = ("--nics", str(NICS))


def await_word(program, word):
    wait_for(f"{word} of {program.name}", lambda: re.search(rf"^{word}", program.out(), re.M)
             or not program.running(), 60)
    if not re.search(rf"^{word}", program.out(), re.M):
        raise Failed(f"ended with {program.process.returncode}, before {word}: {program.tail()}")


class Ends:
    def __init__(self, lab, word, **settings):
        self.lab = lab
        argv = [os.path.join(lab.out, "bin", "late"), "-p", free_port(), "-q", QPS, "-S", lab.seed, "-n", NICS]
        how = Shift(log="info", **{**SOON, "backup": "spread", **settings})
        self.server = lab.start("h0", argv + ["-s", word], "server", how, stdin=True)
        self.client = lab.start("h1", argv + [word], "client", how, stdin=True)
        for p in (self.server, self.client):
            await_word(p, "CONNECTED")
        for p in (self.server, self.client):
            wait_for("protection", lambda p=p: lab.protected(p) >= QPS or not p.running(), 60)
            p.say("begin")

    def moved_to(self, program):
        """The NICs that its connections have moved to, the last one last."""
        return re.findall(r"QP 0x\w+ moved from \S+ to (\S+)", self.lab.shift_log(program))

    def await_moves(self, n):
        for p in (self.server, self.client):
            wait_for("moves of " + p.name, lambda p=p: len(self.moved_to(p)) >= n or not p.running(), 60)

    def end(self):
        for p in (self.server, self.client):
            if p.wait(60):
                raise Failed(f"{p.name} ended with {p.process.returncode}: {p.tail()}")


def gone_then_moved(lab, **settings):
    """The move comes at once; the commands by which they go take a second. A request with a key that is gone waits on the backup
    NIC when the default NIC is back: its connection returns like the others, and the request is refused as on stock.
    A receive into a region that is gone lies on each queue pair, and holds up no move."""
    ends = Ends(lab, "gone", **settings)
    await_word(ends.server, "THERE")
    for i in range(1, NICS):
        lab.ctl("cost", f"h0/mlx5_{i}", SLOW_US)
    ends.server.say("go")
    await_word(ends.server, "GONE")
    lab.fault("port-down", "h0/mlx5_0")
    ends.await_moves(QPS)
    ends.server.say(" ".join(sorted(set(ends.moved_to(ends.server)))))
    await_word(ends.client, "STALE")
    lab.fault("port-up", "h0/mlx5_0")
    ends.end()


def fault_any(lab, choose, down):
    """One NIC more, or one less, of both hosts; two of each stay."""
    nic = f"h{choose.randrange(2)}/mlx5_{choose.randrange(NICS)}"
    if nic in down:
        down.remove(nic)
        lab.fault("port-up", nic)
    elif len({n.partition("/")[2] for n in [*down, nic]}) <= NICS - 2:
        down.append(nic)
        lab.fault("port-down", nic)


def at_random(lab):
    ends = Ends(lab, "random")
    choose, down = random.Random(lab.seed), ["h0/mlx5_0"]
    lab.fault("port-down", down[0])     # one that is sure to move them
    for _ in range(MOVES):
        fault_any(lab, choose, down)
        time.sleep(choose.uniform(0, 0.5))
    ends.await_moves(1)
    ends.server.say("enough")
    ends.end()


CASES = {"gone_then_moved": gone_then_moved, "random": at_random}


def run(lab, name):
    lab.ctl("destroy")
    lab.ctl("create", "--hosts", "2", *FOUR)
    delays = random.Random(lab.seed)
    for nic in range(NICS):
        for host in ("h0", "h1"):
            lab.ctl("slow", f"{host}/mlx5_{nic}", "region", delays.choice(REGION_US))
    CASES[name](lab)


if __name__ == "__main__":
    sys.exit(cases_main(CASES, run, seeded=True, together=4))
