#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What part of its time a training job makes progress, with and without SHIFT: clustermodel/job.py says how.

goodput.py [--runs N] [--gpus N,...]        95 % intervals of N months; in brackets, in points, the gain over stock"""
import argparse
import sys

from clustermodel import goodput, inputs


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--runs", type=int, default=60)
    p.add_argument("--gpus", default=",".join(map(str, goodput.SIZES)))
    args = p.parse_args()
    for gpus in map(int, args.gpus.split(",")):
        print(goodput.told(goodput.size(gpus, args.runs, inputs.values())), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
