#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""NICs that are taken away, as a kernel does it: file after file, queue pairs later than commands.

  gone.py --build DIR [CASE...]
"""
import os
import sys
import time

from shiftlab.lab import Shift, cases_main, free_port, wait_for
from shiftlab.perftest import SOON, Failed

QPS = 6
EACH_MS = 300      # for a file, in a kernel
HOSTS = ("h0", "h1")


class Pair:
    """verify, every byte and message of it checked, between the hosts."""

    def __init__(self, lab, env=None, **settings):
        self.lab = lab
        common = [os.path.join(lab.out, "bin", "verify"), "--port", free_port(), "--control",
                  "--gid-index", 0, "--qps", QPS, "--patterns", "abcbeb", "--timeout", 18,
                  "--stuck", 60, "--dev", "mlx5_0"]
        shift = Shift(log="info", **{**SOON, "backup": "pair", **settings})
        self.ends = [lab.start("h0", common + ["--server"], "server", shift, env, stdin=True),
                     lab.start("h1", common + ["--client", "127.0.0.1"], "client", shift, env, stdin=True)]
        self.await_all("protection", lambda p: lab.protected(p) >= QPS)

    def await_all(self, what, test):
        for p in self.ends:
            wait_for(f"{what} of {p.name}", lambda p=p: test(p) or not p.running(), 30)
            if not p.running():
                raise Failed(f"{p.name} ended with {p.process.returncode}, before {what}")

    def await_moved(self, to):
        """Where all now are."""
        self.await_all("move to " + to, lambda p: sum(
            c["nic"] == to for c in self.lab.connections(HOSTS[self.ends.index(p)])) == QPS)

    def end(self):
        for p in self.ends:
            p.say("stop")
        for p in self.ends:
            if p.wait(60):
                raise Failed(f"{p.name} ended with {p.process.returncode}: {p.tail()}")


def taken_away(lab, host, *order):
    """
    The application's queue pairs run on after its commands fail, and after SHIFT's own file has gone;
    and what the peer sent is late.
    """
    nic = host + "/mlx5_0"
    other = HOSTS[host == "h0"] + "/mlx5_0"
    lab.ctl("removal", nic, EACH_MS, *order)
    pair = Pair(lab, packet_lifetime_ms=EACH_MS)
    told = 0 if "fatal-first" in order else EACH_MS
    path = os.path.join(lab.folder, "faults")
    with open(path, "w", encoding="ascii") as f:
        f.write(f"nic-disassociate {nic} --after 0.01\n"
                f"hold-requests {other} --after {told * 0.95e-3} --for {EACH_MS * 0.5e-3}\n")
    lab.ctl("script", path)
    pair.await_moved("mlx5_1")
    time.sleep(2.5e-3 * EACH_MS)    # a kernel probes a device when it has been taken away, not before
    lab.ctl("heal", nic)
    pair.await_moved("mlx5_0")
    pair.end()


def cut_off(lab, fault, host, *removal):
    """
    No packet is waited for, however long it may be under way. Here the NIC does write what it has acknowledged;
    where it may not, placed.py.
    """
    nic = host + "/mlx5_0"
    lab.ctl("removal", nic, 1, *removal)
    pair = Pair(lab, packet_lifetime_ms=60000, unplaced="trust")
    lab.fault(fault, nic)
    pair.await_moved("mlx5_1")
    pair.end()


def zombie(lab, host):
    """A NIC that obeys no command, executes all that arrives, and packets that are late."""
    nic, other = host + "/mlx5_0", HOSTS[host == "h0"] + "/mlx5_0"
    pair = Pair(lab, packet_lifetime_ms=EACH_MS)
    path = os.path.join(lab.folder, "faults")
    with open(path, "w", encoding="ascii") as f:
        f.write(f"hold-requests {other} --after 0.01 --for {EACH_MS * 0.7e-3}\n"
                f"nic-zombie {nic} --after 0.015\n")
    lab.ctl("script", path)
    pair.await_moved("mlx5_1")
    lab.ctl("heal", nic)
    pair.await_moved("mlx5_0")
    pair.end()


def hung_end(lab):
    """
    A program ends while its NIC hangs. A kernel, which destroys what is left on the NIC by commands of which each
    waits for a minute, does not keep it: another process holds its files.
    """
    pair = Pair(lab, env={"SIMNIC_CLOSE_WAITS": "1"})
    lab.fault("nic-hang", "h0/mlx5_0")
    pair.await_moved("mlx5_1")
    pair.end()


def swapped(lab):
    """Two NICs of a host go, and come back with each other's names; the second one has no traffic."""
    pair = Pair(lab)
    for nic in ("h0/mlx5_0", "h0/mlx5_2"):
        lab.fault("nic-disassociate", nic)
    pair.await_moved("mlx5_1")
    wait_for("end of the removal", lambda: not lab.status()["scheduled"])
    lab.ctl("swap", "h0/mlx5_0", "h0/mlx5_2")
    for nic in ("h0/mlx5_2", "h0/mlx5_0"):
        lab.ctl("heal", nic)
    names = {pair.ends[0]: "mlx5_2", pair.ends[1]: "mlx5_0"}
    pair.await_all("return over the same NIC by its other name", lambda p: sum(
        c["nic"] == c["default_nic"] == names[p] and c["path"] == 0 and c["level"] == "protected"
        for c in lab.connections(HOSTS[pair.ends.index(p)])) == QPS)
    pair.end()


CASES = {
    "backwards": lambda lab: taken_away(lab, "h0", "backwards"),
    "backwards_of_client": lambda lab: taken_away(lab, "h1", "backwards"),
    "in_order": lambda lab: taken_away(lab, "h0"),
    "removed": lambda lab: cut_off(lab, "nic-disassociate", "h0"),
    "removed_of_old_kernel": lambda lab: cut_off(lab, "nic-disassociate", "h1", "fatal-first"),
    "unplugged": lambda lab: cut_off(lab, "nic-unplug", "h0"),
    "pci_error": lambda lab: cut_off(lab, "nic-pci-error", "h1"),
    "hung_end": hung_end,
    "swapped": swapped,
    "zombie": lambda lab: zombie(lab, "h0"),
    "zombie_of_client": lambda lab: zombie(lab, "h1"),
    "old_kernel": lambda lab: taken_away(lab, "h0", "fatal-first"),
}


if __name__ == "__main__":
    sys.exit(cases_main(CASES, lambda lab, name: CASES[name](lab), nics=3))
