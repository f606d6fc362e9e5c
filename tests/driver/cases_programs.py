# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""
Other people's programs on the real driver, stock and under SHIFT: perftest, UCX, rdma-core's python tests. All by name: the
lane's ten minutes have no room for them.
"""
import re

from cases_shift import BACK_S, MOVE_S, finish, left, through, verify
from shiftlab.guest.cases import case, check
from shiftlab.guest.pyverbs import launcher, no_worse
from shiftlab.lab import free_port
from shiftlab.pyverbs import ENDINGS, ENV, Runner

PROCESS_S = 100     # for a process of python tests
# Those of rdma_cm want an IP address on the NIC; those of efa and CUDA other hardware.
BATCHES = {
    "objects": ("test_addr", "test_cq", "test_device", "test_fork", "test_pd", "test_parent_domain", "test_shared_pd"),
    "memory": ("test_mr", "test_relaxed_ordering", "test_odp"),
    "completions": ("test_cq_events", "test_cqex", "test_atomic"),
    "queue_pairs": ("test_qp",),
    "extended_queue_pairs": ("test_qpex",),
    "mlx5": ("test_mlx5_cq", "test_mlx5_pp", "test_mlx5_uar", "test_mlx5_var", "test_mlx5_mkey", "test_mlx5_huge_page",
             "test_mlx5_lag_affinity", "test_mlx5_raw_wqe"),
}
PERFTESTS = ("ib_send_bw", "ib_write_bw", "ib_read_bw", "ib_atomic_bw", "ib_send_lat", "ib_write_lat", "ib_read_lat")
MESSAGES = 100
UCX_S = 300


def counted(rig, name, modules):
    launch = launcher(rig, lambda argv, name, shift: rig.start(argv, name, shift, False, ENV), PROCESS_S)
    batch = no_worse(rig, name, modules, lambda folder: Runner(folder, rig.nic.name, launch))
    rig.kernel_is_content()
    failed = [f"{test} ({why})" for test, (ending, why) in batch.results["shift"].items() if ending == "failed"]
    counts = ", ".join(f"{n} {ending}" for n, ending in zip(batch.counts("shift"), ENDINGS))
    return counts + "".join(f"; fails on stock, too: {f}" for f in failed)


def add_batch(name, modules):
    @case("pyverbs." + name, by_name=True)
    def one(rig):
        return counted(rig, name, modules)
    one.__doc__ = f"rdma-core's python tests on mlx5_ib, no worse under SHIFT: {', '.join(modules)}."


for row in BATCHES.items():
    add_batch(*row)


def perftest(rig, tool, shift):
    argv = [tool, "-n", MESSAGES, "-F", "-t" if tool.endswith("_bw") else "-u", 16, "-p", free_port()]
    ends = rig.pair([*argv, "-d", rig.nic.name], [*argv, "-d", rig.spare.name, "127.0.0.1"], shift=shift)
    rig.ends_well(*ends)
    check(re.search(rf"^\s*\d+\s+{MESSAGES}\s", ends[1].out(), re.M), f"no result of {tool}: {ends[1].tail(5)}")


@case("programs.perftest", needs=PERFTESTS, by_name=True)
def perftests(rig):
    """Seven of perftest's programs, on stock and under SHIFT."""
    for shift in (None, rig.shift()):
        for tool in PERFTESTS:
            perftest(rig, tool, shift)
    rig.kernel_is_content()
    return f"{len(PERFTESTS)} programs, each on stock and under SHIFT"


def ucx_pair(rig, shift, count):
    """ucx_perftest's two ends, each on a NIC of its own."""
    argv = ["ucx_perftest", "-p", free_port(), "-t", "tag_bw", "-s", 8192, "-n", count]
    ends = []
    for name, nic, more in (("server", rig.nic, ()), ("client", rig.spare, ("127.0.0.1",))):
        env = {"UCX_NET_DEVICES": nic.name + ":1", "UCX_TLS": "rc_v,ud_v,self" if shift else "rc,ud,self"}
        ends.append(rig.start([*argv, *more], name, shift, False, env))
        if name == "server":
            rig.await_listening(ends[0])
    return ends


@case("programs.ucx_stock", needs=("ucx_perftest",), by_name=True)
def ucx_stock(rig):
    """ucx_perftest by its own choice of transports, without SHIFT."""
    ends = ucx_pair(rig, None, 200)
    rig.ends_well(ends[1], timeout=UCX_S)
    check("Final:" in ends[1].out(), f"no result: {ends[1].tail(4)}")
    rig.kernel_is_content()
    return ends[1].out().split("Final:")[1].split()[0] + " messages"


@case("programs.ucx", needs=("ucx_perftest",), by_name=True)
def ucx(rig):
    """ucx_perftest under SHIFT outlives a fatal error of the firmware, and is back on its NIC."""
    ends = ucx_pair(rig, rig.shift(), 100000000)
    rig.await_protected(2, ends)
    rig.breaks("fatal")
    rig.until("move", lambda: left(rig, 2), ends, MOVE_S, 0.3)
    rig.await_path(0, ends, BACK_S)
    before = ends[1].out().count("\n")
    rig.until("more lines", lambda: ends[1].out().count("\n") > before + 2, ends, MOVE_S, 0.5)
    rig.kernel_is_content()
    return "gone, and back"


@case("programs.nccl", by_name=True)
def nccl(rig):
    """NCCL's shape of traffic, slots of LL and LL128: a port goes down and up, then the firmware fails."""
    v = verify(rig, rig.shift(), "bgh")
    took = [through(rig, v, "port-down", "port-up"), through(rig, v, "fatal", None)]
    return f"{'; '.join(took)}; {finish(rig, v, 4)}"
