# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""
Under SHIFT: programs outlive what Linux' own driver makes of a broken NIC, no byte is wrong, and
traffic is back on the NIC when the kernel has it back. On stock each of these faults ends them.
"""
import glob
import os
import random
import re
import time

from cases_cycle import rebind, without_grace
from shiftlab.guest.cases import case, check
from shiftlab.guest.rig import settle
from shiftlab.guest.verify import Verify
from shiftlab.lab import wait_for

QPS = 3
ALL = "abce"
# A NIC that is out of reach at once may take WRITEs along that it had acknowledged, and SHIFT then ends their connection (P3).
NO_WRITES = "bc"
P3_ENDS = {"miscount", "peer-fatal"}     # causes of an end by P3, at the end that found it and at the other
MOVE_S = 60     # until all have left a broken NIC
BACK_S = 120    # until the kernel has a NIC again: its driver waits for the firmware, and guests are slow
# A guest is slow, and its NIC no sooner suspect. A move has 10 s, or four times the retry time of its queue pair: 30 s.
HANGS = {"hang_ms": 3000, "command_ms": 3000, "flush_wait_ms": 1000}
FLAPS, FLAP_S = 20, 2.0     # at most so long down, and up
TIMEOUT = 18
DRAWN, DRAWN_PART = 30, 0.75
COMMAND_TIMEOUT_MS = 600000     # longer than any case
STARVED_MS = 60000      # as firmware has it: longer than a busy machine keeps a guest from running
# Faults that are drawn, with the word that ends each.
FAULTS = (("port-down", "port-up"), ("surprise", "insert"), ("dead", "alive"), ("hang", "resume"), ("remove", "rescan"))


def verify(rig, shift, patterns=ALL, may_fail=False):
    """
    One end on the case's NIC, the other one on a NIC that stays well. No atomics: of unknown fate, one ends its connection.
    """
    at = {"a": rig.nic.name, "b": rig.spare.name}
    v = Verify(rig, shift, rig.seed, QPS, patterns, TIMEOUT, nic=lambda end: at[end], may_fail=may_fail)
    rig.await_protected(2 * QPS, v.ends)
    v.moves_on()
    return v


def finish(rig, v, least=2):
    v.stop()
    messages = v.verdict()
    moves = len(rig.moves(*v.ends))
    check(moves >= least, f"{moves} moves, where {least} had to be")
    check(not v.failed_qps, f"{v.failed_qps} ends of connections have died")
    rig.kernel_is_content()
    return f"{moves} moves, {messages} messages, 0 wrong bytes, seed {rig.seed}"


def left(rig, ends=2 * QPS):
    """True when no connection is on the case's NIC; ends: of all connections together."""
    found = rig.connections()
    return len(found) == ends and all(q["nic"] != rig.nic.name for q in found)


def last_fatal_error(rig):
    """The line of the kernel's log, with its time; of any NIC. None: there was none."""
    lines = [line for line in rig.kernel_log().splitlines() if "Fatal error" in line]
    return lines[-1] if lines else None


def through(rig, v, word, over):
    """Breaks the NIC until all have left it, ends the fault, and waits until all are back; how long both took."""
    began, error = time.monotonic(), last_fatal_error(rig)
    rig.breaks(word)
    rig.until("move", lambda: left(rig), v.ends, MOVE_S, 0.3)
    gone = time.monotonic()
    v.moves_on()
    if word == "dead":
        # SHIFT is quicker than the driver, which takes a function that was dead between two of its looks for well.
        wait_for("the driver's look at the NIC", lambda: last_fatal_error(rig) != error, BACK_S, 0.3)
    if over:
        rig.breaks(over)
    rig.await_path(0, v.ends, BACK_S)
    back = time.monotonic()
    v.moves_on()
    return f"gone within {gone - began:.1f} s, back {back - gone:.1f} s later"


def let_driver_wait(rig, command, reset=None):
    """The driver gives commands up after so many ms, and a function that does not come back."""
    rig.ask(fault=f"command-timeout={command}")
    if reset:
        rig.ask(fault=f"reset-timeout={reset}")
    rebind(rig)


def outlives(rig, word, over=None, patterns=ALL, **settings):
    """over: the word that ends the fault; None: the driver does."""
    v = verify(rig, rig.shift(**settings), patterns)
    took = through(rig, v, word, over)
    return f"{took}; {finish(rig, v)}"


def reasons(rig):
    """Causes of the ends that SHIFT has told, at both ends."""
    found = []
    for path in glob.glob(os.path.join(rig.folder, "shift-*.log")):
        with open(path, encoding="utf-8", errors="replace") as f:
            found += re.findall(r"event \d+: failed \S+ \(([\w-]+)\)", f.read())
    return found


def survives_in_part(rig, word):
    """
    Through a fault that takes completions along which the NIC had acknowledged: connections move, or end at both ends by P3, and no
    byte is wrong.
    """
    v = verify(rig, rig.shift(), NO_WRITES, may_fail=True)
    rig.breaks(word)
    rig.until("move or end", lambda: all(q["nic"] != rig.nic.name or q["level"] != "protected" for q in rig.connections()),
              v.ends, MOVE_S, 0.3)
    v.stop()
    messages, moves = v.verdict(), len(rig.moves(*v.ends))
    check(v.failed_qps < 2 * QPS and moves >= 2, f"{v.failed_qps} ends of connections have died, {moves} moves")
    told = reasons(rig)
    check(not set(told) - P3_ENDS and bool(told) == bool(v.failed_qps), f"{v.failed_qps} ends have died by {told}")
    rig.kernel_is_content(faults_may=True)
    return f"{v.failed_qps} of {2 * QPS} ends died by P3; {moves} moves, {messages} messages, 0 wrong bytes, seed {rig.seed}"


@case("shift.fatal")
def fatal(rig):
    """A fatal error of the firmware: the driver tells it twice, resets the function and makes its device anew."""
    return outlives(rig, "fatal")


@case("shift.port")
def port(rig):
    """The port goes down, and comes up."""
    return outlives(rig, "port-down", "port-up")


@case("shift.flr", by_name=True)
def flr(rig):
    """
    A reset behind the driver's back, which finds ones on the bus.

    It lasts until an operator removes its device and has the bus scanned.
    """
    return outlives(rig, "flr", "replug", NO_WRITES, **HANGS)


@case("shift.reset", by_name=True)
def reset(rig):
    """
    A reset by the kernel (sysfs), which keeps the config space. The driver of Linux 6.1 does not take part, and hears of it when
    the firmware reports an error.
    """
    return outlives(rig, "reset", "fatal", **HANGS)


@case("shift.dead", by_name=True)
def dead(rig):
    """All reads give ones, and the function is back as after power-on."""
    return outlives(rig, "dead", "alive", NO_WRITES)


@case("shift.surprise")
def surprise(rig):
    """The card leaves its slot without a word, and comes back as a new device."""
    return outlives(rig, "surprise", "insert", NO_WRITES)


@case("shift.aer", by_name=True)
def aer(rig):
    """
    A fatal error of the PCI link, which the kernel reports to the driver (AER).

    It resets the link, and the driver loads anew. Behind an IOMMU the NIC loses its host's memory before that, piece by piece.
    """
    return survives_in_part(rig, "aer") if rig.iommu() else outlives(rig, "aer", patterns=NO_WRITES)


@case("shift.remove", by_name=True)
def remove(rig):
    """An orderly removal by the kernel's hand, and a scan of the bus that finds the card again."""
    return outlives(rig, "remove", "rescan")


@case("shift.bus_master", by_name=True)
def bus_master(rig):
    """The NIC may not reach memory any more, and nobody is told."""
    return outlives(rig, "bus-master-off", "bus-master-on", NO_WRITES, **HANGS)


@case("shift.hang")
def hang(rig):
    """
    Neither commands nor data, and nobody is told: behind it the programs end at once.

    A command waits longer than the case may take, so a program that waits for one fails it.
    """
    let_driver_wait(rig, COMMAND_TIMEOUT_MS)
    v = verify(rig, rig.shift(**HANGS))
    rig.breaks("hang")
    rig.until("move", lambda: left(rig), v.ends, MOVE_S, 0.3)
    v.moves_on()
    began = time.monotonic()
    said = finish(rig, v)
    ended = time.monotonic() - began
    check("after timeout" not in rig.kernel_log(), "a command has come to its end: the case shows nothing")
    rig.breaks("resume")
    return f"its end took {ended:.1f} s; {said}"


@case("shift.hang_over", by_name=True)
def hang_over(rig):
    """A NIC that hangs and goes on."""
    return outlives(rig, "hang", "resume", **HANGS)


@case("shift.events", by_name=True)
def events(rig):
    """Commands time out, as their answers are told to nobody; data goes on, and so does the program."""
    v = verify(rig, rig.shift())
    rig.breaks("lose-events")
    settle(15)      # two commands' time
    rig.breaks("heal")
    v.moves_on()
    return finish(rig, v, 0)


@case("shift.flaps", by_name=True)
def flaps(rig):
    """The port goes down and up twenty times, at drawn moments."""
    v, draw = verify(rig, rig.shift()), random.Random(rig.seed)
    for _ in range(rig.times or FLAPS):
        rig.breaks("port-down")
        settle(draw.uniform(0.1, FLAP_S))
        rig.breaks("port-up")
        settle(draw.uniform(0.1, FLAP_S))
    rig.await_path(0, v.ends, BACK_S)
    v.moves_on()
    return finish(rig, v)


@case("shift.drawn", by_name=True)
def drawn(rig):
    """
    Up to thirty faults, or as many as the lane was told, drawn, one after the other.

    Each ends, and all is back before the next. None begins in the last part of the case's time.
    The driver is patient: where it gives up a command while it is loaded anew, or a NIC that is
    dead for long, the NIC stays without it for good.
    """
    let_driver_wait(rig, STARVED_MS, STARVED_MS)
    until = time.monotonic() + DRAWN_PART * rig.limit
    v, draw, n = verify(rig, rig.shift(**HANGS), NO_WRITES), random.Random(rig.seed), 0
    while n < (rig.times or DRAWN) and (not n or time.monotonic() < until):
        word, over = draw.choice(FAULTS)
        n += 1
        if word == "dead":
            without_grace(rig)
        if word == "surprise":
            rig.await_asked()
        rig.tell(f"{n}: {word}: {through(rig, v, word, over)}")
    return f"{n} faults; {finish(rig, v, 2 * n)}"
