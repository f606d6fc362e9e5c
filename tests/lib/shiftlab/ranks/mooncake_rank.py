#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A rank of two that share memory by Mooncake's transfer engine over RDMA.

Rank 0 writes into rank 1's memory, then the number of the round. Rank 1 sees the number, checks what
was written, and answers with a pattern of its own, which rank 0 reads."""
import os
import sys
import time

import numpy as np
from mooncake.engine import TransferEngine

from rounds import Rounds, check, die_with_parent, digest, parser

SIZES = (1, 100, 4096, 65537, 1_000_000)    # of 8 bytes
ROOM = sum(SIZES)
ROUND, LAST, ANSWERED, WORDS = 0, 1, 2, 16  # words before the data
WAIT_S = 60


def pattern(rank, n, size):
    return np.random.default_rng((rank, n, size)).integers(0, 2**60, size)


class Memory:
    """Words, room for what is written, room for what is read; registered with the engine."""

    def __init__(self):
        self.engine = TransferEngine()
        check(not self.engine.initialize("127.0.0.1", "P2PHANDSHAKE", "rdma", "mlx5_0"),
              "the engine does not start")
        self.all = np.zeros(WORDS + 2 * ROOM, dtype=np.int64)
        self.words = self.all[:WORDS]
        self.parts = (self.all[WORDS:WORDS + ROOM], self.all[WORDS + ROOM:])
        check(not self.engine.register_memory(self.all.ctypes.data, self.all.nbytes),
              "the memory is not registered")

    def tell(self, path):
        with open(path + ".new", "w", encoding="ascii") as f:
            f.write(f"127.0.0.1:{self.engine.get_rpc_port()} {self.all.ctypes.data}")
        os.rename(path + ".new", path)


def await_true(what, test):
    end = time.monotonic() + WAIT_S
    while not test():
        check(time.monotonic() < end, f"no {what}")
        time.sleep(0.0005)


class Peer:
    """Rank 1's memory, as rank 0 sees it: the same places as in its own."""

    def __init__(self, memory, path):
        await_true("address of rank 1", lambda: os.path.exists(path))
        with open(path, encoding="ascii") as f:
            self.name, base = f.read().split()
        self.memory, self.base = memory, int(base)

    def transfer(self, function, first, count):
        """Of so many elements, from the same place at the one to the same place at the other."""
        done = function(self.name, self.memory.all.ctypes.data + 8 * first, self.base + 8 * first,
                        8 * count)
        check(done == 0, f"a transfer of {count} elements returns {done}")

    def write(self, first, count):
        self.transfer(self.memory.engine.transfer_sync_write, first, count)

    def read(self, first, count):
        self.transfer(self.memory.engine.transfer_sync_read, first, count)


def each_size():
    at = 0
    for size in SIZES:
        yield at, size
        at += size


def drive(memory, peer, rounds):
    last = False
    while not last:
        last, n = rounds.last(), rounds.n
        for at, size in each_size():
            memory.parts[0][at:at + size] = pattern(0, n, size)
            peer.write(WORDS + at, size)
        memory.words[[ROUND, LAST]] = n + 1, last
        peer.write(LAST, 1)
        peer.write(ROUND, 1)

        def answered(n=n):
            peer.read(ANSWERED, 1)
            return memory.words[ANSWERED] == n + 1

        await_true(f"answer in round {n}", answered)
        for at, size in each_size():
            peer.read(WORDS + ROOM + at, size)
            check((memory.parts[1][at:at + size] == pattern(1, n, size)).all(), f"read of {size}")
        rounds.note(digest(memory.parts[1]))
    memory.words[ROUND] = -1    # it has read all
    peer.write(ROUND, 1)


def serve(memory, rounds):
    last = False
    while not last:
        n = rounds.n
        await_true(f"round {n}", lambda n=n: memory.words[ROUND] == n + 1)
        last = bool(memory.words[LAST])
        for at, size in each_size():
            check((memory.parts[0][at:at + size] == pattern(0, n, size)).all(), f"write of {size}")
            memory.parts[1][at:at + size] = pattern(1, n, size)
        rounds.note(digest(memory.parts[0]))
        memory.words[ANSWERED] = n + 1
    await_true("end", lambda: memory.words[ROUND] == -1)


def main():
    p = parser()
    p.add_argument("--rank", type=int, required=True)
    p.add_argument("--address", required=True, help="file for rank 1's address")
    args = p.parse_args()
    die_with_parent()
    memory, rounds = Memory(), Rounds(args)
    if args.rank:
        memory.tell(args.address)
        serve(memory, rounds)
    else:
        drive(memory, Peer(memory, args.address), rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
