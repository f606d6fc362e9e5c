# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What the SDR paper claims, and what the model gives for it: rows, and the series of the figures.

One reading for all figures: a chunk is a packet of 4 KiB, 400 Gbit/s, RTO three round trips, exact quantiles. The paper
names neither the chunk nor whose the loss is; other readings are rows of their own."""
import random

from sdrmodel import Link, Scheme, ideal, packets, predict
from sdrmodel.ring import ring_quantile

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
RATE, RTT, LOSS = 400e9, 25e-3, 1e-5
KM_PER_S = 3e5 / 2      # there and back: the paper has 25 ms for 3750 km
SR, NACK, EC = Scheme.sr(), Scheme.nack(), Scheme.ec()
HYBRID, THIN = Scheme.hybrid(), Scheme.hybrid(32, 2)
DECADES = [10.0 ** -x for x in range(6, 1, -1)]
HALVES = [10 ** (-x / 2) for x in range(12, 3, -1)]
SIZES = [1 << i for i in range(17, 42)]


def link(loss=LOSS, rtt=RTT, rate=RATE, packet=4096):
    return Link(rate, rtt, loss, packet)


def slow(scheme, size, at, q=None):
    """Times as long as without losses and codes."""
    d = predict(at, scheme, size)
    return (d.mean() if q is None else d.quantile(q)) / ideal(at, scheme, size)


def ratio(size, at, q=None, over=SR, under=EC):
    a, b = predict(at, over, size), predict(at, under, size)
    return a.mean() / b.mean() if q is None else a.quantile(q) / b.quantile(q)


def best(losses, q, **more):
    """The greatest gain of the code over Selective Repeat: (times, size, loss)."""
    chunk, packet = more.pop("chunk", 4096), more.pop("packet", 4096)
    sr, ec = Scheme.sr(chunk=chunk, **more), Scheme.ec(chunk=chunk, **more)
    return max((ratio(1 << i, link(p, packet=packet), q, sr, ec), 1 << i, p) for i in range(20, 31) for p in losses)


def root(f, low, high):
    """Where f changes its sign, f(low) being below zero."""
    for _ in range(50):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if f(middle) < 0 else (low, middle)
    return low


def row(figure, what, published, here, study=None, within=0.02):
    """study: a number that an independent model gave for the same, to be met within the share."""
    ok = None if study is None else abs(here / study - 1) <= within
    return {"figure": figure, "what": what, "published": published, "here": round(here, 6), "reference": study, "ok": ok}


def figure_3():
    at = link()
    peak, where = max((slow(SR, (1 << 17) + i * MIB, at), i) for i in range(400, 900, 3))
    yield row("3a", "SR over lossless, greatest (mean)", "axis to 2.5", peak, 2.47)
    yield row("3a", "its size, MiB", None, where, 610, 0.1)
    yield row("3a", "EC(32,8) over lossless for 8 TiB", 1.25, slow(EC, 1 << 43, at), 1.25)
    yield row("3a", "SR is better than EC from, GiB", "large from 2^35 B on",
              root(lambda s: slow(EC, int(s * GIB), at) - slow(SR, int(s * GIB), at), 4, 64), 12.4)
    near, far = link(rtt=75 / KM_PER_S), link(rtt=6000 / KM_PER_S)
    for name, at, sr, ec in (("75 km", near, 1.001, 1.249), ("6000 km", far, 1.528, 1.203)):
        yield row("3b", f"8 GiB, {name}: SR over lossless", "1.0 to 1.6", slow(SR, 8 * GIB, at), sr)
        yield row("3b", f"8 GiB, {name}: EC over lossless", "1.0 to 1.6", slow(EC, 8 * GIB, at), ec)
    yield row("3b", "8 GiB: EC passes SR at, km", "between near and far",
              root(lambda km: ratio(8 * GIB, link(rtt=km / KM_PER_S)) - 1, 75, 6000), 2556)
    for p, times in ((1e-4, 3.58), (1e-3, 3.79), (1e-2, 6.38), (10 ** -1.5, 8.23), (1e-1, 12.56)):
        yield row("3c", f"128 MiB, loss {p:.2g}: SR over lossless", "3 to 10 above 1e-4; axis to 14",
                  slow(SR, 128 * MIB, link(p)), times)


def figure_10():
    mean, p999 = best(DECADES, None), best(DECADES, 0.999)
    yield row("9, 10", f"gain of EC over SR, best mean ({mean[1] // MIB} MiB, {mean[2]:g})", 6.5, mean[0], 6.23)
    yield row("9, 10", f"gain, best p99.9 ({p999[1] // MIB} MiB, {p999[2]:g})", 12.2, p999[0], 9.96)
    yield row("9, 10", "gain, p99.9, 64 MiB at loss 1.8e-2", 12.2, ratio(64 * MIB, link(1.8e-2), 0.999), 12.2)
    sr, ec = Scheme.sr(chunk=64 * KIB), Scheme.ec(chunk=64 * KIB)
    for q, published, study in ((None, 6.5, 6.45), (0.999, 12.2, None)):
        yield row("9, 10", f"the pair in one cell, {'mean' if q is None else 'p99.9'}: 64 MiB, chunks of 64 KiB, loss 2.6e-3 a packet",
                  published, ratio(64 * MIB, link(2.6e-3), q, sr, ec), study, 0.05)
    for rto, limit, study in ((3.0, 3, 2.57), (4.0, 4, 3.35)):
        gain = ratio(128 * MIB, link(0.1), None, Scheme.sr(rto_rtts=rto), NACK)
        yield row("10", f"SR over NACK, 128 MiB, loss 0.1, RTO {rto:g} RTT (limit {limit})", "up to 4", gain, study)
    for chunk, packet, rto, means, tails in (
            (64 * KIB, 64 * KIB, 3.0, 4.1, 9.4), (64 * KIB, 64 * KIB, 4.0, 5.16, 12.18), (64 * KIB, 4096, 3.0, 4.8, 9.8),
            (64 * KIB, 4096, 4.0, 6.1, 12.8), (4096, 4096, 4.0, 8.0, 12.9)):
        of = f"chunks of {chunk // KIB} KiB, loss a {'chunk' if packet == chunk else 'packet'}, RTO {rto:g} RTT"
        for q, published, study in ((None, "6.5, 5", means), (0.999, "12.2, 12", tails)):
            yield row("9, 10", f"reading: {of}: best {'mean' if q is None else 'p99.9'}", published,
                      best(DECADES, q, chunk=chunk, packet=packet, rto_rtts=rto)[0], study)


def half_falls_back(code, chunk, packet):
    scheme = Scheme.ec(chunk=chunk, code=code)
    return root(lambda p: predict(link(p, packet=packet), scheme, 128 * MIB).fallback() - 0.5, 1e-5, 0.3)


def figure_11():
    for chunk, packet, xor, mds in ((4096, 4096, 2.9e-3, 6.3e-2), (64 * KIB, 64 * KIB, 1.2e-2, 9.4e-2), (64 * KIB, 4096, 7.4e-4, 6.2e-3)):
        of = f"128 MiB, chunks of {chunk // KIB} KiB, loss a {'chunk' if packet == chunk else 'packet'}"
        yield row("11", f"XOR falls back half the time: {of}", "~1e-3", half_falls_back("xor", chunk, packet), xor)
        yield row("11", f"MDS falls back half the time: {of}", "beyond 1e-2", half_falls_back("mds", chunk, packet), mds)


def figure_12():
    for rate, sr, ec in ((400, 1.34, 1.22), (800, 1.64, 1.19), (3200, 2.59, 1.12)):
        at = link(rate=rate * 1e9)
        yield row("12", f"8 GiB, {rate} Gbit/s: SR over lossless", None, slow(SR, 8 * GIB, at), sr)
        yield row("12", f"8 GiB, {rate} Gbit/s: EC over lossless", "EC passes SR as BDP grows", slow(EC, 8 * GIB, at), ec)


def ring_gain(sites, loss, samples, rng):
    size = 128 * MIB // sites
    sr, ec = (ring_quantile(predict(link(loss), s, size), sites, samples, rng, 0.999) for s in (SR, EC))
    return sr / ec


def figure_13(samples, rng):
    """The buffer of 128 MiB goes round in parts, one for each site."""
    for loss, study in ((1e-5, 3.40), (1e-4, 3.90), (1e-3, 4.86), (1e-2, 7.76)):
        yield row("13", f"ring of 4, 128 MiB, loss {loss:g}: p99.9 of SR over EC", "3 to more than 6, rising",
                  ring_gain(4, loss, samples, rng), study, 0.05)
    for sites, study in ((2, 9.4), (8, 7.1), (16, 6.2)):
        yield row("13", f"ring of {sites}, 128 MiB, loss 0.01: p99.9 of SR over EC", "3 to more than 6",
                  ring_gain(sites, 1e-2, samples, rng), study, 0.05)


def figure_15():
    for packets_of, theory in ((1, 1e-5), (16, 1.6e-4), (64, 6.4e-4)):
        yield row("15", f"loss of a chunk of {packets_of} packets, 1e-5 each", theory, 1 - (1 - 1e-5) ** packets_of, theory)


def played_mean(scheme, size, at, samples, rng, **more):
    return sum(packets.play(at, scheme, size, rng, **more) for _ in range(samples)) / samples


def formula_against_packets(samples, rng):
    for i in range(8):
        size, at = 128 * MIB << i, link()
        times = samples * 16 >> i   # small ones lose little, and spread more
        yield row("5.1.1", f"{size // MIB} MiB: mean packet by packet over the formula", "within 5 %",
                  played_mean(SR, size, at, max(times, samples), rng) / predict(at, SR, size).mean(), 1.0, 0.05)


def beyond(samples, rng):
    at = link()
    for name, scheme, study in (("SR", SR, 1.342), ("NACK", NACK, 1.090), ("EC(32,8)", EC, 1.218), ("hybrid(32,8)", HYBRID, 1.040),
                                ("hybrid(32,2)", THIN, 1.010)):
        yield row("beyond", f"8 GiB, 1e-5: {name} over lossless", None, slow(scheme, 8 * GIB, at), study)
    at, one = link(1e-3), ideal(link(), EC, 128 * MIB)
    for word, interleave, study in (("neighbours", False, 2.37), ("interleaved", True, 1.02)):
        mean = played_mean(EC, 128 * MIB, at, samples, rng, burst=8, interleave=interleave)
        yield row("beyond", f"128 MiB, 1e-3 in bursts of 8, submessages of {word}: EC over lossless", None, mean / one, study, 0.08)
    for size, loss, study in ((8, 1e-3, 143.8), (8, 1e-2, 615.2), (32, 1e-2, 2425)):
        slow_link = link(loss, rate=1e9)
        times = [packets.rc(slow_link, SR, size * MIB, rng) for _ in range(samples)]
        yield row("beyond", f"1 Gbit/s, {size} MiB, {loss:g}: RC's go-back-N, ms", None, sum(times) / samples * 1e3, study, 0.1)
        for name, scheme in (("SR", SR), ("NACK", NACK), ("EC(32,8)", EC), ("hybrid(32,4)", Scheme.hybrid(32, 4))):
            yield row("beyond", f"1 Gbit/s, {size} MiB, {loss:g}: {name}, ms", None, predict(slow_link, scheme, size * MIB).mean() * 1e3)


def rows(seed, quick):
    rng = random.Random(seed)
    rounds, samples = (2000, 40) if quick else (20000, 400)
    parts = (figure_3(), figure_10(), figure_11(), figure_12(), figure_13(rounds, rng), figure_15(),
             formula_against_packets(samples, rng), beyond(samples, rng))
    return [r for part in parts for r in part]


NAMED = (("SR", SR), ("NACK", NACK), ("EC(32,8)", EC), ("hybrid(32,8)", HYBRID))


def series():
    """What the pictures show: {figure: {line: [[x, y], ...]}}; the map of figure 9 has [x, y, times]."""
    at = link()
    km = [75 * 1.2 ** i for i in range(25)]
    losses = [10 ** (-6 + i / 6) for i in range(31)]
    return {
        "3a": {n: [[s / MIB, slow(x, s, at)] for s in SIZES] for n, x in NAMED},
        "3b": {n: [[d, slow(x, 8 * GIB, link(rtt=d / KM_PER_S))] for d in km] for n, x in NAMED},
        "3c": {n: [[p, slow(x, 128 * MIB, link(p))] for p in losses] for n, x in NAMED},
        "9": {"mean": [[p, s / MIB, ratio(s, link(p))] for s in SIZES[:19] for p in HALVES]},
        "10a": {f"{n}, {w}": [[s / MIB, slow(x, s, at, q)] for s in SIZES[:19]] for n, x in NAMED for w, q in (("mean", None), ("p99.9", 0.999))},
        "10d": {f"MDS({k},{m})": [[p, slow(Scheme.ec(k, m), 128 * MIB, link(p))] for p in losses] for k, m in ((32, 8), (32, 4), (32, 2), (16, 4))},
        "11": {w: [[p, predict(link(p), Scheme.ec(code=w.lower()), 128 * MIB).fallback()] for p in losses] for w in ("XOR", "MDS")},
        "12": {f"{r} Gbit/s": [[d, ratio(8 * GIB, link(rtt=d / KM_PER_S, rate=r * 1e9))] for d in km] for r in (100, 400, 800, 3200)},
    }
