#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Under valgrind's memcheck, with SHIFT: cycles of a protection domain, a completion queue, memory, a
queue pair that is connected, a few messages, and the end of them all; and a connection that moves and
returns. No invalid access, nothing lost, and what is held at the end of the cycles does not grow with
their number. Without valgrind: a backup NIC that becomes another device.

  leaks.py --build DIR [--cycles N]
"""
import argparse
import os
import re
import shutil
import sys
import tempfile

from shiftlab.lab import SKIPPED, Lab, Shift, Stuck, free_port, wait_for

HERE = os.path.dirname(os.path.abspath(__file__))
FEW = 20
REPROBES = 4
TIMEOUT = 18    # of the queue pairs: 1 s, seven times
REST_MS = 100         # of every fifth cycle
GROWTH_BYTES = 163840  # a table of 64 KiB that doubles, and what the last cycle has in the air
GROWTH_BLOCKS = 24     # fewer than one for each cycle of the shortest run


class Failed(Exception):
    """What was found wrong."""


def memcheck(log):
    return ["valgrind", "--leak-check=full", "--show-leak-kinds=definite,indirect", "--num-callers=25",
            "--errors-for-leak-kinds=definite,indirect", "--error-exitcode=9", "--log-file=" + log,
            "--suppressions=" + os.path.join(HERE, "valgrind.supp")]


def report(log):
    with open(log, errors="replace") as f:
        return f.read()


def held(text):
    """Bytes and blocks that the process held at its exit."""
    found = re.search(r"in use at exit: ([\d,]+) bytes in ([\d,]+) blocks", text)
    if not found:
        raise Failed("valgrind has not told of the heap:\n" + text[-3000:])
    return [int(n.replace(",", "")) for n in found.groups()]


def judge(ends, log):
    """What valgrind said of the first of both."""
    text = report(log)
    for p in ends:
        if p.process.returncode:
            raise Failed(f"{p.name} ended with {p.process.returncode}\n{p.tail()}\n{text[:8000]}")
    return text


def start(lab, log, scenario, *options, stdin=False):
    # under valgrind, on a busy machine, a peer may be slow for longer than half a second
    argv = [os.path.join(lab.out, "bin", "abuse"), scenario, *options, "--port", free_port(),
            "--timeout", TIMEOUT]
    # figures are kept for every connection of the past, up to a limit, if they are asked for
    how = Shift(log="info", stats="", holddown_ms=100)
    return [lab.start("h0", memcheck(log) + argv + ["--server"], "server", how, stdin=stdin),
            lab.start("h1", argv + ["--client"], "client", how, stdin=stdin)]


def end(ends, limit):
    for p in ends:
        try:
            p.wait(limit)
        except Stuck as e:
            raise Failed(f"{e}\n{p.tail()}") from None


def cycles(build, n, folder):
    """What the server held at its end, by valgrind."""
    log = os.path.join(folder, f"memcheck-{n}")
    with Lab(build) as lab:
        ends = start(lab, log, "cycles", "--rounds", n, "--rest", REST_MS, stdin=True)
        for p in ends:
            wait_for(f"protection of {p.name}",
                     lambda p=p: "is protected by" in lab.shift_log(p) or not p.running(), 60)
        for p in ends:
            p.say("go")
        end(ends, 60 + n)
        found = held(judge(ends, log))
        protected = lab.protected(ends[0])
    print(f"{n} cycles, {protected} of them protected: no error, {found[0]} bytes in {found[1]} "
          "blocks held at the end", flush=True)
    if n > FEW and protected < 2:
        raise Failed("no cycle came as far as a standby")
    return found


def moves(build, folder):
    """To the backup and back."""
    log = os.path.join(folder, "memcheck-moves")
    with Lab(build) as lab:
        ends = start(lab, log, "query", "--rounds", 3, stdin=True)

        def told(word):
            for p in ends:
                wait_for(f"{word} of {p.name}",
                         lambda p=p: word in lab.shift_log(p) + p.out() or not p.running(), 60)

        told("CONNECTED 0")
        told("is protected by")
        lab.fault("port-down", "h0/mlx5_0")
        told("moved from mlx5_0 to mlx5_1")
        for p in ends:
            p.say("go")
        told("CONNECTED 1")
        lab.ctl("heal", "all")
        told("moved from mlx5_1 to mlx5_0")
        for n in range(2):
            for p in ends:
                p.say("go")
        end(ends, 60)
        judge(ends, log)
    print("a move and a return: no error", flush=True)


def reprobes(build):
    """The backup NIC becomes another device, again and again: what was open of the last one is closed."""
    argv = [os.path.join(build, "out", "bin", "crowd")]
    port = free_port()
    with Lab(build) as lab:
        ends = [lab.start("h0", argv + ["-s", port], "server", Shift(log="info"), stdin=True),
                lab.start("h1", argv + [port], "client", Shift(log="info"), stdin=True)]

        def all_protected():
            rows = lab.connections("h0")
            return rows and all(q["level"] == "protected" for q in rows)

        wait_for("protection", all_protected, 60)
        before = len(os.listdir(f"/proc/{ends[0].pid}/fd"))
        for n in range(1, REPROBES + 1):
            lab.ctl("reprobe", "h0/mlx5_1")
            wait_for("the other device",
                     lambda n=n: lab.shift_log(ends[0]).count("open again") == n, 60)
            wait_for("protection", all_protected, 60)
        wait_for(f"no more than {before} open files",
                 lambda: len(os.listdir(f"/proc/{ends[0].pid}/fd")) <= before, 60)
        for word in ("go", "end"):
            for p in ends:
                p.say(word)
        end(ends, 60)
    print(f"{REPROBES} other devices: no file left open", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--cycles", type=int, default=1000)
    args = parser.parse_args()
    if not shutil.which("valgrind"):
        print("skipped: no valgrind (package valgrind)")
        return SKIPPED
    folder = tempfile.mkdtemp(prefix="shift-leaks-")
    try:
        reprobes(args.build)
        moves(args.build, folder)
        few = cycles(args.build, FEW, folder)
        many = cycles(args.build, args.cycles, folder)
        if many[0] - few[0] > GROWTH_BYTES or many[1] - few[1] > GROWTH_BLOCKS:
            raise Failed(f"grew by {many[0] - few[0]} bytes in {many[1] - few[1]} blocks")
    except (Failed, Stuck) as e:
        print(f"FAILED: {e}")
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
