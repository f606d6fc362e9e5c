#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Detection time against false moves against pings a second: tests/sim/detect_sim.c, in simulated time, for several
heartbeats and times of silence. A row has the time from the death of a path to the verdict, the pings of both paths in a
second, and how many of the runs of each weather moved though nothing had died. Writes out/silence.json."""
import argparse
import os
import random
import subprocess
import sys

from shiftlab.lab import SKIPPED, out_folder
from shiftlab.results import save

WEATHERS = ("incast", "pause", "slow receiver", "slow link")


def rows_of(text):
    """Of the table that the simulation prints: what follows its head."""
    rows = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) == 5 + len(WEATHERS) and fields[0].isdigit():
            rows.append({"beat_ms": int(fields[0]), "silence_ms": int(fields[1]), "median_ms": float(fields[2]),
                         "most_ms": float(fields[3]), "pings": int(fields[4]),
                         "moves": dict(zip(WEATHERS, map(int, fields[5:])))})
    return rows


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", default="build")
    p.add_argument("--out", default="out")
    p.add_argument("--runs", type=int, default=1000, help="deaths, and runs of each weather (%(default)s)")
    p.add_argument("--beats", type=int, nargs="+", default=[42, 50, 100], help="ms between two heartbeats")
    p.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 1 << 31))
    args = p.parse_args()
    sim = os.path.join(out_folder(args.build), "bin", "detect_sim")
    if not os.access(sim, os.X_OK):
        print("detect_sim is not built")
        return SKIPPED
    print(f"seed {args.seed}", flush=True)
    rows = []
    for beat in args.beats:
        done = subprocess.run([sim, "--table", "--beat", str(beat), "--runs", str(args.runs), "--seed", str(args.seed)],
                              stdout=subprocess.PIPE, text=True, check=True)
        print(done.stdout, end="", flush=True)
        rows += rows_of(done.stdout)
    save(args.out, "silence.json", {"runs": args.runs, "seed": args.seed, "rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
