#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What a drain costs a stream at full load: requests sent again (must be 0) and the longest time
between two completions while it moves, beside the longest one in an equal time of calm. Then the
same for the way back. Medians of many runs; writes out/drain.json."""
import argparse
import statistics
import sys
import time

from shiftlab.lab import Lab, Shift, wait_for
from shiftlab.results import save
from streaming import Stream

WINDOW_S = 0.5
SOON = {"holddown_ms": 100}


def window(seconds=WINDOW_S):
    """A time in which something may happen, as (from, to) in ns."""
    begun = time.monotonic_ns()
    time.sleep(seconds)
    return begun, time.monotonic_ns()


def only(lab, nic):
    before = [lab.carried(i) for i in (0, 1)]
    time.sleep(0.1)
    now = [lab.carried(i) for i in (0, 1)]
    return now[nic] > before[nic] and now[1 - nic] == before[1 - nic]


def order(lab, word, nic):
    """The window of an order that brings all traffic to a NIC."""
    begun = time.monotonic_ns()
    lab.shiftctl("h1", word, "mlx5_0")
    wait_for(f"traffic on mlx5_{nic} alone", lambda: only(lab, nic), 20)
    return begun, time.monotonic_ns()


def once(args, cost_us, number):
    with Lab(args.build, cost_us=cost_us, seed=number) as lab:
        stream = Stream(lab, Shift(log="info", **SOON))
        windows = {"calm": window()}
        windows["drain"] = order(lab, "drain", 1)
        windows["undrain"] = order(lab, "undrain", 0)
        stream.stop()
        gaps = {}
        for name, (begun, end) in windows.items():
            gap = stream.longest_gap(begun, end)
            gaps[name] = (gap[1] - gap[0]) / 1e3 if gap else 0.0
        return gaps, sum(m["resubmitted_wrs"] for m in stream.moves), len(stream.moves)


def series(args, cost_us):
    runs = [once(args, cost_us, i + 1) for i in range(args.runs)]
    again = sum(r[1] for r in runs)
    medians = {name: statistics.median(r[0][name] for r in runs) for name in runs[0][0]}
    worst = {name: max(r[0][name] for r in runs) for name in runs[0][0]}
    print(f"commands at {cost_us:3} us, {len(runs)} runs, {sum(r[2] for r in runs)} moves: {again} "
          "requests sent again; longest gap between completions, median (worst) us: "
          + ", ".join(f"{n} {medians[n]:.0f} ({worst[n]:.0f})" for n in medians), flush=True)
    return {"cmd_cost_us": cost_us, "resubmitted_wrs": again, "median_gap_us": medians,
            "worst_gap_us": worst, "runs": [r[0] for r in runs]}


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", default="build")
    p.add_argument("--out", default="out")
    p.add_argument("--runs", type=int, default=20)
    p.add_argument("--costs", default="0,100", help="cost of a command, us")
    args = p.parse_args()
    results = [series(args, int(c)) for c in args.costs.split(",")]
    save(args.out, "drain.json", {"series": results})
    return 1 if any(r["resubmitted_wrs"] for r in results) else 0


if __name__ == "__main__":
    sys.exit(main())
