# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Selective Repeat: chunk i of M is first injected at i T, then every wait = RTO + T until it arrives. The Write takes
the maximum over i of X_i = i T + wait (Y_i - 1), Y_i geometric, and one round trip.

With c_j chunks that had time for j repeats by t, log P(max X <= t) is the sum over j of (c_j - c_j+1) l(j + 1), where
l(j) = log(1 - p^j) is the chance that j sendings are not all lost. That is exact at every t, and needs as many
terms as p^j takes to vanish, however large M is. The mean is the integral of 1 - F, in closed form: between two
repeats of a chunk, log F grows by a constant for each T."""
import math

NOTHING = 1e-18     # what this many chunks' losses add up to is left out
EPSILON = 1e-9      # of a chunk: times that are whole numbers of chunks


class Retransmit:
    def __init__(self, chunks, t_inj, loss, rtt, wait, end=None):
        """end: when all is injected, at least chunks * t_inj; later where something else follows the chunks."""
        self.chunks, self.t_inj, self.loss, self.rtt, self.wait = chunks, t_inj, loss, rtt, wait
        self.end = chunks * t_inj if end is None else end
        self.log_loss = math.log(loss) if loss > 0 else -math.inf

    @classmethod
    def of(cls, chunks, t_inj, loss, rtt, scheme, end=None):
        wait = scheme.rto_rtts * rtt + t_inj
        # Each chunk is sent 1 / (1 - p) times in the mean, and those behind it wait for that.
        return cls(chunks, t_inj / (1 - loss) if scheme.serial else t_inj, loss, rtt, wait, end)

    def log_came(self, sendings):
        """log of the chance that one of so many sendings arrives."""
        return math.log1p(-math.exp(sendings * self.log_loss))

    def vanishes(self, sendings):
        return self.chunks * math.exp(sendings * self.log_loss) < NOTHING

    def log_cdf(self, late):
        """log of the chance that all have come, late after the last first injection."""
        if not self.loss:
            return 0.0
        x = late + self.chunks * self.t_inj
        j = int(late / self.wait + EPSILON)     # so many repeats, all of them had time for
        total = self.chunks * self.log_came(j + 1)
        while not self.vanishes(j + 1):
            j += 1
            had = min(self.chunks, math.floor((x - j * self.wait) / self.t_inj + EPSILON))
            if had <= 0:
                break
            total += had * (self.log_came(j + 1) - self.log_came(j))
        return total

    def cdf(self, t):
        if t - self.rtt < self.end * (1 - 1e-12):
            return 0.0
        return math.exp(self.log_cdf(max(0.0, t - self.rtt - self.chunks * self.t_inj)))

    def segments(self):
        """Of a time between repeats: (from, to, how many steps of p run along the chunks there)."""
        span = (self.chunks - 1) * self.t_inj
        steps = int(span / self.wait) + 1
        split = steps * self.wait - span
        return (0.0, split, steps - 1), (split, self.wait, steps)

    def came_for(self, k, at, to, steps):
        """The integral of F from at to to, both counted from the k-th repeat of the last chunk."""
        log_f, slope = self.chunks * self.log_came(k + 1), 0.0
        for r in range(1, steps + 1):
            if self.vanishes(k + r):
                break
            more = self.log_came(k + 1 + r) - self.log_came(k + r)
            log_f += more * (self.chunks - (r * self.wait - at) / self.t_inj - 0.5)
            slope += more
        if slope < 1e-300:
            return (to - at) * math.exp(log_f)
        # The steps of single chunks, against the straight line through their middles.
        stairs = slope / 2 / math.sinh(slope / 2) if slope > 1e-6 else 1.0
        climb = slope * (to - at) / self.t_inj
        return math.exp(log_f + climb) * -math.expm1(-climb) * self.t_inj / slope * stairs

    def excess(self, late=0.0):
        """The integral of 1 - F from so late after the last first injection on."""
        if not self.loss:
            return 0.0
        total, k = 0.0, int(late / self.wait)
        while not self.vanishes(k + 1):
            start = max(0.0, late - k * self.wait)
            for low, high, steps in self.segments():
                low = max(low, start)
                if high > low:
                    total += high - low - self.came_for(k, low, high, steps)
            k += 1
        return total

    def mean(self):
        return self.end + self.rtt + self.excess(self.end - self.chunks * self.t_inj)

    def quantile(self, q):
        return quantile(self.cdf, q, self.end + self.rtt, self.wait)


def quantile(cdf, q, least, step):
    """The least t with F(t) >= q, which is not below least."""
    if cdf(least) >= q:
        return least
    low, high = least, least + step
    while cdf(high) < q:
        low, high = high, high + 2 * (high - low)
    for _ in range(60):
        middle = (low + high) / 2
        if cdf(middle) >= q:
            high = middle
        else:
            low = middle
    return high
