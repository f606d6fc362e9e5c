# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The table of cases. A case is a function of a Rig; what it returns is said of it where it passed."""
import shutil
import typing

CASES = {}


class Case(typing.NamedTuple):
    """
    needs: programs of the system. engine: an engine of SHIFT's must serve rxe for this case. by_name: it is no part
    of the lane, and runs where a pattern names it.
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


def load():
    """All cases, in the order in which they run."""
    import cases_stock      # noqa: F401 pylint: disable=unused-import,import-outside-toplevel
    import cases_shift      # noqa: F401 pylint: disable=unused-import,import-outside-toplevel
    import cases_protected  # noqa: F401 pylint: disable=unused-import,import-outside-toplevel
    import cases_cross      # noqa: F401 pylint: disable=unused-import,import-outside-toplevel
    import cases_pyverbs    # noqa: F401 pylint: disable=unused-import,import-outside-toplevel
    import cases_programs   # noqa: F401 pylint: disable=unused-import,import-outside-toplevel
    import cases_sdr        # noqa: F401 pylint: disable=unused-import,import-outside-toplevel
    import cases_lane       # noqa: F401 pylint: disable=unused-import,import-outside-toplevel
    import cases_packages   # noqa: F401 pylint: disable=unused-import,import-outside-toplevel
    import cases_bench      # noqa: F401 pylint: disable=unused-import,import-outside-toplevel
    return CASES
