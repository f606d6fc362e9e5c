# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Open MPI with UCX over verbs: one rank on each host, by the mpirun of scripts/install-programs.sh."""
import os

from shiftlab import jobs

# rc_verbs posts through libibverbs; ud_verbs makes its connections. A simulated NIC has no network
# interface whose routes UCX could ask for. Without DEVX, UCX 1.20 answers a strong fence by a READ
# with a key that the peer never made; on one queue pair the weak one orders as well.
UCX = {
    "UCX_TLS": "rc_verbs,ud_verbs,self",
    "UCX_NET_DEVICES": "mlx5_0:1",
    "UCX_IB_ROCE_REACHABILITY_MODE": "all",
    "UCX_FENCE_MODE": "weak",
}
# What a NIC executes twice would change memory twice, so that connections with atomics outstanding end
# with an error when their NIC dies. UCX then does atomics by messages.
NO_ATOMICS = {"UCX_ATOMIC_MODE": "cpu"}
# Open MPI takes UCX by itself, by the driver of the NIC. Processes that wait leave the processor to others.
MCA = {"mpi_yield_when_idle": "1"}


class OpenMpi:
    """The interpreter of an environment with mpi4py, and its mpirun."""

    mca = MCA

    def __init__(self, build):
        self.folder = jobs.programs_folder(build)
        self.python = os.path.join(self.folder, "bin", "python")
        self.mpirun = os.path.join(self.folder, "bin", "mpirun")
        if not os.access(self.mpirun, os.X_OK) or not jobs.has_module(self.python, "mpi4py"):
            raise jobs.Missing(f"no Open MPI with mpi4py in {self.folder}; "
                               "scripts/install-programs.sh installs it")

    def start_ranks(self, lab, name, commands):
        """mpirun starts no rank itself: it runs what puts a program on a host."""
        argv = [self.mpirun, "--oversubscribe", "--bind-to", "none"]
        argv += ["--allow-run-as-root"] if os.geteuid() == 0 else []
        for key, value in self.mca.items():
            argv += ["--mca", key, value]
        for i, (rank, env) in enumerate(commands):
            changed = [f"{k}={v}" for k, v in env.items() if os.environ.get(k) != v]
            argv += ([":"] if i else []) + ["-n", "1", "env", *changed, *rank]
        env = dict(lab.env(), TMPDIR=lab.folder)
        return [lab.launch(f"{name}-mpirun", argv, env)]

    def starter(self, script, *args, ucx=None, **more):
        """What jobs.run() wants: makes a Job of two ranks of this script. ucx: instead of its variables here."""
        env = dict(UCX if ucx is None else ucx, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", **more)

        def start(lab, name, shift, rounds):
            return jobs.Job(lab, name, self.start_ranks, lambda rank: [
                self.python, os.path.join(jobs.RANKS, script), *args],
                env=env, shift=shift, rounds=rounds)

        return start
