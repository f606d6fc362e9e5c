#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A rank of PyTorch RPC over TensorPipe's ibv transport: tensors of several sizes, both ways.

Rank 0 sends tensors to rank 1, which answers each with another one and asks rank 0 for one of its
own while it does so.
"""
import os
import sys

import torch
import torch.distributed.rpc as rpc

from rounds import Rounds, check, die_with_parent, digest, parser

SIZES = (0, 1, 7, 1000, 20_000, 100_000)    # of 8 bytes
AT_ONCE = 3
TIMEOUT_S = 100

rounds = None


def pattern(seed, n):
    return (torch.arange(n, dtype=torch.int64) + seed) * 2654435761 % 1000003


def give(seed, n):
    """On rank 0: what rank 1 asks for."""
    return pattern(seed, n)


def work(seed, x):
    """On rank 1: an answer that needs the argument and a tensor of rank 0."""
    y = rpc.rpc_sync("rank0", give, args=(seed + 1, len(x)))
    check(torch.equal(x, pattern(seed, len(x))), "the argument is wrong")
    check(torch.equal(y, pattern(seed + 1, len(x))), "what rank 0 gave is wrong")
    return x * 3 + y


def finish(text):
    """On rank 1: the round is over."""
    rounds.note(text)


def one_round(n):
    sums = []
    for size in SIZES:
        seeds = [n * 1000 + i for i in range(AT_ONCE)]
        answers = [rpc.rpc_async("rank1", work, args=(s, pattern(s, size))) for s in seeds]
        for s, answer in zip(seeds, answers):
            z = answer.wait()
            check(torch.equal(z, pattern(s, size) * 3 + pattern(s + 1, size)), "answer is wrong")
            sums.append(z.numpy())
    return digest(*sums)


def drive():
    last = False
    while not last:
        last = rounds.last()
        text = one_round(rounds.n)
        rpc.rpc_sync("rank1", finish, args=(text,))
        rounds.note(text)


def main():
    global rounds
    p = parser()
    p.add_argument("--rank", type=int, required=True)
    p.add_argument("--port", required=True)
    args = p.parse_args()
    die_with_parent()
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=args.port, TP_SOCKET_IFNAME="lo")
    rounds = Rounds(args)
    options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=4 * AT_ONCE, rpc_timeout=TIMEOUT_S,
                                              _transports=["ibv"], _channels=["basic"])
    rpc.init_rpc(f"rank{args.rank}", rank=args.rank, world_size=2, rpc_backend_options=options)
    if args.rank == 0:
        drive()
    rpc.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
