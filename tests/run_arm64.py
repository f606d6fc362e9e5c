#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""SHIFT for arm64 on another machine: cross-built in a copy of this system (scripts/arm64.sh), then all unit tests, what is
shipped, and the ring engine against arm64's libmlx5, under QEMU's emulation of one program (qemu-user); then the units again
with pages of 64 KiB.

  run_arm64.py BUILD [--jobs N] [--cases N] [--only REGEX]

The kernel hands each program of arm64 to the emulator, also those that tests start. It is told so by a table of handlers
(binfmt_misc), which a user namespace has for itself since Linux 6.7. On older kernels the machine's own table serves, if it
has a handler of arm64 (Debian: binfmt-support and qemu-user-static).

What this cannot show is memory order: the emulator runs on a processor that keeps stores in order. tests/litmus and
tests/diff/arm64.py look at that. The closing line is "N passed, N failed, N skipped"."""
import argparse
import ctypes
import os
import re
import subprocess
import sys
import time

import run

CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
HANDLERS = "/proc/sys/fs/binfmt_misc"
EMULATOR = "/usr/bin/qemu-aarch64-static"
LOADER = "/lib/ld-linux-aarch64.so.1"
# ELF, 64 bits, little endian, an executable or a shared object, of arm64.
HANDLER = (rb":shift-arm64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:"
           rb"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:" + EMULATOR.encode() + b":PCF")
NO_ROBUST = "qemu-user has no robust mutexes (set_robust_list()): who is killed keeps its locks"
NO_OTHER = "the software NIC reads the other process's memory, and qemu-user has no process_vm_readv()"
NO_CLONE = "qemu-user makes no task that shares memory and is no thread (clone(), EINVAL)"
# Tests that the emulator cannot do, and why.
CANNOT = {
    r"unit\.base\.(aside|holder)|unit\.report\.on_event_secure|unit\.simnic\.cm": NO_CLONE,
    r"unit\.conn\.words|unit\.object\.rereg": "qemu-user has no process_vm_readv()",
    r"unit\.libibverbs\.companion": "it looks at programs of this machine, rping and Python",
    r"unit\.tools\.shiftctl": "it starts this machine's env(1) with libraries of arm64",
    r"unit\.kvclient\.lmdb|unit\.simnic\.fabric": NO_ROBUST,
    r"unit\.control\.qp|unit\.simnic\.(verbs|datagrams|srq|faults|window|indirect|counters|halted|address)_(eth|ib)": NO_OTHER,
    r"unit\.simnic\.(device_pair|psn)(_link|_stale)?": NO_OTHER,
    r"unit\.simnic\.(long_cable|atomic)": "the software NIC's timers run out while it is emulated",
}
# With pages of 64 KiB, on a kernel whose own are of 4 KiB.
CANNOT_PAGES = {
    r"unit\.base\.mapped": "the kernel tells of pages by its own numbers (pagemap)",
    r"unit\.simnic\.machine": "qemu-user maps no device in such pages",
    r"unit\.simnic\.bridge_(eth|ib)": "simnic's PCI device maps a guest's pages of 4 KiB, and so wants a host with those",
}
UNITS = r"^(unit|shipped)\."
# What maps, aligns or registers memory; not what counts alone (the core, models, tools).
WITH_PAGES = (r"^unit\.(backup|base|cm|conn|control|facade|kvclient|ledger|libibverbs|loop|mlx5|nic|object|peer|providers|"
              r"replica|simnic|uid)\.")


def emulated():
    """True if the kernel runs programs of arm64 here."""
    try:
        return not subprocess.run([LOADER, "--version"], stdout=subprocess.DEVNULL, check=False).returncode
    except OSError:
        return False


def take_handler():
    """A table of handlers of our own; an OSError where that cannot be."""
    subprocess.run(["mount", "-t", "binfmt_misc", "none", HANDLERS], stderr=subprocess.DEVNULL, check=False)
    with open(os.path.join(HANDLERS, "register"), "wb", buffering=0) as f:
        f.write(HANDLER)


def in_namespace(action):
    """Runs it in a user namespace in which all users are as they were; its exit status."""
    to_parent, to_child = os.pipe(), os.pipe()
    pid = os.fork()
    if not pid:
        if ctypes.CDLL(None).unshare(CLONE_NEWUSER | CLONE_NEWNS):
            os._exit(action(False))
        os.write(to_parent[1], b"x")
        os.read(to_child[0], 1)
        try:
            take_handler()
        except OSError:
            os._exit(action(False))
        os._exit(action(True))
    os.close(to_parent[1])
    if os.read(to_parent[0], 1):
        for kind in ("uid", "gid"):
            with open(f"/proc/{pid}/{kind}_map", "w", encoding="ascii") as f:
                f.write("0 0 4294967295")
    os.write(to_child[1], b"x")
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class Arm64Run(run.Run):
    """Lanes under the emulator; tests that it cannot do are skipped, with the reason."""

    def __init__(self, args):
        super().__init__(os.path.join(args.build, "out"))
        self.args = args

    def names(self, selection):
        told = subprocess.run(["ctest", "--test-dir", self.args.build, "-N", *selection], capture_output=True, text=True,
                              check=True).stdout
        return re.findall(r"Test +#\d+: (\S+)", told)

    def tests(self, name, selection, cannot):
        lane = run.Lane(name, self.args.build, selection)
        left_out = [test for test in self.names(selection) if any(re.fullmatch(pattern, test) for pattern in cannot)]
        for test in left_out:
            why = next(why for pattern, why in cannot.items() if re.fullmatch(pattern, test))
            self.results.append((lane, run.Test(test, "skipped", why)))
        if len(left_out) == len(self.names(selection)):
            return
        if left_out:
            selection += ("-E", f"^({'|'.join(map(re.escape, left_out))})$")
        self.lane(run.Lane(name, self.args.build, selection))

    def program(self, name, argv):
        """A test of one command, outside of ctest."""
        lane = run.Lane("libmlx5", self.args.build, ())
        print(f"== tests: {name}", flush=True)
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
        print(done.stdout[-run.BUILD_TAIL:], end="", flush=True)
        fate = {0: "passed", 77: "skipped"}.get(done.returncode, "failed")
        self.results.append((lane, run.Test(name, fate, done.stdout)))


def run_tests(args, private):
    """All lanes; the exit status."""
    if not private and not emulated():
        print("skipped: this kernel runs no programs of arm64: Linux before 6.7 has no table of handlers for a user namespace, "
              "and the machine's own has no qemu-aarch64 (Debian: binfmt-support and qemu-user-static)")
        print("0 passed, 0 failed, 1 skipped", flush=True)
        return 0
    begun, arm64 = time.monotonic(), Arm64Run(args)
    only, pages, jobs = args.only or UNITS, args.only or WITH_PAGES, ("-j", str(args.jobs))
    diff = os.path.join(run.ROOT, "tests", "diff", "run.sh")
    out = os.path.join(args.build, "out")
    arm64.tests("units", ("-R", only, "-LE", "^(simnic|e2e)$", *jobs), CANNOT)
    arm64.tests("NICs", ("-R", only, "-L", "^simnic$"), CANNOT)
    if not args.only:
        arm64.program("diff.cases", [diff, out, "--cases", str(args.cases)])
        arm64.program("diff.trace", [diff, out, "--cases", "2000", "--trace"])
        arm64.program("diff.self_test", [diff, out, "--cases", "12000", "--self-test"])
    os.environ["QEMU_PAGESIZE"] = "65536"
    arm64.tests("units, 64 KiB pages", ("-R", pages, "-LE", "^(simnic|e2e|shipped)$", *jobs), CANNOT | CANNOT_PAGES)
    arm64.tests("NICs, 64 KiB pages", ("-R", pages, "-L", "^simnic$"), CANNOT | CANNOT_PAGES)
    if not args.only:
        arm64.program("diff.cases, 64 KiB pages", [diff, out, "--cases", str(args.cases // 4)])
    print("arm64 was emulated: the order of memory is this machine's, so no barrier was tried (make litmus)")
    return arm64.close((time.monotonic() - begun) / 60)


def build(args):
    """Cross-builds; the exit status, 77 if there can be no copy of this system."""
    begun = time.monotonic()
    print("== building for arm64", flush=True)
    done = subprocess.run(["make", "--no-print-directory", "-C", run.ROOT, "build", "ARCH=arm64", f"JOBS={args.jobs}"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    skipped = re.search(r"^skipped: .*", done.stdout, re.M)
    if done.returncode and skipped:
        print(f"{skipped[0]}\n0 passed, 0 failed, 1 skipped")
        return 77
    if done.returncode:
        print(done.stdout[-run.BUILD_TAIL:])
        print("FAILED build for arm64\n0 passed, 1 failed, 0 skipped")
        return 1
    print(f"== building took {(time.monotonic() - begun) / 60:.1f} minutes", flush=True)
    return 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build")
    p.add_argument("--jobs", type=int, default=int(os.environ.get("JOBS") or os.cpu_count()))
    p.add_argument("--cases", type=int, default=40000, help="of the engine against libmlx5")
    p.add_argument("--only", help="tests of ctest with this in their names, no others")
    p.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = p.parse_args()
    args.build = os.path.abspath(args.build)
    if args.inside:
        return in_namespace(lambda private: run_tests(args, private))
    status = build(args)
    if status:
        return 0 if status == 77 else status
    enter = os.path.join(run.ROOT, "scripts", "arm64.sh")
    return subprocess.run([enter, args.build, os.path.abspath(__file__), "--inside", *sys.argv[1:]], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
