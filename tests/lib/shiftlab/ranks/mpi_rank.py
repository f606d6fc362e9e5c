#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A rank of two under MPI: Allreduce of several sizes, messages both ways, and one-sided puts, gets
and accumulates. Everything is checked, and what was received is noted."""
import sys

import numpy as np
from mpi4py import MPI

from rounds import Rounds, check, die_with_parent, digest, parser

SIZES = (1, 3, 100, 1000, 5000, 100_003)    # of 8 bytes: inline, eager, by rendezvous
WINDOW = 65536                              # elements

comm = MPI.COMM_WORLD
me, peer = comm.rank, 1 - comm.rank


def pattern(rank, n, size):
    return np.random.default_rng((rank, n, size)).random(size)


def integers(rank, n, size):
    return np.random.default_rng((7, rank, n, size)).integers(-2**40, 2**40, size)


def allreduce(n):
    got = []
    for size in SIZES:
        total = np.empty(size)
        comm.Allreduce(pattern(me, n, size), total)
        check((total == pattern(0, n, size) + pattern(1, n, size)).all(), f"Allreduce of {size}")
        got.append(total)
    return got


def exchange(n):
    """Messages in both directions at once, received in the other order than sent."""
    got = [np.empty(size) for size in SIZES]
    receives = [comm.Irecv(b, peer, tag) for tag, b in reversed(list(enumerate(got)))]
    sends = [comm.Isend(pattern(me, n, size), peer, tag) for tag, size in enumerate(SIZES)]
    MPI.Request.Waitall(receives + sends)
    for size, b in zip(SIZES, got):
        check((b == pattern(peer, n, size)).all(), f"message of {size}")
    return got


class OneSided:
    """A window of each rank, in three parts: put into, got from, accumulated into."""

    def __init__(self):
        self.window = MPI.Win.Allocate(3 * WINDOW * 8, 8, comm=comm)
        self.mine = np.frombuffer(self.window.tomemory(), dtype=np.int64)

    def round(self, n):
        size = SIZES[n % len(SIZES)] % WINDOW
        put, base, add = (integers(me, 3 * n + i, size) for i in range(3))
        fetched = np.empty(size, dtype=np.int64)
        self.mine[WINDOW:WINDOW + size] = base
        self.mine[2 * WINDOW:2 * WINDOW + size] = base
        self.window.Fence()
        self.window.Put(put, peer, 0)
        self.window.Get(fetched, peer, WINDOW)
        self.window.Accumulate(add, peer, 2 * WINDOW, MPI.SUM)
        self.window.Fence()
        got = [self.mine[i * WINDOW:i * WINDOW + size].copy() for i in (0, 2)] + [fetched]
        check((got[0] == integers(peer, 3 * n, size)).all(), "Put")
        check((got[1] == base + integers(peer, 3 * n + 2, size)).all(), "Accumulate")
        check((fetched == integers(peer, 3 * n + 1, size)).all(), "Get")
        return got


def main():
    p = parser()
    p.add_argument("work", nargs="+", choices=["allreduce", "exchange", "one_sided"])
    args = p.parse_args()
    die_with_parent()
    work = {"allreduce": allreduce, "exchange": exchange}
    if "one_sided" in args.work:
        work["one_sided"] = OneSided().round
    rounds = Rounds(args)
    last = False
    while not last:
        last = comm.bcast(rounds.last() if me == 0 else None)
        rounds.note(digest(*(a for name in args.work for a in work[name](rounds.n))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
