#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""How far a data-parallel training on two CPUs comes (tests/lib/shiftlab/ranks/train_rank.py: Open MPI, UCX over
verbs) when the NIC of one rank fails for good, and when its link comes and goes: as it is, and with SHIFT.
Counts steps over time. Writes out/training.json. Status 77: the programs are not here."""
import argparse
import sys
import time

from shiftlab import jobs
from shiftlab.lab import SKIPPED, Lab, Shift, wait_for
from shiftlab.openmpi import OpenMpi
from shiftlab.results import save

NIC = "h1/mlx5_0"
SAMPLE_S = 0.1
HOLDDOWN_MS = 500       # a link that flaps is not gone back to before it stood so long


def events(fault, duration):
    """[(seconds, is it down)]; of a link that flaps a fifth of the time down, three times."""
    if fault == "fatal":
        return [(0.2 * duration, True)]
    return [(duration * (0.2 + 0.2 * i + down), down == 0) for i in range(3) for down in (0, 0.07)]


class Steps:
    """Counts the lines that the first rank has written, as the file grows."""

    def __init__(self, rank):
        self.path, self.n = rank.rounds_path, 0
        self.file = open(self.path, "rb")   # pylint: disable=consider-using-with

    def count(self):
        self.n += self.file.read().count(b"\n")
        return self.n


def follow(lab, job, fault, duration):
    """Samples until the time is over, or the job."""
    todo, steps = events(fault, duration), Steps(job.ranks[0])
    first, began = steps.count(), time.monotonic()
    run = {"t_s": [], "steps": [], "events": []}
    while True:
        now = time.monotonic() - began
        run["t_s"].append(round(now, 3))
        run["steps"].append(steps.count() - first)
        run["died"] = not all(p.running() for p in job.programs)
        if now >= duration or run["died"]:
            return run
        while todo and todo[0][0] <= now:
            lab.fault("port-down" if todo[0][1] else "port-up", NIC)
            run["events"].append([round(time.monotonic() - began, 3), todo.pop(0)[1]])
        time.sleep(SAMPLE_S)


def once(args, mpi, fault, with_shift, number):
    with Lab(args.build, seed=number) as lab:
        shift = Shift(log="info", holddown_ms=HOLDDOWN_MS) if with_shift else None
        job = mpi.starter("train_rank.py")(lab, "training", shift, None)
        if with_shift:
            wait_for("protection of all connections", job.protected, 60)
        job.goes_on()
        run = follow(lab, job, fault, args.duration)
        if run["died"] and with_shift:
            raise RuntimeError("the job ended")
        return dict(run, fault=fault, shift=with_shift)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", default="build")
    p.add_argument("--out", default="out")
    p.add_argument("--runs", type=int, default=3)
    p.add_argument("--duration", type=float, default=18, help="seconds of each run")
    args = p.parse_args()
    try:
        mpi = OpenMpi(args.build)
    except jobs.Missing as e:
        print(f"SKIP: {e}")
        return SKIPPED
    runs = []
    for fault in ("fatal", "flapping"):
        for i in range(args.runs):
            for with_shift in (False, True) if i % 2 == 0 else (True, False):
                run = once(args, mpi, fault, with_shift, i + 1)
                runs.append(run)
                print(f"{fault:8} {'SHIFT' if with_shift else 'as it is':8} "
                      f"{run['steps'][-1]:6} steps in {run['t_s'][-1]:.1f} s"
                      f"{', then it died' if run['died'] else ''}", flush=True)
    save(args.out, "training.json", {"duration_s": args.duration, "runs": runs})
    return 0


if __name__ == "__main__":
    sys.exit(main())
