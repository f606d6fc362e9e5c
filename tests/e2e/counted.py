#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What a program may have of something that is counted, it gets under SHIFT as on stock (P11), to the last one.

  counted.py --build DIR [--seed N] [--rounds N] [CASE...]
"""
import os
import random
import re
import resource
import signal
import sys
import time

from shiftlab.lab import Shift, cases_main, free_port, wait_for
from shiftlab.perftest import SOON, Failed
from shiftlab.redis import Redis

MIB = 1 << 20
# Pages of stack: what docs/promises.md says. The smallest that a thread can have are 4.
STACK_PAGES = {("stack", "info"): 4, ("stack", "debug"): 5, ("stack-open", "info"): 6, ("stack-open", "debug"): 6}
PROTECTED = " is protected by "
CRASH_SIGNALS = {f"handler{s.value}" for s in (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT)}
# What SHIFT has more, with four NICs, in KiB where it is memory: what docs/promises.md says.
TAKEN = {"Threads:": 10, "/proc/self/maps": 200, "VmSize:": 2 << 20, "VmData:": 64 << 10}
TAKEN_FEW = {"Threads:": 0, "/proc/self/maps": 20, "VmSize:": 16 << 10, "VmData:": 8 << 10}
LIMITED = {"limit9"}    # RLIMIT_AS, which a case sets
LMDB_FILES = 3  # descriptors that its library has open
SHOWN_FILES = 2  # descriptors whose number the program may see, where FD_SET() has no place for one above its limit


def start(lab, case, name, shift, limits=(), env=None, number=0):
    argv = ["prlimit", *limits, os.path.join(lab.out, "bin", "counted"), "-S", lab.seed, case, number]
    program = lab.start("h0", argv, name, shift, env, stdin=True)
    said(program, "CONNECTED")
    return program


def said(program, word):
    """The rest of the line that begins with it."""
    wait_for(f"{word} of {program.name}", lambda: not program.running() or
             re.search(f"^{word}", program.out(), re.M), 60)
    found = re.search(f"^{word}(.*)$", program.out(), re.M)
    if not found:
        raise Failed(f"{program.name} ended with {program.process.returncode}, before {word}")
    return found.group(1)


def ends(program):
    program.say("end")
    if program.wait(60) or not program.out().endswith("OK\n"):
        raise Failed(f"{program.name} ended with {program.process.returncode}")


def is_protected(lab, host="h0"):
    return [q["level"] for q in lab.connections(host)] == ["protected"]


def memory(lab, rng):
    """Each region takes of RLIMIT_MEMLOCK, over all NICs: the last one that stock has room for finds room, too."""
    limit = rng.randint(3 * MIB, 24 * MIB)
    limits, env = (), {"SIMNIC_MEMLOCK": str(limit)}
    stock = start(lab, "memory", "stock", None, limits, env)
    stock.say("go")
    expected = said(stock, "GOT")
    said(stock, "GAVE")
    ends(stock)
    at_once = rng.random() < 0.5    # while NICs are being opened
    for backup in ("pair", "spread"):
        program = start(lab, "memory", backup, Shift(backup=backup, log="info", yield_ms=500, **SOON), limits, env)
        waits = not at_once and limit > 16 * MIB
        if waits:
            wait_for("protection", lambda: is_protected(lab), 30)
        program.say("go")
        got = said(program, "GOT")
        print(f"  {limit >> 10} KiB, {backup}, {'at once' if at_once else 'later'}: {got}; stock {expected}")
        if got != expected:
            raise Failed(f"with {backup} the program got {got}, on stock {expected}")
        said(program, "GAVE")
        if waits:   # there is room again
            wait_for("protection again", lambda: is_protected(lab), 60)
        ends(program)


def pressed(lab, rng):
    """
    One end has given back all that SHIFT had, or both have: no heartbeat comes any more, and neither end takes that
    for a fault. When there is room again, they are protected, and outlive one.
    """
    both = rng.random() < 0.5
    shift = Shift(backup="pair", log="info", yield_ms=3000, heartbeat_loss_ms=300, **SOON)
    argv = [os.path.join(lab.out, "bin", "counted"), "-S", lab.seed, "-p", free_port()]
    case, env = ["pressed"] + both * [1], {"SIMNIC_MEMLOCK": str(rng.randint(16 * MIB, 24 * MIB))}
    pair = [lab.start("h0", argv + ["-s"] + case, "server", shift, env, stdin=True),
            lab.start("h1", argv + case, "client", shift, env, stdin=True)]
    hosts = ("h0", "h1")

    def both_say(word):
        for p in pair:
            p.say(word)

    for p, host in zip(pair, hosts):
        said(p, "CONNECTED")
        wait_for("protection", lambda host=host: is_protected(lab, host), 30)
    both_say("go")
    for p in pair[not both:]:
        said(p, "GOT")
    time.sleep(1)       # several times as long as heartbeats are waited for
    both_say("on")
    time.sleep(1)
    both_say("rested")
    for p, host in zip(pair, hosts):
        said(p, "GAVE")
        wait_for("protection again", lambda host=host: is_protected(lab, host), 60)
        if p in pair[not both:] and "mlx5_0: no room for" not in lab.shift_log(p):
            raise Failed(f"{p.name} found room for all without what SHIFT has on its NIC")
        if re.search("moved|could not", lab.shift_log(p)):
            raise Failed(f"{p.name} moved without a fault")
    lab.fault("port-down", "h0/mlx5_0")
    for host in hosts:
        wait_for("move", lambda host=host: all(q["nic"] == "mlx5_1" for q in lab.connections(host)), 30)
    both_say("on")
    for p in pair:
        if p.wait(60) or not p.out().endswith("OK\n"):
            raise Failed(f"{p.name} ended with {p.process.returncode}")


def files_of(lab, name, shift, soft, hard, spare, slow=None):
    """
    How many descriptors a program found, and how many of those that it gave back were left behind the verbs.
    slow: a NIC that takes 100 ms for each command of then.
    """
    env = {"SHIFT_LOG_FILE": ""} if soft < 512 and soft == hard else None   # that is a descriptor, too
    program = start(lab, "files", f"{name}-{soft}-{hard}-{spare}", shift, [f"--nofile={soft}:{hard}"], env, number=spare)
    if shift and (soft >= 512 or soft < hard):
        wait_for("protection", lambda: is_protected(lab), 30)
    if slow:
        lab.ctl("cost", f"h0/{slow}", 100000)
    program.say("go")
    got, rest = int(said(program, "GOT")), int(said(program, "LEFT"))
    if slow:
        lab.ctl("cost", f"h0/{slow}", 0)
    ends(program)
    print(f"  {soft} of {hard}: {name} found {got} descriptors, and {rest} of {spare} behind the verbs")
    return got, rest


def files(lab, rng):
    """
    SHIFT has its descriptors above the program's limit: the program finds all of them, and is protected, however few they
    are. Only those of an LMDB file, which its library has opened, stay among the program's. Where the hard limit forbids that, SHIFT takes none if there are few; if there are more, a verb that needs some
    finds those that stock needs (two are spare, as SHIFT reads a file now and then).
    """
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    shift = Shift(log="info", yield_ms=500, **SOON)
    redis = Shift(log="info", yield_ms=500, kv=Redis(lab).start().url, **SOON)
    for soft in (rng.randint(64, 511), 1024, rng.randint(1025, 5000)):
        limits = soft, min(soft + rng.randint(100, 10000), most)
        stock = files_of(lab, "stock", None, *limits, 30)
        for name, how, taken in (("redis", redis, 0), ("lmdb", shift, LMDB_FILES)):
            taken += SHOWN_FILES if soft >= 1024 else 0
            if files_of(lab, name, how, *limits, 30)[0] != stock[0] - taken:
                raise Failed("SHIFT has descriptors that the program may have")
    few = rng.randint(64, 511)
    if files_of(lab, "stock", None, few, few, 30) != files_of(lab, "shift", shift, few, few, 30):
        raise Failed("SHIFT has descriptors where there are few")
    rest = files_of(lab, "stock", None, 1024, 1024, 30)[1]
    files_of(lab, "shift", shift, 1024, 1024, 30 - rest + 2)


def files_slow(lab, rng):
    """
    One NIC is slow to close, and the others are closed long before. None is opened again, with its descriptors, until
    the call of the program that needs them has been made again.
    """
    shift = Shift(log="info", yield_ms=200, **SOON)
    rest = files_of(lab, "stock", None, 1024, 1024, 30)[1]
    files_of(lab, "shift", shift, 1024, 1024, 30 - rest + 2, f"mlx5_{rng.randint(1, 3)}")


def lives_on(lab, case, name, shift, pages):
    """Does a thread with so many pages of stack get through all kinds of verbs?"""
    try:
        program = start(lab, case, f"{name}-{case}-{pages}", shift, number=pages)
        if shift:
            wait_for("protection", lambda: is_protected(lab), 30)
        program.say("go")
        said(program, "ENOUGH")
    except Failed:
        return False
    ends(program)
    return True


def stack(lab, _):
    """The smallest stacks with which stock's verbs get on, and SHIFT's: in all verbs, and in the first open."""
    least = {(case, name): next(pages for pages in range(4, 64) if lives_on(lab, case, name, shift, pages))
             for case in ("stack", "stack-open")
             for name, shift in (("stock", None), ("info", Shift(log="info", **SOON)),
                                 ("debug", Shift(log="debug", **SOON)))}
    print("  pages:", ", ".join(f"{case} {name} {pages}" for (case, name), pages in least.items()))
    for case, most in STACK_PAGES.items():
        if least[case] > most:
            raise Failed(f"{case}: {least[case]} pages with SHIFT")


def epoll(lab, _):
    """A facade's descriptor is an epoll itself: of the five that Linux lets one put around another, one is used up."""
    around = []
    for name, shift in (("stock", None), ("shift", Shift(log="info", **SOON))):
        program = start(lab, "epoll", name, shift)
        program.say("go")
        around.append(int(said(program, "AROUND")))
        ends(program)
    print(f"  around a channel: {around[0]} epolls on stock, {around[1]} under SHIFT")
    if around[1] < around[0] - 1:
        raise Failed("more than one less")


def kept_by(lab, name, shift, limits=(), protected=True):
    program = start(lab, "kept", name, shift, limits)
    if shift and protected:
        wait_for("protection", lambda: is_protected(lab), 30)
    program.say("go")
    said(program, "DONE")
    if shift and not protected and "address space (ulimit -v)" not in lab.shift_log(program):
        raise Failed("the log does not say that there is too little address space")
    ends(program)
    return dict(line.split(None, 2)[1:] for line in program.out().splitlines() if line.startswith("KEPT "))


def number_of(counts, key):
    return int(counts[key].split()[0])


def kept(lab, rng):
    """
    Signal handlers, limits, timers, children, keys of thread-specific data: as on stock, but the handlers
    of faults, which a setting leaves away. Of threads, mappings and address space SHIFT takes no more than
    docs/promises.md says; where address space is limited, nothing but its library.
    """
    stock = kept_by(lab, "stock", None)
    few = [f"--as={rng.randint(6 << 30, (16 << 30) - 1)}"]     # the software NICs' fabric is 3 GiB of addresses
    for name, limits, settings, handlers in (("shift", (), {}, CRASH_SIGNALS), ("off", (), {"crash_note": "off"}, set()),
                                             ("few", few, {}, set())):
        ours = kept_by(lab, name, Shift(log="info", **settings, **SOON), limits, protected=not limits)
        more = {key: number_of(ours, key) - number_of(stock, key) for key in TAKEN}
        differ = {key for key in stock.keys() | ours.keys() if stock.get(key) != ours.get(key)}
        print(f"  {name}: " + ", ".join(f"{key.rstrip(':')} {n:+}" for key, n in more.items()))
        if differ - TAKEN.keys() - LIMITED - handlers or (handlers and not handlers <= differ):
            raise Failed(f"{name} differs from stock in {', '.join(sorted(differ - TAKEN.keys() - handlers))}")
        for key, most in (TAKEN_FEW if limits else TAKEN).items():
            if more[key] > most:
                raise Failed(f"{name} has {more[key]} more of {key} than stock")


CASES = {"memory": memory, "pressed": pressed, "files": files, "files_slow": files_slow, "stack": stack, "epoll": epoll, "kept": kept}


if __name__ == "__main__":
    sys.exit(cases_main(CASES, lambda lab, name: CASES[name](lab, random.Random(lab.seed)), seeded=True,
                        nics=4))
