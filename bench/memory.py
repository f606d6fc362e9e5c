#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What an idle protected queue pair costs in memory: private pages of a process with --qps queue pairs,
with SHIFT less those of the same program without. "each" is the share of one more queue pair, between the
least and the most of --qps; what a process pays once is not in it. The program has a memory region for
each queue pair, or one for all ("one region"), and completion queues with a place for each request; "small CQs" have
256 for 32 queue pairs of 64 sends and 64 receives, which SHIFT makes larger. Writes out/memory.json. --check: only
what is bounded, which must be within its bound."""
import argparse
import re
import statistics
import sys
import time

from control import await_protection, end_both, private_kb, start_both
from shiftlab.lab import Lab, Shift
from shiftlab.results import save

BOUND_KB = 4.0          # of an idle one that rests: lazy
PLACES_KB = 15.0        # 32 queue pairs need 4,160 places: libmlx5 makes 8,192, not 512, of 64 bytes each
HOLES_KB = 3.0          # of the smaller rings that were there before: malloc keeps some
KINDS = {"a region each": ["--roomy-cqs"], "one region": ["--roomy-cqs", "--one-region"], "small CQs": ["--one-region"]}
BOUNDS_KB = {"one region": BOUND_KB, "small CQs": BOUND_KB + PLACES_KB + HOLES_KB}  # of lazy
WAYS = {"stock": None, "eager": {}, "lazy": {"lazy": "on"}}
LOOK_S = 0.05
STILL = 10              # looks without a change: at rest


def at_rest(program):
    """Its memory, once that changes no more: what comes with protection is made by then."""
    seen = [private_kb(program)]
    while len(seen) < STILL or len(set(seen[-STILL:])) > 1:
        time.sleep(LOOK_S)
        seen.append(private_kb(program))
    return seen[-1]


def one_run(args, qps, settings, kind):
    """Private memory of both ends, in KB."""
    with Lab(args.build) as lab:
        how = None if settings is None else Shift(log="info", **settings)
        ends = start_both(lab, qps, how, *KINDS[kind])
        if how:
            await_protection(lab, ends, qps)
        kb = [at_rest(p) for p in ends]
        end_both(ends)
        return kb


def measure(args, ways, kind):
    """A row for each way: the median of all ends, for each number of queue pairs, and what each costs."""
    kb = {way: {n: [] for n in args.qps} for way in ("stock", *ways)}
    for _ in range(args.rounds):
        for n in args.qps:
            for way in kb:
                kb[way][n] += one_run(args, n, WAYS[way], kind)
    least, most = min(args.qps), max(args.qps)
    rows = []
    for way in ways:
        more = {n: statistics.median(kb[way][n]) - statistics.median(kb["stock"][n]) for n in args.qps}
        row = {"way": way, "kind": kind, "bound_kb": BOUNDS_KB.get(kind) if way == "lazy" else None,
               "kb_per_qp": {n: more[n] / n for n in args.qps},
               "kb_each": (more[most] - more[least]) / (most - least)}
        rows.append(row)
        print(f"{way:8} {kind:14}"
              + "".join(f" {n} QPs: {k:6.1f} KB" for n, k in row["kb_per_qp"].items())
              + f"; each {row['kb_each']:5.1f} KB", flush=True)
    return rows


def qps_of(text):
    if not re.fullmatch(r"\d+(,\d+)+", text):
        raise argparse.ArgumentTypeError("two numbers or more, as 1000,4000")
    return [int(n) for n in text.split(",")]


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", default="build")
    p.add_argument("--out", default="out")
    p.add_argument("--qps", type=qps_of, default=[1000, 4000])
    p.add_argument("--rounds", type=int, default=1)
    p.add_argument("--check", action="store_true")
    args = p.parse_args()
    ways = [way for way in WAYS if way != "stock"]
    if args.check:
        rows = [row for kind in BOUNDS_KB for row in measure(args, ["lazy"], kind)]
        return int(any(row["kb_each"] > row["bound_kb"] for row in rows))
    save(args.out, "memory.json", {"rows": [row for kind in KINDS for row in measure(args, ways, kind)]})
    return 0


if __name__ == "__main__":
    sys.exit(main())
