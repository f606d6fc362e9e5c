# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What a program sees of a NIC that breaks: the steps of each fault, the row of what was seen, and two rows compared.

A row is what nic_calls said of one fault: for each phase the errno of each call and whether the call was slow, the
events and completions in their order, and times. The same steps make a row on a kernel's driver and on simnic.
"""
import errno
import json
import time
import typing

from shiftlab.guest.cases import check
from shiftlab.lab import slowed, wait_for


class Break(typing.NamedTuple):
    """A word for whoever breaks the NIC of this side."""
    word: str


class Await(typing.NamedTuple):
    """Until the program has said so many of these events. seconds: the longest that it may take."""
    event: str
    count: int = 1
    seconds: float = 30


class Settle(typing.NamedTuple):
    """Time in which something may come that is not waited for."""
    seconds: float


class Probe(typing.NamedTuple):
    """One round of calls."""
    phase: str


class End(typing.NamedTuple):
    """The program destroys what it holds, and closes."""


class Exit(typing.NamedTuple):
    """The program ends and holds all that it has made."""


FATAL = "DEVICE_FATAL"
TWO_FATALS = (Await(FATAL), Probe("told"), Await(FATAL, 2), Probe("gone"), End())
GONE = (Await(FATAL), Probe("gone"), End())
FAULTS = {
    "calm": (Probe("calm"), End()),
    "port": (Break("port-down"), Await("PORT_ERR"), Probe("down"), Settle(2), Break("port-up"), Await("PORT_ACTIVE"),
             Probe("up"), End()),     # retries last half a second
    "syndrome": (Break("syndrome"), Settle(5), Probe("sick"), End()),
    "slow": (Break("slow"), Probe("slow"), Break("heal"), End()),
    "fatal": (Break("fatal"), *TWO_FATALS),
    "dead": (Break("dead"), *TWO_FATALS),
    "surprise": (Break("surprise"), *GONE),
    "remove": (Break("remove"), *GONE),
    "bus_master": (Break("bus-master-off"), Settle(8), Probe("off"), End()),
    "aer": (Break("aer"), *GONE),
    "hang": (Break("hang"), Probe("hung"), End()),
    "hang_exit": (Break("hang"), Exit()),
    "reset": (Break("reset"), Settle(8), Exit()),
    "flr": (Break("flr"), Settle(8), Exit()),
}
LONG = ("bus_master", "hang", "hang_exit", "reset", "flr")  # a command after the other waits for its timeout
LONGEST_S = 250     # for all commands of a round, each of which may wait for its timeout
WAITS = ("poll_cq",)    # calls that take their time where nothing comes
DIRECT_S = 0.5      # what takes longer than this part of the side's command timeout is slow


class Session:
    """One program through the steps of one fault. timeout_s: after which this side's driver gives a command up."""

    def __init__(self, program, breaks, timeout_s):
        self.program, self.breaks, self.timeout_s = program, breaks, timeout_s
        self.phases = {}
        self.broken = None      # when, by the clock that the program's times are of
        self.exit_s = None

    def said(self):
        rows = self.program.out().split("\n")[:-1]
        return [json.loads(row) for row in rows if row.startswith("{")]

    def await_said(self, what, test, seconds):
        def there():
            if test():
                return True
            check(self.program.running(), f"nic_calls ended with {self.program.process.returncode}, and no {what}: "
                                          f"{self.program.tail(4)}")
            return False

        wait_for(what, there, seconds, 0.05)

    def count(self, kind, word):
        return sum(r.get(kind) == word for r in self.said())

    def command(self, word, phase):
        """Has the program obey a word; notes what its calls said."""
        before, done = len(self.said()), self.count("done", word)
        self.program.say(word)
        self.await_said(f"end of {word}", lambda: self.count("done", word) > done, LONGEST_S)
        self.phases[phase] = [r for r in self.said()[before:] if "call" in r]

    def step(self, step):
        if isinstance(step, Break):
            self.broken = self.broken or time.monotonic()
            self.breaks(step.word)
        elif isinstance(step, Await):
            self.await_said(f"{step.event} number {step.count}",
                            lambda: self.count("event", step.event) >= step.count, step.seconds)
        elif isinstance(step, Settle):
            time.sleep(step.seconds)
        elif isinstance(step, Probe):
            self.command("probe", step.phase)
        elif isinstance(step, End):
            self.command("end", "end")
        else:
            self.exit()

    def exit(self):
        began = time.monotonic()
        self.program.say("exit")
        self.program.process.wait(slowed(LONGEST_S))
        self.exit_s = time.monotonic() - began

    def slow(self, seconds, call=None):
        return call not in WAITS and seconds > DIRECT_S * self.timeout_s

    def run(self, steps):
        """The row."""
        self.await_said("ready", lambda: self.count("ready", self.program_nic()), 60)
        for step in steps:
            self.step(step)
        return self.row()

    def program_nic(self):
        return self.program.argv[-2]

    def row(self):
        said = self.said()
        began = self.broken or said[0]["t"]
        row = {"calls": {phase: {r["call"]: [errno.errorcode.get(r["errno"], r["errno"]) if r["errno"] else 0,
                                             self.slow(r["s"], r["call"])] for r in rows}
                         for phase, rows in self.phases.items()},
               "events": [r["event"] for r in said if "event" in r],
               "completions": runs(r["completion"] for r in said if "completion" in r),
               "channel_ends": [r["channel_ends"] for r in said if "channel_ends" in r],
               "async_ends": [r["async_ends"] for r in said if "async_ends" in r],
               "exit_slow": None if self.exit_s is None else self.slow(self.exit_s),
               "times": {"events": [round(r["t"] - began, 2) for r in said if "event" in r],
                         "calls": {phase: {r["call"]: round(r["s"], 3) for r in rows if self.slow(r["s"], r["call"])}
                                   for phase, rows in self.phases.items()},
                         "exit": None if self.exit_s is None else round(self.exit_s, 1)}}
        return row


def runs(words):
    """Without what is said twice in a row: how many there were is a matter of time."""
    found = []
    for word in words:
        if found[-1:] != [word]:
            found.append(word)
    return found


def said_of(call):
    err, slow = call
    return f"{err}{', slow' if slow else ''}"


def differences(kernel, simnic):
    """Lines that name what a fault's rows of both sides do not have alike: "PLACE: kernel ..., simnic ..."."""
    found = []
    for phase in kernel["calls"].keys() | simnic["calls"].keys():
        ours, theirs = simnic["calls"].get(phase, {}), kernel["calls"].get(phase, {})
        for call in theirs.keys() | ours.keys():
            pair = [said_of(side[call]) if call in side else "not made" for side in (theirs, ours)]
            if pair[0] != pair[1]:
                found.append(f"{phase}.{call}: kernel {pair[0]}, simnic {pair[1]}")
    for what in ("events", "completions", "channel_ends", "async_ends", "exit_slow"):
        if kernel[what] != simnic[what]:
            found.append(f"{what}: kernel {told(kernel[what])}, simnic {told(simnic[what])}")
    return sorted(found)


def told(value):
    return (" ".join(value) or "none") if isinstance(value, list) else str(value)
