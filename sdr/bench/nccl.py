#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""NCCL's ring all-reduce of two sites of four ranks over one long link of software NICs, over the plugin's SDR beside its RC, which
has the shape of NCCL's net_ib (RC, WRITE with immediate, CTS by WRITE) on the same link, in turns (nccl/ring.c). NCCL itself needs
GPUs and does not run here. Writes out/sdr-nccl.json: {"rows": [{"loss", "size", "ratio", "target", "ok"}]}; a ratio of 5 means that
RC takes five times as long.

All takes SLOW times as long as over 1 Gbit/s and 25 ms (the link's rate divided, its delay multiplied): the same bytes are under
way, a ratio stays what it is, and two busy cores can follow. RC's timeout is the least that is longer than two round trips (268 ms;
net_ib's own is 1 s or more), so that it is not made slow by that. Ends with 1 where a target is missed.
"""
import argparse
import json
import os
import random
import statistics
import sys
import tempfile

from shiftlab.lab import Lab
from shiftlab.results import save

GBPS, DELAY_MS, SLOW = 1.0, 12.5, 5  # both directions are full at once
MBPS, DELAY_MS = GBPS * 1e3 / SLOW, DELAY_MS * SLOW
RATE_OF_LINK = 0.97     # what SDR is told to send: heads of packets take the rest
LOSSES = ("0", "1e-5", "1e-4", "1e-3", "1e-2")
SIZES = {"64K": 64 << 10, "1M": 1 << 20, "8M": 8 << 20, "64M": 64 << 20}
TARGETS = {"0": 0.95, "1e-5": 0.95, "1e-4": 0.95, "1e-3": 1.3, "1e-2": 5.0}
WARM_UP = {"64K": 3, "1M": 3, "8M": 2, "64M": 1}     # all-reduces of each run that do not count, as nccl-tests has them
PATHS = {"sdr": {"NCCL_SDR_RATE": f"{MBPS * RATE_OF_LINK}M", "NCCL_SDR_RTT": f"{2 * DELAY_MS}ms"},
         "rc": {"NCCL_SDR_FAR": "", "NCCL_SDR_RC_TIMEOUT": "16"}}


def seconds(lab, path, size, rounds, warm_up):
    """How long each all-reduce took, at the site where it took longer."""
    folder = tempfile.mkdtemp(dir=lab.folder)
    argv = [os.path.join(lab.out, "bin", "nccl_ring"), os.path.join(lab.out, "lib", "libnccl-net-sdr.so")]
    env = {"NCCL_SDR_IFNAME": "lo", "NCCL_SDR_HCA": "mlx5_0", **PATHS[path]}
    ends = [lab.start(f"h{site}", [*argv, str(site), folder, str(size), str(rounds), str(warm_up)], f"{path}-{site}", env=env)
            for site in range(2)]
    for end in ends:
        if end.wait(600):
            raise RuntimeError(f"{end.name} ended with {end.process.returncode}: {end.tail(30)}")
    return [max(both) for both in zip(*(json.loads(end.out())["seconds"] for end in ends))]


def row(lab, loss, name, rounds, turns):
    lab.ctl("link", "h0/mlx5_0", "--rate", f"{MBPS}M", "--delay", f"{DELAY_MS}ms", "--loss", loss)
    took = {path: [] for path in PATHS}
    for turn in range(turns):
        for path in list(PATHS)[::1 if turn % 2 else -1]:
            took[path] += seconds(lab, path, SIZES[name], rounds, WARM_UP[name])
    mean = {path: statistics.mean(times) for path, times in took.items()}
    ratio = mean["rc"] / mean["sdr"]
    told = {"loss": loss, "size": name, "ratio": ratio, "target": TARGETS[loss], "ok": ratio >= TARGETS[loss],
            "rounds": rounds * turns, "warm_up": WARM_UP[name], "sdr_ms": mean["sdr"] * 1e3, "rc_ms": mean["rc"] * 1e3,
            "sdr_worst_ms": max(took["sdr"]) * 1e3, "rc_worst_ms": max(took["rc"]) * 1e3, "load": os.getloadavg()[0]}
    print(f"loss {loss}, {name}: {ratio:.3f} (at least {told['target']}): SDR {told['sdr_ms']:.1f} ms, RC {told['rc_ms']:.1f} ms, "
          f"{told['rounds']} each; load {told['load']:.1f}", flush=True)
    return told


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 1 << 31))
    parser.add_argument("--quick", action="store_true", help="fewer sizes and rounds")
    parser.add_argument("--sizes", nargs="*", choices=list(SIZES))
    parser.add_argument("--losses", nargs="*", choices=LOSSES)
    args = parser.parse_args()
    sizes = args.sizes or (["64K", "8M"] if args.quick else list(SIZES))
    print(f"seed {args.seed}", flush=True)
    rows = []
    with Lab(args.build, nics=1, seed=args.seed) as lab:
        for loss in args.losses or LOSSES:
            for name in sizes:
                rounds = {"64K": 20, "1M": 12, "8M": 4, "64M": 1}[name]
                rows.append(row(lab, loss, name, max(1, rounds // (2 if args.quick else 1)), 2 if args.quick else 4))
                save(args.out, "sdr-nccl.json", {"seed": args.seed, "mbps": MBPS, "delay_ms": DELAY_MS, "slow": SLOW, "rows": rows})
    return 0 if all(told["ok"] for told in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
