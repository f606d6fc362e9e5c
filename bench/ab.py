#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What SHIFT costs while nothing fails: stock perftest, as it is and with SHIFT, runs alternating
on the same fabric. Prints both medians with their spread and writes out/ab.json.

--latency: small messages and two bandwidths, once alone and once beside two processes that hold --idle
connected queue pairs on the same NICs, of the same kind as what is measured; out/bench-lat.json. The
idle ones are made once for a block of runs, and blocks alternate; --block 1: each run has its own. The
median of the ratios of runs that follow each other survives a machine whose load changes."""
import argparse
import os
import re
import statistics
import sys

from shiftlab.lab import Lab, Shift, free_port, wait_for
from shiftlab.results import save

# name, command, column of perftest's table, unit, more is better
MEASURES = (
    ("ib_write_bw 64 KiB", ["ib_write_bw", "-n", "20000"], r"BW average", "Gb/s", True),
    ("ib_write_lat 2 B", ["ib_write_lat", "-n", "5000"], r"t_typical", "us", False),
    ("ib_send_lat 2 B", ["ib_send_lat", "-n", "5000"], r"t_typical", "us", False),
    ("ib_send_bw -e 64 KiB", ["ib_send_bw", "-e", "-n", "10000"], r"BW average", "Gb/s", True),
)

LATENCY_MEASURES = tuple(
    (f"{tool} {size} B", [tool, "-n", "5000", "-s", str(size)], r"t_typical", "us", False)
    for tool in ("ib_write_lat", "ib_send_lat") for size in (2, 4, 8, 16)) + (
    ("ib_write_bw 64 KiB", ["ib_write_bw", "-n", "10000"], r"BW average", "Gb/s", True),
    ("ib_write_bw 1 MiB", ["ib_write_bw", "-n", "1000", "-s", "1048576"], r"BW average", "Gb/s", True))


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
    """The number that one run of perftest gives."""
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
    return judge(name, unit, more_is_better, stock, shift)


def idle_start(lab, n, how):
    """Two processes with n connected queue pairs that carry nothing; with SHIFT all of them protected."""
    port = free_port()
    ends = [lab.start(host, [os.path.join(lab.out, "bin", "idle"), side, "--port", port, "--rest", n],
                      shift=how, stdin=True)
            for host, side in (("h0", "--server"), ("h1", "--client"))]
    for p in ends:
        wait_for(f"rest of {p.name}", lambda p=p: "RESTING" in p.out() or not p.running(), 120)
        wait_for(f"protection in {p.name}", lambda p=p: not how or lab.protected(p) >= n or
                 not p.running(), 120, 0.2)
        if not p.running():
            raise RuntimeError(f"{p.name} ended\n{p.tail()}")
    return ends


def idle_end(ends):
    for p in ends:
        p.say("end")
    for p in ends:
        if p.wait(120):
            raise RuntimeError(f"{p.name} ended with {p.process.returncode}\n{p.tail()}")


def measure_beside_idle(build, rounds, block_runs, idle, measures):
    """[stock values, SHIFT values] of each measure. A fabric for each block: all of it is new."""
    values = [([], []) for _ in measures]
    for block in range((rounds + block_runs - 1) // block_runs):
        for kind in (0, 1) if block % 2 == 0 else (1, 0):
            with Lab(build) as lab:
                ends = idle_start(lab, idle, Shift(log="info") if kind else None)
                for _ in range(min(block_runs, rounds - block * block_runs)):
                    for m, both in zip(measures, values):
                        both[kind].append(once(lab, m[1], m[2], Shift() if kind else None))
                idle_end(ends)
    return [judge(f"{m[0]}, {idle} idle", m[3], m[4], *both) for m, both in zip(measures, values)]


def judge(name, unit, more_is_better, stock, shift):
    a, b = statistics.median(stock), statistics.median(shift)
    pairs = [y / x for x, y in zip(stock, shift)]
    noise = max(spread(stock), spread(shift))
    verdict = "within noise" if abs(a - b) <= max(noise, 0.02 * a) else (
        "better" if (b > a) == more_is_better else "worse")
    print(f"{name:32} stock {a:9.2f} +-{spread(stock):6.2f}   SHIFT {b:9.2f} +-{spread(shift):6.2f}"
          f" {unit:5} {100 * (b - a) / a:+6.1f} %  {verdict}; pairs {statistics.median(pairs):.3f} "
          f"+-{spread(pairs):.3f}, SHIFT more in {sum(r > 1 for r in pairs)} of {len(pairs)}", flush=True)
    return {"name": name, "unit": unit, "stock_median": a, "shift_median": b, "stock": stock,
            "shift": shift, "pairs_median": statistics.median(pairs), "verdict": verdict}


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", default="build")
    p.add_argument("--out", default="out")
    p.add_argument("--rounds", type=int, default=9, help="runs of each kind")
    p.add_argument("--only", help="measures whose name has this in it")
    p.add_argument("--latency", action="store_true")
    p.add_argument("--idle", type=int, default=1000, help="queue pairs, with --latency; 0: none")
    p.add_argument("--block", type=int, default=5, help="runs of each measure beside the same idle ones")
    args = p.parse_args()
    measures = [m for m in (LATENCY_MEASURES if args.latency else MEASURES)
                if not args.only or args.only in m[0]]
    load = os.getloadavg()[0]
    with Lab(args.build) as lab:
        results = [measure(lab, args.rounds, *m) for m in measures]
    if args.latency and args.idle:
        results += measure_beside_idle(args.build, args.rounds, args.block, args.idle, measures)
    load = (load, os.getloadavg()[0])
    print(f"load of the machine: {load[0]:.1f} before, {load[1]:.1f} behind, {os.cpu_count()} cores")
    save(args.out, "bench-lat.json" if args.latency else "ab.json",
         {"rounds": args.rounds, "load": load, "measures": results})
    return 0


if __name__ == "__main__":
    sys.exit(main())
