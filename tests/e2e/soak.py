#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A job under verify while its default path flaps every 0 to 3 s, for as long as asked: no error,
memory that does not grow, and no more moves than the damping allows.

  soak.py --build DIR --minutes 10
"""
import argparse
import os
import random
import sys
import time
from statistics import median

from shiftlab.lab import Lab, Shift, Stuck, free_port, wait_for

QPS = 6
PATTERNS = "abceag"
FLAPS = (("port-down", "h0/mlx5_0"), ("port-down", "h1/mlx5_0"), ("cable-down", "h0/mlx5_0"),
         ("cable-down", "h1/mlx5_0"), ("switch-down", "rail0"), ("lose-tx", "h0/mlx5_0"),
         ("lose-rx", "h1/mlx5_0"), ("lose-acks", "h1/mlx5_0"))
HOLD_MIN_S, HOLD_MAX_S = 1.0, 120.0
WARM_UPS = 2            # memory may grow until then: rings and tables are touched for the first time
HEAP_SLACK_KB = 256     # the list of moves for SHIFT_STATS is part of it
RSS_SLACK_KB = 2048


class Failed(Exception):
    """It did not go as it should."""


def moves_allowed(seconds, hold_min, hold_max):
    """
    Moves of one connection: it falls, and returns after a hold-down that doubles with each fall.
    One more of each for the path that recovers while the last fault is not over.
    """
    returns, hold, at = 0, hold_min, 0.0
    while at < seconds:
        at += hold
        hold = min(2 * hold, hold_max)
        returns += 1
    return 2 * (returns + 1)


class Soak:
    def __init__(self, args, lab):
        self.args, self.lab = args, lab
        self.random = random.Random(args.seed)
        self.flaps = 0
        self.memory = []     # of each look, per end: heap KiB, resident KiB

    def start(self):
        port = free_port()
        verify = [os.path.join(self.lab.out, "bin", "verify"), "--seed", self.args.seed, "--port",
                  port, "--control", "--dev", "mlx5_0", "--qps", QPS, "--patterns", PATTERNS,
                  "--timeout", 20, "--stuck", 40]
        # No NIC hangs here and no peer goes, however busy the machine is.
        shift = Shift(log="info", holddown_ms=int(1000 * self.args.hold_min),
                      holddown_max_ms=int(1000 * self.args.hold_max),
                      hang_ms=10000, command_ms=10000, silence_ms=10000)
        self.ends = [self.lab.start("h0", verify + ["--server"], "server", shift, stdin=True),
                     self.lab.start("h1", verify + ["--client", "127.0.0.1"], "client", shift,
                                    stdin=True)]
        for p in self.ends:
            wait_for("protection of " + p.name,
                     lambda p=p: self.lab.protected(p) >= QPS or not p.running(), 60)

    def connections(self, test):
        """Those of both ends, if they are all there and test() is true of each."""
        qps = [q for host in ("h0", "h1") for q in self.lab.connections(host)]
        return qps if len(qps) == 2 * QPS and all(map(test, qps)) else None

    def warm_up(self):
        """There and back: what all moves take for the first time, they take now."""
        def await_all_on(nic):
            wait_for(f"the move of all to {nic}", lambda: self.connections(
                lambda q: q["nic"] == nic and q["move"] == "NONE"), 60)

        for _ in range(WARM_UPS):
            self.lab.fault("port-down", "h0/mlx5_0")
            await_all_on("mlx5_1")
            self.lab.ctl("heal", "h0/mlx5_0")
            await_all_on("mlx5_0")

    def standbys(self):
        """Which they are, if all connections have one."""
        qps = self.connections(lambda q: q["level"] == "protected" and q["move"] == "NONE")
        return qps and [q["standby"] for q in qps]

    def ask(self, p, word, key):
        """The last line that begins with key, after the program was asked for one more."""
        before = p.out().count(key)
        p.say(word)
        wait_for("answer of " + p.name, lambda: p.out().count(key) > before or not p.running(), 60)
        if not p.running():
            raise Failed(f"{p.name} ended\n{p.tail()}")
        return [r for r in p.out().splitlines() if r.startswith(key)][-1].split()[1:]

    def progress(self):
        return [sum(int(n) for f in self.ask(p, "progress", "PROGRESS") for n in f.split(":")[:2])
                for p in self.ends]

    def remember(self):
        """While all have their standbys: the rings of those are as large as what would be a leak."""
        found = None
        while not found or self.standbys() != found:
            found = wait_for("standbys of all", self.standbys, 60)
            memory = [[int(n) for n in self.ask(p, "memory", "MEMORY")] for p in self.ends]
        self.memory.append(memory)

    def flap(self):
        kind, target = self.random.choice(FLAPS)
        self.lab.fault(kind, target)
        time.sleep(self.random.choice((self.random.uniform(0.001, 0.1),
                                       self.random.uniform(0.1, 1.0))))
        self.lab.ctl("heal", target)
        self.flaps += 1

    def run(self):
        self.start()
        self.warm_up()
        begun = time.monotonic()
        seconds = 60 * self.args.minutes
        look = min(30.0, seconds / 10)
        next_look = look
        while (now := time.monotonic() - begun) < seconds:
            time.sleep(min(self.random.uniform(0, 3), max(0.0, seconds - now)))
            self.flap()
            if time.monotonic() - begun >= next_look:
                self.look(time.monotonic() - begun)
                next_look += look
        self.finish(time.monotonic() - begun)

    def look(self, now):
        before = self.progress()
        wait_for("traffic", lambda: all(b > a for a, b in zip(before, self.progress())), 20, 0.05)
        self.remember()
        heap = "  ".join(f"{p.name} {m[0]} KiB heap, {m[1]} KiB resident"
                         for p, m in zip(self.ends, self.memory[-1]))
        print(f"{now:6.0f} s  {self.flaps:4} flaps  {sum(before):9} messages  {heap}", flush=True)

    def finish(self, seconds):
        for p in self.ends:
            p.say("stop")
        for p in self.ends:
            if p.wait(60):
                raise Failed(f"{p.name} ended with {p.process.returncode}\n{p.tail()}")
        self.check_moves(seconds)
        self.check_memory()

    def check_moves(self, seconds):
        allowed = 2 * WARM_UPS + moves_allowed(seconds, self.args.hold_min, self.args.hold_max)
        worst = 0
        for p in self.ends:
            moves = self.lab.moves(p)
            for conn in {m["conn"] for m in moves}:
                worst = max(worst, sum(m["conn"] == conn for m in moves))
        print(f"{self.flaps} flaps in {seconds:.0f} s: at most {worst} moves of a connection, "
              f"{allowed} are allowed")
        if not worst:
            raise Failed("nothing moved")
        if worst > allowed:
            raise Failed("more moves than the damping allows")

    def check_memory(self):
        """
        The medians of the last third and of the first; of the second where it is resident memory, as
        rings are touched bit by bit.
        """
        third = len(self.memory) // 3
        if not third:
            print(f"{len(self.memory)} looks are too few to tell whether memory grew")
            return
        first, second, last = (self.memory[a:a + third]
                               for a in (0, third, len(self.memory) - third))
        for i, p in enumerate(self.ends):
            heap, resident = (round(median(m[i][k] for m in last) - median(m[i][k] for m in before))
                              for k, before in ((0, first), (1, second)))
            print(f"{p.name}: heap {heap:+} KiB, resident {resident:+} KiB behind the warm-up")
            if heap > HEAP_SLACK_KB or resident > RSS_SLACK_KB:
                raise Failed(f"{p.name} grew")


def parse_args():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build")
    p.add_argument("--minutes", type=float, default=10)
    p.add_argument("--seed", type=int, help="default: a fresh one, printed")
    p.add_argument("--hold-min", type=float, default=HOLD_MIN_S, help="seconds")
    p.add_argument("--hold-max", type=float, default=HOLD_MAX_S, help="seconds")
    p.add_argument("--keep", action="store_true", help="keep the logs")
    args = p.parse_args()
    if args.seed is None:
        args.seed = random.SystemRandom().randrange(1, 1 << 31)
    return args


def main():
    args = parse_args()
    print(f"seed {args.seed}", flush=True)
    with Lab(args.build, seed=args.seed, keep=args.keep) as lab:
        soak = Soak(args, lab)
        try:
            soak.run()
        except (Failed, Stuck, RuntimeError) as e:
            print(f"FAIL after {soak.flaps} flaps: {e}")
            for p in lab.programs:
                print(p.tail() + "".join(r + "\n" for r in lab.shift_log(p).splitlines()[-25:]))
            return 1
    print("ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
