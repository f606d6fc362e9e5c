# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A guest: what it boots from, QEMU, and what it says.

QEMU emulates (TCG): no KVM, no privilege beyond reading the host's files. It runs at a low priority. What real CPUs
are quick at and an emulator is not is switched off: copies byte by byte (erms, fsrm), and what guards against
speculation that does not happen.
"""
import glob
import json
import os
import queue
import re
import shutil
import subprocess
import threading

from shiftlab.guest import initramfs

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = HERE.removesuffix("/tests/lib/shiftlab/guest")
QEMU = "qemu-system-x86_64"
# What guest.sh and the lane's port need.
MODULES = ("virtio_pci", "9p", "9pnet_virtio", "overlay", "virtio_console")
MEMORY_MB = 1536
LOUD = re.compile(r"Kernel panic|BUG:|Oops|general protection fault|RIP: 0010")


class Missing(Exception):
    """Without this there is no guest."""


def newest(folder, pattern):
    found = glob.glob(os.path.join(folder, pattern))
    if not found:
        raise Missing(f"no {pattern} in {folder}")
    return max(found, key=lambda path: [int(n) for n in re.findall(r"\d+", os.path.basename(path))])


class Image:
    """
    Kernel and initramfs with these modules, made in a folder out of the packages in its folder packages/. package: the
    pattern of the kernel's file; the newest is taken.
    """

    def __init__(self, folder, modules, package="linux-image-*.deb"):
        self.folder, self.package = folder, package
        self.modules = (*MODULES, *modules)
        self.kernel = os.path.join(folder, "vmlinux")
        self.initramfs = os.path.join(folder, "initramfs")

    def unpack(self, deb):
        """A package's files, in a folder of its own name."""
        to = os.path.join(self.folder, os.path.basename(deb).removesuffix(".deb"))
        if not os.path.isdir(to):
            shutil.rmtree(to + ".new", ignore_errors=True)
            subprocess.run(["dpkg-deb", "-x", deb, to + ".new"], check=True)
            os.rename(to + ".new", to)
        return to

    def make(self):
        """The name of the kernel's package."""
        if not shutil.which(QEMU):
            raise Missing(f"no {QEMU}: install qemu-system-x86")
        packages = os.path.join(self.folder, "packages")
        deb = newest(packages, self.package)
        linux, busybox = self.unpack(deb), self.unpack(newest(packages, "busybox-static_*.deb"))
        self.busybox = os.path.join(busybox, "bin", "busybox")     # guests see the host's files
        try:
            self.write(linux, busybox)
        except initramfs.Unusable as e:
            raise Missing(f"{os.path.basename(deb)}: {e}") from None
        return os.path.basename(deb)

    def write(self, linux, busybox):
        with open(newest(os.path.join(linux, "boot"), "vmlinuz-*"), "rb") as f:
            kernel = initramfs.bootable(f.read())
        with open(os.path.join(busybox, "bin", "busybox"), "rb") as f:
            shell = f.read()
        with open(os.path.join(HERE, "guest.sh"), "rb") as f:
            script = f.read()
        archive = initramfs.initramfs(os.path.join(linux, "lib", "modules"), self.modules, shell, script)
        for path, content in ((self.kernel, kernel), (self.initramfs, archive)):
            own = f"{path}.{os.getpid()}"      # another lane may be reading the file of before
            with open(own, "wb") as f:
                f.write(content)
            os.replace(own, path)


class Guest:
    """
    The boot of that number. out: a folder that guests write to; this one finds order-NUMBER.json there. run: the
    program that does it, below the tree's root. machine: more options of QEMU's. preload: a library for QEMU.
    words: more of the kernel's command line. cpus: with one, QEMU before 8.2 loses no interrupt (docs/driver.md).
    """

    def __init__(self, image, order, out, number, run, nice=19, machine=(), preload=None, words="", cpus=2):
        os.makedirs(out, exist_ok=True)
        with open(os.path.join(out, f"order-{number}.json"), "w", encoding="utf-8") as f:
            json.dump(order, f)
        self.console = console = os.path.join(out, f"console-{number}")
        self.lines = queue.Queue()
        interactive = order["shell"]
        loaded = ["env", "LD_PRELOAD=" + preload] if preload else []     # nothing but QEMU knows its symbols
        argv = ["nice", "-n", str(nice), *loaded, QEMU, "-nodefaults", "-no-user-config", "-display", "none",
                "-no-reboot", "-accel", "tcg,thread=multi", "-smp", str(cpus), "-cpu", "max,-erms,-fsrm", "-m", str(MEMORY_MB),
                "-kernel", image.kernel, "-initrd", image.initramfs, "-append",
                f"console=ttyS0 panic=-1 oops=panic mitigations=off {words} {'quiet' if interactive else ''} "
                f"lane.tree={ROOT} lane.run={run} lane.number={number}",
                "-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap",
                "-virtfs", f"local,path={out},mount_tag=out,security_model=none",
                "-device", "virtio-serial-pci", "-device", "virtserialport,chardev=lane,name=lane",
                *machine]
        if interactive:
            argv += ["-chardev", "null,id=lane", "-serial", "mon:stdio"]
        else:
            argv += ["-chardev", "stdio,id=lane,signal=off", "-serial", "file:" + console]
        pipes = {} if interactive else {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE,
                                        "stderr": subprocess.STDOUT}
        self.process = subprocess.Popen(argv, text=True, errors="replace", **pipes)
        if not interactive:
            threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def next(self, seconds):
        """What the guest says next, as a dictionary. None: it is gone. Raises queue.Empty after so long."""
        line = self.lines.get(timeout=max(0.0, seconds))
        if line is None:
            return None
        try:
            return json.loads(line)
        except ValueError:      # QEMU's own
            return {"says": line.strip()}

    def answer(self, **what):
        """A line to the guest, which has asked for it."""
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()

    def last_words(self):
        """What the kernel said of its end, or its last line."""
        try:
            with open(self.console, encoding="utf-8", errors="replace") as f:
                rows = [r.strip() for r in f if r.strip()]
        except FileNotFoundError:
            return "it said nothing"
        loud = [r for r in rows if LOUD.search(r)]
        return "; ".join(loud[:2]) if loud else rows[-1] if rows else "it said nothing"
