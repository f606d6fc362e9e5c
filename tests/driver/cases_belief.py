# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What a stock program sees of a NIC that breaks under the kernel's driver: one case for each fault of belief.FAULTS."""
import json
import os

import belief
from shiftlab.guest.cases import case
from shiftlab.guest.inside import OUT

ROWS = os.path.join(OUT, "rows")
# The device asks the driver for 6 s a command; the driver waits 5 s more (MLX5_CMD_TIMEOUT_RECOVER_MSEC) if nothing comes.
TIMEOUT_S = 11.0


def write(name, row):
    with open(os.path.join(ROWS, name + ".json"), "w", encoding="utf-8") as f:
        json.dump(row, f)


def summary(row):
    """In one line: events with their times, and what the calls of each phase answered."""
    events = " ".join(f"{e}@{t:g}" for e, t in zip(row["events"], row["times"]["events"])) or "no event"
    phases = []
    for phase, calls in row["calls"].items():
        answers = [f"{belief.said_of(answer)}: {' '.join(c for c, a in calls.items() if a == answer)}"
                   for answer in belief.runs(sorted(calls.values(), key=str))]
        phases.append(f"{phase}: " + "; ".join(answers))
    ending = [] if row["times"]["exit"] is None else [f"exit after {row['times']['exit']:g} s"]
    return "\n".join([events, *phases, *ending])


def of_fault(name):
    def run(rig):
        argv = [rig.bin("nic_calls"), rig.nic.name, "0"]
        program = rig.launch("nic_calls", argv, rig.env(), stdin=True)
        row = belief.Session(program, rig.breaks, TIMEOUT_S).run(belief.FAULTS[name])
        write(name, row)
        rig.kernel_is_content()
        return summary(row)

    run.__doc__ = f"What each verb answers, and which events come: {name}."
    return run


for fault in belief.FAULTS:
    case("belief." + fault, by_name=fault in belief.LONG)(of_fault(fault))
