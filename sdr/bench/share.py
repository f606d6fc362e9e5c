#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Senders that find their rate themselves (SDR_RATE_AUTO): alone, beside a flow that does as TCP Reno, and beside another of their
kind, in the simulation (sdr_rate_sim, from a seed); and sdr_perf --rate auto on software NICs whose cable has a queue, alone and two
at once. Writes out/sdr-rate.json: {"rows": [{"what", "value", "least", "most", "ok"}]}, and draws out/figures/sdr-rate.svg. Ends
with 1 where a value is out of its bounds.
"""
import argparse
import json
import os
import subprocess
import sys
import time

from shiftlab.lab import Lab, free_port
from shiftlab.results import run_plot, save

MBPS, DELAY_MS, QUEUE_K = 100, 12.5, 320    # the queue: what is under way in a round trip
BOUNDS = {"alone": (0.9, 1.01), "tcp": (0.5, 2), "self": (0.5, 2)}
BEGAN = time.monotonic()
ENDS_S = 150        # a transfer that is not over by then does not end
HEADS = 0.97        # of the cable: heads of packets take the rest


def progress(what):
    print(f"  {time.monotonic() - BEGAN:.0f} s: {what}", flush=True)


def row(what, value, least, most):
    told = {"what": what, "value": value, "least": least, "most": most, "ok": least <= value <= most, "load": os.getloadavg()[0]}
    print(f"{what}: {value:.3f} ({least} to {most}); load {told['load']:.1f}", flush=True)
    return told


def one_link(program, seed):
    """The figure of each case. What the program says of a link that misses is passed on."""
    said = subprocess.run([program, "--seed", str(seed), "--seeds", "1"], capture_output=True, text=True, check=False).stdout
    figures = {}
    for line in said.splitlines():
        case, _, range_ = line.partition(": ")
        if case in BOUNDS:
            figures[case] = float(range_.split(" to ")[0])
        elif line.startswith("seed"):
            print(line, flush=True)
    return figures


def simulated(build, seed, seeds, seconds):
    """The least and the most of each case, and the lines of a trace. A busy machine simulates fewer links in its time."""
    program = os.path.join(build, "out", "bin", "sdr_rate_sim")
    links, began = [], time.monotonic()
    while len(links) < seeds and time.monotonic() - began < seconds:
        links.append(one_link(program, seed + len(links)))
        progress(f"{len(links)} of {seeds} links simulated, " + ", ".join(f"{case} {value:.3f}" for case, value in links[-1].items()))
    rows, traces = [], {}
    for case, bounds in BOUNDS.items():
        values = [link[case] for link in links]
        rows += [row(f"simulated, {len(links)} links, {case}, {name}", value, *bounds)
                 for name, value in (("least", min(values)), ("most", max(values)))]
    for case in BOUNDS:
        progress(f"a trace: {case}")
        lines = subprocess.run([program, "--seed", str(seed), "--seeds", "1", "--trace", case], capture_output=True, text=True,
                               check=True).stdout.splitlines()
        traces[case] = [[float(word) for word in line.split()] for line in lines]
    return rows, traces


def pair(lab, writes, port, rate="auto"):
    argv = [os.path.join(lab.out, "bin", "sdr_perf"), "-d", "mlx5_0", "--json", "-p", str(port), "-s", "1M", "-n", str(writes),
            "--inflight", "4", "--rate", rate, "--rtt", f"{2 * DELAY_MS}ms", "--timeout", f"{ENDS_S - 30}s"]
    return lab.start("h0", argv), lab.start("h1", [*argv, "127.0.0.1"])


def goodput(ends):
    """In Gbit/s."""
    for end in ends:
        if end.wait(ENDS_S):
            raise SystemExit("".join(end.tail() for end in ends))
    return json.loads(ends[1].out().splitlines()[-1])["gbps"]


def measured(build, seed, writes):
    with Lab(build, nics=1, seed=seed) as lab:
        lab.ctl("link", "h0/mlx5_0", "--rate", f"{MBPS}M", "--delay", f"{DELAY_MS}ms", "--queue", f"{QUEUE_K}K")
        progress(f"software NICs: {writes} MiB, alone")
        alone = goodput(pair(lab, writes, free_port())) * 1e3 / MBPS
        progress("as much at the cable's rate")
        given = goodput(pair(lab, writes, free_port(), f"{MBPS * HEADS:g}M")) * 1e3 / MBPS
        progress(f"software NICs: {writes} MiB of each of two")
        first = free_port()     # two that are asked for at once may be the same
        both = [goodput(ends) for ends in [pair(lab, writes, port) for port in (first, first + 1)]]
    return [row("software NICs, alone, of the cable", alone, 0.9 * HEADS, 1.01),
            row("software NICs, alone, of what a rate that is set has", alone / given, 0.9, 2),
            row("software NICs, two at once, first to second", both[0] / both[1], 0.5, 2)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--writes", type=int, default=200, help="of 1 MiB, of each sender on software NICs")
    parser.add_argument("--seconds", type=float, default=900, help="for the simulation: no new link after that")
    parser.add_argument("--quick", action="store_true", help="3 links, 40 MiB: two minutes or three")
    args = parser.parse_args()
    if args.quick:
        args.seeds, args.writes, args.seconds = 3, 40, 60
    print(f"seed {args.seed}; software NICs: {MBPS} Mbit/s, round trip {2 * DELAY_MS} ms, a queue of {QUEUE_K} KiB", flush=True)
    rows, traces = simulated(args.build, args.seed, args.seeds, args.seconds)
    rows += measured(args.build, args.seed, args.writes)
    save(args.out, "sdr-rate.json", {"seed": args.seed, "quick": args.quick, "rows": rows, "traces": traces})
    run_plot(os.path.join(os.path.dirname(os.path.abspath(__file__)), "draw_sdr.py"), args.out)
    return 0 if all(told["ok"] for told in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
