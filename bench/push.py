#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What it costs a move that the NIC which is left READs from other devices' memory first (SHIFT_PUSH): the time without a completion
as the sender's port goes down, with dma-bufs at the receiver. Both settings in turns, medians; writes out/push.json."""
import argparse
import statistics
import sys

from detect import once
from shiftlab.results import save

REGIONS = (0, 1, 64)
PUSH = ("off", "on")


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", default="build")
    p.add_argument("--out", default="out")
    p.add_argument("--runs", type=int, default=20)
    args = p.parse_args()
    values = {(regions, push): [] for regions in REGIONS for push in PUSH}
    for number in range(1, args.runs + 1):
        for regions, push in values:
            us, _ = once(args, "port-down", "h1/mlx5_0", number, regions, push=push)
            values[regions, push].append(us / 1e3)
    rows = []
    print(f"{'dma-bufs':>8} {'SHIFT_PUSH':>10} {'median, ms':>11} {'worst':>9}")
    for (regions, push), ms in values.items():
        rows.append({"regions": regions, "push": push, "ms": ms, "median_ms": statistics.median(ms)})
        print(f"{regions:8} {push:>10} {statistics.median(ms):11.2f} {max(ms):9.2f}", flush=True)
    save(args.out, "push.json", {"runs": args.runs, "rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
