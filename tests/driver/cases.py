# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The cases of this lane."""
from shiftlab.guest.cases import CASES


def load():
    """All cases, in the order in which they run."""
    import cases_belief     # noqa: F401 pylint: disable=unused-import,import-outside-toplevel
    import cases_net        # noqa: F401 pylint: disable=unused-import,import-outside-toplevel
    import cases_cycle      # noqa: F401 pylint: disable=unused-import,import-outside-toplevel
    import cases_iommu      # noqa: F401 pylint: disable=unused-import,import-outside-toplevel
    import cases_count     # noqa: F401 pylint: disable=unused-import,import-outside-toplevel
    import cases_hold       # noqa: F401 pylint: disable=unused-import,import-outside-toplevel
    import cases_programs   # noqa: F401 pylint: disable=unused-import,import-outside-toplevel
    import cases_shift      # noqa: F401 pylint: disable=unused-import,import-outside-toplevel
    return CASES
