#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A link that loses a packet in a thousand is found by the counters of its port, and told of, or left in order;
congestion, pauses and slow receivers are not, nor is a link that has become slow as a queue makes it. One that trained to
fewer lanes, and a PCI link that did, are found by what they tell of themselves. gray_long.py has more of it.

  gray.py --build DIR [CASE...]
"""
import json
import os
import signal
import sys
import time

from ctl import Ctl, must
from shiftlab.lab import Shift, cases_main, free_port, wait_for
from shiftlab.perftest import CALM, LONG_S, SOON

# As sensitive as by default, in two fifths of the time.
LOOK_MS = 200
GRAY = {"gray_look_ms": LOOK_MS, "gray_least": 3, "gray_hold_ms": 1000, "gray_hold_max_ms": 3600000}
WELL = ("--delay", "20us")
LOSSY = (*WELL, "--loss", "1e-3")
LOOKS = 16          # in which nothing is to be found: twice what is summed up
MORE_STOPS = 40 # of a peer: one that finds no work under way counts no timeout
STALLS = {"SIMNIC_STOPS": "1"}  # a NIC stands still with its program
GAPS = ("packet_seq_err", "out_of_sequence", "implied_nak_seq_err")
NIC = "h0/mlx5_0"
LEAVES = "its connections leave in order"
FENCE_NS = 900000000     # an ordered switch that takes a second becomes an abrupt one


class Pair:
    """A program and its peer, on h0 and h1, for as long as they are needed."""

    def __init__(self, lab, tool, shift, *options, client="h1"):
        argv = [tool, "-d", "mlx5_0", "-x", "0", "-F", *CALM, "-D", LONG_S, "-p", free_port(), *options]
        self.ends = [lab.start("h0", argv, f"{tool}-server-of-{client}", shift, STALLS)]
        self.ends[0].await_listening()
        self.ends.append(lab.start(client, argv + ["127.0.0.1"], f"{tool}-{client}", shift, STALLS))


class Gray:
    """A stream to h0, and round trips beside it, over a link that is well at first."""

    def __init__(self, lab, mode, link=WELL, **settings):
        self.lab = lab
        lab.ctl("link", NIC, *link)
        shift = Shift(log="info", **({"gray": mode} if mode else {}), **{**SOON, **GRAY, **settings})
        self.programs = []
        for options in (("ib_write_bw", shift, "-q", "2", "-s", "16384", "-t", "16"),
                        ("ib_send_lat", shift, "-s", "4096")):
            self.programs += Pair(lab, *options).ends
        for p in self.programs:
            wait_for(f"protection of {p.name}", lambda p=p: lab.protected(p) or not p.running(), 40)
        self.alive()

    def alive(self):
        for p in self.programs:
            must(f"{p.name} runs", p.running(), p.tail())

    def events(self, *kinds, hosts=("h0", "h1")):
        found = [Ctl(self.lab, h).run("events", "--json").stdout for h in hosts]
        return [e for text in found for e in map(json.loads, text.splitlines()) if e["kind"] in kinds]

    def wait(self, kind, n=1, hosts=("h0", "h1"), seconds=60):
        def there():
            self.alive()
            found = self.events(kind, hosts=hosts)
            return found if len(found) >= n else None
        return wait_for(f"event {kind}", there, seconds)

    def words(self, host):
        """What the programs there say of mlx5_0."""
        return [nic["gray"] for p in Ctl(self.lab, host).processes() for nic in p["nics"] if nic["name"] == "mlx5_0"]

    def port(self, name, host="h0"):
        """A counter of mlx5_0."""
        return int(self.lab.run(host, ["cat", f"/sys/class/infiniband/mlx5_0/ports/1/{name}"]).out())

    def errors(self, *names):
        return sum(self.port(f"hw_counters/{name}", host) for name in names for host in ("h0", "h1"))

    def only(self, nic):
        """The bytes go over this NIC alone."""
        def there():
            self.alive()
            before = [self.lab.carried(i) for i in (0, 1)]
            time.sleep(0.15)
            now = [self.lab.carried(i) for i in (0, 1)]
            return now[nic] > before[nic] and now[1 - nic] == before[1 - nic]
        wait_for(f"traffic on mlx5_{nic} alone", there, 60)

    def nothing(self, *named):
        """For a while; though errors of these names were counted meanwhile."""
        before = self.errors(*named) if named else 0
        self.still(LOOKS)
        must("errors were counted", not named or self.errors(*named) > before + 8)

    def still(self, looks):
        for _ in range(looks):
            self.alive()
            time.sleep(LOOK_MS / 1000)
        must("nothing moves", not self.events("switch", "return"), self.events("switch", "return"))

    def still_on(self, nic):
        """For a while, without another move."""
        moves = len(self.events("switch", "return"))
        for _ in range(LOOKS):
            self.alive()
            time.sleep(LOOK_MS / 1000)
        must("nothing moves", len(self.events("switch", "return")) == moves, self.events("switch", "return"))
        self.only(nic)


def in_order(moves):
    """Nothing is sent again; but for what was lost at the wrong moment, so that it was waited for as long as may be."""
    for e in moves:
        must("by an order", e["cause"] in ("drain", "peer", "better-nic"), e)
        must("nothing is sent again", e["resent"] + e["settled"] == 0 or e["switch_ns"] >= FENCE_NS, e)
    must("some did not wait", any(e["switch_ns"] < FENCE_NS for e in moves), moves)


def lossy(lab):
    """Both directions lose: h0's port sees damage, and its queue pairs gaps."""
    gray = Gray(lab, "on")
    lab.ctl("link", NIC, *LOSSY)
    for e in gray.wait("gray", hosts=("h0",)):
        must("which", (e["from"], e["cause"]) == ("mlx5_0", "packet-loss"), e)
    gray.only(1)
    must("it is left", any("leave in order" in e["why"] for e in gray.events("gray")))
    lab.ctl("link", NIC, *WELL)
    gray.wait("gray-over", hosts=("h0",))
    gray.only(0)
    in_order(gray.events("switch", "return"))
    must("it moved", gray.events("switch") and gray.events("return"))


def one_way(lab):
    """What h1 sends is lost: the switch counts the damage, which h1 cannot read. It is told of, and that it proves nothing."""
    gray = Gray(lab, "on")
    lab.ctl("link", "h1/mlx5_0", "out", *WELL, "--loss", "5e-3")
    must("it is told", "congestion may do this" in gray.wait("gray", hosts=("h1",))[0]["why"])
    gray.still(LOOKS // 4)


def watched(lab):
    """By default: an event, and nothing is done."""
    gray = Gray(lab, None)
    lab.ctl("link", NIC, *LOSSY)
    must("it says so", "only watched" in gray.wait("gray", hosts=("h0",))[0]["why"])
    wait_for("the status", lambda: gray.words("h0") == ["sick"] * 2, 30)
    gray.still(LOOKS // 2)
    lab.ctl("link", NIC, *WELL)
    gray.wait("gray-over", hosts=("h0",))


def off(lab):
    gray = Gray(lab, "off")
    lab.ctl("link", NIC, *LOSSY)
    wait_for("errors", lambda: gray.errors("packet_seq_err") > 2 * GRAY["gray_least"], 30)
    gray.nothing()
    must("no NIC is gray", not gray.events("gray"), gray.events("gray"))
    must("the status", gray.words("h0") == ["off"] * 2)


def order(lab):
    """The operator wants it back, and it is judged anew."""
    gray = Gray(lab, "on", gray_hold_ms=3600000)
    lab.ctl("link", NIC, *LOSSY)
    gray.wait("gray")
    gray.only(1)
    lab.ctl("link", NIC, *WELL)
    for host in ("h0", "h1"):
        Ctl(lab, host)("undrain", "mlx5_0")
    gray.only(0)
    in_order(gray.events("switch", "return"))


def last(lab):
    """Both links of h0 lose: no NIC is better, so none is left for good."""
    gray = Gray(lab, "on")
    lab.ctl("fault", "port-down", "h1/mlx5_1")
    lab.ctl("link", NIC, *LOSSY)
    wait_for("it stays", lambda: any("no other NIC is better" in e["why"] for e in gray.wait("gray", hosts=("h0",))), 60)
    must("nothing moves", not gray.events("switch", "return"))


def last_by_order(lab):
    """The other path is there, but the peer's operator wants its NIC empty: nothing is better there, and nothing is said to leave."""
    gray = Gray(lab, "on")
    Ctl(lab, "h1")("drain", "mlx5_1")
    lab.ctl("link", NIC, *LOSSY)
    def whys():
        return {e["why"] for e in gray.wait("gray", hosts=("h0",))}
    wait_for("a word that it stays", lambda: whys() & {"it is used on, as no other NIC is better", LEAVES}, 60)
    must("it stays", LEAVES not in whys(), whys())
    gray.still(LOOKS // 4)


def both_ends(lab):
    """The links of both ends damage what they bring. Who finds that out when the connections have left says nothing of their staying."""
    gray = Gray(lab, "on", gray_hold_ms=3600000)
    lab.ctl("link", NIC, "off")
    for host in ("h0", "h1"):
        lab.ctl("link", f"{host}/mlx5_0", "in", *LOSSY)
    wait_for("all elsewhere", lambda: all(q["nic"] == "mlx5_1" for h in ("h0", "h1") for q in lab.connections(h)), 60)
    gray.still_on(1)
    whys = {e["why"] for e in gray.events("gray")}
    must("none is said to stay for want of another", LEAVES in whys and not any("no other" in why for why in whys), whys)
    in_order(gray.events("switch"))


def congested(lab):
    """The switch's queue overflows: packets are lost, and what passes takes long."""
    gray = Gray(lab, "on", link=("--rate", "2G", *WELL))
    lab.ctl("link", NIC, "--rate", "100M", "--queue", "384K", *WELL)
    gray.nothing("packet_seq_err")


def slow(lab):
    """A fifth of its speed, and nothing is lost: its queue is as long as that of a busy one."""
    gray = Gray(lab, "on", link=("--rate", "1G", "--queue", "64M", *WELL))
    lab.ctl("link", NIC, "--rate", "200M", "--queue", "64M", "--delay", "200us")
    gray.nothing()
    told = [e for e in gray.events("gray") if e["cause"] != "slow-path"]   # which it may well be in time
    must("nor is it told of", not told, told)


def paused(lab):
    gray = Gray(lab, "on")
    script = "".join(f"pause {NIC} --after {i * 0.5} --for 0.3\n" for i in range(LOOKS * LOOK_MS // 500))
    path = os.path.join(lab.folder, "script")
    with open(path, "w", encoding="utf-8") as f:
        f.write(script)
    lab.ctl("script", path)
    gray.nothing()
    stopped(gray)


def stopped(gray):
    """A NIC that stands still answers nobody: timeouts, and no gaps, so that no NIC is gray."""
    gaps = gray.errors(*GAPS)
    for done in range(MORE_STOPS):
        if done >= LOOKS // 2 and gray.errors("local_ack_timeout_err") > 8:
            break
        for p in gray.programs[::2]:
            os.kill(p.pid, signal.SIGSTOP)
        time.sleep(0.3)
        for p in gray.programs[::2]:
            os.kill(p.pid, signal.SIGCONT)
        time.sleep(0.3)
    must("timeouts were counted", gray.errors("local_ack_timeout_err") > 8)
    lost = gray.errors(*GAPS) > gaps
    for e in gray.events("gray"):   # on a machine so busy that the queue of who is stopped overflows
        must("told of what was lost alone, and used on", lost and "congestion may do this" in e["why"], e)
    gray.still(1)


# ---- links that say themselves that they are slow -----------------------------------------------

QUARTER = ("port", "1X")
HALF = ("port", "2X")
RATED = ("--rate", "1G", *WELL)


class Rated(Gray):
    """Over a link whose rate is that of a NIC that is whole."""

    def __init__(self, lab, mode, **settings):
        super().__init__(lab, mode, link=RATED, **settings)
        self.cause = "slow-link"

    def speed(self, *words):
        self.lab.ctl("speed", NIC, *words)

    def told(self, kind="gray", n=1):
        """By whom: of h0's NIC h0 alone can say it. Returns why."""
        for e in self.wait(kind, n=n, hosts=("h0",)):
            must("which", (e["from"], e["cause"]) == ("mlx5_0", self.cause), e)
        must("the other end's NIC is well", not self.events(kind, hosts=("h1",)))
        return self.events(kind, hosts=("h0",))[-1]["why"]

    def leaves(self):
        """As soon as two looks have seen it; nothing is sent again."""
        began = time.monotonic()
        self.told()
        self.only(1)
        print(f"left after {time.monotonic() - began:.1f} s", flush=True)
        must("it is left", self.told() == "its connections leave in order", self.events("gray"))
        must("the status", self.words("h0") == ["slow"] * 2, self.words("h0"))
        must("it moved", self.events("switch"))
        self.moved_in_order()

    def moved_in_order(self):
        """Nothing is lost on these links, so nothing is ever sent again."""
        for e in self.events("switch", "return"):
            must("by an order", e["cause"] in ("drain", "peer", "better-nic"), e)
            must("nothing is sent again", e["resent"] + e["settled"] == 0, e)


def fewer_lanes(lab):
    """One lane of four: it is left, and comes back when all are there again."""
    rated = Rated(lab, "on")
    rated.speed(*QUARTER)
    rated.leaves()
    rated.still_on(1)
    rated.speed("whole")
    rated.told("gray-over")
    rated.only(0)
    must("it came back", rated.events("return"))
    rated.moved_in_order()


def fewer_lanes_watched(lab):
    """By default: an event and the status, and nothing is done."""
    rated = Rated(lab, None)
    rated.speed(*QUARTER)
    must("it says so", rated.told() == "it is only watched")
    wait_for("the status", lambda: rated.words("h0") == ["slow"] * 2, 30)
    rated.still(LOOKS // 2)
    rated.speed("whole")
    rated.told("gray-over")
    rated.still(1)


def half_of_two(lab):
    """Two NICs at half of it, or one for the traffic of both: that is no gain."""
    rated = Rated(lab, "on")
    rated.speed(*HALF)
    must("it stays", rated.told() == "it is used on, as no other NIC is better")
    rated.still(LOOKS // 2)


def pci_lanes(lab):
    """A PCI link that still carries what the port does is no loss; one that does not is left, as a port is."""
    rated = Rated(lab, "on")
    rated.cause = "slow-pci"
    rated.speed("pci", "x8")
    rated.still(LOOKS // 2)
    must("nor is it told of", not rated.events("gray"), rated.events("gray"))
    rated.speed("pci", "x4", "8.0")
    rated.leaves()
    rated.speed("whole")
    rated.told("gray-over")
    rated.only(0)


def retrained(lab):
    """Down, and up again with a lane: as links really lose lanes. It is not used again until it has all of them."""
    rated = Rated(lab, "on")
    lab.ctl("fault", "port-down", NIC)
    rated.only(1)
    rated.speed(*QUARTER)
    lab.ctl("fault", "port-up", NIC)
    rated.told()
    rated.only(1)
    rated.still_on(1)
    rated.speed("whole")
    rated.told("gray-over")
    rated.only(0)


def slow_from_the_start(lab):
    """No process has seen it whole: the other NIC of its make says what it could."""
    lab.ctl("speed", NIC, *QUARTER)
    rated = Rated(lab, "on")
    rated.leaves()
    Ctl(lab, "h0")("undrain", "mlx5_0")     # it is well as it is, says who should know
    rated.only(0)
    rated.still_on(0)


CASES = {f.__name__: f for f in (lossy, one_way, watched, off, order, last, last_by_order, both_ends, congested, slow, paused,
                                 fewer_lanes, fewer_lanes_watched, half_of_two, pci_lanes, retrained,
                                 slow_from_the_start)}

if __name__ == "__main__":
    sys.exit(cases_main(CASES, lambda lab, name: CASES[name](lab), hosts=2, nics=2))
