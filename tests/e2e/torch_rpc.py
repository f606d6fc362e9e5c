#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""PyTorch RPC over TensorPipe's ibv transport, through a fault and back: what is computed equals
what is computed without SHIFT and without fault.

  torch_rpc.py --build DIR [--fault calm,link,switch,death,drain]
"""
import os
import sys

from shiftlab import jobs
from shiftlab.lab import free_port

ROUND_BYTES = 3 * 3 * 8 * 121_000   # at once, messages, bytes, elements


def find_torch(_build):
    for python in (sys.executable, "/usr/bin/python3"):
        if jobs.has_module(python, "torch.distributed.rpc"):
            return python
    raise jobs.Missing("no Python here has torch.distributed.rpc; "
                       "scripts/install-programs.sh installs Debian's python3-torch")


def start_ranks(lab, name, commands):
    return [lab.launch(f"{name}-rank{i}", argv, env) for i, (argv, env) in enumerate(commands)]


def tensors(lab, fault, python):
    def start(lab, name, shift, rounds):
        port = str(free_port())
        return jobs.Job(lab, name, start_ranks, lambda rank: [
            python, os.path.join(jobs.RANKS, "rpc_rank.py"), "--rank", rank, "--port", port],
            shift=shift, rounds=rounds)

    jobs.run(lab, start, fault, min_bytes=ROUND_BYTES)


if __name__ == "__main__":
    sys.exit(jobs.main(__doc__, {"tensors": tensors}, find_torch))
