#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A NIC that is slow, or busy with others' commands, does not hang: its connections stay, or move for
another reason, and nobody says that it hangs. And one that does hang is found, whatever it was asked
before.

  slow.py --build DIR [--seed N] [CASE...]
"""
import os
import random
import re
import sys
import time

from shiftlab.lab import Shift, cases_main, wait_for
from shiftlab.perftest import SOON, Failed

HANGS = "does not execute commands"
# Where none does: a program that a busy machine forgets for a while has sent nothing, and its NIC, a thread of it, has flushed
# nothing. Shorter than what takes long here, and a command may take no longer than by default.
SLOW = {"hang_ms": 1000, "flush_wait_ms": 1000}
LINE_US = 12000     # for each of 128 queue pairs: 1.5 s


class App:
    """The program, which does what it is told."""

    def __init__(self, lab, **settings):
        self.lab, self.said = lab, {}
        self.pairs = 0
        self.program = lab.start("h0", [os.path.join(lab.out, "bin", "slow")], "slow",
                                 Shift(log="info", **{**SOON, **settings}), stdin=True)

    def log(self):
        return self.lab.shift_log(self.program)

    def tell(self, word, *more):
        self.said[word] = self.said.get(word, 0) + 1
        self.program.say(" ".join([word, *map(str, more)]))

    def await_done(self, word, seconds=30):
        wait_for(word, lambda: self.program.out().count(f"DONE {word}\n") >= self.said[word]
                 or not self.program.running(), seconds)
        if self.program.out().count(f"DONE {word}\n") < self.said[word]:
            raise Failed(f"ended with {self.program.process.returncode}: {self.program.tail()}")

    def do(self, word, *more, seconds=30):
        self.tell(word, *more)
        self.await_done(word, seconds)

    def connect(self, pairs, word="pairs"):
        self.do(word, pairs)
        self.pairs += pairs
        wait_for("protection", lambda: self.lab.protected(self.program) >= 2 * self.pairs, 60)
        self.do("write")

    def await_moved(self, origin, to, pairs=None):
        pattern = re.compile(rf"QP (0x\w+) moved from {origin} to {to}")
        wait_for(f"move from {origin} to {to}", lambda: len(set(pattern.findall(self.log())))
                 >= 2 * (pairs or self.pairs) or not self.program.running(), 30)

    def end(self, hung=False):
        self.tell("end")
        if self.program.wait(60):
            raise Failed(f"ended with {self.program.process.returncode}: {self.program.tail()}")
        if hung is not None and (HANGS in self.log()) != hung:
            raise Failed(f"it {'does not say' if hung else 'says'} that a NIC hangs\n" +
                         self.log()[-2000:])


def fall_back(lab, app):
    lab.fault("port-down", "h0/mlx5_0")
    app.await_moved("mlx5_0", "mlx5_1")


def line(lab):
    """The commands of all queue pairs together take longer than one may."""
    app = App(lab, **SLOW)
    app.connect(64)
    lab.ctl("cost", "h0/mlx5_0", LINE_US)
    fall_back(lab, app)
    lab.ctl("cost", "h0/mlx5_0", 0)
    app.do("write")
    app.end()


def register(lab):
    """Registering much memory takes 1.5 s; what returns from that NIC meanwhile is not held up for a
    fault."""
    app = App(lab, **SLOW)
    app.connect(2)
    fall_back(lab, app)
    lab.ctl("slow", "h0/mlx5_1", "register", 1500)
    lab.ctl("heal", "h0/mlx5_0")
    app.do("register", 1000)
    app.await_moved("mlx5_1", "mlx5_0")
    app.do("write")
    app.end()


def route(lab):
    """A standby waits for ARP on the NIC that others return from."""
    app = App(lab, **SLOW)
    app.connect(2)
    fall_back(lab, app)
    lab.ctl("slow", "h0/mlx5_1", "route", 1500000)
    app.do("pairs", 2)
    lab.ctl("heal", "h0/mlx5_0")
    app.await_moved("mlx5_1", "mlx5_0", 2)
    app.do("write")
    lab.ctl("slow", "h0/mlx5_1", "route", 0)
    app.end()


def hangs(lab):
    """In the middle of a long registration."""
    app = App(lab)
    app.connect(2)
    fall_back(lab, app)
    lab.ctl("slow", "h0/mlx5_1", "register", 2000)
    app.do("register", 1000)
    lab.fault("nic-hang", "h0/mlx5_1")
    app.tell("write")
    wait_for("a word about the hang", lambda: HANGS in app.log(), 30)
    lab.ctl("heal", "all")
    app.await_done("write")
    app.end(hung=True)


def closed(lab):
    """It hangs for good behind the move: closing ends all the same, and it pays when it is well again."""
    app = App(lab)
    app.connect(4)
    fall_back(lab, app)
    app.do("register", 64)
    lab.fault("nic-hang", "h0/mlx5_0")
    app.do("write")
    app.do("close")
    lab.ctl("heal", "h0/mlx5_0")
    app.do("open")
    app.pairs = 0
    app.do("pairs", 2)
    app.do("write")
    lab.fault("nic-hang", "h0/mlx5_0")
    app.end()   # so does a process that did not close


def closed_sick(lab):
    """The same where it was noticed before."""
    app = App(lab, heartbeat_idle_ms=1000)
    app.connect(4)
    lab.shiftctl("h0", "drain", "mlx5_0")
    app.await_moved("mlx5_0", "mlx5_1")
    lab.fault("nic-hang", "h0/mlx5_0")
    wait_for("a word about the hang", lambda: HANGS in app.log(), 30)
    app.do("write")
    app.do("close")
    app.end(hung=True)


def closed_backup(lab):
    """It is a backup that hangs: what the application made is well."""
    app = App(lab, heartbeat_idle_ms=1000)
    app.connect(4)
    lab.fault("nic-hang", "h0/mlx5_1")
    wait_for("a word about the hang", lambda: HANGS in app.log(), 30)
    app.do("write")
    app.do("close")
    app.end(hung=True)


def closed_opening(lab):
    """A backup hangs before SHIFT has opened it: the program comes up, works and closes without it."""
    lab.fault("nic-hang", "h0/mlx5_1")
    app = App(lab)
    app.do("pairs", 2)
    app.do("register", 64)
    app.do("write")
    app.do("close")
    app.end()


def closed_registering(lab):
    """It hangs in the middle of what SHIFT registers there; no datagram shows it, as it has no peer yet."""
    lab.ctl("slow", "h0/mlx5_1", "register", 100000)
    app = App(lab)
    app.do("register", 8)
    app.do("pairs", 1)
    lab.fault("nic-hang", "h0/mlx5_1")
    lab.ctl("slow", "h0/mlx5_1", "register", 0)
    app.do("write")
    app.do("close")
    app.end(hung=None)  # where it was opened by then


def hangs_in_close(lab, cost_us, pairs, most_s):
    """A backup hangs at a random moment of the closing."""
    app = App(lab, heartbeat_idle_ms=1000)
    app.connect(pairs // 2)
    app.connect(pairs // 2, "shared")
    lab.ctl("cost", "h0/mlx5_1", cost_us)
    after = random.Random(lab.seed).uniform(0, most_s)
    app.tell("close")
    time.sleep(after)
    lab.fault("nic-hang", "h0/mlx5_1")
    print(f"       nic-hang after {after * 1e3:.1f} ms", flush=True)
    app.await_done("close", 20)
    app.end(hung=None)  # it may have been over by then


def closed_meanwhile(lab):
    """Whose commands take long: the application's thread is never in one."""
    hangs_in_close(lab, 1000, 32, 0.1)


def closed_at_once(lab):
    """Whose commands are shorter than a hand-over: it gives them itself, to a NIC that has just obeyed."""
    hangs_in_close(lab, 0, 128, 0.03)


def hangs_in(lab, word, move=False):
    """A backup hangs, unnoticed by then, and the program does something that is done there too."""
    app = App(lab, heartbeat_idle_ms=1000)
    app.connect(4)
    app.do("register", 64)
    if move:
        fall_back(lab, app)
    lab.fault("nic-hang", "h0/mlx5_1")
    app.do(word, *([1] if word == "reset" and move else []), seconds=20)
    if word == "rereg":
        app.do("write")
        app.do("close")
    app.end(hung=None)


def rereg(lab):
    hangs_in(lab, "rereg")


def reset(lab):
    hangs_in(lab, "reset")


def reset_moved(lab):
    hangs_in(lab, "reset", move=True)


def abandoned(lab):
    """The kernel ends what is on the NICs."""
    hangs_in(lab, "abandon")


def abandoned_moved(lab):
    hangs_in(lab, "abandon", move=True)


CASES = {f.__name__: f for f in (line, register, route, hangs, closed, closed_sick, closed_backup,
                                 closed_opening, closed_registering, closed_meanwhile,
                                 closed_at_once, rereg, reset, reset_moved,
                                 abandoned, abandoned_moved)}

if __name__ == "__main__":
    sys.exit(cases_main(CASES, lambda lab, name: CASES[name](lab), seeded=True))
