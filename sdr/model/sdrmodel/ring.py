# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A ring all-reduce: in each of 2 N - 2 rounds every site writes its N-th of the buffer to the next one, and begins a
round when it has what the round before brought: T(i, r) = max(T(i-1, r-1), T(i, r-1)) + t(i, r-1)."""
import bisect
import math

KNOTS = 600


class Inverse:
    """Quantiles of a distribution from a table, fine where the tail is."""

    def __init__(self, distribution, tail=1e-8):
        step = math.log(tail) / KNOTS
        self.tails = [math.exp(i * step) for i in range(KNOTS + 1)]
        self.times = [distribution.quantile(1 - t) for t in self.tails]
        self.negative = [-t for t in self.tails]

    def draw(self, random):
        tail = 1 - random.random()
        at = min(bisect.bisect_left(self.negative, -tail), KNOTS)
        return self.times[at]


class Late:
    """A Write whose last answer is lost, with this probability, is over so much later: when its sender has asked again."""

    def __init__(self, inverse, probability, seconds):
        self.inverse, self.probability, self.seconds = inverse, probability, seconds

    def draw(self, random):
        return self.inverse.draw(random) + (self.seconds if random.random() < self.probability else 0)


def ring_time(inverse, sites, random):
    before = [0.0] * sites
    for _ in range(2 * sites - 2):
        before = [max(before[i - 1], before[i]) + inverse.draw(random) for i in range(sites)]
    return max(before)


def ring_times(distribution, sites, samples, random, late=None):
    """late: the probability that a Write's last answer is lost, and how much later the Write is over then."""
    inverse = Inverse(distribution)
    if late:
        inverse = Late(inverse, *late)
    return sorted(ring_time(inverse, sites, random) for _ in range(samples))


def ring_quantile(distribution, sites, samples, random, q):
    times = ring_times(distribution, sites, samples, random)
    return times[min(samples - 1, int(q * samples))]
