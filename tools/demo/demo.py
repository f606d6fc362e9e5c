#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The main job: stock perftest outlives a dead NIC or switch, and goes back when it is well again.

Nine panels: the distribution's ib_write_bw, ib_send_bw and ib_read_bw between two hosts with two
NICs each, while (initiator) the link of the NIC that posts is lost, (responder) the NIC of the other
host dies of an internal error and is probed again with other keys and queue pair numbers, (switch)
the switch of the default NICs drops everything and nobody is told. Each panel runs twice: as it is,
which ends with status 12, and with SHIFT, where the fault falls at 5 s and ends at 10 s. Ends 0 only
if all programs with SHIFT ran to their ends, and by the fabric's counters on the default NIC again.

SHIFT_KV in the environment is used as it is; --kv redis starts a Redis server of its own for each
run with SHIFT, --kv redis-stopped also stops it as soon as the connection is protected.
"""
import argparse
import os
import sys
import time

from job import STEP_S, Job
from shiftlab.results import run_plot, save

HERE = os.path.dirname(os.path.abspath(__file__))
TOOLS = {"write": "ib_write_bw", "send": "ib_send_bw", "read": "ib_read_bw"}
# the client, which posts, is on h1
FAULTS = {"initiator": ("port-down", "h1/mlx5_0"), "responder": ("nic-internal-error", "h0/mlx5_0"),
          "switch": ("switch-down", "rail0")}


class Panel:
    """One tool under one fault, as it is and with SHIFT."""

    def __init__(self, number, verb, where):
        self.number = number
        self.name = f"{verb}-{where}"
        self.tool = TOOLS[verb]
        self.kind, self.target = FAULTS[where]
        self.receiver = 1 if verb == "read" else 0  # index of the host that gets the bytes
        self.stock = self.shift = None

    def run(self, args):
        print(f"({self.number}) {self.tool}, {self.kind} {self.target}", flush=True)
        self.stock = Job(args, self, with_shift=False).run()
        print(f"  as it is: {outcome(self.stock)}, {self.stock.mean(0, self.stock.fault_at):.1f} Gb/s "
              "before", flush=True)
        self.shift = Job(args, self, with_shift=True).run()
        print(f"  with SHIFT: {outcome(self.shift)}\n", flush=True)

    def wrong(self):
        return [f"{who}: {job.wrong()}" for who, job in
                (("as it is", self.stock), ("with SHIFT", self.shift)) if job.wrong()]

    def record(self):
        return {"panel": self.number, "name": self.name, "tool": self.tool, "fault": self.kind,
                "target": self.target, "as_it_should_be": not self.wrong(),
                "stock": self.stock.record(), "shift": self.shift.record()}

    def row(self):
        job, step = self.shift, STEP_S
        end = job.samples[-1][0] if job.samples else 0
        return (f"{self.number}  {self.tool:11} {self.kind:18} {outcome(self.stock):22} "
                f"{outcome(job):22} {job.mean(0, job.fault_at):7.1f} "
                f"{job.mean(job.fault_at + 1, job.heal_at):7.1f} "
                f"{job.mean(end - 2 - step, end - step):7.1f} {figure(job.fallback_us()):>8} "
                f"{figure(job.failback_us()):>8} {job.total('resubmitted_wrs'):5} "
                f"{100 * job.share_at_end():7.1f} %")


def figure(us):
    return "-" if us is None else f"{us:.0f}"


def outcome(job):
    if job.note:
        return job.note[:22]
    if job.status:
        return f"exit {job.exit}, status {job.status}"
    return f"exit {job.exit}" + (", ran to its end" if job.exit == 0 else "")


HEADER = (f"{'':2} {'program':11} {'fault':18} {'as it is':22} {'with SHIFT':22} {'before':>7} "
          f"{'during':>7} {'after':>7} {'fall':>8} {'return':>8} {'sent':>5} {'default NIC':>9}\n"
          f"{'':2} {'':11} {'':18} {'':22} {'':22} {'Gb/s':>7} {'Gb/s':>7} {'Gb/s':>7} {'us':>8} "
          f"{'us':>8} {'again':>5} {'at end':>9}")


def draw(folder):
    run_plot(os.path.join(HERE, "draw.py"), folder)


def write_out(panels, folder):
    save(folder, "demo.json", {"sample_s": STEP_S, "panels": [p.record() for p in panels]})
    draw(folder)


def parse_args():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build", help="build folder")
    p.add_argument("--out", default="out", help="where demo.json and the pictures go")
    p.add_argument("--panels", default="", help="comma-separated words that a panel's name begins or "
                   "ends with, such as write,switch or read-responder; default: all nine")
    p.add_argument("--duration", type=int, default=15, help="seconds of each run with SHIFT")
    p.add_argument("--fault-at", type=float, default=5, help="seconds after the traffic began")
    p.add_argument("--heal-at", type=float, default=10, help="the same for the end of the fault")
    p.add_argument("--stock-fault-at", type=float, default=2, help="the same for runs without SHIFT")
    p.add_argument("--quick", action="store_true", help="fault at 2 s, healed at 3.5 s, 8 s in all")
    p.add_argument("--kv", choices=("environment", "redis", "redis-stopped"),
                   default="environment")
    args = p.parse_args()
    if args.quick:
        args.duration, args.fault_at, args.heal_at, args.stock_fault_at = 8, 2, 3.5, 1
    if not args.fault_at < args.heal_at < args.duration:
        p.error("the fault comes first, then its end, then the end of the run")
    names = [f"{verb}-{where}" for where in FAULTS for verb in TOOLS]
    words = [w for w in args.panels.split(",") if w]
    args.panels = [Panel(i + 1, *name.split("-")) for i, name in enumerate(names)
                   if not words or any(name.startswith(w) or name.endswith(w) for w in words)]
    if not args.panels:
        p.error("no such panel; there are " + ", ".join(names))
    return args


def main():
    args = parse_args()
    begun = time.monotonic()
    for panel in args.panels:
        panel.run(args)
    print(HEADER)
    for panel in args.panels:
        print(panel.row())
    write_out(args.panels, args.out)
    print(f"\n{time.monotonic() - begun:.0f} s; written: {args.out}/demo.json, demo.png, demo.svg")
    wrong = [f"({p.number}) {p.name}, {why}" for p in args.panels for why in p.wrong()]
    for line in wrong:
        print("NOT as it should be: " + line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
