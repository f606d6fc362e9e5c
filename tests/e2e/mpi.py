#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""MPI over UCX's rc_verbs, through a fault and back: what arrives equals what arrives without SHIFT
and without fault.

  mpi.py --build DIR [--fault calm,link,switch,death,drain] [--stock] [CASE...]
"""
import glob
import os
import sys

from shiftlab import jobs
from shiftlab.openmpi import NO_ATOMICS, OpenMpi

# Of mpi4py's tests those that move data between the ranks. Two take the locks of accumulate ten
# thousands of times, each of which waits for the other rank's turn of few processors.
SUITE = ("test_p2p_buf.TestP2PBufWorld", "test_cco_buf.TestCCOBufWorld",
         "test_cco_buf.TestCCOBufInplaceWorld", "test_msgzero.TestMessageZeroWorld",
         "test_rma.TestRMAWorld")
TOO_LONG = ("--without", "testAccumulate", "--without", "testGetAccumulate")
EVERY_TEST = -1
REDUCED_BYTES = 8 * 106_000     # by an Allreduce of all sizes, at least, by each rank


def makes_windows(name, fault):
    """Each round of one-sided work makes a window, with connections of its own: on a dead NIC nothing can be made."""
    if fault.make is jobs.death:
        print(f"       SKIP: {name} makes windows, which a NIC that was taken away has none of")
        return True
    return False


def work(*names):
    def case(lab, fault, mpi):
        if "one_sided" in names and makes_windows("one_sided", fault):
            return
        more = NO_ATOMICS if fault.make and "one_sided" in names else {}
        jobs.run(lab, mpi.starter("mpi_rank.py", *names, **more), fault,
                 min_bytes=REDUCED_BYTES if "allreduce" in names else 1)
    return case


def suite(lab, fault, mpi):
    if makes_windows("the suite", fault):
        return
    found = glob.glob(os.path.join(mpi.folder, "mpi4py-*", "test"))
    if not found:
        print("       SKIP: no tests of mpi4py in " + mpi.folder)
        return
    more = NO_ATOMICS if fault.make else {}
    start = mpi.starter("suite_rank.py", "--source", os.path.dirname(found[-1]), *TOO_LONG, *SUITE,
                        **more)
    lines = jobs.run(lab, start, fault, EVERY_TEST)
    ran = [line for line in lines[0] if line.endswith(" ok")]
    if not ran:
        raise jobs.Failed("no test of mpi4py ran")
    print(f"       {len(ran)} tests, {len(lines[0]) - len(ran)} skipped")


CASES = {
    "allreduce": work("allreduce"),
    "exchange": work("exchange"),
    "one_sided": work("one_sided"),
    "suite": suite,
    "all": work("allreduce", "exchange", "one_sided"),
}

if __name__ == "__main__":
    sys.exit(jobs.main(__doc__, CASES, OpenMpi))
