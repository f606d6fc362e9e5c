#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Checks the model of the protocol (docs/model/shift.pml, stay.pml, home.pml, paths.pml) with spin.

Every configuration is searched to the end and must have no error; every wrong variant, which has
one rule taken out, must have one, against the promise that the rule is there for.

usage: run_model.py [--few | --only NAME...] [--jobs N] [--keep DIR]      (--only once for each)
       run_model.py --replay NAME [--keep DIR]
       run_model.py --list

--few        half of the small configurations and a third of the wrong variants, drawn: they are printed
--keep DIR   leaves generated programs and trails in DIR
--replay     searches NAME and prints the run that ends in its error, one step a line
--list       what each configuration and each wrong variant is about
"""
import argparse
import concurrent.futures
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/model")
OWN = ("stay", "home", "paths")   # configurations and wrong variants of stay.pml, ... begin so; others are of shift.pml
MEMORY_MIB = 1900
DEPTH = 20000

# name: (what it is about, definitions)
CONFIGS = {
    "kinds": ("every request before every other, one fault, also a NIC that hangs",
              "ANY_KINDS SICK=1"),
    "double": ("two faults, one a NIC that hangs; a path comes back",
               "FAULTS=2 SICK=1 LATE=2"),
    "flaps": ("two faults, both paths come back", "FAULTS=2 HEALS=2 LATE=2"),
    "both-sick": ("two NICs hang, nothing comes back", "FAULTS=2 SICK=2 HEALS=0"),
    "three": ("a WRITE behind a SEND, a NIC that hangs", "A0=WRITE A1=SEND A2=WRITE SICK=1"),
    "return": ("ordered return to path 0, one fault at every moment of it",
               "ORDERED=1 START_PATH=1"),
    "cancel": ("two attempts called off at any moment, and late words about them",
               "ORDERED=2 START_PATH=1 FAULTS=0 LATE=2"),
    "return-atomic": ("ordered return with an atomic under way, one fault",
                      "ORDERED=1 START_PATH=1 A0=ATOMIC A1=0"),
    "return-rnr": ("ordered return; a SEND waits for a receive that waits for a SEND; a NIC hangs",
                   "ORDERED=1 START_PATH=1 A0=SEND A1=0 RECV_B=0 SICK=1"),
    "drain": ("path 0 is to be emptied, and a NIC hangs",
              "ORDERED=1 DRAIN=1 SICK=1 HEALS=0 A0=READ"),
    "standby": ("the standby is lost at first, two faults while one is made",
                "PROTECTED=0 FINE FAULTS=2"),
    "loses": ("a NIC dies with WRITEs that it had acknowledged",
              "LOSES SICK=1 A0=WRITE A1=SEND A2=WRITE"),
    "loses-again": ("the same, a second fault, and a WRITE that is seen complete before",
                    "LOSES SICK=1 FAULTS=2 HEALS=0 A0=WRITE A1=WRITE A2=SEND B0=0"),
    "loses-read": ("the same, and a READ that proves",
                   "LOSES SICK=1 A0=WRITE A1=READ A2=SEND"),
    "exact": ("expected PSNs are told, a WRITE of two packets, a NIC that hangs", "EXACT SICK=1"),
    "exact-again": ("the same with an atomic, and a second fault: what was told of an older carrier",
                    "EXACT FAULTS=2 A0=WRITE A1=ATOMIC B0=0"),
    "exact-loses": ("the same, and a NIC dies with WRITEs that it had acknowledged",
                    "EXACT LOSES SICK=1 A0=WRITE A1=SEND B0=0"),
    "ends": ("one side gives up in the middle of a move", "EARLY=1 SICK=1"),
    "stay": ("flaps waited out, an atomic of each side, late words", ""),
    "stay-once": ("the same, one flap", "FLAPS=1"),
    "home": ("two connections to one responder, two atomics of each, a path fails and comes back, a late word", ""),
    "home-late": ("the same, two late words, an atomic of each", "LATE=2 POSTS=1"),
    "home-processes": ("of two processes that agree by a board, one of which dies at any step",
                       "PROCESSES DEATHS=1 POSTS=1 LATE=0"),
    "home-newcomer": ("of two processes, of which one comes at any moment", "PROCESSES NEWCOMER POSTS=1 LATE=0"),
    "paths": ("three paths in any order, two NICs fail, one comes back", "FAULTS=2 HEALS=1 LATE=0"),
    "paths-late": ("one fails and comes back, a late word", "FAULTS=1 HEALS=1"),
    "paths-drain": ("two fail, one is drained", "FAULTS=2 HEALS=0 DRAINS=1 LATE=0"),
}

BIG = ("kinds", "double", "flaps", "return", "standby", "exact-again", "stay", "home", "home-late", "home-processes", "home-newcomer", "paths", "paths-late",
       "paths-drain")   # worth the compiler's time

# That no run goes on for ever is what makes the ends of runs all there is to judge.
NO_CYCLES = {
    "kinds-ends": "SICK=1 EARLY=1 A0=ATOMIC",
    "return-ends": "ORDERED=1 START_PATH=1 FAULTS=0 LATE=2",
    "standby-ends": "PROTECTED=0 FINE",
    "exact-ends": "EXACT A0=WRITE A1=ATOMIC B0=0",
}

# What --few draws half of: each model, moves and an ordered switch, NICs that hang or lose, exact counts, an early end, no cycle.
FEW = ("cancel", "both-sick", "loses-read", "exact", "ends", "stay-once", "home-processes", "home-newcomer", "paths-late",
       "exact-ends")

# name: (what is wrong, definitions that take the rule out, promises one of which must break)
WRONG = {
    "count-before-quiesce": (
        "the receive count is taken before the old carrier is in ERR",
        "W_COUNT_EARLY NO_P5", (2, 5)),
    "resubmit-before-answer": (
        "settled without the peer's count, as if nothing had arrived",
        "W_NO_ANSWER NO_P5", (2, 5)),
    "delivered-write-again": (
        "a WRITE before a counted SEND is sent again: it lands in memory that was used again",
        "W_WRITE_AGAIN", (5,)),
    "atomic-again": (
        "an atomic of unknown fate is sent again",
        "W_ATOMIC_AGAIN A0=ATOMIC", (4,)),
    "delivered-read-nop": (
        "a READ before a counted SEND counts as complete: it has no data",
        "W_READ_NOP A0=READ", (1,)),
    "acknowledged-is-placed": (
        "what a dead NIC acknowledged is taken to be in memory",
        "W_ACKED_IS_PLACED LOSES SICK=1 A0=WRITE A1=SEND", (3,)),
    "same-qpn": (
        "the new carrier takes packets of the old one (same QPN and PSN)",
        "W_SAME_QPN A0=SEND A1=SEND RECV_B=2", (2,)),
    "answer-of-any-epoch": (
        "a count that was said for another epoch is believed",
        "W_ANY_EPOCH FAULTS=2 A0=SEND A1=0 NO_P5", (2,)),
    "count-per-carrier": (
        "counts begin anew with each carrier: lost when an epoch is skipped",
        "W_COUNT_PER_CARRIER FAULTS=2 A0=SEND A1=0", (2, 7)),
    "receives-late": (
        '"I am there" before the receives are laid: a SEND in the wrong receive',
        "W_RECEIVES_LATE A0=SEND A1=SEND B0=0", (2,)),
    "no-resend": (
        "a message is sent once",
        "W_NO_RESEND", (7,)),
    "one-control-path": (
        "control messages go over path 0 only: stuck while the other lives",
        "W_ONE_PATH", (7,)),
    "fence-without-timeout": (
        "no end of waiting for a fence: a SEND waits for a receive behind a withheld SEND",
        "W_NO_FENCE_TIMEOUT ORDERED=1 START_PATH=1 FAULTS=0 A0=SEND A1=0 RECV_B=0", (7,)),
    "switch-number-again": (
        "a cancelled attempt's number is used again: never back on the default path",
        "W_NUMBER_AGAIN ORDERED=1 START_PATH=1 FAULTS=0", (7,)),
    "back-after-fenced": (
        "after its own FENCED a side goes back by itself: the peer has left, requests are repeated",
        "W_BACK_AFTER_FENCED ORDERED=1 START_PATH=1 FAULTS=0", (9,)),
    "leave-without-peer": (
        "the own FENCED is enough to leave",
        "W_LEAVE_ALONE ORDERED=1 START_PATH=1 FAULTS=0", (9,)),
    "old-receives-left": (
        "the receive queue of a path left earlier is used again as it is",
        "W_LEFTOVERS FAULTS=2 A0=SEND A1=SEND RECV_B=2", (2,)),
    "no-lifetime": (
        "a hanging NIC's count is taken while packets are on their way",
        "W_NO_LIFETIME SICK=1 NO_P5", (2, 5)),
    "no-peer-quiesce": (
        "a hanging NIC's count is taken before the peer has stopped",
        "W_NO_PEER_QUIESCE SICK=1 NO_P5", (2, 5)),
    "lost-carrier-ends": (
        "a lost carrier without a standby ends the connection, though there was a way",
        "W_NO_STRANDED PROTECTED=0", (7,)),
    "lost-not-told": (
        "STATE does not say that a carrier is lost: one side waits for ever",
        "W_LOST_UNTOLD FAULTS=2", (7,)),
    "epoch-number-again": (
        "the next standby takes the number of one that was lost",
        "W_EPOCH_AGAIN ORDERED=1 START_PATH=1", (7,)),
    "fatal-not-told": (
        "a side that ended does not say so",
        "W_FATAL_UNTOLD EARLY=1", (7,)),
    "x-of-other-epoch": (
        "an expected PSN of another carrier is told, and believed",
        "W_X_OTHER EXACT FAULTS=2 A0=WRITE A1=ATOMIC B0=0", (3, 4)),
    "x-though-sick": (
        "what a hanging NIC expects is told, though it lost what it had acknowledged",
        "W_X_SICK EXACT LOSES SICK=1 A0=WRITE A1=SEND B0=0", (3,)),
    "x-before-flush": (
        "the expected PSN is asked for before the carrier is in ERR",
        "W_X_EARLY EXACT A0=WRITE A1=ATOMIC", (4,)),
    "x-as-delivered-when-cut": (
        "a WRITE of which one packet was taken counts as executed",
        "W_X_CUT EXACT", (3,)),
    "atomic-ran-again": (
        "an atomic that ran without an answer is sent again",
        "W_X_ATOMIC_AGAIN EXACT A1=ATOMIC", (4,)),
    "stay-leave-without-go": (
        "who waits out a flap leaves though the peer waits for an answer",
        "W_WITHOUT_GO", (8,)),
    "stay-open": (
        "sends go on behind GO",
        "W_OPEN", (8,)),
    "stay-back-alone": (
        "after its own GO a side goes on by itself: the peer leaves on it",
        "W_BACK_ALONE", (8,)),
    "home-gate-open": (
        "who has moved runs atomics without a grant",
        "W_GATE_OPEN", (6,)),
    "home-grant-of-any": (
        "a grant for one carrier serves another",
        "W_GRANT_OF_ANY", (6,)),
    "home-bar-unheard": (
        "the others count as stopped before they have answered",
        "W_BAR_UNHEARD", (6,)),
    "home-use-forgotten": (
        "who answers is taken to have no atomic under way",
        "W_USE_FORGOTTEN", (6,)),
    "home-not-quiesced": (
        "granted before the NIC that was left is quiesced",
        "W_NOT_QUIESCED FAULTS=2 POSTS=1 LATE=0 NO_HEALS", (6,)),
    "home-split": (
        "whoever asks gets the NIC that it is on",
        "W_SPLIT", (6,)),
    "home-lifted-early": (
        "the bar is lifted while one may still run atomics on the other NIC",
        "W_LIFTED_EARLY", (6,)),
    "home-others-unseen": (
        "what the other process has claimed is not looked at",
        "W_OTHERS_UNSEEN PROCESSES POSTS=1 LATE=0", (6,)),
    "home-unclaimed": (
        "what a process lets run stands on no board",
        "W_UNCLAIMED PROCESSES POSTS=1 LATE=0", (6,)),
    "home-told-unclaimed": (
        "a process that dies had told its peer of what does not stand on the board yet",
        "W_TOLD_UNCLAIMED PROCESSES DEATHS=1 POSTS=1 LATE=0", (6,)),
    "home-dead-early": (
        "the claim of a process that died is cleared before its queue pair is closed",
        "W_DEAD_EARLY PROCESSES DEATHS=1 POSTS=1 LATE=0", (6,)),
    "home-entered-blind": (
        "who comes lets atomics run on the default NIC at once",
        "W_ENTERED_BLIND PROCESSES NEWCOMER POSTS=1 LATE=0", (6,)),
    "paths-stampede": (
        "the lowest path that is left, whatever was dealt: all connections go to one NIC",
        "W_STAMPEDE FAULTS=1 HEALS=0 LATE=0", (6,)),
    "paths-other": (
        "each end makes its carrier on the path that it would choose itself",
        "W_OTHER_PATH HEALS=0 LATE=0", (6,)),
    "paths-number-again": (
        "the next standby takes the number of one that failed: of another path",
        "W_NUMBER_AGAIN HEALS=0", (6,)),
    "paths-masks-of-any": (
        "a late word of which paths are up counts",
        "W_MASKS_OF_ANY FAULTS=1", (6, 7)),
    "paths-drained-last": (
        "a drained path is not gone to, though it is the last one",
        "W_DRAINED_LAST HEALS=0 DRAINS=1 LATE=0", (7,)),
}


class Failure(Exception):
    pass


def command(args, cwd):
    done = subprocess.run(args, cwd=cwd, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def definitions(text):
    return [f"-D{word}" for word in text.split()]


def model_of(name):
    own = name.split("-")[0]
    return os.path.join(MODELS, (own if own in OWN else "shift") + ".pml")


def build(where, model, defs, flags):
    """Generates and compiles the program that searches."""
    os.makedirs(where, exist_ok=True)
    rc, out = command(["spin", "-a", *definitions(defs), model], where)
    if rc or "error" in out.lower():
        raise Failure(f"spin -a:\n{out}")
    compiler = os.environ.get("CC", "cc")
    rc, out = command([compiler, "-w", "-DNOREDUCE", f"-DMEMLIM={MEMORY_MIB}", *flags, "-o", "pan",
                       "pan.c"], where)
    if rc:
        raise Failure(f"{compiler} pan.c:\n{out}")


def figure(pattern, out):
    match = re.search(pattern, out)
    return float(match.group(1)) if match else 0


def search(where, flags):
    """Runs it: what it said, in numbers."""
    start = time.monotonic()
    _, out = command(["./pan", "-n", f"-m{DEPTH}", *flags], where)
    broken = re.search(r"pan:\d+: (.*)", out)
    promise = re.search(r"assertion violated \(+ ?!\((\d)\)", out)
    truncated = "max search depth too small" in out or "out of memory" in out or \
        "Search not completed" in out and not broken
    return {
        "errors": int(figure(r"errors: (\d+)", out)) if "errors:" in out else -1,
        "states": int(figure(r"([\d.e+]+) states, stored", out)),
        "transitions": int(figure(r"([\d.e+]+) transitions", out)),
        "depth": int(figure(r"depth reached (\d+)", out)),
        "mib": figure(r"([\d.]+)\s+total actual memory", out),
        "seconds": time.monotonic() - start,
        "said": broken.group(1) if broken else "",
        "promise": int(promise.group(1)) if promise else 0,
        "truncated": truncated,
        "out": out,
    }


def checked(name):
    return sum(1 << promise for promise in WRONG[name][2])


def defs_of(name):
    if name in CONFIGS:
        return CONFIGS[name][1]
    if name in NO_CYCLES:
        return NO_CYCLES[name]
    if name in WRONG:
        return f"{WRONG[name][1]} CHECK_ONLY={checked(name)}"
    raise Failure(f"there is no {name}")


def check_right(name, defs, root, cycles):
    where = os.path.join(root, name)
    build(where, model_of(name), defs, ["-O1" if name in BIG else "-O0", "-DNP" if cycles else "-DSAFETY"])
    got = search(where, ["-l", "-w21"] if cycles else ["-w23"])
    bad = got["errors"] != 0 or got["truncated"]
    return name, bad, got, "" if not bad else got["said"] or got["out"]


def check_wrong(name, root):
    promises = WRONG[name][2]
    where = os.path.join(root, name)
    build(where, model_of(name), defs_of(name), ["-O0", "-DSAFETY"])
    got = search(where, ["-w21"])
    if got["errors"] == 0:
        return name, True, got, "its error was not found"
    if got["promise"] not in promises:
        return name, True, got, f"broke something else: {(got['said'] or got['out'])[:300]}"
    promise = got["promise"]
    return name, False, got, f"breaks {promise_name(promise, name)}"


def line(name, got, text):
    return (f"{name:24} {got['states']:>9} {got['transitions']:>10} {got['depth']:>6} "
            f"{got['mib']:>7.0f} {got['seconds']:>7.1f}  {text}")


def jobs(only, root):
    """Longest first, so that two at a time come out even."""
    for name, (about, defs) in CONFIGS.items():
        if not only or name in only:
            yield about, check_right, (name, defs, root, False)
    for name, defs in NO_CYCLES.items():
        if not only or name in only:
            yield "no run without end", check_right, (name, defs, root, True)
    for name in WRONG:
        if not only or name in only:
            yield None, check_wrong, (name, root)


def run(only, workers, root):
    failed, states, start = [], 0, time.monotonic()
    print(f"{'configuration':24} {'states':>9} {'steps':>10} {'depth':>6} {'MiB':>7} {'s':>7}")
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        todo = [(about, pool.submit(check, *args)) for about, check, args in jobs(only, root)]
        if not todo:
            raise Failure(f"there is none of {only}")
        for about, future in todo:
            name, bad, got, text = future.result()
            if about is None:
                text = f"{'NOT CAUGHT' if bad else 'caught'}: {text}"
            else:
                states += got["states"]
                text = f"ERROR: {text}" if bad else f"0 errors: {about}"
            failed += [name] if bad else []
            print(line(name, got, text), flush=True)
    print(f"{len(todo) - len(failed)} of {len(todo)} as they should be, {states} states without "
          f"error, {time.monotonic() - start:.0f} s" if not failed else
          f"FAILED: {' '.join(failed)}")
    return 1 if failed else 0


def drawn():
    """They are the same each time, until somebody changes the model: who does takes them all."""
    dice = random.SystemRandom()
    names = dice.sample(FEW, len(FEW) // 2) + dice.sample(sorted(WRONG), len(WRONG) // 3)
    print(f"drawn: {' '.join(f'--only {name}' for name in names)}", flush=True)
    return names


def step_place(number, source):
    """What the line says, for want of a name of the step."""
    text = source[number - 1].strip()
    return re.sub(r"\s+", " ", re.sub(r":: (d_step|atomic) \{ ", "", text))[:70]


def replay(name, root):
    """Prints the trail of NAME: the step, and what it changed."""
    defs = defs_of(name)
    where = os.path.join(root, name)
    build(where, model_of(name), defs, ["-O1", "-DSAFETY"])
    got = search(where, ["-w23"])
    if got["errors"] == 0:
        print(f"{name}: no error")
        return 0
    model = model_of(name)
    _, out = command(["spin", "-k", os.path.basename(model) + ".trail", "-p", "-g", *definitions(defs), model],
                     where)
    with open(model, encoding="utf-8") as file:
        source = file.read().split("\n")
    values, before, title, last = {}, {}, None, None
    for text in out.split("\n") + ["END"]:
        head = re.match(r"\s*(\d+):\s+proc\s+\d+ \((\w*):?.*?\) \S*?:(\d+) \(state \d+\)", text)
        if text == "END" or (head and head.group(1) != last):
            changed = [f"{k}={values[k]}" for k in before if before[k] != values[k]]
            if title and changed:
                print(f"{title}\n        {' '.join(changed)}")
            before = {}
        if head and head.group(1) != last:
            last = head.group(1)
            title = f"{last:>4} line {head.group(3)}: {step_place(int(head.group(3)), source)}"
        value = re.match(r"\s+(\w+(?:\[\d+\])?) = (-?\d+)$", text)
        if value and not re.match(r"(m_\w+|says\[\d\]|msg|i|bound|unknown)$", value.group(1)):
            key = value.group(1)
            before.setdefault(key, values.get(key, "0"))
            values[key] = value.group(2)
    print(got["said"])
    return 0


def promise_name(promise, name):
    """What the number stands for in the model of that configuration or wrong variant."""
    own = {"stay": {8: "P9"}, "home": {6: "N1"}, "paths": {6: "the dealt path, at both ends"}}
    return own.get(name.split("-")[0], {9: "an ordered switch repeats nothing"}).get(promise, f"P{promise}")


def show():
    for name, (about, _) in CONFIGS.items():
        print(f"{name:24} {about}")
    for name in NO_CYCLES:
        print(f"{name:24} no run without end")
    print("\nwrong variants, and what each breaks:")
    for name, (what, _, promises) in WRONG.items():
        print(f"{name:24} {what} ({', '.join(promise_name(p, name) for p in promises)})")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--few", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep")
    parser.add_argument("--replay")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    if args.list:
        show()
        return 0
    if not shutil.which("spin"):
        print("run_model: no spin here; Debian's package is called spin", file=sys.stderr)
        return 1
    root = args.keep or tempfile.mkdtemp(prefix="shift-model-")
    try:
        only = drawn() if args.few else args.only
        return replay(args.replay, root) if args.replay else run(only, args.jobs, root)
    except Failure as failure:
        print(f"run_model: {failure}", file=sys.stderr)
        return 1
    finally:
        if not args.keep:
            shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
