#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What a cluster gains by SHIFT, what a shared NIC costs it, and what a storm is like: OUT/cluster.json, and figures
OUT/figures/{goodput,shared,storm}.svg and .png. README.md has the form of the file and what the models leave out.

  cluster.py [--build DIR] [--out DIR] [--quick] [--draw]

--quick takes so few months that only shapes say something; --draw draws again what is there. The exit status is 1 if
a model does not meet what it is held to. Runs by the Python of BUILD/cluster (scripts/install-cluster.sh)."""
import argparse
import json
import os
import subprocess
import sys
import time

from shiftlab.results import run_plot, save

from clustermodel import checks, goodput, inputs, storm

HERE = os.path.dirname(os.path.abspath(__file__))
PLANNED = []                # kinds of job that the product does not have
RUNS, QUICK_RUNS = 200, 10
AT_GPUS = 16384             # of the sensitivity
RAILS = ((16, "1,2,4,8,16,64"), (256, "1,8"))
FEW_HOSTS = 16
QPS = (2, 16, 64, 256, 1024, 4096, 8192, 16384)
LOSSES = (0, 10, 50)        # of 1,000 datagrams


def said(text):
    print(text, flush=True)


# ---- goodput --------------------------------------------------------------------------------------

def sizes(runs):
    rows = []
    for gpus in goodput.SIZES:
        rows.append(goodput.size(gpus, runs, inputs.values()))
        said(goodput.told(rows[-1]))
    return rows


def cases():
    """(what is other than usual, inputs, rates)"""
    usual = inputs.values()
    rsc1 = usual.rsc1 / 1000 / inputs.DAY / usual.gpus_per_host
    yield "as usual", {}, None
    yield "half of the network's faults maskable", {"masked": 0.5}, None
    yield "all of them maskable", {"masked": 1.0}, None
    yield "no fault heals by itself", {"transient": 0.0}, None
    yield "links and switches all heal by themselves", {"transient": 1.0}, None
    yield "what heals takes 20 min, not 3", {"outage_s": 1200}, None
    yield "5 % of a step exposed", {"exposed": 0.05}, None
    yield "40 % of a step exposed", {"exposed": 0.4}, None
    yield "restarts 5 min, announced 3 min", {"restart_s": 300, "announced_s": 180}, None
    yield "restarts 20 min, announced 10 min", {"restart_s": 1200, "announced_s": 600}, None
    yield "checkpoints of 60 s", {"checkpoint_s": 60}, None
    yield "one queue pair a NIC and peer", {"qps": 1}, None
    yield "64 queue pairs a NIC and peer", {"qps": 64}, None
    yield "half of the links' faults are switches, of 128 hosts", {"switch_share": 0.5, "switch_hosts": 128}, None
    yield "Azure's share of the network, 8.3 %", {}, inputs.with_network(usual, usual.network_azure)
    yield "Alibaba's share, 15.8 %", {}, inputs.with_network(usual, usual.network_alibaba)
    yield "RSC-1's rate, 15.8 %", {}, inputs.with_network(usual, usual.network_alibaba, rsc1)
    yield "RSC-1's rate, 45 % (invented: a bad fabric)", {}, inputs.with_network(usual, 0.45, rsc1)


def sensitivity(runs):
    rows = []
    for what, other, rates in cases():
        p = inputs.values(**other)
        rows.append({"what": what, "inputs": other, **goodput.size(AT_GPUS, runs, p, rates)})
        said(f"{what}: {goodput.told(rows[-1])}")
    return rows


# ---- rails ----------------------------------------------------------------------------------------

def rails():
    """By processes of their own: SimGrid has one engine in each."""
    rows = []
    for hosts, qps in RAILS:
        done = subprocess.run([sys.executable, os.path.join(HERE, "rail.py"), "--json", "--hosts", str(hosts), "--qps",
                               qps], stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            said("rails: left out, SimGrid is not here (scripts/install-cluster.sh)")
            return None
        rows += json.loads(done.stdout)
    for r in (r for r in rows if r["dead"] == "one NIC"):
        said(f"one NIC of {r['hosts']} hosts dead, {r['qps']} queue pairs, {r['backup']}: x{r['factor']:.3f}")
    return rows


def rail_checks(rows):
    for r in rows or ():
        yield checks.row(f"rail: {r['backup']}, {r['hosts']} hosts, {r['qps']} queue pairs, dead: {r['dead']}",
                         r["factor"], r["closed"], abs(r["factor"] - r["closed"]) < checks.RAIL_TOLERANCE)


# ---- storms ---------------------------------------------------------------------------------------

def storms(args):
    p = inputs.values()
    points, source = storm.measured(args.out)
    costs = p.storm_costs if source == "inputs.json" else storm.fit(args.build, points, p, p.storm_costs)
    fitted = storm.errors(args.build, costs, points, p)

    def ask(*asked, **more):
        row = storm.storm(args.build, costs, *asked, p, **more)
        said(f"{row['fault']}, {row['hosts']} hosts, {row['pattern']}, {row['qps']} queue pairs a NIC, commands of "
             f"{row['command_us']} us{', own cores' if row['own_cores'] else ''}: {row['ms']:.1f} ms, "
             f"{row['messages_per_qp']:.1f} messages each")
        return {**row, "lost_permille": more.get("drop_permille", 0)}

    def sizes_of(pattern):
        return storm.HOSTS + (storm.BEYOND_HOSTS if pattern == "ring" else ())

    hosts = [ask(n, pattern, qps, fault=fault) for pattern in storm.PATTERNS for qps in (64, 1024)
             for fault in ("switch", "silent") for n in sizes_of(pattern)]
    queue_pairs = [ask(FEW_HOSTS, "ring", qps, command_us=us, own_cores=own)
                   for us, own in ((0, False), (100, False), (100, True)) for qps in QPS]
    loss = [ask(FEW_HOSTS, "ring", 1024, drop_permille=lost) for lost in LOSSES]
    return {"costs": costs, "measured": source, "fit": fitted, "held_out": storm.held_out(args.build, points, p),
            "hosts": hosts, "qps": queue_pairs, "loss": loss}


def storm_checks(found):
    for r in found["fit"]:
        yield checks.row(f"storm: {r['qps']} queue pairs, commands of {r['command_us']:g} us, ms", r["model_ms"],
                         r["ms"], abs(r["error"]) <= storm.WITHIN, f"{100 * r['error']:+.0f} %, of {found['measured']}")
    for r in found["held_out"]:
        yield checks.row(f"storm, fitted to fewer: {r['qps']} queue pairs, commands of {r['command_us']:g} us, ms",
                         r["model_ms"], r["ms"], abs(r["error"]) <= storm.WITHIN, f"{100 * r['error']:+.0f} %")


# ---- all of it ------------------------------------------------------------------------------------

def take(args):
    began, runs = time.monotonic(), QUICK_RUNS if args.quick else RUNS
    load, storming = rails(), storms(args)
    found = list(checks.everything(max(runs, checks.RUNS))) + list(rail_checks(load)) + list(storm_checks(storming))
    for r in found:
        if r["ok"] and r["what"].startswith("rail"):
            continue
        said(f"{'ok ' if r['ok'] else 'OFF'} {r['here']:10.4f} {r['reference']:10.4f}  {r['what']} {r['note']}")
    save(args.out, "cluster.json", {
        "quick": args.quick, "seed": goodput.SEED, "runs": runs, "planned": PLANNED, "inputs": inputs.rows(),
        "goodput": sizes(runs), "sensitivity": sensitivity(runs), "rail": load, "storm": storming, "checks": found})
    off = sum(not r["ok"] for r in found)
    said(f"{len(found)} checks, {off} off; {time.monotonic() - began:.0f} s; {os.path.join(args.out, 'cluster.json')}")
    return not off


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build")
    p.add_argument("--out", default="out")
    p.add_argument("--quick", action="store_true")
    p.add_argument("--draw", action="store_true")
    args = p.parse_args()
    good = args.draw or take(args)
    run_plot(os.path.join(HERE, "draw_cluster.py"), args.out)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
