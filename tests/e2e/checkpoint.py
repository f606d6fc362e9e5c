#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""docs/examples/checkpoint: a NIC fails, the training is asked for a checkpoint, is killed behind it,
and resumes; its parameters equal those of a training that nothing has disturbed, without SHIFT. The training stops by itself,
behind such a checkpoint, where the NIC stays away for longer than it was told to wait; and not where it is not to.

  checkpoint.py --build DIR [CASE...]

again, which make programs runs: one that has stopped by itself is started again, and resumes likewise.
"""
import argparse
import os
import re
import sys
import time

from shiftlab import jobs
from shiftlab.lab import SKIPPED, Shift, free_port, run_case, wait_for
from torch_rpc import find_torch

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/examples/checkpoint")
FOR_EVER = 10 ** 9
MORE = 20       # steps behind the checkpoint
EVERY = 50      # steps: a checkpoint
SOON = 0.02     # minutes
AGAIN = 75      # exit status: start me again


def marks_folder(lab):
    return os.path.join(lab.folder, "degraded")


class Training:
    """Both processes of the example."""

    def __init__(self, lab, python, name, steps, checkpoint, shift=None, options=()):
        self.lab = lab
        argv = [python, os.path.join(EXAMPLE, "train.py"), "--port", free_port(), "--steps", steps,
                "--checkpoint", checkpoint, *options]
        env = {"TP_SOCKET_IFNAME": "lo", "DEGRADED": marks_folder(lab)}
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

    def marks(self):
        """{process: since when it is degraded, as a time}"""
        folder, found = marks_folder(self.lab), {}
        for name in os.listdir(folder) if os.path.isdir(folder) else []:
            if not name.startswith("."):
                found[int(name.rpartition("-")[2])] = os.path.getmtime(os.path.join(folder, name))
        return found

    def checkpoints(self):
        return [int(steps) for steps in re.findall(r"checkpoint: (\d+) steps", self.trainer.out())]

    def await_checkpoints(self, n):
        """So many more."""
        before = len(self.checkpoints())
        wait_for(f"{n} checkpoints", lambda: len(self.checkpoints()) >= before + n or not self.trainer.running(), 120)
        if not self.trainer.running():
            raise jobs.Failed(f"the trainer ended with {self.trainer.process.returncode}")

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
        p.kill()
    lab.ctl("heal", "h0/mlx5_0")
    log = lab.shift_log(job.trainer)
    marks = [log.find(mark) for mark in ("moved from mlx5_0 to mlx5_1", ": switch mlx5_0",
                                         "SHIFT_ON_EVENT: process")]
    if -1 in marks or marks != sorted(marks):
        raise jobs.Failed(f"moved, told, run: found at {marks}")
    us = re.search(r"(\d+) us after the traffic of its connections moved", log)[1]
    print(f"       asked {us} us after the traffic moved; checkpoint behind {steps} steps")
    return steps


def degraded_job(lab, python, checkpoint, minutes):
    """With a NIC that stays away."""
    shift = Shift(log="info", holddown_ms=200, on_event=os.path.join(EXAMPLE, "on-switch.sh"),
                  on_event_kinds="switch,degraded,whole")
    job = Training(lab, python, "degraded", FOR_EVER, checkpoint, shift, ["--every", EVERY, "--restart-after", minutes])
    job.await_said("100 steps")
    wait_for("protected connections", job.protected, 60)
    if job.marks():
        raise jobs.Failed("degraded before the fault")
    lab.fault("port-down", "h0/mlx5_0")
    return job


def stopped(lab, python, checkpoint):
    """It has stopped by itself; how many steps its checkpoint has."""
    job = degraded_job(lab, python, checkpoint, SOON)
    minutes = float(job.await_said(r"restart: degraded for ([\d.]+) minutes")[1])
    statuses = [p.wait(60) for p in (job.trainer, job.helper)]
    if statuses != [AGAIN, 0] or minutes < SOON:
        raise jobs.Failed(f"ended with {statuses} after {minutes} minutes")
    if job.trainer.out().strip().splitlines()[-2:-1] != [f"checkpoint: {job.checkpoints()[-1]} steps done, in {checkpoint}"]:
        raise jobs.Failed("not behind a checkpoint")
    lab.ctl("heal", "h0/mlx5_0")
    return job.checkpoints()[-1]


def case_restart(lab, python):
    stopped(lab, python, os.path.join(lab.folder, "checkpoint.pt"))


def case_again(lab, python):
    checkpoint = os.path.join(lab.folder, "checkpoint.pt")
    resumes(lab, python, checkpoint, stopped(lab, python, checkpoint))


def case_never(lab, python):
    """It is told not to stop, so it runs on, degraded for longer than it would have waited above; and when the NIC is back,
    nobody is degraded."""
    job = degraded_job(lab, python, os.path.join(lab.folder, "checkpoint.pt"), 0)
    wait_for("the mark", lambda: job.trainer.pid in job.marks(), 60)
    wait_for("its age", lambda: time.time() - job.marks()[job.trainer.pid] > 60 * SOON, 60)
    job.await_checkpoints(2)
    lab.ctl("heal", "h0/mlx5_0")
    wait_for("the end of the marks", lambda: not job.marks(), 60)
    job.await_checkpoints(1)
    for p in (job.trainer, job.helper):
        p.process.kill()


def case_asked(lab, python):
    checkpoint = os.path.join(lab.folder, "checkpoint.pt")
    resumes(lab, python, checkpoint, disturbed(lab, python, checkpoint))


def resumes(lab, python, checkpoint, steps):
    """Behind so many steps, with the parameters of one that was not disturbed."""
    resumed = Training(lab, python, "resumed", steps + MORE, checkpoint, Shift(log="info"))
    resumed.await_said(f"resumed behind {steps} steps")
    got = resumed.result()
    expected = Training(lab, python, "undisturbed", steps + MORE,
                        os.path.join(lab.folder, "none.pt")).result()
    if got != expected or got[0] != steps + MORE:
        raise jobs.Failed(f"{got} resumed, {expected} undisturbed")
    print(f"       {got[0]} steps, parameters {got[1][:16]}... as without a fault")


CASES = {"asked": case_asked, "restart": case_restart, "never": case_never}
LONGER = {"again": case_again}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("cases", nargs="*", choices=[[], *CASES, *LONGER])
    args = parser.parse_args()
    try:
        python = find_torch(args.build)
    except jobs.Missing as missing:
        print(f"skipped: {missing}")
        return SKIPPED
    passed = [run_case(args.build, name, lambda lab, name=name: {**CASES, **LONGER}[name](lab, python))
              for name in args.cases or CASES]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
