#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Which NIC backs up which, and when it counts: the choices of SHIFT_BACKUP, paths that do not
reach the peer, backups that can less than the default NIC.

  backup.py --build DIR [CASE...]
"""
import os
import re
import signal
import sys
import time
from collections import Counter

from shiftlab.lab import Shift, cases_main, free_port, wait_for
from shiftlab.perftest import Failed

CALM_S = 3      # what a wrong verdict would take to show
RESTING = 4     # queue pairs that do nothing
NO_PATH = "no path to its peer over another NIC answers"
# No NIC hangs here, though a busy machine may look like that.
SOON = {"holddown_ms": 100, "heartbeat_idle_ms": 1000, "hang_ms": 5000, "command_ms": 5000}


def check(truth, what):
    if not truth:
        raise Failed(what)


class Pair:
    """Two programs whose queue pairs rest, or that move bytes."""

    def __init__(self, lab, traffic=False, options=(), tool="ib_write_bw", rest=RESTING, env=None, before=(), **settings):
        self.lab = lab
        shift = Shift(log="info", **{**SOON, **settings})
        port = free_port()
        if traffic:
            argv = [tool, "-d", "mlx5_0", "-x", "0", "-F", "-D", 120, "-p", port, "-u", 18,
                    *options]
            server = lab.start("h0", argv, "server", shift, env)
            server.await_listening()
            client = lab.start("h1", argv + ["127.0.0.1"], "client", shift, env)
        else:
            argv = [*before, os.path.join(lab.out, "bin", "idle"), "--rest", rest, "--port", port]
            server = lab.start("h0", argv + ["--server"], "server", shift, env, stdin=True)
            client = lab.start("h1", argv + ["--client"], "client", shift, env, stdin=True)
        self.ends = {"h0": server, "h1": client}

    def connections(self, host):
        check(self.ends[host].running(), f"{host} ended\n{self.ends[host].tail()}")
        return self.lab.connections(host)

    def all(self, truth):
        """Of both ends' connections, of which there are some."""
        found = {host: self.connections(host) for host in self.ends}
        return all(found.values()) and all(truth(q) for qps in found.values() for q in qps)

    def await_all(self, what, truth):
        wait_for(what, lambda: self.all(truth), 30)

    def protected(self):
        self.await_all("protection", lambda q: q["level"] == "protected")

    def heard_on_both(self):
        """A path that has not answered yet cannot fall silent."""
        self.protected()
        self.await_all("answers over both paths", lambda q: q["paths"]["up"] == 3)

    def never_protected(self):
        for host, p in self.ends.items():
            check("is protected" not in self.lab.shift_log(p), f"{host} was called protected")

    def unprotected(self, why):
        """At one end for what it finds itself, at the other at least not protected."""
        wait_for("reason at an end", lambda: any(
            re.search(why, q["why"] or "") for host in self.ends for q in self.connections(host)), 30)
        self.await_all("no protection", lambda q: q["level"] == "driven")

    def end(self):
        for p in self.ends.values():
            p.say("end")
        for host, p in self.ends.items():
            check(not p.wait(60), f"{host} failed\n{p.tail()}")


def cards(lab):
    """Two cards of two ports: the other card's NIC, and it is ready when the whole card dies."""
    pair = Pair(lab, traffic=True, backup="pair")
    pair.await_all("standby on the other card", lambda q: q["level"] == "protected" and
                   q["nic"] == "mlx5_0" and q["standby"] and q["standby"]["nic"] == "mlx5_2")
    for port in ("mlx5_0", "mlx5_1"):
        lab.fault("nic-internal-error", f"h0/{port}")
    pair.await_all("move to the other card", lambda q: q["nic"] == "mlx5_2")
    before = lab.carried(2)
    wait_for("traffic", lambda: lab.carried(2) > before, 30)
    for p in pair.ends.values():
        check(p.running(), f"{p.name} ended\n{p.tail()}")


def cut_at_first(lab):
    """The backup's switch passes nothing from the beginning, and no port says so."""
    lab.fault("switch-down", "rail1")
    pair = Pair(lab)
    pair.await_all("reason", lambda q: q["level"] == "driven" and q["why"] == NO_PATH)
    pair.never_protected()
    lab.fault("switch-up", "rail1")
    pair.protected()
    pair.end()


def cut_when_idle(lab):
    """It is found out without work, and without an event."""
    pair = Pair(lab)
    pair.protected()
    lab.fault("switch-down", "rail1")
    pair.await_all("notice of the loss", lambda q: q["level"] == "driven")
    pair.await_all("reason", lambda q: q["why"] == NO_PATH)
    lab.fault("switch-up", "rail1")
    pair.protected()
    pair.end()
    check(not any(lab.moves(p) for p in pair.ends.values()), "moved without work")


def default_cut_when_idle(lab):
    """The default's path: there is nothing to move for yet, and the standby takes over with the work."""
    pair = Pair(lab)
    pair.heard_on_both()
    lab.fault("switch-down", "rail0")
    for host, p in pair.ends.items():
        wait_for("notice at " + host, lambda p=p: "does not answer any more" in lab.shift_log(p), 30)
    pair.await_all("protection still", lambda q: q["level"] == "protected")
    lab.fault("switch-up", "rail0")
    pair.end()


def stopped_when_idle(lab):
    """Who answers nowhere is slow or stopped: no path is given up for it."""
    pair = Pair(lab)
    pair.protected()
    os.kill(pair.ends["h1"].pid, signal.SIGSTOP)
    time.sleep(CALM_S)
    os.kill(pair.ends["h1"].pid, signal.SIGCONT)
    pair.protected()
    check("does not answer any more" not in lab.shift_log(pair.ends["h0"]), "a path was given up")
    pair.end()


def refused(lab, limit, why, options=()):
    """By the end that has the lesser NIC; the program does not see any of it."""
    lab.ctl(*limit)
    pair = Pair(lab, traffic=True, options=options)
    pair.unprotected(why)
    pair.never_protected()
    before = lab.carried(0)
    wait_for("traffic", lambda: lab.carried(0) > before, 30)


def rings(lab):
    """The control QP fits, the program's queue pairs do not."""
    refused(lab, ("limit", "h0/mlx5_1", "qp-wr", 1024),
            "queue pair could not be made on the NIC of the standby", ["-t", 4096])


def rings_not_even_ours(lab):
    refused(lab, ("limit", "h0/mlx5_1", "qp-wr", 8), "control QP cannot be opened")


def mtu(lab):
    refused(lab, ("mtu", "h0/mlx5_1", 512), "path MTU is larger than that of the NIC of the standby")


def memory(lab):
    refused(lab, ("limit", "h0/mlx5_1", "mrs", 1),
            "memory could not be registered on the NIC of the standby")


def gid_type(lab):
    """The programs connect by RoCE v2, which is routed; this NIC can only do what is not."""
    refused(lab, ("gids", "h0/mlx5_1", "v1"), "no GID of type RoCE v2 with an IPv4 address")


def gid_type_1(lab):
    refused(lab, ("gids", "h0/mlx5_1", "v2"), "no GID of type RoCE v1 with an IPv4 address", ["-x", 1])


def gid_family(lab):
    """Its interface has no IPv4 address."""
    refused(lab, ("gids", "h0/mlx5_1", "both", "ipv6"), "no GID of type RoCE v2 with an IPv4 address")


def gid_there(lab):
    """Programs that connect by RoCE v1, and NICs that have both."""
    Pair(lab, traffic=True, options=["-x", 1]).protected()


def lesser_but_enough(lab):
    """Another generation with smaller rings, and no larger than what is asked for: it serves."""
    for host in ("h0", "h1"):
        lab.ctl("limit", f"{host}/mlx5_1", "qp-wr", 1024)
        lab.ctl("limit", f"{host}/mlx5_1", "sge", 4)
    pair = Pair(lab, traffic=True)
    pair.protected()
    lab.fault("port-down", "h0/mlx5_0")
    pair.await_all("move", lambda q: q["nic"] == "mlx5_1")
    before = lab.carried(1)
    wait_for("traffic", lambda: lab.carried(1) > before, 30)


def fewer_reads(lab):
    """More READs are under way than the other generation's NIC takes: no more run there at a time, whichever end
    has it; and its completion queues are smaller."""
    lab.ctl("limit", "h0/mlx5_1", "reads", 2)
    lab.ctl("limit", "h1/mlx5_1", "cqe", 1023)
    pair = Pair(lab, traffic=True, options=["-o", 16], tool="ib_read_bw")
    pair.protected()
    lab.fault("port-down", "h0/mlx5_0")
    pair.await_all("move", lambda q: q["nic"] == "mlx5_1")
    before = lab.carried(1)
    wait_for("traffic", lambda: lab.carried(1) > before, 30)


def on(qps, what):
    """How many are on each NIC; what: where it is, or where its standby is."""
    return Counter(q["nic"] if what == "nic" else (q["standby"] or {}).get("nic") for q in qps)


def spread_over(lab, pair, what, *nics):
    """Until both ends have as many on each, and each queue pair on the same rail as its peer."""
    def even():
        ends = {host: pair.connections(host) for host in pair.ends}
        counts = [on(qps, what) for qps in ends.values()]
        return counts[0] == counts[1] and set(counts[0]) == set(nics) and \
            max(counts[0].values()) - min(counts[0].values()) <= 1

    try:
        wait_for(f"{what} spread over {nics}", even, 30)
    except Exception as e:
        raise Failed(f"{e}: " + str({h: on(pair.connections(h), what) for h in pair.ends})) from e


def spread(lab, backup="spread", **settings):
    """Six queue pairs of one NIC: two on each of the three others when it dies, then three on each of two;
    only what was on the second one moves then. All come back."""
    pair = Pair(lab, rest=6, backup=backup, **settings)
    pair.protected()
    if not settings:
        spread_over(lab, pair, "standby", "mlx5_1", "mlx5_2", "mlx5_3")
    lab.fault("port-down", "h0/mlx5_0")
    spread_over(lab, pair, "nic", "mlx5_1", "mlx5_2", "mlx5_3")
    before = {q["qpn"]: q["nic"] for q in pair.connections("h0")}
    lab.fault("port-down", "h1/mlx5_2")
    spread_over(lab, pair, "nic", "mlx5_1", "mlx5_3")
    for q in pair.connections("h0"):
        check(q["nic"] == before[q["qpn"]] or before[q["qpn"]] == "mlx5_2",
              f"{q['qpn']} left {before[q['qpn']]}, which is well")
    lab.fault("port-up", "h1/mlx5_2")
    lab.fault("port-up", "h0/mlx5_0")
    spread_over(lab, pair, "nic", "mlx5_0")
    pair.protected()
    pair.end()


def spread_lazy(lab):
    spread(lab, lazy="on")


def may_lock(kib):
    """What runs a program that may lock no more; root's may not pass that either."""
    less = ["setpriv", "--bounding-set", "-ipc_lock", "--inh-caps", "-ipc_lock"] if os.geteuid() == 0 else []
    return ["prlimit", f"--memlock={kib << 10}:{kib << 10}", *less]


def doctor(lab):
    program = lab.start("h0", [os.path.join(lab.out, "bin", "shiftctl"), "doctor", "--kv", lab.kv], "doctor")
    program.wait(30)
    return program.out()


def auto(lab):
    """As spread, where this test's programs may lock what it takes."""
    said = doctor(lab)
    if re.search(r"^backup +note auto: pair, as no more than", said, re.M):
        print("       not spread: too little memory may be locked here", flush=True)
        return
    check(re.search(r"^backup +ok +auto: spread", said, re.M), "doctor does not say spread:\n" + said)
    spread(lab, backup="auto")


def auto_little_memory(lab):
    """It is pair, and that is said; a limit that control queue pairs alone would use up does no harm."""
    pair = Pair(lab, rest=6, backup="auto", before=may_lock(LITTLE_KIB), env={"SIMNIC_MEMLOCK": "1"})
    pair.protected()
    spread_over(lab, pair, "standby", "mlx5_1")
    for host, p in pair.ends.items():
        check("SHIFT_BACKUP is auto, and that is pair here" in lab.shift_log(p), f"{host} does not say so")
    lab.fault("port-down", "h0/mlx5_0")
    spread_over(lab, pair, "nic", "mlx5_1")
    pair.end()


REGION = 24 << 20   # that ib_write_bw registers, both ways:
STREAMS = ("-q", "6", "-s", "2097152", "-t", "16")
FEWER = "they have fewer backups"
LITTLE_KIB = 8192


def tight(lab, copies, *nics):
    """
    Memory for so many copies of the program's own region: it is protected by as many NICs as there is room on, and which these
    are does not change any more. None of its connections stays without one.
    """
    pair = Pair(lab, traffic=True, options=STREAMS, backup="spread", env={"SIMNIC_MEMLOCK": str(int(REGION * copies))})
    pair.protected()
    # Who is first tells the other end, which may never have tried as many.
    wait_for("a word of either", lambda: any(FEWER in lab.shift_log(p) for p in pair.ends.values()), 30)
    pair.await_all(f"backups {nics}", lambda q: q["level"] == "protected" and q["standby"]["nic"] in nics)
    time.sleep(CALM_S)
    pair.await_all(f"backups {nics} still", lambda q: q["level"] == "protected" and q["standby"]["nic"] in nics)
    for host, p in pair.ends.items():
        check(lab.shift_log(p).count(FEWER) <= 1, f"{host} says it again")
    lab.fault("port-down", "h0/mlx5_0")
    pair.await_all("move", lambda q: q["nic"] in nics)
    for p in pair.ends.values():
        check(p.running(), f"{p.name} ended\n{p.tail()}")


def tight_for_two(lab):
    """The other half of the pair is the one that is left."""
    tight(lab, 2.5, "mlx5_1")


def tight_for_three(lab):
    tight(lab, 3.5, "mlx5_1", "mlx5_2")


CASES = {f.__name__: f for f in (cards, cut_at_first, cut_when_idle, default_cut_when_idle,
                                 stopped_when_idle, rings, rings_not_even_ours, mtu, memory,
                                 gid_type, gid_type_1, gid_family, gid_there, lesser_but_enough,
                                 fewer_reads, spread, spread_lazy, auto, auto_little_memory, tight_for_two,
                                 tight_for_three)}
FOUR = ("--nics", "4")
LAYOUTS = {"spread": FOUR, "spread_lazy": FOUR, "auto": FOUR, "auto_little_memory": FOUR, "tight_for_two": FOUR, "tight_for_three": FOUR,
           "cards": ("--nics", "4", "--card-ports", "2", "--numa-nodes", "2")}


def run(lab, name):
    if name in LAYOUTS:
        lab.ctl("destroy")
        lab.ctl("create", "--hosts", "2", *LAYOUTS[name])
    CASES[name](lab)


if __name__ == "__main__":
    sys.exit(cases_main(CASES, run))
