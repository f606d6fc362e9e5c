# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""verify inside a guest: two ends that check each byte, through whatever a case does meanwhile."""
import json
import math

from shiftlab.guest.cases import check
from shiftlab.lab import slowed


class Verify:
    """Two ends of verify, which checks each byte; told by standard input when to stop."""

    def __init__(self, rig, shift=None, seed=1, qps=5, patterns="abcde", timeout=15, stuck=40, *, nic, gid=0,
                 may_fail=False):
        """
        timeout: as of a QP, 4.096 us times 2 to the power of it; one more where a guest may be twice as slow.
        nic: tells an end, "a" (the server) or "b", its device.
        """
        self.rig, self.qps = rig, qps
        timeout += int(math.log2(slowed(1)))
        common = [rig.bin("verify"), "--control", "--plain", "--seed", seed, "--gid-index", gid, "--qps", qps,
                  "--patterns", patterns, "--retry", 6, "--timeout", timeout, "--max-size", 4096,
                  "--stuck", int(slowed(stuck))]
        if not shift:
            common.append("--allow-events")
        if may_fail:
            common.append("--may-fail")
        self.ends = rig.pair([*common, "--server", "--dev", nic("a")],
                             [*common, "--client", "127.0.0.1", "--dev", nic("b")], shift=shift, stdin=True)
        for p in self.ends:
            rig.await_out(p, "STARTED")

    def progress(self):
        """Messages done, sent and received at both ends together."""
        total = 0
        for p in self.ends:
            before = p.out().count("PROGRESS")
            p.say("progress")
            self.rig.await_out(p, "PROGRESS", before + 1)
            row = [r for r in p.out().splitlines() if r.startswith("PROGRESS")][-1]
            total += sum(int(n) for word in row.split()[1:] for n in word.split(":")[:2])
        return total

    def moves_on(self, least=20):
        """Until so many more messages are done."""
        before = self.progress()
        self.rig.until("messages", lambda: self.progress() - before >= least, self.ends)

    def stop(self):
        for p in self.ends:
            p.say("stop")

    def summaries(self):
        found = []
        for p in self.ends:
            rows = [r for r in p.out().splitlines() if r.startswith("SUMMARY ")]
            check(rows, f"{p.name} ended with {p.process.returncode}, without a summary: {p.tail(3)}")
            found.append(json.loads(rows[-1][len("SUMMARY "):]))
        return found

    def verdict(self):
        """Fails unless both ends are content; the number of messages."""
        self.rig.ends_well(*self.ends)
        found = self.summaries()
        for s in found:
            check(s["result"] == "ok", f"{s['role']}: {s['reason']}: {s['text']}")
        self.failed_qps = sum(q["failed"] for s in found for q in s["qps"])
        return sum(q["completed"] for s in found for q in s["qps"])
