# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What a guest boots from, made of two unpacked Debian packages: the kernel as an ELF file, and an initramfs with
busybox, modules and a script. Nothing but Python is needed: no cpio, no kmod, no kernel sources.
"""
import gzip
import lzma
import os
import re
import struct
import zlib

# Offsets in the first sectors of a bzImage, by the x86 boot protocol.
SETUP_SECTS = 0x1f1
MAGIC = 0x202
PAYLOAD_OFFSET = 0x248      # since 2.08
SECTOR = 512

ELF64_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
ELF64_SECTION = struct.Struct("<IIQQQQIIQQ")

MODE_DIR, MODE_FILE, MODE_DEVICE = 0o040755, 0o100755, 0o020600
CONSOLE = (5, 1)            # /dev/console, that init's messages have somewhere to go


class Unusable(Exception):
    """A package does not hold what is expected of it."""


def vmlinux(vmlinuz):
    """The bytes of the uncompressed kernel in those of a bzImage: QEMU starts it twice as soon."""
    if vmlinuz[MAGIC:MAGIC + 4] != b"HdrS":
        raise Unusable("the kernel is no bzImage")
    offset, length = struct.unpack_from("<II", vmlinuz, PAYLOAD_OFFSET)
    start = (vmlinuz[SETUP_SECTS] + 1) * SECTOR + offset
    packed = vmlinuz[start:start + length]
    if packed.startswith(b"\xfd7zXZ\0") or packed.startswith(b"\x5d\0\0"):
        kernel = lzma.LZMADecompressor().decompress(packed)     # the length follows the stream
    elif packed.startswith(b"\x1f\x8b"):
        kernel = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(packed)
    else:
        raise Unusable("the kernel is compressed in a way that Python cannot undo")
    if not kernel.startswith(b"\x7fELF"):
        raise Unusable("the kernel's payload is no ELF file")
    return kernel


def bootable(vmlinuz):
    """What QEMU starts soonest: the uncompressed kernel, or the bzImage itself where Python cannot undo its compression."""
    if vmlinuz[MAGIC:MAGIC + 4] != b"HdrS":
        raise Unusable("the kernel is no bzImage")
    try:
        return vmlinux(vmlinuz)
    except Unusable:
        return vmlinuz


def section(elf, name):
    """The bytes of a section of an ELF64 file; b"" without it."""
    head = ELF64_HEADER.unpack_from(elf)
    table, entry, count, names_at = head[6], head[11], head[12], head[13]
    rows = [ELF64_SECTION.unpack_from(elf, table + i * entry) for i in range(count)]
    names = rows[names_at][4]
    for row in rows:
        start = names + row[0]
        if elf[start:elf.index(b"\0", start)] == name.encode():
            return elf[row[4]:row[4] + row[5]]
    return b""


def depends(module):
    """The names of the modules that must be there before this one."""
    fields = section(module, ".modinfo").split(b"\0")
    found = [f[len("depends="):] for f in fields if f.startswith(b"depends=")]
    return [name for name in found[0].decode().split(",") if name] if found else []


def plain(name):
    """Module names say _ where files may say -."""
    return name.replace("-", "_")


def builtin(root):
    """The names of the modules that an unpacked kernel package has in its kernel."""
    for folder, _, names in os.walk(root):
        if "modules.builtin" in names:
            with open(os.path.join(folder, "modules.builtin"), encoding="ascii") as f:
                return [plain(os.path.basename(line.strip()).removesuffix(".ko")) for line in f]
    return []


class Modules:
    """Those of an unpacked kernel package, in the order in which they can be loaded."""

    def __init__(self, root):
        self.files = {}
        for folder, _, names in os.walk(root):
            for name in names:
                found = re.match(r"(.+)\.ko(\.xz)?$", name)
                if found:
                    self.files[plain(found.group(1))] = os.path.join(folder, name)
        if not self.files:
            raise Unusable("the kernel package has no modules that Python can read")
        self.order = []     # (name, bytes)
        self.loaded = set(builtin(root))

    def add(self, name, way=()):
        name = plain(name)
        if name in self.loaded:
            return
        if name not in self.files or name in way:
            raise Unusable(f"no module {name}" + (f", which {way[-1]} needs" if way else ""))
        path = self.files[name]
        with (lzma.open(path) if path.endswith(".xz") else open(path, "rb")) as f:
            module = f.read()
        for other in depends(module):
            self.add(other, (*way, name))
        self.loaded.add(name)
        self.order.append((name, module))


class Archive:
    """A cpio archive in the format "newc", as the kernel unpacks it."""

    def __init__(self):
        self.parts = []
        self.number = 0

    def add(self, path, mode, content=b"", device=(0, 0)):
        self.number += 1
        name = path.encode() + b"\0"
        fields = (self.number, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(name), 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
        self.parts += [head, b"\0" * (-len(head) % 4), content, b"\0" * (-len(content) % 4)]

    def bytes(self):
        self.add("TRAILER!!!", 0)
        return b"".join(self.parts)


def initramfs(module_root, wanted, busybox, script):
    """The bytes of an archive whose /init is the script. It finds busybox, and /order with the modules' names."""
    modules = Modules(module_root)
    for name in wanted:
        modules.add(name)
    archive = Archive()
    for folder in ("bin", "dev", "modules", "proc", "sys", "mnt"):
        archive.add(folder, MODE_DIR)
    archive.add("dev/console", MODE_DEVICE, device=CONSOLE)
    archive.add("bin/busybox", MODE_FILE, busybox)
    archive.add("init", MODE_FILE, script)
    for name, module in modules.order:
        archive.add(f"modules/{name}.ko", MODE_FILE, module)
    archive.add("order", MODE_FILE, "".join(f"{name}\n" for name, _ in modules.order).encode())
    return gzip.compress(archive.bytes(), 1, mtime=0)
