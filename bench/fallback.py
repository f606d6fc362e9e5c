#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""How long the fallback of one QP takes, from the first withheld error to the first good completion
on the other NIC: median and 99th percentile of many runs, with commands that cost nothing and
with commands of 100 us each. Writes out/fallback.json."""
import argparse
import json
import os
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests", "e2e"))
from lab import Lab, Shift, free_port, wait_for  # noqa: E402


def moves_of(lab, program):
    return (lab.stats(program) or {"moves": []})["moves"]


def once(args, cost_us, number):
    """One job with one QP, one lost link; returns the fallback times of both ends, in us."""
    with Lab(args.build, cost_us=cost_us, seed=number) as lab:
        verify = [os.path.join(lab.out, "bin", "verify"), "--seed", number, "--qps", 1,
                  "--patterns", args.pattern, "--control", "--dev", "mlx5_0", "--port",
                  free_port()]
        shift = Shift(log="info", lazy="on" if args.lazy else "off")
        ends = [lab.start("h0", verify + ["--server"], "server", shift, stdin=True),
                lab.start("h1", verify + ["--client", "127.0.0.1"], "client", shift, stdin=True)]
        for p in ends:
            wait_for("protection", lambda p=p: lab.protected(p) or not p.running(), 15)
        time.sleep(0.05)
        lab.fault(args.kind, "h1/mlx5_0")
        time.sleep(args.settle)
        for p in ends:
            p.say("stop")
        for p in ends:
            p.wait(30)
            if p.process.returncode:
                raise RuntimeError(f"{p.name} ended with {p.process.returncode}\n{p.tail()}")
        return [m["fallback_us"] for p in ends for m in moves_of(lab, p) if m["fallback_us"]]


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]


def series(args, cost_us):
    worst = []
    for i in range(args.runs):
        times = once(args, cost_us, i + 1)
        if not times:
            raise RuntimeError(f"run {i + 1}: nothing moved")
        worst.append(max(times))
    median, p99 = statistics.median(worst), percentile(worst, 0.99)
    print(f"commands at {cost_us:3} us: {len(worst)} fallbacks of one QP ({args.kind}), median "
          f"{median:.0f} us, 99th percentile {p99:.0f} us", flush=True)
    return {"cmd_cost_us": cost_us, "kind": args.kind, "median_us": median, "p99_us": p99,
            "us": worst}


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", default="build")
    p.add_argument("--out", default="out")
    p.add_argument("--runs", type=int, default=50)
    p.add_argument("--kind", default="port-down", help="the fault")
    p.add_argument("--pattern", default="b", help="what verify does meanwhile")
    p.add_argument("--settle", type=float, default=0.3, help="seconds of traffic after the fault")
    p.add_argument("--lazy", action="store_true", help="standbys are made when they are needed")
    p.add_argument("--costs", default="0,100", help="cost of a command, us")
    args = p.parse_args()
    results = [series(args, int(c)) for c in args.costs.split(",")]
    os.makedirs(args.out, exist_ok=True)
    with open(os.path.join(args.out, "fallback.json"), "w") as f:
        json.dump({"series": results, "lazy": args.lazy}, f, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
