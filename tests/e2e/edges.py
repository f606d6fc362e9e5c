#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Ways to wait for a completion channel, by ping-pong and by events that nobody has read yet: an edge comes
for each event, as on stock. Signals (O_ASYNC) are not among them: an epoll descriptor sends none.

  edges.py --build DIR [CASE...]
"""
import os
import sys

from shiftlab.lab import Shift, cases_main
from shiftlab.perftest import Failed

MESSAGES = {"unread": 300}
CASES = ["poll", "select", "level", "edge", "oneshot", "unread"]


def run(lab, way):
    for name, shift in (("stock", None), ("shift", Shift(log="info"))):
        program = lab.start("h0", [os.path.join(lab.out, "bin", "edges"), way,
                                   str(MESSAGES.get(way, 4000))], f"{name}-{way}", shift)
        if program.wait(100):
            raise Failed(f"{program.name} ended with {program.process.returncode}: "
                         + program.tail())


if __name__ == "__main__":
    sys.exit(cases_main({case: None for case in CASES}, run))
