#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What the control verbs cost, and what many queue pairs cost: stock and SHIFT in turns. Each verb's
median and the ratio, of the clock on the wall, and of that less the time in which the calling thread stood
in line for a core (cores that programs, SHIFT's threads and the software NICs share; hosts of clusters
have more); its own CPU time, its page faults and how often it slept; the set-up of 1, 100, 1,000 and 4,096
queue pairs between two processes; how long until all of them are protected; operations of the KV (a
redis-server of its own) and memory for each; the same with standbys that are made when they are needed
(SHIFT_LAZY), and of both, in a run of its own, how long it takes until all have left a port that goes down.
All of that with commands of the NIC that take no time, and with commands that take as long as those of
hardware. Writes out/bench-control.json."""
import argparse
import os
import re
import statistics
import sys
import time

from shiftlab.lab import Lab, Shift, free_port, wait_for
from shiftlab.redis import MANY_CLIENTS, Redis
from shiftlab.results import save

PUBLISHED_KB = 171      # memory of a protected queue pair in the published system
PUBLISHED = {"modify_qp to RTR": 1.94, "modify_qp to RTS": 2.06}
FIGURES = ("calls", "median", "mean", "unqueued", "cpu", "faults", "sleeps")   # of a verb, as the program prints them
PUBLISHED_INIT_MS = (27, 67.8, 91.8)    # of the published system, with 0, 1 and 2 backups
BOUND = 1.05
PATIENCE_S = 300
CALM_S = 1              # all memory keys are told by then
MOVED = "moved from mlx5_0 to mlx5_1"


def private_kb(program):
    """Memory that is this process' alone. simnicctl executes the program in its own place."""
    with open(f"/proc/{program.process.pid}/smaps_rollup") as f:
        text = f.read()
    return sum(int(re.search(rf"^Private_{kind}:\s+(\d+) kB", text, re.M).group(1))
               for kind in ("Clean", "Dirty"))


def rows_of(program):
    found = re.findall(r"^VERB\|(.*)$", program.out(), re.M)
    return {name: dict(zip(FIGURES, map(float, figures)))
            for name, *figures in (line.split("|") for line in found)}


def moved_ms(lab, ends, qps):
    """Until the last queue pair of both ends has left a port that goes down."""
    time.sleep(CALM_S)
    at = time.monotonic()
    lab.fault("port-down", "h0/mlx5_0")
    for p in ends:
        wait_for("moves of " + p.name, lambda p=p: lab.shift_log(p).count(MOVED) >= qps or
                 not p.running(), PATIENCE_S, min(0.5, qps * 1e-5))
    return (time.monotonic() - at) * 1e3


def one_run(args, qps, cost_us, how, fault=False, nics=2):
    """One pair of processes from its start to its end."""
    with Lab(args.build, cost_us=cost_us, nics=nics) as lab:
        redis = Redis(lab, args=MANY_CLIENTS).start() if how else None
        try:
            return paired(lab, qps, how, redis, fault)
        finally:
            if redis:
                redis.end()


def start_pairs(lab, qps, how, pairs, *options):
    """So many programs of a host, each with one of the other host, when all queue pairs are connected and rest. Each
    program has qps of them. All servers, then all clients."""
    program = os.path.join(lab.out, "bin", "control")
    servers, clients = [], []
    for i in range(pairs):
        number = str(i) if i else ""
        argv = [program, "--port", free_port(), "--qps", qps, *options]
        servers.append(lab.start("h0", argv + ["--server"], "server" + number, how, stdin=True))
        clients.append(lab.start("h1", argv + ["--client"], "client" + number, how, stdin=True))
    for p in servers + clients:
        wait_for("rest of " + p.name, lambda p=p: "RESTING" in p.out() or not p.running(), PATIENCE_S)
        if not p.running():
            raise RuntimeError(p.tail())
    return servers + clients


def start_both(lab, qps, how, *options):
    """The program at both ends, when its queue pairs are connected and rest."""
    return start_pairs(lab, qps, how, 1, *options)


def await_protection(lab, ends, qps):
    for p in ends:
        wait_for("protection of " + p.name, lambda p=p: lab.protected(p) >= qps or not p.running(), PATIENCE_S)
        if not p.running():
            raise RuntimeError(p.tail())


def end_both(ends):
    for p in ends:
        p.say("end")
    for p in ends:
        if p.wait(PATIENCE_S):
            raise RuntimeError(f"{p.name} ended with {p.process.returncode}\n{p.tail()}")


def paired(lab, qps, how, redis, fault):
    if how:
        how.kv = redis.url
    began = time.monotonic()
    ends = start_both(lab, qps, how)
    result = {"setup_ms": [int(re.search(r"^SETUP\|\d+\|(\d+)$", p.out(), re.M).group(1)) / 1e6
                           for p in ends],
              "open_ms": [int(re.search(r"^OPEN\|(\d+)$", p.out(), re.M).group(1)) / 1e6
                          for p in ends]}
    rested = time.monotonic()
    if how:
        await_protection(lab, ends, qps)
        result["protected_s"] = time.monotonic() - rested
        result["kv_calls"] = redis.calls()
        counters = redis.counters()
        result["kv_bytes"] = counters["in"] + counters["out"]
    nics = [nic for host in lab.status()["hosts"] for nic in host["nics"]]
    result["qp_queries"] = sum(nic["qp_queries"] for nic in nics)
    result["whole_s"] = time.monotonic() - began
    result["private_kb"] = [private_kb(p) for p in ends]
    if fault:
        result["moved_ms"] = moved_ms(lab, ends, qps)
    end_both(ends)
    result["verbs"] = [rows_of(p) for p in ends]
    return result


def scale(args, qps, cost_us):
    """Stock, SHIFT and lazy SHIFT in turns; medians over the runs and both ends."""
    stock, with_shift, lazy = [], [], []
    eagerly, lazily = Shift(log="info"), Shift(log="info", lazy="on")
    for i in range(args.rounds):
        order = [(stock, None), (with_shift, eagerly), (lazy, lazily)]
        for results, how in order if i % 2 == 0 else reversed(order):
            results.append(one_run(args, qps, cost_us, how))

    def median(results, key):
        return statistics.median(v for r in results for v in r[key])

    row = {"qps": qps, "command_us": cost_us, "stock_setup_ms": median(stock, "setup_ms"),
           "shift_setup_ms": median(with_shift, "setup_ms"), "lazy_setup_ms": median(lazy, "setup_ms"),
           "kv_calls_per_qp": sum(with_shift[-1]["kv_calls"].values()) / qps / 2,
           "kv_calls": with_shift[-1]["kv_calls"],
           "kv_bytes_per_qp": with_shift[-1]["kv_bytes"] / qps / 2,
           "qp_queries": max(r["qp_queries"] for r in with_shift),
           "stock_kb": median(stock, "private_kb")}
    row["setup_ratio"] = row["shift_setup_ms"] / row["stock_setup_ms"]
    for way, results, how in (("eager", with_shift, eagerly), ("lazy", lazy, lazily)):
        row[way] = {"protected_s": statistics.median(r["protected_s"] for r in results),
                    "moved_ms": one_run(args, qps, cost_us, how, fault=True)["moved_ms"]}
        row[way]["kb"] = median(results, "private_kb")
        row[way]["kb_per_qp"] = (row[way]["kb"] - row["stock_kb"]) / qps
    print(f"{qps:5} QPs: set-up {row['stock_setup_ms']:9.1f} ms stock, "
          f"{row['shift_setup_ms']:9.1f} ms SHIFT ({row['setup_ratio']:.2f}), "
          f"{row['lazy_setup_ms']:.1f} lazy; KV "
          f"{row['kv_calls_per_qp']:.2f} operations and {row['kv_bytes_per_qp']:.0f} B a QP; "
          f"{row['qp_queries']} query_qp")
    for way in ("eager", "lazy"):
        print("{way:>10}: all protected after {protected_s:6.2f} s; memory {kb_per_qp:5.1f} KB per "
              "protected QP (published: {published})".format(way=way, published=PUBLISHED_KB,
                                                             **row[way]) +
              "; all left a dead port within {moved_ms:7.1f} ms".format(**row[way]), flush=True)
    return row, verbs(stock, with_shift)


def verbs(stock, with_shift):
    """Of each verb the median of the runs' figures; spread: half the distance of the quartiles."""
    rows = []
    for name in stock[0]["verbs"][0]:
        row = {"verb": name, "bound": BOUND, "published": PUBLISHED.get(name)}
        for who, results in (("stock", stock), ("shift", with_shift)):
            ends = [v[name] for r in results for v in r["verbs"]]
            for figure, key in (("median", "ns"), ("mean", "mean_ns"), ("unqueued", "unqueued_ns"),
                                ("cpu", "cpu_ns"),
                                ("faults", "faults"), ("sleeps", "sleeps")):
                row[f"{who}_{key}"] = statistics.median(e[figure] for e in ends)
            low, _, high = statistics.quantiles([e["unqueued"] for e in ends], method="inclusive")
            row[f"{who}_spread_ns"] = (high - low) / 2
        row["ratio"] = round(row["shift_ns"] / row["stock_ns"], 3)
        row["unqueued_ratio"] = round(row["shift_unqueued_ns"] / row["stock_unqueued_ns"], 3)
        row["kept"] = row["unqueued_ratio"] <= BOUND
        rows.append(row)
    return rows


def show_verbs(rows):
    print(f"{'':18} {'on the wall, us':>19} {'':>6} {'not in line, us':>33} {'':>6} {'own CPU, us':>13}"
          f" {'faults':>11} {'sleeps':>11}")
    for r in rows:
        print(f"{r['verb']:18} {r['stock_ns'] / 1e3:9.1f} {r['shift_ns'] / 1e3:9.1f} {r['ratio']:6.2f} "
              f"{r['stock_unqueued_ns'] / 1e3:9.1f} +-{r['stock_spread_ns'] / 1e3:4.1f} "
              f"{r['shift_unqueued_ns'] / 1e3:9.1f} +-{r['shift_spread_ns'] / 1e3:4.1f} "
              f"{r['unqueued_ratio']:6.2f}{' ' if r['kept'] else '!'}"
              f"{r['stock_cpu_ns'] / 1e3:6.1f} {r['shift_cpu_ns'] / 1e3:6.1f} "
              f"{r['stock_faults']:5.2f} {r['shift_faults']:5.2f} "
              f"{r['stock_sleeps']:5.2f} {r['shift_sleeps']:5.2f}"
              + (f"  published: {r['published']}" if r["published"] else ""))


def backups_of(n):
    return ",".join(f"mlx5_{i}=" + ":".join(f"mlx5_{(i + k) % (n + 1)}" for k in range(1, n + 1))
                    for i in range(n + 1))


def begin(args):
    """What a program sees of its set-up, from the device list to a connected queue pair, by the number of
    backup NICs; commands of the NIC take the time of hardware's."""
    rows = []
    ways = [(0, None)] + [(n, Shift(log="info", backup=backups_of(n))) for n in (1, 2)]
    found = {n: [] for n, _ in ways}
    for i in range(args.rounds):
        for n, how in ways if i % 2 == 0 else reversed(ways):
            found[n].append(one_run(args, 1, args.begin, how, nics=3))
    for n, _ in ways:
        whole = [o + s for r in found[n] for o, s in zip(r["open_ms"], r["setup_ms"])]
        row = {"backups": n, "command_us": args.begin, "ms": statistics.median(whole),
               "least_ms": min(whole), "most_ms": max(whole),
               "open_ms": statistics.median(v for r in found[n] for v in r["open_ms"]),
               "published_ms": PUBLISHED_INIT_MS[n]}
        if n:
            row["protected_s"] = statistics.median(r["protected_s"] for r in found[n])
        rows.append(row)
        print(f"{n} backups: {row['ms']:6.1f} ms ({row['least_ms']:.1f} to {row['most_ms']:.1f}; "
              f"{row['ms'] / rows[0]['ms']:.2f} of none), {row['open_ms']:.1f} of them to open the device; "
              f"published: {row['published_ms']} ({row['published_ms'] / PUBLISHED_INIT_MS[0]:.2f})"
              + (f"; protected {row['protected_s']:.2f} s later" if n else ""), flush=True)
    save(args.out, "bench-begin.json", {"rounds": args.rounds, "rows": rows})


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", default="build")
    p.add_argument("--out", default="out")
    p.add_argument("--qps", default="1,100,1000,4096")
    p.add_argument("--costs", default="0,100", help="of a command, in us")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--begin", type=float, metavar="US",
                   help="only what a program with one queue pair sees of its set-up, with 0 to 2 backups, and "
                   "commands that take so long")
    args = p.parse_args()
    if args.begin is not None:
        begin(args)
        return 0
    runs = []
    for cost_us in (float(c) for c in args.costs.split(",")):
        rows, by_verb = [], {}
        print(f"commands take {cost_us:g} us:")
        for qps in (int(n) for n in args.qps.split(",")):
            row, by_verb[qps] = scale(args, qps, cost_us)
            rows.append(row)
        widest = max(by_verb)
        print(f"each verb, of {widest} queue pairs:")
        show_verbs(by_verb[widest])
        runs.append({"command_us": cost_us, "scale": rows, "verbs": by_verb})
    save(args.out, "bench-control.json", {"runs": runs, "published_kb": PUBLISHED_KB})
    return 0


if __name__ == "__main__":
    sys.exit(main())
