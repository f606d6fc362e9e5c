#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A rank of two that share memory by Mooncake's transfer engine over RDMA.

Rank 0 writes into rank 1's memory, then the number of the round. Rank 1 sees the number, checks what
was written, and answers with a pattern of its own, which rank 0 reads."""
import os
import sys

from mooncake.engine import TransferEngine

from rounds import Rounds, check, die_with_parent, parser
from shared_memory import await_true, drive, make, serve


class Memory:
    """Words, room for what is written, room for what is read; registered with the engine."""

    def __init__(self):
        self.engine = TransferEngine()
        check(not self.engine.initialize("127.0.0.1", "P2PHANDSHAKE", "rdma", "mlx5_0"),
              "the engine does not start")
        self.all, self.words, self.parts = make()
        check(not self.engine.register_memory(self.all.ctypes.data, self.all.nbytes),
              "the memory is not registered")

    def tell(self, path):
        with open(path + ".new", "w", encoding="ascii") as f:
            f.write(f"127.0.0.1:{self.engine.get_rpc_port()} {self.all.ctypes.data}")
        os.rename(path + ".new", path)


class Peer:
    """Rank 1's memory, as rank 0 sees it: the same places as in its own."""

    def __init__(self, memory, path):
        await_true("address of rank 1", lambda: os.path.exists(path))
        with open(path, encoding="ascii") as f:
            self.name, base = f.read().split()
        self.memory, self.base = memory, int(base)

    def transfer(self, function, first, count):
        """Of so many elements, from the same place at the one to the same place at the other."""
        done = function(self.name, self.memory.all.ctypes.data + 8 * first, self.base + 8 * first,
                        8 * count)
        check(done == 0, f"a transfer of {count} elements returns {done}")

    def write(self, first, count):
        self.transfer(self.memory.engine.transfer_sync_write, first, count)

    def read(self, first, count):
        self.transfer(self.memory.engine.transfer_sync_read, first, count)


def main():
    p = parser()
    p.add_argument("--rank", type=int, required=True)
    p.add_argument("--address", required=True, help="file for rank 1's address")
    args = p.parse_args()
    die_with_parent()
    memory, rounds = Memory(), Rounds(args)
    if args.rank:
        memory.tell(args.address)
        serve(memory, rounds)
    else:
        drive(memory, Peer(memory, args.address), rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
