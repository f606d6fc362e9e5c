#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Transactions by one-sided requests through faults (bench/txn/): SmallBank, and new-order and payment after TPC-C.
Three servers hold every record, two clients have two workers each; on stock, and under SHIFT. Behind each run the
books are checked: money, orders, stock, replicas, locks, versions, every value that was read.

  txn.py --build DIR [--fault NAME...] [--runs N] each fault in each mode
  txn.py --build DIR --random N [--seed S]        N faults drawn from a seed; one that fails names its own
  txn.py --build DIR --replay S                   that one again, told in full

Each with --workload NAME... and --mode MODE... Writes out/txn.json (of drawn ones out/txn-drawn.json): runs of {workload,
mode, fault, locks, lasts_s, committed, aborted, ended_atomics, ended_workers, checks, per_10ms}. ended_atomics: connections
that an error ended with a compare-and-swap under way; per_10ms: commits from series_from_s on, where the fault begins at 0.
Status 1: the books are wrong, or a connection ended that nothing may end."""
import argparse
import collections
import itertools
import json
import os
import random
import re
import statistics
import sys
import time

from shiftlab import books
from shiftlab.lab import Lab, Shift, free_port, wait_for
from shiftlab.perftest import SOON, said
from shiftlab.results import save
from shiftlab.smallbank import SmallBank
from shiftlab.tpcc import Tpcc

SERVERS, CLIENTS, WORKERS = 3, 2, 2
HOSTS = SERVERS + CLIENTS
STOP_S = 90
CALM_S = 0.8            # before a fault, and behind its end
SERIES_S = (-0.5, 4.5)  # of per_10ms, around the fault
LAST_S = 1.0
WORKLOADS = {"smallbank": SmallBank(), "tpcc": Tpcc()}
# the Shift settings and the arguments of a mode; None: no SHIFT
MODES = {"stock": (None, []), "shift": ({}, []), "shift+owner": ({"atomics": "owner"}, ["-u"]),
         "shift+uid": ({"atomics": "uid"}, ["-2"])}


class Fault:
    """steps: (kind, target); a drain is SHIFT's own, on a host's NIC."""

    def __init__(self, name, steps, lasts_s, at_message=None):
        self.name, self.steps, self.lasts_s, self.at_message = name, steps, lasts_s, at_message

    def __str__(self):
        what = ", ".join(" ".join(s) for s in self.steps)
        when = f" at +{self.at_message} messages" if self.at_message else ""
        return f"{self.name}: {what or 'nothing'}{when}, {self.lasts_s:.2f} s"

    def begin(self, lab):
        for kind, target in self.steps:
            if kind == "drain":
                lab.shiftctl(target.partition("/")[0], "drain", target.partition("/")[2])
            else:
                lab.fault(kind, target, at_message=self.at_message)

    def end(self, lab):
        for kind, target in self.steps:
            if kind == "drain":
                lab.shiftctl(target.partition("/")[0], "undrain", target.partition("/")[2])
            elif kind.startswith("nic-"):
                lab.ctl("reprobe", target)
        lab.ctl("heal", "all")


# At the first server, as in Varuna's paper; but for the flap longer than the queue pairs try again (2.1 s).
FIXED = {f.name: f for f in (
    Fault("none", [], 1.0),
    Fault("port", [("port-down", "h0/mlx5_0")], 3.0),
    Fault("switch", [("switch-down", "rail0")], 3.0),
    Fault("flap", [("port-down", "h0/mlx5_0")], 0.2),
    Fault("answers", [("lose-tx", "h0/mlx5_0")], 3.0),
    Fault("responder", [("nic-internal-error", "h0/mlx5_0")], 3.0),
    Fault("drain", [("drain", "h0/mlx5_0")], 3.0))}
NEVER_ENDS = ("none", "drain")      # a connection, in any mode; with owners' values or UIDs, these neither:
OWNER_NEVER_ENDS = ("port", "switch", "flap", "answers")


def draw(seed):
    """One fault that nothing may end. Of a NIC that dies, a requester's: a responder's takes with it what it knows."""
    r = random.Random(seed)
    name = r.choice(("port", "port", "cable", "switch", "acks", "requester", "flap", "flap", "drain"))
    host = f"h{r.randrange(HOSTS)}"
    message = r.randint(1, 300) if r.random() < 0.5 else None
    lasts = r.uniform(0.3, 0.9)
    if name == "switch":
        return Fault(name, [("switch-down", "rail0")], lasts)
    if name == "drain":
        return Fault(name, [("drain", host + "/mlx5_0")], lasts)
    if name == "requester":
        return Fault(name, [("nic-internal-error", f"h{r.randrange(SERVERS, HOSTS)}/mlx5_0")], lasts, message)
    if name == "flap":
        return Fault(name, [(r.choice(("port-down", "cable-down")), host + "/mlx5_0")], r.uniform(0.01, 0.3), message)
    kind = {"port": "port-down", "cable": "cable-down", "acks": "lose-acks"}[name]
    return Fault(name, [(kind, host + "/mlx5_0")], lasts, message)


def heard(program, pattern, seconds=60):
    """All matches of what it says."""
    said(program, pattern, seconds)
    return re.findall(pattern, program.out(), re.M)


class Bank:
    """Servers and clients of one run."""

    def __init__(self, lab, workload, mode, seed):
        self.settings, args = MODES[mode]
        self.lab, self.workload = lab, WORKLOADS[workload]
        self.locks = "owner" if "-u" in args else "uid" if "-2" in args else "fixed"
        each = 2 if self.locks == "uid" else 1     # connections of a worker to a server
        shift = None if self.settings is None else Shift(log="info", **dict(SOON, **self.settings))
        program = [os.path.join(lab.out, "bin", "txn"), "-b", workload, "-c", CLIENTS * WORKERS,
                   "-a", self.workload.blocks]
        ports = [str(free_port()) for _ in range(SERVERS)]
        self.servers = [lab.start(f"h{i}", program + ["-s", "-p", port, "-o", self.file(f"table{i}")]
                                  + (["-2"] if self.locks == "uid" else []), f"server{i}",
                                  shift, stdin=True) for i, port in enumerate(ports)]
        self.clients = []
        for i in range(CLIENTS):    # one after the other, as a server answers one worker at a time
            self.clients.append(lab.start(
                f"h{SERVERS + i}", program + ["-p", ",".join(ports), "-i", 1 + i * WORKERS, "-w", WORKERS, "-r", seed,
                                              "-o", self.file("journal")] + args, f"client{i}", shift, stdin=True))
            heard(self.clients[-1], "^CONNECTED")
        for p in self.clients if shift else []:
            wait_for(f"protection of {p.name}", lambda p=p: lab.protected(p) >= each * WORKERS * SERVERS or not p.running(), 60)
        for p in self.servers if shift else []:
            wait_for(f"protection of {p.name}", lambda p=p: lab.protected(p) >= each * WORKERS * CLIENTS or not p.running(), 60)

    def file(self, name):
        return os.path.join(self.lab.folder, name)

    def say(self, programs, word, answer=None):
        for p in programs:
            p.say(word)
        for p in programs if answer else []:
            heard(p, answer, STOP_S)

    def by_word(self):
        """How many compare-and-swaps of the clients their words have decided."""
        if "atomics" not in (self.settings or {}):
            return 0
        return sum(n for i in range(CLIENTS) for p in json.loads(self.lab.shiftctl(f"h{SERVERS + i}", "status", "--json"))
                   ["processes"] for n in p["words"].values())

    def stop(self):
        """(committed, aborted, ended atomics, decided by their words, what ended workers)"""
        self.say(self.clients, "stop", "^STOPPED")
        by_word = self.by_word()
        rows = [row for p in self.clients for row in
                heard(p, r"^WORKER \d+: (\d+) committed, (\d+) aborted, (\d+) atomics ended: (.*)$")]
        self.say(self.servers, "save", "^SAVED")
        self.say(self.clients + self.servers, "end")
        for p in self.clients + self.servers:
            if p.wait(STOP_S):
                raise RuntimeError(f"{p.name} ended with {p.process.returncode}: {p.tail()}")
        counts = [sum(int(row[i]) for row in rows) for i in range(3)]
        return (*counts, by_word, [row[3] for row in rows if row[3] != "success"])

    def books(self):
        records = self.workload.block * self.workload.blocks
        tables = [books.read_table(self.file(f"table{i}"), records) for i in range(SERVERS)]
        return books.Books(self.workload, tables, [e for i in range(CLIENTS * WORKERS) for e in
                                                   books.read_journal(self.file(f"journal.{i + 1}"))])


def series(entries, zero):
    """Commits in each 10 ms of SERIES_S."""
    times = {(e.worker, e.attempt): e.time_ns for e in entries if e.outcome == books.COMMITTED}
    counts = collections.Counter(int((ns / 1e9 - zero - SERIES_S[0]) * 100 // 1) for ns in times.values())
    return [counts[i] for i in range(int((SERIES_S[1] - SERIES_S[0]) * 100))]


def verdict(lab, written):
    """"ok", or what is wrong."""
    try:
        written.check()
    except books.Wrong as e:
        return str(e)
    return "complaint: " + lab.complaints().splitlines()[1] if lab.complaints() else "ok"


def run(args, workload, mode, fault, seed):
    """One run: its row of the results."""
    with Lab(args.build, hosts=HOSTS, seed=seed) as lab:
        bank = Bank(lab, workload, mode, seed)
        bank.say(bank.clients, "go")
        time.sleep(CALM_S)
        zero = time.monotonic()
        fault.begin(lab)
        time.sleep(fault.lasts_s)
        fault.end(lab)
        time.sleep(max(CALM_S, 0 if args.random or args.replay else zero + SERIES_S[1] - time.monotonic()))
        committed, aborted, atomics, by_word, ended = bank.stop()
        written = bank.books()
        row = {"workload": workload, "mode": mode, "fault": fault.name, "locks": bank.locks, "lasts_s": fault.lasts_s,
               "committed": committed, "aborted": aborted, "ended_atomics": atomics, "by_word": by_word, "ended_workers": len(ended),
               "checks": verdict(lab, written)}
        if args.replay or row["checks"] != "ok":
            print(lab.shift_logs())
        print(f"{workload:9} {mode:11} {str(fault):60}: {committed:6} committed, {aborted:5} aborted, {len(ended)} workers ended "
              f"({atomics} connections with an atomic){': ' + ended[0] if ended else ''}, {by_word} atomics told by words; "
              f"{row['checks']}", flush=True)
        return dict(row, per_10ms=series(written.entries, zero))


def rate(row, begin_s, end_s):
    """Committed per second, between these times."""
    first, last = (round((s - SERIES_S[0]) * 100) for s in (begin_s, end_s))
    return sum(row["per_10ms"][first:last]) / (end_s - begin_s)


def longest_gap_s(row):
    """Behind the fault's begin, if commits came again."""
    behind = "".join("1" if n else "0" for n in row["per_10ms"][round(-SERIES_S[0] * 100):])
    return max(map(len, re.findall("0+(?=1)", behind)), default=0) / 100


def print_rates(rows):
    """Of each workload, fault and mode, medians: committed/s before, while, behind; the longest gap."""
    groups = {}
    for row in rows:
        groups.setdefault((row["workload"], row["fault"], row["mode"]), []).append(row)
    for (workload, fault, mode), same in groups.items():
        while_s = min(same[0]["lasts_s"], SERIES_S[1])
        spans = ((SERIES_S[0], 0), (0, while_s), (SERIES_S[1] - LAST_S, SERIES_S[1]))
        before, within, behind = (statistics.median(rate(row, *span) for row in same) for span in spans)
        print(f"{workload:9} {fault:9} {mode:11}: {before:6.0f}/s before, {within:6.0f}/s while, {behind:6.0f}/s in the last "
              f"{LAST_S:g} s; longest gap {1000 * statistics.median(map(longest_gap_s, same)):5.0f} ms; "
              f"{sum(row['ended_workers'] for row in same)} of {len(same) * CLIENTS * WORKERS} workers ended")


def may_not_end(row):
    return row["fault"] in NEVER_ENDS or (row["mode"] in ("shift+owner", "shift+uid") and row["fault"] in OWNER_NEVER_ENDS)


def fixed_runs(args):
    rows = [run(args, workload, mode, FIXED[fault], args.seed + i)
            for i in range(args.runs)
            for workload in args.workload for fault in args.fault for mode in args.mode
            if not (fault == "drain" and mode == "stock")]
    print_rates(rows)
    return rows, [r for r in rows if r["checks"] != "ok" or (r["ended_workers"] and may_not_end(r))]


def may_end(row):
    """How many workers a drawn fault may end: on stock all, and those whose compare-and-swap nobody can tell of."""
    if row["mode"] == "stock":
        return CLIENTS * WORKERS
    return row["ended_atomics"] if row["locks"] == "fixed" else 0


def random_runs(args, seeds):
    rows, bad = [], []
    for i, seed in enumerate(seeds):
        for workload, mode in itertools.product(args.workload, args.mode):
            try:
                row = run(args, workload, mode, draw(seed), seed)
            except Exception as e:      # the others run on: each is a case of its own
                row = {"workload": workload, "mode": mode, "fault": draw(seed).name, "checks": f"did not end: {e}"}
                print(f"{workload:9} {mode:11} {draw(seed)}: {e}", flush=True)
            rows.append(row)
            if row["checks"] != "ok" or row["ended_workers"] > may_end(row):
                bad.append(row)
                print(f"       {i + 1}/{len(seeds)} again: python3 bench/txn.py --build {args.build} --workload "
                      f"{workload} --mode {mode} --replay {seed}", flush=True)
    return rows, bad


def parse_args():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build")
    p.add_argument("--out", default="out")
    p.add_argument("--workload", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    p.add_argument("--mode", nargs="+", choices=MODES, default=list(MODES))
    p.add_argument("--fault", nargs="+", choices=FIXED, default=list(FIXED))
    p.add_argument("--runs", type=int, default=1, help="of each of these; their seeds follow each other")
    p.add_argument("--random", type=int, metavar="N")
    p.add_argument("--replay", type=int, metavar="SEED")
    p.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 1 << 30))
    return p.parse_args()


def main():
    args = parse_args()
    print(f"seed {args.seed if args.replay is None else args.replay}")
    if args.replay is not None:
        rows, bad = random_runs(args, [args.replay])
    elif args.random:
        r = random.Random(args.seed)
        rows, bad = random_runs(args, [r.randrange(1, 1 << 30) for _ in range(args.random)])
    else:
        rows, bad = fixed_runs(args)
    drawn = args.random or args.replay is not None
    save(args.out, "txn-drawn.json" if drawn else "txn.json",
         {"seed": args.seed, "series_from_s": SERIES_S[0], "runs": rows})
    print(f"{len(rows)} runs, {len(bad)} not as they should be; {sum(r.get('by_word', 0) for r in rows)} compare-and-swaps "
          f"decided by their words, in {sum(bool(r.get('by_word')) for r in rows)} runs")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
