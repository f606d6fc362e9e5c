#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""SDR beside RC over one long link of software NICs, by `sdr_perf --against rc`: each Write goes over both, in turns, one run a
row. Writes out/sdr.json: {"rows": [{"what", "ratio", "target", "ok"}]}; a ratio of 6 means that RC takes six times as long.

--slow F lets all take F times as long (the link's rate divided, its delay multiplied): the same bytes are under way, and a ratio
stays what it is, but two busy cores can follow. Draws out/figures/sdr-against.svg. Ends with 1 where a target is missed.
"""
import argparse
import json
import os
import sys

from ends import sdr_perf
from shiftlab.lab import Lab
from shiftlab.results import about, run_plot, save

GBPS, DELAY_MS = 1.0, 12.5
ROWS = (("no loss, 8 MiB", "8M", "0", 0.95), ("loss 1e-2, 8 MiB", "8M", "1e-2", 5.0),
        ("loss 1e-3, 8 MiB", "8M", "1e-3", 1.35), ("loss 1e-2, 32 MiB", "32M", "1e-2", 6.5))


def run(lab, args, size, writes):
    said = sdr_perf(lab, 500, "-s", size, "-n", writes, "--rate", f"{GBPS / args.slow}G", "--rtt", f"{2 * DELAY_MS * args.slow}ms",
                    "--against", "rc", "--timeout", "120s", *args.options.split())
    sdr, both = (json.loads(line) for line in said[-2:])
    return sdr, both


def row(lab, args, what, size, loss, target):
    lab.ctl("link", "h0/mlx5_0", "--rate", f"{GBPS / args.slow}G", "--delay", f"{DELAY_MS * args.slow}ms", "--loss", loss)
    writes = max(1, args.writes // 4) if size == "32M" else args.writes
    sdr, both = run(lab, args, size, writes)
    told = {"what": f"RC time / SDR time, {what}", "ratio": both["ratio"], "target": target, "ok": both["ratio"] >= target,
            "writes": writes, "sdr_ms": both["sdr_ms"], "rc_ms": both["rc_ms"], "sent": sdr["sent"] / sdr["chunks"],
            "options": args.options, "load": os.getloadavg()[0]}
    print(f"{told['what']}: {both['ratio']:.3f} (at least {target}): SDR {both['sdr_ms']:.1f} ms, RC {both['rc_ms']:.1f} ms; "
          f"load {told['load']:.1f}", flush=True)
    return told


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--writes", type=int, default=20, help="a row; of 32 MiB a quarter")
    parser.add_argument("--slow", type=float, default=4)
    parser.add_argument("--options", default="", help="of sdr_perf, beside its defaults")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    machine = about()
    print(f"seed {args.seed}; {machine['cores']} cores of {machine['cpu']}; {GBPS / args.slow} Gbit/s, round trip "
          f"{2 * DELAY_MS * args.slow} ms; {args.options or 'all by default'}")
    with Lab(args.build, nics=1, seed=args.seed) as lab:
        rows = [row(lab, args, *what) for what in ROWS]
    save(args.out, "sdr.json", {"seed": args.seed, "slow": args.slow, "rate_gbps": GBPS / args.slow,
                                "rtt_ms": 2 * DELAY_MS * args.slow, "rows": rows})
    run_plot(os.path.join(os.path.dirname(os.path.abspath(__file__)), "draw_sdr.py"), args.out)
    return 0 if all(told["ok"] for told in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
