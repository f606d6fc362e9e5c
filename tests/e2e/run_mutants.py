#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The oracle must prove itself: verify has to fail on stock under every fault, and on builds of the
drop-in with one rule broken (docs/mutants.md). Ends 0 if all of them were caught."""
import argparse
import os
import re
import subprocess
import sys

from shiftlab.variants import variant

HERE = os.path.dirname(os.path.abspath(__file__))

# number, what is broken, the moments that can show it, and what verify is told besides
MUTANTS = (
    (1, "receive count fixed before the carrier is quiesced", "mid-message,switch,lose-ack,both", ()),
    (2, "resubmitted before the peer's answer", "lose-ack,lose-answer,mid-message,switch", ()),
    (3, "a completion dropped", "lose-ack,responder,initiator,switch", ()),
    (4, "a receive laid out of order", "responder,initiator,lose-ack,switch", ()),
    (5, "a completed WRITE laid again", "switch,initiator,responder,lose-ack", ("--patterns", "g")),
)


def judge(args, title, extra):
    """Runs the verifier; returns whether it caught what is broken, and how it named it."""
    argv = [sys.executable, os.path.join(HERE, "run_verify.py"), "--build", args.build, "--quiet",
            "--stuck", "8", *extra]
    done = subprocess.run(argv, capture_output=True, text=True)
    reasons = sorted(set(re.findall(r"(?:server|client): ([A-Z_]+):", done.stdout)))
    seeds = len(re.findall(r"^(?:FAIL|ok) +seed", done.stdout, re.M))
    caught = done.returncode == 0
    print(f"{'ok  ' if caught else 'FAIL'} {title}: "
          f"{'caught' if caught else 'NOT caught'} in {seeds} runs {' '.join(reasons)}", flush=True)
    if not caught:
        print(done.stdout[-1500:] + done.stderr[-1500:])
    return caught


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", default="build")
    p.add_argument("--seeds", default="1..40", help="tried for each broken build")
    p.add_argument("--stock-seeds", default="1..30", help="all must fail")
    p.add_argument("--only", help="numbers, comma-separated; 0 is stock")
    args = p.parse_args()
    wanted = [int(n) for n in args.only.split(",")] if args.only else [0, *(m[0] for m in MUTANTS)]
    results = []
    if 0 in wanted:
        results.append(judge(args, "stock", ["--stock", "--seeds", args.stock_seeds]))
    for number, what, moments, more in MUTANTS:
        if number in wanted:
            libdir = variant(args.build, f"mutant_{number}")
            results.append(judge(args, f"mutant {number} ({what})",
                                 ["--libdir", libdir, "--must-fail", "--seeds", args.seeds,
                                  "--moments", moments, *more]))
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
