#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What one call of a data verb costs, in instructions (counted by callgrind, of the calling thread
alone) and in nanoseconds (of another run, not under valgrind): the distribution's libibverbs and
libmlx5, SHIFT with a protected QP on its own NIC (Default), SHIFT after a move to the backup NIC
(Fallback), the same two with SHIFT_ENGINE=ledger, and libmlx5 under a layer that copies every request
(what a layer over plain verbs costs that is not made for it). Prints a table with the ratios to the
first, says which bounds they keep, and writes out/bench-verbs.json."""
import argparse
import glob
import json
import os
import re
import statistics
import sys

from shiftlab.lab import SKIPPED, Lab, Shift, free_port, out_folder, wait_for
from shiftlab.results import save

QPS = 2
# key in the JSON, what the table calls it ("ledger" was there before the engine of that name)
KINDS = {"stock": "stock", "shift": "SHIFT", "fallback": "Fallback",
         "engine": "ledger", "engine_fallback": "led.Fall", "ledger": "copying"}
RATIOS = {"shift": "ratio", "fallback": "fallback_ratio", "engine": "engine_ratio",
          "engine_fallback": "engine_fallback_ratio", "ledger": "ledger_ratio"}
COPIED_VERBS = ("post_", "poll_cq")     # what it copies and pops; the rest is untouched stock
BOUND_DEFAULT, BOUND_ARM, BOUND_FALLBACK = 0.90, 1.05, 1.00
# Of the ledger engine, over the provider's own posts and polls; in Fallback it is told, not judged.
BOUND_ENGINE_MANY, BOUND_ENGINE_ONE, BOUND_ENGINE_WR, BOUND_ENGINE_ARM = 1.20, 1.30, 1.35, 1.00
BOUND_LOG = 40      # instructions a request that a log may take more
SENDS = ("post_send", "wr ")


def dumped(folder):
    """{label: instructions of each call} of the dumps that callgrind wrote."""
    found = {}
    for path in glob.glob(os.path.join(folder, "callgrind.out.*")):
        with open(path, errors="replace") as f:
            text = f.read()
        label = re.search(r"^desc: Trigger: Client Request: (.*)$", text, re.M)
        total = re.search(r"^(?:totals|summary): (\d+)", text, re.M)
        if label and total:
            found.setdefault(label.group(1), []).append(int(total.group(1)))
    return found


def say_and_wait(client, phase, timeout):
    client.say(phase)
    wait_for("end of " + phase, lambda: f"DONE {phase}\n" in client.out() or not client.running(),
             timeout)
    if not client.running():
        raise RuntimeError(f"{client.name} ended with {client.process.returncode}")


def all_qps(lab, host):
    return [q for process in json.loads(lab.shiftctl(host, "status", "--json"))["processes"]
            for q in process["qps"]]


def all_logged(lab, host):
    return all(q["log"] == "on" for q in all_qps(lab, host))


def all_fallen_back(lab, host):
    qps = all_qps(lab, host)
    return len(qps) == QPS and all(
        q["send"] == q["receive"] == "FALLBACK" and q["move"] == "NONE" for q in qps)


def fall_back(lab):
    lab.fault("port-down", "h1/mlx5_0")
    for host in ("h0", "h1"):
        wait_for("move of " + host, lambda host=host: all_fallen_back(lab, host), 60, 0.2)


def still_default(lab):
    """Nothing has moved while the first phase was measured, not even there and back."""
    if " moved from " in lab.shift_logs():
        raise RuntimeError("a connection moved while SHIFT in Default was measured")


def run(args, engine, copying, phases, valgrind):
    """{label: (samples, [instructions], nanoseconds)}. engine: of SHIFT; None: without SHIFT."""
    samples = args.samples if valgrind else args.times
    with Lab(args.build) as lab:
        argv = [os.path.join(lab.out, "bin", "verbs"), "--port", free_port()]
        client_argv = argv + ["--client", "--samples", samples] + (["--copying"] if copying else [])
        if valgrind:
            client_argv = ["valgrind", "--tool=callgrind", "--collect-atstart=no",
                           "--fair-sched=yes", "--callgrind-out-file="
                           + os.path.join(lab.folder, "callgrind.out.%p")] + client_argv
        settings = {"wqe_log": args.wqe_log} if args.wqe_log else {}
        how = Shift(log="info", engine=engine, **settings) if engine else None
        ends = [lab.start("h0", argv + ["--server"], "server", how),
                lab.start("h1", client_argv, "client", how, stdin=True)]
        client = ends[1]
        for p in ends:
            wait_for("start of " + p.name, lambda p=p: "CONNECTED" in p.out()
                     or not p.running(), 60)
            if engine:
                wait_for("protection of " + p.name, lambda p=p: lab.protected(p) >= QPS, 60)
        if settings and engine:
            wait_for("its log", lambda: all_logged(lab, "h1"), 60)
        for i, phase in enumerate(phases):
            if i:
                still_default(lab)
                fall_back(lab)
            say_and_wait(client, phase, 600)
        client.say("end")
        for p in ends:
            if p.wait(60):
                raise RuntimeError(f"{p.name} ended with {p.process.returncode}\n{p.tail()}")
        counts = dumped(lab.folder) if valgrind else {}
        rows = re.findall(r"^CASE\|([^|]*\|[^|]*)\|(\d+)\|(\d+)$", client.out(), re.M)
        return {label: (int(n), counts.get(label, []), int(ns)) for label, n, ns in rows}


def per_call(results, phase, verb):
    """Instructions of one call, without those of the counting itself. The median of all samples: a
    call that finds a lock taken counts its waiting too, and one that finds what SHIFT's thread has
    collected meanwhile need not ask the provider."""
    counts, nothing = results[f"{phase}|{verb}"][1], results[f"{phase}|nothing"][1]
    return statistics.median_low(counts) - min(nothing)


def times(results, phase, verb):
    return max(0, results[f"{phase}|{verb}"][2] - results[f"{phase}|nothing"][2])


def engine_bound(verb):
    if verb.startswith("arm"):
        return BOUND_ENGINE_ARM
    if verb.startswith("wr "):
        return BOUND_ENGINE_WR
    return BOUND_ENGINE_MANY if "16" in verb else BOUND_ENGINE_ONE


def table(counted, timed):
    """One row a verb."""
    rows = []
    for label in counted:
        phase, verb = label.split("|")
        if phase != "stock" or verb == "nothing":
            continue
        row = {"verb": verb}
        for name in KINDS:
            row[name + "_insn"] = round(per_call(counted, name, verb), 1)
            row[name + "_ns"] = times(timed, name, verb)
        for name, key in RATIOS.items():
            row[key] = round(row[name + "_insn"] / row["stock_insn"], 3)
        if not verb.startswith(COPIED_VERBS):
            row["ledger_insn"] = row["ledger_ns"] = row["ledger_ratio"] = None
        for what, bound in (("", BOUND_ARM if verb.startswith("arm") else BOUND_DEFAULT),
                            ("fallback_", BOUND_FALLBACK), ("engine_", engine_bound(verb))):
            row[what + "bound"] = bound
            row[what + "kept"] = row[what + "ratio"] <= bound
        rows.append(row)
    return rows


def number(value, form):
    return " " * 8 + "-" if value is None else format(value, form)


def mark(row, key):
    """A ratio, marked where it breaks its bound."""
    kept = row.get(key.replace("ratio", "kept"), True)
    return number(row[key], "8.2f" if row[key] is not None else "") + (
        "" if row[key] is None else " " if kept else "!")


def show(rows):
    n = 9 * len(KINDS)
    print(f"{'':32} {'instructions of one call':^{n}} {'ratio to stock':^{n - 9}}   "
          f"{'nanoseconds of one call':^{n}}")
    names = list(KINDS.values())
    print(f"{'verb':32}" + "".join(f"{n:>9}" for n in names)
          + "".join(f"{n:>9}" for n in names[1:]) + "   " + "".join(f"{n:>9}" for n in names))
    for r in rows:
        print(f"{r['verb']:32}" + "".join(number(r[n + "_insn"], "9.0f") for n in KINDS)
              + "".join(mark(r, key) for key in RATIOS.values()) + "   "
              + "".join(number(r[n + "_ns"], "9d") for n in KINDS))
    for what, key in (("Default", "kept"), ("Fallback", "fallback_kept"),
                      ("ledger", "engine_kept")):
        good = sum(r[key] for r in rows)
        print(f"{what}: {good} of {len(rows)} keep their bound"
              + ("" if good == len(rows) else "; not (marked !): "
                 + ", ".join(r["verb"] for r in rows if not r[key])))
    print(f"bounds: {BOUND_DEFAULT:.2f} in Default, {BOUND_ARM:.2f} for arming, "
          f"{BOUND_FALLBACK:.2f} in Fallback; of the ledger: {BOUND_ENGINE_MANY:.2f} for lists and "
          f"batches, {BOUND_ENGINE_ONE:.2f} for one, {BOUND_ENGINE_WR:.2f} for ibv_wr_*, "
          f"{BOUND_ENGINE_ARM:.2f} for arming.\nTimes are told, not judged: clock and cache are in "
          "them.")


def log_rows(args, counted):
    """What a log takes more, a request, of each verb that posts sends: (phase, verb, instructions)."""
    without = argparse.Namespace(**{**vars(args), "wqe_log": 0})
    plain = run(without, "mlx5", False, ["shift", "fallback"], True)
    rows = []
    for label in plain:
        phase, verb = label.split("|")
        if verb.startswith(SENDS):
            more = per_call(counted, phase, verb) - per_call(plain, phase, verb)
            rows.append({"phase": phase, "verb": verb, "more": more / (16 if "x16" in verb else 1)})
    return rows


def show_log(rows):
    for r in rows:
        print(f"{KINDS[r['phase']]:9}{r['verb']:32}{r['more']:+8.1f}" + (" !" if r["more"] > BOUND_LOG else ""))
    good = sum(r["more"] <= BOUND_LOG for r in rows)
    print(f"the log: {good} of {len(rows)} take at most {BOUND_LOG} instructions a request more")


def all_runs(args, valgrind):
    results = run(args, None, False, ["stock"], valgrind)
    results.update(run(args, None, True, ["ledger"], valgrind))
    results.update(run(args, "mlx5", False, ["shift", "fallback"], valgrind))
    results.update(run(args, "ledger", False, ["engine", "engine_fallback"], valgrind))
    return results


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", default="build")
    p.add_argument("--out", default="out")
    p.add_argument("--samples", type=int, default=16, help="calls that are counted, each verb")
    p.add_argument("--times", type=int, default=200, help="calls that are timed, each verb")
    p.add_argument("--wqe-log", type=int, default=0, metavar="N",
                   help="SHIFT lays a log WQE behind each Nth WRITE (SHIFT_WQE_LOG), which no bound of ratios allows "
                        "for; shows what that takes more")
    args = p.parse_args()
    if not os.path.exists(os.path.join(out_folder(args.build), "bin", "verbs")):
        print("skipped: bench/verbs is not built (valgrind/callgrind.h is not installed)")
        return SKIPPED
    counted = all_runs(args, True)
    rows = table(counted, all_runs(args, False))
    show(rows)
    log = log_rows(args, counted) if args.wqe_log else []
    if log:
        show_log(log)
    save(args.out, "bench-verbs.json", {"samples": args.samples, "times": args.times, "rows": rows, "log": log})
    return 0


if __name__ == "__main__":
    sys.exit(main())
