#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""shiftctl events: what has happened, once for all connections of a pair of NICs; and follows."""
import itertools
import json
import os
import signal
import subprocess
import sys
import time

from ctl import QPS, Ctl, Traffic, methods_main, must
from shiftlab.lab import Lab, Shift, free_port, wait_for
from shiftlab.perftest import LONG_S
from shiftlab.redis import Redis

MANY = 16


def parsed(text):
    return [json.loads(line) for line in text.splitlines()]


class Events(Ctl):
    """shiftctl events, as on a host of a lab."""

    def list(self, *args, status=0):
        return parsed(self("events", "--json", *args, status=status).stdout)

    def kinds(self, *args):
        return [e["kind"] for e in self.list(*args)]

    def wait(self, kind, n=1, timeout=20):
        wait_for(f"event {kind}", lambda: self.kinds().count(kind) >= n, timeout)
        return [e for e in self.list() if e["kind"] == kind]

    def half_left(self):
        """When all are away; on a busy machine it is told before of some."""
        return wait_for("event degraded", lambda: [
            e for e in self.list() if e["kind"] == "degraded" and e["bandwidth_left"] == 0.5], 30)[0]

    def of_all(self, kind, qps=QPS, timeout=30):
        """Of all connections: one event, and on a busy machine others for those that come late."""
        def them():
            found = [e for e in self.list() if e["kind"] == kind]
            return found if sum(e["qps"] for e in found) >= qps else None
        found = wait_for(f"event {kind} of all", them, timeout)
        must("each once", sum(e["qps"] for e in found) == qps, found)
        must("together", len(found) <= max(qps // 4, 2), found)
        return found


class Tests:
    def __init__(self, build):
        self.build = build

    def fault(self):
        """A dead port is one event of the NIC and one of its connections, at both ends."""
        with Lab(self.build) as lab:
            traffic = Traffic(lab, qps=MANY).protected()
            here, there = Events(lab, "h0"), Events(lab, "h1")
            for up in here.of_all("protected", MANY):
                must("it was told that they are protected", (up["from"], up["to"]) == ("mlx5_0", "mlx5_1"), up)
            lab.fault("port-down", "h0/mlx5_0")
            for moved in here.of_all("switch", MANY):
                must("the switch", (moved["from"], moved["to"], moved["cause"], moved["unknown"], moved["pid"]) ==
                     ("mlx5_0", "mlx5_1", "port-down", 0, traffic.server.pid), moved)
                must("its times", moved["switch_ns"] > 0 and
                     moved["decided_ns"] + moved["switch_ns"] <= moved["monotonic_ns"], moved)
            down, = here.wait("nic-down")
            must("the NIC's end was first", (down["from"], down["cause"]) ==
                 ("mlx5_0", "port-down") and down["number"] < moved["number"], down)
            for other in there.of_all("switch", MANY):
                must("at the peer", (other["peer_from"], other["peer_to"]) == (0, 1), other)
            must("they know each other", other["peer"] != moved["peer"] and
                 moved["peer"] == Ctl(lab, "h1").processes()[0]["instance"], moved, other)
            for lost in here.of_all("unprotected", MANY):
                must("there is no third NIC", lost["cause"] == "no-standby", lost)
            lab.ctl("heal", "h0/mlx5_0")
            for back in here.of_all("return", MANY, 60):
                must("the return", (back["from"], back["to"], back["resent"], back["detect_ns"]) ==
                     ("mlx5_1", "mlx5_0", 0, 0), back)
            must("the NIC is well", here.wait("nic-up")[0]["from"] == "mlx5_0")
            table = here("events").stdout
            must("the table", "mlx5_0 -> mlx5_1" in table and "port-down" in table, table)
            everything = here.list()
            must("in order", [e["number"] for e in everything] ==
                 list(range(1, len(everything) + 1)), everything)
            for args in (("ib_write_bw",), ("--pid", traffic.server.pid), ("--since", "1h")):
                must(f"all of {args}", here.list(*args)[:len(everything)] == everything)
            must("of another", not here.list("ib_read_bw", status=1))
            must("few are new", len(here.list("--since", "0s")) < len(everything))
            traffic.client.process.kill()

    def degraded(self):
        """As long as connections are away, and how much of the bandwidth they have left: a backup that is shared."""
        with Lab(self.build) as lab:
            traffic = Traffic(lab, qps=MANY).protected()
            ctl = Events(lab, "h0")
            before = ctl.processes()[0]
            must("it is whole", before["degraded"] is None, before)
            lab.fault("port-down", "h0/mlx5_0")
            for host in ("h1", "h0"):
                told = Events(lab, host).half_left()
                must("which, and how many", (told["from"], told["qps"]) == ("mlx5_0", MANY), told)
            must("why", told["cause"] == "port-down", told)
            now = ctl.processes()[0]["degraded"]
            must("the status", now == {"since": told["since"], "bandwidth_left": 0.5, "qps": MANY}, now, told)
            must("the table", "0.50 of the bandwidth left" in ctl("status").stdout, ctl("status").stdout)
            lab.ctl("heal", "h0/mlx5_0")
            for host in ("h0", "h1"):
                there = Events(lab, host)
                whole, = there.wait("whole", 1, 60)
                must("since when", whole["since"] == there.half_left()["since"] < whole["time"] and
                     whole["bandwidth_left"] == 1, whole)
                must("behind the return", there.wait("return")[-1]["number"] < whole["number"], there.list())
                must("the status", there.processes()[0]["degraded"] is None)
            traffic.client.process.kill()

    def degraded_by_less(self):
        """Spread over three NICs; a second fault leaves less, since the same time."""
        with Lab(self.build, nics=4) as lab:
            traffic = Traffic(lab, qps=6, backup="spread").protected()
            events = Events(lab, "h0")

            def left(share):
                wait_for(f"{share} left", lambda: [e["bandwidth_left"] for e in events.list()
                                                   if e["kind"] == "degraded"][-1:] == [share], 60)
            lab.fault("port-down", "h0/mlx5_0")
            left(0.75)
            lab.fault("port-down", "h0/mlx5_2")
            left(0.666)
            lab.ctl("heal", "h0/mlx5_2")
            lab.ctl("heal", "h0/mlx5_0")
            events.wait("whole", 1, 60)
            since = {e["since"] for e in events.list() if e["kind"] in ("degraded", "whole")}
            must("one time", len(since) == 1, events.list())
            traffic.client.process.kill()

    def silence(self):
        """A switch that dies raises no event: the first heartbeat without an answer is the sign."""
        with Lab(self.build) as lab:
            traffic = Traffic(lab).protected()
            lab.fault("switch-down", "rail0")
            there = Events(lab, "h1")
            for moved in there.of_all("switch"):
                # the sender notices by itself, the receiver is told or notices, whichever is first
                must("cause", moved["cause"] in ("silence", "retry-exceeded", "peer"), moved)
                must("it took time to be found", moved["detect_ns"] > 0 or moved["cause"] == "peer",
                     moved)
                if moved["cause"] == "silence":
                    must("what was under way is sent again", moved["resent"] + moved["settled"] > 0 and
                         moved["resent_bytes"] >= moved["resent"], moved)
            traffic.client.process.kill()

    def orders(self):
        """Drained and used again: in order, nothing is sent again."""
        with Lab(self.build) as lab:
            traffic = Traffic(lab).protected()
            events = Events(lab, "h0")
            events("drain", "mlx5_0")
            for moved in events.of_all("switch"):
                must("by the order", (moved["cause"], moved["resent"], moved["detect_ns"]) == ("drain", 0, 0) or
                     moved["cause"] == "peer", moved)
            events("undrain", "mlx5_0")
            events.of_all("return", timeout=60)
            kinds = events.kinds()
            order = ["drain", "switch", "undrain", "return"]
            must("in order", [k for k, _ in itertools.groupby(k for k in kinds if k in order)] == order, kinds)
            traffic.client.process.kill()

    def nowhere(self):
        """No NIC is left: which connections, why, and how much is of unknown fate."""
        with Lab(self.build) as lab:
            traffic = Traffic(lab)
            traffic.protected()
            there = Events(lab, "h1")
            for rail in ("rail0", "rail1"):
                lab.fault("switch-down", rail)
            # the peer's errors end perftest, so its log must tell
            wait_for("end", lambda: not traffic.client.running(), 60)
            log = lab.shift_log(traffic.client)
            must("the log tells", "failed mlx5_" in log and "requests of unknown fate" in log, log)
            must("it is gone", not there.list(status=1))

    def follow(self):
        """Who looks sees programs that come later, and is not held up by one that stands still."""
        with Lab(self.build) as lab:
            events = Events(lab, "h0")
            out = os.path.join(lab.folder, "followed")
            with open(out, "wb") as f:
                follower = subprocess.Popen(
                    [os.path.join(lab.out, "bin", "shiftctl"), "events", "-f", "--json"],
                    env=events.env, stdout=f, stderr=subprocess.DEVNULL)
            try:
                traffic = Traffic(lab).protected()

                def seen():
                    with open(out, encoding="utf-8") as f:
                        return parsed(f.read().rpartition("\n")[0])
                wait_for("the first event", lambda: any(e["kind"] == "protected" for e in seen()),
                         20)
                os.kill(traffic.server.pid, signal.SIGSTOP)
                time.sleep(0.3)     # some rounds find it so
                os.kill(traffic.server.pid, signal.SIGCONT)
                lab.fault("port-down", "h0/mlx5_0")
                wait_for("the switch", lambda: any(e["kind"] == "switch" for e in seen()), 30)
                numbers = [e["number"] for e in seen()]
                must("each once", numbers == sorted(set(numbers)), numbers)
                traffic.client.process.kill()
            finally:
                follower.kill()
                follower.wait()

    def kv(self):
        """The store is away when the program starts, and comes."""
        with Lab(self.build) as lab:
            redis = Redis(lab)
            shift = Shift(log="info", kv=redis.url, kv_timeout_ms=200)
            argv = ["ib_write_bw", "-d", "mlx5_0", "-x", "0", "-F", "-D", str(LONG_S), "-p",
                    str(free_port())]
            server = lab.start("h0", argv, "server", shift)
            server.await_listening()
            client = lab.start("h1", argv + ["127.0.0.1"], "client", shift)
            events = Events(lab, "h1")
            wait_for("the client's socket", lambda: os.path.isdir(events.folder) and
                     os.listdir(events.folder), 30)
            events.wait("kv-lost", 1, 30)
            redis.start()
            events.wait("kv-back", 1, 30)
            kinds = [k for k in events.kinds() if k[:2] == "kv"]     # a busy server may be lost again
            must("in turn", kinds == (["kv-lost", "kv-back"] * len(kinds))[:len(kinds)], kinds)
            client.process.kill()

    def usage(self):
        with Lab(self.build) as lab:
            events = Events(lab, "h0")
            for args in (["a", "b"], ["--bogus"], ["--pid", "0"], ["--pid", "x"], ["--since", "x"],
                         ["--since", "-1"], ["--since", "5y"], ["--since", "5mm"], ["--since", ""],
                         ["--pid", "1", "ib_write_bw"], [""]):
                done = events("events", *args, status=2)
                must(f"{args} says why", done.stderr and not done.stdout, done)
            must("says that there is none", "no process" in events("events", status=1).stderr)


if __name__ == "__main__":
    sys.exit(methods_main(Tests, __doc__))
