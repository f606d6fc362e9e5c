#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Does libsdr take as long as it should? Means of Writes over a long link of software NICs that loses packets, by scheme, size and
loss, each byte checked, beside a simulation packet by packet with the same parameters (sdr/model/sdrmodel/running.py); and RC by
stock ib_write_bw beside its own. Ends with 1 where one is off by more than --within (RC: --rc-within). Writes out/sdr-means.json.

RC has fewer Writes where it is slow: --rc-seconds a point.
"""
import argparse
import json
import random
import re
import sys

from ends import sdr_perf
from sdrmodel import Link, Scheme
from sdrmodel.packets import rc
from sdrmodel.running import mean_s
from shiftlab.lab import Lab, free_port
from shiftlab.results import about, save

SCHEMES = {"sr": ((), Scheme.sr()), "nack": ((), Scheme.nack()), "ec": (("--code", "mds"), Scheme.ec()),
           "ec xor": (("--code", "xor"), Scheme.ec(code="xor")), "hybrid": ((), Scheme.hybrid())}
LOSSES = ("1e-4", "1e-3", "1e-2")
SIZES = ("8M", "32M")
PLAYS = 2000        # of a simulated point
RC_TIMER_S = .067   # what perftest gives its queue pair


def bytes_of(size):
    return int(size[:-1]) << 20


def written(lab, args, size, name):
    """sdr_perf's client: all Writes right."""
    said = sdr_perf(lab, 600, "-s", size, "-n", args.writes, "--scheme", name.split()[0], *SCHEMES[name][0], "--rate", args.send_rate,
                    "--rtt", f"{2 * args.delay_ms}ms", "--verify", "--timeout", "120s")
    return json.loads(said[-1])


def rc_mean_ms(lab, size, count):
    """Stock ib_write_bw with one Write at a time."""
    argv = ["ib_write_bw", "-d", "mlx5_0", "-s", str(bytes_of(size)), "-n", str(count), "-t", "1", "-N", "-p", str(free_port()),
            "--report_gbits", "-F"]
    server = lab.start("h0", argv)
    server.await_listening()
    client = lab.start("h1", [*argv, "127.0.0.1"])
    if client.wait(600) or server.wait(600):
        raise SystemExit(client.tail() + server.tail())
    gbps = float(re.findall(r"^\s*\d+\s+\d+\s+[\d.]+\s+([\d.]+)", client.out(), re.M)[-1])
    return bytes_of(size) * 8 / gbps / 1e6


def number(rate):
    return float(rate[:-1]) * {"M": 1e6, "G": 1e9}[rate[-1]]


def compare(told, within):
    told["off"] = told["mean_ms"] / told["simulated_ms"] - 1
    told["ok"] = abs(told["off"]) <= within
    print(f"loss {told['loss']:g}, {told['size']:>3}, {told['scheme']:>6}: mean {told['mean_ms']:8.1f} ms, simulated "
          f"{told['simulated_ms']:8.1f}, {told['off']:+.1%}{'' if told['ok'] else ' MISSED'}", flush=True)
    return told


def point(lab, args, loss, size, name):
    link = Link(number(args.send_rate), 2 * args.delay_ms / 1e3, float(loss))
    simulated, _ = mean_s(link, SCHEMES[name][1], bytes_of(size), random.Random(args.seed), PLAYS)
    run = written(lab, args, size, name)
    return compare({"loss": float(loss), "size": size, "scheme": name, "writes": args.writes, "mean_ms": run["mean_ms"],
                    "p99_ms": run["p99_ms"], "simulated_ms": simulated * 1e3, "sent": run["sent"] / run["chunks"]}, args.within)


def rc_point(lab, args, loss, size):
    link, rng = Link(number(args.rate), 2 * args.delay_ms / 1e3, float(loss)), random.Random(args.seed)
    simulated = sum(rc(link, Scheme.sr(), bytes_of(size), rng, timer=RC_TIMER_S) for _ in range(PLAYS)) / PLAYS
    count = max(5, min(args.writes, int(args.rc_seconds / simulated)))
    return compare({"loss": float(loss), "size": size, "scheme": "rc", "writes": count, "mean_ms": rc_mean_ms(lab, size, count),
                    "simulated_ms": simulated * 1e3}, args.rc_within)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--writes", type=int, default=100)
    parser.add_argument("--scheme", nargs="+", choices=[*SCHEMES, "rc"], default=[*SCHEMES, "rc"])
    parser.add_argument("--size", nargs="+", choices=SIZES, default=SIZES)
    parser.add_argument("--loss", nargs="+", choices=LOSSES, default=LOSSES)
    parser.add_argument("--rate", default="200M")
    parser.add_argument("--send-rate", default="175M", help="below the link's, or a queue grows that counts as delay")
    parser.add_argument("--delay-ms", type=float, default=25)
    parser.add_argument("--rc-seconds", type=float, default=60)
    parser.add_argument("--within", type=float, default=.10)
    parser.add_argument("--rc-within", type=float, default=.15)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    machine = about()
    print(f"seed {args.seed}; {machine['cores']} cores of {machine['cpu']}; {args.rate}bit/s, sent at {args.send_rate}bit/s, round trip "
          f"{2 * args.delay_ms} ms; load {machine['load']:.1f}")
    rows = []
    with Lab(args.build, nics=1, seed=args.seed) as lab:
        for loss in args.loss:
            lab.ctl("link", "h0/mlx5_0", "--rate", args.rate, "--delay", f"{args.delay_ms}ms", "--loss", loss)
            for size in args.size:
                rows += [rc_point(lab, args, loss, size) if name == "rc" else point(lab, args, loss, size, name)
                         for name in args.scheme]
    save(args.out, "sdr-means.json", {"seed": args.seed, "rate": args.rate, "send_rate": args.send_rate,
                                      "rtt_ms": 2 * args.delay_ms, "rows": rows})
    missed = sum(not told["ok"] for told in rows)
    print(f"{len(rows)} points, {missed} off by more than they may be")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
