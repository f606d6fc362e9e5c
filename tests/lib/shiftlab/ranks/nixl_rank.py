#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A rank of two that share memory by NIXL's agents over UCX. The wheel brings libibverbs and libmlx5 under
names of its own.

Rank 0 writes into rank 1's memory, then the number of the round. Rank 1 sees the number, checks what
was written, and answers with a pattern of its own, which rank 0 reads."""
import os
import sys
import time

from nixl_cu12._api import nixl_agent, nixl_agent_config

from rounds import Rounds, check, die_with_parent, parser
from shared_memory import WAIT_S, await_true, drive, make, serve


class Memory:
    """Words, room for what is written, room for what is read; registered with the agent."""

    def __init__(self, rank):
        self.agent = nixl_agent(f"rank{rank}", nixl_agent_config(backends=["UCX"]))
        self.all, self.words, self.parts = make()
        self.registered = self.agent.register_memory([(self.all.ctypes.data, self.all.nbytes, 0, "")], "DRAM")
        check(self.registered, "the memory is not registered")

    def tell(self, path):
        with open(path + ".new", "wb") as f:
            f.write(self.all.ctypes.data.to_bytes(8, "little") + self.agent.get_agent_metadata())
        os.rename(path + ".new", path)

    def close(self):
        self.agent.deregister_memory(self.registered)
        del self.agent


class Peer:
    """Rank 1's memory, as rank 0 sees it: the same places as in its own."""

    def __init__(self, memory, path):
        await_true("address of rank 1", lambda: os.path.exists(path))
        with open(path, "rb") as f:
            self.base = int.from_bytes(f.read(8), "little")
            self.name = memory.agent.add_remote_agent(f.read())
        self.memory = memory

    def transfer(self, operation, first, count):
        """Of so many elements, between the same places at both ends."""
        agent = self.memory.agent
        ends = [agent.get_xfer_descs([(base + 8 * first, 8 * count, 0)], "DRAM")
                for base in (self.memory.all.ctypes.data, self.base)]
        handle = agent.initialize_xfer(operation, *ends, self.name)
        state = agent.transfer(handle)
        end = time.monotonic() + WAIT_S
        while state == "PROC":
            check(time.monotonic() < end, f"no end of a {operation} of {count} elements")
            state = agent.check_xfer_state(handle)
        check(state == "DONE", f"a {operation} of {count} elements ends with {state}")
        agent.release_xfer_handle(handle)

    def write(self, first, count):
        self.transfer("WRITE", first, count)

    def read(self, first, count):
        self.transfer("READ", first, count)

def main():
    p = parser()
    p.add_argument("--rank", type=int, required=True)
    p.add_argument("--address", required=True, help="file for rank 1's address")
    args = p.parse_args()
    die_with_parent()
    memory, rounds = Memory(args.rank), Rounds(args)
    if args.rank:
        memory.tell(args.address)
        serve(memory, rounds)
    else:
        peer = Peer(memory, args.address)
        drive(memory, peer, rounds)
        memory.agent.remove_remote_agent(peer.name)
    memory.close()
    return 0


if __name__ == "__main__":
    ended = main()
    sys.stdout.flush()
    # NIXL 1.5.1 crashes in exit() where the machine has a libnl of its own, on stock and without a NIC, too:
    # both copies leave one list
    os._exit(ended)
