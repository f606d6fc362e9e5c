#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The simulation of what libsdr runs (sdrmodel/running.py), at random points whose seed is printed and replays them: without a loss
it takes as long as the link does, with losses no less; and when a coded run can be decoded is found again by trying every prefix.

  running_test.py [--seed S] [--points N]
"""
import argparse
import random as randoms
import sys
import time

import points
from model_test import LOSSES, check
from sdrmodel import Scheme
from sdrmodel.link import ideal
from sdrmodel.packets import decodable
from sdrmodel.running import Coded, write_s

CODES = ((8, 3), (4, 2), (32, 8), (5, 1))


def times_point(random):
    while True:
        link, s, size = points.point(random)
        size = min(size, 64 << 20)
        if points.costs(link, s, size) < LOSSES:
            break
    clean = write_s(link._replace(loss=0.0), s, size, random)
    least = ideal(link, s, size)
    check(abs(clean / least - 1) < 1e-9, f"{link} {s} {size} bytes, no loss: {clean:.9g}, the link's {least:.9g}")
    for _ in range(20):
        t = write_s(link, s, size, random)
        check(t > least * (1 - 1e-9), f"{link} {s} {size} bytes: {t:.9g} is less than the link's {least:.9g}")


def whole(coded, end, gone):
    """Whether all submessages can be decoded by what of the first places of the run is not lost."""
    data, parity = {}, {}
    for i in range(coded.chunks + coded.parity):
        n, sub, j, is_parity = coded.place(i)
        if i >= end or i in gone:
            (parity if is_parity else data).setdefault((n, sub), []).append(j)
    return all(decodable(coded.scheme, len(coded.parity_at(*at)), js, parity.get(at, [])) for at, js in data.items())


def decode_point(random):
    k, m = random.choice(CODES)
    scheme = Scheme.ec(k, m, code=random.choice(("mds", "xor")))
    coded = Coded(scheme, random.randint(1, 400 if k < 32 else 3000))
    n = coded.chunks + coded.parity
    gone = sorted(random.sample(range(n), random.randint(0, max(1, n // random.choice((2, 10, 40))))))
    again, last = coded.judge(gone)
    where = f"{coded.chunks} chunks by {scheme.code} ({k},{m}), lost {gone}"
    check((again == 0) == whole(coded, n, set(gone)), f"{where}: {again} again")
    if again:
        return
    low, high = 0, n        # the least prefix; a longer one decodes no less
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if whole(coded, middle, set(gone)) else (middle + 1, high)
    check(last + 1 == low, f"{where}: decoded with place {last}, in truth with {low - 1}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seed", type=int, default=time.time_ns() % 1000000007)
    p.add_argument("--points", type=int, default=60)
    args = p.parse_args()
    print(f"seed {args.seed}", flush=True)
    random = randoms.Random(args.seed)
    for _ in range(args.points):
        times_point(random)
        decode_point(random)
    print(f"{args.points} points")
    return 0


if __name__ == "__main__":
    sys.exit(main())
