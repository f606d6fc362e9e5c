#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The figures, drawn from results that a quick run has left here: all files appear, can be read, and are small
enough to be shown by a page. With --build, the shortest measurement is taken first, and its results must be
plausible in shape; no time of it is judged.

  figures_test.py [--build DIR]
"""
import argparse
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
BENCH = os.path.join(HERE, "..", "..", "bench")
RECORDED = os.path.join(HERE, "recorded")
SVG_MAX = 100 * 1024
DARK_PAGE = "@media (prefers-color-scheme:dark)"
PNG_HEAD = b"\x89PNG\r\n\x1a\n"
SVG_NAME = "{http://www.w3.org/2000/svg}svg"
QPS = (1, 8)


def check(truth, what):
    if not truth:
        raise SystemExit("FAILED: " + what)


def draw(folder, *names):
    """Its exit status, and what it said."""
    done = subprocess.run([sys.executable, os.path.join(BENCH, "figures.py"), "--draw", "--out", folder,
                           *names], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def check_svg(path):
    check(os.path.getsize(path) < SVG_MAX, f"{path} has {os.path.getsize(path)} bytes")
    root = ElementTree.parse(path).getroot()
    check(root.tag == SVG_NAME, f"{path} is no SVG")
    check(sum(1 for _ in root.iter()) > 50, f"there is nothing in {path}")
    with open(path, encoding="utf-8") as f:
        check(DARK_PAGE in f.read(), f"{path} has no colours for a dark page")


def check_png(path):
    with open(path, "rb") as f:
        head = f.read(26)
    width, height, _, colours = struct.unpack(">IIBB", head[16:26])
    check(head.startswith(PNG_HEAD) and width > 600 and height > 200, f"{path}: {width} x {height}")
    check(colours == 6, f"{path} has no transparency")


def check_figure(folder, name):
    base = os.path.join(folder, "figures", name)
    check_svg(base + ".svg")
    check_png(base + ".png")


def recorded(folder):
    results = os.listdir(RECORDED)      # of one figure each
    for name in results:
        shutil.copy(os.path.join(RECORDED, name), folder)
    status, said = draw(folder)
    check(status == 0, said)
    check(f"{len(results)} figures drawn" in said, said)
    names = {name.partition(".")[0] for name in os.listdir(os.path.join(folder, "figures"))}
    check(len(names) == len(results), f"there are {sorted(names)}")
    for name in names:
        check_figure(folder, name)
    print(f"ok     {len(names)} figures drawn from what was recorded")


def missing(folder):
    status, said = draw(folder)
    check(status != 0, "drawn from nothing: " + said)
    status, said = draw(folder, "fallback")
    check(status != 0, "asked for by name, not there, and no error: " + said)
    shutil.copy(os.path.join(RECORDED, "bench-lat.json"), folder)
    status, said = draw(folder)
    check(status == 0 and "fallback: no fallback.json" in said, said)
    check_figure(folder, "latency")
    print("ok     what is not there is said")


def check_row(row, runs):
    check(len(row["runs"]) == runs, f"{len(row['runs'])} runs")
    for run in row["runs"]:
        check(0 < run["first_ms"] <= run["ms"] <= run["bound_ms"], f"times of {run}")
        check(run["resent"] == row["qps"], f"{run['resent']} of {row['qps']} requests sent again")
        check(run["messages"] >= run["datagrams"] > 0, f"messages of {run}")


def measured(folder, build):
    runs = 2
    subprocess.run([sys.executable, os.path.join(BENCH, "scale.py"), "--build", build, "--out", folder,
                    "--runs", str(runs), "--qps", ",".join(map(str, QPS)), "--costs", "0,100"], check=True)
    with open(os.path.join(folder, "scale.json"), encoding="utf-8") as f:
        results = json.load(f)
    about = results["about"]
    check(all(about[key] for key in ("cpu", "cores", "kernel", "device", "shift", "when")), str(about))
    check([(r["command_us"], r["qps"]) for r in results["rows"]]
          == [(cost, qps) for cost in (0, 100) for qps in QPS], "rows")
    for row in results["rows"]:
        check_row(row, runs)
    status, said = draw(folder, "scale")
    check(status == 0, said)
    check_figure(folder, "scale")
    print("ok     measured and drawn")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build")
    args = p.parse_args()
    for case in [lambda f: measured(f, args.build)] if args.build else [recorded, missing]:
        with tempfile.TemporaryDirectory(prefix="shift-figures-") as folder:
            case(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
