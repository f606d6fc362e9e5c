#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Runs abuse: verbs in every order that is allowed, with faults between.

  abuse.py --build DIR                 all cases
  abuse.py --build DIR --only reset    cases whose name begins so
  abuse.py --build DIR --few           of cases that are much alike one, drawn
"""
import argparse
import os
import random
import re
import signal
import socket
import sys
import time

from shiftlab.lab import Lab, Shift, draw, free_port, out_folder, sanitizer_of, wait_for

LIMIT = 30.0
# Where no NIC hangs, and no switch is silent, a busy machine is not to look like that.
STEADY = {"hang_ms": 5000, "command_ms": 5000, "heartbeat_loss_ms": 5000, "silence_ms": 5000}
HANGS = {"hang_ms": 200, "command_ms": 400}


class Failed(Exception):
    """What a case found wrong."""


class Pair:
    """Both ends of one scenario."""

    def __init__(self, lab, args, scenario, *options, shift=True, **settings):
        self.lab = lab
        self.limit = LIMIT
        self.lanes = 1
        port = str(free_port())
        argv = [os.path.join(out_folder(args.build), "bin", "abuse"), scenario,
                "--port", port] + [str(o) for o in options]
        settings = {"log": "info", **STEADY, **settings}
        kv = settings.pop("kv", None)
        memlock_mb = settings.pop("memlock_mb", None)
        env = {"SIMNIC_MEMLOCK": str(memlock_mb << 20)} if memlock_mb else None
        with_shift = Shift(kv=kv, **{"backup": "pair", **settings}) if shift else None
        self.ends = [lab.start("h0", argv + ["--server"], "server", with_shift, env, stdin=True),
                     lab.start("h1", argv + ["--client"], "client", with_shift, env, stdin=True)]

    def alive(self):
        for p in self.ends:
            if not p.running():
                raise Failed(f"{p.name} ended with {p.process.returncode}")

    def said(self, word, ends=None):
        for p in ends or self.ends:
            wait_for(f"{word} of {p.name}",
                     lambda p=p: word in p.out().splitlines() or not p.running(), self.limit)
            if word not in p.out().splitlines():
                raise Failed(f"{p.name} ended with {p.process.returncode}, before {word}")

    def say(self, word):
        for p in self.ends:
            p.say(word)

    def protected(self, n=1):
        """So many connections of each end are, now; a line of the log may be of an earlier one."""
        def enough(host):
            return sum(q["level"] == "protected" and q["move"] == "NONE"
                       for q in self.lab.connections(host)) >= n

        for host, p in zip(("h0", "h1"), self.ends):
            wait_for(f"protection of {n} of {p.name}",
                     lambda p=p, host=host: not p.running() or enough(host), self.limit)
        self.alive()

    def await_moves(self, way, n=1):
        """So many lines of moves that way are in the log of each end."""
        for p in self.ends:
            wait_for(f"move {n} from {way} of {p.name}", lambda p=p: not p.running() or
                     self.lab.shift_log(p).count(f" moved from {way} (") >= n, self.limit)
        self.alive()

    def done(self, ends=None):
        for p in ends or self.ends:
            p.wait(self.limit)
        for p in ends or self.ends:
            if p.process.returncode or "OK" not in p.out().splitlines():
                raise Failed(f"{p.name} ended with {p.process.returncode}")

    def moved(self):
        for p in self.ends:
            stats = self.lab.stats(p)
            if stats is not None and any(m["settled_ns"] for m in stats["moves"]):
                return
        raise Failed("nothing moved")

    def has_given_back(self):
        """The first to do so says why its connection is unprotected, the other one that its peer has
        no standby; and either only until shadows are tried again."""
        for p in self.ends:
            log = self.lab.shift_log(p)
            if "SHIFT gave back" not in log:
                raise Failed(f"{p.name} has given nothing back")
            if "the peer moved" in log:
                raise Failed(f"{p.name} takes that for a move of its peer")

    def tails(self):
        text = "".join(p.tail(40) for p in self.ends)
        for p in self.ends:
            rows = self.lab.shift_log(p).splitlines()[-25:]
            text += f"--- SHIFT of {p.name}\n" + "\n".join(rows) + "\n"
        return text
TRIED = r"mlx5_0: (it tells the expected PSN|requests at a fault are settled)"


def churn(lab, args):
    pair = yield Pair(lab, args, "churn")
    pair.said("CONNECTED")
    pair.protected(4)
    pair.say("go")
    time.sleep(0.2)
    lab.fault("port-down", "h0/mlx5_0")
    pair.await_moves("mlx5_0 to mlx5_1", 4)
    time.sleep(0.5)
    pair.say("stop")
    pair.done()
    pair.moved()


def churn_hang(lab, args):
    """The threads' own commands hang too; they must come back when the NIC does."""
    pair = yield Pair(lab, args, "churn", **HANGS)
    pair.said("CONNECTED")
    pair.protected(4)
    pair.say("go")
    time.sleep(0.2)
    lab.fault("nic-hang", "h1/mlx5_0", lasts=3)
    time.sleep(4)
    pair.say("stop")
    pair.done()


def reset(lab, args):
    """Every round is protected again, also those after a move."""
    pair = yield Pair(lab, args, "reset", "--rounds", 8)
    for n in range(8):
        pair.said(f"CONNECTED {n}")
        pair.protected()
        if n in (2, 5):
            lab.fault("port-down", "h1/mlx5_0")
        pair.say("talk")
        pair.said(f"TALKED {n}")
        if n in (2, 5):
            lab.ctl("heal", "h1/mlx5_0")
        pair.say("reset")
    pair.done()
    pair.moved()


def reset_fast(lab, args):
    """Without waiting for anything: old answers meet new connections."""
    pair = yield Pair(lab, args, "reset", "--rounds", 41)
    for _ in range(40):
        pair.say("talk")
        pair.say("reset")
    pair.said("CONNECTED 40")
    pair.protected()
    lab.fault("port-down", "h0/mlx5_0")
    pair.say("talk")
    pair.say("reset")
    pair.done()
    pair.moved()


def late_rts(lab, args):
    """What the application does to the queue pair that it knows counts for the one in use."""
    pair = yield Pair(lab, args, "late-rts")
    pair.said("CONNECTED")
    pair.protected()
    lab.fault("port-down", "h0/mlx5_0")
    pair.await_moves("mlx5_0 to mlx5_1")
    pair.say("go")
    pair.done()


HANGS_SOON = {"hang_ms": 600, "command_ms": 600}


def late_rts_standby(lab, args):
    """The NIC of the standby hangs when the queue pair goes to RTS: another one takes over all the same."""
    pair = yield Pair(lab, args, "late-rts", "--timeout", 20, backup="spread", **HANGS_SOON)
    server = pair.ends[0]
    pair.said("CONNECTED")
    pair.protected()
    first = standby_of(lab)
    lab.fault("nic-hang", f"h0/{first}")
    server.say("go")
    wait_for("a standby on another NIC", lambda: standby_of(lab) not in (first, None) or not server.running(),
             pair.limit)
    pair.protected()
    lab.fault("port-down", "h0/mlx5_0")
    pair.ends[1].say("go")
    pair.done()
    pair.moved()


def late_rts_hung(lab, args):
    """The NIC that it has moved to hangs when the queue pair goes to RTS: the verb returns when that has been left."""
    pair = yield Pair(lab, args, "late-rts", "--timeout", 20, backup="spread", **HANGS_SOON)
    pair.said("CONNECTED")
    pair.protected()
    first = standby_of(lab)
    lab.fault("port-down", "h0/mlx5_0")
    pair.await_moves(f"mlx5_0 to {first}")
    pair.protected()
    lab.fault("nic-hang", f"h0/{first}")
    pair.say("go")
    pair.done()
    pair.moved()


def destroy(lab, args):
    pair = yield Pair(lab, args, "destroy", "--rounds", 6)
    for n in range(6):
        pair.said(f"CONNECTED {n}")
        pair.protected(4)
        lab.fault("port-down", "h0/mlx5_0", at_message=3)
        pair.say("go")
        pair.said(f"DESTROYED {n}")
        lab.ctl("heal", "all")
        pair.say("next")
    pair.done()


def late_mr(lab, args):
    # more than the journal of keys holds, so that it begins anew
    pair = yield Pair(lab, args, "late-mr", "--rounds", 300)
    pair.said("CONNECTED")
    pair.protected()
    lab.fault("port-down", "h0/mlx5_0")
    pair.say("go")
    pair.done()
    pair.moved()


def stopped_peer(lab, args):
    """Nobody can say yet which keys are gone: that holds registrations up once, not each of them."""
    pair = yield Pair(lab, args, "stopped-peer", "--regions", 100, "--timeout", 20,
                      holddown_ms=3600000)
    server, client = pair.ends
    pair.said("CONNECTED")
    pair.protected(1)
    lab.fault("port-down", "h0/mlx5_0")
    pair.say("go")
    pair.said("STILL")
    os.kill(client.pid, signal.SIGSTOP)
    server.say("register")
    pair.said("REGISTERED", [server])
    os.kill(client.pid, signal.SIGCONT)
    client.say("register")
    pair.done()
    pair.moved()


def storm(lab, args):
    """A command fails on a NIC that has just gone before anybody has been told that it did."""
    pair = yield Pair(lab, args, "storm")
    pair.said("CONNECTED")
    pair.protected(1)
    lab.fault("nic-disassociate", "h0/mlx5_0")
    for p in pair.ends:
        wait_for("move of " + p.name, lambda p=p: " to mlx5_1 (" in lab.shift_log(p) or
                 not all(end.running() for end in pair.ends), pair.limit)
    pair.say("stop")
    pair.done()
    pair.moved()


def bad_key(lab, args):
    """The error is that of stock, though it is SHIFT that finds nothing behind the key."""
    for with_shift in (False, True):
        # How long a key is looked for, and also how long the move may take.
        pair = yield Pair(lab, args, "bad-key", shift=with_shift, deadline_ms=3000)
        pair.said("CONNECTED")
        if with_shift:
            pair.protected()
            lab.fault("port-down", "h0/mlx5_0")
        pair.say("go")
        pair.done()
    pair.moved()
    if "could not be moved" in lab.shift_log(pair.ends[1]):
        raise Failed("the flush of the application's own error is taken for a fault")


def ended(lab, args):
    """What was flushed stays as it is, though the NIC that it had moved to takes its time for the command to ERR."""
    pair = yield Pair(lab, args, "ended", "--timeout", 14, deadline_ms=1000, holddown_ms=60000)
    pair.said("CONNECTED")
    pair.protected()
    lab.fault("port-down", "h0/mlx5_0")
    pair.await_moves("mlx5_0 to mlx5_1")
    pair.say("go")
    pair.said("TALKED")
    lab.ctl("link", "h1/mlx5_1", "out", "--delay", "100ms")      # so long the peer sends on
    lab.ctl("cost", "h1/mlx5_1", 300000)
    pair.say("end")
    pair.said("KEPT")
    lab.ctl("cost", "h1/mlx5_1", 0)     # closing is many commands
    lab.ctl("link", "h1/mlx5_1", "out", "--delay", "1us")
    pair.say("close")
    pair.done()


def ending(lab, args, fault="port-down", options=(), **settings):
    """Many end at once, as both of their paths are lost; some are destroyed while that is under way."""
    seed = args.seed or int(time.time())
    print(f"     seed {seed}")
    pair = yield Pair(lab, args, "ending", "--qps", args.qps, "--timeout", 14, "--seed", seed, *options,
                      **{"deadline_ms": 1000, "command_ms": 400, **settings})
    pair.limit *= 2
    pair.said("CONNECTED")
    pair.protected(args.qps)
    for nic in ("mlx5_0", "mlx5_1"):
        lab.fault(fault, f"h1/{nic}")
    pair.say("go")
    pair.said("FLUSHED")
    lab.ctl("heal", "all")
    pair.say("free")
    pair.done()


def ending_srq(lab, args):
    return ending(lab, args, options=("--srq",))


def ending_exit(lab, args):
    """The processes exit about when all end, which is a second behind the fault."""
    seed = args.seed or int(time.time())
    rng = random.Random(seed)
    print(f"     seed {seed}")
    for n in range(4):
        pair = yield Pair(lab, args, "ending", "--qps", args.qps, "--timeout", 14, "--seed", seed,
                          "--rest", 990 + rng.randrange(110), deadline_ms=1000, **HANGS)
        pair.said("CONNECTED")
        pair.protected(args.qps)
        for nic in ("mlx5_0", "mlx5_1"):
            lab.fault("nic-hang" if n % 2 else "port-down", f"h1/{nic}")
        pair.say("go")
        pair.said("OK", pair.ends[:1])
        lab.ctl("heal", "all")
        pair.done()


def ending_hung(lab, args):
    """Neither NIC obeys any more: they are not waited for."""
    return ending(lab, args, "nic-hang", **HANGS)


def late_mr_without_nic(lab, args, fault):
    """Registered while the NIC is dead and its connection on another one; and after its return."""
    pair = yield Pair(lab, args, "late-mr", "--rounds", 1000, holddown_ms=100)
    pair.said("CONNECTED")
    pair.protected()
    lab.fault(fault, "h0/mlx5_0")
    pair.await_moves("mlx5_0 to mlx5_1")
    pair.say("go")
    lab.ctl("heal", "h0/mlx5_0")
    pair.done()
    pair.moved()


def late_mr_gone(lab, args):
    return late_mr_without_nic(lab, args, "nic-disassociate")


def late_mr_sick(lab, args):
    return late_mr_without_nic(lab, args, "nic-internal-error")


def late_mr_leaving(lab, args, host="h0"):
    """Registered while the kernel takes the NIC away: no command is taken any more, and the queue pair still executes."""
    lab.ctl("removal", host + "/mlx5_0", 1000)
    pair = yield Pair(lab, args, "late-mr", "--rounds", 1000)
    pair.said("CONNECTED")
    pair.protected()
    lab.fault("nic-disassociate", host + "/mlx5_0")
    pair.say("go")
    pair.done()
    pair.moved()


def late_mr_peer_leaving(lab, args):
    return late_mr_leaving(lab, args, "h1")


def unprotected(lab, why=""):
    """All connections, and what is said of them."""
    def said():
        qps = [q for host in ("h0", "h1") for q in lab.connections(host)]
        return len(qps) == 2 and all(q["level"] != "protected" and why in (q["why"] or "")
                                     for q in qps)

    wait_for("no protection, and the reason: " + why, said, LIMIT)


def standby_of(lab):
    """Of the first host's connection, that is ready: its NIC, or None."""
    ready = [q["standby"]["nic"] for q in lab.connections("h0")
             if q["standby"] and q["standby"]["phase"] == "READY"]
    return ready[0] if ready else None


def protected_when_freed(pair):
    """What stood in the way is no more."""
    pair.say("talk")
    pair.said("FREED")
    pair.protected()
    pair.say("end")
    pair.done()


def more_memory(lab, args):
    """What shadows have locked is given back when the job needs it."""
    pair = yield Pair(lab, args, "more-memory", memlock_mb=26, yield_ms=1000)
    pair.said("CONNECTED")
    pair.protected()
    pair.say("go")
    pair.said("REGISTERED")
    pair.has_given_back()
    unprotected(lab)
    protected_when_freed(pair)


def on_demand(lab, args):
    """Memory that is paged on demand is on one NIC only."""
    pair = yield Pair(lab, args, "on-demand")
    pair.said("CONNECTED")
    pair.protected()
    pair.say("go")
    pair.said("REGISTERED")
    unprotected(lab, "paged on demand")
    protected_when_freed(pair)


def implicit(lab, args):
    """All of the address space at once: the job runs, without protection."""
    pair = yield Pair(lab, args, "implicit")
    pair.said("CONNECTED")
    unprotected(lab, "paged on demand")
    pair.say("go")
    pair.done()


def regions(lab, args):
    """Thousands of small ones, all of them used through faults; registered anew, and moved."""
    pair = yield Pair(lab, args, "regions", "--regions", 2048, "--rounds", 4, holddown_ms=100)
    pair.limit *= 2
    for n in range(4):
        pair.said(f"ROUND {n}")
        if n % 2 == 0:
            pair.protected()
            lab.fault("port-down", "h0/mlx5_0", at_message=1000 + 700 * n)
        else:
            lab.ctl("heal", "h0/mlx5_0")
        pair.say("go")
        if n == 1:  # behind the last they end
            pair.await_moves("mlx5_1 to mlx5_0")
    pair.done()
    pair.moved()


def squeeze(lab, args):
    """Threads register what just fits, while shadows of it come and go; then all is as before."""
    pair = yield Pair(lab, args, "squeeze", memlock_mb=9, yield_ms=500)
    pair.said("CONNECTED")
    pair.protected()
    pair.say("go")
    for p in pair.ends:
        wait_for("squeeze of " + p.name, lambda p=p: not p.running() or
                 "SHIFT gave back" in lab.shift_log(p), pair.limit)
    pair.say("squeezed")
    pair.said("SQUEEZED")
    pair.has_given_back()
    pair.protected()
    lab.fault("port-down", "h0/mlx5_0")
    pair.say("talk")
    pair.done()
    pair.moved()


def sparse(lab, args, memlock_mb=None):
    """64 GiB that nobody has touched: registering them waits for no other NIC, and touches nothing."""
    pair = yield Pair(lab, args, "huge", memlock_mb=memlock_mb, yield_ms=600000)
    pair.said("CONNECTED")
    pair.protected()
    lab.fault("nic-hang", "h0/mlx5_1")
    pair.say("register")
    pair.said("REGISTERED")
    lab.ctl("heal", "h0/mlx5_1")
    pair.protected()
    pair.say("write")
    if not memlock_mb:
        lab.fault("port-down", "h0/mlx5_0", at_message=20)
    pair.say("go")
    for p in pair.ends:
        wait_for("size of " + p.name, lambda p=p: "RESIDENT" in p.out() or not p.running(), pair.limit)
        grown = re.findall(r"^RESIDENT (\d+) MiB more", p.out(), re.M)
        if not grown or int(grown[0]) > 256:
            raise Failed(f"{p.name} has touched {grown} MiB of its memory")
    pair.say("more")
    pair.said("MORE")
    if memlock_mb:
        pair.has_given_back()
        unprotected(lab)
    pair.say("write")
    pair.done()
    if not memlock_mb:
        pair.moved()


def sparse_limit(lab, args):
    """With the shadow of the first 64 GiB there is no room for the second ones of the job."""
    return sparse(lab, args, 140 << 10)


def dmabuf(lab, args):
    """Its shadow is of the same buffer, and keeps no descriptor behind the region's end."""
    pair = yield Pair(lab, args, "dmabuf")
    pair.said("CONNECTED")
    pair.protected()
    lab.fault("port-down", "h0/mlx5_0")
    pair.say("go")
    pair.said("CLOSED 1")
    pair.done()
    pair.moved()


def teardown(lab, args):
    """When a region is deregistered, no NIC can write to it: whatever has become of its shadow."""
    pair = yield Pair(lab, args, "teardown", "--rounds", 0 if lab.sanitizer else 20)
    pair.said("CONNECTED")
    pair.protected()
    pair.say("go")
    pair.done()
    for p in pair.ends:
        print("     " + " ".join(re.findall(r"^SHADOWED.*", p.out(), re.M)))


def teardown_slow(lab, args):
    """Most regions go while their shadow is being registered."""
    for host in ("h0", "h1"):
        lab.ctl("cost", f"{host}/mlx5_1", 1500)
    return teardown(lab, args)


def limits(lab, args):
    """What SHIFT has on the backup NIC makes place for the job's own objects there, and comes back."""
    on_nic = {"qps": 1, "cqs": 2, "srqs": 0, "pds": 1, "mrs": 1}    # SHIFT's control QP
    on_nic["cqs"] += 1      # and the program's own
    on_nic["pds"] += 1
    pair = yield Pair(lab, args, "limits", yield_ms=100)
    pair.said("CONNECTED")

    def levels(host, level, why=""):
        qps = lab.connections(host)
        return len(qps) == 4 and all(q["level"] == level and why in (q["why"] or "") for q in qps)

    def given_back():
        return lab.shift_log(pair.ends[0]).count("is not protected: its place on the NIC")

    for kind, n in on_nic.items():
        for host in ("h0", "h1"):
            wait_for(f"protection on {host} before {kind}", lambda h=host: levels(h, "protected"), 30)
        before = given_back()
        lab.ctl("limit", "h0/mlx5_1", kind, n + 8)
        pair.say("fill")
        pair.said(f"HAS {kind} 8")
        if given_back() == before:
            raise Failed(f"the {kind} found place without shadows: the limit shows nothing")
        pair.say("empty")
        pair.said(f"EMPTY {kind}")
        lab.ctl("limit", "h0/mlx5_1", kind, 0)
    for host in ("h0", "h1"):
        wait_for(f"protection on {host}", lambda h=host: levels(h, "protected"), 30)
    lab.fault("port-down", "h0/mlx5_0")
    pair.say("talk")
    pair.said("MOVED")
    for kind, n in on_nic.items():
        lab.ctl("limit", "h0/mlx5_1", kind, n + 1)
    pair.say("fill")
    pair.done()
    pair.moved()
    for kind in on_nic:
        if not re.search(f"^THEN {kind} [0-7]: Cannot allocate", pair.ends[0].out(), re.M):
            raise Failed(f"{kind} that carry traffic were given away")


def resize_without_nic(lab, args, fault):
    """A completion queue whose NIC is dead grows where its connections are, and where they return to."""
    pair = yield Pair(lab, args, "resize", "--timeout", 20, holddown_ms=100)
    pair.said("CONNECTED")
    pair.protected()
    lab.fault(fault, "h0/mlx5_0")
    pair.await_moves("mlx5_0 to mlx5_1")
    pair.say("resize")
    pair.said("RESIZED")
    pair.say("go")
    pair.said("MORE")
    lab.ctl("heal", "all")
    pair.await_moves("mlx5_1 to mlx5_0")
    pair.say("go")
    pair.done()
    pair.moved()


def resize_gone(lab, args):
    return resize_without_nic(lab, args, "nic-disassociate")


def resize_sick(lab, args):
    return resize_without_nic(lab, args, "nic-internal-error")


def resize_hung(lab, args):
    """The NIC that stands by hangs: that is not waited for, and its queue is large enough when it can be."""
    pair = yield Pair(lab, args, "resize", "--timeout", 20, **HANGS)
    pair.said("CONNECTED")
    pair.protected()
    lab.fault("nic-hang", "h0/mlx5_1")
    lab.fault("nic-hang", "h1/mlx5_1")
    pair.say("resize")
    pair.said("RESIZED")
    pair.say("go")
    pair.said("MORE")
    unprotected(lab)
    lab.ctl("heal", "all")
    pair.protected()
    lab.fault("port-down", "h0/mlx5_0")
    pair.say("go")
    pair.done()
    pair.moved()


def overrun(lab, args, away):
    """The backup's completion queue is smaller, and has no room for what lies unpolled: all that it served leaves it,
    also a connection that had only one completion there; and no completion is lost."""
    lab.ctl("limit", "h0/mlx5_1", "cqe", 1023)
    # several times, as SHIFT, too, takes completions out now and then
    pair = yield Pair(lab, args, "overrun", "--timeout", 16, "--rounds", 6)
    pair.said("CONNECTED")
    pair.protected(2)
    away(lab)
    pair.await_moves("mlx5_0 to mlx5_1", 2)
    pair.say("go")
    pair.done()
    if "a completion queue overran" not in lab.shift_log(pair.ends[0]):
        raise Failed("no completion queue overran: this shows nothing")


def overrun_home(lab, args):
    """Its own NIC is well."""
    return overrun(lab, args, lambda lab: lab.shiftctl("h0", "drain", "mlx5_0"))


def overrun_alone(lab, args):
    """There is no other NIC: a queue pair with another queue is made on the same."""
    return overrun(lab, args, lambda lab: lab.fault("port-down", "h0/mlx5_0"))


def exit_moving(lab, args):
    pair = yield Pair(lab, args, "exit")
    pair.said("CONNECTED")
    pair.protected()
    lab.fault("port-down", "h0/mlx5_0")
    pair.say("go")
    pair.done()


def exit_hung(lab, args):
    """The command that a worker waits for never comes back: the process ends all the same."""
    pair = yield Pair(lab, args, "exit", **HANGS)
    pair.said("CONNECTED")
    pair.protected()
    lab.fault("nic-hang", "h0/mlx5_0")
    time.sleep(0.3)
    pair.say("go")
    pair.done()


def fork(lab, args):
    pair = yield Pair(lab, args, "fork")
    pair.said("CONNECTED")
    pair.protected(2)
    lab.fault("port-down", "h0/mlx5_0", at_message=20)
    pair.say("go")
    pair.done()


def cycles(lab, args):
    pair = yield Pair(lab, args, "cycles", "--rounds", args.cycles)
    pair.said("CONNECTED")
    pair.protected()
    pair.say("go")
    pair.limit *= 5
    pair.done()
    for p in pair.ends:
        first, last = ([int(n) for n in r.split()[1:]] for r in p.out().splitlines()
                       if r.startswith("HOLDS"))
        text = (f"{p.name} holds {first[0]} KiB in {first[1]} mappings after a fifth, "
                f"{last[0]} KiB in {last[1]} at the end")
        print("     " + text)
        if not lab.sanitizer and (last[0] - first[0] > 256 or last[1] - first[1] > 32):
            raise Failed(text)


def kill(lab, args):
    for with_shift in (False, True):
        pair = yield Pair(lab, args, "kill", "--timeout", 14, shift=with_shift, silence_ms=1500)
        pair.said("CONNECTED")
        if with_shift:
            pair.protected()
        pair.ends[0].end()
        pair.ends[1].say("go")
        pair.done(pair.ends[1:])
        errors = [r for r in pair.ends[1].out().splitlines() if r.startswith("ERRORS")]
        print(f"     {'SHIFT' if with_shift else 'stock'}: {errors[0]}")


def abandon(lab, args):
    """A program may close a device and leave everything of it to the kernel."""
    pair = yield Pair(lab, args, "abandon", "--rounds", 3)
    for n in range(3):
        pair.said(f"CONNECTED {n}")
        pair.protected()
        pair.say("go")
    pair.done()


def hung_nic(lab, args):
    """A third NIC hangs and a thread waits for it: the others' moves do not."""
    pair = yield Pair(lab, args, "hung-nic", "--dev2", "mlx5_2", backup="mlx5_0=mlx5_1")
    pair.said("ASK")
    pair.protected()
    lab.fault("nic-hang", "h0/mlx5_2")
    lab.fault("nic-hang", "h1/mlx5_2")
    pair.say("ask")
    pair.said("ASKED")
    time.sleep(0.3)
    lab.fault("port-down", "h0/mlx5_0")
    pair.say("go")
    pair.done()


def kv_late(lab, args):
    """The KV comes up after the job."""
    folder = os.path.join(lab.folder, "later")
    pair = yield Pair(lab, args, "late-mr", "--rounds", 3, kv="lmdb:" + folder + "/kv")
    pair.said("CONNECTED")
    time.sleep(0.5)
    os.mkdir(folder)
    pair.protected()
    lab.fault("port-down", "h0/mlx5_0")
    pair.say("go")
    pair.done()
    pair.moved()


def kv_deaf(lab, args):
    """A KV that takes the connection and never answers holds no verb up."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(64)
        pair = yield Pair(lab, args, "many", "--qps", 24, kv_timeout_ms=4000,
                          kv=f"redis://127.0.0.1:{deaf.getsockname()[1]}")
        pair.said("CONNECTED")
        pair.say("go")
        pair.done()


def query(lab, args):
    """On the backup of a NIC that lives, back on it, on the backup of one that is gone, and back."""
    pair = yield Pair(lab, args, "query", "--rounds", 5, holddown_ms=100)
    pair.said("CONNECTED 0")
    pair.protected()
    pair.say("go")
    for n, fault in enumerate(("port-down", "nic-disassociate")):
        pair.said(f"CONNECTED {2 * n + 1}")
        pair.protected()
        lab.fault(fault, "h0/mlx5_0")
        pair.await_moves("mlx5_0 to mlx5_1", n + 1)
        pair.say("go")
        pair.said(f"CONNECTED {2 * n + 2}")
        lab.ctl("heal", "all")
        pair.await_moves("mlx5_1 to mlx5_0", n + 1)
        pair.say("go")
    pair.done()


def bare(lab, args):
    """Queue pairs without a receive queue."""
    pair = yield Pair(lab, args, "bare", "--rounds", 50)
    pair.said("CONNECTED")
    pair.protected()
    lab.fault("port-down", "h0/mlx5_0", at_message=100)
    pair.say("go")
    pair.done()
    pair.moved()


def both_sick(lab, args):
    """Neither NIC flushes anything, so none can say what arrived; until both are probed again."""
    pair = yield Pair(lab, args, "bare", "--rounds", 0, "--timeout", 20, deadline_ms=60000)
    pair.said("CONNECTED")
    pair.protected(1)
    path = os.path.join(lab.folder, "both")
    with open(path, "w", encoding="ascii") as f:
        f.write("nic-internal-error h0/mlx5_0\nnic-internal-error h1/mlx5_0\n")
    before = lab.carried(0)
    pair.say("go")
    wait_for("traffic", lambda: lab.carried(0) > before, pair.limit, 0.001)
    lab.ctl("script", path)
    for host in ("h0", "h1"):   # or it has moved, as nothing was under way just then
        wait_for("end of the flush on " + host, lambda h=host: [
            q for q in lab.connections(h) if q["move"] == "COUNTING" or q["nic"] == "mlx5_1"],
            pair.limit)
    lab.ctl("heal", "all")
    for p in pair.ends:
        wait_for("move of " + p.name, lambda p=p: " to mlx5_1 (" in lab.shift_log(p) or
                 not all(end.running() for end in pair.ends), pair.limit)
    pair.say("stop")
    pair.done()
    pair.moved()


def domains(lab, args):
    """Queue pairs with doorbell registers of thread domains: as on stock, there and back."""
    pair = yield Pair(lab, args, "domains", shift=False)
    for n in range(3):
        pair.said(f"CONNECTED {n}")
        pair.say("go")
    pair.done()
    pair = yield Pair(lab, args, "domains", holddown_ms=100)
    pair.said("CONNECTED 0")
    pair.protected(5)
    lab.fault("port-down", "h0/mlx5_0", at_message=50)
    pair.say("go")
    pair.said("CONNECTED 1")
    lab.ctl("heal", "h0/mlx5_0")
    pair.await_moves("mlx5_1 to mlx5_0", 5)
    for _ in range(2):
        pair.say("go")
    pair.done()
    pair.moved()


def stock_beside(lab, args, name, moves_first=False):
    """The server's lines that begin with its name: of stock, and of SHIFT, whose connection moves."""
    words = []
    for with_shift in (False, True):
        pair = yield Pair(lab, args, name, shift=with_shift)
        pair.said("CONNECTED")
        if with_shift:
            pair.protected()
            lab.fault("port-down", "h0/mlx5_0")
            if moves_first:
                pair.await_moves("mlx5_0 to mlx5_1")
        pair.say("go")
        pair.done()
        words.append([r for r in pair.ends[0].out().splitlines() if r.startswith(name.upper())])
    pair.moved()
    return words


def ece(lab, args):
    """What is asked and set of a connection's enhancements comes from the NIC, as on stock."""
    words = yield from stock_beside(lab, args, "ece")
    print("     " + "; ".join(words[0]))
    if words[0] != words[1] or len(words[0]) != 5:
        raise Failed(f"with SHIFT: {words[1]}")


def windows(lab, args):
    """Memory windows are made and freed as on stock, and the connection moves."""
    words = yield from stock_beside(lab, args, "windows")
    print("     " + "; ".join(words[0]))
    if words[0] != words[1] or len(words[0]) != 3 or "made" not in words[0][2]:
        raise Failed(f"with SHIFT: {words[1]}")


def events(lab, args):
    """ibv_destroy_qp waits for the acknowledgement of an event."""
    for with_shift in (False, True):
        pair = yield Pair(lab, args, "events", shift=with_shift)
        pair.said("CONNECTED")
        if with_shift:
            pair.protected()
        pair.say("go")
        pair.done()


def there_and_back(lab, pair, n, times):
    """By a fault and by an order, in turn."""
    for turn in range(times):
        drain = turn % 2
        if drain:
            lab.shiftctl("h0", "drain", "mlx5_0")
        else:
            lab.fault("port-down", "h0/mlx5_0")
        pair.await_moves("mlx5_0 to mlx5_1", n * (turn + 1))
        if drain:
            lab.shiftctl("h0", "undrain", "mlx5_0")
        else:
            lab.ctl("heal", "h0/mlx5_0")
        pair.await_moves("mlx5_1 to mlx5_0", n * (turn + 1))


def tight(lab, args):
    """Requests wait for a path that is down, and complete while nobody polls: what SHIFT asks about those that have no
    completion takes no place of the application's, in a completion queue that is full then."""
    for with_shift in (False, True):
        pair = yield Pair(lab, args, "tight", "--timeout", 16, shift=with_shift)
        client = pair.ends[1]
        pair.said("CONNECTED")
        if with_shift:
            pair.protected(15)
            # the trial of a NIC has messages, which are not the program's
            wait_for("the trial of its NIC", lambda: re.search(TRIED, lab.shift_log(client)) or not client.running(), pair.limit)
        lab.fault("port-down", "h1/mlx5_0", at_message=1)
        pair.say("go")
        pair.said("POSTED 0", [client])
        if with_shift:
            wait_for("wait for an atomic", lambda: "the answer of an atomic may still come" in
                     lab.shift_log(client) or not client.running(), pair.limit)
        lab.ctl("heal", "h1/mlx5_0")
        time.sleep(0.6)     # two tries of the NIC: all complete
        client.say("poll")
        pair.said("POSTED 1", [client])
        client.say("poll")
        pair.done()


def tight_drain(lab, args):
    """As tight, while an ordered switch waits for what is under way: what it asks takes no place either."""
    pair = yield Pair(lab, args, "tight", "--timeout", 18, holddown_ms=100)
    client = pair.ends[1]
    pair.said("CONNECTED")
    pair.protected(15)
    for n, (order, way) in enumerate((("drain", "mlx5_0 to mlx5_1"), ("undrain", "mlx5_1 to mlx5_0"))):
        nic = f"h0/mlx5_{n}"
        lab.ctl("link", nic, "out", "--delay", "500ms")     # the answers
        if n == 0:
            pair.say("go")
        else:
            client.say("poll")
        pair.said(f"POSTED {n}", [client])
        lab.shiftctl("h1", order, "mlx5_0")
        pair.await_moves(way, 15)
        lab.ctl("link", nic, "out", "--delay", "1us")
    client.say("poll")
    pair.done()
    pair.moved()


def there_and_back_with(lab, args, scenario, n=1, times=4):
    pair = yield Pair(lab, args, scenario, holddown_ms=100)
    pair.said("CONNECTED")
    pair.protected(n)
    pair.say("go")
    there_and_back(lab, pair, n, times)
    pair.say("stop")
    pair.done()
    pair.moved()


def held(lab, args):
    """Completions may be held, and verbs called meanwhile, whatever moves."""
    yield from there_and_back_with(lab, args, "held")


def tuned(lab, args):
    """A queue pair is modified from RTS to RTS while another thread posts to it."""
    for with_shift in (False, True):
        pair = yield Pair(lab, args, "tuned", shift=with_shift)
        pair.said("CONNECTED")
        if with_shift:
            pair.protected()
        pair.say("go")
        pair.done()


def forks(lab, args):
    """Children come and go, and use nothing of it, while the connections move."""
    yield from there_and_back_with(lab, args, "forks", n=2, times=3)


def solicited(lab, args):
    """Who sleeps until a message asks for it is woken, wherever that comes."""
    yield from there_and_back_with(lab, args, "solicited")


def solicited_gone(lab, args):
    """Nor with an error, though its NIC is taken away: while a standby is made, and while there is no NIC at all."""
    pair = yield Pair(lab, args, "solicited", lazy="on", holddown_ms=100)
    pair.said("CONNECTED")
    pair.protected()
    pair.say("go")
    lab.fault("nic-disassociate", "h0/mlx5_0")
    pair.await_moves("mlx5_0 to mlx5_1")
    lab.fault("nic-disassociate", "h0/mlx5_1")
    wait_for("want of a NIC", lambda: [q for q in lab.connections("h0") if q["move"] == "STRANDED"] or
             not all(p.running() for p in pair.ends), pair.limit)
    pair.alive()
    lab.ctl("heal", "all")
    pair.await_moves("mlx5_1 to mlx5_0")
    pair.say("stop")
    pair.done()


def armed(lab, args):
    """Who sleeps on a CQ that was armed before its first queue pair is woken, though its NIC is gone by then."""
    pair = yield Pair(lab, args, "armed", "--rounds", 3)
    pair.said("CONNECTED")
    pair.protected()
    lab.fault("nic-disassociate", "h0/mlx5_0")
    pair.await_moves("mlx5_0 to mlx5_1")
    for n in range(3):
        pair.say("go")
        pair.said(f"WOKEN {n}")
    pair.done()


def armed_foreign(lab, args):
    """The same where that CQ has served a queue pair that SHIFT does not drive."""
    pair = yield Pair(lab, args, "armed-foreign", "--rounds", 6)
    pair.said("CONNECTED")
    pair.protected()
    for n in range(6):
        pair.say("go")
        pair.said(f"WOKEN {n}")
        if n == 2:
            lab.fault("nic-disassociate", "h0/mlx5_0")
            pair.await_moves("mlx5_0 to mlx5_1")
    pair.done()


def bound(lab, args):
    """A window and what invalidates it, while its path goes: written as on stock, or ended with errors, in time."""
    pair = yield Pair(lab, args, "bound", shift=False)
    pair.said("CONNECTED")
    pair.say("go")
    pair.done()
    for n in (1, 12):
        pair = yield Pair(lab, args, "bound", "--timeout", 14)
        pair.said("CONNECTED")
        pair.protected()
        lab.fault("port-down", "h1/mlx5_0", at_message=n)
        pair.say("go")
        pair.done()
        print("     " + "".join(r for r in pair.ends[1].out().splitlines() if r.startswith("CLIENT")))
        lab.ctl("heal", "all")


def states(lab, args):
    """What ibv_modify_qp() takes and refuses of a queue pair that has moved, and its state then, are as on stock."""
    words = yield from stock_beside(lab, args, "states", moves_first=True)
    if words[0] != words[1]:
        raise Failed("\n".join(f"stock: {a}; with SHIFT: {b}" for a, b in zip(*words) if a != b))


def asked(lab, args):
    """What is asked and set of a connection and of its shared receive queue is answered while its NIC dies, hangs, or
    comes back."""
    for fault in ("port-down", "nic-internal-error", "nic-disassociate", "nic-hang"):
        pair = yield Pair(lab, args, "asked", holddown_ms=100, **(HANGS if fault == "nic-hang" else {}))
        pair.said("CONNECTED")
        pair.protected()
        pair.say("go")
        pair.said("ASKING")
        lab.fault(fault, "h0/mlx5_0")
        pair.await_moves("mlx5_0 to mlx5_1")
        lab.ctl("heal", "h0/mlx5_0")
        pair.await_moves("mlx5_1 to mlx5_0")
        pair.say("stop")
        pair.done()
        if fault == "port-down" and any("does not take its new access rights" in lab.shift_log(p) for p in pair.ends):
            raise Failed("a standby that was being made was given up for a timer that the application set")


def changed(lab, args):
    """Regions change their rights, protection domain and place, or go and come again, while the connection goes away and
    comes home: what is told to the peer behind that is right on each NIC."""
    pair = yield Pair(lab, args, "changed", holddown_ms=100)
    pair.said("CONNECTED")
    pair.protected()
    there_and_back(lab, pair, 1, 4)
    pair.say("stop")
    pair.done()


def limit(lab, args):
    """The limit of a shared receive queue is told of as on stock: once for each time that it was armed, wherever the
    receives are."""
    words = []
    for with_shift in (False, True):
        pair = yield Pair(lab, args, "limit", "--rounds", 2, shift=with_shift, holddown_ms=100)
        pair.said("CONNECTED")
        if with_shift:
            pair.protected()
        for n in range(2):
            pair.say("go")
            pair.said(f"ROUND {n}")
            if with_shift and not n:
                lab.fault("port-down", "h0/mlx5_0")
                pair.await_moves("mlx5_0 to mlx5_1")
            elif with_shift:
                lab.ctl("heal", "h0/mlx5_0")
                pair.await_moves("mlx5_1 to mlx5_0")
            pair.say("go")
        pair.done()
        words.append([r for r in pair.ends[0].out().splitlines() if r.startswith("LIMIT")])
    if words[0] != words[1] or not any(r.endswith("told 1") for r in words[0]):
        raise Failed("\n".join(f"stock: {a}; with SHIFT: {b}" for a, b in zip(*words) if a != b))


def cancelled(lab, args):
    """Threads that are cancelled come out of the verb that they are in, and hold nothing; from a wait for events they do
    not come back, as on stock."""
    pair = yield Pair(lab, args, "cancelled")
    pair.said("CONNECTED")
    pair.protected(4)
    pair.say("go")
    pair.done()


LAST_ENDS = {"by access": 1, "by itself": 2, "by loss": 3}


def last(lab, args):
    """A queue pair tells once that it takes no more of its shared queue, where the connection ends as on stock, too."""
    for end, number in LAST_ENDS.items():
        for where in ("stock", "alone", "protected", "moved"):
            if end == "by loss" and where in ("stock", "alone"):
                continue
            for rest in (0, 60) if end == "by access" else (0,):
                settings = {"kv": "lmdb:" + os.path.join(lab.folder, "none", "kv")} if where == "alone" else {}
                pair = yield Pair(lab, args, "last", "--rounds", number, "--rest", rest, "--timeout", 14,
                                  shift=where != "stock", deadline_ms=1000, holddown_ms=60000, **settings)
                pair.said("CONNECTED")
                if where in ("protected", "moved"):
                    pair.protected()
                if where == "moved":
                    lab.fault("port-down", "h0/mlx5_0")
                    pair.await_moves("mlx5_0 to mlx5_1")
                if end == "by loss":
                    for nic in ("mlx5_0", "mlx5_1"):
                        lab.fault("port-down", f"h1/{nic}")
                pair.say("go")
                pair.done()
                lab.ctl("heal", "all")
                for p in pair.ends:
                    words = [r for r in p.out().splitlines() if r.startswith("LAST")]
                    if words != ["LAST told 1", "LAST again 0"]:
                        raise Failed(f"{end}, {where}, {rest} ms: {p.name} says {words}")


CASES = (query, bare, both_sick, domains, ece, windows, events, churn, churn_hang, reset, reset_fast, late_rts, destroy,
         late_mr, stopped_peer, storm, bad_key, ended, ending, ending_srq, ending_hung, ending_exit, late_mr_gone, late_mr_sick, late_mr_leaving, late_mr_peer_leaving, more_memory, on_demand, implicit, regions, squeeze, sparse, sparse_limit, dmabuf, teardown,
         teardown_slow, limits, resize_gone, resize_sick, resize_hung, overrun_home, overrun_alone, late_rts_standby, late_rts_hung,
         exit_moving, exit_hung, fork, kill, abandon,
         hung_nic, kv_late, kv_deaf, tight, tight_drain, held, tuned, forks, solicited, solicited_gone, armed, armed_foreign, bound, states, asked, limit, last, changed, cancelled, cycles)
# The same steps with another fault, pace or limit.
ALIKE = ((late_mr_gone, late_mr_sick), (late_mr_leaving, late_mr_peer_leaving), (resize_gone, resize_sick), (overrun_home, overrun_alone), (teardown, teardown_slow), (sparse, sparse_limit),
         (reset, reset_fast), (late_rts, late_rts_standby, late_rts_hung),
         (ending, ending_srq, ending_hung, ending_exit))


def few():
    left_out = {case for alike in ALIKE for case in alike}
    names = [name for alike in ALIKE for name in draw([case.__name__ for case in alike], 1)]
    return [case for case in CASES if case not in left_out or case.__name__ in names]


def run_case(case, args):
    """None if all is well, else the reason."""
    with Lab(args.build, nics=3, keep=args.keep) as lab:
        steps = case(lab, args)
        pair = None
        try:
            pair = next(steps)
            while True:
                pair = steps.send(pair)
        except StopIteration:
            return lab.complaints()
        except Exception as e:  # one case does not keep the others from running
            return f"{type(e).__name__}: {e}\n" + (pair.tails() if pair else "")
    return None


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build")
    p.add_argument("--only", default="", help="cases whose name begins so")
    p.add_argument("--few", action="store_true", help="of cases that are much alike one, drawn")
    p.add_argument("--cycles", type=int, default=1000)
    p.add_argument("--qps", type=int, default=40, help="of the cases ending*")
    p.add_argument("--seed", type=int, help="of the cases ending*")
    p.add_argument("--keep", action="store_true", help="keep each case's folder")
    args = p.parse_args()
    failed = 0
    for case in few() if args.few else CASES:
        if not case.__name__.startswith(args.only):
            continue
        if sanitizer_of(args.build) and case in (fork, cancelled):
            continue  # their runtimes do not survive a fork of a threaded program; ASan's, not a thread that is cancelled
        begun = time.monotonic()
        reason = run_case(case, args)
        print(f"{'FAIL' if reason else 'ok':4} {case.__name__:12} "
              f"{time.monotonic() - begun:5.1f} s" + (f"  {reason}" if reason else ""), flush=True)
        failed += bool(reason)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
