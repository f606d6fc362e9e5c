# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Storms: a rail dies, and all connections on it leave. BUILD/out/bin/cluster_storm (storm/) runs the real core of
every end in virtual time; here is what its costs are, and what is asked of it.

Costs, ns, fitted to the times that bench/scale.py measured:
step        an event of a connection: the core, and what its shell and engine do for it
datagram    sent, or received
wake        of the background thread
latency     of a datagram, with the wait of who receives it for a core
late        a worker that slept for a command comes back so much later: both cores are busy then"""
import json
import math
import os
import subprocess

from clustermodel import inputs

COSTS = ("step", "datagram", "wake", "latency", "late")
GUESS = {"step": 5000, "datagram": 8000, "wake": 30000, "latency": 150000, "late": 50000}
WITHIN = 0.2            # of each measured time
OWN_CORES = {"late": 0, "latency": 20000}   # left out, and invented, for hosts whose threads share no core
STEPS = (1.5, 1.2, 1.08, 1.03)
HOSTS = (2, 4, 8, 16, 32, 64)
BEYOND_HOSTS = (128, 256)       # shown as extrapolated
PATTERNS = ("ring", "16 peers", "all-to-all")
MEASURED_QPS = 4096             # of a NIC; what is beyond is shown as extrapolated


def program(build):
    return os.path.join(build, "out", "bin", "cluster_storm")


def run(build, costs, command_ns, **asked):
    """One storm. asked: its options, but for costs."""
    options = {**{k.replace("_", "-"): v for k, v in asked.items()}, **costs, "command": command_ns}
    argv = [program(build), *(f"--{name}={value}" for name, value in options.items())]
    return json.loads(subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout)


# ---- fitted ---------------------------------------------------------------------------------------

def points(rows):
    """[{qps, command_us, ms, messages, datagrams, unasked}] of inputs.json, whose times are of ends that asked nobody."""
    names = ("qps", "command_us", "ms", "messages", "datagrams")
    return [{**dict(zip(names, row)), "unasked": 1} for row in rows]


def measured(out):
    """Of OUT/scale.json if all numbers of queue pairs are there, else those of inputs.json; and which."""
    usual = points(inputs.values().scale)
    path = os.path.join(out, "scale.json")
    if not os.path.exists(path):
        return usual, "inputs.json"
    with open(path, encoding="utf-8") as f:
        rows = [r for r in json.load(f)["rows"] if not r["lazy"] and not r["build"]]
    found = [{**{k: r[k] for k in ("qps", "command_us", "messages", "datagrams")}, "ms": r["median_ms"],
              "unasked": 0} for r in rows]
    have, want = ({(p["qps"], p["command_us"]) for p in some} for some in (found, usual))
    return (found, path) if want <= have else (usual, "inputs.json")


def command(command_us, costs, p):
    """Its time, and the costs that hold then: who does not sleep for a command does not come late."""
    if command_us:
        return int(1000 * (p.command_100_us - 100 + command_us)), costs
    return int(1000 * p.command_free_us), {**costs, "late": 0}


def compare(build, costs, point, p):
    command_ns, these = command(point["command_us"], costs, p)
    here = run(build, these, command_ns, hosts=2, channels=point["qps"], fault="nic", unasked=point["unasked"])
    return {**point, "model_ms": here["ms"], "model_messages": here["messages"], "model_datagrams": here["datagrams"],
            "error": here["ms"] / point["ms"] - 1}


def errors(build, costs, found, p):
    return [compare(build, costs, point, p) for point in found]


def badness(rows):
    """The worst ratio, and a little of all others."""
    logs = [abs(math.log1p(row["error"])) for row in rows]
    return max(logs) + sum(logs) / (10 * len(logs))


def fit(build, found, p, start=None):
    """Costs under which the worst of the times is least wrong: one after the other, by ever smaller steps."""
    best = dict(start or GUESS)
    least = badness(errors(build, best, found, p))
    for step in STEPS:
        better = True
        while better:
            better = False
            for name in COSTS:
                for factor in (step, 1 / step):
                    costs = {**best, name: max(1, int(best[name] * factor))}
                    bad = badness(errors(build, costs, found, p))
                    if bad < least - 1e-6:
                        best, least, better = costs, bad, True
    return best


def held_out(build, found, p):
    """The points of most queue pairs, by costs that are fitted to all others: is the model good beyond what it saw?"""
    most = max(point["qps"] for point in found)
    costs = fit(build, [point for point in found if point["qps"] < most], p, p.storm_costs)
    return errors(build, costs, [point for point in found if point["qps"] == most], p)


# ---- asked ----------------------------------------------------------------------------------------

def peers_of(hosts, pattern):
    return {"ring": min(2, hosts - 1), "16 peers": min(16, hosts - 1), "all-to-all": hosts - 1}[pattern]


def storm(build, costs, hosts, pattern, qps, p, command_us=100, own_cores=False, **asked):
    """A rail switch dies under `hosts` hosts whose NICs have about `qps` queue pairs each."""
    peers = peers_of(hosts, pattern)
    command_ns, these = command(command_us, {**costs, **(OWN_CORES if own_cores else {})}, p)
    low, high = (int(1e6 * ms) for ms in p.noticed_ms)
    here = run(build, these, command_ns, hosts=hosts, peers=peers, channels=max(1, round(qps / peers)),
               noticed_min=low, noticed_max=high, **{"fault": "switch", **asked})
    return {**here, "pattern": pattern, "command_us": command_us, "own_cores": own_cores,
            "messages_per_qp": here["messages"] / here["connections"],
            "extrapolated": own_cores or here["qps"] > MEASURED_QPS or hosts > max(HOSTS)}
