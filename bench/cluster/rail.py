#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""How much longer a step of communication takes while NICs are dead: clustermodel/rail.py says how.

rail.py [--hosts N] [--nics N] [--qps N,...]

Beside `make bench-spread`: --hosts 2 --nics 4 --qps 8,24, and --hosts 2 --nics 8 --qps 8,56."""
import argparse
import json
import sys

from clustermodel import inputs, rail


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--hosts", type=int, default=16)
    p.add_argument("--nics", type=int, default=inputs.values().nics, help="of a host, 4 at least (%(default)s)")
    p.add_argument("--qps", default="1,2,4,8,16,64")
    p.add_argument("--json", action="store_true", help="rows, and nothing else")
    args = p.parse_args()
    if args.hosts < 2 or args.nics < 4 or args.nics % 2:
        p.error("two hosts and four NICs at least, and NICs in pairs")
    rows = rail.measure(args.hosts, [int(q) for q in args.qps.split(",")], args.nics)
    if args.json:
        print(json.dumps(rows))
        return 0
    for r in rows:
        print(f"{r['hosts']:4} hosts, {r['qps']:2} queue pairs a NIC, {r['backup']:6} {r['dead']:27} "
              f"{r['ms']:8.3f} ms, x{r['factor']:.3f} (closed form {r['closed']:.3f})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
