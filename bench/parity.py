#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""P9: no fault ends a connection earlier than it would have ended without SHIFT. Random scripts of faults, each
run on stock and under SHIFT over the software NICs: flaps of ports, cables and switches, blackouts with short gaps,
a second path lost soon after the first, lost packets or acknowledgements, stopped peers. `verify` checks every byte and
completion. A script counts as alive where no queue pair failed. One that is alive on stock alone is run twice more
on both, as moments differ from run to run; it counts if that happens again.

  parity.py --build DIR [--scripts N] [--first SEED] [--jobs N] [--seed N | --seeds N...]
  (--seed: that one, told in full)

Writes out/parity.json; status 1 if a script was alive on stock alone, or a byte or completion was wrong.
"""
import argparse
import json
import os
import random
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from shiftlab.lab import Lab, Shift, Stuck, free_port, wait_for

RETRY = 7
TIMEOUTS = (15, 16, 16, 17)     # 1.1, 2.1 and 4.3 s with all retries
SETTLE_S = 1.0
STUCK_S = 60
AGAIN = 2


def retry_s(timeout):
    return 4.096e-6 * 2 ** timeout * (RETRY + 1)


class Script:
    """What happens when, in seconds from the first fault: [(at, what, target, lasts)]."""

    def __init__(self, seed):
        r = random.Random(seed)
        self.seed = seed
        self.timeout = r.choice(TIMEOUTS)
        self.retry = retry_s(self.timeout)
        self.patterns = "".join(r.choice("abce") for _ in range(2))
        self.kind, draw = r.choice(sorted(KINDS.items()))
        self.steps = sorted(draw(r, self))
        self.length = max(at + lasts for at, _, _, lasts in self.steps)

    def short(self, r):
        """Well within the retry time: near its end both answers are right."""
        return r.uniform(0.05, 0.5) * self.retry

    def __str__(self):
        steps = "; ".join(f"{at:.2f} s {what} {target} for {lasts:.2f} s"
                          for at, what, target, lasts in self.steps)
        return f"seed {self.seed} {self.kind}, retries {self.retry:.1f} s, {self.patterns}: {steps}"


def cut(r, rail):
    kind = r.choice(("port-down", "cable-down", "switch-down"))
    return kind, f"rail{rail}" if kind == "switch-down" else f"h{r.randrange(2)}/mlx5_{rail}"


def flap(r, s):
    return [(0, *cut(r, 0), s.short(r))]


def flaps(r, s):
    at, steps = 0.0, []
    for _ in range(r.randint(2, 4)):
        lasts = s.short(r) / 2
        steps.append((at, *cut(r, r.randrange(2)), lasts))
        at += lasts + r.uniform(0.1, 0.5)
    return steps


def second_path(r, s):
    lasts = s.short(r)
    return [(0, *cut(r, 0), lasts), (r.uniform(0, 0.2), *cut(r, 1), lasts)]


def blackout(r, s):
    """Both paths, again and again, with gaps in which little can be done."""
    at, steps = 0.0, []
    for _ in range(r.randint(2, 5)):
        lasts = s.short(r) / 2
        steps += [(at, "switch-down", f"rail{rail}", lasts) for rail in range(2)]
        at += lasts + r.uniform(0.001, 0.1)
    return steps


def loss(r, s):
    kind = r.choice(("lose-tx", "lose-rx", "lose-acks"))
    return [(0, kind, f"h{r.randrange(2)}/mlx5_0", s.short(r))]


def stopped(r, s):
    """A peer that is stopped while a path flaps."""
    lasts = s.short(r)
    steps = [(0, "stop", r.choice(("server", "client")), lasts),
             (r.uniform(0, 0.1), *cut(r, 0), lasts * r.uniform(0.2, 0.9))]
    if r.randrange(2):
        steps.append((r.uniform(0.1, 0.3), *cut(r, 1), lasts * 0.3))
    return steps


def long_loss(r, s):
    """Stock cannot outlive this one."""
    return [(0, *cut(r, 0), 2.0 * s.retry)]


KINDS = {"flap": flap, "flaps": flaps, "second path": second_path, "blackout": blackout, "loss": loss,
         "stopped": stopped, "long loss": long_loss}


def play(lab, ends, script):
    """Begins and ends in order of time."""
    todo = sorted([(at, True, what, target) for at, what, target, _ in script.steps] +
                  [(at + lasts, False, what, target) for at, what, target, lasts in script.steps])
    start = time.monotonic()
    for at, begins, what, target in todo:
        time.sleep(max(0.0, start + at - time.monotonic()))
        if what == "stop":
            program = ends[target == "client"]
            if program.running():
                os.kill(program.pid, signal.SIGSTOP if begins else signal.SIGCONT)
        elif begins:
            lab.fault(what, target)
        else:
            lab.ctl("heal", target)


def summaries(ends):
    rows = [[row for row in p.out().splitlines() if row.startswith("SUMMARY ")] for p in ends]
    return [json.loads(r[-1][8:]) if r else None for r in rows]


def once(args, script, shift):
    """(alive, wrong, how it ended)"""
    with Lab(args.build, seed=script.seed) as lab:
        port = str(free_port())
        argv = [os.path.join(lab.out, "bin", "verify"), "--seed", script.seed, "--port", port,
                "--control", "--dev", "mlx5_0", "--gid-index", 0, "--qps", len(script.patterns),
                "--patterns", script.patterns, "--timeout", script.timeout, "--retry", RETRY,
                "--stuck", STUCK_S, "--may-fail", "--allow-events"]
        how = Shift(log="info") if shift else None
        ends = [lab.start("h0", argv + ["--server"], "server", how, stdin=True),
                lab.start("h1", argv + ["--client", "127.0.0.1"], "client", how, stdin=True)]
        for p in ends:
            wait_for("start", lambda p=p: "STARTED" in p.out() or not p.running(), 60)
            if shift:
                wait_for("protection", lambda p=p: lab.protected(p) >= len(script.patterns)
                         or not p.running(), 60)
        time.sleep(0.1)
        play(lab, ends, script)
        lab.ctl("heal", "all")
        time.sleep(SETTLE_S)
        for p in ends:
            p.say("stop")
        try:
            for p in ends:
                p.wait(STUCK_S + 15)
        except Stuck:
            return False, True, "does not end"
        found = summaries(ends)
        bad = [s for s in found if not s or s["result"] != "ok"]
        failed = sum(q["failed"] for s in found if s for q in s["qps"])
        if args.seed is not None and shift:
            print(lab.shift_logs())
        text = "; ".join(f"{s['reason']}: {s['text']}" if s else "no summary" for s in bad)
        return not bad and not failed, bool(bad), text or f"{failed} queue pair ends failed"


def both(args, script):
    stock, shift = once(args, script, False), once(args, script, True)
    alone = stock[0] and not shift[0]
    for _ in range(AGAIN if alone else 0):
        if once(args, script, False)[0] and not once(args, script, True)[0]:
            break
    else:
        alone = False
    return script, stock, shift, alone


def report(done, n, script, stock, shift, alone):
    word = "STOCK ALONE" if alone else "WRONG" if shift[1] else "ok"
    state = ["dies", "lives"]
    print(f"{done:5}/{n} {word:5} stock {state[stock[0]]}, SHIFT {state[shift[0]]}: {script}"
          + ("" if shift[0] else f" ({shift[2]})"), flush=True)
    if alone or shift[1]:
        print(f"      again: python3 bench/parity.py --build BUILD --seed {script.seed}", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--build", default="build")
    p.add_argument("--out", default="out")
    p.add_argument("--scripts", type=int, default=1000)
    p.add_argument("--first", type=int, help="first seed (default: random)")
    p.add_argument("--jobs", type=int, default=4, help="scripts at a time: they mostly wait")
    p.add_argument("--seed", type=int, help="only this script, with SHIFT's logs")
    p.add_argument("--seeds", type=int, nargs="+", help="these scripts, not random ones")
    args = p.parse_args()
    first = args.first if args.first is not None else random.SystemRandom().randrange(1 << 30)
    seeds = [args.seed] if args.seed is not None else args.seeds or range(first, first + args.scripts)
    counts = {"scripts": 0, "alive_stock": 0, "alive_shift": 0, "alive_stock_only": 0,
              "wrong_bytes": 0, "alive_both": 0, "first_seed": seeds[0], "stock_only_seeds": []}
    with ThreadPoolExecutor(args.jobs) as pool:
        for done, (script, stock, shift, alone) in enumerate(
                pool.map(lambda s: both(args, Script(s)), seeds), 1):
            report(done, len(seeds), script, stock, shift, alone)
            counts["scripts"] = done
            counts["alive_stock"] += stock[0]
            counts["alive_shift"] += shift[0]
            counts["alive_both"] += stock[0] and shift[0]
            counts["alive_stock_only"] += alone
            counts["wrong_bytes"] += shift[1]
            if alone:
                counts["stock_only_seeds"].append(script.seed)
    os.makedirs(args.out, exist_ok=True)
    with open(os.path.join(args.out, "parity.json"), "w", encoding="utf-8") as f:
        json.dump(counts, f, indent=1)
    print(json.dumps(counts))
    return 1 if counts["alive_stock_only"] or counts["wrong_bytes"] else 0


if __name__ == "__main__":
    sys.exit(main())
