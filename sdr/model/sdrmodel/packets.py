# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The schemes played packet by packet over one link that serialises: what is resent takes the place of something new.
Only losses are events, so a Write of millions of packets costs as much as it loses.

A packet here is a chunk. play(link, scheme, size, random) gives the time of one Write; rc() that of RC's go-back-N."""
import heapq
import math

from .erasure import parts, submessages
from .hybrid import tail_chunks
from .link import chunk_loss, chunks_of, fitted, inject_s
from .losses import Losses

EARLY = 1e-12   # two times that differ by rounding only


class Line:
    """When the sender's line is free, and what it loses."""

    def __init__(self, link, scheme, random, burst=1.0):
        self.t_inj, self.rtt = inject_s(link, scheme), link.rtt_s
        self.losses = Losses(random, chunk_loss(link, scheme), burst)
        self.free = 0.0

    def send(self, n):
        """n packets in a row; (index, end of injection) of those that are lost."""
        start = self.free
        self.free = start + n * self.t_inj
        return [(i, start + (i + 1) * self.t_inj) for i in self.losses.run(n)]


class Repeater:
    """Selective Repeat of a run of chunks, over a line that other things use before and behind.

    A loss is noticed by the sender's timer (sr), or by the receiver, at the next packet that arrives, or when
    nothing more can be under way (nack)."""

    def __init__(self, line, scheme):
        self.line, self.named = line, scheme.kind != "sr"
        self.wait = scheme.rto_rtts * line.rtt
        self.due, self.last = [], 0.0

    def lost_again(self, end):
        heapq.heappush(self.due, end + self.wait)

    def lost_first(self, lost, start, n):
        """Of a run that began at start: each is named when the next one arrives, or at the end of all."""
        line = self.line
        gone = {i for i, _ in lost}
        for i, end in lost:
            if not self.named:
                heapq.heappush(self.due, end + self.wait)
                continue
            following = i + 1
            while following in gone:
                following += 1
            seen = start + (min(following, n - 1) + 1) * line.t_inj
            heapq.heappush(self.due, max(seen, end) + line.rtt)

    def resend_due(self):
        """What is due leaves before what is new."""
        line = self.line
        while self.due and self.due[0] <= line.free + EARLY:
            heapq.heappop(self.due)
            lost = line.send(1)
            if lost:
                self.lost_again(line.free)
            else:
                self.last = max(self.last, line.free)

    def new(self, chunks, coded=False, runs=None):
        """Sends so many for the first time; the lost ones. Losses of what is coded are not noticed here. runs: gets
        (first, start, how many) of each run of chunks that nothing came between."""
        gone, at = [], 0
        while at < chunks:
            self.resend_due()
            line, n = self.line, chunks - at
            if self.due:
                n = min(n, max(1, math.ceil((self.due[0] - line.free) / line.t_inj - 1e-9)))
            # No further than the first answer to a loss among these.
            n = min(n, max(1, int(line.rtt / line.t_inj)))
            start = line.free
            lost = line.send(n)
            gone.extend(at + i for i, _ in lost)
            if runs is not None:
                runs.append((at, start, n))
            if not coded:
                self.lost_first(lost, start, n)
            self.last = max(self.last, line.free)
            at += n
        return gone

    def finish(self):
        """All that is due, until nothing is; when the last chunk has left."""
        while self.due:
            self.line.free = max(self.line.free, self.due[0])
            self.resend_due()
        return self.last


def retransmit(link, scheme, size, random, burst):
    line = Line(link, scheme, random, burst)
    repeater = Repeater(line, scheme)
    repeater.new(chunks_of(scheme, size))
    return repeater.finish() + link.rtt_s


def decodable(scheme, parity, lost_data, lost_parity):
    if scheme.code == "mds":
        return len(lost_data) + len(lost_parity) <= parity
    groups = {}
    for x in [i % parity for i in lost_data] + list(lost_parity):
        groups[x] = groups.get(x, 0) + 1
    return all(n <= 1 for n in groups.values())


def place(i, total, count, interleave):
    """(submessage, place in it) of the i-th of so many."""
    more, size = parts(total, count)
    if interleave:
        return i % count, i // count
    if i < more * (size + 1):
        return divmod(i, size + 1)
    s, j = divmod(i - more * (size + 1), size)
    return more + s, j


def failed(scheme, chunks, lost, interleave):
    """(data of submessages that cannot be decoded, of these lost); lost counts data first, then parity."""
    count, parity = submessages(chunks, scheme.k, scheme.m)
    data_lost, parity_lost = {}, {}
    for i in lost:
        if i < chunks:
            s, j = place(i, chunks, count, interleave)
            data_lost.setdefault(s, []).append(j)
        else:
            s, j = place(i - chunks, parity, count, interleave)
            parity_lost.setdefault(s, []).append(j)
    (more_data, data), (more_parity, checks) = parts(chunks, count), parts(parity, count)
    bad = [s for s, js in data_lost.items()
           if not decodable(scheme, checks + (s < more_parity), js, parity_lost.get(s, []))]
    return sum(data + (s < more_data) for s in bad), sum(len(data_lost[s]) for s in bad)


def coded(repeater, scheme, chunks, interleave):
    """A coded run behind what the repeater has sent: (its end, how many chunks are to be repeated)."""
    _, parity = submessages(chunks, scheme.k, scheme.m)
    lost = repeater.new(chunks + parity, coded=True)
    data, missing = failed(scheme, chunks, lost, interleave)
    return repeater.line.free, data if scheme.whole else missing


def erasure(link, scheme, size, random, burst, interleave=False):
    """The time, and whether it fell back."""
    line = Line(link, scheme, random, burst)
    repeater = Repeater(line, scheme._replace(kind="sr"))
    end, again = coded(repeater, scheme, chunks_of(scheme, size), interleave)
    if again:
        # The receiver waits on for the timeout, and its word takes a round trip to have an effect.
        line.free = end + (1 + scheme.fto_rtts) * line.rtt
        repeater.new(again)
        end = repeater.finish()
    return end + link.rtt_s, bool(again)


def hybrid(link, scheme, size, random, burst, interleave=True):
    line = Line(link, scheme, random, burst)
    chunks = chunks_of(scheme, size)
    tail = tail_chunks(chunks, line.t_inj, line.rtt, scheme)
    repeater = Repeater(line, scheme)
    repeater.new(chunks - tail)
    end, again = coded(repeater, scheme, tail, interleave)
    for _ in range(again):
        heapq.heappush(repeater.due, end + (1 + scheme.fto_rtts) * line.rtt)
    return repeater.finish() + link.rtt_s, bool(again)


def play(link, scheme, size, random, burst=1.0, interleave=None):
    scheme = fitted(link, scheme, size)
    if scheme.kind in ("sr", "nack"):
        return retransmit(link, scheme, size, random, burst)
    if scheme.kind == "ec":
        return erasure(link, scheme, size, random, burst, bool(interleave))[0]
    return hybrid(link, scheme, size, random, burst, interleave is not False)[0]


def rc_timer_s(rtt_s):
    """The least local ACK timeout (4.096 us times a power of two) above two round trips: what sdr_perf --against rc sets."""
    return 4.096e-6 * 2 ** max(1, math.floor(math.log2(2 * rtt_s / 4.096e-6)) + 1)


def rc(link, scheme, size, random, burst=1.0, timer=None):
    """Go-back-N: the responder names a gap once; what it then waits for, if lost again, the requester's timer
    finds. Everything behind a loss goes again."""
    scheme = fitted(link, scheme, size)
    timer = timer or rc_timer_s(link.rtt_s)
    line = Line(link, scheme, random, burst)
    left, named = chunks_of(scheme, size), False
    while left:
        start = line.free
        lost = line.send(left)
        if not lost:
            return line.free + line.rtt
        first, end = lost[0]
        gone = {i for i, _ in lost}
        following = first + 1
        while following in gone:
            following += 1
        left -= first
        # A gap at the head of what was sent again is the one that was named already.
        if following >= left + first or (named and first == 0):
            line.free = end + timer
        else:
            line.free = start + (following + 1) * line.t_inj + line.rtt
            named = True
            continue
        named = False
    return line.free + line.rtt
