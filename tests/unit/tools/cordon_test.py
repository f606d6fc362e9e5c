#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The examples that keep jobs off a node (docs/deploy): for which events, and what they ask of the scheduler.

usage: cordon_test.py
"""
import os
import subprocess
import sys
import tempfile

DEPLOY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "docs", "deploy")
LEAVES = "its connections leave in order"
CASES = [  # kind, cause, why, whether the node is in question
    ("switch", "port-down", "", True),
    ("switch", "retry-exceeded", "", True),
    ("switch", "peer", "", False),
    ("switch", "drain", "", False),
    ("switch", "better-nic", "", False),    # from one backup to another, behind a fault of the other node, say
    ("return", "better-nic", "", False),
    ("gray", "packet-loss", LEAVES, True),
    ("gray", "packet-loss", "it is only watched", False),
    ("gray", "slow-link", LEAVES, True),
    ("gray", "slow-link", "it is only watched", False),
    ("gray", "slow-pci", LEAVES, True),
    ("gray", "slow-pci", "it is only watched", False),
    ("gray", "slow-path", "slow, or congested; nothing is moved", False),
    ("gray-over", "packet-loss", "", False),
]


class Node:
    """Programs of the scheduler that say what they were asked."""

    def __init__(self, folder):
        self.said = os.path.join(folder, "said")
        self.marks = os.path.join(folder, "marks")
        os.mkdir(self.marks)
        for name in ("scontrol", "kubectl"):
            path = os.path.join(folder, name)
            with open(path, "w", encoding="utf-8") as f:
                f.write(f'#!/bin/sh\necho {name} "$@" >> {self.said}\n')
            os.chmod(path, 0o755)
        self.env = dict(os.environ, PATH=folder + ":" + os.environ["PATH"], SHIFT_MARKS=self.marks,
                        SLURM_JOB_ID="4711", SLURM_JOB_UID=str(os.getuid()), SLURMD_NODENAME="n1", NODE_NAME="n1")

    def run(self, script, kind="", cause="", why="", count=1):
        subprocess.run([os.path.join(DEPLOY, script)], check=False, env=dict(
            self.env, SHIFT_EVENT_KIND=kind, SHIFT_EVENT_CAUSE=cause, SHIFT_EVENT_WHY=why, SHIFT_EVENT_FROM="mlx5_0",
            SHIFT_EVENT_COUNT=str(count)))

    def asked(self):
        if not os.path.exists(self.said):
            return ""
        with open(self.said, encoding="utf-8") as f:
            text = f.read()
        os.unlink(self.said)
        return text


def main():
    wrong = []
    for kind, cause, why, expected in CASES:
        with tempfile.TemporaryDirectory() as folder:
            node = Node(folder)
            node.run("slurm-on-event.sh", kind, cause, why)
            if node.asked():
                wrong.append(f"{kind} {cause}: scontrol was called while the job runs")
            node.run("slurm-epilog.sh")
            if node.asked().startswith("scontrol update nodename=n1 state=drain") != expected or os.listdir(node.marks):
                wrong.append(f"Slurm, {kind} {cause} '{why}': expected {expected}")
            node.run("slurm-epilog.sh")
            if node.asked():
                wrong.append(f"Slurm, {kind} {cause}: said twice")
            node.run("kubernetes-on-event.sh", kind, cause, why)
            if (node.asked() == "kubectl cordon n1\n") != expected:
                wrong.append(f"Kubernetes, {kind} {cause} '{why}': expected {expected}")
    # Several in one, of which the newest is told: one of them may have been this node's.
    with tempfile.TemporaryDirectory() as folder:
        node = Node(folder)
        node.run("slurm-on-event.sh", "switch", "peer", count=3)
        if not os.listdir(node.marks):
            wrong.append("Slurm: three switches in one leave no word")
        node.run("kubernetes-on-event.sh", "switch", "peer", count=3)
        if node.asked() != "kubectl cordon n1\n":
            wrong.append("Kubernetes: three switches in one leave the node as it is")
    print("\n".join(wrong) if wrong else f"{len(CASES)} kinds of events")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
