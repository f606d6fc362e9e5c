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


def logs_xor(k, m, p):
    """Parity i is the XOR of all data j with j mod m = i: one loss is made good in each such group. By group: how many data, and
    the log of the chance that they can be had."""
    sizes = [len(range(i, k, m)) for i in range(min(m, k))]
    bad = [at_least(n + 1, 2, p) for n in sizes]
    return list(zip(sizes, [math.log1p(-b) if b < 1 else -math.inf for b in bad]))


def lost_xor(k, m, p):
    return -math.expm1(sum(log for _, log in logs_xor(k, m, p)))


def missing_mds(k, m, p):
    """Of a submessage's data, how many are lost in the mean and it fails."""
    return k * p * at_least(k + m - 1, m, p)


def missing_xor(k, m, p):
    log_none, groups = math.log1p(-p), logs_xor(k, m, p)
    finite = sum(log for _, log in groups if log > -math.inf)
    hopeless = sum(log == -math.inf for _, log in groups)

    def others(log):
        if log == -math.inf:
            return -math.inf if hopeless > 1 else finite
        return -math.inf if hopeless else finite - log
    # One of a group is lost, and that is made good where nothing else of it is, and all other groups are good.
    return sum(n * p * -math.expm1(others(log) + n * log_none) for n, log in groups)


LOST = {"mds": (lost_mds, missing_mds), "xor": (lost_xor, missing_xor)}


def parts(total, count):
    """(how many parts are one larger, the size of the others)"""
    return total % count, total // count


def submessages(chunks, k, m):
    """(how many, parity in all): all as even as can be, so that none is above k and m."""
    return -(-chunks // k), -(-chunks * m // k)


def kinds(chunks, k, m):
    """[(how many submessages, data of each, parity of each)]: those that are larger come first."""
    count, parity = submessages(chunks, k, m)
    (more_data, data), (more_parity, checks) = parts(chunks, count), parts(parity, count)
    found, at = [], 0
    for upto in sorted({more_data, more_parity, count}):
        if upto > at:
            found.append((upto - at, data + (at < more_data), checks + (at < more_parity)))
        at = upto
    return found


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
        lost_of, missing_of = LOST[scheme.code]
        self.count, parity = submessages(chunks, scheme.k, scheme.m)
        log_good = missing = 0.0
        for n, data, checks in kinds(chunks, scheme.k, scheme.m):
            lost = lost_of(data, checks, loss)
            log_good += n * math.log1p(-lost) if lost < 1 else -math.inf
            missing += n * missing_of(data, checks, loss)
        self.lost = -math.expm1(log_good / self.count)
        self.falls_back = -math.expm1(log_good)
        self.end = (chunks + parity) * t_inj
        # What a fallback adds until its first chunk is sent again.
        self.patience = (1 + scheme.fto_rtts) * rtt
        self.again = chunks / self.count if scheme.whole or not self.lost else missing / (self.count * self.lost)
        self.repeat = lambda n: Retransmit.of(min(chunks, max(1, round(n * self.again))), t_inj, loss, rtt, scheme)
        self.cases = [(w, self.repeat(n)) for n, w in failures(self.count, self.lost)]

    def fallback(self):
        """The chance that not every submessage can be decoded."""
        return self.falls_back

    def mean_excess(self):
        return sum(w * (self.patience + case.mean()) for w, case in self.cases)

    def mean(self):
        return self.end + (1 - self.fallback()) * self.rtt + self.mean_excess()

    def mean_published(self):
        """With Selective Repeat of the mean number of failed submessages, as it is printed."""
        failed = self.count * self.lost
        again = self.repeat(failed).mean() if failed * self.again >= 0.5 else self.rtt
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
