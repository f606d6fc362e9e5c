#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What a process with SHIFT costs while it does nothing, and what a move costs. Two processes on hosts with
--nics NICs connect --qps queue pairs, which carry nothing once they are protected. A line for each figure: private
memory beyond stock; wake-ups of all of SHIFT's threads in a second; their CPU time in an hour; and the CPU time of
each move when a port goes down, of the background thread and of all SHIFT's threads. Times are the kernel's, of each thread (schedstat); medians of both ends of all rounds, and the range.
Writes out/idle.json. --check: nothing but the wake-ups, which must be within the bound."""
import argparse
import glob
import statistics
import sys
import time

from control import CALM_S, PATIENCE_S, await_protection, end_both, private_kb, start_both
from shiftlab.lab import Lab, Shift, wait_for
from shiftlab.redis import MANY_CLIENTS, Redis
from shiftlab.results import save

BOUND_WAKES = 1.0       # wake-ups of an idle process in a second
THREAD = "shift"        # the background thread
NOT_SHIFTS = ("simnic", "control")  # threads of the software NIC and of the program
MOVED = "moved from mlx5_0 to "
SETTLE_S = 20           # behind the set-up: what it leaves to be done has been done by then


def read(path):
    with open(path, encoding="ascii", errors="replace") as f:
        return f.read()


def threads(program):
    """Of SHIFT's threads, by number: (name, ns of CPU, wake-ups). A thread that ends meanwhile is left out."""
    found = {}
    for task in glob.glob(f"/proc/{program.pid}/task/*"):
        try:
            name = read(task + "/comm").strip()
            if name not in NOT_SHIFTS:
                wakes = next(int(line.split()[1]) for line in read(task + "/status").splitlines()
                             if line.startswith("voluntary_ctxt_switches"))
                found[task] = (name, int(read(task + "/schedstat").split()[0]), wakes)
        except FileNotFoundError:
            pass
    return found


def between(before, after):
    """CPU in ns of the background thread and of all, and wake-ups, with what each thread had of them."""
    each = {}
    for task, (name, cpu, wakes) in after.items():
        _, cpu0, wakes0 = before.get(task, (name, 0, 0))
        ns, n = each.get(name, (0, 0))
        each[name] = (ns + cpu - cpu0, n + wakes - wakes0)
    return {"background_ns": each.get(THREAD, (0, 0))[0], "all_ns": sum(ns for ns, _ in each.values()),
            "wakes": sum(n for _, n in each.values()), "each": each}


def await_moves(lab, ends, qps):
    for p in ends:
        wait_for("moves of " + p.name, lambda p=p: lab.shift_log(p).count(MOVED) >= qps or not p.running(),
                 PATIENCE_S, 0.1)
        if not p.running():
            raise RuntimeError(p.tail())


def one_run(args, qps, shift, redis_of):
    """Both ends: memory in KB, the idle time, the moves."""
    with Lab(args.build, nics=args.nics) as lab:
        redis = redis_of(lab) if shift else None
        how = Shift(log="info", kv=redis.url) if shift else None
        try:
            ends = start_both(lab, qps, how)
            if shift:
                await_protection(lab, ends, qps)
            time.sleep(SETTLE_S)
            result = {"kb": [private_kb(p) for p in ends]}
            if shift:
                before, at = [threads(p) for p in ends], time.monotonic()
                time.sleep(args.seconds)
                result["idle"] = [between(b, threads(p)) for b, p in zip(before, ends)]
                result["idle_s"] = time.monotonic() - at
                if not args.check:
                    before = [threads(p) for p in ends]
                    lab.fault("port-down", "h0/mlx5_0")
                    await_moves(lab, ends, qps)
                    time.sleep(CALM_S)
                    result["moves"] = [between(b, threads(p)) for b, p in zip(before, ends)]
            end_both(ends)
            return result
        finally:
            if redis:
                redis.end()


def line(qps, what, values, unit):
    print(f"{qps:5} QPs  {what:52} {statistics.median(values):9.1f} {unit:8} {min(values):.1f} to {max(values):.1f}",
          flush=True)
    return {"qps": qps, "what": what, "unit": unit, "values": values}


def measure(args, qps, redis_of):
    runs = [one_run(args, qps, True, redis_of) for _ in range(args.rounds)]
    wakes = [end["wakes"] / run["idle_s"] for run in runs for end in run["idle"]]
    rows = [line(qps, f"wake-ups of an idle process, {args.nics} NICs", wakes, "/s")]
    if args.verbose:
        for run in runs:
            for end in run["idle"]:
                print({name: (round(ns / 1e6, 2), n) for name, (ns, n) in end["each"].items() if n}, flush=True)
    if args.check:
        return rows
    stock = [one_run(args, qps, False, redis_of) for _ in range(args.rounds)]
    before = statistics.median(kb for run in stock for kb in run["kb"])
    rows.append(line(qps, "private memory beyond stock", [kb - before for run in runs for kb in run["kb"]], "KB"))
    for key, what in (("background_ns", "the background thread"), ("all_ns", "all SHIFT's threads")):
        rows.append(line(qps, f"CPU of an idle process in an hour, {what}",
                         [end[key] / 1e9 / run["idle_s"] * 3600 for run in runs for end in run["idle"]], "s"))
        rows.append(line(qps, f"CPU of a move, {what}",
                         [end[key] / 1e3 / qps for run in runs for end in run["moves"]], "us"))
    return rows


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", default="build")
    p.add_argument("--out", default="out")
    p.add_argument("--nics", type=int, default=8)
    p.add_argument("--qps", type=int, nargs="+", default=[1, 1000])
    p.add_argument("--seconds", type=float, default=30)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--check", action="store_true")
    p.add_argument("--most", type=float, default=BOUND_WAKES, help="the bound, wake-ups a second (%(default)g)")
    p.add_argument("--verbose", action="store_true", help="what each thread had of the wake-ups")
    args = p.parse_args()
    rows = [row for qps in args.qps for row in measure(args, qps, lambda lab: Redis(lab, args=MANY_CLIENTS).start())]
    if args.check:
        return int(max(rows[0]["values"]) > args.most)
    save(args.out, "idle.json", {"nics": args.nics, "seconds": args.seconds, "rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
