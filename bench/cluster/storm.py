#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Fits the costs of storms to what was measured, and says how far each time is off: clustermodel/storm.py says how.

storm.py [--build DIR] [--out DIR] [--fit]      --fit looks for costs, which belong into inputs.json"""
import argparse
import sys

from clustermodel import inputs, storm


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build")
    p.add_argument("--out", default="out")
    p.add_argument("--fit", action="store_true")
    args = p.parse_args()
    values = inputs.values()
    found, source = storm.measured(args.out)
    costs = storm.fit(args.build, found, values) if args.fit else values.storm_costs
    rows = storm.errors(args.build, costs, found, values)
    print(f"costs, ns: {costs}; times of {source}")
    for r in rows:
        print(f"{r['qps']:5} queue pairs, commands of {r['command_us']:g} us: {r['model_ms']:8.1f} ms, measured "
              f"{r['ms']:8.1f} ({100 * r['error']:+.0f} %); messages {r['model_messages']}, measured "
              f"{r['messages']:g}; datagrams {r['model_datagrams']}, measured {r['datagrams']:g}")
    return 0 if all(abs(r["error"]) <= storm.WITHIN for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
