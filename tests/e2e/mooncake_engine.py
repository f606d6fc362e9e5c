#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Mooncake's transfer engine, which moves KV caches between machines, through a fault and back: what
is written and read equals what is without SHIFT and without fault.

  mooncake_engine.py --build DIR [--fault calm,link,switch,death,drain] [--stock]
"""
import os
import sys

from shiftlab import jobs

ROUND_BYTES = 2 * 8 * 1_069_000     # at least, both ways


def find_mooncake(build):
    python = os.path.join(jobs.programs_folder(build), "bin", "python")
    if not jobs.has_module(python, "mooncake.engine"):
        raise jobs.Missing(f"no mooncake.engine for {python}; "
                           "scripts/install-programs.sh installs it")
    return python


def start_ranks(lab, name, commands):
    return [lab.launch(f"{name}-rank{i}", argv, env) for i, (argv, env) in enumerate(commands)]


def transfer(lab, fault, python):
    def start(lab, name, shift, rounds):
        return jobs.Job(lab, name, start_ranks, lambda rank: [
            python, os.path.join(jobs.RANKS, "mooncake_rank.py"), "--rank", rank,
            "--address", os.path.join(lab.folder, name + ".address")],
            shift=shift, rounds=rounds)

    jobs.run(lab, start, fault, min_bytes=ROUND_BYTES)


if __name__ == "__main__":
    sys.exit(jobs.main(__doc__, {"transfer": transfer}, find_mooncake))
