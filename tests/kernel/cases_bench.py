# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What SHIFT costs over rxe, by name alone: an emulated kernel's times are compared with each other only."""
import re
import statistics

from shiftlab.guest.cases import case
from rig import check

ROUNDS, TRIES = 20, 8
TYPICAL = re.compile(r"^ *8 +\d+ +([\d.]+) +([\d.]+) +([\d.]+) ", re.M)  # least, most, typical


def latency(rig, shift):
    """
    Of one run of ib_write_lat, 8 bytes: half of the typical round trip, in us. It measures how fast the CPU's
    clock runs at its start, and where an emulated one runs unevenly, it finds nothing: "inf".
    """
    for _ in range(TRIES):
        ends = rig.perftest("ib_write_lat -s 8 -n 300", shift=shift)
        rig.ends_well(*ends)
        found = TYPICAL.search(ends[1].out())
        if found:
            return float(found[3])
    check(False, f"no latency in {TRIES} runs: {ends[1].tail(5)}")
    return None


@case("bench.write_latency", needs=("ib_write_lat",), engine=True, by_name=True)
def write_latency(rig):
    """Latency of a WRITE, 20 runs on the stock library and 20 under the ledger engine, in turns."""
    pairs = [(latency(rig, None), latency(rig, rig.shift())) for _ in range(ROUNDS)]
    stock, ours = (statistics.median(column) for column in zip(*pairs))
    ratio = statistics.median(b / a for a, b in pairs)
    better = sum(b < a for a, b in pairs)
    return (f"stock {stock:.1f} us, ledger {ours:.1f} us, median of the ratios {ratio:.3f}, "
            f"the ledger was quicker in {better} of {ROUNDS}")
