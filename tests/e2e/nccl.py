#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""NCCL's all_reduce between two ranks on one GPU, over software NICs, through a fault and back: the
results equal those without SHIFT and without fault, bit for bit.

  nccl.py --build DIR [--fault calm,link,switch,death,drain]

It needs a GPU with its driver, numpy, the CUDA runtime, and an NCCL that lets two ranks share a GPU:
from the system, or by scripts/install-programs.sh --nccl. Where something is missing it says what, and
exits with 77. SHIFT_TEST_GPU=N takes another GPU than 0.
"""
import os
import subprocess
import sys

from shiftlab import jobs

RANK = os.path.join(jobs.RANKS, "nccl_rank.py")
ROUND_BYTES = 4 * 4_101_000     # at least, by each rank
# Two ranks of one GPU and one machine talk over nothing but the NICs.
ENV = {
    "NCCL_MULTI_RANK_GPU_ENABLE": "1",
    "NCCL_P2P_DISABLE": "1",
    "NCCL_SHM_DISABLE": "1",
    "NCCL_NET": "IB",
    "NCCL_NET_PLUGIN": "none",
    "NCCL_NET_GDR_LEVEL": "LOC",
    "NCCL_IB_HCA": "=mlx5_0",
    "NCCL_IB_GID_INDEX": "0",
    "NCCL_IB_MERGE_NICS": "0",
    "NCCL_SOCKET_IFNAME": "lo",
    "NCCL_GIN_ENABLE": "0",
    "NCCL_RAS_ENABLE": "0",
    "NCCL_DEBUG": "WARN",
}


def find_nccl(build):
    """The interpreter with which a probe finds everything."""
    why = []
    for python in (os.path.join(jobs.programs_folder(build), "bin", "python"), sys.executable):
        if not os.access(python, os.X_OK):
            continue
        done = subprocess.run([python, RANK, "--probe"], capture_output=True, text=True,
                              timeout=120, check=False)
        said = (done.stdout + done.stderr).strip()
        if done.returncode:
            why.append(f"{python}: {said}")
        else:
            print(f"{python}: {said}")
            return python
    raise jobs.Missing("; ".join(why))


def start_ranks(lab, name, commands):
    return [lab.launch(f"{name}-rank{i}", argv, dict(env, NCCL_HOSTID=jobs.HOSTS[i]))
            for i, (argv, env) in enumerate(commands)]


def all_reduce(lab, fault, python):
    def start(lab, name, shift, rounds):
        id_path = os.path.join(lab.folder, name + ".id")
        return jobs.Job(lab, name, start_ranks, lambda rank: [
            python, RANK, "--rank", rank, "--gpu", os.environ.get("SHIFT_TEST_GPU", "0"),
            "--id", id_path], env=ENV, shift=shift, rounds=rounds)

    jobs.run(lab, start, fault, min_bytes=ROUND_BYTES)


if __name__ == "__main__":
    sys.exit(jobs.main(__doc__, {"all_reduce": all_reduce}, find_nccl))
