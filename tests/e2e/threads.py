#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Eight threads in each of two processes post to and poll what they share, through repeated switches
to the backup NIC and back. Under a build with a sanitizer it must have nothing to say.

  threads.py --build DIR [--seed N] [--few | CASE...]
"""
import os
import random
import re
import sys

from shiftlab.lab import Shift, cases_main, draw, free_port, wait_for
from shiftlab.perftest import SOON, Failed

QPS = 12
ENOUGH = 2000       # messages: more than can be under way
COUNT = re.compile(r"^COUNT (\d+)$", re.M)
HOSTS = ("h0", "h1")
LINK = ("port-down", "cut-message")
BACKUP_LEVEL = {"mlx5_0": "protected", "mlx5_1": "driven"}
DEATH = ("nic-internal-error", "nic-disassociate", "nic-hang")
CASES = {   # what each switch is drawn from; how many
    "calm": ((), 0),
    "links": (LINK, 4),
    "drains": (("drain",), 4),
    "deaths": (DEATH, 3),
    "mixed": (LINK + DEATH + ("drain", "switch-down"), 6),
}


class Fault:
    """Of the first NIC of a host, or of its switch; it may fall at a message."""

    def __init__(self, rng, kinds):
        self.kind = rng.choice(kinds)
        self.host = rng.choice(HOSTS)
        self.target = "rail0" if self.kind == "switch-down" else self.host + "/mlx5_0"
        self.at_message = None
        if self.kind not in ("drain", "switch-down") and rng.random() < 0.5:
            self.at_message = rng.randint(1, 200)

    def __str__(self):
        return self.kind + " " + self.target + (f" at +{self.at_message}" if self.at_message else "")

    def begin(self, lab):
        if self.kind == "drain":
            lab.shiftctl(self.host, "drain", "mlx5_0")
        else:
            lab.fault(self.kind, self.target, at_message=self.at_message)

    def finish(self, lab):
        if self.kind == "drain":
            lab.shiftctl(self.host, "undrain", "mlx5_0")
        else:
            lab.ctl("heal", self.target)


def alive(programs):
    for p in programs:
        if not p.running():
            raise Failed(f"{p.name} ended with {p.process.returncode}")


def await_on(lab, programs, nic):
    """All are there; and protected again, where there is a NIC for that."""
    def there():
        alive(programs)
        qps = [q for host in HOSTS for q in lab.connections(host)]
        return len(qps) == len(HOSTS) * QPS and all(
            q["nic"] == nic and q["level"] in ("protected", BACKUP_LEVEL[nic]) for q in qps)

    wait_for("all queue pairs on " + nic, there, 60, 0.05)


def counts(p):
    before = len(COUNT.findall(p.out()))
    p.say("count")
    wait_for("count of " + p.name, lambda: len(COUNT.findall(p.out())) > before or not p.running(),
             20)
    alive([p])
    return int(COUNT.findall(p.out())[-1])


def await_traffic(programs):
    for p in programs:
        before = counts(p)
        wait_for("messages to " + p.name, lambda p=p, n=before: counts(p) > n + ENOUGH, 30)


def start(lab):
    argv = [os.path.join(lab.out, "bin", "threads"), "-p", free_port(), "-S", lab.seed]
    shift = Shift(log="info", **SOON)
    return [lab.start("h0", argv + ["-s"], "server", shift, stdin=True),
            lab.start("h1", argv, "client", shift, stdin=True)]


def run(lab, name):
    kinds, switches = CASES[name]
    rng = random.Random(f"{lab.seed} {name}")
    programs = start(lab)
    await_on(lab, programs, "mlx5_0")
    await_traffic(programs)
    for _ in range(switches):
        fault = Fault(rng, kinds)
        print(f"       {fault}", flush=True)
        fault.begin(lab)
        await_on(lab, programs, "mlx5_1")
        await_traffic(programs)
        fault.finish(lab)
        await_on(lab, programs, "mlx5_0")
        await_traffic(programs)
    for p in programs:
        p.say("end")
    for p in programs:
        if p.wait(90) or not re.search(r"^OK [1-9]", p.out(), re.M):
            raise Failed(f"{p.name} ended with {p.process.returncode}")
    print("       " + ", ".join(f"{p.name} got {p.out().split()[-1]}" for p in programs), flush=True)


def few():
    """What mixes all, and one of those that it is mixed of."""
    return ["calm", *draw(("links", "drains", "deaths"), 1), "mixed"]


if __name__ == "__main__":
    sys.exit(cases_main(CASES, run, seeded=True, few=few))
