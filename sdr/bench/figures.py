#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The figures of SDR: OUT/sdr-model.json has each reproduced number beside the published one, OUT/figures/sdr-*.svg
and .png the pictures. The exit status is 1 if a number does not meet its reference.

  figures.py [--out DIR] [--seed S] [--quick] [--draw]

--quick plays few Writes, so that what is played only shows its size; --draw draws again what is there."""
import argparse
import json
import os
import sys
import time

import claims
from shiftlab.results import run_plot

HERE = os.path.dirname(os.path.abspath(__file__))


def take(args, path):
    begun = time.monotonic()
    found = claims.rows(args.seed, args.quick)
    data = {"seed": args.seed, "quick": args.quick, "rows": found, "series": claims.series()}
    os.makedirs(args.out, exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        json.dump(data, f, indent=1)
    off = [r for r in found if r["ok"] is False]
    for r in found:
        word = {True: "ok", False: "OFF", None: ""}[r["ok"]]
        print(f"{r['figure']:>7} {r['here']:10.5g} {r['reference'] or '':>8} {word:>3}  {r['what']}"
              + (f" (published: {r['published']})" if r["published"] is not None else ""))
    print(f"seed {args.seed}: {len(found)} numbers, {len(off)} off; {time.monotonic() - begun:.0f} s; {path}", flush=True)
    return not off


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", default="out")
    p.add_argument("--seed", type=int, default=20260101)
    p.add_argument("--quick", action="store_true")
    p.add_argument("--draw", action="store_true")
    args = p.parse_args()
    path = os.path.join(args.out, "sdr-model.json")
    good = args.draw or take(args, path)
    run_plot(os.path.join(HERE, "draw_sdr.py"), args.out)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
