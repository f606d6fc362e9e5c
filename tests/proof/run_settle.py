#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""sc_settle() against the function of docs/proof/Settle.v that is proven: the same questions to both.

All lists of up to N requests (kind, published, fenced, answered), all counts and one too few and too many, with and
without a dead NIC, also where counts wrap at 2^32; of up to three also with one and two packets each and every expected
PSN (docs/proof/Exact.v), where those wrap at 2^24. Then each rule of settle.c broken on purpose: it must differ.

usage: run_settle.py --asked PROGRAM [--build DIR] [--proof DIR] [--requests N]
"""
import argparse
import os
import subprocess
import sys

import coq

ORACLE = os.path.join(coq.HERE, "settle")
RULES_AT = 2    # requests: enough for each broken rule


def build_oracle(proof, folder):
    """The program that is made of the proof: nothing of it is kept in the source tree."""
    proof.extract(os.path.join(ORACLE, "settle_oracle.v"), ["Exact"], folder)
    coq.write(os.path.join(folder, "walk.ml"), coq.read(os.path.join(ORACLE, "walk.ml")))
    coq.command(["ocamlfind", "ocamlopt", "-w", "-a", "-O3", "-o", "settle_walk", "settle_oracle.mli",
                 "settle_oracle.ml", "walk.ml"], folder)
    return os.path.join(folder, "settle_walk")


def differing(oracle, asked, n, mutant="0"):
    """(lines, how many differ, the first that does)"""
    lines, count, first = 0, 0, None
    with subprocess.Popen([oracle, str(n)], stdout=subprocess.PIPE) as a, \
            subprocess.Popen([asked, str(n), mutant], stdout=subprocess.PIPE) as b:
        for want, have in zip(a.stdout, b.stdout):
            lines += 1
            if want != have:
                count += 1
                first = first or (lines, want, have)
        if a.stdout.read(1) or b.stdout.read(1):
            raise coq.Failure(f"one of the two ended early, after {lines} lists")
    if a.returncode or b.returncode:
        raise coq.Failure(f"{oracle}: exit {a.returncode}; {asked}: exit {b.returncode}")
    return lines, count, first


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--asked", required=True, help="settle_asked of this build")
    coq.program_folders(parser, "proof-settle")
    parser.add_argument("--requests", type=int, default=4)
    args = parser.parse_args()
    coq.skip_without_coq()
    oracle = build_oracle(*coq.folders_of(args))
    failed = False
    lines, count, first = differing(oracle, args.asked, args.requests)
    print(f"{lines} lists of up to {args.requests} requests: {count} differ", flush=True)
    if first:
        print(f"list {first[0]}, proven: {first[1].decode()}list {first[0]}, sc_settle: {first[2].decode()}")
        failed = True
    for line in coq.command([args.asked, "--rules"]).split("\n"):
        if line:
            mutant, name = line.split()
            _, count, _ = differing(oracle, args.asked, RULES_AT, mutant)
            print(f"{name:24} {f'{count} lists differ' if count else 'NOT SEEN'}", flush=True)
            failed |= not count
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (coq.Failure, OSError) as failure:
        print(f"run_settle: {failure}", file=sys.stderr)
        sys.exit(1)
