#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Traffic that moves stays in its partition, on its VLAN and in its class; or it is not protected, which is
said, and nothing leaks.

  tenant.py --build DIR [CASE...]
"""
import re
import sys

from shiftlab.lab import Shift, cases_main, free_port, wait_for
from shiftlab.perftest import Failed

SOON = {"holddown_ms": 100, "heartbeat_idle_ms": 1000}
ENDS = ("h0", "h1")
RED = 0x8001
RED_LIMITED = 0x0001
OTHERS = (0x8005, 0x8007)
VLAN = 100


def check(truth, what):
    if not truth:
        raise Failed(what)


class Pair:
    """Stock programs that move bytes; they give up after half a second."""

    def __init__(self, lab, *options, ends=None, gids=None, **settings):
        self.lab = lab
        shift = {host: Shift(log="info", **SOON, **settings, **(ends or {}).get(host, {}))
                 for host in ENDS}
        argv = ["ib_write_bw", "-d", "mlx5_0", "-F", "-D", 120, "-p", free_port(), "-u", 14, *options]
        own = {host: ["-x", gids[host]] if gids else [] for host in ENDS}
        server = lab.start("h0", argv + own["h0"], "server", shift["h0"])
        server.await_listening()
        self.ends = {"h0": server, "h1": lab.start("h1", argv + own["h1"] + ["127.0.0.1"], "client",
                                                shift["h1"])}

    def all(self, truth):
        found = {host: self.lab.connections(host) for host in ENDS}
        return all(found.values()) and all(truth(q) for qps in found.values() for q in qps)

    def await_all(self, what, truth):
        wait_for(what, lambda: self.all(truth), 30)

    def flows(self, nic):
        before = self.lab.carried(nic)
        wait_for(f"traffic of mlx5_{nic}", lambda: self.lab.carried(nic) > before, 30)

    def logs(self):
        return [self.lab.shift_log(p) for p in self.ends.values()]

    def protected(self):
        self.await_all("protection", lambda q: q["level"] == "protected")

    def moves(self):
        self.protected()
        self.lab.fault("port-down", "h0/mlx5_0")
        self.await_all("move", lambda q: q["nic"] == "mlx5_1")
        self.flows(1)

    def refused(self, why, log="not protected by mlx5_1: .*{}"):
        """Said by status and log; the traffic goes on, and nothing of it comes to the other NICs."""
        wait_for("reason", lambda: any(re.search(why, q["why"] or "") for host in ENDS
                                       for q in self.lab.connections(host)), 30)
        self.await_all("no protection", lambda q: q["level"] == "driven")
        wait_for("the log to say why", lambda: any(re.search(log.format(why), text)
                                                   for text in self.logs()), 30)
        check(not any("is protected" in text for text in self.logs()), "it was called protected")
        self.flows(0)
        self.lab.fault("port-down", "h0/mlx5_0")
        wait_for("the end of a program", lambda: not all(p.running() for p in self.ends.values()), 30)
        check(not seen(self.lab, 1), f"packets came to the other NICs: {seen(self.lab, 1)}")


def seen(lab, nic, kind="rc_packets"):
    """What packets of the NICs of this index had."""
    return {(c["pkey"], c["vlan"], c["sl"], c["traffic_class"])
            for host in lab.status()["hosts"] for c in host["nics"][nic]["classes"] if c[kind]}


def pkeys(lab, first, second, hosts=ENDS):
    for host in hosts:
        lab.ctl("pkeys", f"{host}/mlx5_0", 0xffff, *first)
        lab.ctl("pkeys", f"{host}/mlx5_1", 0xffff, *second)


def violations(lab):
    return sum(nic["pkey_violations"] for host in lab.status()["hosts"] for nic in host["nics"])


def partition(lab):
    """The tables have it at different indexes, and another partition at the program's."""
    pkeys(lab, (OTHERS[0], RED), (RED, OTHERS[1]))
    pair = Pair(lab, "--pkey_index=2", "-S", 3)
    pair.moves()
    for nic in (0, 1):
        check(seen(lab, nic) == {(RED, 0, 3, 0)}, f"packets of mlx5_{nic}: {seen(lab, nic)}")
    check(not violations(lab), "packets of other partitions")
    check({sl for _, _, sl, _ in seen(lab, 1, "ud_packets")} == {3}, "datagrams have another level")


def partition_missing(lab):
    pkeys(lab, (RED,), (RED,))
    lab.ctl("pkeys", "h0/mlx5_1", 0xffff, *OTHERS)
    Pair(lab, "--pkey_index=1").refused("lacks its P_Key")


def partition_lazy(lab):
    """Where a standby would be made only when it is needed, it is known before that it cannot be."""
    pkeys(lab, (RED,), OTHERS)
    Pair(lab, "--pkey_index=1", lazy="on").refused("lacks its P_Key")


def partition_limited(lab):
    """A full member at one end is enough, and of two entries the full one is taken."""
    pkeys(lab, (RED,), (RED_LIMITED,), ["h0"])
    pkeys(lab, (RED,), (RED_LIMITED, OTHERS[0], RED), ["h1"])
    pair = Pair(lab, "--pkey_index=1")
    pair.moves()
    check({pkey for pkey, *_ in seen(lab, 1)} == {RED, RED_LIMITED}, f"{seen(lab, 1)}")
    check(not violations(lab), "packets were dropped")


def partition_both_limited(lab):
    """Limited members cannot speak with each other."""
    pkeys(lab, (RED,), (RED_LIMITED,))
    Pair(lab, "--pkey_index=1").refused("limited members")


def partition_reordered(lab):
    """The subnet manager gives the backup's entries other places while a standby waits there."""
    pkeys(lab, (RED,), (RED, OTHERS[0]))
    pair = Pair(lab, "--pkey_index=1")
    pair.protected()
    pkeys(lab, (RED,), (OTHERS[0], RED))
    for host, p in pair.ends.items():
        wait_for("notice at " + host, lambda p=p: "partition table" in lab.shift_log(p), 30)
    pair.moves()
    check({pkey for pkey, *_ in seen(lab, 1)} == {RED}, f"{seen(lab, 1)}")


def partition_own_reordered(lab):
    """The entry of the default partition, in which SHIFT itself speaks, gets another place on the backups."""
    for nic in ("mlx5_0", "mlx5_1"):
        for host in ENDS:
            lab.ctl("pkeys", f"{host}/{nic}", RED, 0xffff)
    pair = Pair(lab)
    pair.protected()
    lab.ctl("pkeys", "h0/mlx5_1", 0xffff, RED)
    lab.ctl("pkeys", "h1/mlx5_1", OTHERS[0], RED, 0xffff)
    for host, p in pair.ends.items():
        wait_for("notice at " + host, lambda p=p: "partition table" in lab.shift_log(p), 30)
    wait_for("the place of its own partition", lambda: all("another place" in text for text in pair.logs()), 30)
    pair.moves()
    check({pkey for pkey, *_ in seen(lab, 1)} == {RED}, f"{seen(lab, 1)}")
    check(not any("lacks what the default NIC has" in text for text in pair.logs()), "the log blames the backup NIC")


def vlans(lab, hosts=ENDS):
    """Of the default NICs, at index 3; and of those hosts' second ones, elsewhere."""
    for host in ENDS:
        lab.ctl("vlan", f"{host}/mlx5_0", 3, VLAN)
        lab.ctl("vlan", f"{host}/mlx5_1", 2, VLAN + 1)
    for host in hosts:
        lab.ctl("vlan", f"{host}/mlx5_1", 5, VLAN)


def vlan(lab):
    vlans(lab)
    pair = Pair(lab, "-x", 3, "-S", 3, "--tclass=106")
    pair.moves()
    for nic in (0, 1):
        check(seen(lab, nic) == {(0xffff, VLAN, 3, 106)}, f"packets of mlx5_{nic}: {seen(lab, nic)}")
    check({s[2:] for s in seen(lab, 1, "ud_packets")} == {(0, 0)}, "a pause would stop datagrams too")


def vlan_only(lab):
    """No NIC has a GID on none, and each has the VLANs in an order of its own."""
    for host, nic, orders in (("h0", 0, "ABX"), ("h1", 0, "BAX"), ("h0", 1, "AXB"), ("h1", 1, "BXA")):
        for index, letter in zip((0, 3, 6), orders):
            lab.ctl("vlan", f"{host}/mlx5_{nic}", index, VLAN + "BAX".index(letter))
    pair = Pair(lab, gids={"h0": 3, "h1": 0})
    pair.moves()
    for nic in (0, 1):
        for kind in ("rc_packets", "ud_packets"):
            check({s[1] for s in seen(lab, nic, kind)} == {VLAN}, f"{kind} of mlx5_{nic}")


def vlan_missing(lab):
    vlans(lab, ["h1"])
    Pair(lab, "-x", 3).refused("no GID on its VLAN", "mlx5_1: no GID on VLAN 100")


def vlan_of_one_end(lab):
    """Neither speaks over a VLAN that the other has not."""
    vlans(lab)
    shift = {"h0": {"any_vlan": "on"}, "h1": {}}
    Pair(lab, "-x", 3, ends=shift).refused("no path to its peer over another NIC", "no control path to the peer")


def vlan_any(lab):
    """The operator allows it; what one end has and the other has not is no matter then."""
    vlans(lab, ["h1"])
    pair = Pair(lab, "-x", 3, any_vlan="on")
    pair.moves()
    check({s[1] for s in seen(lab, 1)} == {0}, f"{seen(lab, 1)}")


def untagged(lab):
    """The NICs have VLANs too; what was on none stays on none."""
    vlans(lab)
    pair = Pair(lab, "-x", 0, "-S", 2)
    pair.moves()
    check(seen(lab, 1) == {(0xffff, 0, 2, 0)}, f"{seen(lab, 1)}")


CASES = {f.__name__: f for f in (
    partition, partition_missing, partition_lazy, partition_limited, partition_both_limited, partition_reordered,
    partition_own_reordered, vlan, vlan_only,
    vlan_missing, vlan_of_one_end, vlan_any, untagged)}


def run(lab, name):
    if name.startswith("partition"):
        lab.ctl("destroy")
        lab.ctl("create", "--link-layer", "ib")
    CASES[name](lab)


if __name__ == "__main__":
    sys.exit(cases_main(CASES, run))
