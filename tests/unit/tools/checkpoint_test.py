#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The on-event command of docs/examples/checkpoint, event by event: whom it asks for a checkpoint, and which marks it
leaves in the folder DEGRADED. tests/e2e/checkpoint.py has the whole example.

usage: checkpoint_test.py
"""
import os
import signal
import subprocess
import sys
import tempfile

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "docs", "examples", "checkpoint",
                      "on-switch.sh")
SINCE = "2026-01-31T23:59:59.123456Z"


def run(folder, kind, number, pid):
    env = dict(os.environ, SHIFT_EVENT_KIND=kind, SHIFT_EVENT_NUMBER=str(number), SHIFT_EVENT_PID=str(pid),
               SHIFT_EVENT_SINCE=SINCE, SHIFT_EVENT_FROM="mlx5_0", SHIFT_EVENT_CAUSE="port-down")
    env.pop("DEGRADED", None)
    if folder:
        env["DEGRADED"] = folder
    subprocess.run([SCRIPT], env=env, check=False, stdout=subprocess.DEVNULL)


def marks(folder):
    """{process: what its mark says}"""
    found = {}
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        with open(os.path.join(folder, name), encoding="ascii") as f:
            found[int(name.rpartition("-")[2])] = f.read().split()
    return found


def main():
    asked = []
    signal.signal(signal.SIGUSR1, lambda *_: asked.append(1))
    me, wrong = os.getpid(), []
    with tempfile.TemporaryDirectory() as parent:
        folder = os.path.join(parent, "degraded")
        steps = [  # folder, event, its number, process; marks behind it
            (folder, "switch", 1, me, {}),
            (folder, "return", 2, me, {}),
            (folder, "degraded", 3, me, {me: [SINCE, "3"]}),
            (folder, "degraded", 4, 7, {me: [SINCE, "3"], 7: [SINCE, "4"]}),
            (folder, "degraded", 5, me, {me: [SINCE, "5"], 7: [SINCE, "4"]}),
            (folder, "whole", 6, 7, {me: [SINCE, "5"]}),
            (folder, "whole", 4, me, {me: [SINCE, "5"]}),   # it came late
            (folder, "whole", 8, me, {}),
            (folder, "whole", 9, me, {}),
            (None, "degraded", 10, me, {}),
            (None, "whole", 11, me, {}),
        ]
        for where, kind, number, pid, expected in steps:
            run(where, kind, number, pid)
            if marks(folder) != expected:
                wrong.append(f"{kind} {number} of {pid}: {marks(folder)}, not {expected}")
    if len(asked) != 1:
        wrong.append(f"asked for {len(asked)} checkpoints")
    print("\n".join(wrong) if wrong else f"{len(steps)} events")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
