#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What an operator is told, the first time: who broke, where, and what to do. Each case makes a situation, and reads
the log, `shiftctl status`, `events` and the counters of both hosts.

  truth.py --build DIR [CASE...]
"""
import json
import os
import re
import socket
import sys

from shiftlab.lab import Shift, cases_main, free_port, wait_for
from shiftlab.perftest import SOON, Failed

HOSTS = ("h0", "h1")


class Ends:
    """Two ends of truth, protected: server on h0, client on h1."""

    def __init__(self, lab, qps=1, protected=True, client="h1", **settings):
        self.lab, self.qps = lab, qps
        self.shift = Shift(**{"log": "info", "backup": "pair", **SOON, **settings})
        argv = [os.path.join(lab.out, "bin", "truth"), "-p", free_port()]
        env = {"TRUTH_QPS": str(qps)}
        self.server = lab.start("h0", argv + ["-s"], "server", self.shift, env=env, stdin=True)
        self.client = lab.start(client, argv, "client", self.shift, env=env, stdin=True)
        self.both = (self.server, self.client)
        for p in self.both:
            self.said(p, "TALKED")
            if protected:
                wait_for(f"protection of {p.name}", lambda p=p: lab.protected(p) >= qps or not p.running(), 30)

    def said(self, p, word, n=1):
        """The n-th line that begins with this word."""
        def lines():
            return re.findall(rf"^{word}\b(.*)$", p.out(), re.M)
        wait_for(f"{word} of {p.name}", lambda: len(lines()) >= n or not p.running(), 30)
        if len(lines()) < n:
            raise Failed(f"{p.name} ended with {p.process.returncode} before {word}: {p.tail()}")
        return lines()[n - 1].strip()

    def talk(self):
        before = [len(re.findall(r"^TALKED", p.out(), re.M)) for p in self.both]
        for p in self.both:
            p.say("talk")
        for p, n in zip(self.both, before):
            self.said(p, "TALKED", n + 1)

    def end(self):
        for p in self.both:
            p.say("end")
        for p in self.both:
            if p.wait(30):
                raise Failed(f"{p.name} ended with {p.process.returncode}: {p.tail()}")

    # ---- what is told ----------------------------------------------------------------------------

    def log(self, p, level=None):
        """The lines of SHIFT's log; of a level and above."""
        lines = self.lab.shift_log(p).splitlines()
        return [line for line in lines if re.search(r" (warn|error): ", line)] if level == "warn" else lines

    def events(self, host):
        return [json.loads(line) for line in self.lab.shiftctl(host, "events", "--json", check=False).splitlines()]

    def event(self, host, kind, timeout=30):
        """The first event of a kind; the program must run yet."""
        def them():
            return [e for e in self.events(host) if e["kind"] == kind]
        return wait_for(f"event {kind} on {host}", them, timeout)[0]

    def failures(self, host):
        """What the alert for lost connections is made of."""
        metrics = json.loads(self.ask(host, b"metrics\n"))
        return {cause: n for f in metrics["failed"] for cause, n in f["connections"].items() if n}

    def ask(self, host, text):
        folder = self.lab.run_dir(host)
        name, = [n for n in os.listdir(folder) if n.endswith(".sock")]
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(os.path.join(folder, name))
            s.sendall(text)
            answer = b""
            while more := s.recv(65536):
                answer += more
        return answer

    def status(self, host):
        return json.loads(self.lab.shiftctl(host, "status", "--json"))["processes"][0]

    def table(self, host):
        return self.lab.shiftctl(host, "status")


def must(what, ok, *context):
    if not ok:
        raise Failed(what + "".join(f"\n{c}" for c in context))


# ---- errors of a program (P6) --------------------------------------------------------------------

REM_INV_REQ, REM_ACCESS, LOC_PROT, LOC_LEN = 9, 10, 4, 1


def program_err(how, client):
    """Both ends say that a program erred, and neither that SHIFT could not move a connection."""
    def case(lab):
        ends = Ends(lab)
        ends.client.say("err " + how)
        ends.client.say("status")
        must("status", int(ends.said(ends.client, "STATUS")) == client, ends.client.tail())
        ended = [ends.event(host, "ended") for host in HOSTS]
        must("causes", {e["cause"] for e in ended} == {"application", "peer-application"} or
             [e["cause"] for e in ended] == ["application", "application"], ended)
        must("both ends are named", all(e["from"] == "mlx5_0" and e["qps"] == 1 for e in ended), ended)
        for host, p in zip(HOSTS, ends.both):
            must("no failure of SHIFT's", not [e for e in ends.events(host) if e["kind"] == "failed"], ends.events(host))
            must("no alert", not ends.failures(host), ends.failures(host))
            text = "\n".join(ends.log(p))
            must("the log does not blame a path", "could not be moved" not in text and "cannot go on" not in text, text)
            must("the log says whose error it is", re.search(r"QP 0x\w+ .*program", text), text)
        ends.end()
    return case


def overrun(lab):
    """The receiver lets more completions lie than the backup's queue holds: no NIC has died."""
    lab.ctl("limit", "h0/mlx5_1", "cqe", 1023)
    ends = Ends(lab)
    for p in ends.both:
        p.say("deep")
    for p in ends.both:
        ends.said(p, "MADE")
    for p in ends.both:
        wait_for("protection", lambda p=p: lab.protected(p) == 2, 30)
    lab.fault("port-down", "h0/mlx5_0")
    wait_for("moves", lambda: all(lab.shift_log(p).count("moved from mlx5_0 to mlx5_1") == 2 for p in ends.both), 30)
    ends.client.say("send 1700")
    ends.said(ends.client, "SENT")
    for host in HOSTS:
        failed = ends.event(host, "failed")
        must("the cause", failed["cause"] == "cq-error" and "completion queue" in failed["why"], failed)
    for p in ends.both:
        must("no NIC has died", "a NIC died" not in lab.shift_log(p), lab.shift_log(p))


CASES = {
    "overrun": overrun,
    **{f"wrong_{how}": program_err(how, status) for how, status in
       (("rkey", REM_ACCESS), ("lkey", LOC_PROT), ("bounds", REM_ACCESS), ("read", REM_ACCESS), ("length", REM_INV_REQ))},
}


def run(lab, name):
    CASES[name](lab)


if __name__ == "__main__":
    sys.exit(cases_main(CASES, run))
