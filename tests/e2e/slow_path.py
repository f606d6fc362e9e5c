#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A path that is slow, though no counter tells and the link has the rate that it always had, is told of by the round trips of
its pings, and nothing moves; where all paths take long, as on a busy machine or through congestion everywhere, nobody says
anything.

  slow_path.py --build DIR [CASE...]
"""
import re
import sys
import time

from ctl import Ctl, must
from gray import WELL, Gray, Pair
from shiftlab.lab import PATIENT, Shift, cases_main, wait_for
from shiftlab.perftest import SOON

# Three fifths of the usual time; and whom a busy machine forgets has neither a NIC that hangs nor a path that is silent.
LOOK_MS = 300
SETTINGS = {**SOON, **PATIENT, "gray_look_ms": LOOK_MS, "gray_hold_ms": 1000, "gray_hold_max_ms": 3600000}
LEARNS = 24     # looks, of which each fourth is one at paths: until it is known what is usual
AGAIN = 8       # looks: whoever tells the same thing twice does so at the next of these
NOTHING = 60    # looks: three times those in which a slow path is found
SLOW = ("--delay", "8ms")
HOSTS = ("h0", "h1")
SAYS = re.compile(r"(mlx5_\d): round trips to the peer's NIC (\d) \(\S+\) take at least \S+ ms for \d+ s instead of \S+ ms, and "
                  r"those of (mlx5_\d) are as usual: .*; nothing is moved")


class Paths(Gray):
    """Round trips between two hosts, one of whose cables becomes slow. Its traffic is light: a message at a time."""

    def __init__(self, lab, mode, slow=()):
        self.lab = lab
        for nic in (0, 1):
            self.link(nic, nic in slow)
        shift = Shift(log="info", **({"gray": mode} if mode else {}), **SETTINGS)
        self.programs = Pair(lab, "ib_send_lat", shift, "-s", "4096").ends
        for p in self.programs:
            wait_for(f"protection of {p.name}", lambda p=p: lab.protected(p) or not p.running(), 40)
        self.alive()

    def link(self, nic, slow):
        self.lab.ctl("link", f"h0/mlx5_{nic}", *(SLOW if slow else WELL))

    def look(self, looks):
        """Nothing happens meanwhile: neither a move nor a word."""
        before = self.events("gray", "gray-over")
        for _ in range(looks):
            self.alive()
            time.sleep(LOOK_MS / 1000)
        must("nothing moves", not self.events("switch", "return"), self.events("switch", "return"))
        must("nothing is told", self.events("gray", "gray-over") == before, self.events("gray", "gray-over"))

    def told(self, kind, nic="mlx5_0"):
        """By each end, of its own NIC, once."""
        for host in HOSTS:
            found = self.wait(kind, hosts=(host,))
            must("once, and of which", [(e["from"], e["cause"]) for e in found] == [(nic, "slow-path")], found)
        return found

    def says(self):
        """Each end's log, once."""
        for p in self.programs:
            found = SAYS.findall(self.lab.shift_log(p))
            must(f"a line of {p.name}", found == [("mlx5_0", "0", "mlx5_1")], self.lab.shift_log(p))

    def nics(self, host):
        return {nic["name"]: nic for p in Ctl(self.lab, host).processes() for nic in p["nics"]}


def becomes_slow(lab):
    """Told by both ends, and not moved, not even with SHIFT_GRAY=on; and told when it is over."""
    paths = Paths(lab, "on")
    paths.look(LEARNS)
    began = time.monotonic()
    paths.link(0, True)
    told = paths.told("gray")
    print(f"told after {time.monotonic() - began:.1f} s, {(time.monotonic() - began) * 1000 / LOOK_MS:.0f} looks", flush=True)
    for e in told:
        must("what it says", "nothing is moved" in e["why"] and e["peer"] and e["peer_from"] == 0, e)
    paths.says()
    for host in HOSTS:
        nic = paths.nics(host)["mlx5_0"]
        must("the status", nic["gray"] == "slow-path" and nic["slow_paths"] == 1, nic)
        must("its figures", nic["trip_ns"] > 8 * nic["trip_usual_ns"] > 0, nic)
        must("the other NIC is well", paths.nics(host)["mlx5_1"]["slow_paths"] == 0, paths.nics(host))
        text = Ctl(lab, host)("status").stdout
        must("the text", re.search(r"mlx5_0 .*, slow path \(1 of 1; round trips of \S+ ms instead of \S+\)", text), text)
    paths.look(AGAIN)
    paths.link(0, False)
    paths.told("gray-over")
    for host in HOSTS:
        must("the status", paths.words(host) != ["slow-path"], paths.words(host))
    paths.look(AGAIN)
    paths.says()


def from_its_birth(lab):
    """What is usual is not known of it: the other path shows it."""
    paths = Paths(lab, None, slow=(0,))
    paths.told("gray")
    paths.says()
    paths.look(AGAIN)


def all_alike(lab):
    """All of them slow: this is no path's fault. And when one of them is quick again, it is the other's."""
    paths = Paths(lab, "on")
    paths.look(LEARNS)
    for nic in (0, 1):
        paths.link(nic, True)
    paths.look(NOTHING)
    paths.link(1, False)
    paths.told("gray")
    paths.look(AGAIN)


CASES = {f.__name__: f for f in (becomes_slow, from_its_birth, all_alike)}

if __name__ == "__main__":
    sys.exit(cases_main(CASES, lambda lab, name: CASES[name](lab), hosts=2, nics=2))
