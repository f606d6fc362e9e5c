# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""ibv_rc_pingpong inside the root of rpm_test.py, over simnic's NICs, through a port that goes down."""
import contextlib
import json
import os

from rpm_root import Failed, run
from shiftlab.lab import Program, free_port, wait_for

PATIENCE_S = 60
CONF = "/etc/shift.conf"


@contextlib.contextmanager
def mounted(root):
    """What programs need of a kernel, in memory of its own: nothing of this machine's /dev lies below the root."""
    run("mount", "-t", "tmpfs", "tmpfs", root + "/dev")
    run("mount", "-t", "proc", "proc", root + "/proc")
    run("mount", "-t", "tmpfs", "tmpfs", root + "/run")
    try:
        os.mkdir(root + "/dev/shm")
        for name, minor in (("null", 3), ("zero", 5), ("urandom", 9)):
            run("mknod", "-m", "666", f"{root}/dev/{name}", "c", "1", minor)
        yield
    finally:
        for name in ("run", "proc", "dev"):
            run("umount", "-l", f"{root}/{name}")


@contextlib.contextmanager
def named(root, program):
    """The program stands in the host's settings."""
    with open(root + CONF, encoding="utf-8") as f:
        before = f.read()
    with open(root + CONF, "a", encoding="utf-8") as f:
        f.write(f"SHIFT_PROGRAMS = {program}\n")
    try:
        yield
    finally:
        with open(root + CONF, "w", encoding="utf-8") as f:
            f.write(before)


class Pair:
    """Server and client, on a host of the fabric each."""

    def __init__(self, system):
        self.system, self.ends = system, []
        self.env = {"PATH": "/usr/bin:/usr/sbin", "SIMNIC_FABRIC": f"rpm-{os.getpid()}"}

    def inside(self, *argv):
        return run("chroot", self.system.root, *argv, env=self.env)

    def __enter__(self):
        self.inside("simnicctl", "create")
        port = free_port()
        for host, peer in (("h0", []), ("h1", ["127.0.0.1"])):
            self.ends.append(Program(host, ["chroot", self.system.root, "simnicctl", "run", "--host", host, "--", "ibv_rc_pingpong",
                                            "-d", "mlx5_0", "-g", "0", "-s", "64", "-n", "1000000000", "-p", str(port), *peer],
                                     self.env, self.system.folder))
            if not peer:
                self.ends[0].await_listening()
        return self

    def __exit__(self, *_):
        for end in self.ends:
            end.end()
        self.inside("simnicctl", "destroy")

    def carried(self, nic):
        nics = json.loads(self.inside("simnicctl", "status", "--json"))["hosts"][0]["nics"]
        return nics[nic].get("rc_tx_bytes", nics[nic]["tx_bytes"])

    def carries(self, nic):
        before = self.carried(nic)

        def more():
            for end in self.ends:
                if not end.running():
                    raise Failed(f"{end.name} ended\n{end.tail()}")
            return self.carried(nic) > before + 100000

        wait_for(f"traffic over mlx5_{nic}", more, PATIENCE_S)

    def protected(self):
        told = json.loads(run("chroot", self.system.root, "sh", "-c", "shiftctl status --json 2> /dev/null", env=self.env,
                              status=None))
        return sum(q["level"] == "protected" for p in told["processes"] for q in p.get("qps", [])) == 2


def outlives(system):
    with mounted(system.root), named(system.root, "ibv_rc_pingpong"), Pair(system) as pair:
        pair.carries(0)
        wait_for("protection", pair.protected, PATIENCE_S)
        pair.inside("simnicctl", "fault", "port-down", "h0/mlx5_0")
        pair.carries(1)
