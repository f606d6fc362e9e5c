#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""NIXL's agents from PyPI, whose wheel brings a renamed libibverbs and a libmlx5 of its own, through a fault and
back: what is written and read equals what is without SHIFT and without fault.

  nixl_agent.py --build DIR [--fault calm,link,switch,death,drain] [--stock]
"""
import os
import sys

from shiftlab import jobs
from shiftlab.perftest import Failed

ROUND_BYTES = 2 * 8 * 1_069_000     # at least, both ways
# Verbs alone: with UCX's own posts to the rings (rc_mlx5) there is nothing that SHIFT could drive.
UCX = {"UCX_TLS": "rc_verbs,ud_verbs,self", "UCX_NET_DEVICES": "mlx5_0:1", "UCX_IB_ROCE_REACHABILITY_MODE": "all"}


def find_nixl(build):
    python = os.path.join(jobs.programs_folder(build), "bin", "python")
    if not jobs.has_module(python, "nixl_cu12._api"):
        raise jobs.Missing(f"no nixl_cu12 for {python}; scripts/install-programs.sh installs it")
    return python


def start_ranks(lab, name, commands):
    return [lab.launch(f"{name}-rank{i}", argv, env) for i, (argv, env) in enumerate(commands)]


def check_renamed(programs):
    """The case tries what it says: the wheel's own libraries are in the programs."""
    for p in programs:
        with open(f"/proc/{p.pid}/maps", encoding="ascii") as f:
            maps = f.read()
        if "/libibverbs-" not in maps or "/libmlx5-" not in maps:
            raise Failed(f"{p.name} has no renamed libraries")


def transfer(lab, fault, python):
    def start(lab, name, shift, rounds):
        job = jobs.Job(lab, name, start_ranks, lambda rank: [
            python, os.path.join(jobs.RANKS, "nixl_rank.py"), "--rank", rank,
            "--address", os.path.join(lab.folder, name + ".address")],
            env=UCX, shift=shift, rounds=rounds)
        if shift:
            job.comes_to(1)
            check_renamed(job.programs)
        return job

    jobs.run(lab, start, fault, min_bytes=ROUND_BYTES)


if __name__ == "__main__":
    sys.exit(jobs.main(__doc__, {"transfer": transfer}, find_nixl))
