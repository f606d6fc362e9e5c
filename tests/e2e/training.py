#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A small data-parallel training through a fault and back: losses and parameters after each step
equal those without SHIFT and without fault, bit for bit.

  training.py --build DIR [--fault calm,link,switch,death,drain]
"""
import sys

from shiftlab import jobs
from shiftlab.openmpi import OpenMpi

STEPS = 100             # at least
STEP_BYTES = 8 * 48 * 256   # at least, of gradients


def training(lab, fault, mpi):
    lines = jobs.run(lab, mpi.starter("train_rank.py"), fault, rounds=STEPS, min_bytes=STEP_BYTES)
    if fault.stock:
        return
    losses = [[float.fromhex(line.split()[0]) for line in of_rank] for of_rank in lines]
    if losses[0] != losses[1]:
        raise jobs.Failed("the ranks do not agree about the losses")
    first, last = (sum(part) / len(part) for part in (losses[0][:10], losses[0][-10:]))
    if last > 0.8 * first:
        raise jobs.Failed(f"nothing was learnt: loss {first:.3f} at first, {last:.3f} at last")
    print(f"       {len(losses[0])} steps, loss {first:.3f} at first, {last:.3f} at last")


if __name__ == "__main__":
    sys.exit(jobs.main(__doc__, {"training": training}, OpenMpi))
