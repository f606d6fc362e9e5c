#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What a dead NIC costs the others' traffic: SHIFT_BACKUP=pair against spread.

Two hosts with N NICs each, on links so slow that they are the bottleneck. Eight streams of WRITEs on each
NIC: the rate of all and of the slowest, with one NIC dead and after its return, as shares of before. Then
all-reduces over N rails: the time of a step with one NIC dead, beside that of before. A stream has as many
queue pairs as its NIC has others (or --qps), since one queue pair is on one NIC. Writes out/spread.json.
"""
import argparse
import os
import statistics
import sys
import time

from shiftlab.lab import Lab, Shift, free_port, wait_for
from shiftlab.results import save

RATE_BPS = 16000000
QUEUE = "8M"        # bytes that lie in a cable at most: of all that is outstanding nothing is lost
STREAMS = 8
PIECE = 4096
FULL = 0.95         # of the links' rate, before: else the cores were the bottleneck, and nothing was measured
TRIES = 3
PIECES = 56         # of half a slice, at the least; each queue pair of a rail has as many
POLICIES = {"pair": "pair", "spread": "spread"}


class Rails:
    """Both ends of bench/rails.c; the client (h1) sends."""

    def __init__(self, args, nics, policy, qps, *options):
        self.lab = Lab(args.build, nics=nics)
        self.nics, self.options, self.qps = nics, options, qps
        self.shift = Shift(log="info", backup=POLICIES[policy], holddown_ms=200,
                           heartbeat="off")     # they would wait behind the data, unlike on a NIC
        self.ends = {}

    def __enter__(self):
        self.lab.__enter__()
        for k in range(self.nics):      # both directions of each cable
            self.lab.ctl("link", f"h1/mlx5_{k}", "--rate", RATE_BPS, "--queue", QUEUE)
        per_rail = STREAMS * self.qps
        argv = [os.path.join(self.lab.out, "bin", "rails"), "--port", free_port(), "--nics", self.nics,
                "--streams", STREAMS, "--qps", self.qps, "--pieces", per_rail * max(1, PIECES // per_rail), *self.options]
        for host, end in (("h0", "--server"), ("h1", "--client")):
            self.ends[host] = self.lab.start(host, argv + [end], end[2:], self.shift, stdin=True)
        for host, p in self.ends.items():
            wait_for("start of " + p.name, lambda p=p: "READY" in p.out() or not p.running(), 120)
            wait_for("protection of " + p.name, lambda host=host: self.all_are(
                host, lambda q: q["level"] == "protected"), 120)
        for p in self.ends.values():
            p.say("go")
        return self

    def __exit__(self, *why):
        self.lab.__exit__(*why)

    def all_are(self, host, truth):
        if not self.ends[host].running():
            raise RuntimeError(f"{host} ended\n{self.ends[host].tail()}")
        qps = self.lab.connections(host)
        return len(qps) == self.nics * STREAMS * self.qps and all(truth(q) for q in qps)

    def kill(self):
        """The first NIC of the client."""
        self.lab.fault("port-down", "h1/mlx5_0")
        for host in self.ends:
            wait_for("moves of " + host, lambda host=host: self.all_are(
                host, lambda q: q["nic"] != "mlx5_0"), 120)

    def heal(self):
        self.lab.fault("port-up", "h1/mlx5_0")
        for host in self.ends:
            wait_for("return of " + host, lambda host=host: self.all_are(
                host, lambda q: (q["nic"] == "mlx5_0") == (q["default_nic"] == "mlx5_0")), 120)

    def end(self):
        for p in self.ends.values():
            p.say("end")
        for p in self.ends.values():
            if p.wait(120):
                raise RuntimeError(f"{p.name} failed\n{p.tail()}")


def marks(rails):
    return [[int(n) for n in r.split()[1:]] for r in rails.ends["h1"].out().splitlines()
            if r.startswith("MARK")]


def mark(rails):
    n = len(marks(rails))
    rails.ends["h1"].say("mark")
    wait_for("a mark", lambda: len(marks(rails)) > n or not rails.ends["h1"].running(), 60)
    return marks(rails)[-1]


def rates(rails, seconds):
    """Of each stream, pieces a second."""
    time.sleep(seconds / 4)     # what was in line before is through
    first = mark(rails)
    time.sleep(seconds)
    last = mark(rails)
    return [(b - a) * 1e9 / (last[0] - first[0]) for a, b in zip(first[1:], last[1:])]


def streams(args, nics, policy, qps):
    """Shares of before, of the slowest stream and of all: with a dead NIC, and after it is back."""
    with Rails(args, nics, policy, qps) as rails:
        before = rates(rails, args.seconds)
        rails.kill()
        dead = rates(rails, args.seconds)
        rails.heal()
        back = rates(rails, args.seconds)
        rails.end()
    mean = statistics.mean(before)
    return {"slowest_share": min(dead) / mean, "total_share": sum(dead) / sum(before),
            "before_slowest_share": min(before) / mean, "back_slowest_share": min(back) / mean,
            "back_total_share": sum(back) / sum(before), "link_share": sum(before) * PIECE * 8 / RATE_BPS / nics}


def steps(rails, n):
    """The median time of the next n that begin from now on, in s."""
    since = time.monotonic_ns()

    def times():
        rows = [r.split() for r in rails.ends["h1"].out().splitlines() if r.startswith("STEP")]
        return [int(r[2]) - int(r[1]) for r in rows if int(r[1]) > since]

    wait_for("steps", lambda: len(times()) >= n or not rails.ends["h1"].running(), 240)
    return statistics.median(times()[:n]) / 1e9


def reduce(args, nics, policy, qps):
    with Rails(args, nics, policy, qps, "--reduce") as rails:
        before = steps(rails, args.steps)
        rails.kill()
        dead = steps(rails, args.steps)
        rails.heal()
        back = steps(rails, args.steps)
        rails.end()
    return {"step_s": before, "step_ratio": dead / before, "back_step_ratio": back / before}


def streams_measured(args, nics, policy, qps):
    """Only where the links were full before."""
    for _ in range(TRIES):
        row = streams(args, nics, policy, qps)
        if row["link_share"] >= FULL:
            return row
        print(f"before, the links carried {row['link_share']:.2f} of their rate: the cores are too busy", flush=True)
    raise SystemExit("not measured")


def once(args, nics, policy, qps):
    row = {"nics": nics, "policy": policy, "streams": STREAMS, "qps_of_a_stream": qps}
    row.update(streams_measured(args, nics, policy, qps))
    row.update(reduce(args, nics, policy, qps))
    print(f"{nics:4} {policy:7} {qps:4} {row['total_share']:8.3f} {row['slowest_share']:8.3f} "
          f"{row['step_ratio']:8.2f} {row['back_total_share']:8.3f} {row['back_slowest_share']:8.3f} "
          f"{row['back_step_ratio']:8.2f}", flush=True)
    return row


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build")
    p.add_argument("--out", default="out")
    p.add_argument("--nics", default="4,8")
    p.add_argument("--policies", default="pair,spread")
    p.add_argument("--qps", help="of a stream; by default one less than NICs, and 1")
    p.add_argument("--quick", action="store_true")
    args = p.parse_args()
    args.seconds, args.steps = (8, 5) if args.quick else (20, 15)
    rows = []
    print("                        one NIC dead, of before       it is back, of before\n"
          "NICs policy   QPs      all  slowest     step      all  slowest     step", flush=True)
    for nics in (int(n) for n in args.nics.split(",")):
        for qps in ([int(args.qps)] if args.qps else [nics - 1] if args.quick else [nics - 1, 1]):
            rows += [once(args, nics, policy, qps) for policy in args.policies.split(",")]
    save(args.out, "spread.json", {"quick": args.quick, "rate_bps": RATE_BPS, "runs": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
