#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A NIC is removed by a driver that waits for its users: as a backup it is given up, and taken again when it is back.

  going.py --build DIR [CASE...]
"""
import os
import re
import sys
import time

from shiftlab.lab import Shift, cases_main, free_port, wait_for
from shiftlab.perftest import SOON, Failed

QPS = 3
LOOK_S = 4.5            # in which each NIC is looked at
HOSTS = ("h0", "h1")
GIVEN_UP = "SHIFT has nothing open there any more"


class Device:
    """The character device of a NIC of h1: what the kernel takes away first, before a driver waits for its users."""

    def __init__(self, lab, number):
        self.path = f"/dev/shm/simnic-{lab.fabric}/h1/sys/class/infiniband_verbs/uverbs{number}"
        self.target = os.readlink(self.path)

    def goes(self):
        os.unlink(self.path)

    def comes(self):
        os.symlink(self.target, self.path)


def begin(lab):
    common = [os.path.join(lab.out, "bin", "verify"), "--port", free_port(), "--control", "--gid-index", 0,
              "--qps", QPS, "--patterns", "abc", "--timeout", 18, "--stuck", 60, "--dev", "mlx5_0"]
    shift = Shift(log="info", **SOON)
    ends = [lab.start("h0", common + ["--server"], "server", shift, stdin=True),
            lab.start("h1", common + ["--client", "127.0.0.1"], "client", shift, stdin=True)]
    for p in ends:
        wait_for("protection of " + p.name, lambda p=p: lab.protected(p) >= QPS, 30)
    return ends


def end(ends):
    for p in ends:
        p.say("stop")
    for p in ends:
        if p.wait(60):
            raise Failed(f"{p.name} ended with {p.process.returncode}: {p.tail()}")


def levels(lab, host):
    return [c["level"] for c in lab.connections(host)]


def given_up(lab, client, times=1):
    wait_for("end of SHIFT's use", lambda: lab.shift_log(client).count(f"mlx5_1: {GIVEN_UP}") == times, 30)
    for host in HOSTS:
        wait_for("end of protection", lambda h=host: "protected" not in levels(lab, h), 30)


def protected(lab):
    for host in HOSTS:
        wait_for("protection", lambda h=host: levels(lab, h) == QPS * ["protected"], 30)


def backup(lab):
    """The standbys go, and what they were made of; then the NIC is back, and all is as before."""
    ends = begin(lab)
    device = Device(lab, 1)
    device.goes()
    given_up(lab, ends[1])
    device.comes()
    protected(lab)
    lab.fault("port-down", "h0/mlx5_0")
    for host in HOSTS:
        wait_for("move", lambda h=host: all(c["nic"] == "mlx5_1" for c in lab.connections(h)), 30)
    end(ends)


def default(lab):
    """The application has it open: the removal waits for that, and SHIFT changes nothing."""
    ends = begin(lab)
    Device(lab, 0).goes()
    device = Device(lab, 1)
    for times in (1, 2):    # between these, each NIC is looked at
        device.goes()
        given_up(lab, ends[1], times)
        device.comes()
        protected(lab)
    if re.search("mlx5_0: .*(taken away|nothing open)", lab.shift_log(ends[1])):
        raise Failed("the application's own NIC was given up")
    end(ends)


def carrying(lab):
    """Connections run there: it is given up when they have left."""
    ends = begin(lab)
    lab.fault("port-down", "h0/mlx5_0")
    for host in HOSTS:
        wait_for("move", lambda h=host: all(c["nic"] == "mlx5_1" for c in lab.connections(h)), 30)
    Device(lab, 1).goes()
    time.sleep(LOOK_S)      # it is looked at, and kept
    if GIVEN_UP in lab.shift_log(ends[1]):
        raise Failed("a NIC with traffic was given up")
    lab.ctl("heal", "h0/mlx5_0")
    given_up(lab, ends[1])
    end(ends)


CASES = {"backup": backup, "default": default, "carrying": carrying}


if __name__ == "__main__":
    sys.exit(cases_main(CASES, lambda lab, name: CASES[name](lab)))
