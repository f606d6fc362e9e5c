# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""How much longer a synchronous step of communication takes while NICs are dead (SimGrid, flow level).

Hosts form a ring on each of their rails, a NIC for each: in a step every host sends as much on each rail, over some
queue pairs each; the step ends with the last of them. A NIC's two directions are shared by all that it carries, the
rail switches are not a limit. A connection moves at both ends: where either NIC of a rail is dead, its queue pairs
go over other rails.

pair     all of them over the rail's mate
spread   shared out over all rails that live at both ends. SHIFT_BACKUP=spread"""
import os
import tempfile
import types

import simgrid

from clustermodel import shares

BANDWIDTH = "50GBps"        # 400 Gb/s
LATENCY = "1ns"             # a step of nothing takes no time, so that ratios are those of loads
STEP_BYTES = 64_000_000     # of a rail
PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
 <cluster id="nics" prefix="n" suffix="" radical="0-{last}" speed="1Gf" bw="{bandwidth}" lat="{latency}"
  sharing_policy="SPLITDUPLEX"/>
</platform>
"""
# What is shared is shared by max and min; nothing is lost to protocols, which healthy steps would lose too.
MODEL = ("network/model:CM02", "network/TCP-gamma:0", "network/bandwidth-factor:1", "network/latency-factor:1",
         "network/crosstraffic:0")


def scenarios(hosts, nics):
    """{name: [(host, rail) that is dead]}, those whose rails are there."""
    found = {"healthy": [],
             "one NIC": [(0, 3)],
             "two NICs, two hosts": [(0, 3), (hosts // 2, 5)],
             "two NICs, two hosts, mates": [(0, 2), (hosts // 2, 3)],
             "two NICs of one host": [(0, 3), (0, 5)],
             "a rail switch": [(h, 3) for h in range(hosts)]}
    return {name: dead for name, dead in found.items() if all(rail < nics for _, rail in dead)}


def dead_between(gone, host, hosts, nics):
    """Rails that are dead at this host or at the next of the ring."""
    return {rail for rail in range(nics) if (host, rail) in gone or ((host + 1) % hosts, rail) in gone}


def closed_form(backup, dead, hosts, qps, nics):
    worst = max(len(dead_between(set(dead), host, hosts, nics)) for host in range(hosts))
    return shares.factor(backup, worst, types.SimpleNamespace(nics=nics, qps=qps))


def ways(backup, rail, dead, qps, nics, moved):
    """The rail that each of its queue pairs takes. moved: how many were shared out already between these hosts."""
    if rail not in dead:
        return [rail] * qps
    if backup == "pair":
        return [shares.mate(rail)] * qps
    alive = [r for r in range(nics) if r not in dead]
    return [alive[(moved + q) % len(alive)] for q in range(qps)]


def flows(backup, dead, hosts, qps, nics):
    """(NIC, NIC, queue pairs) of a step."""
    gone = set(dead)
    for host in range(hosts):
        peer, moved = (host + 1) % hosts, 0
        dead_here = dead_between(gone, host, hosts, nics)
        for rail in range(nics):
            taken = ways(backup, rail, dead_here, qps, nics, moved)
            moved += qps if rail in dead_here else 0
            for way in sorted(set(taken)):
                yield host * nics + way, peer * nics + way, taken.count(way)


def step(found, qps):
    """How long they take, s."""
    nic = {n: simgrid.Host.by_name(f"n{n}") for flow in found for n in flow[:2]}
    began = simgrid.Engine.clock
    simgrid.Comm.wait_all([simgrid.Comm.sendto_async(nic[a], nic[b], STEP_BYTES * n // qps) for a, b, n in found])
    return simgrid.Engine.clock - began


def load(hosts, nics):
    engine = simgrid.Engine(["rail", "--log=root.thres:error", *(f"--cfg={setting}" for setting in MODEL)])
    with tempfile.NamedTemporaryFile("w", suffix=".xml", delete=False) as f:
        f.write(PLATFORM.format(last=hosts * nics - 1, bandwidth=BANDWIDTH, latency=LATENCY))
    try:
        engine.load_platform(f.name)
    finally:
        os.unlink(f.name)
    return engine


def survives(backup, dead, hosts, nics):
    return all(shares.survives(backup, dead_between(set(dead), host, hosts, nics), nics) for host in range(hosts))


def compare(hosts, qps, backup, nics):
    """A row for each scenario in which every connection has a way."""
    healthy = None
    for name, dead in scenarios(hosts, nics).items():
        if not survives(backup, dead, hosts, nics):
            continue
        took = step(list(flows(backup, dead, hosts, qps, nics)), qps)
        healthy = healthy or took
        yield {"hosts": hosts, "qps": qps, "backup": backup, "dead": name, "ms": 1e3 * took,
               "factor": took / healthy, "closed": closed_form(backup, dead, hosts, qps, nics)}


def measure(hosts, qps_list, nics):
    """Rows of one process: SimGrid has one engine in each."""
    rows = []

    def all_of_them():
        for qps in qps_list:
            for backup in shares.BACKUPS:
                rows.extend(compare(hosts, qps, backup, nics))

    engine = load(hosts, nics)
    simgrid.Actor.create("step", simgrid.Host.by_name("n0"), all_of_them)
    engine.run()
    return rows
