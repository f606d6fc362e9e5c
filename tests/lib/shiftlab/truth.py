# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Two ends of the program `truth`, or more, and all that an operator is told of them."""
import json
import os
import re
import socket

from shiftlab.lab import Shift, free_port, wait_for
from shiftlab.perftest import SOON, Failed

HOSTS = ("h0", "h1")


class Ends:
    """Ends of truth, protected: a server on h0, and a client on h1, or more on the next hosts."""

    def __init__(self, lab, qps=1, peers=1, log="info", protected=True, client=None, env=None,
                 before=(), name="", **settings):
        """
        protected: wait for it. client: a Shift of its own, or "stock". before: what runs the
        programs. name: of a second job on the same hosts.
        """
        self.lab, self.qps, self.peers = lab, qps, peers
        shift = Shift(**{"log": log, "backup": "pair", **SOON, **settings})
        client = None if client == "stock" else client or shift
        argv = [*before, os.path.join(lab.out, "bin", "truth"), "-p", free_port()]
        env = {"TRUTH_QPS": str(qps), **(env or {})}
        self.server = lab.start("h0", argv + ["-s"], name + "server", shift, stdin=True,
                                env={**env, "TRUTH_PEERS": str(peers)})
        self.clients = [lab.start(f"h{1 + i}", argv, f"{name}client{i or ''}", client, env=env,
                                  stdin=True) for i in range(peers)]
        self.client = self.clients[0]
        self.both = (self.server, *self.clients)
        for p in self.both:
            self.said(p, "TALKED")
        for i in range(peers + 1) if protected else ():
            self.await_protected(f"h{i}", qps * (peers if not i else 1))

    def await_protected(self, host, n):
        wait_for(f"{n} protected connections on {host}", lambda: sum(
            q["level"] == "protected" for q in self.lab.connections(host, of=self.both)) >= n, 60)

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
        loud = [line for line in lines if re.search(r" (warn|error): ", line)]
        return loud if level == "warn" else lines

    def events(self, host):
        text = self.lab.shiftctl(host, "events", "--json", check=False)
        return [json.loads(line) for line in text.splitlines()]

    def event(self, host, kind, timeout=30):
        """The first event of a kind; the program must run yet."""
        def them():
            return [e for e in self.events(host) if e["kind"] == kind]
        return wait_for(f"event {kind} on {host}", them, timeout)[0]

    def stalled(self, host, *causes, qps=1):
        """Events that tell so many stalled connections, whatever else a busy machine made of them."""
        def them():
            found = [e for e in self.events(host) if e["kind"] == "stalled" and e["cause"] in causes]
            return found if sum(e["qps"] for e in found) >= qps else None
        return wait_for(f"{qps} stalled on {host} by {causes}", them, 40)

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
