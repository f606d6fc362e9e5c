# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What the ranks of jobs.py have in common: when to end, and where rounds are noted."""
import argparse
import ctypes
import hashlib
import os
import signal

PR_SET_PDEATHSIG = 1
ALL = -1    # rounds: each of those that differ once


def die_with_parent():
    """Whoever started this rank has ended it by that, too."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def parser():
    p = argparse.ArgumentParser()
    p.add_argument("--out", required=True, help="file for a line a round")
    p.add_argument("--rounds", type=int, help="so many, or")
    p.add_argument("--until", help="until this file is there")
    return p


def digest(*arrays):
    """Of their bytes, one behind the other; any objects with the buffer interface."""
    h = hashlib.sha256()
    for a in arrays:
        h.update(memoryview(a).cast("B"))
    return h.hexdigest()


def check(truth, what):
    if not truth:
        raise AssertionError(what)


class Rounds:
    """The count of rounds; only the rank that decides may ask last()."""

    def __init__(self, args):
        self.args = args
        self.n = 0
        self.file = open(args.out, "w", encoding="ascii")  # pylint: disable=consider-using-with

    def last(self):
        """Whether the round that is to come is the last one."""
        if self.args.rounds:
            return self.n + 1 >= self.args.rounds
        return os.path.exists(self.args.until)

    def note(self, text):
        self.file.write(f"{text}\n")
        self.file.flush()
        self.n += 1
