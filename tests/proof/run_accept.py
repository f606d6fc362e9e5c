#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The step functions of the proof, compiled: the simulation's runs must be runs of the proof.

- Written runs that it must accept, and those that it must reject and where (accept/runs.txt).
- A random walk, in which what the theorems say is looked at after each step.
- The simulation's schedules, each connection, its directions and its switches: none may be rejected
  (accept/replay.ml).
- The simulation with a rule broken on purpose: each that a promise of safety needs must be rejected.

Seeds are printed, and --seed replays them. --replay S prints why schedule S is rejected.

usage: run_accept.py --sim PROGRAM [--build DIR] [--proof DIR] [--labels N] [--schedules N] [--seed S] [--replay S]
       run_accept.py --sim PROGRAM --classes
"""
import argparse
import os
import re
import subprocess
import sys
import time

import coq

FOLDER = os.path.join(coq.HERE, "accept")


# Rules of the simulation without which a promise of safety breaks, P1 to P6, and the ordered switch's.
MUTANTS = """count-before-quiesce resubmit-before-answer no-lifetime no-peer-quiesce receives-late answer-of-any-epoch
    delivered-read-nop delivered-write-again atomic-again fenced-read-again count-unchecked acknowledged-is-placed
    same-qpn publish-before-settle receives-reordered receives-not-laid-again idle-counts-as-flushed count-not-final
    flush-taken-for-success completion-dropped lower-standby-adopted application-error-retried late-message-obeyed
    leave-without-peer back-after-fenced fenced-not-drained fence-open cancelled-number-used-again answer-kept
    count-per-carrier carrier-in-use-destroyed""".split()
# The others: what remains is safe, and does not come to its end, or not to the right one (P7, P9).
LIVENESS = {
    "no-resend": "a lost message is never said again: who waits for it waits for ever",
    "lost-not-told": "the peer waits on a carrier that is lost",
    "epoch-used-again": "the peer takes a number that it knows to be lost for late: no standby is ever ready",
    "fence-timeout-leaves": "an atomic is outstanding: settling ends the connection, with errors at both ends",
    "patience-shorter-than-retry": "the connection ends earlier than on stock",
    "patience-of-nominal-retries": "the connection ends earlier than on stock, whose NIC may retry for longer",
    "no-turning-back": "a switch that nobody forced ends the connection",
    "no-deadline": "without any path it never ends",
    "rest-alone": "one end waits for a standby that the other does not make",
    "rest-away": "nothing leads back to the default NIC",
    "doubt-not-told": "no standby is made, though one is missed",
    "one-control-path": "the ends do not hear of each other when that path dies",
    "fatal-not-passed-on": "the connection has ended, and its application never gets its errors",
    "hold-down-ignored": "traffic goes back to a path that has not stood still",
    "both-lead": "two leaders make standbys against each other, without end",
    "stay-forever": "a flap is waited out without an end",
    "leave-unheard": "the connection ends earlier than on stock: its peer was halted, and could not follow",
    "leave-without-go": "the connection ends earlier than on stock: the answer of an atomic is destroyed",
    "other-path": "each end waits on a path that the other does not take",
    "stampede": "all go to one path, whatever their order: slow, and right",
    "drained-last-path": "the last path is not used: the connection waits for one that does not come",
    "left-over-leads": "the standbys of two ends that have both led are not each other's: none is ever ready",
}
# Those of the exact count. Of it the proof has what is decided (Exact.v), not the protocol: where it says something else
# than the count of receives, the acceptor passes over the rest of the connection. tests/sim holds them to the truth
# (X1 to X4), tests/proof/settle the five that are in settle.c to Exact.v.
EXACT = """x-of-other-epoch x-though-sick x-before-flush x-as-delivered-when-cut read-is-one-packet mtu-of-default-carrier
    wrap-24 trust-unchecked atomic-ran-again atomic-ran-dropped""".split()
# Those of compare-and-swaps that are decided by their word, of which the proof knows nothing: where a word decides, the
# acceptor passes over the rest likewise.
OWNER = "own-value-means-lost other-value-means-won".split()
# Those of the log's word (tests/sim/sim_log.h, L1), of which it knows nothing either.
LOG = """log-before-data log-of-old-carrier log-counts-beyond log-of-other-carrier log-read-before-flush log-counts-hidden
    log-packet-not-numbered log-packet-before-forgotten log-ends-with-a-move""".split()
# Those of atomics whose results survive (tests/sim/sim_uid.h, U1), which are not in it: schedules for the acceptor have none.
UID = """uid-swap-again uid-step-dropped uid-slot-reused uid-confirm-before-commit uid-commit-by-write uid-record-first
    uid-record-by-write uid-unknown-is-lost uid-left-alone""".split()
# That of places in completion queues (tests/sim/sim_room.h, R1), which the proof does not have.
ROOM = ["flush-takes-room"]
MUTANT_SCHEDULES = 500
MUTANT_TRIES = 160      # the simulation ends at its own first violation, which may come before a label does


def build(proof, folder):
    """Of the proof, at build time: nothing of it is kept in the source tree."""
    proof.extract(os.path.join(FOLDER, "acceptor.v"), ["Whole"], folder)
    proof.extract(os.path.join(coq.HERE, "settle", "settle_oracle.v"), ["Exact"], folder)
    for name in ("accept", "replay"):
        coq.write(os.path.join(folder, name + ".ml"), coq.read(os.path.join(FOLDER, name + ".ml")))
        coq.command(["ocamlfind", "ocamlopt", "-w", "-a", "-O3", "-o", name + "_run", "acceptor.mli", "acceptor.ml",
                     "settle_oracle.mli", "settle_oracle.ml", name + ".ml"], folder)
    return os.path.join(folder, "accept_run"), os.path.join(folder, "replay_run")


def simulate(sim, replay, seed, schedules, *more, why=()):
    """(what the acceptor said, what the simulation said): one writes, the other reads."""
    into, out = os.pipe()
    with subprocess.Popen([replay, *why], stdin=into, stdout=subprocess.PIPE, text=True) as reader:
        os.close(into)
        argv = [sim, "--seed", str(seed), "--seeds", str(schedules), "--labels", f"/dev/fd/{out}", *more]
        with subprocess.Popen(argv, pass_fds=[out], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True) as writer:
            os.close(out)
            said = reader.stdout.read()
            theirs = writer.stdout.read()
    if writer.returncode and not more:
        raise coq.Failure(f"{' '.join(argv)}: exit {writer.returncode}\n{theirs[-3000:]}")
    return said.strip(), theirs


def figure(said, what):
    return int(re.search(rf"(\d+) {what}", said.split("\n")[-1]).group(1))


def check_schedules(sim, replay, seed, schedules):
    """No run of the simulation may be none of the proof."""
    said, _ = simulate(sim, replay, seed, schedules)
    print(f"seeds {seed} to {seed + schedules - 1}:\n{said}", flush=True)
    if figure(said, "schedules") != schedules or not figure(said, "settled"):
        raise coq.Failure("that is not all that was asked for")
    return figure(said, "rejected") == 0 and figure(said, "of") == 0


def check_mutant(sim, replay, name, seed):
    """It must be rejected; prints where first."""
    for i in range(MUTANT_TRIES):
        said, _ = simulate(sim, replay, seed + i * MUTANT_SCHEDULES, MUTANT_SCHEDULES, "--mutant", name)
        if figure(said, "rejected"):
            print(f"{name:28} {re.search(r'seed .*: rejected,.*', said).group()}", flush=True)
            return True
    print(f"{name:28} ACCEPTED, from seed {seed} on", flush=True)
    return False


def check_classes(sim):
    """Each rule that the simulation can break is of safety or not; prints why not."""
    known = coq.command([sim, "--list-mutants"]).split()
    classes = [*MUTANTS, *LIVENESS, *EXACT, *OWNER, *LOG, *UID, *ROOM]
    if sorted(known) != sorted(classes):
        raise coq.Failure("of safety, of liveness, of the exact count, of words, of the log, of UIDs, of room? "
                          f"{' '.join(set(known) ^ set(classes))}: tests/proof/run_accept.py has the lists")
    print(f"{len(EXACT)} rules of the exact count, whose protocol is not in the proof: {' '.join(EXACT)}")
    print(f"{len(OWNER)} of words that decide compare-and-swaps, which is not in it either: {' '.join(OWNER)}")
    print(f"{len(LOG)} of the log's word, which is not in it: {' '.join(LOG)}")
    print(f"{len(UID)} of atomics whose results survive, which are not in it: {' '.join(UID)}")
    print(f"{len(ROOM)} of places in completion queues, which is not in it: {' '.join(ROOM)}")
    print(f"{len(MUTANTS)} rules of safety, each must be missed; {len(LIVENESS)} of liveness:")
    for name, why in LIVENESS.items():
        print(f"{name:28} {why}")


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
    coq.program_folders(parser, "proof-accept")
    parser.add_argument("--sim", required=True, help="failover_sim of this build")
    parser.add_argument("--labels", type=int, default=400000, help="of the random walk")
    parser.add_argument("--schedules", type=int, default=10000, help="fresh ones; a million: make proof-long")
    parser.add_argument("--replay", type=int)
    parser.add_argument("--classes", action="store_true", help="look only whether each rule has its class")
    parser.add_argument("--seed", type=int, default=int(time.time()) & 0xffffff)
    args = parser.parse_args()
    check_classes(args.sim)
    if args.classes:
        return 0
    coq.skip_without_coq()
    program, replay = build(*coq.folders_of(args))
    if args.replay is not None:
        said, _ = simulate(args.sim, replay, args.replay, 1, why=("why",))
        print(said)
        return 0
    said = coq.command([program, os.path.join(FOLDER, "runs.txt")])
    print(said, end="")
    wrong, runs = judge(said)
    print(f"{runs - len(wrong)} of {runs} runs as they should be", flush=True)
    print(coq.command([program, "--walk", str(args.labels), str(args.seed)]), end="")
    right = [check_schedules(args.sim, replay, args.seed, args.schedules)]
    right += [check_mutant(args.sim, replay, name, args.seed) for name in MUTANTS]
    return 1 if wrong or not all(right) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (coq.Failure, OSError) as failure:
        print(f"run_accept: {failure}", file=sys.stderr)
        sys.exit(1)
