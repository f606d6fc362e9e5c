#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The step function of the proof, compiled: runs that it must accept, and those that it must reject and where.

Also a random walk, in which what the theorems say is looked at after each step; its seed is printed, and --seed
replays it.

usage: run_accept.py [--build DIR] [--labels N] [--seed S]
"""
import argparse
import os
import re
import sys
import time

import coq

FOLDER = os.path.join(coq.HERE, "accept")


def build_acceptor(folder):
    """Of the proof, at build time: nothing of it is kept in the source tree."""
    folder.extract(os.path.join(FOLDER, "acceptor.v"), ["Dir"])
    coq.write(folder.at("accept.ml"), coq.read(os.path.join(FOLDER, "accept.ml")))
    coq.command(["ocamlfind", "ocamlopt", "-w", "-a", "-O3", "-o", "accept_run", "acceptor.mli", "acceptor.ml",
                 "accept.ml"], folder.path)
    return folder.at("accept_run")


def judge(said):
    """Lines that are not as the run's name wants them; how many runs there were."""
    wrong, runs = [], 0
    for line in said.strip().split("\n"):
        name, verdict = re.fullmatch(r"(\S+): (.*)", line).groups()
        wanted = name.split("-")[0]
        runs += 1
        if verdict.startswith("accepted"):
            right = wanted == "accept"
        else:
            right = re.fullmatch(rf"rejected at label \d+: {wanted}\b.*", verdict) is not None
        if not right:
            wrong.append(line)
    return wrong, runs


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(coq.ROOT, "build", "proof-accept"))
    parser.add_argument("--labels", type=int, default=400000)
    parser.add_argument("--seed", type=int, default=int(time.time()) & 0xffffff)
    args = parser.parse_args()
    coq.skip_without_coq()
    program = build_acceptor(coq.Folder(args.build))
    said = coq.command([program, os.path.join(FOLDER, "runs.txt")])
    print(said, end="")
    wrong, runs = judge(said)
    print(f"{runs - len(wrong)} of {runs} runs as they should be", flush=True)
    print(coq.command([program, "--walk", str(args.labels), str(args.seed)]), end="")
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (coq.Failure, OSError) as failure:
        print(f"run_accept: {failure}", file=sys.stderr)
        sys.exit(1)
