#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The responder's NIC dies under WRITEs: how many of those that ran come again? With a log behind each n-th one, at
most n, and one that was cut.

  again.py --build DIR [--seed N] [CASE...]
  again.py --build DIR [--seed N] --deaths N    N deaths, with the logs of several cases in turns
"""
import argparse
import os
import random
import sys
import time

from shiftlab.lab import Shift, cases_main, free_port, run_case, wait_for
from shiftlab.perftest import SOON, Failed, said

REFUSED, MAY_BE_LOST = "its requests are not logged", "may not be in the peer's memory"
FAULTS = ("nic-unplug", "nic-pci-error", "nic-internal-error")
WRITES, ROUNDS, MORE_ROUNDS, LATEST_S = 16000, 6, 60, 0.15
LOGGED, BLOCK = ("each", "fourth", "sixteenth", "mixed"), 10     # of --deaths; so many on one fabric
CASES = {       # settings of both; n; options of the server
    "each": ({"wqe_log": 1}, 1, []),
    "fourth": ({"wqe_log": 4}, 4, []),
    "sixteenth": ({"wqe_log": 16}, 16, []),
    "off": ({}, None, []),
    "relaxed": ({"wqe_log": 1}, None, ["-r"]),
    "mixed": ({"wqe_log": 3}, 3, []),       # lists, ibv_wr_*, full queues, and what is given up
    "mixed_each": ({"wqe_log": 1}, 1, []),
}


def connection(lab, host):
    """The one of that host, as SHIFT sees it; {} before it is known."""
    return (lab.connections(host) or [{}])[0]


def start(lab, settings, more, mixed):
    """mixed: a seed."""
    argv = [os.path.join(lab.out, "bin", "again"), "-p", str(free_port())] + (["-m", str(mixed)] if mixed else [])
    settings = {"log": "info", **SOON, **settings}
    turn = len(lab.programs)
    both = [lab.start(host, argv + extra + [str(WRITES)], f"{side}{turn}", Shift(**settings), stdin=True)
            for host, extra, side in (("h1", ["-s"] + more, "server"), ("h0", [], "client"))]
    for p, host in zip(both, ("h1", "h0")):
        said(p, "^CONNECTED")
        wait_for(f"protection of {p.name}",
                 lambda host=host, p=p: connection(lab, host).get("level") == "protected" or not p.running(), 30)
    return both


def await_log(lab, n):
    wait_for("the log's state", lambda: connection(lab, "h0")["log"] in ("on", "refused"), 30)
    state, why = (connection(lab, "h0")[k] for k in ("log", "log_why"))
    if (state == "on") != bool(n) or (why is None) != bool(n):
        raise Failed(f"its log is {state}: {why}")


def one_round(lab, name, rng):
    """How many came again."""
    settings, n, more = CASES[name]
    server, client = both = start(lab, settings, more, name.startswith("mixed") and rng.randrange(1, 1 << 30))
    if settings:
        await_log(lab, n)
    for p in both:
        p.say("go")
    said(client, "^POSTING")
    time.sleep(rng.uniform(0, LATEST_S))
    fault = rng.choice(FAULTS)
    lab.fault(fault, "h1/mlx5_0")
    said(client, "^DONE", 60)
    wait_for("the move", lambda: connection(lab, "h0").get("moves"), 30)
    resent = connection(lab, "h0")["resubmitted"]
    server.say("done")
    none, again = map(int, said(server, r"^SLOTS (\d+) none, (\d+) again").groups())
    print(f"       {fault}: {again} came again, of {resent} that were sent again; {none} never came")
    if none and MAY_BE_LOST not in lab.shift_log(client):
        raise Failed(f"{none} of {WRITES} WRITEs never came")
    if n and again > n + 1:
        raise Failed(f"{again} WRITEs came again, of which at most {n} may, and one that was cut")
    for p in both:
        if p.wait(60):
            raise Failed(f"{p.name} ended with {p.process.returncode}: {p.tail()}")
    lab.ctl("heal", "h1/mlx5_0")
    return again


def run(lab, name):
    rng = random.Random(lab.seed)
    settings, n, _more = CASES[name]
    most = max(one_round(lab, name, rng) for _ in range(ROUNDS))
    # Where the NIC dies between two batches, nothing that ran is in doubt.
    for _ in range(MORE_ROUNDS if not n else 0):
        if most >= 2:
            break
        most = one_round(lab, name, rng)
    if not n and most < 2:
        raise Failed("without a log more should come again: is there anything to see?")
    if not n and settings and REFUSED not in lab.shift_log(lab.programs[1]):
        raise Failed("it does not say that there is no log")


def deaths(build, count, seed):
    """True if after none of so many more came again than may."""
    again, good = {name: [] for name in LOGGED}, True

    def block(lab, name, n):
        rng = random.Random(lab.seed)
        for _ in range(n):
            again[name].append(one_round(lab, name, rng))

    for i in range(0, count, BLOCK):
        name, n = LOGGED[i // BLOCK % len(LOGGED)], min(BLOCK, count - i)
        good &= run_case(build, f"{name}: deaths {i + 1} to {i + n} of {count}, seed {seed + i}",
                         lambda lab, name=name, n=n: block(lab, name, n), seed=seed + i)
    for name, found in again.items():
        if found:
            print(f"a log behind each {CASES[name][1]}. WRITE: {len(found)} deaths, after {sum(map(bool, found))} something "
                  f"came again: {max(found)} WRITEs at most")
    return good


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--build")
    parser.add_argument("--deaths", type=int)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 1 << 30))
    args, _ = parser.parse_known_args()
    if args.deaths:
        return 0 if deaths(args.build, args.deaths, args.seed) else 1
    return cases_main(CASES, run, seeded=True)


if __name__ == "__main__":
    sys.exit(main())
