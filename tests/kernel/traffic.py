# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Programs that cases run on stock libraries and under SHIFT alike: each through once, without a fault."""
import re

from rig import ENDS, GID, address, check, device
from shiftlab.guest.verify import Verify as GuestVerify
from shiftlab.lab import free_port

COUNT = 100     # messages
CALM = 18       # perftest's QP timeout: a second, that an emulated NIC is not taken for a dead one

# What a stock program says of a connection that died; by rxe's first error, which differs with the fault.
DIED = re.compile(r"transport retry counter exceeded|local QP operation error|Work Request Flushed Error|"
                  r"status 12|status 2\b|status 5\b|Failed status (2|5|12)\b")


def pingpong(rig, tool, shift=None):
    """One of libibverbs' examples, by events: two programs that poll leave an emulated kernel few cycles."""
    argv = [*tool.split(), "-e", "-g", GID, "-n", 100, "-p", free_port(), "-s", 1024]
    ends = rig.pair([*argv, "-d", device("a")], [*argv, "-d", device("b"), "127.0.0.1"], shift=shift)
    rig.ends_well(*ends)
    for p in ends:
        check("100 iters" in p.out(), f"{p.name} did not say that it made 100 rounds: {p.tail(3)}")
    return "100 rounds of 1024 bytes"


def perftest(rig, tool, cm=False, shift=None):
    """A counted run of a perftest tool, and its figure: MB/s, or microseconds. No judgement of it."""
    ends = rig.perftest(f"{tool} -n {COUNT}", cm=cm, shift=shift, extra=("-u", CALM))
    rig.ends_well(*ends)
    rows = [r.split() for r in ends[1].out().splitlines() if re.match(rf"\s*\d+\s+({COUNT}|{4 * COUNT})\s", r)]
    check(rows, f"no result of {COUNT} messages from the client: {ends[1].tail(5)}")
    figure = "us at best" if "_lat" in tool else "MB/s"
    return f"{rows[-1][1]} messages of {rows[-1][0]} bytes, {rows[-1][2 if '_lat' in tool else 3]} {figure}"


def rping(rig, shift=None):
    common = ["rping", "-v", "-V", "-C", 50, "-a", address("a")]
    ends = rig.pair([*common, "-s"], [*common, "-c", "-I", address("b")], cm=True, shift=shift)
    rig.ends_well(*ends)
    seen = ends[1].out().count("ping data:")
    check(seen == 50, f"the client has checked {seen} of 50 pings")
    return "50 pings, checked"


def ucmatose(rig, shift=None):
    ends = rig.pair(["ucmatose", "-b", address("a"), "-c", 4, "-C", 20],
                    ["ucmatose", "-b", address("b"), "-s", address("a"), "-c", 4, "-C", 20], cm=True, shift=shift)
    rig.ends_well(*ends)
    check("return status 0" in ends[1].out(), f"the client does not say status 0: {ends[1].tail(4)}")
    return "4 connections, 20 messages each way"


# More of librdmacm's own programs: server and client, what both get, and what the client must have said.
CM_TOOLS = {
    "rstream": (("rstream", "rstream"), "-S 4096 -C 20 -I 5 -T v", r"\b4k +20 +5 "),
    "riostream": (("riostream", "riostream"), "-S 4096 -C 20 -I 5 -T v", r"\b4k +20 +5 "),
    "udaddy": (("udaddy", "udaddy"), "-c 2 -C 20", r"return status 0"),
    "cmtime": (("cmtime", "cmtime"), "-c 10", r"^destroy +:"),
    "rdma_client": (("rdma_server", "rdma_client"), "", r"rdma_client: end 0"),
}
NO_BIND = ("rdma_client",)      # it cannot be told its own address
FOR_EVER = ("cmtime",)          # servers that wait for another client


def cm_tool(rig, name, shift=None):
    """One of librdmacm's programs, through once."""
    programs, common, said = CM_TOOLS[name]
    argv = []
    for program, end in zip(programs, ENDS):
        bind = [] if name in NO_BIND else ["-b", address(end)]
        argv.append([program, *bind, *(["-s", address("a")] if end == "b" else []), *common.split()])
    server, client = rig.pair(*argv, cm=True, shift=shift)
    rig.ends_well(client)
    if name in FOR_EVER:
        check(server.running(), f"the server ended with {server.process.returncode}: {server.tail(4)}")
    else:
        rig.ends_well(server)
    told = client.out().strip()
    check(re.search(said, told, re.M), f"the client did not say {said}: {told[-300:]}")
    return " ".join(told.splitlines()[-1].split())


def fi_pingpong(rig, shift=None):
    common = ["fi_pingpong", "-p", "verbs", "-e", "msg", "-c", "-I", 50, "-S", 4096]
    ends = rig.pair([*common, "-d", device("a")], [*common, "-d", device("b"), address("a")], shift=shift)
    rig.ends_well(*ends)
    check(re.search(r"\b50\b", ends[1].out()), f"the client shows no 50 rounds: {ends[1].tail(4)}")
    return "50 rounds of 4096 bytes, checked"


class Verify(GuestVerify):
    """On the rails."""

    def __init__(self, rig, shift=None, seed=1, qps=5, patterns="abcde", timeout=15, stuck=40, nic=device, gid=GID):
        super().__init__(rig, shift, seed, qps, patterns, timeout, stuck, nic=nic, gid=gid)


def verify(rig, shift=None):
    v = Verify(rig, shift, seed=rig.seed)
    v.moves_on(200)
    v.stop()
    return f"{v.verdict()} messages, 0 wrong bytes, seed {rig.seed}"


# Programs that live through a run without a fault, stock and under SHIFT: name, the command, over rdma_cm.
PERFTESTS = (("write_bw", "ib_write_bw -s 16384", False), ("send_bw", "ib_send_bw -s 16384", False),
             ("read_bw", "ib_read_bw -s 16384", False), ("send_bw_events", "ib_send_bw -e -s 16384", False),
             ("write_bw_4_qps", "ib_write_bw -q 4 -s 4096", False),
             ("write_bw_both_ways", "ib_write_bw -b -s 4096", False), ("atomic_bw", "ib_atomic_bw", False),
             ("write_lat", "ib_write_lat -s 64", False), ("send_lat", "ib_send_lat -s 64", False),
             ("read_lat", "ib_read_lat -s 64", False), ("send_bw_ud", "ib_send_bw -c UD -s 1024", False),
             ("cm_write_bw", "ib_write_bw -s 16384", True))


def runs():
    """(name, programs needed, function of a Rig and a Shift or None)"""
    for tool in ("ibv_rc_pingpong", "ibv_srq_pingpong", "ibv_ud_pingpong"):
        yield tool.removeprefix("ibv_"), (tool,), lambda rig, shift=None, tool=tool: pingpong(rig, tool, shift)
    for name, tool, cm in PERFTESTS:
        yield name, (tool.split()[0],), \
            lambda rig, shift=None, tool=tool, cm=cm: perftest(rig, tool, cm=cm, shift=shift)
    yield "rping", ("rping",), rping
    yield "ucmatose", ("ucmatose",), ucmatose
    for name, (programs, *_) in CM_TOOLS.items():
        yield name, programs, lambda rig, shift=None, name=name: cm_tool(rig, name, shift)
    yield "fi_pingpong", ("fi_pingpong",), fi_pingpong
    yield "verify", (), verify
