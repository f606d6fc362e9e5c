# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What the lane makes of cases that go wrong: run by name alone (--case 'lane.*'), and only lane.passes passes."""
import time

from shiftlab.guest.cases import case
from rig import Skipped, check


@case("lane.panics", by_name=True)
def panics(_rig):
    """Brings the kernel down; the case is named, and the rest go on in another guest."""
    with open("/proc/sysrq-trigger", "w", encoding="ascii") as f:
        f.write("c")
    time.sleep(60)


@case("lane.hangs", by_name=True)
def hangs(_rig):
    """Takes longer than any limit."""
    time.sleep(3600)


@case("lane.fails", by_name=True)
def fails(rig):
    """Leaves a link down, and a program that runs."""
    rig.start("a", ["sleep", 3600])
    rig.rails.down("a")
    check(False, "as it should")


@case("lane.skips", by_name=True)
def skips(_rig):
    """Cannot be run."""
    raise Skipped("as it should")


@case("lane.passes", by_name=True)
def passes(rig):
    """Finds the rails as they were."""
    check(len(rig.rails.active()) == 2 * rig.rails.count, f"active are {rig.rails.active()} alone")
    return "all ports are active"
