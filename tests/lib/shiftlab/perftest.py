# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A stock perftest tool through one fault and its end: to the backup NIC, and back."""
import os
import re
import signal
import time

from shiftlab.lab import PATIENT, Shift, free_port, wait_for

LONG_S = 600        # its -D, where it is ended as soon as it has shown what it should
COUNTED_S = 300     # at most, where it ends by itself
STATES = 3          # of -D, one alarm each: warm up, measure, cool down
CALM = ["-u", "18"]  # the QP gives a peer that is not scheduled 8 s, not half a second
# Back soon; and a peer that the machine forgets in mid-move for a second or two has not gone.
SOON = {"holddown_ms": 200, "holddown_max_ms": 400, "packet_lifetime_ms": 50, "silence_ms": 8000}
ONE_SIDED = ("ib_write_bw", "ib_read_bw", "ib_atomic_bw", "ib_read_lat", "ib_atomic_lat")


class Failed(Exception):
    """It did not end as it should."""


def said(program, pattern, seconds=40):
    """The first match in what it prints, which it has that long for; it fails if it ends before."""
    wait_for(f"'{pattern}' of {program.name}",
             lambda: re.search(pattern, program.out(), re.M) or not program.running(), seconds)
    match = re.search(pattern, program.out(), re.M)
    if not match:
        raise Failed(f"{program.name} ended with {program.process.returncode}: {program.tail()}")
    return match


# ---- faults: fault(lab, True) begins one, fault(lab, False) ends it -------------------------------

def link(lab, begin):
    lab.fault("port-down", "h1/mlx5_0") if begin else lab.ctl("heal", "h1/mlx5_0")


def switch(lab, begin):
    """Nobody is told."""
    lab.fault("switch-down", "rail0") if begin else lab.ctl("heal", "rail0")


def drain(lab, begin):
    """In order, by the operator."""
    lab.shiftctl("h1", "drain" if begin else "undrain", "mlx5_0")


# ---- the tools ----------------------------------------------------------------------------------

def alarm(p):
    """
    Before the tool has its handler, which the server has at the first message, an alarm would kill it.
    Two alarms that are pending at a time are one: the next may be sent when this one is taken.
    """
    wait_for("handler of alarms in " + p.name,
             lambda: not p.running() or p.catches(signal.SIGALRM), 30, 0.01)
    if p.running():
        os.kill(p.pid, signal.SIGALRM)
    wait_for("alarm taken by " + p.name, lambda: not p.running() or not p.pending(signal.SIGALRM),
             30, 0.01)


def end(tool, server, client):
    """Ends a tool before its time. The server of a one-sided test only waits, without an alarm."""
    both = not tool.startswith(ONE_SIDED) or " -b" in tool
    for _ in range(STATES):
        for p in (server, client) if both else (client,):
            alarm(p)


class Perftest:
    """tool: its name with its options, also of an example of libibverbs; fault: as above."""

    def __init__(self, tool, fault, qps=1, duration=0, fault_at=0.3, heal_at=0.6, **settings):
        self.settings = {**SOON, **(PATIENT if fault is drain else {}), **settings}
        self.tool, self.fault, self.qps = tool, fault, qps
        self.duration, self.fault_at, self.heal_at = duration, fault_at, heal_at
        self.counted = " -n " in tool   # it ends by itself, after so many messages
        self.options = ["-g", "0"] if tool.startswith("ibv_") else ["-x", "0", "-F", *CALM]
        self.name = f"{tool} {fault.__name__}"

    def only(self, lab, nic):
        """The connections' bytes go over this NIC alone."""
        before = [lab.carried(i) for i in (0, 1)]
        time.sleep(0.15)
        now = [lab.carried(i) for i in (0, 1)]
        return now[nic] > before[nic] and now[1 - nic] == before[1 - nic]

    def await_on(self, lab, nic):
        def there():
            for p in (self.client, self.server):
                if not p.running():
                    raise Failed(f"{p.name} ended before its traffic was on mlx5_{nic}")
            return self.only(lab, nic)

        wait_for(f"traffic on mlx5_{nic} alone", there, self.duration or 40)

    def start(self, lab):
        argv = self.tool.split() + ["-d", "mlx5_0", "-p", free_port()] + self.options
        if not self.counted:
            argv += ["-D", self.duration or LONG_S]
        shift = Shift(log="info", **self.settings)
        self.server = lab.start("h0", argv, "server", shift)
        self.server.await_listening()
        self.client = lab.start("h1", argv + ["127.0.0.1"], "client", shift)
        for p in (self.server, self.client):
            wait_for("protection of " + p.name, lambda p=p: lab.protected(p) >= self.qps, 30)

    def run(self, lab):
        self.start(lab)
        ends = (self.server, self.client)
        begun = time.monotonic()
        time.sleep(self.fault_at)
        self.fault(lab, True)
        self.await_on(lab, 1)
        time.sleep(max(0.0, begun + self.heal_at - time.monotonic()))
        self.fault(lab, False)
        self.await_on(lab, 0)
        if not self.duration and not self.counted:
            end(self.tool, *ends)
        for p in ends:
            if p.wait(self.duration + (COUNTED_S if self.counted else 30)):
                raise Failed(f"{p.name} ended with {p.process.returncode}")
        return self.check_moves([m for p in ends for m in lab.moves(p)])

    def check_moves(self, moves):
        for way in ("from", "to"):
            if not any(m[way] == "mlx5_0" for m in moves):
                raise Failed(f"no move {way} mlx5_0 in the statistics")
        return moves


def rejected(client):
    """perftest 4.5 asks for its second connection when its server is about to listen. If it is too early, it uses what it
    has freed (rdma_cm_destroy_cma) and dies."""
    return client.process.returncode == -signal.SIGSEGV and "RDMA_CM_EVENT_REJECTED; error: 8" in client.err()
