#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Runs this lane's cases inside a guest (shiftlab.guest.inside); lane.py is the other end."""
import os
import re
import sys
import tempfile
import time

import cases
from shiftlab.guest.cases import Failed
from shiftlab.guest.inside import GRACE_S, Host, Runner, only_drivers, order_of_boot, shell
from shiftlab.lab import Stuck

from rig import Rails, Rig, device, rails, run


def leftovers():
    """Queue pairs of programs that still exist, by rdma's list; the kernel's own have no process."""
    return re.findall(r"^link (\S+) .*pid (\d+) comm (\S+)", run("rdma", "resource", "show", "qp", fine=False), re.M)


class Lane(Runner):
    def __init__(self, order, host):
        super().__init__(order, host)
        self.served = order["served"] or None
        self.why = ""

    def rig(self, case, folder):
        return Rig(self.order, folder, lambda text: self.host.tell(says=text))

    def serves(self):
        """Would SHIFT protect connections on rxe? doctor's last line, and whether it says yes."""
        if self.served is None:
            folder = tempfile.mkdtemp(dir=self.top)
            said = Rig(self.order, folder, None).doctor().strip()
            verdict = said.splitlines()[-1]
            self.served = verdict.startswith("Would be protected:") and device("a") in verdict
            why = re.search(rf"^{device('a')} +NO .*; (.*)$", said, re.M)
            self.why = "doctor: " + (why[1] if why else verdict)
        return self.served

    def why_not(self, case):
        why = super().why_not(case)
        if why or not case.engine or self.serves():
            return why
        return f"no engine of SHIFT's serves rxe ({self.why})"

    def clean(self, left, failed):
        if not failed and not left.get("touched"):
            return None
        for _ in range(GRACE_S * 4):
            left = leftovers()
            if not left:
                break
            time.sleep(0.25)
        else:
            return f"queue pairs are left: {left}"
        try:
            Rails(self.order["rails"]).heal(failed or left["cm"])
        except (Failed, Stuck) as e:
            return f"the rails do not come back: {e}"
        return None


def main():
    order = order_of_boot()
    only_drivers()
    rails("add", order["rails"])
    if order["shell"]:
        shell(f"rails of soft-RoCE: {' '.join(sorted(Rails(order['rails']).active()))}; GID index 1\n"
              f"SHIFT: {order['build']}/bin/shiftctl run -- COMMAND")
        return 0
    host = Host()
    cases.load()
    found = Rails(order["rails"]).active()
    host.tell(ready=f"Linux {os.uname().release}, {len(found)} rxe devices", uptime=time.monotonic())
    Lane(order, host).run_all()
    return 0


if __name__ == "__main__":
    sys.exit(main())
