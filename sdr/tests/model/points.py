# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Random points of the model: losses 1e-6 to 1e-2, round trips of 1 to 50 ms, 1 to 400 Gbit/s, 64 KiB to 8 GiB; odd ones lose
up to half of their packets, and are as small as a byte."""
import math
import subprocess

from sdrmodel import Link, Scheme
from sdrmodel.link import chunk_loss, chunks_of, fitted

CODES = ((32, 8), (32, 4), (32, 2), (16, 4), (8, 3), (20, 5), (64, 16), (10, 1))


def log_uniform(random, low, high):
    return math.exp(random.uniform(math.log(low), math.log(high)))


ODD_CODES = ((128, 1), (254, 1), (1, 1), (3, 200), (32, 1))


def scheme(random, codes=CODES):
    chunk = random.choice((4096, 4096, 8192, 16384, 65536))
    k, m = random.choice(codes)
    code = random.choice(("mds", "xor"))
    kind = random.choice(("sr", "nack", "ec", "hybrid"))
    if kind in ("sr", "nack"):
        return getattr(Scheme, kind)(chunk=chunk)._replace(rto_rtts=random.choice((1, 3, 4)) if kind == "sr" else 1)
    return getattr(Scheme, kind)(k, m, chunk=chunk, code=code)


def point(random):
    link = Link(log_uniform(random, 1e9, 400e9), log_uniform(random, 1e-3, 50e-3), log_uniform(random, 1e-6, 1e-2))
    return link, scheme(random), int(log_uniform(random, 64 << 10, 8 << 30))


def odd_point(random):
    """Where a chunk may all but be lost; 0.9 of them is the most that model.c takes."""
    while True:
        link = Link(log_uniform(random, 1e6, 400e9), log_uniform(random, 1e-5, 10), random.choice((0, log_uniform(random, 1e-3, 0.5))))
        s = scheme(random, CODES + ODD_CODES)
        size = int(log_uniform(random, 1, 64 << 20))
        if chunk_loss(link, fitted(link, s, size)) <= 0.9:
            return link, s, size


def costs(link, s, size):
    """Losses of one Write: what playing it costs."""
    return chunks_of(s, size) * chunk_loss(link, s)


def line(link, s, size, q):
    kinds, codes = ("sr", "nack", "ec", "hybrid"), ("mds", "xor")
    return (f"{kinds.index(s.kind)} {codes.index(s.code)} {s.chunk} {s.k} {s.m} {s.rto_rtts!r} {s.fto_rtts!r} "
            f"{s.tail_rtts!r} {int(s.serial)} {int(s.whole)} {link.rate_bps!r} {link.rtt_s!r} {link.loss!r} {link.packet} "
            f"{size} {q!r}")


def ask_c(program, lines):
    """[(mean, quantile, fallback)] as model.c has them."""
    done = subprocess.run([program], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    return [tuple(float(x) for x in row.split()) for row in done.stdout.splitlines()]
