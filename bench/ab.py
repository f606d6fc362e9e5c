#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What SHIFT costs while nothing fails: stock perftest, as it is and with SHIFT, runs alternating
on the same fabric. Prints both medians with their spread and writes out/ab.json."""
import argparse
import json
import os
import re
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests", "e2e"))
from lab import Lab, Shift, free_port  # noqa: E402

# name, command, column of perftest's table, unit, more is better
MEASURES = (
    ("ib_write_bw 64 KiB", ["ib_write_bw", "-n", "20000"], r"BW average", "Gb/s", True),
    ("ib_write_lat 2 B", ["ib_write_lat", "-n", "5000"], r"t_typical", "us", False),
    ("ib_send_lat 2 B", ["ib_send_lat", "-n", "5000"], r"t_typical", "us", False),
    ("ib_send_bw -e 64 KiB", ["ib_send_bw", "-e", "-n", "10000"], r"BW average", "Gb/s", True),
)


def table_value(text, column):
    """The value under the column in perftest's last table."""
    head = row = None
    for line in text.splitlines():
        if line.strip().startswith("#bytes"):
            head = [h.strip() for h in re.findall(r"[#\w.%]+(?: [a-z]+)?(?:\[[^\]]*\])?", line)]
        elif head and re.match(r"\s*\d+\s+\d+\s", line):
            row = line.split()
    if not row:
        raise RuntimeError("no table in:\n" + text[-2000:])
    for name, value in zip(head, row):
        if re.search(column, name):
            return float(value)
    raise RuntimeError(f"no column {column} in {head}")


def once(lab, argv, column, shift):
    argv = argv + ["-d", "mlx5_0", "-x", "0", "-F", "-p", str(free_port())]
    argv += ["--report_gbits"] if "_bw" in argv[0] else []
    server, client = lab.pair(argv, argv + ["127.0.0.1"], shift=shift, timeout=120)
    for p in (server, client):
        if p.process.returncode:
            raise RuntimeError(f"{p.name} ended with {p.process.returncode}\n{p.tail()}")
    return table_value(client.out(), column)


def spread(values):
    """Half the distance between the quartiles."""
    if len(values) < 3:
        return 0.0
    q = statistics.quantiles(values, n=4)
    return (q[2] - q[0]) / 2


def measure(lab, rounds, name, argv, column, unit, more_is_better):
    stock, shift = [], []
    for i in range(rounds):
        order = [(stock, None), (shift, Shift())]
        for values, how in order if i % 2 == 0 else reversed(order):
            values.append(once(lab, argv, column, how))
    a, b = statistics.median(stock), statistics.median(shift)
    noise = max(spread(stock), spread(shift))
    verdict = "within noise" if abs(a - b) <= max(noise, 0.02 * a) else (
        "better" if (b > a) == more_is_better else "worse")
    print(f"{name:22} stock {a:9.2f} +-{spread(stock):6.2f}   SHIFT {b:9.2f} +-{spread(shift):6.2f}"
          f" {unit:5} {100 * (b - a) / a:+6.1f} %  {verdict}", flush=True)
    return {"name": name, "unit": unit, "stock_median": a, "shift_median": b, "stock": stock,
            "shift": shift, "verdict": verdict}


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", default="build")
    p.add_argument("--out", default="out")
    p.add_argument("--rounds", type=int, default=9, help="runs of each kind")
    p.add_argument("--only", help="measures whose name has this in it")
    args = p.parse_args()
    results = []
    with Lab(args.build) as lab:
        for m in MEASURES:
            if not args.only or args.only in m[0]:
                results.append(measure(lab, args.rounds, *m))
    os.makedirs(args.out, exist_ok=True)
    with open(os.path.join(args.out, "ab.json"), "w") as f:
        json.dump({"rounds": args.rounds, "measures": results}, f, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
