#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The sum of a vector over a ring of four hosts whose cables lose, by sdr_allreduce: every sum is right, and how much longer SR
takes than hybrid (p99, of the slowest rank) is what the ring's simulation says, within --within. Both schemes in turns, a block of
sums each, until there are --times of each or --minutes are over. Writes out/sdr-ring.json; ends with 1 where that is missed.

--slow F lets all take F times as long (the rate divided, the delay multiplied): the same bytes are under way, and a ratio stays what
it is, but two cores that play four hosts can follow. A small one: --size 4M --times 20.
"""
import argparse
import math
import os
import random
import re
import sys
import time

from sdrmodel import Link, Scheme, predict
from sdrmodel.ring import ring_times
from shiftlab.lab import Lab
from shiftlab.results import about, save

HOSTS, CHUNK = 4, 4 << 10       # sdr_allreduce has the default chunk: a packet
SLACK_S = 5e-3      # of libsdr's timers, for two programs on busy cores
MBPS, SEND_MBPS, DELAY_MS = 200, 180, 12.5      # sent below the link's rate, or a queue grows that counts as delay
BURST_MS = 20       # a sender that waited for its core catches up: the model's is never behind
SUM = re.compile(r"sum of 4 ranks right (\d+) times")
EACH = re.compile(r"^each:((?: [\d.]+)+)$", re.M)
SPREADS = 200


def size_of(text):
    return int(text[:-1]) * {"K": 1 << 10, "M": 1 << 20}[text[-1]]


def quantile(sorted_times, q):
    """The nearest rank."""
    return sorted_times[max(0, math.ceil(q * len(sorted_times)) - 1)]


def measured(lab, args, scheme, block):
    """Of each sum of a block, in ms: the slowest rank's."""
    rate = args.send_mbps / args.slow
    ranks = [lab.start(f"h{rank}", [os.path.join(lab.out, "bin", "sdr_allreduce"), "mlx5_0", str(rank), str(HOSTS),
                                    "lmdb:" + os.path.join(lab.folder, "ring"), f"{scheme}-{block}", str(size_of(args.size)),
                                    str(args.block), scheme, str(int(rate)), str(int(2 * args.delay_ms * args.slow)),
                                    str(int(rate * 1e6 / 8 * BURST_MS / 1e3))], f"{scheme}-{block}-{rank}")
             for rank in range(HOSTS)]
    found = []
    for rank in ranks:
        said = SUM.search(rank.out()) if not rank.wait(4 * 3600) else None
        if not said or int(said[1]) != args.block:
            raise SystemExit(f"{rank.name} ended with {rank.process.returncode}: {rank.tail()}")
        found.append([float(ms) for ms in EACH.search(rank.out())[1].split()])
    return [max(each) for each in zip(*found)]


def late_of(args, scheme):
    """A lost answer is one datagram; the sender asks when it has heard nothing for its timeout (sdr/shell/rel_plan.c)."""
    rtt = 2 * args.delay_ms * args.slow / 1e3
    rtts = 3 if scheme.kind == "sr" else 2
    return args.loss, rtts * rtt + SLACK_S + rtt


def simulated(args, scheme, samples, rng):
    """Sorted, in ms."""
    link = Link(args.send_mbps / args.slow * 1e6, 2 * args.delay_ms * args.slow / 1e3, args.loss)
    times = ring_times(predict(link, scheme, size_of(args.size) // HOSTS), HOSTS, samples, rng, late_of(args, scheme))
    return [t * 1e3 for t in times]


def row(times):
    times = sorted(times)
    return {"sums": len(times), "mean_ms": sum(times) / len(times), "p50_ms": quantile(times, .5), "p90_ms": quantile(times, .9),
            "p99_ms": quantile(times, .99)}


def spread(args, schemes, n, rng):
    """What the simulation itself gives for the ratio of p99, from so few sums: the middle 90 %."""
    pools = [simulated(args, schemes[name], args.samples, rng) for name in ("sr", "hybrid")]
    ratios = sorted(quantile(sorted(rng.choices(pools[0], k=n)), .99) / quantile(sorted(rng.choices(pools[1], k=n)), .99)
                    for _ in range(SPREADS))
    return quantile(ratios, .05), quantile(ratios, .95)


def measure(lab, args, schemes):
    """Both in turns. Another block of both is begun only if there is time for it."""
    found, begin, block = {name: [] for name in schemes}, time.monotonic(), 0
    while len(found["sr"]) < args.times:
        for name in schemes:
            found[name] += measured(lab, args, name, block)
            print(f"{name}: {len(found[name])} sums of {args.size} over {HOSTS} hosts, all right: {row(found[name])}", flush=True)
        block += 1
        used = (time.monotonic() - begin) / 60
        if args.minutes and used * (block + 1) / block > args.minutes:
            break
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--size", default="64M")
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=0, help="at most about so many; 0: no limit")
    parser.add_argument("--block", type=int, default=10)
    parser.add_argument("--loss", type=float, default=1e-3)
    parser.add_argument("--slow", type=float, default=2)
    parser.add_argument("--samples", type=int, default=20000)
    parser.add_argument("--within", type=float, default=.15)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    args.send_mbps, args.delay_ms = SEND_MBPS, DELAY_MS
    rng = random.Random(args.seed)
    rto = 3 + SLACK_S / (2 * DELAY_MS * args.slow / 1e3)
    schemes = {"sr": Scheme.sr(chunk=CHUNK, rto_rtts=rto, serial=True), "hybrid": Scheme.hybrid(chunk=CHUNK)}
    with Lab(args.build, hosts=HOSTS, nics=1, seed=args.seed) as lab:
        for host in range(HOSTS):
            lab.ctl("link", f"h{host}/mlx5_0", "--rate", f"{MBPS / args.slow}M", "--delay", f"{DELAY_MS * args.slow}ms",
                    "--loss", str(args.loss))
        found = measure(lab, args, schemes)
    rows = {name: {"here": row(found[name]), "simulated": row(simulated(args, scheme, args.samples, rng))}
            for name, scheme in schemes.items()}
    here, there = (rows["sr"][where]["p99_ms"] / rows["hybrid"][where]["p99_ms"] for where in ("here", "simulated"))
    low, high = spread(args, schemes, len(found["sr"]), rng)
    ok = abs(here / there - 1) <= args.within
    for name in schemes:
        print(f"{name}: {rows[name]}")
    print(f"p99 of SR over hybrid: {here:.3f}, simulated {there:.3f} (of {len(found['sr'])} sums 90 % lie from {low:.3f} to {high:.3f}); "
          f"within {args.within:g}: {'yes' if ok else 'NO'}; load {os.getloadavg()[0]:.1f}")
    save(args.out, "sdr-ring.json", {"seed": args.seed, "options": vars(args), "rows": rows, "ratio": here, "simulated": there,
                                     "spread": [low, high], "times_ms": found, "ok": ok, "about": about()})
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
