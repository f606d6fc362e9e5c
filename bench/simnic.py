#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What simnic itself costs, with nothing of SHIFT: latency and messages per second of the distribution's perftest between two
hosts, medians over rounds with the lowest and highest. --before DIR: another build, such as one of an older commit, in turns
with this one: which of them begins a round changes from round to round. Writes out/simnic.json."""
import argparse
import re
import statistics
import sys

from shiftlab.lab import Lab, free_port
from shiftlab.perftest import CALM
from shiftlab.results import save

# What is measured: the tool, and which column of its last line, with its unit.
LATENCY, RATE = ("us", 4), ("million messages/s", 4)
CASES = {
    "WRITE of 2 bytes": (["ib_write_lat", "-s", "2"], *LATENCY),
    "SEND of 2 bytes": (["ib_send_lat", "-s", "2"], *LATENCY),
    "READ of 2 bytes": (["ib_read_lat", "-s", "2"], *LATENCY),
    "fetch and add": (["ib_atomic_lat", "-A", "FETCH_AND_ADD"], *LATENCY),
    "WRITEs of 8 bytes": (["ib_write_bw", "-s", "8"], *RATE),
    "SENDs of 8 bytes": (["ib_send_bw", "-s", "8"], *RATE),
    "WRITEs of 64 KiB": (["ib_write_bw", "-s", "65536"], *RATE),
}


def value(program, column):
    """A column of the line of figures, which begins with size and number of messages."""
    lines = re.findall(r"^ *\d+ +\d+ +[\d.]+ +[\d.]+\s.*$", program.out(), re.M)
    if program.process.returncode or len(lines) != 1:
        raise RuntimeError(program.tail())
    return float(lines[0].split()[column])


def measure(build, name, n):
    argv, unit, column = CASES[name]
    n *= 20 if unit == RATE[0] else 1       # else a rate is that of 25 ms, and of who had the processor in them
    with Lab(build) as lab:
        argv = argv + ["-d", "mlx5_0", "-x", "0", "-F", "-n", str(n), *CALM, "-p", str(free_port())]
        _, client = lab.pair(argv, argv + ["127.0.0.1"], timeout=120)
        return value(client, column)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build")
    p.add_argument("--before", metavar="DIR", help="another build, to be compared with")
    p.add_argument("--out", default="out")
    p.add_argument("--only", default="", help="cases whose name matches this expression")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--messages", type=int, default=5000)
    args = p.parse_args()
    builds = {"now": args.build, **({"before": args.before} if args.before else {})}
    cases = [name for name in CASES if re.search(args.only, name)]
    found = {name: {which: [] for which in builds} for name in cases}
    for r in range(args.rounds):
        order = list(builds) if r % 2 == 0 else list(reversed(builds))
        for name in cases:
            for which in order:
                found[name][which].append(measure(builds[which], name, args.messages))
    for name in cases:
        unit = CASES[name][1]
        print(f"{name:20} " + "; ".join(
            f"{which} {statistics.median(all_):.4g} {unit} ({min(all_):.4g} to {max(all_):.4g})"
            for which, all_ in found[name].items()))
    save(args.out, "simnic.json", {"rounds": args.rounds, "messages": args.messages,
                                   "cases": {name: {"unit": CASES[name][1], **of} for name, of in found.items()}})
    return 0


if __name__ == "__main__":
    sys.exit(main())
