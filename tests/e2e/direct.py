#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Programs that write to the rings of their queue pairs themselves (mlx5dv_init_obj): SHIFT leaves
the rings to them, says so, and moves nothing.

  direct.py --build DIR [CASE...]
"""
import os
import re
import sys
import time

from shiftlab.lab import Shift, cases_main, free_port, wait_for

OWN = "is not protected: somebody else posts to its rings (direct verbs): SHIFT leaves it alone"
INTRUDER = "somebody else writes to rings that SHIFT drives (direct verbs): SHIFT leaves it alone"
CQE_SYNDROME_RETRY = "0x15"


class Failed(Exception):
    """What a case found wrong."""


def start(lab, mode, shift):
    argv = [os.path.join(lab.out, "bin", "direct"), mode]
    port = str(free_port())
    with_shift = Shift(log="info") if shift else None
    return [lab.start(host, argv + [side, port], side.strip("-"), with_shift, stdin=True)
            for host, side in (("h0", "--server"), ("h1", "--client"))]


def said(ends, word):
    for p in ends:
        wait_for(f"{word} of {p.name}",
                 lambda p=p: word in p.out().splitlines() or not p.running(), 30)
        if word not in p.out().splitlines():
            raise Failed(f"{p.name} ended with {p.process.returncode}, before {word}")


def say(ends, word):
    for p in ends:
        p.say(word)


def logged(lab, program, text):
    wait_for(f"'{text}' in the log of {program.name}",
             lambda: text in lab.shift_log(program) or not program.running(), 30)
    return lab.shift_log(program).count(text)


def done(lab, ends):
    for p in ends:
        if p.wait(60) or "OK" not in p.out().splitlines():
            raise Failed(f"{p.name} ended with {p.process.returncode}")
        if lab.moves(p):
            raise Failed(f"{p.name} was moved")


def errors(ends):
    for p in ends:
        if not re.search(f"^SYNDROME {CQE_SYNDROME_RETRY}$", p.out(), re.M):
            raise Failed(f"{p.name} did not see the error of its NIC")


def own(lab, shift=True, mode="own"):
    """Rings that are the program's from its first post on. A fault is the program's to see."""
    ends = start(lab, mode, shift)
    said(ends, "TALKED")
    for p in ends:
        if shift and logged(lab, p, OWN) != 1:
            raise Failed(f"{p.name} was not told of once")
    say(ends, "go")
    said(ends, "AGAIN")
    lab.fault("port-down", "h0/mlx5_0")
    say(ends, "fault")
    done(lab, ends)
    errors(ends)


def own_small(lab):
    """A completion queue that is too small for a flush, and is not made larger under the program's hands."""
    own(lab, mode="own_small")


def stock(lab):
    own(lab, shift=False)


def intrude(lab):
    """A hand in rings that SHIFT drives: one line of error, and no move behind it."""
    ends = start(lab, "intrude", True)
    said(ends, "TALKED")
    for p in ends:
        wait_for(f"protection of {p.name}", lambda p=p: lab.protected(p) or not p.running(), 30)
    say(ends, "go")
    said(ends, "AGAIN")
    lab.fault("port-down", "h1/mlx5_0")
    if logged(lab, ends[1], INTRUDER) < 1:
        raise Failed("the intruder was not noticed")
    time.sleep(1)  # longer than a move takes
    say(ends, "fault")
    done(lab, ends)
    lines = [row for row in lab.shift_log(ends[1]).splitlines() if "error:" in row]
    if len(lines) != 1 or INTRUDER not in lines[0]:
        raise Failed(f"{len(lines)} lines of error instead of one")


def made(lab):
    """Queue pairs of mlx5dv_create_qp, in all ways, beside others: no completion is lost or wrong."""
    for kind in ("plain", "builders", "both", "direct"):
        for company in ("alone", "before", "behind", "extended"):
            argv = [os.path.join(lab.out, "bin", "made"), kind, company]
            stock_way = lab.start("h0", argv, f"stock-{kind}-{company}", None)
            program = lab.start("h0", argv, f"{kind}-{company}", Shift(log="info"))
            for p in (stock_way, program):
                if p.wait(60):
                    raise Failed(f"{p.name} ended with {p.process.returncode}: {p.tail()}")
            if program.out() != stock_way.out():
                raise Failed(f"{program.name}: {program.out().split()}, stock: {stock_way.out().split()}")
            print(f"  {kind}, {company}: {program.out().split()[-1]}")


def set_by_command(lab):
    """What no verb sets, and a standby would lack: the connection is protected no more, and goes on."""
    argv = [os.path.join(lab.out, "bin", "set"), "-p", str(free_port())]
    ends = [lab.start("h0", argv + ["-s"], "server", Shift(log="info"), stdin=True),
            lab.start("h1", argv, "client", Shift(log="info"), stdin=True)]
    said(ends, "TALKED")
    for p in ends:
        wait_for(f"protection of {p.name}", lambda p=p: lab.protected(p) or not p.running(), 30)
    say(ends, "go")
    said(ends, "AGAIN")
    if logged(lab, ends[1], "is not protected: its program has set something of it by a command of the driver") != 1:
        raise Failed("a setting that a standby would lack was not told of once")
    say(ends, "end")
    done(lab, ends)


CASES = {"stock": stock, "own": own, "own_small": own_small, "intrude": intrude, "made": made, "set": set_by_command}


if __name__ == "__main__":
    sys.exit(cases_main(CASES, lambda lab, name: CASES[name](lab)))
