# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The driver's lives: loaded and unloaded, and recovered from a fatal error, again and again. No command may be lost."""
import time

from shiftlab.guest.cases import case, check
from shiftlab.guest.rig import run
from shiftlab.lab import wait_for

FEW, MANY = 5, 100
RECOVERED = "health recovery succeeded"
RECOVERY_S = 60


def cycles(rig, n, one):
    """n times, or as often as the lane was told; every tenth is told."""
    took, n = [], rig.times or n
    for i in range(n):
        began = time.monotonic()
        one(rig)
        took.append(time.monotonic() - began)
        rig.no_command_is_lost()
        rig.kernel_is_content()
        rig.clear_kernel_log()
        if i % 10 == 9:
            rig.tell(f"{i + 1} cycles, {sum(took) / len(took):.1f} s each")
    return f"{n} cycles, {sum(took) / len(took):.1f} s each, the longest {max(took):.1f} s"


def rebind(rig):
    """Unloads the driver, and loads it; the RDMA device must be a whole one."""
    rig.driver("unbind")
    rig.driver("bind")
    rig.await_device()
    said = run("ibv_devinfo", "-d", rig.net.ib_name)
    check("PORT_ACTIVE" in said, "no active port: " + said[-300:])


def recover(rig):
    """A fatal error, which the driver recovers from by itself."""
    rig.clear_kernel_log()
    rig.breaks("fatal")
    wait_for("recovery", lambda: RECOVERED in rig.kernel_log(), RECOVERY_S, 0.2)
    rig.await_device()


def without_grace(rig):
    """Else the driver unloads at the second fatal error within a minute. It holds until the driver starts anew."""
    run("devlink", "health", "set", f"pci/{rig.nic.address}", "reporter", "fw_fatal", "grace_period", 0)


def recoveries(rig, n):
    without_grace(rig)
    return cycles(rig, n, recover)


@case("cycle.rebind")
def rebind_few(rig):
    """The driver is unloaded and loaded five times."""
    return cycles(rig, FEW, rebind)


@case("cycle.recover")
def recover_few(rig):
    """Five fatal errors of the firmware, one after the other: the driver recovers from each."""
    return recoveries(rig, FEW)


@case("cycle.rebind_many", by_name=True)
def rebind_many(rig):
    """A hundred times; with --limit 1500 --minutes 30."""
    return cycles(rig, MANY, rebind)


@case("cycle.recover_many", by_name=True)
def recover_many(rig):
    """A hundred recoveries; with --limit 1500 --minutes 30."""
    return recoveries(rig, MANY)
