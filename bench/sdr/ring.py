#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The sum of a vector over a ring of four hosts whose cables lose, by sdr_allreduce: every sum is right, and how much longer SR
takes than hybrid (p99) is what the ring's simulation says, within --within. Writes out/sdr-ring.json; ends with 1 where
that is missed. An hour; a small one: --size 4M --times 20.
"""
import argparse
import os
import random
import re
import sys

from sdrmodel import Link, Scheme, predict
from sdrmodel.ring import ring_times
from shiftlab.lab import Lab
from shiftlab.results import about, save

HOSTS, CHUNK = 4, 64 << 10      # sdr_allreduce has the default chunk
SLACK_S = 5e-3      # of libsdr's timers, for two programs on busy cores
SUM = re.compile(r"sum of 4 ranks right (\d+) times; ms: mean ([\d.]+) p50 ([\d.]+) p99 ([\d.]+)")


def size_of(text):
    return int(text[:-1]) * {"K": 1 << 10, "M": 1 << 20}[text[-1]]


def measured(lab, args, scheme):
    """Mean and p99 in ms: of the slowest rank."""
    ranks = [lab.start(f"h{rank}", [os.path.join(lab.out, "bin", "sdr_allreduce"), "mlx5_0", str(rank), str(HOSTS),
                                    "lmdb:" + os.path.join(lab.folder, "ring"), scheme, str(size_of(args.size)), str(args.times),
                                    scheme, str(args.send_mbps), str(int(2 * args.delay_ms))], f"{scheme}-{rank}")
             for rank in range(HOSTS)]
    found = []
    for rank in ranks:
        said = SUM.search(rank.out()) if not rank.wait(4 * 3600) else None
        if not said or int(said[1]) != args.times:
            raise SystemExit(f"{rank.name} ended with {rank.process.returncode}: {rank.tail()}")
        found.append((float(said[2]), float(said[4])))
    return {"mean_ms": max(f[0] for f in found), "p99_ms": max(f[1] for f in found)}


def simulated(args, scheme, rng):
    link = Link(args.send_mbps * 1e6, 2 * args.delay_ms / 1e3, args.loss)
    times = ring_times(predict(link, scheme, size_of(args.size) // HOSTS), HOSTS, args.samples, rng)
    return {"mean_ms": sum(times) / len(times) * 1e3, "p99_ms": times[int(len(times) * .99)] * 1e3}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--size", default="64M")
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--loss", type=float, default=1e-3)
    parser.add_argument("--mbps", type=int, default=200)
    parser.add_argument("--send-mbps", type=int, default=180, help="below the link's, or a queue grows that counts as delay")
    parser.add_argument("--delay-ms", type=float, default=12.5)
    parser.add_argument("--samples", type=int, default=20000)
    parser.add_argument("--within", type=float, default=.15)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    rto = 3 + SLACK_S / (2 * args.delay_ms / 1e3)
    schemes = {"sr": Scheme.sr(chunk=CHUNK, rto_rtts=rto), "hybrid": Scheme.hybrid(chunk=CHUNK)}
    rows = {}
    with Lab(args.build, hosts=HOSTS, nics=1, seed=args.seed) as lab:
        for host in range(HOSTS):
            lab.ctl("link", f"h{host}/mlx5_0", "--rate", f"{args.mbps}M", "--delay", f"{args.delay_ms}ms", "--loss", str(args.loss))
        for name, scheme in schemes.items():
            rows[name] = {"here": measured(lab, args, name), "simulated": simulated(args, scheme, rng)}
            print(f"{name}: {args.times} sums of {args.size} over {HOSTS} hosts, all right: {rows[name]}", flush=True)
    here, there = (rows["sr"][where]["p99_ms"] / rows["hybrid"][where]["p99_ms"] for where in ("here", "simulated"))
    ok = abs(here / there - 1) <= args.within
    print(f"p99 of SR over hybrid: {here:.3f}, simulated {there:.3f}; within {args.within:g}: {'yes' if ok else 'NO'}")
    save(args.out, "sdr-ring.json", {"seed": args.seed, "options": vars(args), "rows": rows, "ratio": here, "simulated": there,
                                     "ok": ok, "about": about()})
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
