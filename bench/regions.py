#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What a program pays that registers memory while it runs: the caller's own CPU time, its time on the wall, and how often it sleeps, in
ibv_reg_mr and ibv_dereg_mr of small regions. Stock, pairs, and spread over all NICs, in turns; all connections are protected, and
every NIC has standbys. A region goes at once, or when it has lived so long that it is on all NICs. Medians over the rounds and both
ends. Writes out/regions.json."""
import argparse
import os
import re
import statistics
import sys

from control import FIGURES, PATIENCE_S, await_protection, end_both, start_both
from shiftlab.lab import Lab, Shift, wait_for
from shiftlab.results import save

LIVES_MS = (0, 500)
VERBS = ("reg_mr", "dereg_mr")
KEPT = ("cpu", "unqueued", "median", "sleeps")


def rows_of(text):
    return {name: dict(zip(FIGURES, map(float, figures)))
            for name, *figures in (line.split("|") for line in re.findall(r"^VERB\|(.*)$", text, re.M))}


def ask(program, live_ms):
    """One end at a time: the cores are few."""
    before = len(program.out())
    program.say(f"regions {live_ms}")
    wait_for("regions of " + program.name,
             lambda: f"REGIONS|{live_ms}\n" in program.out()[before:] or not program.running(), PATIENCE_S)
    if not program.running():
        raise RuntimeError(program.tail())
    return rows_of(program.out()[before:])


def one_run(args, nics, backup):
    """{live_ms: [rows of an end, ...]}"""
    with Lab(args.build, nics=nics) as lab:
        how = Shift(log="info", backup=backup, libdir=args.libdir) if backup else None
        ends = start_both(lab, args.qps, how, "--one-region")
        if how:
            await_protection(lab, ends, args.qps)
        result = {live: [ask(p, live) for p in ends] for live in LIVES_MS}
        end_both(ends)
        return result


def measure(args, nics, ways):
    runs = {way: [] for way in ways}
    for i in range(args.rounds):
        for way in ways if i % 2 == 0 else reversed(ways):
            runs[way].append(one_run(args, nics, None if way == "stock" else way))
    rows = []
    for way in ways:
        for live in LIVES_MS:
            ends = [end for run in runs[way] for end in run[live]]
            row = {"nics": nics, "backup": way, "live_ms": live}
            for verb in VERBS:
                row[verb] = {key: statistics.median(e[verb][key] for e in ends) for key in KEPT}
            row["cpu_us"] = statistics.median(e["reg_mr"]["cpu"] + e["dereg_mr"]["cpu"] for e in ends) / 1e3
            rows.append(row)
            print(f"{nics} NICs, {way:6} lives {live:3} ms: " + "; ".join(
                "{} {:.1f} us of CPU, {:.1f} on the wall, {:.2f} sleeps".format(
                    verb, row[verb]["cpu"] / 1e3, row[verb]["median"] / 1e3, row[verb]["sleeps"]) for verb in VERBS) +
                f"; both {row['cpu_us']:.1f} us of CPU", flush=True)
    return rows


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", default="build")
    p.add_argument("--out", default="out")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--nics", default="2,8")
    p.add_argument("--ways", default="stock,pair,spread")
    p.add_argument("--qps", type=int, default=28)
    p.add_argument("--libdir", help="another build's library, to compare with")
    args = p.parse_args()
    load = os.getloadavg()[0]
    rows = [row for n in args.nics.split(",") for row in measure(args, int(n), args.ways.split(","))]
    save(args.out, "regions.json", {"rounds": args.rounds, "load": load, "rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
