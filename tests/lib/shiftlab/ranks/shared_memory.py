# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Rounds of two ranks that share memory by one-sided transfers: words, room for what is written, room for what
is read. What moves the bytes is the rank's own: a memory has all, words and parts, and a peer has write() and
read(), of so many elements, between the same places at both ends."""
import time

import numpy as np

from rounds import check, digest

SIZES = (1, 100, 4096, 65537, 1_000_000)    # of 8 bytes
ROOM = sum(SIZES)
ROUND, LAST, ANSWERED, WORDS = 0, 1, 2, 16  # words before the data
WAIT_S = 60


def make():
    """All elements; of these the words and the two parts."""
    all_of_it = np.zeros(WORDS + 2 * ROOM, dtype=np.int64)
    return all_of_it, all_of_it[:WORDS], (all_of_it[WORDS:WORDS + ROOM], all_of_it[WORDS + ROOM:])


def pattern(rank, n, size):
    return np.random.default_rng((rank, n, size)).integers(0, 2**60, size)


def await_true(what, test):
    end = time.monotonic() + WAIT_S
    while not test():
        check(time.monotonic() < end, f"no {what}")
        time.sleep(0.0005)


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
