#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Programs as their users start them, with no variable set but by `shiftctl run -- PROGRAM`, through a fault and back,
on hosts that they take for different machines: what arrives equals what arrives without SHIFT and without fault. With
--stock, a fault ends each of them.

  nothing_set.py --build DIR [--fault calm,link,switch,drain] [--stock] [CASE...]
"""
import os
import shutil
import sys

from shiftlab import apart, jobs
from shiftlab.lab import free_port, wait_for
from shiftlab.openmpi import OpenMpi

PYTHONS = (sys.executable, "/usr/bin/python3")
MOVED_BYTES = 2 * 8 * 1_069_000     # at least, by a round of NIXL or Mooncake, both ways
REDUCED_BYTES = 8 * 106_000         # by an Allreduce of all sizes
RPC_BYTES = 3 * 3 * 8 * 121_000
START_S = 60
REPEATS = "8000"            # of a benchmark: it outlasts a fault and the return
WARM_BYTES = 200_000_000    # by then SHIFT has made room in the program's completion queues
SET_BY_RUN = {"UCX_TLS": "^rc_x,dc_x,ud_x,ud_mlx5:aux", "UCX_FENCE_MODE": "weak",
              "OMPI_MCA_btl_uct_memory_domains": "none", "OMPI_MCA_btl_ofi_provider_include": "none"}


def hosts(lab, commands):
    """The commands of ranks, each on a machine of its own."""
    return [(apart.command(lab, jobs.HOSTS[i], argv), env) for i, (argv, env) in enumerate(commands)]


def reference(fault, shift, whole=True):
    """The variables of a run without SHIFT and without fault: those of the run with which it is compared. Without them
    UCX's mlx5 transports are not whole on a simulated NIC. whole: they last until a fault, at least."""
    return {} if shift or (fault.stock and whole) else SET_BY_RUN


def start_ranks(lab, name, commands):
    return [lab.launch(f"{name}-rank{i}", argv, env) for i, (argv, env) in enumerate(hosts(lab, commands))]


def variables(program):
    with open(f"/proc/{program.pid}/environ", "rb") as f:
        return {entry.split(b"=")[0].decode() for entry in f.read().split(b"\0")}


def check_started(job):
    """The case tries what it says: what is set was set by run."""
    for p in job.programs:
        wait_for(f"variables of {p.name}", lambda p=p: {"UCX_TLS", "NCCL_PROTO"} <= variables(p), START_S)


def by_python(module, script, min_bytes, *args, pythons=None):
    """(prepare, case) of ranks that a Python runs, which has this module."""
    def prepare(build):
        own = os.path.join(jobs.programs_folder(build), "bin", "python")
        for python in pythons or (own,):
            if jobs.has_module(python, module):
                return python
        raise jobs.Missing(f"no {module} for {', '.join(pythons or (own,))}; scripts/install-programs.sh installs it")

    def case(lab, fault, python):
        def start(lab, name, shift, rounds):
            values = {"address": os.path.join(lab.folder, name + ".address"), "port": str(free_port())}
            job = jobs.Job(lab, name, start_ranks, lambda rank: [
                python, os.path.join(jobs.RANKS, script), "--rank", rank,
                *[a.format(**values) for a in args]], env=reference(fault, shift), shift=shift, rounds=rounds)
            if shift:
                check_started(job)
            return job
        apart.begin(lab)
        jobs.run(lab, start, fault, min_bytes=min_bytes)

    return prepare, case


class Mpi(OpenMpi):
    """Of the environment with Mooncake and NIXL."""

    whole = True

    def start_ranks(self, lab, name, commands):
        return super().start_ranks(lab, name, hosts(lab, commands))


class DebianMpi(Mpi):
    """Debian's, with its mpi4py; its configuration rules UCX out. UCX 1.13 ends by a bus error in rc_mlx5 on a simulated
    NIC."""

    whole = False
    mca = dict(OpenMpi.mca, pml="ucx", osc="ucx")

    def __init__(self, build):  # pylint: disable=super-init-not-called
        self.folder, self.python, self.mpirun = jobs.programs_folder(build), "/usr/bin/python3", "/usr/bin/mpirun"
        if not os.access(self.mpirun, os.X_OK) or not jobs.has_module(self.python, "mpi4py, numpy"):
            raise jobs.Missing("no Open MPI of Debian with mpi4py; scripts/install-programs.sh installs it")
        self.mpirun = shutil.which("mpirun.openmpi") or self.mpirun


def by_mpi(kind, *names, **env):
    """What needs a variable of its user's says so in env."""
    def case(lab, fault, mpi):
        def start(lab, name, shift, rounds):
            # without DEVX, UCX's own fence ends one-sided work, on stock too
            more = {**env, **reference(fault, shift, mpi.whole and "one_sided" not in names)}
            return mpi.starter("mpi_rank.py", *names, ucx=more)(lab, name, shift, rounds)
        apart.begin(lab)
        jobs.run(lab, start, fault, min_bytes=REDUCED_BYTES if "allreduce" in names else 1)
    return kind, case


def either(lab, programs, source, to):
    """Whether a connection of one of them has moved so."""
    for p in programs:
        if not p.running():
            raise jobs.Failed(f"{p.name} ended with {p.process.returncode}")
    return any(jobs.moved(lab, p, source, to) for p in programs)


def tool_through_fault(lab, fault, programs):
    for p in programs:
        wait_for("protection of " + p.name, lambda p=p: lab.protected(p), START_S)
    before = lab.carried(0)
    wait_for("traffic", lambda: lab.carried(0) > before + WARM_BYTES, START_S)
    fault(lab, True)
    wait_for("move to mlx5_1", lambda: either(lab, programs, "mlx5_0", "mlx5_1"), START_S)
    fault(lab, False)
    wait_for("return to mlx5_0", lambda: either(lab, programs, "mlx5_1", "mlx5_0"), START_S)
    before = lab.carried(0)
    wait_for("traffic over mlx5_0", lambda: lab.carried(0) > before, START_S)


def stock_ends(lab, fault, programs):
    before = lab.carried(0)
    wait_for("traffic", lambda: lab.carried(0) > before + 100_000, START_S)
    fault.make(lab, True)
    wait_for("end of one of them", lambda: not all(p.running() for p in programs), START_S)
    if not any(p.process.returncode for p in programs if not p.running()):
        raise jobs.Failed("it ended well, without SHIFT")


def by_tool(path, *args, server=(), client=("{host}",), endless=False):
    """A server and its client. They check what they receive, and end by themselves, if not endless."""
    def prepare(build):
        program = path.format(programs=jobs.programs_folder(build))
        if not shutil.which(program):
            raise jobs.Missing(f"no {program}; scripts/install-programs.sh installs it")
        return program

    def case(lab, fault, program):
        apart.begin(lab)
        values = {"port": str(free_port()), "host": "127.0.0.1"}
        shift = None if fault.stock else jobs.Shift(log="info", **jobs.SOON)
        programs = []
        for i, more in enumerate((server, client)):
            argv = [a.format(**values) for a in (program, *args, *more)]
            name = "client" if i else "server"
            (argv, env), = [lab.command(jobs.HOSTS[i], argv, name, shift)]
            programs.append(lab.launch(name, apart.command(lab, jobs.HOSTS[i], argv), env))
            if not i:
                programs[0].await_listening()
        if fault.stock:
            stock_ends(lab, fault, programs)
            return
        if fault.make:
            tool_through_fault(lab, fault.make, programs)
        for p in () if endless else programs:
            if p.wait(jobs.END_S):
                raise jobs.Failed(f"{p.name} ended with {p.process.returncode}")

    return prepare, case


class Ranks:
    """Those that an mpirun has started: it ends when one of them has."""

    def __init__(self, name, started):
        self.name, self.process, self.running = name, started.process, started.running


def imb(build):
    folder = os.path.join(os.path.abspath(jobs.programs_folder(build)), "intel")
    if not os.access(os.path.join(folder, "bin", "IMB-MT"), os.X_OK):
        raise jobs.Missing(f"no MPI of Intel's in {folder}; scripts/install-programs.sh installs it")
    return folder


def imb_checks(lab, fault, folder):
    """Intel's MPI over its libfabric's provider mlx, which is UCX of the system. IMB-MT alone looks at what it receives."""
    apart.begin(lab)
    shift = None if fault.stock else jobs.Shift(log="info", **jobs.SOON)
    argv = [os.path.join(folder, "bin", "IMB-MT"), "-check", "yes", "-thread_level", "multiple", "-count", "1,16384",
            "-repeat", REPEATS, "PingPongMT", "AllReduceMT"]
    env = {"I_MPI_ROOT": folder, "FI_PROVIDER_PATH": os.path.join(folder, "lib", "libfabric", "prov"),
           "LD_LIBRARY_PATH": ":".join(os.path.join(folder, "lib", x) for x in ("", "libfabric")),
           "FI_PROVIDER": "mlx", "I_MPI_OFI_PROVIDER": "mlx", "I_MPI_FABRICS": "ofi"}
    start = [os.path.join(folder, "bin", "mpiexec.hydra"), "-bootstrap", "fork"]
    names = ("first", "second")
    for i, (rank, more) in enumerate(hosts(lab, [lab.command(h, argv, n, shift, env) for h, n in zip(jobs.HOSTS, names)])):
        changed = [f"{k}={v}" for k, v in more.items() if os.environ.get(k) != v]
        start += [":"] * bool(i) + ["-n", "1", "env", *changed, *rank]
    started = lab.launch("mpiexec", start, {**lab.env(), **env, "TMPDIR": lab.folder})
    ranks = [Ranks(name, started) for name in names]
    if fault.stock:
        stock_ends(lab, fault, ranks)
        return
    if fault.make:
        tool_through_fault(lab, fault.make, ranks)
    if started.wait(jobs.END_S):
        raise jobs.Failed(f"mpiexec ended with {started.process.returncode}")
    said = started.out()
    if "CHECK FAILURES" in said or said.count("# Benchmarking") != 2 or f" {REPEATS} " not in said:
        raise jobs.Failed("its benchmarks say:\n" + said)


CASES = {
    "ucx_perftest": by_tool("ucx_perftest", "-p", "{port}", server=(), endless=True, client=(
        "{host}", "-t", "tag_bw", "-s", "65536", "-n", "100000000")),
    "sideway": by_tool("{programs}/sideway/rc_pingpong", "-d", "mlx5_0", "-p", "{port}", "-s", "65536", "-n", "100000"),
    "nixl": by_python("nixl_cu12._api", "nixl_rank.py", MOVED_BYTES, "--address", "{address}"),
    "mooncake": by_python("mooncake.engine", "mooncake_rank.py", MOVED_BYTES, "--address", "{address}"),
    "torch_rpc": by_python("torch.distributed.rpc", "rpc_rank.py", RPC_BYTES, "--port", "{port}", pythons=PYTHONS),
    "imb": (imb, imb_checks),
    "mpi_allreduce": by_mpi(Mpi, "allreduce"),
    "mpi_exchange": by_mpi(Mpi, "exchange"),
    "mpi_one_sided": by_mpi(Mpi, "one_sided", UCX_ATOMIC_MODE="cpu"),
    "debian_allreduce": by_mpi(DebianMpi, "allreduce"),
    "debian_exchange": by_mpi(DebianMpi, "exchange"),
}


def main():
    chosen = [a for a in sys.argv[1:] if a in CASES] or list(CASES)
    options = [a for a in sys.argv[1:] if a not in CASES]
    status = apart.skip()
    if status:
        return status
    done = set()
    for name in chosen:
        prepare, case = CASES[name]
        sys.argv[1:] = options + [name]
        done.add(jobs.main(__doc__, {name: case}, prepare))
    return 1 if 1 in done else min(done)


if __name__ == "__main__":
    sys.exit(main())
