#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Where SHIFT still waits or costs: a table of each figure, its goal, its value now and before. Runs the benchmarks
that the figures are from, in a short form, one after the other, and takes the figures from what they write. goals.json
has figures, goals and the values before. A row that cannot be taken says why. Six minutes on a quiet machine; --quick:
a look. Writes OUT/goals.json and OUT/goals.md, and what each benchmark said to OUT/goals/."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

from shiftlab.lab import SKIPPED
from shiftlab.results import save

HERE = os.path.dirname(os.path.realpath(__file__))
LONGEST_S = 420     # of a benchmark; then its rows say so

# name: (program, file that it writes, arguments, arguments of a look)
BENCHES = {
    "verbs": ("verbs.py", "bench-verbs.json", ["--samples", "16", "--times", "16"], ["--samples", "4", "--times", "4"]),
    "control": ("control.py", "bench-control.json", ["--qps", "300", "--rounds", "3"], ["--qps", "100", "--rounds", "1"]),
    "regions": ("regions.py", "regions.json", ["--nics", "2", "--ways", "stock,pair", "--rounds", "3"],
                ["--nics", "2", "--ways", "stock,pair", "--rounds", "1"]),
    "scale": ("scale.py", "scale.json", ["--qps", "4096", "--costs", "100", "--runs", "3"],
              ["--qps", "1024", "--costs", "100", "--runs", "1"]),
    "crowd": ("scale.py", "scale.json", ["--qps", "256", "--processes", "16", "--costs", "100", "--runs", "1"],
              ["--qps", "64", "--processes", "4", "--costs", "100", "--runs", "1"]),
    "idle": ("idle.py", "idle.json", ["--qps", "1", "--rounds", "1", "--seconds", "20"],
             ["--qps", "1", "--rounds", "1", "--seconds", "5"]),
    "detect-silent": ("detect.py", "detect.json", ["--no-stock", "--only", "silent", "--runs", "7"],
                      ["--no-stock", "--only", "silent", "--runs", "1"]),
    "detect-hang": ("detect.py", "detect.json", ["--no-stock", "--only", "hang", "--runs", "7"],
                    ["--no-stock", "--only", "hang", "--runs", "1"]),
    "detect-fatal": ("detect.py", "detect.json", ["--no-stock", "--only", "fatal", "--runs", "7"],
                     ["--no-stock", "--only", "fatal", "--runs", "1"]),
}


def of_verbs(row, found):
    return max(r["engine_ratio"] for r in found["rows"] if r["verb"] in row["verbs"])


def of_control(row, found):
    verbs = next(run["verbs"] for run in found["runs"] if run["command_us"] == row["cost"])
    return next(r["unqueued_ratio"] for rows in verbs.values() for r in rows if r["verb"] == row["verb"])


def of_regions(_row, found):
    cpu = {r["backup"]: r["cpu_us"] for r in found["rows"] if r["live_ms"] == 0}
    return cpu["pair"] / cpu["stock"]


def of_scale(_row, found):
    widest = max(found["rows"], key=lambda r: r["qps"])
    return widest["median_ms"] / (widest["qps"] * widest["processes"] * widest["command_us"] / 1e3)


def of_idle(row, found):
    return statistics.median(next(r["values"] for r in found["rows"] if r["what"].startswith(row["what"]))) * row.get("scale", 1)


def of_detect(_row, found):
    return found["faults"][0]["median_us"] / 1e3


TAKE = {"verbs": of_verbs, "control": of_control, "regions": of_regions, "scale": of_scale, "crowd": of_scale, "idle": of_idle,
        "detect-silent": of_detect, "detect-hang": of_detect, "detect-fatal": of_detect}


def last_line(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        lines = [line.strip() for line in f if line.strip()]
    return lines[-1][:100] if lines else "it said nothing"


def run(args, name):
    """What the benchmark has written, and None; or None, and why not."""
    program, file, full, quick = BENCHES[name]
    folder = os.path.join(args.out, "goals", name)
    os.makedirs(folder, exist_ok=True)
    log, result = os.path.join(folder, "said.txt"), os.path.join(folder, file)
    if os.path.exists(result):
        os.remove(result)
    argv = [sys.executable, os.path.join(HERE, program), "--build", args.build, "--out", folder,
            *(quick if args.quick else full)]
    with open(log, "w", encoding="utf-8") as said:
        try:
            code = subprocess.run(argv, stdout=said, stderr=subprocess.STDOUT, timeout=LONGEST_S, check=False).returncode
        except subprocess.TimeoutExpired:
            return None, f"{program} took longer than {LONGEST_S} s"
    if code == SKIPPED:
        return None, last_line(log)
    if code or not os.path.exists(result):
        return None, f"{program} failed: {last_line(log)}"
    with open(result, encoding="utf-8") as f:
        return json.load(f), None


def fill(rows, name, found, why):
    for row in rows:
        if row["bench"] != name:
            continue
        if why:
            row["why"] = why
            continue
        try:
            row["now"] = round(TAKE[name](row, found), 2)
        except (KeyError, IndexError, StopIteration, ValueError) as e:
            row["why"] = f"{BENCHES[name][0]} has no such figure ({type(e).__name__})"


def text(value):
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def table(rows):
    lines = ["| point | figure | goal | now | before |", "|---|---|---|---|---|"]
    for row in rows:
        now = text(row["now"]) if "now" in row else f"not taken: {row['why']}"
        lines.append(f"| {row['point']} | {row['figure']} | {text(row['goal'])} | {now} | {text(row['before'])} |")
    return "\n".join(lines) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", default="build")
    p.add_argument("--out", default="out")
    p.add_argument("--quick", action="store_true")
    p.add_argument("--only", type=int, action="append", metavar="POINT", help="rows of this point; may be repeated")
    args = p.parse_args()
    with open(os.path.join(HERE, "goals.json"), encoding="utf-8") as f:
        rows = [row for row in json.load(f) if not args.only or row["point"] in args.only]
    names = [name for name in BENCHES if any(row["bench"] == name for row in rows)]
    for i, name in enumerate(names):
        print(f"{i + 1} of {len(names)}: {name} ...", end=" ", flush=True)
        began = time.monotonic()
        found, why = run(args, name)
        fill(rows, name, found, why)
        print(f"{time.monotonic() - began:.0f} s" + (f", {why}" if why else ""), flush=True)
    shown = table(rows)
    print(f"\nload {os.getloadavg()[0]:.1f}{', a look only' if args.quick else ''}\n\n{shown}")
    save(args.out, "goals.json", {"quick": args.quick, "rows": rows})
    with open(os.path.join(args.out, "goals.md"), "w", encoding="utf-8") as f:
        f.write(shown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
