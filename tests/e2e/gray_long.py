#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""With SHIFT_GRAY=on and its defaults: how soon a link that loses a packet in a thousand is left, and what the job's rate
is before, meanwhile and behind it; and that nothing moves while a switch's queue overflows (incast), NICs are paused, receivers
are slow, or a link has become slow without losing anything. Every weather is drawn anew in each run, by a seed that is printed.

  gray_long.py --build DIR [--runs N] [--lossy N] [--seed N] [KIND...]
"""
import argparse
import json
import os
import random
import signal
import statistics
import sys
import time

from ctl import must
from gray import FENCE_NS, GRAY, NIC, WELL, Gray, Pair
from shiftlab.lab import Lab, Shift, free_port, run_case, wait_for
from shiftlab.perftest import CALM, LONG_S, SOON

RATE = 200000000        # bits a second: the links are the bottleneck, not the cores
STREAMS = 8
PIECE = 4096            # of rails: bytes of a WRITE
FULL = 0.9              # of the links' rate, before: else the cores were the bottleneck, and the rates say nothing
MEASURED_S = 4
SPELL_LOOKS = 16        # of a run: twice what is summed up
OF_A_LAB = 10           # runs on one fabric, with the same programs


class Job:
    """Streams over links of one speed, counted at the end that sends."""

    def __init__(self, lab):
        self.lab = lab
        for nic in (0, 1):
            self.link(nic)
        argv = [os.path.join(lab.out, "bin", "rails"), "--port", free_port(), "--nics", "1", "--streams", STREAMS,
                "--timeout", "14"]
        shift = Shift(log="info", gray="on", **SOON)
        self.ends = [lab.start(host, argv + [end], end[2:], shift, {"SIMNIC_STOPS": "1"}, stdin=True)
                     for host, end in (("h0", "--server"), ("h1", "--client"))]
        for host in ("h0", "h1"):
            self.await_all(host, "protection", lambda q: q["level"] == "protected")
        before = lab.carried(0)
        for p in self.ends:
            p.say("go")
        # what is said before the word is taken would be taken with it, and not be heard
        wait_for("traffic", lambda: lab.carried(0) > before, 60)

    def link(self, nic, *more):
        self.lab.ctl("link", f"h0/mlx5_{nic}", "--rate", RATE, "--queue", "8M", *WELL, *more)

    def await_all(self, host, what, truth):
        def look():
            for p in self.ends:
                must(f"{p.name} runs", p.running(), p.tail())
            qps = self.lab.connections(host)
            return len(qps) == STREAMS and all(truth(q) for q in qps)
        wait_for(f"{what}, {host}", look, 120)

    def mark(self):
        """(ns, WRITEs that have completed)"""
        def marks():
            return [[int(n) for n in row.split()[1:]] for row in self.ends[1].out().splitlines() if row.startswith("MARK")]
        n = len(marks())
        self.ends[1].say("mark")
        found = wait_for("a mark", lambda: marks()[n:], 60)[0]
        return found[0], sum(found[1:])

    def rate(self, seconds=MEASURED_S):
        first = self.mark()
        time.sleep(seconds)
        last = self.mark()
        return (last[1] - first[1]) * 1e9 / (last[0] - first[0])

    def events(self, *kinds):
        found = [json.loads(line) for host in ("h0", "h1")
                 for line in self.lab.shiftctl(host, "events", "--json", check=False).splitlines()]
        return [e for e in found if e["kind"] in kinds]


def lossy_once(lab):
    job = Job(lab)
    before = job.rate()
    began = time.monotonic_ns()
    job.link(0, "--loss", "1e-3")
    mark = job.mark()
    for host in ("h0", "h1"):
        job.await_all(host, "traffic on the other NIC", lambda q: q["nic"] == "mlx5_1")
    last = job.mark()
    told = min(e["monotonic_ns"] for e in job.events("gray") if "leave in order" in (e["why"] or ""))
    moves = job.events("switch")
    left = max(e["monotonic_ns"] for e in moves)
    after = job.rate()
    for e in moves:
        must("in order", e["cause"] in ("drain", "peer"), e)
        must("nothing is sent again, but for a packet that was lost while it was waited for", e["resent"] == 0 or
             e["switch_ns"] >= FENCE_NS, e)
    return {"told_s": (told - began) / 1e9, "left_s": (left - began) / 1e9, "resent": sum(e["resent"] for e in moves),
            "full": before * PIECE * 8 / RATE, "meanwhile": (last[1] - mark[1]) * 1e9 / (last[0] - mark[0]) / before, "behind": after / before}


def lossy(args):
    rows = []
    for i in range(args.lossy):
        passed = run_case(args.build, f"lossy {i + 1}", lambda lab: rows.append(lossy_once(lab)), seed=args.seed + i)
        if not passed:
            return False
        print("       told after {told_s:.1f} s, left after {left_s:.1f} s, {resent} requests sent again; rate meanwhile "
              "{meanwhile:.2f}, behind it {behind:.3f} of before, when the link carried {full:.2f} of its own".format(
                  **rows[-1]), flush=True)
    print(f"lossy: {len(rows)} runs: left after {statistics.median(r['left_s'] for r in rows):.1f} s (at most "
          f"{max(r['left_s'] for r in rows):.1f}), {sum(r['resent'] for r in rows)} requests sent again", flush=True)
    rows = [r for r in rows if r["full"] >= FULL]
    print("       no rates: the cores were too busy" if not rows else
          f"       rates of {len(rows)} runs: meanwhile {statistics.median(r['meanwhile'] for r in rows):.2f}, behind it "
          f"{min(r['behind'] for r in rows):.3f} of before or more", flush=True)
    return True


# ---- weathers in which nothing is to move ---------------------------------------------------------

def incast(lab, gray, rng):
    """Of three senders, over the receiver's cable, whose switch has a short queue."""
    rate, queue = rng.choice(("50M", "100M", "200M", "400M")), rng.choice(("128K", "256K", "384K", "512K"))
    lab.ctl("link", NIC, "in", "--rate", rate, "--queue", queue, *WELL)
    gray.still(SPELL_LOOKS)
    lab.ctl("link", NIC, *WELL)


def pause(lab, gray, rng):
    seconds = SPELL_LOOKS * GRAY["gray_look_ms"] / 1000
    path, at = os.path.join(lab.folder, "script"), 0.0
    with open(path, "w", encoding="ascii") as f:
        while at < seconds:
            lasts = rng.uniform(0.02, 0.4)
            f.write(f"pause {NIC} --after {at:.3f} --for {lasts:.3f}\n")
            at += lasts + rng.uniform(0.02, 0.5)
    lab.ctl("script", path)
    gray.still(SPELL_LOOKS)


def slow_receiver(_lab, gray, rng):
    """NICs that stand still now and then, with their programs."""
    until = time.monotonic() + SPELL_LOOKS * GRAY["gray_look_ms"] / 1000
    while time.monotonic() < until:
        for p in gray.programs[::2]:
            os.kill(p.pid, signal.SIGSTOP)
        time.sleep(rng.uniform(0.02, 0.4))
        for p in gray.programs[::2]:
            os.kill(p.pid, signal.SIGCONT)
        gray.still(1)


def slow_link(lab, gray, rng):
    """Slow in one direction or both, and nothing is lost: its queue is long."""
    way = rng.choice(((), ("in",), ("out",)))
    lab.ctl("link", NIC, *way, "--rate", rng.choice(("50M", "100M", "200M")), "--queue", "64M",
            "--delay", rng.choice(("20us", "200us", "1ms")))
    gray.still(SPELL_LOOKS)
    lab.ctl("link", NIC, *WELL)


CALM_KINDS = {f.__name__: f for f in (incast, pause, slow_receiver, slow_link)}


def calm_lab(lab, kind, seeds):
    gray = Gray(lab, "on")
    for host in ("h2", "h3"):       # without SHIFT
        if kind == "incast":
            gray.programs += Pair(lab, "ib_write_bw", None, "-q", "2", "-s", "16384", "-t", "16", client=host).ends
    for seed in seeds:
        CALM_KINDS[kind](lab, gray, random.Random(seed))
    told = [e for e in gray.events("gray") if "leave in order" in (e["why"] or "")]
    must("no link is taken for a bad one", not told, told)
    return gray.errors("packet_seq_err", "local_ack_timeout_err", "out_of_sequence")


def calm(args, kind):
    errors = []
    for first in range(0, args.runs, OF_A_LAB):
        seeds = range(args.seed + first, args.seed + min(first + OF_A_LAB, args.runs))
        if not run_case(args.build, f"{kind}, runs {first + 1} to {first + len(seeds)}",
                        lambda lab, seeds=seeds: errors.append(calm_lab(lab, kind, seeds)),
                        hosts=4 if kind == "incast" else 2):
            return False
    print(f"{kind}: {args.runs} runs, 0 moves; {sum(errors)} errors were counted", flush=True)
    return True


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", required=True)
    p.add_argument("--runs", type=int, default=100, help="of each kind in which nothing is to move")
    p.add_argument("--lossy", type=int, help="runs of a link that loses packets; a tenth of the others by default")
    p.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    p.add_argument("kinds", nargs="*", choices=[[], "lossy", *CALM_KINDS])
    args = p.parse_args()
    if args.lossy is None:
        args.lossy = max(1, args.runs // 10)
    print(f"replay with --seed {args.seed}", flush=True)
    passed = [lossy(args) if kind == "lossy" else calm(args, kind) for kind in args.kinds or ["lossy", *CALM_KINDS]]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
