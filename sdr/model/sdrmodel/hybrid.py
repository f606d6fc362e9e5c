# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Hybrid: what leaves early enough to be named and resent while the rest is injected goes without a code; what leaves
in the last tail_rtts round trips is coded. The Write takes the longer of the two."""
import math

from .erasure import Erasure
from .retransmit import EPSILON, Retransmit, quantile


def tail_chunks(chunks, t_inj, rtt, scheme):
    return min(chunks, math.ceil(scheme.tail_rtts * rtt / t_inj - EPSILON))


class Hybrid:
    def __init__(self, chunks, t_inj, loss, rtt, scheme):
        self.rtt = rtt
        coded = tail_chunks(chunks, t_inj, rtt, scheme)
        head = chunks - coded
        self.tail = Erasure(coded, t_inj, loss, rtt, scheme)
        self.head, self.before = None, 0.0
        if head:
            per_chunk = t_inj / (1 - loss) if scheme.serial else t_inj
            self.before = head * per_chunk
            self.head = Retransmit.of(head, t_inj, loss, rtt, scheme, end=self.before + self.tail.end)
        self.end = self.before + self.tail.end

    def fallback(self):
        return self.tail.fallback()

    def mean(self):
        mean = self.before + self.tail.mean()
        if self.head:
            # Where the tail falls back, the head is late only if it is later than that.
            all_late = self.head.excess(self.tail.end)
            later = self.head.excess(self.tail.end + self.tail.patience)
            mean += (1 - self.fallback()) * all_late + self.fallback() * later
        return mean

    def cdf(self, t):
        return self.tail.cdf(t - self.before) * (self.head.cdf(t) if self.head else 1.0)

    def quantile(self, q):
        return quantile(self.cdf, q, self.end + self.rtt, self.tail.patience + self.rtt)
