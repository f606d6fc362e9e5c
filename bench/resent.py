#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What is sent again after a fault, against a blind resend of all that was outstanding: ib_write_bw, 4 and 64 KiB,
128 requests under way, by what is lost; with the exact count (the default) and with the count of receives
alone (SHIFT_EXACT=off), which knows nothing of WRITEs and so is the blind resend. Writes
out/resent.json: rows of {size, fault, exact, outstanding_bytes, resent_bytes, share, fallback_us}."""
import argparse
import re
import statistics
import sys
import time

from shiftlab.lab import Lab, Shift, free_port, wait_for
from shiftlab.results import save

SIZES = (4096, 65536)
FAULT_AT_S, RUN_S = 0.7, 2
# the client, which writes, is on h0. Of a fault that loses both ways, what had not run must be sent in any case
FAULTS = {
    "answers lost": ("lose-acks", "h0/mlx5_0"),
    "own port": ("port-down", "h0/mlx5_0"),
    "peer's port": ("port-down", "h1/mlx5_0"),
    "switch": ("switch-down", "rail0"),
}


def once(args, size, fault, exact, number):
    """One job, one fault: the client's move."""
    with Lab(args.build, seed=number) as lab:
        argv = ["ib_write_bw", "-d", "mlx5_0", "-x", "0", "-F", "-s", str(size), "-D", str(RUN_S), "-p",
                str(free_port())]
        shift = Shift(log="info", exact=exact)
        server = lab.start("h1", argv, "server", shift)
        server.await_listening()
        client = lab.start("h0", argv + ["127.0.0.1"], "client", shift)
        for p in (server, client):
            wait_for("protection", lambda p=p: lab.protected(p) or not p.running(), 15)
        time.sleep(FAULT_AT_S)
        lab.fault(*FAULTS[fault])
        for p in (server, client):
            if p.wait(60):
                raise RuntimeError(f"{p.name} ended with {p.process.returncode}\n{p.tail()}")
        first = re.search(r" moved from .*: (\d+) requests sent again, (\d+) settled", lab.shift_log(client))
        times = [m["fallback_us"] for m in lab.moves(client) if m["fallback_us"]]
        return first and (int(first[1]), int(first[2]), times[0] if times else None)


def row(args, size, fault, exact):
    moves = [m for i in range(args.runs) if (m := once(args, size, fault, exact, i + 1))]
    resent = sum(again for again, _, _ in moves) * size
    outstanding = sum(settled for _, settled, _ in moves) * size + resent
    if not outstanding:
        raise RuntimeError(f"{fault}: nothing was outstanding at any fault")
    times = [us for _, _, us in moves if us]
    result = {"size": size, "fault": fault, "exact": exact == "auto", "runs": len(moves),
              "outstanding_bytes": outstanding, "resent_bytes": resent, "share": resent / outstanding,
              "fallback_us": statistics.median(times) if times else None}
    print(f"{size:6} B, {fault:13}, {'exact count' if exact == 'auto' else 'blind':11}: {outstanding:9} bytes "
          f"outstanding, {resent:9} sent again: {100 * result['share']:5.1f} %; fallback "
          f"{result['fallback_us'] or float('nan'):.0f} us", flush=True)
    return result


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", default="build")
    p.add_argument("--out", default="out")
    p.add_argument("--runs", type=int, default=10, help="faults for each row")
    args = p.parse_args()
    rows = [row(args, size, fault, exact) for size in SIZES for fault in FAULTS for exact in ("auto", "off")]
    print("A request that never ran must be sent in any case: it is among what is sent again.")
    save(args.out, "resent.json", {"rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
