#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""P10 and P11: what SHIFT does not protect sees what it would see without SHIFT. Random programs (queue pairs that are protected,
queue pairs to a peer without SHIFT, those that are foreign by their domain, UD, UC, loopback; small and shared
completion queues, shared receive queues and channels; late objects) under random faults, each run on stock and under SHIFT.
What each bystander saw, completions in their order, events and answers of verbs, must be the same, but for what
tests/lib/shiftlab/bystanders/allowed.json names. Where it is not, the script is run on stock twice more: what stock itself
sees one way or another is no difference.

  bystanders.py --build DIR [--scripts N] [--first SEED] [--jobs N] [--seed N | --seeds N...] [--only KIND] [--tight]
  (--seed: that one, told in full; --only: flap, silent, hang, gid, drain, retire, die, death, kill)

Writes out/bystanders.json; status 1 if there was a difference, a hang or a wrong byte.
"""
import argparse
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from shiftlab.bystanders.compare import allowed_rules, differences
from shiftlab.bystanders.play import Overtime, Play, Seen
from shiftlab.bystanders.script import Script
from shiftlab.lab import draw_seed

AGAIN = 2       # runs of stock beside the first, where something differs


class Result:
    def __init__(self, script):
        self.script = script
        self.bystanders = sum(2 for u in script.units if not u.protected)
        self.differences = []
        self.unsteady = []      # stock itself saw one or the other
        self.allowed = {}
        self.hangs = []
        self.wrong = []
        self.odd = []
        self.stock_broken = []
        self.unprotected = 0
        self.seconds = 0.0
        self.log = ""

    def well(self):
        return not (self.differences or self.odd or self.hangs or self.wrong or self.stock_broken)

    def details(self):
        return {"seed": self.script.seed, "script": str(self.script),
                "differences": [{"step": f"{key[0]} {self.script.steps[key[0]][0]}", "process": key[1], "object": key[2],
                                 "what": key[3], "stock": a, "shift": b} for key, a, b in self.differences],
                "odd": self.odd,
                "hangs": self.hangs, "wrong": self.wrong, "stock": self.stock_broken}


def run(play, tries=3):
    """A run that was too slow for its script tells nothing, and is made again."""
    for _ in range(tries):
        try:
            return play().run()
        except Overtime as e:
            said = e
    slow = Seen()
    slow.hangs.append(f"{said}, in each of {tries} runs")
    return slow


def judge(args, result, script, rules):
    """Runs it on both, and on stock again where something differs."""
    stock = run(lambda: Play(args.build, script, False))
    if stock.hangs or stock.wrong or stock.odd:
        result.stock_broken = stock.hangs + stock.wrong + sorted(stock.odd)
        return
    shift = run(lambda: Play(args.build, script, True, stock))
    result.hangs, result.wrong, result.unprotected = shift.hangs, shift.wrong, shift.unprotected
    result.odd = sorted(shift.odd)
    result.log = shift.log
    found, result.allowed = differences(stock, shift, rules)
    for _ in range(args.again if found else 0):
        again = run(lambda: Play(args.build, script, False))
        steady = [d for d in found if again.notes.get(d[0]) == stock.notes[d[0]]]
        result.unsteady += [d for d in found if d not in steady]
        found = steady
    result.differences = found


def one(args, seed):
    script = Script(seed, args.only, args.tight)
    result, began = Result(script), time.monotonic()
    judge(args, result, script, allowed_rules())
    result.seconds = time.monotonic() - began
    return result


def report(args, done, n, r):
    word = "ok" if r.well() else "BROKEN" if r.stock_broken else "FAILED"
    print(f"{done:5}/{n} {word:6} {r.seconds:5.1f} s, {r.bystanders} bystanders: {r.script}", flush=True)
    for key, a, b in r.differences:
        print(f"      step {key[0]} {r.script.steps[key[0]][0]}, {key[1]} {key[2]} {key[3]}\n"
              f"            stock: {a}\n            SHIFT: {b}")
    for text in r.odd:
        print(f"      never on stock: {text}")
    for text in r.hangs:
        print(f"      hangs: {text}")
    for text in r.wrong:
        print(f"      wrong: {text}")
    for text in r.stock_broken:
        print(f"      on stock: {text}")
    for key, a, _ in r.unsteady:
        print(f"      unsteady on stock: step {key[0]} {r.script.steps[key[0]][0]}, {key[1]} {key[2]} {key[3]}: {a}")
    if not r.well():
        print(f"      again: python3 bench/bystanders.py --build BUILD --seed {r.script.seed}"
              + (f" --only {args.only}" if args.only else "") + (" --tight" if args.tight else ""), flush=True)
    if args.seed is not None:
        print(r.log)


def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--build", default="build")
    p.add_argument("--out", default="out")
    p.add_argument("--scripts", type=int, default=1000)
    p.add_argument("--first", type=int, help="first seed (default: random)")
    p.add_argument("--jobs", type=int, default=4, help="scripts at a time: they mostly wait")
    p.add_argument("--seed", type=int, help="only this script, with SHIFT's logs")
    p.add_argument("--seeds", type=int, nargs="+", help="these scripts, not random ones")
    p.add_argument("--only", help="this kind of episode, where the script's pace has it")
    p.add_argument("--again", type=int, default=AGAIN, help="runs of stock where something differs")
    p.add_argument("--tight", action="store_true", help="shared queues have no receive more than is awaited: a limit (docs/srq.md)")
    return p.parse_args()


def main():
    args = parse()
    first = args.first if args.first is not None else draw_seed()
    seeds = [args.seed] if args.seed is not None else args.seeds or range(first, first + args.scripts)
    counts = {"scripts": 0, "bystanders": 0, "differences": 0, "hangs": 0, "wrong_bytes": 0, "unsteady_on_stock": 0,
              "broken_on_stock": 0, "not_protected": 0, "first_seed": seeds[0],
              "engine": os.environ.get("SHIFT_ENGINE", "auto"), "allowed": {}, "details": []}
    with ThreadPoolExecutor(args.jobs) as pool:
        for done, r in enumerate(pool.map(lambda seed: one(args, seed), seeds), 1):
            report(args, done, len(seeds), r)
            counts["scripts"] = done
            counts["bystanders"] += r.bystanders
            counts["differences"] += len(r.differences) + len(r.odd)
            counts["hangs"] += len(r.hangs)
            counts["wrong_bytes"] += len(r.wrong)
            counts["unsteady_on_stock"] += len(r.unsteady)
            counts["broken_on_stock"] += bool(r.stock_broken)
            counts["not_protected"] += r.unprotected
            for name, n in r.allowed.items():
                counts["allowed"][name] = counts["allowed"].get(name, 0) + n
            if not r.well():
                counts["details"].append(r.details())
    os.makedirs(args.out, exist_ok=True)
    with open(os.path.join(args.out, "bystanders.json"), "w", encoding="utf-8") as f:
        json.dump(counts, f, indent=1)
    print(json.dumps({name: value for name, value in counts.items() if name != "details"}))
    return 1 if any(counts[k] for k in ("differences", "hangs", "wrong_bytes", "broken_on_stock")) else 0


if __name__ == "__main__":
    sys.exit(main())
