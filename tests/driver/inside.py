#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Runs this lane's cases inside a guest (shiftlab.guest.inside); lane.py is the other end."""
import os
import sys
import time

import cases
from peer import Servant
from rig import Rig, nics
from shiftlab.guest.inside import Host, Runner, only_drivers, order_of_boot, shell
from shiftlab.guest.rig import run
from shiftlab.lab import wait_for

BOOT_S = 90     # until the driver has made all RDMA devices: it does so by itself


class Lane(Runner):
    """Each case has a NIC of its own, as what a fault leaves of one is not known. The last NIC stays well."""

    def __init__(self, order, host):
        super().__init__(order, host)
        self.all = nics()   # before one of them is gone
        *self.nics, self.spare = self.all
        self.used = 0

    def rig(self, case, folder):
        return self.rig_of(folder, self.used)

    def rig_of(self, folder, number):
        nic = self.nics[number]
        # Those that no case has had come first; one that is gone is nobody's backup.
        others = sorted((other for other in self.all if other not in (nic, self.spare) and other.has_device()),
                        key=lambda other: other.rail < number)
        others += [None, None]
        return Rig(self.order, folder, self.host, number, (nic, others[0], self.spare, others[1]))

    def serve(self):
        """For the cases of the other guest."""
        def rig_of(case, number):
            folder = os.path.join(self.top, f"{case}-{number}")
            os.mkdir(folder)
            return self.rig_of(folder, number)

        Servant(rig_of).serve(self.host)

    def clean(self, left, failed):
        self.used += 1
        last = self.used == len(self.order["cases"])
        return "all NICs are used up" if self.used == len(self.nics) and not last else None


def main():
    order = order_of_boot()
    only_drivers()
    if order["shell"]:
        shell(f"NICs: {' '.join(nic.name for nic in nics())}")
        return 0
    run("ip", "link", "set", "lo", "up")    # programs of a case meet there
    host = Host()
    cases.load()
    wait_for("NICs", lambda: len(nics()) == order["nics"], BOOT_S, 0.2)
    host.tell(ready=f"Linux {os.uname().release}, {len(nics())} NICs of mlx5_core", uptime=time.monotonic())
    lane = Lane(order, host)
    if order["cases"]:
        lane.run_all()
    else:
        lane.serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
