#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The distribution's own RDMA tools on the software fabric, as they are or with SHIFT under them.

--shift none tests simnic; --shift path, preload, both test that SHIFT changes nothing without a
fault, loaded by LD_LIBRARY_PATH alone, by LD_PRELOAD alone, and by both.
"""
import argparse
import re
import sys
import time

from shiftlab.lab import Lab, Shift, Stuck, free_port, wait_for
from shiftlab.perftest import CALM

FORK_THEN_OPEN = """
import ctypes, os, sys
v = ctypes.CDLL("libibverbs.so.1")
v.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
v.ibv_open_device.restype = ctypes.c_void_p
v.ibv_close_device.argtypes = [ctypes.c_void_p]
devices = v.ibv_get_device_list(None)
pid = os.fork()
if pid == 0:
    context = v.ibv_open_device(ctypes.c_void_p(devices[0]))
    ok = bool(context) and v.ibv_close_device(context) == 0
    sys.stdout.flush()
    os._exit(0 if ok else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""

PINGPONGS = {
    "rc_pingpong": ["ibv_rc_pingpong", "-c"],
    "rc_pingpong events": ["ibv_rc_pingpong", "-c", "-e"],
    "rc_pingpong new post send": ["ibv_rc_pingpong", "-c", "-N"],
    "rc_pingpong events, new post send": ["ibv_rc_pingpong", "-c", "-e", "-N"],
    "srq_pingpong": ["ibv_srq_pingpong", "-n", "200"],
    "srq_pingpong events": ["ibv_srq_pingpong", "-e"],
    "ud_pingpong": ["ibv_ud_pingpong"],
    "ud_pingpong events": ["ibv_ud_pingpong", "-e"],
}

PERFTESTS = {
    "write_bw": ["ib_write_bw", "-n", "2000"],
    "write_bw 4 QPs": ["ib_write_bw", "-n", "500", "-q", "4"],
    "write_bw both ways": ["ib_write_bw", "-n", "1000", "-b"],
    "write_bw old post send": ["ib_write_bw", "-n", "1000", "--use_old_post_send"],
    "write_bw lists of 16": ["ib_write_bw", "-n", "1600", "-l", "16", "-s", "512"],
    "send_bw": ["ib_send_bw", "-n", "2000"],
    "send_bw events": ["ib_send_bw", "-n", "1000", "-e"],
    # all receives at once: a datagram that finds none is lost, and the tool waits for it
    "send_bw UD": ["ib_send_bw", "-n", "1000", "-c", "UD", "-s", "1024", "-r", "1024"],
    "read_bw": ["ib_read_bw", "-n", "1000"],
    "atomic_bw": ["ib_atomic_bw", "-n", "1000"],
    "atomic_bw compare and swap": ["ib_atomic_bw", "-n", "1000", "-A", "CMP_AND_SWAP"],
    "write_lat": ["ib_write_lat", "-n", "500"],
    "write_lat inline": ["ib_write_lat", "-n", "500", "-I", "64", "-s", "64"],
    "send_lat": ["ib_send_lat", "-n", "500"],
    "read_lat": ["ib_read_lat", "-n", "500"],
    "atomic_lat": ["ib_atomic_lat", "-n", "500"],
    "write_bw all sizes": ["ib_write_bw", "-a", "-n", "100"],
}


# What each way of being loaded is tried with: an old program, a new one, an event, a fork, both link layers.
FEW = ("ibv_devices", "ibv_devinfo -v", "fork, then open", "rc_pingpong events, new post send", "srq_pingpong", "ud_pingpong",
       "write_bw 4 QPs", "write_bw old post send", "send_bw events", "atomic_lat", "InfiniBand link layer")


class Failed(Exception):
    """A tool did not do what it does on hardware."""


def must_end_well(*programs):
    for p in programs:
        if p.process.returncode:
            raise Failed(f"{p.name} ended with {p.process.returncode}\n{p.tail()}")


def must_say(program, *words):
    text = program.out()
    for word in words:
        if word not in text:
            raise Failed(f"{program.name} does not say '{word}'\n{program.tail()}")


class Tests:
    def __init__(self, args):
        self.args = args
        self.shift = None if args.shift == "none" else Shift(way=args.shift)

    def pingpong(self, argv):
        argv = argv + ["-d", "mlx5_0", "-g", "0", "-p", str(free_port())]
        with Lab(self.args.build) as lab:
            must_end_well(*lab.pair(argv, argv + ["127.0.0.1"], shift=self.shift))

    def perftest(self, argv, link="eth"):
        argv = argv + ["-d", "mlx5_0", "-F", *CALM, "-p", str(free_port())]
        argv += ["-x", "0"] if link == "eth" else []
        with Lab(self.args.build, link=link) as lab:
            must_end_well(*lab.pair(argv, argv + ["127.0.0.1"], shift=self.shift))

    def devices(self):
        with Lab(self.args.build) as lab:
            p = lab.run("h0", ["ibv_devices"], shift=self.shift)
            must_end_well(p)
            must_say(p, "mlx5_0", "mlx5_1")

    def devinfo(self):
        with Lab(self.args.build) as lab:
            p = lab.run("h0", ["ibv_devinfo", "-v"], shift=self.shift)
            must_end_well(p)
            must_say(p, "mlx5_0", "mlx5_1", "RoCE v2")
            if p.out().count("PORT_ACTIVE (4)") != 2:
                raise Failed("not both ports are active\n" + p.tail())

    def fork_then_open(self):
        with Lab(self.args.build) as lab:
            must_end_well(lab.run("h0", [sys.executable, "-c", FORK_THEN_OPEN], name="fork",
                                  shift=self.shift))

    def processes_on_one_nic(self):
        with Lab(self.args.build) as lab:
            running = []
            for i in range(3):
                argv = ["ib_write_bw", "-d", "mlx5_0", "-x", "0", "-F", "-n", "2000", *CALM, "-p",
                        str(free_port())]
                running.append(lab.start("h0", argv, f"server{i}", self.shift))
                running[-1].await_listening()
                running.append(lab.start("h1", argv + ["127.0.0.1"], f"client{i}", self.shift))
            for p in running:
                p.wait(60)
            must_end_well(*running)

    def infiniband(self):
        self.perftest(["ib_write_bw", "-n", "1000"], link="ib")
        self.perftest(["ib_send_lat", "-n", "200"], link="ib")

    def link_lost(self):
        """On a lost link the client ends with status 12, as on hardware."""
        with Lab(self.args.build) as lab:
            argv = ["ib_write_bw", "-d", "mlx5_0", "-x", "0", "-F", "-D", "120", "-p",
                    str(free_port())]
            lab.start("h0", argv, "server").await_listening()
            client = lab.start("h1", argv + ["127.0.0.1"], "client")
            wait_for("traffic", lambda: lab.carried(0) or not client.running(), 30)
            lab.fault("port-down", "h0/mlx5_0")
            begun = time.monotonic()
            client.wait(60)
            took = time.monotonic() - begun
            text = client.out() + client.err()
            if not client.process.returncode or not re.search(r"ailed status 12: wr_id \d+ syndrom 0x81", text):
                raise Failed("no status 12, or not with the vendor's number of it\n" + client.tail())
            print(f"     status 12 after {took:.2f} s (timeout 14, retry 7: 0.54 s on hardware)")

    def all(self):
        yield "ibv_devices", self.devices
        yield "ibv_devinfo -v", self.devinfo
        yield "fork, then open", self.fork_then_open
        for name, argv in PINGPONGS.items():
            yield name, lambda argv=argv: self.pingpong(argv)
        for name, argv in PERFTESTS.items():
            yield name, lambda argv=argv: self.perftest(argv)
        yield "several processes on one NIC", self.processes_on_one_nic
        yield "InfiniBand link layer", self.infiniband
        if not self.shift:
            yield "a lost link ends with status 12", self.link_lost


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build")
    p.add_argument("--shift", choices=("none", "path", "preload", "both"), default="none")
    p.add_argument("--only", help="tests whose name has this in it")
    p.add_argument("--few", action="store_true", help="what tells one way of loading from another")
    args = p.parse_args()
    good = bad = 0
    for name, test in Tests(args).all():
        if args.only and args.only not in name or args.few and name not in FEW:
            continue
        begun = time.monotonic()
        try:
            test()
            word = "ok"
            good += 1
        except (Failed, Stuck, RuntimeError) as e:
            word = f"FAIL\n{e}\n    "
            bad += 1
        print(f"{word:4} {name} ({time.monotonic() - begun:.1f} s)", flush=True)
    print(f"{good} passed, {bad} failed (SHIFT: {args.shift})")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
