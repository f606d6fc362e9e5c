#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""How long it takes until all queue pairs of a pair of processes flow again when their NIC dies; with --processes, those
of so many processes of each host, which share the NICs and their line of commands. Each has a
WRITE outstanding when the port goes down (before that, all that the NIC sent was lost already); the time runs
from the first thing that SHIFT noticed to the last completion over the other NIC. "bound" counts from before
simnicctl was started to break it. Counts the messages about moves, and the datagrams that
carried them. With commands that take no time, and with commands of 100 us that a NIC serves one after the
other, as hardware does. Medians; writes out/scale.json.

--against: a build to compare with, in turns."""
import argparse
import glob
import json
import re
import statistics
import sys
import time

from control import await_protection, start_pairs
from shiftlab.lab import Lab, Shift, wait_for
from shiftlab.results import save

PATIENCE_S = 300
CALM_S = 0.5            # all memory keys are told by then


def flows(client):
    return re.search(r"^FLOWS\|\d+\|(\d+)\|(\d+)\|(\d+)$", client.out(), re.M)


def started(lab, qps, lazy, processes):
    """All servers, then all clients. Many processes take seconds on few cores until all have posted; by then the path,
    which loses everything already, would be found silent, and be left before the port is down."""
    patient = {"heartbeat_loss_ms": 60000} if processes > 1 else {}
    ends = start_pairs(lab, qps, Shift(log="info", lazy="on" if lazy else "off", **patient), processes)
    await_protection(lab, ends, qps)
    time.sleep(CALM_S)
    return ends


def await_all(clients, what, test):
    for p in clients:
        wait_for(f"{what} of {p.name}", lambda p=p: test(p) or not p.running(), PATIENCE_S)


def broken(lab, clients):
    """Their NIC dies with a WRITE under way on each queue pair; when that was done, as ns."""
    lab.fault("lose-tx", "h1/mlx5_0")
    for p in clients:
        p.say("post")
    await_all(clients, "posts", lambda p: "POSTED" in p.out())
    before = time.monotonic_ns()
    lab.fault("port-down", "h1/mlx5_0")
    await_all(clients, "traffic on all queue pairs", flows)
    for p in clients:
        if not flows(p):
            raise RuntimeError(p.tail() + lab.shift_log(p)[-2000:])
    return before


def cpu_ms(ends):
    """Of all their threads, those of the software NICs too."""
    total = 0
    for p in ends:
        for path in glob.glob(f"/proc/{p.pid}/task/*/schedstat"):
            with open(path, encoding="ascii") as f:
                total += int(f.read().split()[0])
    return total / 1e6


def sent(lab):
    """(messages about moves, datagrams that carried them) of both ends so far."""
    processes = [p for host in ("h0", "h1")
                 for p in json.loads(lab.shiftctl(host, "status", "--json"))["processes"]]
    return [sum(p[key] for p in processes) for key in ("states_sent", "state_datagrams")]


def once(build, qps, cost_us, lazy, processes, number):
    with Lab(build, cost_us=cost_us, seed=number) as lab:
        ends = started(lab, qps, lazy, processes)
        clients = ends[processes:]
        cpu = cpu_ms(ends)
        before = broken(lab, clients)
        cpu = cpu_ms(ends) - cpu
        messages, datagrams = sent(lab)
        for p in ends:
            p.say("end")
        for p in ends:
            if p.wait(PATIENCE_S):
                raise RuntimeError(f"{p.name} ended with {p.process.returncode}\n{p.tail()}")
        times = [[int(n) for n in flows(p).groups()] for p in clients]
        first, last = min(t[0] for t in times), max(t[2] for t in times)
        stats = [lab.stats(p) for p in ends]
        noticed = min(m["error_ns"] for s in stats for m in s["moves"])
        return {"ms": (last - noticed) / 1e6, "first_ms": (first - noticed) / 1e6,
                "bound_ms": (last - before) / 1e6,
                "resent": sum(m["resubmitted_wrs"] for s in stats for m in s["moves"]),
                "cpu_ms": cpu, "messages": messages, "datagrams": datagrams}


def summary(args, qps, cost_us, lazy, runs, name):
    ms = [r["ms"] for r in runs]
    row = {"qps": qps, "processes": args.processes, "command_us": cost_us, "lazy": lazy, "build": name, "runs": runs,
           "median_ms": statistics.median(ms),
           "cpu_ms": statistics.median(r["cpu_ms"] for r in runs),
           "messages": statistics.median(r["messages"] for r in runs),
           "datagrams": statistics.median(r["datagrams"] for r in runs)}
    of = f" of each of {args.processes} processes" if args.processes > 1 else ""
    print(f"{qps:5} QPs{of}, commands of {cost_us:g} us{', lazy' if lazy else ''}{name and ', ' + name}: "
          f"all flow again after {row['median_ms']:8.1f} ms ({min(ms):.1f} to {max(ms):.1f}, "
          f"{len(ms)} runs), the first after {statistics.median(r['first_ms'] for r in runs):.1f} ms; "
          f"bound {statistics.median(r['bound_ms'] for r in runs):.1f} ms; {row['messages']:.0f} "
          f"messages in {row['datagrams']:.0f} datagrams; {row['cpu_ms']:.0f} ms of CPU", flush=True)
    return row


def series(args, qps, cost_us, lazy):
    builds = [("", args.build)] + ([("before", args.against)] if args.against else [])
    runs = {name: [] for name, _ in builds}
    for i in range(args.runs):
        for name, build in builds if i % 2 == 0 else reversed(builds):
            runs[name].append(once(build, qps, cost_us, lazy, args.processes, i + 1))
    return [summary(args, qps, cost_us, lazy, runs[name], name) for name, _ in builds]


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build")
    p.add_argument("--against")
    p.add_argument("--out", default="out")
    p.add_argument("--runs", type=int, default=5)
    p.add_argument("--qps", default="1,64,1024,4096")
    p.add_argument("--costs", default="0,100", help="cost of a command, us")
    p.add_argument("--processes", type=int, default=1, help="of each host, each with --qps queue pairs")
    p.add_argument("--lazy", action="store_true", help="the same again with standbys made when needed")
    args = p.parse_args()
    rows = [row for cost in args.costs.split(",") for lazy in ([False, True] if args.lazy else [False])
            for qps in args.qps.split(",") for row in series(args, int(qps), float(cost), lazy)]
    save(args.out, "scale.json", {"runs": args.runs, "rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
