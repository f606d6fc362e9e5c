#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Slots with flags inside of the data, as NCCL's LL and LL128 have them, through faults; and three broken rules,
each of which the slots must notice (docs/mutants.md).

  slots.py --build DIR [CASE...]

faults       a fault at each kind of moment: nothing goes back, nothing is torn, nothing is lost
uncounted    without the exact count, so that what ran is sent again: the same
older_again  the sender sends an older message of a slot again
too_soon     the sender reuses a slot before it has the completion of the slot's last message
two_pieces   the NICs write each line of 128 bytes in two pieces
"""
import argparse
import os
import platform
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
LINES = platform.machine() == "x86_64"      # whose loads and stores stay in order
NOTICED = {"WENT_BACK", "TORN", "LOST"}
CASES = {
    "faults": ("--seeds", "1..15", "--stuck", "30", "--patterns", "ghi" if LINES else "gi", "--qps", "6"),
    "uncounted": ("--seeds", "16..30", "--stuck", "30", "--patterns", "gh" if LINES else "g", "--qps", "4",
                  "--exact", "off"),
    # the first message that is sent again is number 51 of each queue pair
    "older_again": ("--seeds", "1..5", "--moments", "none", "--patterns", "g", "--qps", "2", "--mutant", "older-again"),
    # a request that ran has to run again, so its answer is lost, and no NIC tells that it ran; links are slow, so
    # that the receiver looks between two messages
    "too_soon": ("--seeds", "1..40", "--moments", "lose-ack", "--patterns", "g", "--qps", "4",
                 "--exact", "off", "--rate", "200M", "--mutant", "too-soon"),
    "two_pieces": ("--seeds", "1..20", "--moments", "none", "--patterns", "h", "--qps", "4", "--torn-lines"),
}


def run(build, case):
    """True if the case ended as it must."""
    if case == "two_pieces" and not LINES:
        print("skip two_pieces: who reads lines needs a processor that keeps loads in order", flush=True)
        return True
    mutant = case not in ("faults", "uncounted")
    argv = [sys.executable, os.path.join(HERE, "run_verify.py"), "--build", build, *CASES[case],
            *(("--must-fail", "--quiet") if mutant else ())]
    done = subprocess.run(argv, stdout=subprocess.PIPE if mutant else None, text=True, check=False)
    if not mutant:
        return done.returncode == 0
    reasons = set(re.findall(r"^ +(?:server|client): ([A-Z_]+):", done.stdout, re.M))
    seeds = len(re.findall(r"^(?:FAIL|ok) +seed", done.stdout, re.M))
    good = done.returncode == 0 and reasons and reasons <= NOTICED
    print(f"{'ok  ' if good else 'FAIL'} {case}: {' '.join(sorted(reasons)) or 'not noticed'} in {seeds} runs",
          flush=True)
    if not good:
        print(done.stdout[-3000:])
    return good


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", required=True)
    p.add_argument("cases", nargs="*", choices=[[], *CASES])
    args = p.parse_args()
    done = [run(args.build, case) for case in args.cases or CASES]
    print(f"{sum(done)} passed, {len(done) - sum(done)} failed")
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main())
