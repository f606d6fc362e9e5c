#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""How long traffic stands still after a fault, at NCCL's defaults (QP timeout 20, 7 retries): from
the fault to the first completion on the backup NIC, beside stock's time to its error. Medians;
writes out/detect.json.

All of these faults stop the traffic at once, so the time of a fault is that of the last completion
over the old NIC; at full load the next one was due microseconds later. "bound" counts from before
simnicctl was started to break something: to start a program takes long where all cores are busy.
"""
import argparse
import concurrent.futures
import statistics
import sys
import time

from shiftlab.lab import Lab, Shift, Stuck, wait_for
from shiftlab.results import save
from streaming import Stream

# the client, which posts, is on h1; the aim is the design's
FAULTS = (
    ("local port down", "port-down", "h1/mlx5_0"),
    ("remote port down", "port-down", "h0/mlx5_0"),
    ("silent switch loss", "switch-down", "rail0"),
    ("NIC hang", "nic-hang", "h1/mlx5_0"),
    ("device fatal", "nic-internal-error", "h1/mlx5_0"),
)
TIMEOUT = 20
STOCK_S = 4.096e-6 * (1 << TIMEOUT) * 8


def inject(lab, kind, target):
    before = time.monotonic_ns()
    lab.fault(kind, target)
    return before


def moved(lab, stream):
    """All of it flows over the backup again."""
    carried = lab.carried(1)

    def flows():
        if not stream.client.running():
            raise RuntimeError("it ended\n" + stream.client.tail() +
                               lab.shift_log(stream.client)[-2000:])
        return lab.carried(1) > carried + (1 << 22)

    wait_for("traffic over the backup", flows, 60)


def once(args, kind, target, number, dmabufs=0, **settings):
    """us from the fault to the first completion after it, and the bound"""
    with Lab(args.build, seed=number) as lab:
        stream = Stream(lab, Shift(log="info", **settings), TIMEOUT, dmabufs)
        before = inject(lab, kind, target)
        moved(lab, stream)
        end = time.monotonic_ns()
        lab.ctl("heal", "all")
        stream.stop()
        gap = stream.longest_gap(before, end)
        if not gap or not stream.moves:
            raise RuntimeError("nothing stood still")
        return (gap[1] - max(gap[0], before)) / 1e3, (gap[1] - before) / 1e3


def stock(args, kind, target):
    """Seconds until stock's error; None: it stood still for longer than we waited."""
    with Lab(args.build) as lab:
        stream = Stream(lab, None, TIMEOUT)
        before = inject(lab, kind, target)
        try:
            stream.client.wait(args.stock_wait)
        except Stuck:
            return None
        rows = [r.split() for r in stream.client.out().splitlines() if r.startswith("ERROR")]
        return (int(rows[0][2]) - before) / 1e9 if rows else None


def stock_all(args):
    if not args.stock:
        return {}
    with concurrent.futures.ThreadPoolExecutor(len(FAULTS)) as pool:
        times = pool.map(lambda f: stock(args, *f[1:]), FAULTS)
        return {f[0]: t for f, t in zip(FAULTS, times)}


def stock_text(args, times, name):
    if not args.stock:
        return f"{STOCK_S:.1f} s, by the formula"
    return f"{times[name]:.1f} s" if times[name] else f"none in {args.stock_wait} s"


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build")
    p.add_argument("--out", default="out")
    p.add_argument("--runs", type=int, default=20)
    p.add_argument("--only", default="", help="faults whose name has this in it")
    p.add_argument("--no-stock", dest="stock", action="store_false",
                   help="do not wait for stock's errors; show the formula's time")
    p.add_argument("--stock-wait", type=int, default=60, help="seconds")
    args = p.parse_args()
    times = stock_all(args)
    rows = []
    print(f"{'fault':20} {'median, ms':>11} {'worst':>9} {'bound':>9}   stock's error", flush=True)
    for name, kind, target in FAULTS:
        if args.only not in name:
            continue
        values = [once(args, kind, target, i + 1) for i in range(args.runs)]
        us, bound = ([v[i] for v in values] for i in (0, 1))
        rows.append({"fault": name, "kind": kind, "target": target, "us": us, "bound_us": bound,
                     "median_us": statistics.median(us), "stock_s": times.get(name)})
        print(f"{name:20} {statistics.median(us) / 1e3:11.2f} {max(us) / 1e3:9.2f} "
              f"{statistics.median(bound) / 1e3:9.2f}   {stock_text(args, times, name)}",
              flush=True)
    save(args.out, "detect.json",
         {"runs": args.runs, "qp_timeout": TIMEOUT, "stock_formula_s": STOCK_S,
          "stock_waited_s": args.stock_wait if args.stock else None, "faults": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
