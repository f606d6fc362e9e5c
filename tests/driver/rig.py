# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What a case works with, inside a guest: a NIC, programs on it, and faults of it, made by the guest or by its host."""
import glob
import os
import re
import struct
import threading
import time
import typing

from net import Net
from peer import Peer
from shiftlab.guest import rig as guest_rig
from shiftlab.guest.cases import Failed, check
from shiftlab.lab import slowed, wait_for

CLASS = "/sys/class/infiniband"
PCI = "/sys/bus/pci/devices"
DRIVER = "/sys/bus/pci/drivers/mlx5_core"
COMMAND, BUS_MASTER = 4, 1 << 2             # of the config space
SERR, BRIDGE_CONTROL, BRIDGE_SERR = 1 << 8, 0x3e, 1 << 1    # of a function; of a bridge
EXPRESS, DEVICE_CONTROL, FLR = 0x10, 8, 1 << 15
REPORTS = 0xf       # of a device's control: which errors it reports
SLOW_MS = 100       # of each command, where all are slow: no timeout
GONE_S, SLOT_S = 90, 2  # until the kernel has taken a NIC away, and has its slot without power
# What mlx5_core says where an answer of the firmware did not come, or came untold.
LOST = ("after timeout", "Will cause a leak of a command resource", "canceled on out of queue timeout")
BACK_S = 120    # until a NIC has its RDMA device
# Of a kernel thread that asks the subnet administrator, whom no fabric here has: four times 2 s,
# with 1 s between them.
ASKING, ASKED_S, ASKS_S = "update_ib_cpi", 4, 60
# What an IOMMU's driver says of an access that it did not let through.
DMA_FAULT = re.compile(r"DMAR: \[.*fault reason.*|DMAR: .*handling fault.*")
# What the kernel may warn of; all else fails the case.
WARNINGS = ("uverbs_destroy_ufile_hw",)


class Nic(typing.NamedTuple):
    """name: of the IB device at boot. address: on the PCI bus. rail: its number in the guest."""
    name: str
    address: str
    rail: int

    @property
    def folder(self):
        return os.path.join(PCI, self.address)

    def has_device(self):
        """An RDMA device, now."""
        return bool(glob.glob(os.path.join(self.folder, "infiniband", "*")))


def nics():
    """In the order of their root ports, which is that of QEMU's."""
    found = [(os.path.basename(os.path.realpath(os.path.join(path, "device"))), os.path.basename(path))
             for path in glob.glob(os.path.join(CLASS, "*"))]
    return [Nic(name, address, rail) for rail, (address, name) in enumerate(sorted(found))]


def capability(config, wanted):
    """Where a capability lies in the bytes of a config space."""
    at = config[0x34]
    while at and config[at] != wanted:
        at = config[at + 1]
    check(at, f"no PCI capability {wanted:#x}")
    return at


def warnings_of(kernel_log):
    """The functions that warned; the first word behind "at FILE:LINE"."""
    return re.findall(r"WARNING: .* at \S+:\d+ ([\w.]+)", kernel_log)


class Rig(guest_rig.Rig):
    """For one case, with NIC number `number` of the host. spare: a NIC that no case breaks."""

    def __init__(self, order, folder, host, number, nics_of_case):
        """nics_of_case: the one that the case may break, its backup, the one that stays well, and that one's backup."""
        super().__init__(order, folder, lambda text: host.tell(says=text))
        self.host, self.number, self.times = host, number, order["times"]
        self.limit = order["limit"]     # seconds for the case
        self.nic, self.backup, self.spare, self.spare_backup = nics_of_case
        self.log_from = len(guest_rig.run("dmesg"))
        self.net, self.backup_net, self.spare_net = (nic and Net(nic, order["host"], order["busybox"])
                                                     for nic in (self.nic, self.backup, self.spare))
        self.peer = Peer(host)

    # ---- programs -------------------------------------------------------------------------

    def start(self, argv, name, shift, stdin, more_env=None):
        argv, env = [str(a) for a in argv], {**self.env(), **(more_env or {})}
        if shift:
            argv = self.under_shift(name, argv, env, shift)
        return self.launch(name, argv, env, stdin)

    def pair(self, server, client, shift=None, stdin=False):
        """A server and its client, both running, on the one host that there is."""
        s = self.start(server, "server", shift, stdin)
        self.await_listening(s)
        return s, self.start(client, "client", shift, stdin)

    def shift(self, **settings):
        """As on two hosts: what one end has as a default or backup, the other end uses for nothing."""
        pairs = ((self.nic, self.backup), (self.spare, self.spare_backup))
        backup = ",".join(f"{nic.name}={other.name}" for nic, other in pairs if other)
        return super().shift(**{**({"backup": backup} if backup.count("=") == 2 else {}), **settings})

    # ---- faults ---------------------------------------------------------------------------

    def ask(self, **what):
        """Has the host break the NIC."""
        refused = self.host.ask(nic=self.number, **what)
        if refused:
            raise Failed(f"the host: {refused}")

    def breaks(self, word):
        """A fault by its word in belief.FAULTS."""
        own = {"remove": self.remove, "rescan": self.rescan, "replug": self.replug, "insert": self.insert, "reset": self.reset,
               "flr": self.flr, "bus-master-off": self.bus_master_off, "aer": self.aer}
        if word in own:
            own[word]()
        else:
            self.ask(fault=f"slow={SLOW_MS}" if word == "slow" else "syndrome=1" if word == "syndrome" else word)

    def write(self, name, text):
        with open(os.path.join(self.nic.folder, name), "w", encoding="ascii") as f:
            f.write(text)

    def remove(self):
        """By the kernel's own hand, orderly."""
        threading.Thread(target=self.write, args=("remove", "1"), daemon=True).start()

    def insert(self):
        """
        Puts the card back when the kernel is through with its slot: what comes within a second of the removal, pciehp takes
        for the removal's own.
        """
        self.await_gone()
        guest_rig.settle(slowed(SLOT_S))
        self.ask(fault="insert")

    @staticmethod
    def is_asking():
        """The kernel waits for an answer of the subnet administrator."""
        for path in glob.glob("/proc/[0-9]*/stack"):
            try:
                with open(path, encoding="ascii") as f:
                    if ASKING in f.read():
                        return True
            except OSError:     # it has ended
                pass
        return False

    def await_asked(self):
        """
        Until the kernel has given up asking what it asks behind each port that comes up.

        A card that is taken out before is never removed: the question's datagram does not
        complete, and the removal waits for it (docs/hardware.md).
        """
        last = time.monotonic()

        def quiet():
            nonlocal last
            if self.is_asking():
                last = time.monotonic()
            return time.monotonic() - last > ASKED_S

        wait_for("end of the questions", quiet, ASKS_S, 0.1)

    def await_gone(self):
        wait_for("removal", lambda: not os.path.exists(self.nic.folder), GONE_S, 0.1)

    def replug(self):
        """What an operator does for a NIC that its driver cannot use any more."""
        self.remove()
        self.await_gone()
        self.rescan()

    def rescan(self):
        """Has the kernel find what it removed."""
        with open("/sys/bus/pci/rescan", "w", encoding="ascii") as f:
            f.write("1")

    def reset(self):
        """By the kernel, which saves and restores the config space."""
        threading.Thread(target=self.write, args=("reset", "1"), daemon=True).start()

    @staticmethod
    def config(folder):
        with open(os.path.join(folder, "config"), "rb") as f:
            return f.read()

    @staticmethod
    def set_config(folder, at, value):
        with open(os.path.join(folder, "config"), "r+b", buffering=0) as f:
            f.seek(at)
            f.write(struct.pack("<H", value))

    def set_bits(self, folder, at, bits):
        self.set_config(folder, at, struct.unpack_from("<H", self.config(folder), at)[0] | bits)

    def flr(self):
        """Behind the kernel's back."""
        folder = self.nic.folder
        self.set_bits(folder, capability(self.config(folder), EXPRESS) + DEVICE_CONTROL, FLR)

    def driver(self, what):
        """Has the driver take the NIC ("bind"), or give it back ("unbind"); returns when it has."""
        with open(os.path.join(DRIVER, what), "w", encoding="ascii") as f:
            f.write(self.nic.address)

    def bus_master_off(self):
        folder = self.nic.folder
        self.set_config(folder, COMMAND, struct.unpack_from("<H", self.config(folder), COMMAND)[0] & ~BUS_MASTER)

    def aer(self):
        """
        A fatal error of the link: the kernel resets it and asks the driver. Neither Linux 6.1 nor its mlx5_core lets an
        endpoint report errors, so the case does, as firmware may; and its port passes the report on.
        """
        port = os.path.dirname(os.path.realpath(self.nic.folder))
        self.set_bits(port, BRIDGE_CONTROL, BRIDGE_SERR)
        for folder in (port, self.nic.folder):
            self.set_bits(folder, COMMAND, SERR)
            self.set_bits(folder, capability(self.config(folder), EXPRESS) + DEVICE_CONTROL, REPORTS)
        self.ask(human=f"pcie_aer_inject_error nic{self.number} DLP")

    # ---- what is seen ---------------------------------------------------------------------

    def kernel_log(self):
        """What the kernel has said since the case began."""
        return guest_rig.run("dmesg")[self.log_from:]

    def clear_kernel_log(self):
        """It is a ring, and a long case would look for its first line in vain."""
        guest_rig.run("dmesg", "--clear")
        self.log_from = 0

    def keep(self, to):
        super().keep(to)
        with open("/proc/sysrq-trigger", "w", encoding="ascii") as f:
            f.write("w")    # the kernel logs where each task waits that cannot be ended
        with open(os.path.join(to, "dmesg"), "w", encoding="utf-8") as f:
            f.write(self.kernel_log())

    def await_device(self):
        """Until the NIC has an RDMA device (again)."""
        wait_for(f"RDMA device of {self.nic.address}", self.nic.has_device, BACK_S, 0.1)

    def no_command_is_lost(self):
        """Fails where the driver has waited for an answer in vain."""
        lost = [row for row in self.kernel_log().splitlines() if any(word in row for word in LOST)]
        check(not lost, "; ".join(lost[:3]))

    def dma_faults(self):
        """What the kernel has said of them since the case began."""
        return DMA_FAULT.findall(self.kernel_log())

    def iommu(self):
        """Of what kind the NIC's DMA addresses are, behind an IOMMU; None: it is behind none."""
        group = os.path.join(self.nic.folder, "iommu_group", "type")
        if not os.path.exists(group):
            return None
        with open(group, encoding="ascii") as f:
            return f.read().strip()

    def kernel_is_content(self, faults_may=False):
        """Fails on a warning of the kernel that is in no list, and on a DMA fault unless there may be some."""
        faults = self.dma_faults()
        check(faults_may or not faults, "; ".join(faults[:3]))
        fresh = [w for w in warnings_of(self.kernel_log()) if w not in WARNINGS]
        check(not fresh, f"the kernel warns: {' '.join(fresh)}")
