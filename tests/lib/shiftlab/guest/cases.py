# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The table of a lane's cases. A case is a function of a rig; what it returns is said of it where it passed."""
import fnmatch
import shutil
import typing

CASES = {}


class Failed(Exception):
    """A case did not end as it should."""


class Skipped(Exception):
    """A case cannot be run here."""


def check(truth, what):
    if not truth:
        raise Failed(what)


class Case(typing.NamedTuple):
    """
    needs: programs of the system. engine: an engine of SHIFT's must serve the lane's NICs for this case. by_name: it
    is no part of the lane, and runs where a pattern names it.
    """
    name: str
    run: typing.Callable
    needs: tuple
    engine: bool
    by_name: bool

    @property
    def text(self):
        return self.run.__doc__.strip().splitlines()[0]

    def lacks(self):
        """The first program that is not there; None."""
        return next((name for name in self.needs if not shutil.which(name)), None)


def case(name, needs=(), engine=False, by_name=False):
    def add(run):
        if name in CASES:
            raise ValueError(f"two cases {name}")
        CASES[name] = Case(name, run, tuple(needs), engine, by_name)
        return run
    return add


def chosen(patterns):
    """The names of the cases that the patterns name; of all that need no name where there are none."""
    if not patterns:
        return [name for name, case in CASES.items() if not case.by_name]
    return [name for name, case in CASES.items() if any(
        fnmatch.fnmatchcase(name, p) and (not case.by_name or p.startswith(name.partition(".")[0])) for p in patterns)]
