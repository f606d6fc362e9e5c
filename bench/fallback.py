#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""How long the fallback of one QP takes, from the first thing that SHIFT noticed (an event, a silent path, a
withheld error) to the first good completion on the other NIC: median and 99th percentile of many runs, by
what dies, with commands that cost nothing and with commands of 100 us each. Writes out/fallback.json."""
import argparse
import os
import statistics
import sys
import time

from shiftlab.lab import Lab, Shift, free_port, wait_for
from shiftlab.results import save

# the initiator is on h1
SCENARIOS = {
    "initiator's port": ("port-down", "h1/mlx5_0"),
    "responder's port": ("port-down", "h0/mlx5_0"),
    "initiator's NIC, internal error": ("nic-internal-error", "h1/mlx5_0"),
    "responder's NIC, internal error": ("nic-internal-error", "h0/mlx5_0"),
    "initiator's NIC, unplugged": ("nic-unplug", "h1/mlx5_0"),
    "responder's NIC, PCI error": ("nic-pci-error", "h0/mlx5_0"),
    "initiator's NIC, taken away": ("nic-disassociate", "h1/mlx5_0"),
    "responder's NIC, taken away": ("nic-disassociate", "h0/mlx5_0"),
    "switch": ("switch-down", "rail0"),
}


def once(args, scenario, cost_us, number):
    """One job with one QP, one fault; returns the fallback times of both ends, in us."""
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
        lab.fault(*SCENARIOS[scenario])
        for p in ends:
            wait_for("move of " + p.name,
                     lambda p=p: " moved from " in lab.shift_log(p) or not p.running(), 30)
        time.sleep(args.settle)
        for p in ends:
            p.say("stop")
        for p in ends:
            p.wait(30)
            if p.process.returncode:
                raise RuntimeError(f"{p.name} ended with {p.process.returncode}\n{p.tail()}")
        return [m["fallback_us"] for p in ends for m in lab.moves(p) if m["fallback_us"]]


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]


def series(args, scenario, cost_us):
    worst = []
    for i in range(args.runs):
        times = once(args, scenario, cost_us, i + 1)
        if not times:
            raise RuntimeError(f"run {i + 1}: nothing moved")
        worst.append(max(times))
    median, p99 = statistics.median(worst), percentile(worst, 0.99)
    print(f"commands at {cost_us:3} us: {len(worst)} fallbacks of one QP ({scenario}), median "
          f"{median:.0f} us, 99th percentile {p99:.0f} us", flush=True)
    return {"cmd_cost_us": cost_us, "scenario": scenario, "kind": SCENARIOS[scenario][0],
            "median_us": median, "p99_us": p99, "us": worst}


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", default="build")
    p.add_argument("--out", default="out")
    p.add_argument("--runs", type=int, default=50)
    p.add_argument("--only", default="initiator's port",
                   help="scenarios whose name has this in it, of: " + ", ".join(SCENARIOS))
    p.add_argument("--pattern", default="b", help="what verify does meanwhile")
    p.add_argument("--settle", type=float, default=0.1, help="seconds of traffic after the move")
    p.add_argument("--lazy", action="store_true", help="standbys are made when they are needed")
    p.add_argument("--costs", default="0,100", help="cost of a command, us")
    args = p.parse_args()
    results = [series(args, scenario, int(c)) for scenario in SCENARIOS if args.only in scenario
               for c in args.costs.split(",")]
    if not results:
        p.error("no such scenario")
    save(args.out, "fallback.json", {"series": results, "lazy": args.lazy})
    return 0


if __name__ == "__main__":
    sys.exit(main())
