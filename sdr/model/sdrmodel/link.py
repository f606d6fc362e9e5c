# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What a prediction is about: a link, a scheme, a size."""
import math
import typing

PACKET = 4096


class Link(typing.NamedTuple):
    """Losses are independent, each packet's with the probability loss."""
    rate_bps: float
    rtt_s: float
    loss: float
    packet: int = PACKET


class Scheme(typing.NamedTuple):
    """kind: sr (timers), nack (the receiver names holes), ec (codes), hybrid (nack, and a coded end).

    serial: resent chunks take their time on the link, too; the published formulas leave it out.
    whole: a submessage that fails is repeated with all its data, as published; else what misses of it."""
    kind: str = "sr"
    chunk: int = PACKET
    rto_rtts: float = 3.0
    k: int = 32
    m: int = 8
    code: str = "mds"
    fto_rtts: float = 1.0       # how long after the expected end a coded message is given up
    tail_rtts: float = 1.25     # how much of the end a hybrid codes, as time of injection
    serial: bool = False
    whole: bool = True

    @staticmethod
    def sr(**more):
        return Scheme(**more)

    @staticmethod
    def nack(**more):
        return Scheme(kind="nack", rto_rtts=1.0, **more)

    @staticmethod
    def ec(k=32, m=8, **more):
        return Scheme(kind="ec", k=k, m=m, **more)

    @staticmethod
    def hybrid(k=32, m=8, **more):
        return Scheme(kind="hybrid", k=k, m=m, rto_rtts=1.0, fto_rtts=0.25, serial=True, whole=False, **more)


def chunks_of(scheme, size):
    return max(1, -(-size // scheme.chunk))


def chunk_loss(link, scheme):
    """A chunk is lost with any of its packets; a link whose packet is the chunk gives losses of chunks."""
    packets = max(1, -(-scheme.chunk // link.packet))
    return -math.expm1(packets * math.log1p(-link.loss))


def inject_s(link, scheme):
    return scheme.chunk * 8 / link.rate_bps


def ideal(link, scheme, size):
    """Without a loss, and without a code."""
    return chunks_of(scheme, size) * inject_s(link, scheme) + link.rtt_s


def fitted(link, scheme, size):
    """The scheme with a chunk that is no longer than the Write. ValueError: one of the three makes no sense."""
    scheme = scheme._replace(chunk=min(scheme.chunk, size))
    for makes_sense, what in (
            (size >= 1 and scheme.chunk >= 1 and link.packet >= 1, "sizes are 1 at least"),
            (0 < link.rate_bps < math.inf and 0 < link.rtt_s < math.inf, "a rate and a round trip are above 0"),
            (0 <= link.loss < 1, "a loss is 0 to below 1"),
            (scheme.kind in ("sr", "nack", "ec", "hybrid"), "a scheme is sr, nack, ec or hybrid; RC: packets.rc()"),
            (scheme.kind in ("sr", "nack") or scheme.k >= 1 <= scheme.m and scheme.code in ("mds", "xor"),
             "a code is mds or xor, k and m are 1 at least")):
        if not makes_sense:
            raise ValueError(f"{what}: {link} {scheme} {size}")
    if chunk_loss(link, scheme) >= 1:
        raise ValueError(f"every chunk is lost: {link} {scheme}")
    return scheme


def predict(link, scheme, size):
    """The distribution of the time of a Write: mean(), cdf(t), quantile(q). ValueError: see fitted()."""
    # pylint: disable=import-outside-toplevel
    from .erasure import Erasure
    from .hybrid import Hybrid
    from .retransmit import Retransmit
    scheme = fitted(link, scheme, size)
    chunks, t_inj, loss = chunks_of(scheme, size), inject_s(link, scheme), chunk_loss(link, scheme)
    if scheme.kind in ("sr", "nack"):
        return Retransmit.of(chunks, t_inj, loss, link.rtt_s, scheme)
    return (Erasure if scheme.kind == "ec" else Hybrid)(chunks, t_inj, loss, link.rtt_s, scheme)
