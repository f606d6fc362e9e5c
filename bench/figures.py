#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Takes all measurements of the figures and draws them: OUT/figures/*.svg and *.png.

  figures.py --build DIR [--out DIR] [--quick] [NAME...]    measures and draws, all or those that are named
  figures.py --draw [--out DIR] [NAME...]                   draws again what was measured before

--quick takes so few samples that only the shapes say something. A figure whose programs are not here is left out,
which is said; one that fails does not keep the others from being made, and the exit status is 1."""
import argparse
import os
import subprocess
import sys
import time

from shiftlab.lab import SKIPPED
from shiftlab.results import run_plot

HERE = os.path.dirname(os.path.abspath(__file__))
DEMO = os.path.join("..", "tools", "demo", "demo.py")
# name, as draw_figures.py has it: script, arguments, those of --quick
FIGURES = {
    "throughput": (DEMO, "--duration 10 --fault-at 3 --heal-at 6 --stock-fault-at 2",
                   "--quick --panels write-initiator"),
    "fallback": ("fallback.py", "--runs 11 --only=", "--runs 2 --only=port --costs 0"),
    "verbs": ("verbs.py", "", "--samples 2 --times 20"),
    "latency": ("ab.py", "--latency --idle 0 --only lat --rounds 9",
                "--latency --idle 0 --only=_lat --rounds 1"),
    "training": ("training.py", "--runs 3", "--runs 1 --duration 8"),
    "detection": ("detect.py", "--runs 9 --no-stock", "--runs 1 --no-stock"),
    "silence": ("silence.py", "--runs 300", "--runs 10 --beats 50"),
    "scale": ("scale.py", "--runs 5", "--runs 2 --qps 1,16,64"),
    "transactions": ("txn.py", "--fault port switch flap responder drain --runs 3",
                     "--fault port --workload tpcc --mode stock shift+owner"),
    "dashboard": ("dashboard.py", "", ""),
}


def measure(args, name):
    """What the benchmark's exit status says: True, False, or None: its programs are not here."""
    script, usual, quick = FIGURES[name]
    argv = [sys.executable, os.path.join(HERE, script), "--build", args.build, "--out", args.out,
            *(quick if args.quick else usual).split()]
    status = subprocess.run(argv, check=False).returncode
    return None if status == SKIPPED else status == 0


def warn_of_load():
    load = os.getloadavg()[0]
    if load > os.cpu_count() / 2:
        print(f"This machine does other work (load {load:.1f}, {os.cpu_count()} cores): times will be longer, "
              "and spread wider, than on a quiet one.", flush=True)


def measure_all(args):
    """Names of figures that can be drawn, of those whose measurement failed."""
    good, failed = [], []
    warn_of_load()
    for i, name in enumerate(args.names):
        begun = time.monotonic()
        print(f"\n[{i + 1}/{len(args.names)}] {name}", flush=True)
        done = measure(args, name)
        (good if done else failed if done is False else []).append(name)
        word = {True: "done", False: "FAILED", None: "left out"}[done]
        print(f"[{i + 1}/{len(args.names)}] {name}: {word}, {time.monotonic() - begun:.0f} s", flush=True)
    return good, failed


def parse_args():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build")
    p.add_argument("--out", default="out")
    p.add_argument("--quick", action="store_true")
    p.add_argument("--draw", action="store_true")
    p.add_argument("names", nargs="*", metavar="NAME", help="of " + ", ".join(FIGURES))
    args = p.parse_args()
    unknown = [n for n in args.names if n not in FIGURES]
    if unknown:
        p.error(f"no figure {', '.join(unknown)}; there are {', '.join(FIGURES)}")
    args.asked, args.names = args.names, args.names or list(FIGURES)
    return args


def main():
    args = parse_args()
    begun = time.monotonic()
    good, failed = (args.asked, []) if args.draw else measure_all(args)
    if good or args.draw:
        run_plot(os.path.join(HERE, "draw_figures.py"), args.out, *good)
    if failed:
        print("NOT measured: " + ", ".join(failed))
    print(f"{time.monotonic() - begun:.0f} s in all")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
