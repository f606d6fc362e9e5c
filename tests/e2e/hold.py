#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A NIC that has fallen several times is well again, and traffic does not return to it yet: status says why, and for how long.

  hold.py --build DIR [--seed N] [--rounds N] [CASE...]
"""
import os
import random
import sys

from shiftlab.lab import PATIENT, Shift, cases_main, free_port, wait_for
from shiftlab.perftest import SOON, Failed

QPS = 2
HOSTS = ("h0", "h1")
HOLD_MS = 4000      # of the first fall; no fall is forgotten in a test


def pair(lab, hold_ms):
    """Two processes with connections that rest."""
    argv = [os.path.join(lab.out, "bin", "control"), "--port", free_port(), "--qps", QPS]
    shift = Shift(log="info", **{**SOON, **PATIENT, "holddown_ms": hold_ms, "holddown_max_ms": 16 * hold_ms})
    ends = [lab.start(host, argv + [end], end[2:], shift, stdin=True) for host, end in zip(HOSTS, ("--server", "--client"))]
    await_all(lab, ends, "protection", lambda q: q["level"] == "protected")
    return ends


def await_all(lab, ends, what, truth, hosts=HOSTS):
    def all_are(host):
        for p in ends:
            if not p.running():
                raise Failed(f"{p.name} ended\n{p.tail()}")
        found = lab.connections(host)
        return len(found) == QPS and all(map(truth, found))

    for host in hosts:
        wait_for(f"{what}, {host}", lambda host=host: all_are(host), 60)


def end(ends):
    for p in ends:
        p.say("end")
    for p in ends:
        if p.wait(60):
            raise Failed(f"{p.name} ended with {p.process.returncode}\n{p.tail()}")


def held(lab, rng):
    """Each fall doubles the time; the table says it as JSON does; when it is over the connections are back, and nothing is held."""
    ends = pair(lab, HOLD_MS)
    await_all(lab, ends, "nothing held", lambda q: q["held"] is None)
    falls = rng.randint(1, 3)
    for i in range(falls):
        lab.fault("port-down", "h0/mlx5_0")
        await_all(lab, ends, "move", lambda q: q["nic"] == "mlx5_1" and q["held"] is None)
        lab.ctl("heal", "h0/mlx5_0")
        await_all(lab, ends, "hold", lambda q: q["held"] is not None)
    for q in lab.connections("h0"):     # the other end saw no port of its own fall
        if q["nic"] != "mlx5_1" or q["held"]["nic"] != "mlx5_0" or q["held"]["falls"] != falls or \
           not 0 < q["held"]["left_ms"] <= HOLD_MS << (falls - 1):
            raise Failed(f"{q['nic']}, held {q['held']} after {falls} falls")
    table = lab.shiftctl("h0", "status")
    if table.count("mlx5_0 is well, and held down for ") != QPS or table.count(f"(falls: {falls})") != QPS:
        raise Failed(f"the table does not say it:\n{table}")
    if lab.shiftctl("h1", "status").count("mlx5_0 is well, and held down") != QPS:
        raise Failed("the other end's table does not say it")
    await_all(lab, ends, "return", lambda q: q["nic"] == "mlx5_0" and q["held"] is None)
    end(ends)


def not_a_drain(lab, rng):
    """Where an operator keeps traffic off a NIC, no hold-down does."""
    ends = pair(lab, HOLD_MS)
    host = rng.choice(HOSTS)
    lab.shiftctl(host, "drain", "mlx5_0", "--wait", "30")
    await_all(lab, ends, "move", lambda q: q["nic"] == "mlx5_1")
    await_all(lab, ends, "nothing held", lambda q: q["held"] is None)
    lab.shiftctl(host, "undrain", "mlx5_0")
    await_all(lab, ends, "return", lambda q: q["nic"] == "mlx5_0" and q["held"] is None)
    end(ends)


CASES = {"held": held, "not_a_drain": not_a_drain}


if __name__ == "__main__":
    sys.exit(cases_main(CASES, lambda lab, name: CASES[name](lab, random.Random(lab.seed)), seeded=True))
