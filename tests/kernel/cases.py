# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The table of cases. A case is a function of a Rig; what it returns is said of it where it passed."""
import shutil
import typing

CASES = {}


class Case(typing.NamedTuple):
    """needs: programs of the system. engine: an engine of SHIFT's must serve rxe for this case."""
    name: str
    run: typing.Callable
    needs: tuple
    engine: bool

    @property
    def text(self):
        return self.run.__doc__.strip().splitlines()[0]

    def lacks(self):
        """The first program that is not there; None."""
        return next((name for name in self.needs if not shutil.which(name)), None)


def case(name, needs=(), engine=False):
    def add(run):
        if name in CASES:
            raise ValueError(f"two cases {name}")
        CASES[name] = Case(name, run, tuple(needs), engine)
        return run
    return add


def load():
    """All cases, in the order in which they run."""
    import cases_stock      # noqa: F401 pylint: disable=unused-import,import-outside-toplevel
    import cases_shift      # noqa: F401 pylint: disable=unused-import,import-outside-toplevel
    import cases_protected  # noqa: F401 pylint: disable=unused-import,import-outside-toplevel
    import cases_packages   # noqa: F401 pylint: disable=unused-import,import-outside-toplevel
    return CASES
