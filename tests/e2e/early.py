#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A NIC fails while programs set their connections up, at a random moment, and stays so. Of a backup they do not
know: they come up, move messages and close. Where the link of their own NIC is down, they come up as on stock,
and end, with errors or without.

  early.py --build DIR [--seed N] [CASE...]
"""
import json
import os
import random
import sys
import time

from shiftlab.lab import Shift, cases_main, free_port, wait_for
from shiftlab.perftest import Failed

BACKUP = ("port-down", "cable-down", "nic-internal-error", "nic-unplug", "nic-disassociate", "nic-hang")
OWN = ("port-down", "cable-down")
CASES = {f"{'backup' if nic else 'own'}_{kind.replace('-', '_')}": (kind, nic)
         for nic, kinds in ((1, BACKUP), (0, OWN)) for kind in kinds}
SET_UP_S = 0.06     # about as long as it takes
RUN_S = 0.5


def start(lab):
    port = str(free_port())
    argv = [os.path.join(lab.out, "bin", "verify"), "--seed", lab.seed, "--port", port, "--control", "--dev",
            "mlx5_0", "--gid-index", 0, "--qps", 2, "--patterns", "ab", "--timeout", 14, "--retry", 7,
            "--stuck", 30, "--may-fail", "--allow-events"]
    how = Shift(log="info")
    return [lab.start("h0", argv + ["--server"], "server", how, stdin=True),
            lab.start("h1", argv + ["--client", "127.0.0.1"], "client", how, stdin=True)]


def summary(program):
    rows = [row for row in program.out().splitlines() if row.startswith("SUMMARY ")]
    return json.loads(rows[-1][8:]) if rows else None


def run(lab, name):
    kind, nic = CASES[name]
    rng = random.Random(f"{lab.seed} {name}")
    target, at = f"h{rng.randrange(2)}/mlx5_{nic}", rng.choice((0.0, rng.uniform(0, SET_UP_S)))
    print(f"       {kind} {target} after {at:.3f} s", flush=True)
    ends = start(lab)
    time.sleep(at)
    lab.fault(kind, target)
    for p in ends:
        wait_for("start of " + p.name, lambda p=p: "STARTED" in p.out() or not p.running(), 40)
    time.sleep(RUN_S)
    for p in ends:
        p.say("stop")
    for p in ends:
        p.wait(60)
        s = summary(p)
        if not s or s["result"] != "ok":
            raise Failed(f"{p.name}: {s['reason'] + ': ' + s['text'] if s else 'no summary'}")
        failed = [q["qp"] for q in s["qps"] if q["failed"]]
        if nic and (failed or not any(q["sent"] + q["received"] for q in s["qps"])):
            raise Failed(f"{p.name}: queue pairs {failed} failed, or nothing was sent")


if __name__ == "__main__":
    sys.exit(cases_main(CASES, run, seeded=True))
