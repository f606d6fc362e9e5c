#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""NCCL's way to see what a NIC wrote to a GPU: READs by a loopback QP, on NICs whose payload
is in memory long after its completion, unless the same NIC is read from. In the middle is a process
that two others write to. "mixed" draws one fault after the other.
"pushed" is a program that relies on its NIC's good completions, as NCCL does on newer GPUs: what a NIC that connections have left
wrote to a dma-buf is there when their next message comes over another one. In "unread" that NIC has no port to read over, and
traffic goes on.

  loopback.py --build DIR [--seed N] [CASE...]
"""
import os
import random
import re
import sys

from shiftlab.lab import Shift, cases_main, free_port, wait_for
from shiftlab.perftest import SOON, Failed

LATE_US = 300000    # by far longer than a receiver takes to look
ENOUGH = 100        # messages: more than can be under way
QPS = 2             # to each of the two
COUNT = re.compile(r"^COUNT (\d+) (\d+)$", re.M)
CASES = {   # fault, its target, to how many of the two the process in the middle moves
    "without_reads": (None, None, 0),
    "stock": (None, None, 0),
    "calm": (None, None, 0),
    "link": ("port-down", "h0/mlx5_0", 2),
    "taken_away": ("nic-disassociate", "h0/mlx5_0", 2),
    "drain": ("drain", "h0", 2),
    "peers_link": ("port-down", "h1/mlx5_0", 1),
    "peers_drain": ("drain", "h2", 1),
    "switch": ("switch-down", "rail0", 2),
    "hang": ("nic-hang", "h0/mlx5_0", 2),
    "mixed": (None, None, 0),
    "pushed": (None, None, 0),
    "unread": ("port-down", "h0/mlx5_0", 2),
}
RELIES = ("without_reads", "pushed")    # it looks at a message when its receive completes
ROUNDS = 8
FAULTS = [(kind, target) for kind, target, _ in CASES.values() if kind] + [
    ("port-down", "h2/mlx5_0"), ("nic-disassociate", "h1/mlx5_0"), ("nic-hang", "h2/mlx5_0")]
SOME = 6
WAYS = (("mlx5_0", "mlx5_1"), ("mlx5_1", "mlx5_0"))


def moved(lab, program, way):
    return len(re.findall(r"QP 0x\w+ moved from " + " to ".join(way), lab.shift_log(program)))


def begin(lab, kind, target):
    if kind == "drain":
        lab.shiftctl(target, "drain", "mlx5_0")
    else:
        lab.fault(kind, target)


def finish(lab, kind, target):
    if kind == "drain":
        lab.shiftctl(target, "undrain", "mlx5_0")
    else:
        lab.ctl("heal", target)


def alive(programs):
    for p in programs:
        if not p.running():
            raise Failed(f"{p.name} ended with {p.process.returncode}")


def await_moved(lab, programs, count, way):
    def there():
        alive(programs)
        return moved(lab, programs[0], way) >= count

    wait_for("move from " + " to ".join(way), there, 30)


def counts(p):
    before = len(COUNT.findall(p.out()))
    p.say("count")
    wait_for("count of " + p.name,
             lambda: len(COUNT.findall(p.out())) > before or not p.running(), 20)
    alive([p])
    return [int(n) for n in COUNT.findall(p.out())[-1]]


def await_traffic(programs):
    """More messages than were under way come from each sender, and are looked at."""
    before = counts(programs[0])
    wait_for("messages", lambda: all(n > b + ENOUGH
                                     for n, b in zip(counts(programs[0]), before)), 30)


def mixed(lab, programs):
    """What each fault moves is not awaited, but that traffic goes on, and is back in the end."""
    rng = random.Random(lab.seed)

    def back():
        alive(programs)
        qps = [q for host in ("h0", "h1", "h2") for q in lab.connections(host)]
        return all(q["nic"] == "mlx5_0" and q["level"] == "protected" for q in qps)

    for kind, target in (rng.choice(FAULTS) for _ in range(SOME)):
        print(f"       {kind} {target}", flush=True)
        begin(lab, kind, target)
        await_traffic(programs)
        finish(lab, kind, target)
        await_traffic(programs)
        wait_for("return to the default NIC", back, 60, 0.05)


def pushed(lab, programs):
    """Both senders lose their links, or are drained, and the middle's NIC is well: it has not written everything yet, and nothing
    comes to it."""
    for n in range(1, ROUNDS + 1):
        for step, way in enumerate(WAYS):
            for host in ("h1", "h2"):
                if n % 3:
                    lab.fault(("port-down", "port-up")[step], f"{host}/mlx5_0")
                else:
                    lab.shiftctl(host, ("drain", "undrain")[step], "mlx5_0")
            await_moved(lab, programs, n * 2 * QPS, way)
            await_traffic(programs)


def start(lab, name):
    argv = [os.path.join(lab.out, "bin", "loopback"), "-p", free_port()]
    argv += ["-d", "-w"] if name == "pushed" else ["-d"] if name == "unread" else []
    shift = None if name in ("stock", "without_reads") else Shift(log="info", **SOON)
    middle = lab.start("h0", argv + ["-s"] + (["-x"] if name in RELIES else []), "middle", shift, stdin=True)
    programs = [middle] + [lab.start(h, argv, h, shift, stdin=True) for h in ("h1", "h2")]
    if shift:
        for p, n in zip(programs, (2 * QPS + 1, QPS, QPS)):
            wait_for("protection of " + p.name, lambda p=p, n=n: lab.protected(p) >= n, 30)
    return programs


def run(lab, name):
    kind, target, senders = CASES[name]
    for nic in ("mlx5_0", "mlx5_1"):
        lab.ctl("posted-writes", "h0/" + nic, LATE_US, *(["unflushed"] if name == "pushed" else []))
    programs = start(lab, name)
    await_traffic(programs)
    if kind:
        begin(lab, kind, target)
        await_moved(lab, programs, senders * QPS, WAYS[0])
        await_traffic(programs)
        finish(lab, kind, target)
        await_moved(lab, programs, senders * QPS, WAYS[1])
        await_traffic(programs)
    if name == "mixed":
        mixed(lab, programs)
    if name == "pushed":
        pushed(lab, programs)
    for p in programs[1:] + programs[:1]:
        p.say("end")
        wait_for("end of " + p.name, lambda p=p: "DONE\n" in p.out() or not p.running(), 40)
    for p in programs:
        if p.wait(40):
            raise Failed(f"{p.name} ended with {p.process.returncode}")
    if name == "unread" and "does not read back" not in lab.shift_log(programs[0]):
        raise Failed("it read over a port that was down")
    looked, stale = map(int, re.search(r"^OK (\d+), (\d+) stale", programs[0].out(), re.M).groups())
    if not looked or (stale == 0) == (name == "without_reads"):
        raise Failed(f"{stale} of {looked} messages were not there when they were looked at")


if __name__ == "__main__":
    sys.exit(cases_main(CASES, run, seeded=True, hosts=3))
