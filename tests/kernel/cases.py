# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The cases of this lane."""
from shiftlab.guest.cases import CASES


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
