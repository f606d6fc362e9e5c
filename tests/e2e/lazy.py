#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""SHIFT_LAZY=on: no standby before a fault, not with a thousand queue pairs, and all move all the
same; after the return there is none again. SHIFT_LAZY=pool: queue pairs made ahead. Tools under
traffic, one end that is not lazy, and backups that would refuse. (Data that is checked:
run_verify.py --lazy.)

  lazy.py --build DIR [CASE...]
"""
import os
import re
import sys

from backup import Pair, check

from shiftlab.lab import PATIENT, Lab, Shift, cases_main, free_port, wait_for
from shiftlab.perftest import SOON, Perftest, drain, link, switch

THOUSAND = 1000
FEW = 8             # queue pairs on one completion queue
POOLED = 4          # made ahead for them, at each end
MADE = re.compile(r"QP (0x\w+): STANDBY_MADE ")     # an event of the core, at level debug
READY = "a queue pair is ready on mlx5_1, for it or its like"
TAKEN = "its standby on mlx5_1 was made ahead"
PATIENCE_S = 120


def rests(q):
    return q["level"] == "protected" and not q["standby"] and q["why"].startswith("lazy")


class Resting:
    """Two programs with many queue pairs that carry nothing."""

    def __init__(self, lab, qps, settings=({"lazy": "on"}, {"lazy": "on"})):
        self.lab, self.qps = lab, qps
        argv = [os.path.join(lab.out, "bin", "control"), "--port", free_port(), "--qps", qps]
        shifts = [Shift(log="debug", **{**SOON, **PATIENT, **s}) for s in settings]
        self.ends = [lab.start("h0", argv + ["--server"], "server", shifts[0], stdin=True),
                     lab.start("h1", argv + ["--client"], "client", shifts[1], stdin=True)]

    def await_all(self, what, truth):
        def all_are():
            for p in self.ends:
                check(p.running(), f"{p.name} ended")
            found = [self.lab.connections(host) for host in ("h0", "h1")]
            return all(len(qps) == self.qps and all(truth(q) for q in qps) for qps in found)

        wait_for(what, all_are, PATIENCE_S, 0.1)

    def made(self):
        """Standbys of both ends, from the beginning."""
        return [len(MADE.findall(self.lab.shift_log(p))) for p in self.ends]

    def said(self, text):
        """How often each end has said it."""
        return [len(re.findall(text, self.lab.shift_log(p))) for p in self.ends]

    def moved(self):
        """There and back, by a port that goes down."""
        self.lab.fault("port-down", "h0/mlx5_0")
        self.await_all("move of all", lambda q: q["nic"] == "mlx5_1" and q["move"] == "NONE")
        self.lab.ctl("heal", "h0/mlx5_0")
        self.await_all("return of all", lambda q: q["nic"] == "mlx5_0" and q["level"] == "protected")

    def end(self):
        for p in self.ends:
            p.say("end")
        for p in self.ends:
            check(not p.wait(PATIENCE_S), f"{p.name} ended with {p.process.returncode}\n{p.tail()}")
        for p in self.ends:
            moves = self.lab.moves(p)
            check(len(moves) >= 2 * self.qps, f"{p.name}: {len(moves)} moves")


def thousand(lab):
    pair = Resting(lab, THOUSAND)
    pair.await_all("protection of all", rests)
    check(pair.made() == [0, 0], f"standbys were made: {pair.made()}")
    pair.moved()
    pair.await_all("rest of all", rests)
    print(f"       standbys made for the way there and back: {pair.made()}", flush=True)
    pair.end()


def await_pool(pair, n):
    """So many have been made at each end, and no more come."""
    wait_for("pool", lambda: min(pair.said(READY)) >= n, PATIENCE_S)
    pair.await_all("rest of all", rests)
    check(pair.said(READY) == [n, n], f"made ahead: {pair.said(READY)}")


def pool(lab):
    """Queue pairs made ahead are the standbys of whoever moves first, and come again."""
    pair = Resting(lab, FEW, ({"lazy": "pool"}, {"lazy": "pool"}))
    pair.await_all("protection of all", rests)
    await_pool(pair, POOLED)
    check(pair.made() == [0, 0], f"standbys were made: {pair.made()}")
    pair.moved()
    check(pair.said(TAKEN) == [POOLED, POOLED], f"taken: {pair.said(TAKEN)}")
    await_pool(pair, 2 * POOLED)
    pair.end()


def pool_alone(lab):
    """What a move asks of the backup NIC: two commands less at each end, and those of completion queues."""
    commands = {}
    for way in ("on", "pool"):
        with Lab(lab.out) as own:
            pair = Resting(own, 1, ({"lazy": way}, {"lazy": way}))
            pair.await_all("protection", rests)
            if way == "pool":
                await_pool(pair, 1)
            before = own.nic(0, 1)["commands"]
            own.fault("port-down", "h0/mlx5_0")
            pair.await_all("move", lambda q: q["nic"] == "mlx5_1" and q["move"] == "NONE")
            commands[way] = own.nic(0, 1)["commands"] - before
            own.ctl("heal", "h0/mlx5_0")
            pair.await_all("return", lambda q: q["nic"] == "mlx5_0" and rests(q))
            pair.end()
    print(f"       commands of the backup NIC for a move: {commands}", flush=True)
    check(commands["pool"] <= commands["on"] - 2, f"commands: {commands}")


def pool_dies(lab):
    """With the backup NIC: those of its next incarnation are others."""
    pair = Resting(lab, FEW, ({"lazy": "pool"}, {"lazy": "pool"}))
    pair.await_all("protection of all", rests)
    await_pool(pair, POOLED)
    lab.fault("nic-internal-error", "h0/mlx5_1")
    pair.await_all("loss of protection", lambda q: q["level"] == "driven")
    lab.ctl("heal", "h0/mlx5_1")
    pair.await_all("rest of all", rests)
    wait_for("pool of the other NIC", lambda: pair.said(READY)[0] == 2 * POOLED, PATIENCE_S)
    pair.moved()
    check(pair.said(TAKEN)[0] == POOLED, f"taken: {pair.said(TAKEN)}")
    pair.end()


def one_end(lab):
    """Then standbys are made ahead."""
    pair = Resting(lab, 40, ({"lazy": "on"}, {}))
    pair.await_all("standbys of all", lambda q: q["level"] == "protected" and q["standby"] and
                   q["standby"]["phase"] == "READY")
    check(min(pair.made()) >= 40, f"standbys made: {pair.made()}")
    pair.moved()
    pair.end()


def tool(name, fault, qps=1):
    def case(lab):
        test = Perftest(name, fault, qps, lazy="on")
        test.run(lab)
        for p in (test.server, test.client):
            check(": lazy" in lab.shift_log(p), f"{p.name} was not lazy")
    return case


def refused(lab, limit, why, options=()):
    """It is not called protected, as without lazy."""
    lab.ctl(*limit)
    pair = Pair(lab, traffic=True, options=options, lazy="on")
    pair.unprotected(why)
    pair.never_protected()
    before = lab.carried(0)
    wait_for("traffic", lambda: lab.carried(0) > before, 30)


def cut(lab):
    """It rests only while another path answers; a doubt of the path in use is no move without work."""
    pair = Pair(lab, lazy="on")
    pair.await_all("rest", rests)
    lab.fault("switch-down", "rail1")
    pair.await_all("notice of the loss", lambda q: q["level"] == "driven")
    lab.fault("switch-up", "rail1")
    pair.await_all("rest", rests)
    lab.fault("switch-down", "rail0")
    pair.await_all("standby", lambda q: q["level"] == "protected" and q["standby"])
    lab.fault("switch-up", "rail0")
    pair.end()


CASES = {
    "thousand": thousand,
    "pool": pool,
    "pool_alone": pool_alone,
    "pool_dies": pool_dies,
    "one_end": one_end,
    "write_link": tool("ib_write_bw -q 4", link, 4),
    "send_switch": tool("ib_send_bw -s 4096", switch),
    "read_link": tool("ib_read_bw -q 2", link, 2),
    "atomic_drain": tool("ib_atomic_bw", drain),
    "mtu": lambda lab: refused(lab, ("mtu", "h0/mlx5_1", 512), "path MTU is larger"),
    "memory": lambda lab: refused(lab, ("limit", "h0/mlx5_1", "mrs", 1), "could not be registered"),
    "rings": lambda lab: refused(lab, ("limit", "h0/mlx5_1", "qp-wr", 1024),
                                 "queue pair could not be made", ["-t", 4096]),
    "cut": cut,
}

if __name__ == "__main__":
    sys.exit(cases_main(CASES, lambda lab, name: CASES[name](lab)))
