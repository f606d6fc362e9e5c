#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Traffic falls to the backup NIC and comes back: stock perftest through faults and a drain, and
queue pairs that give the return nothing to hold on to (idle, only receiving, never signaling, with
full rings).

  return.py --build DIR          perftest is told to end by the signal that ends its -D
  return.py --build DIR --few    each fault with one of the tools, the next one with the next
  return.py --build DIR --duration 30 --fault-at 5 --heal-at 10
"""
import argparse
import concurrent.futures
import os
import re
import sys
import time

from shiftlab.lab import PATIENT, Lab, Shift, Stuck, free_port, wait_for
from shiftlab.perftest import SOON, Failed, Perftest, drain, link, switch

TOOLS = ("ib_write_bw", "ib_send_bw", "ib_read_bw")
FLAPS = 10
KINDS_OF_IDLE = 5


def initiator(lab, begin):
    lab.fault("nic-internal-error", "h1/mlx5_0") if begin else lab.ctl("heal", "h1/mlx5_0")


def responder(lab, begin):
    """It comes back with other keys and queue pair numbers."""
    lab.fault("nic-disassociate", "h0/mlx5_0") if begin else lab.ctl("heal", "h0/mlx5_0")


def gid(lab, begin):
    """The link comes back with the GID at another index."""
    if begin:
        lab.fault("cable-down", "h0/mlx5_0")
    else:
        lab.ctl("move-gid", "h0/mlx5_0", 3)
        lab.ctl("heal", "h0/mlx5_0")


def hang(lab, begin):
    lab.fault("nic-hang", "h0/mlx5_0") if begin else lab.ctl("heal", "h0/mlx5_0")


def flaps(lab, begin):
    """All at times that are known beforehand; the last one stays until the end."""
    if not begin:
        lab.ctl("heal", "h0/mlx5_0")
        return
    path = os.path.join(lab.folder, "flaps")
    with open(path, "w") as f:
        for i in range(FLAPS - 1):
            f.write(f"port-down h0/mlx5_0 --after {0.1 * i:.2f} --for 0.05\n")
        f.write(f"port-down h0/mlx5_0 --after {0.1 * (FLAPS - 1):.2f}\n")
    lab.ctl("script", path)
    time.sleep(0.1 * FLAPS)


FAULTS = (link, switch, initiator, responder, hang, gid, flaps, drain)
IDLE_FAULTS = (link, initiator, responder, drain)


class Tool(Perftest):
    """One tool under one fault."""

    def __init__(self, args, tool, fault):
        super().__init__(tool, fault, 1, args.duration or 0, args.fault_at, args.heal_at)

    def check_moves(self, moves):
        super().check_moves(moves)
        again = sum(m["resubmitted_wrs"] for m in moves)
        if self.fault is drain and again:
            raise Failed(f"{again} requests were sent again by a drain")


class Idle:
    """All kinds of queue pairs that rest, at once."""

    def __init__(self, args, fault):
        self.args, self.fault = args, fault
        self.name = f"idle {fault.__name__}"

    def await_moved(self, lab, way):
        pattern = re.compile(r"QP (0x\w+) moved from " + " to ".join(way))

        def moved():
            for p in self.ends:
                if not p.running():
                    raise Failed(f"{p.name} ended\n{p.tail()}")
            return all(len(set(pattern.findall(lab.shift_log(p)))) >= KINDS_OF_IDLE
                       for p in self.ends)

        wait_for("move of all queue pairs from " + " to ".join(way), moved, 15)

    def run(self, lab):
        argv = [os.path.join(lab.out, "bin", "idle"), "--port", free_port()]
        # Each fault is told, and of a path that is lost for want of the machine's time nothing is asked.
        shift = Shift(log="info", **{**SOON, **PATIENT})
        self.ends = [lab.start("h0", argv + ["--server"], "server", shift, stdin=True),
                     lab.start("h1", argv + ["--client"], "client", shift, stdin=True)]
        for p in self.ends:
            wait_for("protection of " + p.name, lambda p=p: lab.protected(p) >= KINDS_OF_IDLE, 30)
        time.sleep(0.1)
        self.fault(lab, True)
        self.await_moved(lab, ("mlx5_0", "mlx5_1"))
        self.fault(lab, False)
        self.await_moved(lab, ("mlx5_1", "mlx5_0"))
        carried = lab.carried(1)
        for p in self.ends:
            p.say("end")
        for p in self.ends:
            if p.wait(30):
                raise Failed(f"{p.name} ended with {p.process.returncode}\n{p.tail()}")
        if lab.carried(1) != carried:
            raise Failed("bytes went over the backup after all were back")


def run_case(case, args):
    """None if all is well, else the reason."""
    begun = time.monotonic()
    reason = None
    with Lab(args.build, keep=args.keep) as lab:
        try:
            case.run(lab)
        except (Failed, Stuck, RuntimeError) as e:
            reason = str(e) + "\n" + "".join(
                p.tail() + "".join(r + "\n" for r in lab.shift_log(p).splitlines()[-25:])
                for p in lab.programs)
    return case, reason, time.monotonic() - begun


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build")
    p.add_argument("--only", default="", help="cases whose name has this in it")
    p.add_argument("--few", action="store_true", help="one tool for each fault")
    p.add_argument("--duration", type=int, help="seconds of a perftest run")
    p.add_argument("--fault-at", type=float, default=0.5)
    p.add_argument("--heal-at", type=float, default=1.5)
    p.add_argument("--jobs", type=int, default=1,
                   help="cases at a time: the threads of software NICs take two cores already")
    p.add_argument("--keep", action="store_true", help="keep each case's folder")
    args = p.parse_args()
    tools = [(tool, f) for i, f in enumerate(FAULTS) for j, tool in enumerate(TOOLS)
             if not args.few or j == i % len(TOOLS) or f is drain]
    cases = [Idle(args, f) for f in IDLE_FAULTS] + [Tool(args, tool, f) for tool, f in tools]
    cases = [c for c in cases if args.only in c.name]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for case, reason, seconds in pool.map(lambda c: run_case(c, args), cases):
            print(f"{'FAIL' if reason else 'ok':4} {case.name:24} {seconds:5.1f} s"
                  + (f"  {reason}" if reason else ""), flush=True)
            failed += bool(reason)
    print(f"{len(cases) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
