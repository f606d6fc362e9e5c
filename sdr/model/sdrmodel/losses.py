# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Which packets a line loses, one after the other, by a seeded generator."""
import math


class Losses:
    """Each packet by itself, or with burst > 1 in runs of so many in the mean (as many lost in all)."""

    def __init__(self, random, loss, burst=1.0):
        self.random, self.loss, self.burst = random, loss, burst
        self.good, self.bad = 0, 0      # so many arrive, then so many are lost
        # A gap between losses has a mean of (1 - p) / p; between bursts there are burst times as many.
        self.stay = 1 - loss / (burst * (1 - loss)) if burst > 1 else 1 - loss
        self.draw()

    def geometric(self, stay):
        """0, 1, ...: how often in a row what has the probability stay happens."""
        if stay <= 0:
            return 0
        return int(math.log(1 - self.random.random()) / math.log(stay))

    def draw(self):
        if not self.loss:
            self.good, self.bad = 1 << 62, 1
        elif self.burst > 1:
            self.good, self.bad = 1 + self.geometric(self.stay), 1 + self.geometric(1 - 1 / self.burst)
        else:
            self.good, self.bad = self.geometric(self.stay), 1

    def run(self, packets):
        """Of the next packets, those that are lost: [index]."""
        lost, at = [], 0
        while packets - at > self.good:
            at += self.good
            n = min(self.bad, packets - at)
            lost.extend(range(at, at + n))
            at += n
            self.bad -= n
            self.good = 0
            if self.bad:
                return lost
            self.draw()
        self.good -= packets - at
        return lost

    def one(self):
        return bool(self.run(1))
