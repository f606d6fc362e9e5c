#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Asynchronous events: what a fault tells whom. The same words and the same faults on stock and under SHIFT: where a queue
pair is not protected, the program hears the same events in the same order; else it is owed them, and hears them in time.

  told.py --build DIR [CASE...]
"""
import ctypes
import json
import os
import re
import shutil
import sys

from shiftlab.lab import Shift, cases_main, free_port, wait_for
from shiftlab.perftest import SOON, Failed

FATAL, PORT_ACTIVE, PORT_ERR, GID_CHANGE, PKEY_CHANGE = 8, 9, 10, 18, 12
NAMES = {FATAL: "DEVICE_FATAL", PORT_ACTIVE: "PORT_ACTIVE", PORT_ERR: "PORT_ERR", GID_CHANGE: "GID_CHANGE",
         PKEY_CHANGE: "PKEY_CHANGE"}
RETRY_EXC_ERR = 12
DOWN, ACTIVE, ENOLINK = 1, 4, 67      # the last one: of a device with an internal error
NIC = "h0/mlx5_0"


class Ends:
    """Two ends of told, of which the server is watched."""

    def __init__(self, lab, shift, env=None):
        self.lab, self.shift = lab, shift
        how = Shift(log="info", backup="pair", **SOON) if shift else None
        argv = [os.path.join(lab.out, "bin", "told"), "-p", free_port()]
        kind = "shift" if shift else "stock"
        self.server = lab.start("h0", argv + ["-s"], "server-" + kind, how, env, stdin=True)
        self.client = lab.start("h1", argv, "client-" + kind, how, env, stdin=True)
        self.both = (self.server, self.client)
        for p in self.both:
            self.await_count(p, "TALKED", 1)
            if shift:
                self.wait(p, "protection", lambda p=p: lab.protected(p))

    def wait(self, p, what, test):
        wait_for(f"{what} of {p.name}", lambda: test() or not p.running(), 30)
        if not test():
            raise Failed(f"{p.name} ended with {p.process.returncode} before {what}: {p.tail()}")

    def await_count(self, p, word, n):
        self.wait(p, f"{word} number {n}", lambda: len(re.findall(rf"^{word}\b", p.out(), re.M)) >= n)

    def say(self, word, answer):
        """To the server; what it answers behind that word."""
        before = len(re.findall(rf"^{answer}\b", self.server.out(), re.M))
        self.server.say(word)
        self.await_count(self.server, answer, before + 1)
        return re.findall(rf"^{answer}(.*)$", self.server.out(), re.M)[-1].split()

    def number(self, word, answer):
        return int(self.say(word, answer)[-1])

    def talk(self):
        """Under SHIFT alone: the connection lives."""
        if not self.shift:
            return
        n = [len(re.findall(r"^TALKED", p.out(), re.M)) for p in self.both]
        for p in self.both:
            p.say("talk")
        for p, before in zip(self.both, n):
            self.await_count(p, "TALKED", before + 1)

    def moved(self, n=1):
        if self.shift:
            self.wait(self.server, "move", lambda: len(re.findall(
                r"QP 0x\w+ (moved from|return)", self.lab.shift_log(self.server))) >= n)

    def events(self):
        return [int(n) for n in re.findall(r"^EVENT (\d+)", self.server.out(), re.M)]

    def heard(self, *events):
        self.wait(self.server, "events " + " ".join(NAMES[e] for e in events),
                  lambda: len(self.events()) >= len(events))
        self.must("events", self.events(), list(events))

    def kept(self, *events):
        """Under SHIFT: they are held back, says its log, and the program has heard none of them."""
        for e in events:
            self.wait(self.server, NAMES[e] + " held back", lambda: len(re.findall(
                r"mlx5_0: .* is held back", self.lab.shift_log(self.server))) >= len(events))
        self.must("events", self.events(), [])

    def owes(self, **counts):
        """Under SHIFT: so much of mlx5_0 does shiftctl say."""
        if not self.shift:
            return
        status = json.loads(self.lab.shiftctl("h0", "status", "--json"))
        nics = {nic["name"]: nic["owed"] for nic in status["processes"][0]["nics"]}
        self.must("owed elsewhere", sum(nics["mlx5_1"].values()), 0)
        self.must("owed", {kind: n for kind, n in nics["mlx5_0"].items() if n}, counts)

    def must(self, what, found, wanted):
        if found != wanted:
            raise Failed(f"{self.server.name}: {what}: {found} instead of {wanted}")

    def end(self):
        for p in self.both:
            p.say("end")
        for p in self.both:
            if p.wait(30):
                raise Failed(f"{p.name} ended with {p.process.returncode}: {p.tail()}")


def alike(lab, script):
    """The script on stock and under SHIFT: the same answers, and the same events."""
    seen = []
    for shift in (False, True):
        ends = Ends(lab, shift)
        answers = script(ends)
        ends.end()
        seen.append((answers, ends.events()))
        lab.ctl("heal", "all")
        lab.ctl("destroy")
        lab.ctl("create", "--hosts", "2", "--nics", "2")
    if seen[0] != seen[1]:
        raise Failed(f"stock: {seen[0]}, SHIFT: {seen[1]}")


# ---- a queue pair that is not protected ------------------------------------------------------------


def bystander(ends, kind):
    ends.say("init " + kind, "INIT")
    ends.must("connect", ends.number("connect", "CONNECT"), 0)


def death_beside(kind):
    def script(ends):
        bystander(ends, kind)
        ends.lab.fault("nic-internal-error", NIC)
        ends.heard(FATAL)
        ends.moved()
        ends.talk()
        return [ends.say("make " + what, "MADE") for what in ("cq", "mr", "pd", "qp")]
    return lambda lab: alike(lab, script)


def death_beside_failed(lab):
    """It has had its errors. The program has not stopped it, and hears of its device what it hears on stock."""
    def script(ends):
        bystander(ends, "rc")
        ends.must("status", ends.number("fail", "FAILED"), RETRY_EXC_ERR)
        ends.lab.fault("nic-internal-error", NIC)
        ends.heard(FATAL)
        ends.moved()
        ends.talk()
        return [ends.say("make cq", "MADE"), ends.number("port", "PORT")]
    alike(lab, script)


def channel_beside(kind):
    """A thread waits on a completion channel that only the bystander uses: its wait ends with the NIC."""
    def script(ends):
        ends.say("listen", "LISTENS")
        bystander(ends, kind)
        ends.lab.fault("nic-disassociate", NIC)
        ends.await_count(ends.server, "WAITED", 1)
        ends.heard(FATAL)
        ends.moved()
        ends.talk()
    return lambda lab: alike(lab, script)


def looked_at(lab, shift=True, env=None):
    """What a program finds that only looks at the channel of its datagrams, on a NIC that is taken away, and then."""
    ends = Ends(lab, shift, env)
    ends.say("watch", "LOOKS")
    bystander(ends, "ud")
    ends.must("look before", ends.say("look", "LOOKED"), ["EAGAIN", "0"])
    lab.fault("nic-disassociate", NIC)
    ends.heard(FATAL)
    ends.moved()
    ends.talk()
    looks = [ends.say("look", "LOOKED") for _ in range(2)]
    ends.end()
    return looks


def channel_looked_at(lab):
    for shift in (False, True):
        looks = looked_at(lab, shift)
        if [word for word, _ in looks] != ["error", "error"]:
            raise Failed(f"{'SHIFT' if shift else 'stock'}: {looks}")
        for word in ("heal all", "destroy", "create --hosts 2 --nics 2"):
            lab.ctl(*word.split())


def channel_looked_at_by_ucx(lab):
    """UCX would end the process, and the connection that has moved with it."""
    ctypes.CDLL("libutil.so.1")
    with open("/proc/self/maps", encoding="ascii") as f:
        some = re.search(r"/\S*/libutil\S*", f.read()).group()
    ucx = os.path.join(lab.folder, "libuct_ib.so.0")
    shutil.copy(some, ucx)
    looks = looked_at(lab, env={"LD_PRELOAD": ucx})
    if looks[1] != ["EAGAIN", "0"]:
        raise Failed(f"UCX finds {looks}")


def port_beside(kind):
    def script(ends):
        bystander(ends, kind)
        ends.lab.fault("port-down", NIC)
        ends.heard(PORT_ERR)
        ports = [ends.number("port", "PORT")]
        ends.moved()
        ends.talk()
        ends.lab.fault("port-up", NIC)
        ends.heard(PORT_ERR, PORT_ACTIVE)
        return ports + [ends.number("port", "PORT")]
    return lambda lab: alike(lab, script)


def tables_move(lab):
    """Nothing fails: the change is told at once, and the connection goes on."""
    def script(ends):
        ends.lab.ctl("move-gid", NIC, 3)
        ends.heard(GID_CHANGE)
        ends.talk()
    alike(lab, script)


# ---- nobody but connections that are masked ----------------------------------------------------------


def dead(lab):
    ends = Ends(lab, True)
    die(ends)
    return ends


def die(ends):
    ends.lab.fault("nic-internal-error", NIC)
    ends.moved()
    ends.kept(FATAL)
    ends.owes(device_fatal=1)
    ends.talk()
    ends.must("port", ends.number("port", "PORT"), ACTIVE)


def death_alone(lab):
    """Until the last masked connection has gone; then the program opens the device anew, as on stock."""
    def script(ends):
        if ends.shift:
            die(ends)
        else:
            ends.lab.fault("nic-internal-error", NIC)
        ends.say("destroy", "DESTROYED")
        ends.heard(FATAL)
        ends.owes()
        answer = ends.say("make cq", "MADE")
        ends.lab.ctl("reprobe", NIC)
        ends.heard(FATAL, FATAL)    # and the old one is taken away
        ends.say("reopen", "REOPENED")
        return answer
    alike(lab, script)


def death_then_error(lab):
    """The program stops it without destroying it."""
    ends = dead(lab)
    ends.say("error", "ERR")
    ends.heard(FATAL)
    ends.end()


def death_then_made(what):
    def case(lab):
        """An object cannot be made: the reason is there."""
        ends = dead(lab)
        ends.must("creation", ends.say("make " + what, "MADE"), [what, str(ENOLINK)])
        ends.heard(FATAL)
        ends.talk()
        ends.end()
    return case


def death_then_connected(lab):
    """A queue pair that was not connected yet when the NIC died."""
    ends = Ends(lab, True)
    ends.say("init rc", "INIT")
    lab.fault("nic-internal-error", NIC)
    ends.moved()
    ends.kept(FATAL)
    ends.must("connected", ends.number("connect", "CONNECT"), ENOLINK)
    ends.heard(FATAL)
    ends.talk()
    ends.end()


def bystander_gone_before(lab):
    """Who has left needs nothing, nor who is stopped."""
    ends = Ends(lab, True)
    bystander(ends, "ud")
    ends.must("gone", ends.number("gone", "GONE"), 0)
    for kind in ("ud", "rc"):
        bystander(ends, kind)
        ends.must("stopped", ends.number("stop", "STOPPED"), 0)
    ends.say("init uc", "INIT")
    lab.fault("nic-internal-error", NIC)
    ends.moved()
    ends.kept(FATAL)
    ends.talk()
    ends.end()


def port_alone(lab):
    """A flap that is masked is not told, and the port looks well."""
    ends = Ends(lab, True)
    lab.fault("port-down", NIC)
    ends.moved()
    ends.kept(PORT_ERR)
    ends.must("port", ends.number("port", "PORT"), ACTIVE)
    lab.fault("port-up", NIC)
    ends.moved(2)
    ends.kept(PORT_ERR, PORT_ACTIVE)
    ends.must("port", ends.number("port", "PORT"), ACTIVE)
    lab.fault("port-down", NIC)     # and the next fault is one of its own
    ends.moved(3)
    bystander(ends, "ud")
    ends.heard(PORT_ERR)
    ends.end()


def port_twice(lab):
    """A port that says twice that it is down, and twice that it is up, as soft-RoCE's does: stock hears all, a masked flap is none."""
    def script(ends):
        ends.lab.ctl("quirk", NIC, "port-twice")
        if ends.shift:
            ends.lab.fault("port-down", NIC)
            ends.moved()
            ends.kept(PORT_ERR, PORT_ERR)
            ends.lab.fault("port-up", NIC)
            ends.moved(2)
            ends.kept(PORT_ERR, PORT_ERR, PORT_ACTIVE, PORT_ACTIVE)
        bystander(ends, "ud")
        ends.lab.fault("port-down", NIC)
        ends.heard(PORT_ERR, PORT_ERR)
        ends.lab.fault("port-up", NIC)
        ends.heard(PORT_ERR, PORT_ERR, PORT_ACTIVE, PORT_ACTIVE)
    alike(lab, script)


def port_then_connected(lab):
    """A queue pair comes while the port is down, and is not protected: from then on it is told all."""
    ends = Ends(lab, True)
    lab.fault("port-down", NIC)
    ends.moved()
    ends.kept(PORT_ERR)
    bystander(ends, "uc")
    ends.heard(PORT_ERR)
    ends.must("port", ends.number("port", "PORT"), DOWN)
    ends.talk()
    lab.fault("port-up", NIC)
    ends.heard(PORT_ERR, PORT_ACTIVE)
    ends.must("port", ends.number("port", "PORT"), ACTIVE)
    ends.end()


def port_then_destroyed(lab):
    ends = Ends(lab, True)
    lab.fault("port-down", NIC)
    ends.moved()
    ends.kept(PORT_ERR)
    ends.say("destroy", "DESTROYED")
    ends.heard(PORT_ERR)
    ends.must("port", ends.number("port", "PORT"), DOWN)
    lab.fault("port-up", NIC)
    ends.heard(PORT_ERR, PORT_ACTIVE)
    ends.end()


def tables_move_meanwhile(lab):
    """A table that changes while its port is down: the program hears of it when the port is back, once."""
    ends = Ends(lab, True)
    lab.fault("port-down", NIC)
    ends.moved()
    ends.kept(PORT_ERR)
    for index in (3, 5):
        lab.ctl("move-gid", NIC, index)
    ends.kept(PORT_ERR, GID_CHANGE, GID_CHANGE)
    ends.owes(port_err=1, gid_change=1)
    ends.talk()
    lab.fault("port-up", NIC)
    ends.heard(GID_CHANGE)
    ends.owes()
    ends.talk()
    ends.end()


CASES = {
    **{f"death_beside_{kind}": death_beside(kind) for kind in ("ud", "uc", "rc")},
    **{f"channel_beside_{kind}": channel_beside(kind) for kind in ("ud", "uc", "rc")},
    "channel_looked_at": channel_looked_at,
    "channel_looked_at_by_ucx": channel_looked_at_by_ucx,
    **{f"port_beside_{kind}": port_beside(kind) for kind in ("ud", "uc", "rc")},
    **{f"death_then_{what}": death_then_made(what) for what in ("cq", "mr", "pd", "qp")},
    **{f.__name__: f for f in (tables_move, death_beside_failed, death_alone, death_then_error, death_then_connected,
                               bystander_gone_before, port_alone, port_twice, port_then_connected, port_then_destroyed,
                               tables_move_meanwhile)},
}


def run(lab, name):
    CASES[name](lab)


if __name__ == "__main__":
    sys.exit(cases_main(CASES, run))
