#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Runs this lane's cases inside a guest (shiftlab.guest.inside); lane.py is the other end."""
import os
import sys
import time

import cases
from rig import Rig, nics
from shiftlab.guest.inside import Host, Runner, only_drivers, order_of_boot, shell
from shiftlab.guest.rig import run


class Lane(Runner):
    """Each case has a NIC of its own, as what a fault leaves of one is not known. The last NIC stays well."""

    def __init__(self, order, host):
        super().__init__(order, host)
        self.all = nics()   # before one of them is gone
        *self.nics, self.spare = self.all
        self.used = 0

    def rig(self, case, folder):
        nic = self.nics[self.used]
        others = [other for other in self.all if other not in (nic, self.spare)] + [None, None]
        return Rig(self.order, folder, self.host, self.used, (nic, others[0], self.spare, others[1]))

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
    host.tell(ready=f"Linux {os.uname().release}, {len(nics())} NICs of mlx5_core", uptime=time.monotonic())
    Lane(order, host).run_all()
    return 0


if __name__ == "__main__":
    sys.exit(main())
