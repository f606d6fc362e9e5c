#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Two ends whose SHIFT has different protocols: nothing is protected, both say which protocols these are and what
to do, and nothing else happens to the job. And peers without SHIFT, or that come late: what they cost.

  versions.py --build DIR [CASE...]; without cases all, the long one too
"""
import json
import os
import re
import sys
import time

from shiftlab.lab import Shift, cases_main, free_port, wait_for
from shiftlab.perftest import SOON, Failed
from shiftlab.variants import variant

ASKED = re.compile(r"^shift: debug: \[([\d.]+)\] QP (0x\w+): KV: put -?\d+, get of ", re.M)
ABSENT = "its peer does not run SHIFT, or has not said so"
RARE_S = 1.8
LOOKS_5S, LOOKS_90S = 8, 10   # 0, 1, 5, 21, 85, 341 ms, 1.4, 5.5, 21.8, 87 s
QPS = 40
OTHER = 99          # protocol of a variant


def start(lab, server, client):
    """Both ends of a connection, to "talk" to each other at a word; client None: without SHIFT."""
    argv = [os.path.join(lab.out, "bin", "crowd")]
    port = free_port()
    return [lab.start("h0", argv + ["-s", port], "server", server, stdin=True),
            lab.start("h1", argv + [port], "client", client, stdin=True)]


def talk(programs):
    for p in programs:
        p.say("go")


def end(programs):
    for p in programs:
        p.say("end")
    for p in programs:
        if p.wait(60) or not p.out().endswith("OK\n"):
            raise Failed(f"{p.name} ended with {p.process.returncode}")


def all_are(lab, hosts, test):
    qps = [q for host in hosts for q in lab.connections(host)]
    return len(qps) == QPS * len(hosts) and all(test(q) for q in qps)


def differs(lab):
    programs = start(lab, Shift(log="info", **SOON),
                     Shift(libdir=variant(lab.out, f"protocol_{OTHER}"), log="info", **SOON))
    wait_for("the other protocol", lambda: all_are(lab, ("h0",), lambda q: q["peer_protocol"] == OTHER), 60)
    own = json.loads(lab.shiftctl("h0", "status", "--json"))["processes"][0]["protocol"]
    for host, p, theirs, ours in (("h0", programs[0], OTHER, own), ("h1", programs[1], own, OTHER)):
        why = (f"the other end has protocol {theirs}, this end has protocol {ours}: "
               "run the same version of SHIFT at both ends")
        wait_for("reason in the status", lambda host=host, why=why, theirs=theirs: all_are(
            lab, (host,), lambda q: (q["level"], q["why"], q["peer_protocol"]) == ("driven", why, theirs)), 60)
        if why not in lab.shiftctl(host, "status"):
            raise Failed(f"shiftctl status does not say it on {host}")
        if f"is not believed: {why}" not in lab.shift_log(p):
            raise Failed(f"{p.name} has not said it")
    talk(programs)
    end(programs)


def asked(lab, program):
    """When each queue pair asked the KV, by its log at level debug."""
    times = {}
    for at, qp in ASKED.findall(lab.shift_log(program)):
        times.setdefault(qp, []).append(float(at))
    return times


def gaps(times):
    return [b - a for a, b in zip(times, times[1:])]


def await_rare(lab, program):
    """Until each asks less often than once in RARE_S."""
    def rare():
        times = asked(lab, program).values()
        return times and all(gaps(t) and gaps(t)[-1] > RARE_S for t in times)

    wait_for("rare questions", rare, 60)


def stock(lab):
    """Without SHIFT at the other end: the note, and questions that become rare."""
    programs = start(lab, Shift(log="debug", **SOON), None)
    wait_for("the note", lambda: all_are(lab, ("h0",), lambda q: q["why"] == ABSENT), 60)
    n = max(len(t) for t in asked(lab, programs[0]).values())
    print(f"       questions until the note: at most {n} for each", flush=True)
    if n > LOOKS_5S:
        raise Failed(f"more than {LOOKS_5S}")
    talk(programs)
    await_rare(lab, programs[0])
    end(programs)


def stock_90s(lab):
    programs = start(lab, Shift(log="debug", lease_ms=6000, **SOON), None)
    talk(programs)
    time.sleep(90)
    n = [len(t) for t in asked(lab, programs[0]).values()]
    print(f"       questions in 90 s: {min(n)} to {max(n)} for each", flush=True)
    if len(n) != QPS or max(n) > LOOKS_90S:
        raise Failed(f"more than {LOOKS_90S}")
    end(programs)


def late(lab):
    """The peer comes when questions are rare: it speaks to us, and is asked for at once."""
    argv = [os.path.join(lab.out, "bin", "abuse"), "late-peer", "--port", free_port()]
    shift = Shift(log="debug", **SOON)
    programs = [lab.start("h0", argv + ["--server"], "server", shift, stdin=True),
                lab.start("h1", argv + ["--client"], "client", shift, stdin=True)]
    await_rare(lab, programs[0])
    for p in programs:
        p.say("connect")
    wait_for("protection", lambda: all(lab.protected(p) for p in programs), 60)
    between = gaps(next(iter(asked(lab, programs[0]).values())))
    if not any(a > RARE_S and b < 2 * a for a, b in zip(between, between[1:])):     # else 4 * a
        raise Failed(f"it was not asked for when it spoke: {between}")
    for p in programs:
        p.say("go")
    for p in programs:
        if p.wait(60):
            raise Failed(f"{p.name} ended with {p.process.returncode}")


CASES = {"differs": differs, "stock": stock, "late": late, "stock_90s": stock_90s}

if __name__ == "__main__":
    sys.exit(cases_main(list(CASES), lambda lab, name: CASES[name](lab)))
