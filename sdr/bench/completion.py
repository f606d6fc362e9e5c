#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""How long Writes take over a long link of software NICs, by scheme and loss, beside what the model says; and, without a
link, messages and Writes beside RC by stock ib_write_bw. In turns, --rounds times; medians and spread. Writes
out/sdr-schemes.json. Beside RC on the long link: against.py.
"""
import argparse
import json
import os
import re
import statistics
import sys

from ends import sdr_perf
from shiftlab.lab import Lab, free_port
from shiftlab.results import save

SCHEMES = {"sr": "sr", "nack": "nack", "hybrid": "hybrid(32,8)", "ec": "ec(32,8)", "auto": None}
LOSSES = ("0", "1e-4", "1e-3", "1e-2")
SIZES = ("64K", "1M", "8M")


def perf(lab, *options):
    return json.loads(sdr_perf(lab, 300, *options)[-1])


def model(lab, args, loss):
    """Mean in ms of what libsdr plays, by row of `sdr_perf model`."""
    said = lab.run_tool([os.path.join(lab.out, "bin", "sdr_perf"), "model", "--rate", args.send_rate, "--rtt",
                         f"{2 * args.delay_ms}ms", "--loss", loss, "--size", args.size, "--json"])
    return {row["scheme"]: row["played_mean_ms"] for row in json.loads(said.out())["rows"]}


def middle(values):
    return {"median": round(statistics.median(values), 4), "min": round(min(values), 4), "max": round(max(values), 4)}


def point(lab, args, scheme):
    runs = [perf(lab, "-s", args.size, "-n", args.writes, "--scheme", scheme, "--rate", args.send_rate, "--rtt",
                 f"{2 * args.delay_ms}ms", "--timeout", "120s") for _ in range(args.rounds)]
    return {"mean_ms": middle([r["mean_ms"] for r in runs]), "p99_ms": middle([r["p99_ms"] for r in runs]),
            "sent": middle([r["sent"] / r["chunks"] for r in runs]), "decoded": sum(r["decoded"] for r in runs)}


def long_link(lab, args):
    table = []
    for loss in LOSSES:
        lab.ctl("link", "h0/mlx5_0", "--rate", args.rate, "--delay", f"{args.delay_ms}ms", "--loss", loss)
        expected = model(lab, args, loss) if float(loss) else {}
        for scheme, row in SCHEMES.items():
            result = point(lab, args, scheme)
            result.update(loss=float(loss), scheme=scheme, model_ms=expected.get(row))
            table.append(result)
            print(f"loss {loss:>5} {scheme:>6}: mean {result['mean_ms']['median']:9.2f} ms, "
                  f"p99 {result['p99_ms']['median']:9.2f}, sent {result['sent']['median']:.4f}, "
                  f"model {result['model_ms'] or float('nan'):9.2f}", flush=True)
    lab.ctl("link", "h0/mlx5_0", "off")
    return table


def rc_gbps(lab, size):
    """Stock ib_write_bw, its average."""
    port = free_port()
    argv = ["ib_write_bw", "-d", "mlx5_0", "-s", str(size), "-n", "500", "-p", str(port), "--report_gbits", "-F"]
    server, client = lab.start("h0", argv), None
    server.await_listening()
    client = lab.start("h1", [*argv, "127.0.0.1"])
    if client.wait(120) or server.wait(120):
        raise SystemExit(client.tail() + server.tail())
    return float(re.findall(r"^\s*\d+\s+\d+\s+[\d.]+\s+([\d.]+)", client.out(), re.M)[-1])


def short_link(lab, args):
    table = []
    for size in SIZES:
        count = int(size[:-1]) * (1 << 10 if size[-1] == "K" else 1 << 20)
        rc, sdk, writes = [], [], []
        for _ in range(args.rounds):
            rc.append(rc_gbps(lab, count))
            sdk.append(perf(lab, "--sdk", "-s", size, "-n", args.writes * 4, "--inflight", 8)["gbps"])
            writes.append(perf(lab, "-s", size, "-n", args.writes * 4, "--scheme", "nack", "--inflight", 4)["gbps"])
        table.append({"size": size, "rc_gbps": middle(rc), "sdk_gbps": middle(sdk), "nack_gbps": middle(writes)})
        print(f"no link, {size}: RC {statistics.median(rc):.2f} Gbit/s, messages {statistics.median(sdk):.2f}, "
              f"Writes {statistics.median(writes):.2f}", flush=True)
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--writes", type=int, default=20)
    parser.add_argument("--size", default="8M")
    parser.add_argument("--rate", default="400M")
    parser.add_argument("--send-rate", default="350M", help="below the link's, or a queue grows that counts as delay")
    parser.add_argument("--delay-ms", type=float, default=12.5)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with Lab(args.build, nics=1, seed=args.seed) as lab:
        results = {"seed": args.seed, "rate": args.rate, "send_rate": args.send_rate, "rtt_ms": 2 * args.delay_ms, "size": args.size,
                   "no_link": short_link(lab, args), "long_link": long_link(lab, args)}
    save(args.out, "sdr-schemes.json", results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
