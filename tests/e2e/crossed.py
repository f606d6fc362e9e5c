#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Eight threads in each of two processes make and connect queue pairs in orders that cross, round
after round: each time all of them are protected, and nothing stands still. What fails names the round
and the seed, which draw the same orders again.

  crossed.py --build DIR [--rounds N] [--seed N] [--first ROUND]
"""
import argparse
import os
import random
import sys
import time

from shiftlab.lab import Shift, free_port, run_case, wait_for
from shiftlab.perftest import SOON, Failed

PAIRS = 24
HOSTS = ("h0", "h1")
SOON_S = 0.002      # between two looks
PATIENCE_S = 60
TOLD = 100          # rounds between two lines of progress


def await_word(programs, word):
    def all_said():
        for p in programs:
            if not p.running():
                raise Failed(f"{p.name} ended with {p.process.returncode}")
        return all(p.out().endswith(word + "\n") for p in programs)

    wait_for(word, all_said, PATIENCE_S, SOON_S)


def say(programs, word):
    for p in programs:
        p.say(word)


def levels(lab):
    return [q["level"] for host in HOSTS for q in lab.connections(host)]


def unprotected(lab):
    return [f"{host}: QP {q['qpn']:#x} {q['level']}: {q['why']}" for host in HOSTS
            for q in lab.connections(host) if q["level"] != "protected"]


def await_protected(lab):
    try:
        wait_for("protection of all", lambda: levels(lab) == ["protected"] * (2 * PAIRS),
                 PATIENCE_S, SOON_S)
    except Exception as e:
        raise Failed(f"{e}: " + "; ".join(unprotected(lab))) from None


def start(lab, first):
    argv = [os.path.join(lab.out, "bin", "crossed"), "-p", free_port(), "-S", lab.seed, "-f", first]
    shift = Shift(log="info", **SOON)
    return [lab.start("h0", argv + ["-s"], "server", shift, stdin=True),
            lab.start("h1", argv, "client", shift, stdin=True)]


def one_round(lab, programs, number, times):
    began = time.monotonic()
    say(programs, "up")
    await_word(programs, f"UP {number}")
    up = time.monotonic()
    await_protected(lab)
    times["connected"].append(up - began)
    times["protected"].append(time.monotonic() - up)
    say(programs, "down")
    await_word(programs, f"GONE {number}")


def say_times(times):
    for what, of in times.items():
        of = sorted(of)
        print(f"       {what}: median {of[len(of) // 2] * 1e3:.0f} ms, longest {of[-1] * 1e3:.0f} ms",
              flush=True)


def rounds(lab, first, n):
    programs = start(lab, first)
    times = {"connected": [], "protected": []}
    await_word(programs, "BEGUN")
    for number in range(first, first + n):
        try:
            one_round(lab, programs, number, times)
        except Exception as e:
            raise Failed(f"round {number}: {e}; again: --seed {lab.seed} --first {number} --rounds 1"
                         ) from None
        if not (number + 1) % TOLD:
            print(f"       {number + 1} rounds", flush=True)
    say(programs, "end")
    for p in programs:
        if p.wait(30) or not p.out().endswith(f"OK {first + n}\n"):
            raise Failed(f"{p.name} ended with {p.process.returncode}")
    say_times(times)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first round")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 1 << 31))
    args = parser.parse_args()
    name = f"crossed, {args.rounds} rounds of {PAIRS} pairs --seed {args.seed}"
    return 0 if run_case(args.build, name, lambda lab: rounds(lab, args.first, args.rounds),
                         seed=args.seed) else 1


if __name__ == "__main__":
    sys.exit(main())
