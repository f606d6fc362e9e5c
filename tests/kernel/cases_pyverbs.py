# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""rdma-core's python tests on rxe under SHIFT, and on the stock library where one did not pass: nothing may be worse."""
from shiftlab.guest.cases import case
from shiftlab.guest.pyverbs import launcher, no_worse
from rig import GID, address, device
from shiftlab.pyverbs import ENDINGS, ENV, Runner

PROCESS_S = 50

# Modules that share a process, since an emulated CPU takes seconds to start python. Those of mlx5, efa and CUDA need
# these; those of on-demand paging, tag matching, flows and RSS skip every test on rxe.
BATCHES = {
    "objects": ("test_addr", "test_cq", "test_device", "test_fork", "test_pd", "test_parent_domain", "test_shared_pd"),
    "memory": ("test_mr", "test_relaxed_ordering"),
    "completions": ("test_cq_events", "test_cqex", "test_atomic"),
    "queue_pairs": ("test_qp",),
    "extended_queue_pairs": ("test_qpex",),
    "rdma_cm": ("test_rdmacm",),
}
IN_LANE = ("objects", "queue_pairs", "rdma_cm")     # the others by name, pyverbs.*: the lane has ten minutes


def counted(rig, name, modules):
    launch = launcher(rig, lambda argv, name, shift: rig.start("a", argv, name, shift=shift, env=ENV), PROCESS_S)
    batch = no_worse(rig, name, modules, lambda folder: Runner(folder, device("a"), launch, GID, address("a")))
    return ", ".join(f"{n} {ending}" for n, ending in zip(batch.counts("shift"), ENDINGS))


def add_batch(name, modules):
    @case("pyverbs." + name, by_name=name not in IN_LANE)
    def one(rig):
        return counted(rig, name, modules)
    one.__doc__ = f"rdma-core's python tests on soft-RoCE, no worse under SHIFT: {', '.join(modules)}."


for row in BATCHES.items():
    add_batch(*row)
