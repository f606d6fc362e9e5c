#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Clients add to one word of a server whose NICs' atomics are atomic on one NIC only (IBV_ATOMIC_HCA). Some of them are
moved, which leads to another NIC of the server: no increment may be lost.

  home.py --build DIR [CASE...]
  home.py --build DIR --few            without what --increments does, too; one of those that must lose; two rounds
  home.py --build DIR --increments N   N of them, and drains at both ends until they are done
  home.py --build DIR --together N     the same of two processes of one SHIFT_ATOMIC_GROUP, and faults, too
"""
import argparse
import json
import os
import re
import signal
import sys
import time

from shiftlab.lab import Shift, cases_main, draw, free_port, run_case, wait_for
from shiftlab.perftest import SOON, Failed, said

GOOD = "success"
ROUNDS = 3
AWAY_S = 0.4
HOME = "atomics of the connections of mlx5_0 are at home on {} now"


class Counting:
    """A server on h1, clients on other hosts, each with its arguments or None for no SHIFT; more come later. The
    server's SHIFT does not drive the connection of the client number `foreign`. shared: the file in which the word is;
    of several such servers each has a number. loopback: the server adds, too, over a queue pair to itself."""

    def __init__(self, lab, clients, more=0, foreign=-1, shared=None, number=0, loopback=False, **settings):
        self.foreign, self.hosts, self.number, self.loopback = foreign, (0, 2, 3)[number:], number, loopback
        self.lab = lab
        self.argv = [os.path.join(lab.out, "bin", "home"), "-p", str(free_port())]
        self.shift = Shift(log=settings.pop("log", "info"), **dict(SOON, **settings))
        self.server = lab.start("h1", self.argv + ["-s", "-n", str(len(clients) + more), "-f", str(foreign)]
                                + (["-m", shared] if shared else []) + (["-l"] if loopback else []), f"server{number or ''}", self.shift, stdin=True)
        self.clients = []
        for i, args in enumerate(clients):
            self.client(i, args)
        for p in self.clients:
            p.say("go")
        for p in self.clients:
            said(p, r"^GOOD \d+$")

    def client(self, i, args):
        p = self.lab.start(f"h{self.hosts[i]}", self.argv + (args or []), f"client{self.number + i}",
                           None if args is None else self.shift, stdin=True)
        said(p, "^CONNECTED")
        self.clients.append(p)
        if args is not None and i != self.foreign:
            wait_for(f"protection of {p.name}", lambda: self.lab.protected(p) or not p.running(), 30)

    def good(self, i):
        return int((re.findall(r"^GOOD (\d+)$", self.clients[i].out(), re.M) or ["0"])[-1])

    def goes_on(self, i, seconds=30):
        """It has completed some more; or has ended."""
        before = self.good(i)
        wait_for(f"progress of client{i}", lambda: self.good(i) > before or "ADDED" in self.clients[i].out() or
                 not self.clients[i].running(), seconds)

    def home(self, nic, times):
        """How often the server said so."""
        line = HOME.format(nic)
        wait_for(f"home on {nic} for the {times}. time",
                 lambda: self.lab.shift_log(self.server).count(line) >= times or not self.server.running(), 30)

    def stop(self, adds=None, dies=()):
        """All clients end: additions, those under way, in disorder. dies: clients that may end with errors."""
        done = under_way = disorder = 0
        for i, p in enumerate(self.clients):
            p.say("end")
            good, rest, wrong, status = said(p, r"^ADDED (\d+), (\d+) under way, (\d+) in disorder: (.*)$", 90).groups()
            print(f"       client{i}: {good}, {rest} under way, {wrong} in disorder: {status}")
            if status != GOOD and i not in dies:
                raise Failed(f"client{i} ended: {status}")
            if adds is None or i in adds:
                done, under_way, disorder = done + int(good), under_way + int(rest), disorder + int(wrong)
        return done, under_way, disorder

    def end(self, adds=None, dies=(), others=(0, 0, 0)):
        """All end; how many increments were lost. others: what others have added to the same word."""
        done, under_way, disorder = map(sum, zip(self.stop(adds, dies), others))
        self.server.say("done")
        if self.loopback:
            *own, status = said(self.server, r"^SELF ADDED (\d+), (\d+) under way, (\d+) in disorder: (.*)$", 90).groups()
            print(f"       itself: {own[0]}, {own[1]} under way, {own[2]} in disorder: {status}")
            if status != GOOD:
                raise Failed(f"the server's own additions ended: {status}")
            done, under_way, disorder = map(sum, zip((done, under_way, disorder), map(int, own)))
        counter = int(said(self.server, r"^COUNTER (\d+)$")[1])
        print(f"       {done} additions, {counter} counted, {under_way} under way")
        self.counter = counter
        if counter > done + under_way:
            raise Failed(f"{counter} counted of {done} additions and {under_way} under way")
        for p in self.clients + [self.server]:
            if p.wait(60):
                raise Failed(f"{p.name} ended with {p.process.returncode}: {p.tail()}")
        return done - counter, disorder


def exact(lost, disorder):
    if lost > 0 or disorder:
        raise Failed(f"{lost} additions lost, {disorder} answers that another one had had")


def drained(lab, host, counting, home_too=True):
    for i in range(ROUNDS):
        lab.shiftctl(host, "drain", "mlx5_0")
        if home_too:
            counting.home("mlx5_1", i + 1)
        for c in range(len(counting.clients)):
            counting.goes_on(c)
        time.sleep(AWAY_S)
        lab.shiftctl(host, "undrain", "mlx5_0")
        if home_too:
            counting.home("mlx5_0", i + 1)
        for c in range(len(counting.clients)):
            counting.goes_on(c)


def drain_client(lab):
    counting = Counting(lab, [[], [], []])
    drained(lab, "h0", counting)
    exact(*counting.end())


def drain_server(lab):
    counting = Counting(lab, [[], []])
    drained(lab, "h1", counting)
    exact(*counting.end())


def loopback(lab):
    """The server adds by a queue pair to itself: what its own NIC executes is no other NIC's either."""
    counting = Counting(lab, [[], []], loopback=True)
    for host in ("h0", "h1"):
        lab.shiftctl(host, "drain", "mlx5_0")
        own_goes_on(counting)
        for c in range(2):
            counting.goes_on(c)
        time.sleep(AWAY_S)
        lab.shiftctl(host, "undrain", "mlx5_0")
        own_goes_on(counting)
        for c in range(2):
            counting.goes_on(c)
        time.sleep(AWAY_S)
    exact(*counting.end())


def own_goes_on(counting):
    def own():
        return int((re.findall(r"^SELF GOOD (\d+)$", counting.server.out(), re.M) or ["0"])[-1])

    before = own()
    wait_for("progress of the server's own", lambda: own() > before or not counting.server.running(), 30)


def writes_stay(lab):
    """Who adds nothing is not moved, and does not wait."""
    counting = Counting(lab, [[], ["-r"], []])
    drained(lab, "h0", counting)
    exact(*counting.end(adds=(0, 2)))
    if os.environ.get("SHIFT_ENGINE") == "ledger":
        print("       not looked at: the ledger does not keep whether there were atomics, so all move")
    elif "moved from" in lab.shift_log(counting.clients[1]):
        raise Failed("a client without atomics was moved")


def port(lab):
    """A fault may end the client whose atomics ran without their answers; nobody loses any."""
    counting = Counting(lab, [[], []])
    for _ in range(ROUNDS):
        lab.ctl("fault", "port-down", "h0/mlx5_0", "--for", str(AWAY_S))
        for c in range(2):
            counting.goes_on(c)
        time.sleep(AWAY_S)
    exact(*counting.end(dies=(0,)))


def off(lab):
    """What this is for, and that such a loss is seen here."""
    counting = Counting(lab, [[], [], []], atomic_home="off")
    drained(lab, "h0", counting, home_too=False)
    lost, disorder = counting.end()
    print(f"       {lost} additions lost, {disorder} in disorder")
    if not lost:
        raise Failed("nothing was lost: this test could not fail")


def late(lab):
    """A client that comes while the others are away: its atomics would run on the default NIC."""
    counting = Counting(lab, [[], []], more=1)
    lab.shiftctl("h0", "drain", "mlx5_0")
    counting.home("mlx5_1", 1)
    counting.client(2, [])
    if "refuses atomics until" not in lab.shift_log(counting.server):
        raise Failed("the server should say that the new connection has to wait")
    counting.clients[2].say("go")
    counting.goes_on(2)
    lab.shiftctl("h0", "undrain", "mlx5_0")
    counting.home("mlx5_0", 1)
    counting.goes_on(2)
    exact(*counting.end())


def two_processes(lab, first=0, groups=(None, None), **settings):
    """Of one host, with a client each; their word is in memory that they share. first: that many come now."""
    shared = os.path.join(lab.folder, "word")
    with open(shared, "xb") as f:
        f.truncate(4096)

    def come(i, clients=([],), more=0):
        named = dict(settings, **({"atomic_group": groups[i]} if groups[i] else {}))
        return Counting(lab, clients, more=more, shared=shared, number=i, **named)
    return come(0), (lambda: come(1, [], 1)) if first else come(1)


def shared_end(mover, other):
    others = mover.stop()
    lost = other.end(others=others)
    mover.server.say("done")
    for p in mover.clients + [mover.server]:
        if p.wait(60):
            raise Failed(f"{p.name} ended with {p.process.returncode}: {p.tail()}")
    return lost


def shared(lab):
    """The mover's atomics wait, as others might run elsewhere; when it is back they go on."""
    mover, other = two_processes(lab, atomic_home="fixed")
    waits_away(lab, mover, other)
    if not all(qp["atomics_alone"] for qp in alone_here(lab)) or len(alone_here(lab)) != 2:
        raise Failed("the status should say that their atomics stay where they are")
    exact(*shared_end(mover, other))


WORDS = ("words", "words")
APART = "atomics on memory that other processes may have, too"


def shared_unsaid(lab):
    """Nobody names them: what SHIFT does not know is not moved."""
    mover, other = two_processes(lab)
    for counting in (mover, other):
        wait_for("the warning", lambda c=counting: APART in lab.shift_log(c.server) or not c.server.running(), 30)
    waits_away(lab, mover, other)
    exact(*shared_end(mover, other))


def shared_two_names(lab):
    """What the name is for, and that such a loss is seen here: each is told that it is alone."""
    mover, other = two_processes(lab, groups=("one", "two"))
    for i in range(ROUNDS):
        lab.shiftctl("h0", "drain", "mlx5_0")
        mover.home("mlx5_1", i + 1)
        other.goes_on(0)
        mover.goes_on(0)
        time.sleep(AWAY_S)
        lab.shiftctl("h0", "undrain", "mlx5_0")
        mover.goes_on(0)
    lost, disorder = shared_end(mover, other)
    print(f"       {lost} additions lost, {disorder} in disorder")
    if not lost:
        raise Failed("nothing was lost: this test could not fail")


def together(countings, nic, times):
    for counting in countings:
        counting.home(nic, times)
    for counting in countings:
        for c in range(len(counting.clients)):
            counting.goes_on(c)


def shared_group(lab):
    """A client of one process is drained, then the host of both: both processes go, and come back."""
    both = two_processes(lab, groups=WORDS)
    status = json.loads(lab.shiftctl("h1", "status", "--json"))["processes"]
    if [(p["atomic_group"], p["atomic_processes"]) for p in status] != [("words", 2)] * 2:
        raise Failed(f"the status should tell the group: {status}")
    for i in range(2 * ROUNDS):
        host = ("h0", "h1")[i % 2]
        lab.shiftctl(host, "drain", "mlx5_0")
        together(both, "mlx5_1", i + 1)
        time.sleep(AWAY_S)
        lab.shiftctl(host, "undrain", "mlx5_0")
        together(both, "mlx5_0", i + 1)
    if any("may have, too" in lab.shift_log(c.server) for c in both):
        raise Failed("they are named: nobody is to be warned")
    exact(*shared_end(*both))


def shared_group_port(lab):
    """Ports fail, of a client, then of the host of both: one whose atomic ran without its answer may end."""
    both = two_processes(lab, groups=WORDS)
    for i in range(ROUNDS):
        lab.ctl("fault", "port-down", ("h0/mlx5_0", "h1/mlx5_0")[i % 2], "--for", str(AWAY_S))
        for counting in both:
            counting.goes_on(0)
        time.sleep(AWAY_S)
    others = both[0].stop(dies=(0,))
    lost = both[1].end(others=others, dies=(0,))
    both[0].server.say("done")
    exact(*lost)


def shared_group_late(lab):
    """A process comes while the first is away: its atomics would run on the default NIC."""
    mover, come = two_processes(lab, first=1, groups=WORDS)
    lab.shiftctl("h0", "drain", "mlx5_0")
    mover.home("mlx5_1", 1)
    other = come()
    other.client(0, [])
    if "refuses atomics until" not in lab.shift_log(other.server):
        raise Failed("the server should say that the new connection has to wait")
    wait_for("its right", lambda: "takes atomics from now on" in lab.shift_log(other.server), 30)
    other.clients[0].say("go")
    for counting in (mover, other):
        counting.goes_on(0)
    lab.shiftctl("h0", "undrain", "mlx5_0")
    mover.home("mlx5_0", 1)
    for counting in (mover, other):
        counting.goes_on(0)
    exact(*shared_end(mover, other))


def shared_group_stopped(lab):
    """A process that says nothing keeps the others waiting, until it is killed."""
    mover, other = two_processes(lab, groups=WORDS)
    other.server.process.send_signal(signal.SIGSTOP)
    lab.shiftctl("h0", "drain", "mlx5_0")
    # it may have the board just then; and its last word may be older than its connection's protection
    reasons = f"wait for process {other.server.pid}", "is one stopped?", f"for process {other.server.pid}, which has"
    wait_for("the reason", lambda: any(r in lab.shift_log(mover.server) for r in reasons) or not mover.server.running(), 30)
    before = mover.good(0)
    time.sleep(AWAY_S)
    if mover.good(0) > before + 1000:
        raise Failed("its atomics should wait")
    other.server.kill()
    mover.goes_on(0)
    wait_for("its end", lambda: "has ended" in lab.shift_log(mover.server) or not mover.server.running(), 30)
    others = other.stop(dies=(0,))
    for p in other.clients:
        p.wait(60)
    exact(*mover.end(others=others))


def alone_here(lab):
    """The server's queue pairs that keep atomics on the default NIC, as its status says."""
    status = json.loads(lab.shiftctl("h1", "status", "--json"))
    return [qp for process in status["processes"] for qp in process["qps"] if qp["atomics_alone"]]


def waits_away(lab, mover, other):
    """The atomics of mover's first client wait while it is away, as often as it is; those of other's last one go on."""
    for i in range(2):
        lab.shiftctl("h0", "drain", "mlx5_0")
        wait_for("the reason", lambda i=i: lab.shift_log(mover.clients[0]).count("takes no part") > i
                 or not mover.clients[0].running(), 30)
        before = mover.good(0)
        other.goes_on(len(other.clients) - 1)
        time.sleep(AWAY_S)
        if mover.good(0) > before + 1000 or "takes no part" not in lab.shiftctl("h0", "status", "--json"):
            raise Failed("its atomics should wait, and the status should say so")
        if "its atomics wait: the peer has a connection" not in lab.shiftctl("h0", "status"):
            raise Failed("the table should say so, too")
        lab.shiftctl("h0", "undrain", "mlx5_0")
        mover.goes_on(0)
        if "takes no part" in lab.shiftctl("h0", "status", "--json"):
            raise Failed("its atomics run, but the status says that they wait")


def stays(lab, counting):
    """The first client is moved away, and its atomics wait for the other connection."""
    waits_away(lab, counting, counting)
    exact(*counting.end())


def alone(lab):
    """One client without SHIFT stays where it is: who is moved away from it waits until it is back."""
    stays(lab, Counting(lab, [[], None]))


def foreign(lab):
    """The same where the server's SHIFT does not drive one of its queue pairs."""
    counting = Counting(lab, [[], []], foreign=1)
    kept = alone_here(lab)
    if len(kept) != 1 or kept[0]["level"] != "foreign" or kept[0]["type"] != "RC":
        raise Failed(f"the status should tell which queue pair keeps atomics where they are: {kept}")
    stays(lab, counting)


def foreign_late(lab):
    """Such a one comes while the others are away, and gets no atomics before they are back."""
    counting = Counting(lab, [[]], more=1, foreign=1)
    lab.shiftctl("h0", "drain", "mlx5_0")
    counting.home("mlx5_1", 1)
    counting.client(1, [])
    if "does not drive, refuses atomics" not in lab.shift_log(counting.server):
        raise Failed("the server should say that the new connection has to wait")
    if alone_here(lab):
        raise Failed("it keeps nobody on its NIC")
    counting.goes_on(0)
    lab.shiftctl("h0", "undrain", "mlx5_0")
    wait_for("its right", lambda: "takes atomics from now on" in lab.shift_log(counting.server), 30)
    wait_for("the status", lambda: alone_here(lab), 30)
    counting.clients[1].say("go")
    counting.goes_on(1)
    exact(*counting.end())


def increments(lab, n):
    """Three clients, moved by turns at their own end and at the server's."""
    counting = Counting(lab, [[], [], []])
    ends, moves = ("h0", "h1", "h2"), 0
    while sum(counting.good(c) for c in range(3)) < n:
        host = ends[moves % len(ends)]
        lab.shiftctl(host, "drain", "mlx5_0")
        counting.home("mlx5_1", moves + 1)
        for c in range(3):
            counting.goes_on(c)
        lab.shiftctl(host, "undrain", "mlx5_0")
        counting.home("mlx5_0", moves + 1)
        for c in range(3):
            counting.goes_on(c)
        moves += 1
    exact(*counting.end())
    print(f"       no increment was lost; the home moved {2 * moves} times")


CYCLE = ("drain h0", "drain h1", "port h0 0.4", "drain h2", "port h1 0.4", "port h0 3")


def ended(both):
    return any("ADDED" in c.clients[0].out() for c in both)


def at_home(lab, both, nic):
    """Of both, who go on there."""
    def is_home(counting):
        return (re.findall(HOME.format(r"(\w+)"), lab.shift_log(counting.server)) or ["mlx5_0"])[-1] == nic
    for counting in both:
        wait_for(f"home on {nic}", lambda c=counting: is_home(c) or not c.server.running() or ended(both), 60)
    for counting in both:
        counting.goes_on(0)


def disturb(lab, both, what):
    """A drain moves both processes, there and back; a port that fails may, and may end who has an atomic under way."""
    kind, host, *lasts = what.split()
    if kind == "port":
        lab.ctl("fault", "port-down", host + "/mlx5_0", "--for", lasts[0])
        time.sleep(float(lasts[0]))
    else:
        lab.shiftctl(host, "drain", "mlx5_0")
        at_home(lab, both, "mlx5_1")
        lab.shiftctl(host, "undrain", "mlx5_0")
    at_home(lab, both, "mlx5_0")


def together_round(lab, n, done):
    """Until n are done, or one client has ended, as it may when its atomic ran and the answer was lost."""
    both, moves = two_processes(lab, groups=WORDS), 0
    while sum(c.good(0) for c in both) < n and not ended(both):
        disturb(lab, both, CYCLE[moves % len(CYCLE)])
        moves += 1
    others = both[0].stop(dies=(0,))
    lost = both[1].end(others=others, dies=(0,))
    both[0].server.say("done")
    exact(*lost)
    went = len(re.findall(HOME.format(r"\w+"), lab.shift_log(both[0].server)))
    done.append((both[1].counter, moves, went))


def increments_together(build, n):
    done, rounds = [], 0
    while sum(counter for counter, _, _ in done) < n:
        rounds += 1
        left = n - sum(counter for counter, _, _ in done)
        if not run_case(build, f"together {rounds}", lambda lab, left=left: together_round(lab, left, done), hosts=4):
            return 1
    added, moves, went = map(sum, zip(*done))
    print(f"none of {added} increments by two processes was lost through {moves} drains and failed ports, the home moved {went} "
          f"times; in {rounds} rounds, each but the last to the end of a client")
    return 0


CASES = {f.__name__: f for f in (drain_client, drain_server, loopback, writes_stay, port, off, alone, late, foreign,
                              foreign_late, shared, shared_unsaid, shared_two_names, shared_group,
                              shared_group_port, shared_group_late, shared_group_stopped)}

# Each client and the server drained by turns: --increments does that, too.
DRAINED = ("drain_client", "drain_server")
# Which show that a loss is seen.
LOSING = ("off", "shared_two_names")


def few():
    global ROUNDS
    ROUNDS = 2
    left_out = {*DRAINED, *LOSING} - set(draw(LOSING, 1))
    return [name for name in CASES if name not in left_out]


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--build")
    parser.add_argument("--increments", type=int)
    parser.add_argument("--together", type=int)
    args, _ = parser.parse_known_args()
    if args.increments:
        return 0 if run_case(args.build, "increments", lambda lab: increments(lab, args.increments), hosts=4) else 1
    if args.together:
        return increments_together(args.build, args.together)
    return cases_main(CASES, lambda lab, name: CASES[name](lab), few=few, hosts=4)


if __name__ == "__main__":
    sys.exit(main())
