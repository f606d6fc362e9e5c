#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A crash in SHIFT's thread is said in the log, and takes its course; the program's own crashes, and its
own handlers, are as without SHIFT."""
import json
import os
import signal
import sys

from ctl import must
from shiftlab.lab import Shift, cases_main, wait_for

HANDLED = 42
OURS = "in SHIFT's thread shift"


class Crash:
    def __init__(self, lab, handler="none", **settings):
        self.lab = lab
        self.how = os.path.join(lab.folder, "how")
        bins = os.path.join(lab.out, "bin")
        env = {"CRASH_FILE": self.how, "LD_PRELOAD": os.path.join(lab.out, "lib", "crash_shim.so")}
        self.program = lab.start("h0", [os.path.join(bins, "crash_app"), handler], "app",
                                 Shift(**settings), env=env, stdin=True)
        wait_for("the program", lambda: "ready" in self.program.out() or
                 not self.program.running(), 30)
        must("it runs", self.program.running(), self.program.tail())

    def thread(self, how):
        """SHIFT's thread crashes, when it is asked something."""
        with open(self.how, "w", encoding="ascii") as f:
            f.write(how)
        self.lab.shiftctl("h0", "status", check=False)
        return self

    def own(self):
        self.program.say("crash")
        return self

    def ends(self, status):
        got = self.program.wait(30)
        must(f"it ends with {got}, not {status}", got == status, self.program.tail(), self.log())
        return self

    def log(self):
        return self.lab.shift_log(self.program)

    def says(self, *words):
        lines = [line for line in self.log().splitlines() if "please report" in line]
        must("one line" if words else "nothing", len(lines) == bool(words), self.log())
        must(f"{words}", all(w in line for w in words for line in lines), lines)
        return self

    def handled(self):
        must("the handler saw it", "handler: address 16" in self.program.out(),
             self.program.out())
        return self


def thread(lab):
    """A fault of SHIFT's thread: the signal, the thread and the address, and the process dies of it."""
    Crash(lab).thread("segv").ends(-signal.SIGSEGV).says("SIGSEGV", OURS, "address 0x10",
                                                         "SHIFT_DISABLE=1")


def abort(lab):
    """As assert() does."""
    Crash(lab).thread("abort").ends(-signal.SIGABRT).says("SIGABRT", OURS)


def overflow(lab):
    """Of its stack."""
    Crash(lab).thread("overflow").ends(-signal.SIGSEGV).says("SIGSEGV", OURS)


def as_json(lab):
    crash = Crash(lab, log_format="json").thread("segv").ends(-signal.SIGSEGV)
    lines = [json.loads(line) for line in crash.log().splitlines()]
    must("a line", lines[-1]["level"] == "error" and OURS in lines[-1]["message"], lines)


def handler_before(lab):
    """The program's handler gets the fault behind the line."""
    Crash(lab, "before").thread("segv").ends(HANDLED).says("SIGSEGV", OURS).handled()


def handler_after(lab):
    """It has the signal; SHIFT is not asked."""
    Crash(lab, "after").thread("segv").ends(HANDLED).says().handled()


def own(lab):
    """The program's own faults, with each of its handlers: not a word."""
    for handler, status in (("none", -signal.SIGSEGV), ("before", HANDLED), ("after", HANDLED)):
        crash = Crash(lab, handler).own().ends(status).says()
        if status == HANDLED:
            crash.handled()


def sent(lab):
    """By kill(1): dies as told, and nobody is blamed."""
    for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS):
        crash = Crash(lab)
        os.kill(crash.program.pid, number)
        crash.ends(-number)
        must("nobody is blamed", "SHIFT's" not in crash.log(), crash.log())


def off(lab):
    """No disposition is touched; the kernel ends it."""
    crash = Crash(lab, crash_note="off")
    with open(f"/proc/{crash.program.pid}/status", encoding="ascii") as f:
        caught, = (int(line.split()[1], 16) for line in f if line.startswith("SigCgt"))
    must("no handler", not caught & (1 << signal.SIGSEGV - 1), hex(caught))
    crash.thread("segv").ends(-signal.SIGSEGV).says()


CASES = {f.__name__: f for f in (thread, abort, overflow, as_json, handler_before, handler_after,
                                 own, sent, off)}

if __name__ == "__main__":
    sys.exit(cases_main(CASES, lambda lab, name: CASES[name](lab)))
