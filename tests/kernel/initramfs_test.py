#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""initramfs.py, on a kernel, modules and archives that are made up here, and without QEMU."""
import gzip
import lzma
import os
import struct
import sys
import tempfile
import unittest

from shiftlab.guest import initramfs

KERNEL = b"\x7fELF" + bytes(range(256)) * 40


def bzimage(payload, setup_sects=3, gap=17):
    """As the boot protocol has it: the payload lies a gap behind the setup's sectors."""
    head = bytearray((setup_sects + 1) * initramfs.SECTOR)
    head[initramfs.SETUP_SECTS] = setup_sects
    head[initramfs.MAGIC:initramfs.MAGIC + 4] = b"HdrS"
    struct.pack_into("<II", head, initramfs.PAYLOAD_OFFSET, gap, len(payload))
    return bytes(head) + b"\xcc" * gap + payload + b"what lies behind"


def elf(sections):
    """An ELF64 file of nothing but sections: {name: bytes}."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name in (*sections, ".shstrtab"))
    body, rows = b"", [initramfs.ELF64_SECTION.pack(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)]
    for name, content in (*sections.items(), (".shstrtab", names)):
        offset = initramfs.ELF64_HEADER.size + len(body)
        at = names.index(b"\0" + name.encode() + b"\0") + 1
        rows.append(initramfs.ELF64_SECTION.pack(at, 1, 0, 0, offset, len(content), 0, 0, 1, 0))
        body += content
    head = initramfs.ELF64_HEADER.pack(b"\x7fELF\2\1\1" + b"\0" * 9, 1, 62, 1, 0, 0,
                                       initramfs.ELF64_HEADER.size + len(body), 0, 64, 0, 0, 64, len(rows),
                                       len(rows) - 1)
    return head + body + b"".join(rows)


def module(*needed):
    return elf({".text": b"\x90" * 5, ".modinfo": b"license=GPL\0depends=" + ",".join(needed).encode() + b"\0\0"})


def unpacked(archive):
    """What cpio would find: {path: (mode, content)}."""
    found, at = {}, 0
    while True:
        assert archive[at:at + 6] == b"070701", archive[at:at + 6]
        fields = [int(archive[at + 6 + 8 * i:at + 14 + 8 * i], 16) for i in range(13)]
        mode, size, name_size = fields[1], fields[6], fields[11]
        name = archive[at + 110:at + 110 + name_size - 1].decode()
        start = (at + 110 + name_size + 3) & ~3
        if name == "TRAILER!!!":
            return found
        found[name] = (mode, archive[start:start + size])
        at = (start + size + 3) & ~3


class Kernel(unittest.TestCase):
    def test_each_compression(self):
        for name, payload in (("xz", lzma.compress(KERNEL)), ("gzip", gzip.compress(KERNEL)),
                              ("lzma", lzma.compress(KERNEL, lzma.FORMAT_ALONE))):
            with self.subTest(name):
                self.assertEqual(initramfs.vmlinux(bzimage(payload + struct.pack("<I", len(KERNEL)))), KERNEL)

    def test_a_compression_that_python_does_not_know_is_left_to_qemu(self):
        image = bzimage(b"zstd, say")
        self.assertEqual(initramfs.bootable(image), image)
        packed = bzimage(lzma.compress(KERNEL) + struct.pack("<I", len(KERNEL)))
        self.assertEqual(initramfs.bootable(packed), KERNEL)
        with self.assertRaises(initramfs.Unusable):
            initramfs.bootable(b"\0" * 4096)

    def test_what_is_none(self):
        for wrong in (b"\0" * 4096, bzimage(b"zstd, say"), bzimage(lzma.compress(b"no ELF file"))):
            with self.assertRaises(initramfs.Unusable):
                initramfs.vmlinux(wrong)


class Order(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def modules(self, **needs):
        for name, needed in needs.items():
            folder = os.path.join(self.folder.name, name[0])
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, name.replace("__", "-") + ".ko"), "wb") as f:
                f.write(module(*needed))
        return initramfs.Modules(self.folder.name)

    def test_what_is_needed_comes_first_and_once(self):
        found = self.modules(rxe=("core", "udp_tunnel"), uverbs=("core",), core=(), udp__tunnel=("core",), other=())
        for name in ("rxe", "uverbs"):
            found.add(name)
        self.assertEqual([name for name, _ in found.order], ["core", "udp_tunnel", "rxe", "uverbs"])

    def test_a_compressed_module(self):
        with lzma.open(os.path.join(self.folder.name, "rxe.ko.xz"), "wb") as f:
            f.write(module("core"))
        found = self.modules(core=())
        found.add("rxe")
        self.assertEqual([name for name, _ in found.order], ["core", "rxe"])
        self.assertEqual(found.order[1][1], module("core"))

    def test_a_module_that_is_in_the_kernel(self):
        with open(os.path.join(self.folder.name, "modules.builtin"), "w", encoding="ascii") as f:
            f.write("kernel/drivers/virtio/virtio-pci.ko\nkernel/net/core.ko\n")
        found = self.modules(rxe=("core",))
        for name in ("virtio_pci", "rxe"):
            found.add(name)
        self.assertEqual([name for name, _ in found.order], ["rxe"])

    def test_a_module_that_is_not_there(self):
        with self.assertRaisesRegex(initramfs.Unusable, "no module gone, which rxe needs"):
            self.modules(rxe=("gone",)).add("rxe")

    def test_a_circle(self):
        with self.assertRaises(initramfs.Unusable):
            self.modules(one=("two",), two=("one",)).add("one")

    def test_no_modules_at_all(self):
        with self.assertRaises(initramfs.Unusable):
            initramfs.Modules(self.folder.name)

    def test_the_whole(self):
        self.modules(rxe=("core",), core=())
        found = unpacked(gzip.decompress(initramfs.initramfs(self.folder.name, ("rxe",), b"busy", b"#!/bin/sh\n")))
        self.assertEqual(found["order"][1], b"core\nrxe\n")
        self.assertEqual(found["modules/rxe.ko"], (0o100755, module("core")))
        self.assertEqual(found["init"], (0o100755, b"#!/bin/sh\n"))
        self.assertEqual(found["bin/busybox"], (0o100755, b"busy"))
        self.assertEqual(found["dev"], (0o040755, b""))


if __name__ == "__main__":
    sys.exit(unittest.main())
