#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A rank that runs mpi4py's own tests, one a round, again and again."""
import io
import os
import sys
import unittest

from mpi4py import MPI

from rounds import ALL, Rounds, die_with_parent, parser

comm = MPI.COMM_WORLD


def flatten(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flatten(test)
        else:
            yield test


def outcome(name):
    """A test object is used once: its set-up and tear-down make and free what it works on."""
    said = io.StringIO()
    suite = unittest.defaultTestLoader.loadTestsFromName(name)
    result = unittest.TextTestRunner(said).run(suite)
    if not result.wasSuccessful():
        sys.stderr.write(said.getvalue())
        return f"{name} failed"
    return f"{name} " + ("skipped" if result.skipped else "ok")


def main():
    p = parser()
    p.add_argument("--source", required=True, help="mpi4py's source")
    p.add_argument("--without", action="append", default=[], help="method to leave out")
    p.add_argument("classes", nargs="+", help="module.Class")
    args = p.parse_args()
    die_with_parent()
    sys.path.insert(0, os.path.join(args.source, "test"))
    tests = unittest.defaultTestLoader.loadTestsFromNames(args.classes)
    names = [t.id() for t in flatten(tests) if t.id().split(".")[-1] not in args.without]
    if args.rounds == ALL:
        args.rounds = len(names)
    rounds, last = Rounds(args), False
    while not last:
        last = comm.bcast(rounds.last() if comm.rank == 0 else None)
        text = outcome(names[rounds.n % len(names)])
        rounds.note(text)
        if text.endswith("failed"):
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
