#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Linux' own mlx5 driver over simnic's PCI device, in a guest that QEMU emulates: what it does when a NIC breaks.

  lane.py --build DIR                       all cases but those that run by name alone
  lane.py --build DIR --case 'belief.*'     those that the pattern names; may be repeated
  lane.py --build DIR --list                their names, and what each shows
  lane.py --build DIR --shell               a shell in a guest with NICs
  lane.py --build DIR --record              writes what the kernel said into rows.json beside this program

Each case is passed, failed or skipped, with the reason. Logs of those that failed are in OUT/driver/NAME, what the
kernels said in OUT/driver/console-N, what the device did in OUT/driver/device-N. The closing line is "N passed, N
failed, N skipped"; the exit status is 1 if a case failed. tests/driver/README.md has more.
"""
import argparse
import json
import os
import queue
import shutil
import subprocess
import sys

import belief
import cases
import simnic_side
from monitor import Monitor, Refused
from shiftlab.guest.boot import MEMORY_MB, ROOT, Guest, Image, Missing
from shiftlab.guest.cases import Failed
from shiftlab.guest.lane import Lane, add_options, chosen, list_cases, run, skip_all
from shiftlab.lab import Stuck, out_folder

MODULES = ("ib_uverbs", "rdma_ucm", "ib_umad", "mlx5_core", "mlx5_ib")
# Debian 12's own kernel, and the newest that its backports have.
KERNELS = {"6.1": "linux-image-6.1.0-*.deb", "backports": "linux-image-*+deb12-amd64_*.deb"}
INSTALL = os.path.join(ROOT, "scripts", "install-driver-lane.sh")
# Hot plug by the root port itself, not by ACPI; a starved guest may find no timer interrupt in time.
MACHINE = ("-machine", "q35,memory-backend=ram", "-object",
           f"memory-backend-memfd,id=ram,share=on,size={MEMORY_MB}M",    # the device maps it
           "-global", "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off")
# 11,000 commands less for each NIC: the driver makes no cache of keys.
# Cases between two guests, whose NICs are Ethernet; a cable connects the NICs of the same number.
PAIRED = "net."
# Cases in a guest whose NICs are behind an IOMMU. QEMU's tells devices of mappings in its caching mode alone.
TRANSLATED = "iommu."
IOMMU = ("-device", "intel-iommu,caching-mode=on")
IOMMU_WORDS = " intel_iommu=on iommu=nopt iommu.strict=1"
PEER_S = 90     # for what the other guest is asked
WORDS = "no_timer_check lane.module=mlx5_core:prof_sel=1"
CABLE = ("port-down", "port-up")
ROWS = "rows"       # folder of what the kernel said of each fault


class DriverGuest(Guest):
    """peer: the other guest of its fabric; None: it is alone."""

    peer = None

    def end(self):
        super().end()
        if self.peer:
            self.peer.end()


class DriverLane(Lane):
    """
    Each guest is the only host of a fabric of simnic's, whose NICs its QEMU has; or one of two, where its cases are
    between two guests.
    """

    NAME = "driver"

    def __init__(self, args, image):
        super().__init__(args, image)
        self.fabrics = []

    def run(self, names):
        """Cases between two guests come last: then two guests run already. Those behind an IOMMU share a guest."""
        paired = [name for name in names if name.startswith(PAIRED)]
        translated = [name for name in names if name.startswith(TRANSLATED)]
        alone = [name for name in names if name not in paired + translated]
        shares = [share for share in (alone[i::self.args.guests] for i in range(self.args.guests)) if share]
        self.run_shares([translated, *shares] if translated else shares)
        if paired:
            self.run_share(paired)

    def fabric(self, number, paired):
        name = f"driver-{os.getpid()}-{number}"
        # programs of one guest are on two of its NICs
        shape = ("2", "--link-layer", "eth", "--direct") if paired else ("1", "--link-layer", "ib", "--joined")
        self.simnicctl(name, "create", "--nics", str(self.args.nics), "--hosts", *shape)
        self.fabrics.append(name)
        return name

    def simnicctl(self, fabric, *argv):
        subprocess.run([self.args.simnicctl, *argv], check=True, env={**os.environ, "SIMNIC_FABRIC": fabric})

    def close(self):
        for name in self.fabrics:
            self.simnicctl(name, "destroy")

    def order(self, names, shell, host):
        return {"cases": names, "build": out_folder(self.args.build), "shell": shell, "seed": self.args.seed,
                "limit": self.args.limit, "busybox": self.image.busybox, "host": host,
                "nics": self.args.nics, "times": self.args.times}

    def nic(self, fabric, number, host, i, fw_reset):
        """
        QEMU's options for a NIC behind a root port of its own. fw_reset: the driver may reset broken firmware, which ends the
        data path before the kernel takes its memory away; else that goes on, as a NIC's may.
        """
        log = os.path.join(self.out, f"device-{number}-{i}")
        return ("-device", f"pcie-root-port,id=port{i},chassis=1,slot={i + 1}",
                "-device", f"simnic,id=nic{i},bus=port{i},fabric={fabric},host={host},nic={i},log={log}"
                           f"{',fw-reset=on' if fw_reset else ''}")

    def one_guest(self, names, number, shell, fabric, host):
        socket = os.path.join(self.out, f"monitor-{number}")
        translated = self.args.iommu or any(name.startswith(TRANSLATED) for name in names)
        machine = [*MACHINE, *(IOMMU if translated else ()), "-qmp", f"unix:{socket},server=on,wait=off"]
        for i in range(self.args.nics):
            machine += self.nic(fabric, number, host, i, translated)
        guest = DriverGuest(self.image, self.order(names, shell, host), self.out, number, "tests/driver/inside.py",
                            self.args.nice, machine, self.args.device, WORDS + (IOMMU_WORDS if translated else ""),
                            self.args.cpus)
        guest.monitor = Monitor(socket)
        guest.fabric, guest.host = fabric, host
        return guest

    def guest(self, names, number, shell):
        paired = any(name.startswith(PAIRED) for name in names)
        fabric = self.fabric(number, paired)
        guest = self.one_guest(names, number, shell, fabric, 0)
        if paired:
            with self.lock:
                self.boots += 1
                other = self.boots
            guest.peer = self.one_guest([], other, False, fabric, 1)
        return guest

    def ask_peer(self, guest, what):
        """Has the other guest do it: what it says."""
        guest.peer.answer(**what)
        while True:
            try:
                said = guest.peer.next(PEER_S + float(what["kw"].get("timeout", 0)))
            except queue.Empty:
                return {"error": "it says nothing: " + guest.peer.last_words()}
            if said is None:
                return {"error": "it went down: " + guest.peer.last_words()}
            if "answer" in said:
                return said["answer"]

    def ask(self, guest, what):
        """None, or why QEMU refused; of another guest, what that says."""
        if "peer" in what:
            return self.ask_peer(guest, what["peer"])
        try:
            if "human" in what:
                said = guest.monitor.human(what["human"])
                return None if said.startswith("OK") else said
            else:
                self.fault(guest, what["nic"], what["fault"])
        except (Refused, OSError, subprocess.CalledProcessError) as e:
            return str(e)
        return None

    def fault(self, guest, nic, word):
        """A fault of the function; or of its cable, which is the fabric's."""
        if word in CABLE:
            self.simnicctl(guest.fabric, "fault", word, f"h{guest.host}/mlx5_{nic}")
        else:
            guest.monitor.fault(nic, word)

    # ---- the belief table ------------------------------------------------------------------

    def rows(self):
        """What the kernel said of each fault in this run."""
        found = {}
        for name in belief.FAULTS:
            try:
                with open(os.path.join(self.out, ROWS, name + ".json"), encoding="utf-8") as f:
                    found[name] = json.load(f)
            except FileNotFoundError:
                pass
        return found

    def compare(self):
        """One case more for each row: is simnic as this kernel is?"""
        for name, row in self.rows().items():
            self.note(f"same.{name}", *self.compare_one(name, row))
            self.tell_kernels_apart(name, row)

    def tell_kernels_apart(self, name, row):
        """What this kernel says otherwise than the one of rows.json."""
        with open(simnic_side.ROWS, encoding="utf-8") as f:
            recorded = json.load(f)
        if name not in recorded["rows"]:
            self.say(f"        {name}: rows.json has no such row to compare with")
            return
        for line in belief.differences(recorded["rows"][name], row):
            self.say(f"        {name}: " + line.replace("kernel ", f"{recorded['kernel'].split('_')[1]} ", 1)
                     .replace(", simnic ", ", this one "))

    def compare_one(self, name, row):
        if not simnic_side.possible(name):
            return "skipped", "simnic has no such fault"
        try:
            simnic = simnic_side.row(self.args.build, name)
        except (Failed, Stuck) as e:
            return "failed", f"simnic: {e}"
        fresh, listed = simnic_side.compare(name, row, simnic)
        return ("failed", "\n".join(fresh)) if fresh else ("passed", f"{listed} known differences")

    def record(self, kernel):
        rows = self.rows()
        if not rows:
            return
        with open(simnic_side.ROWS, "w", encoding="utf-8") as f:
            json.dump({"kernel": kernel, "rows": rows}, f, indent=1, sort_keys=True)
            f.write("\n")


def parse_args():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(p, "driver")
    p.add_argument("--nics", type=int, default=4, choices=range(2, 9),
                   help="in a guest; a case uses one up, and the last stays well (4)")
    p.add_argument("--kernel", default="6.1", choices=list(KERNELS), help="Debian 12's own, or its backports' (6.1)")
    p.add_argument("--iommu", action="store_true", help="each guest's NICs are behind an IOMMU, as those of iommu.* are")
    p.add_argument("--times", type=int, help="how many cycles a case of cycle.* makes, or flaps "
                   "shift.flaps, or faults shift.drawn (as its text says)")
    p.add_argument("--record", action="store_true", help="write rows.json")
    p.add_argument("--device", help="the shared object of the device (BUILD/out/lib/libsimnic_qemu.so)")
    p.add_argument("--simnicctl", help="of the same build as the device (BUILD/out/bin/simnicctl)")
    args = p.parse_args()
    args.simnicctl = args.simnicctl or os.path.join(out_folder(args.build), "bin", "simnicctl")
    args.device = os.path.abspath(args.device or os.path.join(out_folder(args.build), "lib", "libsimnic_qemu.so"))
    return args


def make_image(args):
    """Kernel and initramfs; raises Missing."""
    if not args.no_fetch:
        subprocess.run([INSTALL, args.build, *(["backports"] if args.kernel == "backports" else [])], check=False)
        subprocess.run(["cmake", args.build], check=False, stdout=subprocess.DEVNULL)  # finds the headers now
        subprocess.run(["nice", "ninja", "-C", args.build], check=False, stdout=subprocess.DEVNULL)
    if not os.path.exists(args.device):
        raise Missing(f"no {args.device}: QEMU's headers are not there (scripts/install-driver-lane.sh)")
    image = Image(os.path.join(os.path.abspath(args.build), "driver"), MODULES, KERNELS[args.kernel])
    kernel = image.make()
    print(f"the kernel of {kernel}; seed {args.seed}", flush=True)
    return image, kernel


def main():
    args = parse_args()
    cases.load()
    if args.list:
        list_cases()
        return 0
    names = chosen(args.case)
    try:
        image, kernel = make_image(args)
    except Missing as e:
        return skip_all(names, e)
    lane = DriverLane(args, image)
    shutil.rmtree(lane.out, ignore_errors=True)
    os.makedirs(os.path.join(lane.out, ROWS))
    try:
        if args.shell:
            return lane.boot([], shell=True).process.wait()
        status = run(lane, names, lane.compare)
        if args.record:
            lane.record(kernel)
        return status
    finally:
        lane.close()


if __name__ == "__main__":
    sys.exit(main())
