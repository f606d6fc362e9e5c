# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A Write as libsdr runs it, packet by packet over one link: packets.py plays the published schemes.

What differs: holes are named when the network can no longer have reordered them, and once more a round trip later; a Write is over
when all its data can be decoded, whatever of the parity is still to come; submessages are interleaved in blocks. The times are those
of sdr/shell/rel_plan.c, the submessages those of sdr/rel/hybrid.c. A packet here is a chunk."""
import heapq
import math

from .link import chunks_of, fitted
from .packets import Line, Repeater, decodable

SLACK_S = 5e-3      # of timers
DEPTH = 64          # submessages that are interleaved
TAIL_RTTS = 1.25


def reorder_s(rtt_s):
    return rtt_s / 8 + SLACK_S / 10


class Holes(Repeater):
    """Whose losses are found by the sender's timers (sr), or named by the receiver."""

    def __init__(self, line, scheme, random):
        super().__init__(line, scheme)
        self.random, self.reorder = random, reorder_s(line.rtt)
        if self.named:
            self.wait = line.rtt + self.reorder
        else:
            self.wait = (3 * line.rtt + SLACK_S) * (1 + 1 / 64)

    def lost_first(self, lost, start, n):
        known, self.due = self.due, []
        super().lost_first(lost, start, n)
        if self.named:      # at the second look behind the arrival that showed it
            self.due = [t + self.reorder * self.random.uniform(1, 2) for t in self.due]
        self.due += known
        heapq.heapify(self.due)

    def end_of_new(self):
        """All has been sent once: no hole is named later than this."""
        if self.named:
            self.due = [min(t, self.line.free + self.reorder + self.line.rtt) for t in self.due]
            heapq.heapify(self.due)


class Coded:
    """A coded run: which chunk is in which submessage, and when each leaves."""

    def __init__(self, scheme, chunks):
        self.scheme, self.chunks = scheme, chunks
        self.parity = -(-chunks * scheme.m // scheme.k)
        self.depth = min(DEPTH, -(-chunks // scheme.k))

    def block(self, n):
        """(data, parity, submessages) of a block."""
        scheme = self.scheme
        data = min(self.chunks - n * self.depth * scheme.k, self.depth * scheme.k)
        return data, -(-data * scheme.m // scheme.k), -(-data // scheme.k)

    def place(self, i):
        """(block, submessage, place in it, whether it is parity)"""
        parity = i >= self.chunks
        n, at = divmod(i - self.chunks if parity else i, self.depth * (self.scheme.m if parity else self.scheme.k))
        subs = self.block(n)[2]
        return n, at % subs, at // subs, parity

    def parity_at(self, n, sub):
        """The places of a submessage's parity in the run, in order."""
        _, parity, subs = self.block(n)
        first = self.chunks + n * self.depth * self.scheme.m
        return [first + j for j in range(sub, parity, subs)]

    def judge(self, lost):
        """(chunks of data that must be repeated, the last place in the run that decoding waits for)"""
        missing, gone = {}, set(lost)
        for i in lost:
            n, sub, j, parity = self.place(i)
            if not parity:
                missing.setdefault((n, sub), []).append(j)
        again, last = 0, max((i for i in range(self.chunks - 1, max(-1, self.chunks - 200), -1) if i not in gone), default=0)
        for (n, sub), js in missing.items():
            places = self.parity_at(n, sub)
            lost_parity = [x for x, i in enumerate(places) if i in gone]
            if not decodable(self.scheme, len(places), js, lost_parity):
                again += len(js)
                continue
            if self.scheme.code == "mds":
                last = max(last, [i for i in places if i not in gone][len(js) - 1])
            else:
                last = max(last, *(places[j % len(places)] for j in js))
        return again, last


def write_s(link, scheme, size, random):
    """The time of one Write, from its first packet to the sender's knowing."""
    scheme = fitted(link, scheme, size)
    line, chunks = Line(link, scheme, random), chunks_of(scheme, size)
    holes = Holes(line, scheme, random)
    tail = {"ec": chunks, "hybrid": min(chunks, int(TAIL_RTTS * link.rtt_s / line.t_inj) + 1)}.get(scheme.kind, 0)
    if chunks > tail:
        holes.new(chunks - tail)
    if not tail:
        holes.end_of_new()
        return holes.finish() + link.rtt_s
    coded, runs = Coded(scheme, tail), []
    before = holes.last
    lost = holes.new(tail + coded.parity, coded=True, runs=runs)
    again, last = coded.judge(lost)
    holes.last = max(before, *(start + (last - at + 1) * line.t_inj for at, start, n in runs if at <= last < at + n))
    holes.end_of_new()
    for _ in range(again):
        heapq.heappush(holes.due, line.free + 2 * reorder_s(link.rtt_s) + 1.5 * link.rtt_s)
    return holes.finish() + link.rtt_s


def mean_s(link, scheme, size, random, plays):
    """(mean, standard error)"""
    times = [write_s(link, scheme, size, random) for _ in range(plays)]
    mean = sum(times) / plays
    return mean, math.sqrt(sum((t - mean) ** 2 for t in times) / (plays - 1) / plays)
