#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""docs/examples/checkpoint: a NIC fails, the training is asked for a checkpoint, is killed behind it,
and resumes; its parameters equal those of a training that nothing has disturbed, without SHIFT.

  checkpoint.py --build DIR
"""
import argparse
import os
import re
import sys

from shiftlab import jobs
from shiftlab.lab import SKIPPED, Shift, free_port, run_case, wait_for
from torch_rpc import find_torch

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/examples/checkpoint")
FOR_EVER = 10 ** 9
MORE = 20       # steps behind the checkpoint


class Training:
    """Both processes of the example."""

    def __init__(self, lab, python, name, steps, checkpoint, shift=None):
        self.lab = lab
        argv = [python, os.path.join(EXAMPLE, "train.py"), "--port", free_port(), "--steps", steps,
                "--checkpoint", checkpoint]
        env = {"TP_SOCKET_IFNAME": "lo"}
        self.trainer, self.helper = (
            lab.start(host, argv + ["--rank", rank], f"{name}-{rank}", shift, env)
            for rank, host in enumerate(jobs.HOSTS))

    def said(self, pattern):
        return re.search(pattern, self.trainer.out())

    def await_said(self, pattern, timeout=120):
        def look():
            if not self.trainer.running() and not self.said(pattern):
                raise jobs.Failed(f"the trainer ended with {self.trainer.process.returncode}")
            return self.said(pattern)
        return wait_for(pattern, look, timeout)

    def protected(self):
        qps = [q for host in jobs.HOSTS for q in self.lab.connections(host)]
        return qps and all(q["level"] == "protected" for q in qps)

    def result(self):
        """(steps, digest of the parameters), when both have ended."""
        found = self.await_said(r"done: (\d+) steps, parameters (\w+)")
        for p in (self.trainer, self.helper):
            if p.wait(60):
                raise jobs.Failed(f"{p.name} ended with {p.process.returncode}")
        return int(found[1]), found[2]


def disturbed(lab, python, checkpoint):
    """Until it has written its checkpoint; how many steps that has. Killed then."""
    shift = Shift(log="info", on_event=os.path.join(EXAMPLE, "on-switch.sh"))
    job = Training(lab, python, "disturbed", FOR_EVER, checkpoint, shift)
    job.await_said("100 steps")
    wait_for("protected connections", job.protected, 60)
    if os.path.exists(checkpoint):
        raise jobs.Failed("a checkpoint before the fault")
    lab.fault("port-down", "h0/mlx5_0")
    steps = int(job.await_said(r"checkpoint: (\d+) steps")[1])
    # said by another thread than the one that asks for the checkpoint, which may be there first
    wait_for("the command in the log", lambda: "SHIFT_ON_EVENT: process" in lab.shift_log(job.trainer), 60)
    for p in (job.trainer, job.helper):
        p.process.kill()
        p.process.wait()
    lab.ctl("heal", "h0/mlx5_0")
    log = lab.shift_log(job.trainer)
    marks = [log.find(mark) for mark in ("moved from mlx5_0 to mlx5_1", ": switch mlx5_0",
                                         "SHIFT_ON_EVENT: process")]
    if -1 in marks or marks != sorted(marks):
        raise jobs.Failed(f"moved, told, run: found at {marks}")
    us = re.search(r"(\d+) us after the traffic of its connections moved", log)[1]
    print(f"       asked {us} us after the traffic moved; checkpoint behind {steps} steps")
    return steps


def case(lab, python):
    checkpoint = os.path.join(lab.folder, "checkpoint.pt")
    steps = disturbed(lab, python, checkpoint)
    resumed = Training(lab, python, "resumed", steps + MORE, checkpoint, Shift(log="info"))
    resumed.await_said(f"resumed behind {steps} steps")
    got = resumed.result()
    expected = Training(lab, python, "undisturbed", steps + MORE,
                        os.path.join(lab.folder, "none.pt")).result()
    if got != expected or got[0] != steps + MORE:
        raise jobs.Failed(f"{got} resumed, {expected} undisturbed")
    print(f"       {got[0]} steps, parameters {got[1][:16]}... as without a fault")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    args = parser.parse_args()
    try:
        python = find_torch(args.build)
    except jobs.Missing as missing:
        print(f"skipped: {missing}")
        return SKIPPED
    return 0 if run_case(args.build, "checkpoint", lambda lab: case(lab, python)) else 1


if __name__ == "__main__":
    sys.exit(main())
