#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Every reliable tool of perftest, in the forms that people run, and libibverbs' example for shared
receive queues, through a fault and back.

  programs.py --build DIR [--only TEXT]
  programs.py --build DIR --few [--seed N]    a third of each tool's, drawn
"""
import argparse
import random
import sys

from shiftlab.lab import draw_seed, run_case
from shiftlab.perftest import Perftest, drain, link, switch


def responder(lab, begin):
    lab.fault("nic-internal-error", "h0/mlx5_0") if begin else lab.ctl("heal", "h0/mlx5_0")


def initiator(lab, begin):
    lab.fault("nic-disassociate", "h1/mlx5_0") if begin else lab.ctl("heal", "h1/mlx5_0")


# What was on its way when the link fell may have been executed: repeating an atomic would change
# memory twice, so a connection with atomics ends with an error then. An ordered move keeps it.
# ib_send_lat -e is left out: perftest arms the channel before it polls. simnic raises the event of a
# completion that is unread then at once, and the tool's ring soon is full, with SHIFT or without.
# What has -n is ended by no signal: with messages of 1 MiB its length is that of copying, which differs
# less from machine to machine than that of waking up does, and from one with much else to do.
CASES = (
    ("ib_write_bw -q 16 -s 4096", 16, link),
    ("ib_write_bw -b", 1, initiator),
    ("ib_write_bw -b -q 4 --use_old_post_send", 4, switch),
    ("ib_write_bw -s 64 -I 64", 1, responder),
    ("ib_write_bw -s 512 -l 16 -t 256", 1, link),
    ("ib_write_bw -Q 1 -s 8192", 1, switch),
    ("ib_write_bw -s 1048576 -t 16", 1, link),
    ("ib_send_bw -e -s 1048576 -t 16 -r 32 -n 60000", 1, switch),
    ("ib_send_bw -q 16 -s 4096", 16, responder),
    ("ib_send_bw -b", 1, link),
    ("ib_send_bw -s 32 -I 32 --use_old_post_send", 1, initiator),
    ("ib_send_bw -r 64 -s 2048", 1, link),
    ("ib_read_bw -q 4", 4, link),
    ("ib_read_bw -b -s 16384", 1, responder),
    ("ib_read_bw -o 1", 1, switch),
    ("ib_atomic_bw", 1, drain),
    ("ib_atomic_bw -A CMP_AND_SWAP -q 2", 2, drain),
    ("ib_write_lat -s 8", 1, link),
    ("ib_write_lat -s 64 -I 64", 1, switch),
    ("ib_send_lat -s 16", 1, initiator),
    ("ib_send_lat -s 1024", 1, link),
    ("ib_read_lat -s 4096", 1, responder),
    ("ib_atomic_lat", 1, drain),
    ("ibv_srq_pingpong -c -s 1048576 -n 20000", 16, link),
    ("ibv_srq_pingpong -c -e -s 1048576 -n 20000", 16, switch),
    ("ibv_srq_pingpong -c -q 3 -s 1048576 -n 20000", 3, initiator),
)


def run(build, tool, qps, fault):
    case = Perftest(tool, fault, qps)
    return run_case(build, case.name, case.run)


def third(seed):
    """Of each tool at least one."""
    draw, chosen = random.Random(seed), set()
    print(f"--seed {seed}", flush=True)
    for tool in dict.fromkeys(c[0].split()[0] for c in CASES):
        own = [c for c in CASES if c[0].split()[0] == tool]
        chosen.update(draw.sample(own, (len(own) + 2) // 3))
    return [c for c in CASES if c in chosen]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--few", action="store_true", help="a third of the cases of each tool, drawn")
    parser.add_argument("--seed", type=int, default=draw_seed())
    args = parser.parse_args()
    cases = [c for c in (third(args.seed) if args.few else CASES) if args.only in f"{c[0]} {c[2].__name__}"]
    failed = sum(not run(args.build, *c) for c in cases)
    print(f"{len(cases) - failed} passed, {failed} failed")
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
