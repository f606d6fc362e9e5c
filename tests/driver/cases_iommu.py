# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""
The NICs behind an emulated IOMMU (VT-d), which lets DMA through to what the kernel has mapped at that moment alone: an access
beyond that is a fault that the kernel reports, and fails the case.
"""
import json
import re
import subprocess

from cases_cycle import recoveries, rebind
from shiftlab.guest.cases import case, check
from shiftlab.guest.rig import run
from shiftlab.guest.verify import Verify
from shiftlab.lab import wait_for

NOWHERE = 0x1234000     # a DMA address that no driver is given: the kernel hands them out from 4 GiB downwards
FAULT_S = 10            # until the kernel has told of a fault
TIMEOUT = 18            # of a queue pair
CYCLES = 2
# What probe-hw cannot tell on one NIC of InfiniBand: it wants the link down, or what this NIC does not have.
CANNOT_TELL = {"blueflame", "netdev", "pkey-drops", "null-key", "umr-offset", "cut-psn", "port-event", "loopback-down",
               "ud-survives"}


def is_translated(rig):
    """Fails unless the kernel translates each DMA address of the NIC, and waits for each unmapping."""
    kind = rig.iommu()
    check(kind, f"{rig.nic.address} is behind no IOMMU")
    check(kind == "DMA", f"DMA addresses of {rig.nic.address} are of the kind {kind}")


def one_end_each(rig):
    at = {"a": rig.net.ib_name, "b": rig.spare_net.ib_name}
    return Verify(rig, None, rig.seed, 3, "abce", TIMEOUT, nic=lambda end: at[end])


def verified(rig):
    """The number of messages of verify between the case's NIC and the one that stays well."""
    v = one_end_each(rig)
    v.moves_on()
    v.stop()
    return v.verdict()


def perftest(rig):
    common = ["ib_write_bw", "-s", 65536, "-n", 200, "-F", "-t", 16]
    ends = rig.pair([*common, "-d", rig.net.ib_name], [*common, "-d", rig.spare_net.ib_name, "127.0.0.1"])
    rig.ends_well(*ends)


@case("iommu.traffic", needs=("ib_write_bw",))
def traffic(rig):
    """Programs, unloading and loading of the driver, and recoveries: no DMA beyond what the kernel has mapped."""
    is_translated(rig)
    check("PORT_ACTIVE" in run("ibv_devinfo", "-d", rig.net.ib_name), "no active port")
    perftest(rig)
    messages = verified(rig)
    rig.kernel_is_content()
    for _ in range(CYCLES):
        rebind(rig)
    recoveries(rig, CYCLES)
    messages += verified(rig)
    rig.kernel_is_content()
    return f"{messages} messages of verify, 0 wrong bytes, {CYCLES} loads, {CYCLES} recoveries, seed {rig.seed}"


@case("iommu.probe_hw")
def probe_hw(rig):
    """shiftctl probe-hw on a NIC behind an IOMMU: none of its checks fails, and no DMA is stray."""
    is_translated(rig)
    said = rig.shiftctl("probe-hw", "-d", rig.net.ib_name, "--json", fine=False,
                        errors=subprocess.DEVNULL, timeout=120)
    verdicts = {c["name"]: c["verdict"] for c in json.loads(said)["checks"]}
    failed = [name for name, verdict in verdicts.items() if verdict == "fails"]
    check(not failed, f"fails: {' '.join(failed)}")
    unsure = {name for name, verdict in verdicts.items() if verdict == "cannot tell"}
    check(unsure == CANNOT_TELL, f"cannot tell: {' '.join(sorted(unsure))}")
    rig.kernel_is_content()
    return f"{len(verdicts) - len(unsure)} of {len(verdicts)} hold; the others cannot tell"


def fault_of(rig, word):
    """What the kernel says of a stray access."""
    rig.clear_kernel_log()
    rig.ask(fault=f"{word}={NOWHERE:#x}")
    wait_for(f"DMA fault of {word}", rig.dma_faults, FAULT_S, 0.2)
    wait_for(f"its address, of {word}", lambda: f"fault addr {NOWHERE:#x}" in rig.kernel_log(), FAULT_S, 0.2)
    return next(row for row in rig.dma_faults() if "fault addr" in row)


@case("iommu.stray")
def stray(rig):
    """The data path writes and reads where nothing is mapped: a DMA fault each, with the NIC's number and the address."""
    is_translated(rig)
    number = rig.nic.address.removeprefix("0000:")
    for word, kind in (("stray-write", "DMA Write"), ("stray-read", "DMA Read")):
        said = fault_of(rig, word)
        check(re.search(rf"\[{kind}\b.*\[{number}\]", said), f"{word}: {said}")
    return said
