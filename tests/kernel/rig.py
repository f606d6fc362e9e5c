# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What a case works with, inside a guest: rails of soft-RoCE with two ends, programs on them, faults.

End a is the server's host, end b the client's; rail 0 has the default NICs, rail 1 their backups. rails.sh says how
both fit into one guest.
"""
import os
import re

from shiftlab.guest import rig as guest_rig
from shiftlab.guest.cases import Failed, Skipped, check  # noqa: F401 pylint: disable=unused-import
from shiftlab.guest.rig import START_S, run, settle  # noqa: F401 pylint: disable=unused-import
from shiftlab.lab import free_port, wait_for

HERE = os.path.dirname(os.path.abspath(__file__))
ENDS = ("a", "b")
GID = 1                     # the IPv4 address; 0 is the link-local one
BACKUPS = {end: f"rxe_{end}0=rxe_{end}1,rxe_{end}1=rxe_{end}0" for end in ENDS}
QUEUE = ("pfifo", "limit", 10000)   # of each interface: rails.sh says why
# The first byte of RoCE's header behind IPv4 and UDP, as (value, mask): answers to reliable requests.
OPCODE_AT = 28
ANSWERS = ((0x0d, 0xff), (0x0e, 0xfe), (0x10, 0xfe), (0x12, 0xff))
RELIABLE = (0x00, 0xe0)     # all opcodes of RC; those of UD, SHIFT's control path, pass


def rails(*args):
    return run("sh", os.path.join(HERE, "rails.sh"), *args)


def other(end):
    return ENDS[1 - ENDS.index(end)]


def device(end, rail=0):
    return f"rxe_{end}{rail}"


def address(end, rail=0):
    return f"10.77.{rail}.{1 + ENDS.index(end)}"


def port_state(name):
    with open(f"/sys/class/infiniband/{name}/ports/1/state", encoding="ascii") as f:
        return f.read().split()[-1]


class Rails:
    """The wires: their faults, and whole again."""

    def __init__(self, count):
        self.count = count
        self.touched = False    # is something to be healed?
        self.cm = False         # did programs connect by rdma_cm meanwhile?

    def all(self):
        return [(end, rail) for rail in range(self.count) for end in ENDS]

    def down(self, end, rail=0):
        self.touched = True
        rails("down", end, rail)

    def up(self, end, rail=0):
        rails("up", end, rail)

    def lose(self, end, rail=0, percent=100):
        """So much of all that this end sends on the rail does not arrive; nobody is told."""
        self.shape(end, rail, "loss", f"{percent}%")

    def shape(self, end, rail, *netem):
        """What this end sends on the rail, as netem's options say; nobody is told."""
        self.touched = True
        run("tc", "qdisc", "replace", "dev", f"{end}{rail}", "root", "netem", *netem)

    def lose_answers(self, end, rail=0):
        """Acknowledgements and READ's data from this end; its own requests and datagrams arrive."""
        self._filters(other(end), rail, [(opcode, "drop") for opcode in ANSWERS])

    def lose_requests(self, end, rail=0):
        """Reliable requests from this end; its answers and its datagrams arrive."""
        self._filters(other(end), rail, [(opcode, "ok") for opcode in ANSWERS] + [(RELIABLE, "drop")])

    def _filters(self, end, rail, rules):
        """Where packets come in: what is dropped on its way out, rxe takes for congestion, and tries for ever."""
        name = f"{end}{rail}"
        self.touched = True
        run("tc", "qdisc", "replace", "dev", name, "clsact")
        for number, ((value, mask), action) in enumerate(rules, 1):
            run("tc", "filter", "add", "dev", name, "ingress", "protocol", "ip", "prio", number, "u32",
                "match", "ip", "protocol", 17, "0xff", "match", "u8", f"{value:#x}", f"{mask:#x}", "at", OPCODE_AT,
                "action", action)

    def pass_all(self, end, rail=0):
        """Ends what lose*() began for this end."""
        run("tc", "qdisc", "replace", "dev", f"{end}{rail}", "root", *QUEUE)
        run("tc", "qdisc", "del", "dev", f"{other(end)}{rail}", "clsact", fine=False)

    def active(self):
        """The RDMA devices whose port is active."""
        return {name for name in os.listdir("/sys/class/infiniband") if port_state(name) == "ACTIVE"}

    def heal(self, anew=True):
        """Everything as in the beginning, whatever a case has done. anew: the RDMA devices are made anew, too."""
        shaped = run("tc", "qdisc", "show")
        for end, rail in self.all():
            if re.search(rf"^qdisc (netem .*dev {end}{rail} |clsact .*dev {other(end)}{rail} )", shaped, re.M):
                self.pass_all(end, rail)
            self.up(end, rail)
        if anew:
            rails("renew", self.count)
        wanted = {device(end, rail) for end, rail in self.all()}
        wait_for("active ports", lambda: self.active() >= wanted, 20, 0.2)


class Rig(guest_rig.Rig):
    """For one case on the rails."""

    def __init__(self, order, folder, tell):
        super().__init__(order, folder, tell)
        self.debs = order["debs"]   # of SHIFT's packages; None
        self.rails = Rails(order["rails"])
        self.fabric = None          # software NICs beside the rails: cross.py

    def end(self):
        super().end()
        if self.fabric:
            self.fabric.end()

    def left(self):
        return {"touched": self.rails.touched, "cm": self.rails.cm}

    # ---- programs -------------------------------------------------------------------------

    def start(self, end, argv, name=None, shift=None, retry=False, stdin=False, env=None):
        """
        Starts argv on an end. shift: a Shift, or None for the distribution's library. retry: 7 retries are 6, so
        that a program finds that its packets are lost.
        """
        argv = [str(a) for a in argv]
        name = name or f"{os.path.basename(argv[0])}-{len(self.programs)}"
        full = {**self.env(), **(env or {})}
        if retry:
            shim = os.path.join(self.out, "lib", "kernel", "retry.so")
            full["LD_PRELOAD"] = ":".join(filter(None, (full.get("LD_PRELOAD"), shim)))
        if shift:
            full.setdefault("SHIFT_BACKUP", self.fabric.backup(end) if self.fabric else BACKUPS[end])
            argv = self.under_shift(name, argv, full, shift)
        if self.fabric:
            argv = self.fabric.place(end, argv, full)
        return self.launch(name, argv, full, stdin)

    def listens_cm(self, program):
        """Does it wait for rdma_cm's connections? They are no sockets."""
        return re.search(rf"state LISTEN .*pid {program.pid} ", run("rdma", "resource", "show", "cm_id") + " ")

    def await_server(self, program, cm=False):
        if cm:
            self.await_listening(program, self.listens_cm, 0.3)
        else:
            self.await_listening(program)

    def pair(self, server, client, cm=False, **kw):
        """A server and its client, both running; names: "server" and "client"."""
        self.rails.cm |= cm
        s = self.start("a", server, "server", **kw)
        self.await_server(s, cm)
        return s, self.start("b", client, "client", **kw)

    # ---- perftest -------------------------------------------------------------------------

    def perftest(self, tool, extra=(), cm=False, **kw):
        """Both ends of a tool over rail 0, which is told by its device and GID, or by its addresses."""
        common = [*tool.split(), "-d", None, "-x", GID, "-F", "-p", free_port(), *extra]
        argv = {end: [device(end) if a is None else a for a in common] for end in ENDS}
        if cm:
            for end in ENDS:
                argv[end] += ["-R", "--source_ip", address(end)]
        return self.pair(argv["a"], argv["b"] + [address("a") if cm else "127.0.0.1"], cm, **kw)

    def carried(self, rail):
        """Bytes that both ends have sent on a rail, of whatever kind."""
        total = 0
        for end in ENDS:
            with open(f"/sys/class/net/{end}{rail}/statistics/tx_bytes", encoding="ascii") as f:
                total += int(f.read())
        return total

    def await_traffic(self, rail, programs, least=200_000, timeout=40):
        """Until so many bytes more went over a rail: a few messages of bulk traffic, and no heartbeats."""
        before = self.carried(rail)
        self.until(f"traffic on rail {rail}", lambda: self.carried(rail) - before >= least, programs, timeout)

    # ---- SHIFT ----------------------------------------------------------------------------

    def doctor(self):
        return self.shiftctl("doctor", "--kv", self.kv, "--backup", ",".join(BACKUPS.values()), fine=False)
