#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Memory that no exported verb registers: who uses it is not called protected before a fault, but for what
SHIFT registers on the other NIC all the same.

  unseen.py --build DIR [CASE...]
"""
import os
import sys

from shiftlab.lab import Shift, cases_main, free_port, wait_for

LIMIT = 40.0
# A busy machine is not to look like a NIC that hangs, or a silent switch.
STEADY = {"hang_ms": 5000, "command_ms": 5000, "heartbeat_loss_ms": 5000, "silence_ms": 5000}


class Failed(Exception):
    """What a case found wrong."""


class Pair:
    """Both ends."""

    def __init__(self, lab, scenario, **env):
        self.lab = lab
        argv = [os.path.join(lab.out, "bin", "unseen"), scenario]
        port = str(free_port())
        self.ends = [lab.start(host, argv + [side, port], side.strip("-"),
                               Shift(log="info", **STEADY), {"SIMNIC_DEVX": "1", **env}, stdin=True)
                     for host, side in (("h0", "--server"), ("h1", "--client"))]
        self.said("CONNECTED")

    def alive(self):
        for p in self.ends:
            if not p.running() and p.process.returncode:
                raise Failed(f"{p.name} ended with {p.process.returncode}: {p.tail()}")

    def said(self, word):
        for p in self.ends:
            wait_for(f"{word} of {p.name}",
                     lambda p=p: word in p.out().splitlines() or not p.running(), LIMIT)
            if word not in p.out().splitlines():
                raise Failed(f"{p.name} ended with {p.process.returncode}, before {word}: {p.tail()}")

    def say(self, word):
        for p in self.ends:
            p.say(word)

    def qps(self):
        return [q for host in ("h0", "h1") for q in self.lab.connections(host)]

    def protected(self):
        wait_for("protection of both ends", lambda: self.alive() or
                 sum(q["level"] == "protected" for q in self.qps()) == 2, LIMIT)

    def unprotected(self, why):
        """Both are, and one says why."""
        def told():
            self.alive()
            qps = self.qps()
            return (len(qps) == 2 and all(q["level"] == "driven" for q in qps) and
                    any(why in (q["why"] or "") for q in qps))

        try:
            wait_for("the reason", told, LIMIT)
        except Exception:
            raise Failed(f"not told that {why}, but " +
                         ", ".join(f"{q['level']}: {q['why']}" for q in self.qps())) from None

    def warned(self, text, times=1):
        n = sum(text in row and "warn" in row for p in self.ends
                for row in self.lab.shift_log(p).splitlines())
        if n != times:
            raise Failed(f"{n} lines of warning with '{text}', not {times}")

    def done(self):
        for p in self.ends:
            if p.wait(LIMIT) or "OK" not in p.out().splitlines():
                raise Failed(f"{p.name} ended with {p.process.returncode}: {p.tail()}")


def marked(lab):
    """Where a provider makes a key, SHIFT sees it: from then on, until it is destroyed."""
    reasons = {"dm": "memory of the device itself", "devx": "by DEVX", "mkey": "by DEVX"}
    pair = Pair(lab, ",".join(reasons))
    pair.protected()
    for kind, why in reasons.items():
        pair.say(kind)
        pair.said(f"MADE {kind}")
        pair.unprotected(why)
        pair.say("use")
        pair.said(f"FREED {kind}")
        pair.protected()
    pair.say("both")
    pair.said("MADE both")
    pair.unprotected(reasons["dm"])
    pair.say("half")
    pair.said("HALF")
    pair.unprotected(reasons["devx"])
    pair.say("use")
    pair.said("FREED both")
    pair.protected()
    pair.warned("connections of a protection domain are not protected", 2)
    pair.say("end")
    pair.done()


def direct(lab):
    """NCCL's data direct: the other NIC registers the buffer likewise, and a fault is survived."""
    pair = Pair(lab, "direct")
    pair.protected()
    lab.fault("port-down", "h0/mlx5_0")
    pair.say("go")
    pair.say("end")
    pair.done()
    if not any(lab.moves(p) for p in pair.ends):
        raise Failed("nothing moved")


def direct_nowhere(lab):
    """The other NIC cannot: a plain registration, which it would do, does not lead to the buffer."""
    pair = Pair(lab, "direct", DIRECT_ON="mlx5_0")
    pair.unprotected("its memory could not be registered on the NIC of the standby")
    pair.say("go")
    pair.say("end")
    pair.done()


def local(lab):
    """A key of sends that SHIFT never saw is found in the ring; when it is used no more, all is well."""
    pair = Pair(lab, "local")
    pair.protected()
    pair.say("go")
    pair.unprotected("has memory that SHIFT does not know")
    pair.warned("has memory that SHIFT does not know")
    pair.say("stop")
    pair.said("STOPPED")
    pair.protected()
    pair.say("end")
    pair.done()


def remote(lab):
    """The same of one that the peer never told."""
    pair = Pair(lab, "remote")
    pair.protected()
    pair.say("go")
    pair.unprotected("names memory that its peer has not told of")
    pair.say("stop")
    pair.said("STOPPED")
    pair.say("end")
    pair.done()


def receive(lab):
    """The same of a receive that waits."""
    pair = Pair(lab, "receive")
    pair.protected()
    pair.say("go")
    pair.unprotected("has memory that SHIFT does not know")
    pair.say("stop")
    pair.say("end")
    pair.done()


CASES = {"marked": marked, "direct": direct, "direct_nowhere": direct_nowhere, "local": local, "remote": remote, "receive": receive}


if __name__ == "__main__":
    sys.exit(cases_main(CASES, lambda lab, name: CASES[name](lab)))
