#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The critical alert: raised by no script in which nothing but programs erred, and by each in which a connection was lost.

  alerts.py --build DIR [--runs N] [--seed S] [--kind programs|lost]

N scripts of each kind, of seeds S, S + 1, ...: a script that fails is named by its seed. A server on h0 has a client on h1
and one on h2: whose program ends is told from a dead network by the peer that still answers.
"""
import argparse
import os
import random
import signal
import sys

from shiftlab.lab import draw_seed, run_case, run_cases, wait_for
from shiftlab.outputs import Outputs
from shiftlab.perftest import Failed
from shiftlab.truth import Ends

FABRIC = {"hosts": 3, "nics": 2}
HOSTS = ("h0", "h1", "h2")
DEADLINE_MS = 2500
TOGETHER = 3
ERRS = ("rkey", "lkey", "bounds", "read", "length", "atomic")
OWN = ("port-down", "cable-down", "nic-internal-error", "nic-hang", "silent")


class Script:
    """Ends that work through what is drawn, and the alert at each host."""

    def __init__(self, lab, seed, **env):
        self.lab, self.random = lab, random.Random(seed)
        self.outputs = Outputs(lab, HOSTS)
        self.ends = Ends(lab, peers=2, log="warn", deadline_ms=DEADLINE_MS, env=env)
        self.did = []

    def note(self, what):
        self.did.append(what)

    def done(self, programs):
        """A request on each connection, to its end; the statuses that are no success."""
        for p in programs:
            p.say("work")
        for p in programs:
            p.say("done")
        said = [self.ends.said(p, "DONE") for p in programs]
        return [status for status in said if status != "0"]

    def alarmed(self):
        return [host for host in HOSTS if self.outputs.alert(host)]

    def await_event(self, host, *kinds):
        wait_for(f"{' or '.join(kinds)} on {host} after {self.did}", lambda: [
            e for e in self.ends.events(host) if e["kind"] in kinds], 40)


# ---- what programs do wrong ------------------------------------------------------------------------

def errs(script, client, host):
    how = script.random.choice(ERRS)
    who, ends = script.random.choice(((client, script.ends), (script.ends.server, script.ends)))
    script.note(f"{who.name} err {how}")
    who.say("err " + how)
    who.say("status")
    ends.said(who, "STATUS")
    script.await_event("h0", "ended")
    if who is client:
        script.await_event(host, "ended")


def posts_no_receive(script, client, host):
    script.note(f"no receives for {client.name}")
    client.say("rnr")
    client.say("status")
    script.ends.said(client, "STATUS")
    script.await_event(host, "ended")


def stops(script, *_):
    script.note("the clients are stopped for a while")
    for p in script.ends.clients:
        os.kill(p.pid, signal.SIGSTOP)
    script.ends.server.say("rnr")
    script.await_event("h0", "stalled", "ended")
    for p in script.ends.clients:
        os.kill(p.pid, signal.SIGCONT)


def goes(how):
    def step(script, client, _):
        script.note(f"{client.name} {how}")
        if how == "is killed":
            client.kill()
        elif how == "ends":
            client.say("end")
            client.wait(30)
        else:
            client.say("close")
            script.ends.said(client, "CLOSED")
        if not script.done([script.ends.server]):
            script.note("nobody got an error")
        script.await_event("h0", "failed", "ended")
    return step


MISTAKES = (errs, errs, posts_no_receive, stops, goes("is killed"), goes("ends"), goes("closes"))


def programs(lab, seed):
    script = Script(lab, seed, TRUTH_RNR="1" if seed % 2 else "7")
    mistakes = [m for m in MISTAKES if seed % 2 or m is not posts_no_receive]
    mistake = script.random.choice(mistakes)
    i = script.random.randrange(2)
    mistake(script, script.ends.clients[i], f"h{1 + i}")
    if script.alarmed():
        raise Failed(f"the alert is raised on {script.alarmed()} for: {', '.join(script.did)}")


# ---- what is lost ----------------------------------------------------------------------------------

def cut(script, host, nic):
    kind = script.random.choice(OWN)
    script.note(f"{kind} {host}/{nic}")
    for fault in ("lose-tx", "lose-rx") if kind == "silent" else (kind,):
        script.lab.fault(fault, f"{host}/{nic}")


def lost(lab, seed):
    """No path is left to a host, or to any, for longer than connections wait."""
    script = Script(lab, seed)
    if script.random.random() < 0.2:
        for rail in ("rail0", "rail1"):
            script.note("switch-down " + rail)
            lab.fault("switch-down", rail)
    else:
        host = script.random.choice(HOSTS)
        for nic in script.random.sample(("mlx5_0", "mlx5_1"), 2):
            cut(script, host, nic)
    errors = script.done(script.ends.both)
    if not errors:
        raise Failed(f"nothing was lost by: {', '.join(script.did)}")
    wait_for(f"the alert after: {', '.join(script.did)}", script.alarmed, 30)


KINDS = {"programs": programs, "lost": lost}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=draw_seed())
    parser.add_argument("--kind", choices=KINDS)
    args = parser.parse_args()
    todo = [(kind, args.seed + i) for i in range(args.runs) for kind in KINDS if args.kind in (None, kind)]

    def passes(case):
        kind, seed = case
        return run_case(args.build, f"--kind {kind} --seed {seed}", lambda lab: KINDS[kind](lab, seed), **FABRIC)
    return run_cases(todo, passes, TOGETHER)


if __name__ == "__main__":
    sys.exit(main())
