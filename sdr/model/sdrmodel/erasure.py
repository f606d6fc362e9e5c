# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Erasure codes: L submessages of k chunks, each with m of parity. What cannot be decoded is repeated by Selective
Repeat after the fallback timeout: the time is a mixture over how many submessages fail."""
import math

from .retransmit import Retransmit, quantile

POINTS = 256        # of a mixture over many numbers of failed submessages
DEVIATIONS = 10


def at_least(n, i, p):
    """That i or more of n are lost."""
    if not p:
        return 0.0
    term = math.exp(math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1)
                    + i * math.log(p) + (n - i) * math.log1p(-p)) if i <= n else 0.0
    total = 0.0
    while i <= n and term > total * 1e-17:
        total += term
        term *= (n - i) / (i + 1) * p / (1 - p)
        i += 1
    return min(1.0, total)


def lost_mds(k, m, p):
    return at_least(k + m, m + 1, p)


def lost_xor(k, m, p):
    """Parity i is the XOR of all data j with j mod m = i: one loss is made good in each such group."""
    log_good = sum(math.log1p(-at_least(len(range(i, k, m)) + 1, 2, p)) for i in range(min(m, k)))
    return -math.expm1(log_good)


def submessages(chunks, k, m):
    """(how many, data of each, parity of each, parity in all); a message below k has its share of parity."""
    parity = -(-chunks * m // k)
    if chunks < k:
        return 1, chunks, parity, parity
    return -(-chunks // k), k, m, parity


def failures(count, lost):
    """[(how many submessages fail, probability)] without the case that none does."""
    if not lost:
        return []
    some = -math.expm1(count * math.log1p(-lost)) if lost < 1 else 1.0
    mean = count * lost
    spread = DEVIATIONS * math.sqrt(mean * (1 - lost))
    low, high = max(1, math.floor(mean - spread)), min(count, math.ceil(mean + spread + DEVIATIONS))
    stride = -(-(high - low + 1) // POINTS)
    if lost >= 1:
        return [(count, 1.0)]
    points = list(range(low, high + 1, stride))
    logs = [math.lgamma(count + 1) - math.lgamma(n + 1) - math.lgamma(count - n + 1) + n * math.log(lost)
            + (count - n) * math.log1p(-lost) for n in points]
    top = max(logs)
    weights = [math.exp(x - top) for x in logs]
    return [(n, some * w / sum(weights)) for n, w in zip(points, weights)]


class Erasure:
    def __init__(self, chunks, t_inj, loss, rtt, scheme):
        self.rtt = rtt
        self.count, k, m, parity = submessages(chunks, scheme.k, scheme.m)
        self.lost = (lost_xor if scheme.code == "xor" else lost_mds)(k, m, loss)
        self.end = (chunks + parity) * t_inj
        # What a fallback adds until its first chunk is sent again.
        self.patience = (1 + scheme.fto_rtts) * rtt
        self.cases = [(w, Retransmit.of(min(chunks, n * k), t_inj, loss, rtt, scheme))
                      for n, w in failures(self.count, self.lost)]
        self.repeat = lambda n: Retransmit.of(n, t_inj, loss, rtt, scheme)
        self.k = k

    def fallback(self):
        return sum(w for w, _ in self.cases)

    def mean_excess(self):
        return sum(w * (self.patience + case.mean()) for w, case in self.cases)

    def mean(self):
        return self.end + (1 - self.fallback()) * self.rtt + self.mean_excess()

    def mean_published(self):
        """With Selective Repeat of the mean number of failed submessages, as it is printed."""
        chunks = round(self.count * self.lost * self.k)
        again = self.repeat(chunks).mean() if chunks else self.rtt
        return self.end + self.fallback() * self.patience + again

    def cdf(self, t):
        x = t - self.end
        if x < self.rtt * (1 - 1e-12):
            return 0.0
        good = 1 - self.fallback()
        if x > self.patience:
            good += sum(w * case.cdf(x - self.patience) for w, case in self.cases)
        return good

    def quantile(self, q):
        return quantile(self.cdf, q, self.end + self.rtt, self.patience + self.rtt)
