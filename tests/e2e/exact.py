#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Requests whose answers were lost, or that were lost themselves: which of them ran is known exactly, by the expected
PSN that the peer's NIC tells of its queue pair.

  exact.py --build DIR [CASE...]
  exact.py --build DIR --flaps N [--seed S]     N short flaps with a compare-and-swap under way, on stock and with SHIFT
"""
import argparse
import json
import os
import random
import re
import sys
import time

from shiftlab.lab import Shift, cases_main, free_port, run_case, wait_for
from shiftlab.perftest import SOON, Failed, said

MOVED = " moved from mlx5_0 to mlx5_1 "
PROVEN, DISPROVEN = "it tells the expected PSN", "are settled by the count of receives alone"
WORDS = r"by the words at its peer (\d+) compare-and-swaps had swapped, and (\d+) that had not run again"
WAITS = "the answer of an atomic may still come"
LOSES = {"lose-acks": "h0/mlx5_0", "lose-rx": "h1/mlx5_0"}
CASES = {   # what the client does; how often; which fault; what becomes of the words: over, once, none; settings; quirk
    # they ran, and a third party wrote over what it saw: nothing may come again
    "write_seen": ("write", 8, "lose-acks", ("over",), {}, None),
    # what SHIFT does where a NIC cannot tell: the old bytes come again, as promises.md says
    "write_off": ("write", 8, "lose-acks", ("once",), {"exact": "off"}, None),
    "write_stale": ("write", 8, "lose-acks", ("once",), {}, "stale-psn"),
    "write_lost": ("write", 8, "lose-rx", ("over",), {}, None),
    # atomics that never ran do, once; those that ran have lost their results
    "add_lost": ("add", 8, "lose-rx", ("once",), {}, None),
    "swap_lost": ("swap", 8, "lose-rx", ("once",), {}, None),
    "add_ran": ("add", 1, "lose-acks", ("once", "error"), {}, None),
    "add_lost_off": ("add", 8, "lose-rx", ("none", "error"), {"exact": "off"}, None),
    # a compare-and-swap that ran without its answer: its word tells, if the application lets it
    "swap_ran": ("swap", 1, "lose-acks", ("once", "error"), {}, None),
    "swap_owner": ("swap", 8, "lose-acks", ("once",), {"atomics": "owner"}, None),
    "swap_owner_off": ("swap", 8, "lose-acks", ("once",), {"atomics": "owner", "exact": "off"}, None),
    "swap_owner_lost": ("swap", 8, "lose-rx", ("once",), {"atomics": "owner", "exact": "off"}, None),
    "add_owner": ("add", 1, "lose-acks", ("once", "error"), {"atomics": "owner"}, None),
}


GOOD = "success"
# A link is down while atomics run one after the other: for less than the NIC retries (0.54 s), or for good. What; whose
SHORT_S = 0.2
FLAPS = {"flap_own": ("add", "h0/mlx5_0", SHORT_S), "flap_peers": ("add", "h1/mlx5_0", SHORT_S),
         "flap_swap": ("swap", "h0/mlx5_0", SHORT_S), "down_own": ("add", "h0/mlx5_0", 30),
         "down_peers": ("swap", "h1/mlx5_0", 30)}
COUNT_S, FLAP_S = 1.2, 0.5
# Requests without completions have run, and nothing is under way, when a link goes down for good: it moves, with nothing
# sent again. What; whose link
QUIET = {"quiet_add": ("add", "h0/mlx5_0"), "quiet_add_peers": ("add", "h1/mlx5_0"), "quiet_write": ("write", "h0/mlx5_0")}


def start(lab, settings, extra):
    """settings: None for no SHIFT."""
    argv = [os.path.join(lab.out, "bin", "exact"), "-p", str(free_port())] + extra
    shift = None if settings is None else Shift(log="info", **SOON, **settings)
    both = [lab.start(host, argv + more, side, shift, stdin=True)
            for host, more, side in (("h1", ["-s"], "server"), ("h0", [], "client"))]
    for p in both:
        said(p, "^CONNECTED")
    for p in both if shift else ():
        wait_for(f"protection of {p.name}", lambda p=p: lab.protected(p) or not p.running(), 30)
    return both


def end(both):
    for p in both:
        if p.wait(60):
            raise Failed(f"{p.name} ended with {p.process.returncode}: {p.tail()}")


def count_through(lab, settings, what, target, down_s):
    """Atomics one after the other while a link is down: the client, and does it live?"""
    both = start(lab, settings, ["-n", "1", "-t", str(COUNT_S), what])
    server, client = both
    if settings is not None:
        wait_for("what the NICs can tell", lambda: lab.shift_log(server).count(PROVEN) == 2, 30)
    for p in both:
        p.say("go")
    said(client, "^POSTED")
    time.sleep(random.Random(lab.seed).uniform(0.05, 0.5))
    lab.ctl("fault", "cable-down", target, "--for", str(down_s))
    n, wrong, status = said(client, r"^COUNTED (\d+), (\d+) wrong: (.*)$").groups()
    server.say("done")
    counter = int(said(server, r"^COUNTER (\d+)$")[1])
    lives = status == GOOD
    print(f"       {n} atomics, {'all well' if lives else 'ended: ' + status}")
    if int(wrong) or not int(n) <= counter <= int(n) + (not lives):
        raise Failed(f"{n} atomics completed, {wrong} with a wrong result; the counter is {counter}")
    end(both)
    return client, lives


def flap(lab, what, target, down_s):
    client, lives = count_through(lab, {}, what, target, down_s)
    short = down_s < FLAP_S
    if short and not lives:
        raise Failed("it ends where it lives without SHIFT")
    if not short and lives != (MOVED in lab.shift_log(client)):
        raise Failed("it should move, or end for an atomic that ran")
    if not short and not lives and WAITS not in lab.shift_log(client):
        raise Failed("it ends without having waited for the answer")


def flaps(build, n, seed):
    """Of both ends' links in turns. As many live with SHIFT as without it, of the same flaps (P9)."""
    live, good = {"stock": 0, "SHIFT": 0}, True
    for i in range(n):
        for name, settings in (("stock", None), ("SHIFT", {})):
            def case(lab, name=name, settings=settings, target=f"h{i % 2}/mlx5_0"):
                live[name] += count_through(lab, settings, "swap", target, SHORT_S)[1]

            good &= run_case(build, f"flap {i + 1} of {n} on {name}, seed {seed + i}", case, seed=seed + i)
    print(f"{n} flaps of {SHORT_S:g} s with a compare-and-swap under way: {live['stock']} live on stock, "
          f"{live['SHIFT']} with SHIFT")
    return good and live["SHIFT"] >= live["stock"]


def words_decided(lab, client, words, ran):
    """Its log says that it was the words at the peer that told, and so its status counts. Of those that ran, as many as a
    NIC has under way."""
    match = re.search(WORDS, lab.shift_log(client))
    won, again = map(int, match.groups()) if match else (0, 0)
    if won + again != words or (won > 0) != ran:
        raise Failed(f"the words should have told of {words}{', some that ran' if ran else ''}: {match and match[0]}")
    counted = [p["words"] for p in json.loads(lab.shiftctl("h0", "status", "--json"))["processes"]]
    if counted != [{"swapped": won, "again": again}]:
        raise Failed(f"{won} had swapped and {again} ran again, but the status says {counted}")


def quiet(lab, what, target):
    """Not by the expected PSN, which says that they ran, but not that the answers are here."""
    both = start(lab, {"exact": "off"}, ["-u", what])
    server, client = both
    for p in both:
        p.say("go")
    said(client, "^POSTED")
    said(server, "^SEEN 8$")
    lab.fault("cable-down", target)
    for p in both:
        wait_for(f"the move of {p.name}", lambda p=p: MOVED in lab.shift_log(p) or not p.running(), 30)
    client.say("on")
    said(client, "^DONE 1 good, 0 wrong$")
    server.say("done")
    said(server, "^ARE 8 once, 0 over, 0 none$")
    again = re.search(MOVED + r"\(.*\): (\d+) requests sent again", lab.shift_log(client))
    if int(again[1]):
        raise Failed(f"they were complete: {again[0]}")
    end(both)


def run(lab, name):
    if name in QUIET:
        quiet(lab, *QUIET[name])
        return
    if name in FLAPS:
        flap(lab, *FLAPS[name])
        return
    what, words, fault, (becomes, *error), settings, quirk = CASES[name]
    if quirk:
        lab.ctl("quirk", "h1/mlx5_0", quirk)
    both = start(lab, settings, ["-n", str(words), what])
    server, client = both
    if settings.get("exact") != "off":
        word = f"mlx5_0: .*{DISPROVEN if quirk else PROVEN}"
        wait_for("what mlx5_0 can tell", lambda: re.search(word, lab.shift_log(server)), 30)
    lab.fault(fault, LOSES[fault])
    for p in both:
        p.say("go")
    said(client, "^POSTED")
    said(server, "^SEEN")
    good, wrong = map(int, said(client, r"^DONE (\d+) good, (\d+) wrong").groups())
    if not error:
        for p in both:
            wait_for(f"the move of {p.name}", lambda p=p: MOVED in lab.shift_log(p) or not p.running(), 30)
    if "atomics" in settings and not error:
        words_decided(lab, client, words, fault == "lose-acks")
    server.say("done")
    numbers = map(int, said(server, r"^ARE (\d+) once, (\d+) over, (\d+) none").groups())
    are = dict(zip(("once", "over", "none"), numbers))
    if are[becomes] != words:
        raise Failed(f"{words} words should be {becomes}: {are}")
    if wrong or good != (0 if error else words):
        raise Failed(f"{good} of {words} requests completed well, {wrong} with wrong data")
    end(both)


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--build")
    parser.add_argument("--flaps", type=int)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 1 << 30))
    args, _ = parser.parse_known_args()
    if args.flaps:
        return 0 if flaps(args.build, args.flaps, args.seed) else 1
    return cases_main([*CASES, *FLAPS, *([] if os.environ.get("SHIFT_ENGINE") == "ledger" else QUIET)], run, seeded=True)


if __name__ == "__main__":
    sys.exit(main())
