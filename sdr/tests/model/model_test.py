#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The model against what does not share its code, at random points whose seed is printed and replays them.

  model_test.py steps [--seed S] [--points N]   exact distributions against a walk over every step of F
  model_test.py packets ...                     against Writes that are played packet by packet
  model_test.py c --program POINTS ...          model.c against the Python, to 1e-9
"""
import argparse
import bisect
import math
import random as randoms
import sys
import time

import points
from sdrmodel import Scheme, chunks_of, packets, predict
from sdrmodel.link import chunk_loss, inject_s

SIGMAS = 5
LOSSES = 120        # of a Write at most, or a run takes too long
WITHIN = 0.01       # packet level against the model with resent chunks on the line
IN_LINE = 5e-3      # the mean's closed form has a line for the steps of single chunks: 3.8e-3 at the worst of 85,732 points
NEAR_ENOUGH = 0.05  # against the published formulas, where their assumption holds
FEW = 0.02          # losses of a chunk: above, the formulas leave out too much of the line


def check(truth, what):
    if not truth:
        raise SystemExit("FAILED: " + what)


def walk_mean(chunks, t_inj, loss, rtt, wait):
    """The mean of the maximum from every time at which F changes; and F just behind each."""
    repeats = range(1 + math.ceil(math.log(1e-14 / chunks) / math.log(loss)))
    times = sorted(i * t_inj + j * wait for i in range(1, chunks + 1) for j in repeats)
    end = chunks * t_inj
    steps = [end] + times[bisect.bisect_right(times, end):]

    def cdf(t):
        return math.exp(sum(math.log1p(-loss ** (1 + math.floor((t - i * t_inj) / wait + 1e-9)))
                            for i in range(1, chunks + 1)))
    values = [cdf(t) for t in steps]
    mean = end + rtt + sum((b - a) * (1 - f) for a, b, f in zip(steps, steps[1:], values))
    return mean, list(zip(steps, values))


def steps_point(random):
    chunks = random.choice((1, 2, 3, random.randint(4, 60)))
    loss = points.log_uniform(random, 1e-6, 0.3)
    rtt = points.log_uniform(random, 1e-3, 50e-3)
    t_inj = rtt * points.log_uniform(random, 1e-4, 2)
    wait = random.choice((1, 3, 4)) * rtt + t_inj
    from sdrmodel.retransmit import Retransmit   # pylint: disable=import-outside-toplevel
    d = Retransmit(chunks, t_inj, loss, rtt, wait)
    mean, values = walk_mean(chunks, t_inj, loss, rtt, wait)
    where = f"{chunks} chunks of {t_inj:g} s, loss {loss:g}, wait {wait:g} s, rtt {rtt:g} s"
    check(abs(d.mean() / mean - 1) < IN_LINE, f"{where}: mean {d.mean():.9g}, walked {mean:.9g}")
    if random.random() < 0.5:       # the quantile at a value of F is where F takes it
        t, f = random.choice(values)
        q = min(f * (1 - 1e-9), 1 - 1e-12)
        least = next(t for t, v in values if v >= q)
        check(abs(d.quantile(q) - rtt - least) <= 1e-7 * least, f"{where}: quantile {q}")
    for t, f in random.sample(values, min(5, len(values))):
        got = d.cdf(t + rtt + 1e-6 * t_inj)
        check(abs(got - f) < 1e-9, f"{where}: F({t:g}) {got}, walked {f}")
    return abs(d.mean() / mean - 1)


def played(link, s, size, random, n):
    times = [packets.play(link, s, size, random) for _ in range(n)]
    mean = sum(times) / n
    error = math.sqrt(sum((t - mean) ** 2 for t in times) / (n - 1) / n)
    return mean, error, sorted(times)


def packets_point(random):
    while True:
        link, s, size = points.point(random)
        if points.costs(link, s, size) < LOSSES:
            break
    n = int(min(1000, max(100, 12000 / (1 + points.costs(link, s, size)))))
    mean, error, times = played(link, s, size, random, n)
    serial = predict(link, s._replace(serial=True), size)
    where = f"{link} {s} {size} bytes, {n} times"
    gap = abs(serial.mean() - mean)
    check(gap < SIGMAS * error + WITHIN * mean, f"{where}: mean {serial.mean():.6g}, played {mean:.6g} +- {error:.2g}")
    if chunk_loss(link, s) < FEW:
        got = predict(link, s, size).mean()
        check(abs(got - mean) < SIGMAS * error + NEAR_ENOUGH * mean, f"{where}: published {got:.6g}, played {mean:.6g}")
    # F where the samples' quartiles are, and at their ends, a little time aside as resent chunks come in any order.
    aside = 0.01 * mean + 3 * inject_s(link, s)
    for q in (0.25, 0.5, 0.75, 0.99):
        t = times[int(q * n)]
        low, high = serial.cdf(t - aside), serial.cdf(t + aside)
        came, before = bisect.bisect_right(times, t + 1e-12) / n, bisect.bisect_left(times, t - 1e-12) / n
        noise = SIGMAS * math.sqrt(0.25 / n)
        check(low - noise <= came and before <= high + noise, f"{where}: F({t:g}) {low:.4f} to {high:.4f}, played {came:.4f}")
    return gap / mean


def c_points(args, random):
    asked = [random.choice((points.point, points.odd_point))(random) + (random.choice((0, 0.5, 0.9, 0.99, 0.999, 0.99999)),)
             for _ in range(args.points)]
    answers = points.ask_c(args.program, [points.line(*p) for p in asked])
    check(len(answers) == len(asked), f"{len(answers)} answers to {len(asked)} questions")
    worst = 0.0
    for (link, s, size, q), (mean, quantile, fallback) in zip(asked, answers):
        d = predict(link, s, size)
        own = (d.mean(), d.quantile(q), d.fallback() if s.kind in ("ec", "hybrid") else 0.0)
        off = max(abs(mean / own[0] - 1), abs(quantile / own[1] - 1), abs(fallback - own[2]))
        check(off < 1e-9, f"{link} {s} {size} {q}: C {mean} {quantile} {fallback}, Python {own}")
        worst = max(worst, off)
    return worst


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=("steps", "packets", "c"))
    p.add_argument("--seed", type=int, default=time.time_ns() % 1000000007)
    p.add_argument("--points", type=int, default=0)
    p.add_argument("--program")
    args = p.parse_args()
    args.points = args.points or {"steps": 60, "packets": 40, "c": 2000}[args.what]
    print(f"seed {args.seed}", flush=True)
    random = randoms.Random(args.seed)
    if args.what == "c":
        worst = c_points(args, random)
    else:
        worst = max((steps_point if args.what == "steps" else packets_point)(random) for _ in range(args.points))
    print(f"{args.points} points, the worst mean is off by {worst:.3g}")
    check(chunks_of(Scheme(), 1) == 1 and chunks_of(Scheme(), 4097) == 2, "chunks")
    return 0


if __name__ == "__main__":
    sys.exit(main())
