#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What watching costs. Two processes with --qps protected queue pairs each: how long `shiftctl status
--json` takes for both, and the question by itself without the start of a program. Then ib_write_bw, windows
of one run, with nobody asking and while its processes are asked for their status --hz times a second.
Medians and spread; writes out/bench-status.json."""
import argparse
import glob
import json
import os
import random
import socket
import statistics
import sys
import threading
import time

from ab import idle_end, idle_start, spread
from shiftlab.lab import Lab, Shift, free_port, wait_for

TOOLS = (("ib_write_bw 64 KiB", ["ib_write_bw", "-s", "65536"]),
         ("ib_write_bw 1 MiB", ["ib_write_bw", "-s", "1048576"]))
WINDOW_S = 0.5
THREAD = "shift"


def ask(path, word):
    """Bytes of the answer of a process, or 0 if it is gone."""
    with socket.socket(socket.AF_UNIX) as s:
        try:
            s.connect(path)
            s.sendall(word + b"\n")
            n = 0
            while more := s.recv(1 << 20):
                n += len(more)
        except OSError:
            return 0
        return n


def sockets(folder):
    try:
        return [os.path.join(folder, n) for n in os.listdir(folder) if n.endswith(".sock")]
    except FileNotFoundError:
        return []


def ms(what):
    began = time.monotonic()
    result = what()
    return (time.monotonic() - began) * 1e3, result


def answers(args):
    """Of both processes at once, by shiftctl; and of one, by its socket."""
    with Lab(args.build) as lab:
        folder = os.path.join(lab.folder, "run")
        ends = idle_start(lab, args.qps, Shift(log="info", run_dir=folder))
        whole, table, alone, size = [], [], [], 0
        lab.run_dir = lambda host: folder
        for _ in range(args.rounds):
            t, out = ms(lambda: lab.shiftctl("h0", "status", "--json"))
            processes = json.loads(out)["processes"]
            assert [len(p["qps"]) for p in processes] == [args.qps] * 2
            assert all(q["level"] == "protected" for p in processes for q in p["qps"])
            whole.append(t)
            table.append(ms(lambda: lab.shiftctl("h0", "status"))[0])
            t, size = ms(lambda: ask(sockets(folder)[0], b"status"))
            alone.append(t)
        idle_end(ends)
    for name, values in (("shiftctl status --json, 2 processes", whole),
                         ("shiftctl status, the table", table), ("status of one, by its socket", alone)):
        print(f"{name:40} {args.qps} QPs each: {statistics.median(values):7.1f} ms "
              f"+-{spread(values):5.1f}, worst {max(values):.1f}", flush=True)
    print(f"{'':40} an answer has {size} bytes", flush=True)
    return {"qps": args.qps, "json_ms": whole, "table_ms": table, "socket_ms": alone, "bytes": size}


class Poller:
    """Asks all processes of a folder, so many times a second, until it is ended."""

    def __init__(self, folder, hz, word):
        self.folder, self.period, self.word = folder, 1.0 / hz, word
        self.asked = 0
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()

    def run(self):
        due = time.monotonic()
        while not self.stop.is_set():
            for path in sockets(self.folder):
                self.asked += ask(path, self.word) > 0
            due = max(due + self.period, time.monotonic())
            self.stop.wait(due - time.monotonic())


def shift_cpu_ns(programs):
    """Of the background threads of SHIFT, which answer."""
    total = 0
    for p in programs:
        for task in glob.glob(f"/proc/{p.pid}/task/*"):
            with open(task + "/comm", encoding="ascii") as comm:
                if comm.read().strip() != THREAD:
                    continue
            with open(task + "/schedstat", encoding="ascii") as stat:
                total += int(stat.read().split()[0])
    return total


def window(lab):
    """Gb/s of all that the fabric carries in a while."""
    began, before = time.monotonic(), lab.carried(0)
    time.sleep(WINDOW_S)
    carried, took = lab.carried(0) - before, time.monotonic() - began
    return carried * 8 / took / 1e9


def throughput(args, name, argv):
    """Windows of one run, with nobody asking and with somebody, in an order drawn for each pair: the load of
    the machine changes more between runs than between windows."""
    free, asked, answered, cpu = [], [], 0, {False: 0, True: 0}
    argv = argv + ["-d", "mlx5_0", "-x", "0", "-F", "-D", "3600", "-p", str(free_port())]
    with Lab(args.build) as lab:
        folder = os.path.join(lab.folder, "run")
        shift = Shift(log="info", run_dir=folder)
        server = lab.start("h0", argv, "server", shift)
        server.await_listening()
        client = lab.start("h1", argv + ["127.0.0.1"], "client", shift)
        wait_for("protection", lambda: all(lab.protected(p) for p in (server, client)), 30)
        window(lab)
        for _ in range(args.windows):
            for polled in random.sample((False, True), 2):
                before = shift_cpu_ns((server, client))
                if polled:
                    with Poller(folder, args.hz, b"status") as poller:
                        asked.append(window(lab))
                    answered += poller.asked
                else:
                    free.append(window(lab))
                cpu[polled] += shift_cpu_ns((server, client)) - before
    a, b = statistics.median(free), statistics.median(asked)
    each_us = (cpu[True] - cpu[False]) / max(answered, 1) / 1e3
    print(f"{name:24} {a:7.2f} +-{spread(free):5.2f} Gb/s, asked {args.hz:g} times a second "
          f"{b:7.2f} +-{spread(asked):5.2f}: ratio {b / a:.3f} ({args.windows} windows of {WINDOW_S:g} s "
          f"each, {answered} answers, {each_us:.0f} us of CPU each in SHIFT's threads)", flush=True)
    return {"name": name, "cpu_us_each": each_us, "free": free, "asked": asked, "ratio": b / a, "answers": answered}


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", default="build")
    p.add_argument("--out", default="out")
    p.add_argument("--qps", type=int, default=1000)
    p.add_argument("--rounds", type=int, default=9, help="of answers")
    p.add_argument("--windows", type=int, default=60, help="of throughput, of each kind")
    p.add_argument("--hz", type=float, default=10)
    p.add_argument("--only", choices=["answers", "throughput"])
    args = p.parse_args()
    result = {"load": os.getloadavg()[0]}
    if args.only != "throughput":
        result["answers"] = answers(args)
    if args.only != "answers":
        result["throughput"] = [throughput(args, *t) for t in TOOLS]
    os.makedirs(args.out, exist_ok=True)
    with open(os.path.join(args.out, "bench-status.json"), "w", encoding="ascii") as f:
        json.dump(result, f, indent=1)
    print(f"load of the machine: {result['load']:.1f} before, {os.getloadavg()[0]:.1f} behind, "
          f"{os.cpu_count()} cores")
    return 0


if __name__ == "__main__":
    sys.exit(main())
