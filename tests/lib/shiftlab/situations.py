# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Situations of a fabric, and what an operator must be told of each: who broke, what to do, and whom not to blame."""
import json
import os
import signal
from dataclasses import dataclass, field

from shiftlab.lab import Shift, wait_for
from shiftlab.perftest import SOON
from shiftlab.redis import Redis
from shiftlab.truth import Ends
from shiftlab.variants import variant

NIC = "h0/mlx5_0"
SITUATIONS = {}


@dataclass
class Situation:
    """
    make(lab) makes it. wanted: for each host, patterns of the outputs by their kind; "do" is what `shiftctl why` says
    is to be done. never: patterns of no output. alert: hosts at which the critical alert is raised.
    """
    what: str
    make: object
    wanted: dict
    never: tuple = ()
    alert: tuple = ()
    ask: object = "mlx5_0"
    within: float = 30
    fabric: dict = field(default_factory=dict)

    @property
    def hosts(self):
        return tuple(f"h{i}" for i in range(self.fabric.get("hosts", 2)))


def situation(what, h0=None, h1=None, h2=None, **how):
    """The function that makes it, and what is wanted of each host."""
    wanted = {host: w for host, w in (("h0", h0), ("h1", h1), ("h2", h2)) if w}

    def add(make):
        SITUATIONS[make.__name__] = Situation(what, make, wanted, **how)
        return make
    return add


def start(lab, **how):
    """Protected ends, with the log as it is by default."""
    return Ends(lab, **{"log": "warn", **how})


def work(ends):
    for p in ends.both:
        p.say("work")


def process(lab, host):
    """The first program of the host, for shiftctl why."""
    return str(next(p.pid for p in lab.programs if p.argv[1:4] == ["run", "--host", host]))


def fault(lab, *faults, **how):
    """Ends that work, and the faults."""
    ends = start(lab, **how)
    for kind, target in faults:
        lab.fault(kind, target)
    work(ends)
    return ends


def moved(ends, *hosts):
    for host in hosts or ("h0", "h1"):
        ends.event(host, "switch")


def told(ends, kind, n):
    wait_for(f"{kind} number {n}", lambda: sum(e["kind"] == kind for e in ends.events("h0")) >= n, 30)


# Where nothing passed, or connections have ended, no share of the bandwidth is left, nor all of it.
SHARE = r"(0|1)\.00\d? of the bandwidth"
# No NIC of this end is at fault.
PEER_MOVED = {"why": r"the other end moved", "do": r"ask `shiftctl why` on the other host"}
NOT_US = (r"port of this host", r"reset", r"no peer answers over it")
NO_NIC = (r"could not be moved", r"cable", r"(?<!No )(?<!no )NIC died", r"reset")
ONE_SWITCH = r'switches_total\{.*cause="%s".*\} 1'


# ---- links ---------------------------------------------------------------------------------------

PORT = {"log": r"switch mlx5_0 -> mlx5_1 \(port-down\).* to 10\.0\.0\.2", "status": r"mlx5_0 +open, port down",
        "events": r"switch.*port-down", "metrics": ONE_SWITCH % "port-down",
        "why": r"the port of this host went down", "do": r"check cable, transceiver and switch port"}


@situation("the port of a NIC of h0 goes down", h0=PORT, h1=PEER_MOVED)
def port_here(lab):
    fault(lab, ("port-down", NIC))


@situation("the cable of a NIC of h0 is pulled", h0=PORT, h1=PEER_MOVED)
def cable_here(lab):
    fault(lab, ("cable-down", NIC))


@situation("the cable of a NIC of h1 is pulled", h0={**PEER_MOVED, "log": r"\(peer\).* to 10\.0\.0\.2"},
           h1={"why": r"the port of this host went down", "do": "check cable", "status": "port down"})
def cable_there(lab):
    fault(lab, ("cable-down", "h1/mlx5_0"))


@situation("a switch passes nothing any more, and no port says so; one peer",
           h0={"log": r"does not answer any more.*a switch between them", "status": r"mlx5_0 +mlx5_1",
               "events": r"switch +(silence|peer|retry-exceeded) +mlx5_0 -> mlx5_1 +10\.0\.0\.2",
               "why": "10.0.0.2", "do": r"check the NICs of both ends, and the switch between them"},
           h1={"do": r"check the NICs of both ends, and the switch between them"}, never=(r"port of this host",))
def switch_one_peer(lab):
    fault(lab, ("switch-down", "rail0"))


@situation("a switch passes nothing any more, and no port says so; two peers", fabric={"hosts": 3},
           h0={"log": r"mlx5_0: no peer answers over it.*switch", "status": r"mlx5_0 +open, silent",
               "do": r"switch"}, never=(r"port of this host",))
def switch_two_peers(lab):
    fault(lab, ("switch-down", "rail0"), peers=2)


SILENT = {"log": r"mlx5_0: no peer answers over it.*this NIC", "status": r"mlx5_0 +open, silent",
          "events": r"nic-down +silence +mlx5_0", "metrics": r'nic="mlx5_0",state="silent"', "why": r"no peer answers over it",
          "do": r"check this host's NIC, its cable and its switch's port"}


@situation("a NIC of h0 sends nothing any more, and says that it is well", fabric={"hosts": 3}, h0=SILENT,
           h1={"why": r"10\.0\.0\.1"}, never=(r"port of this host",))
def silent_tx(lab):
    fault(lab, ("lose-tx", NIC), peers=2)


@situation("a NIC of h0 receives nothing any more, and says that it is well", fabric={"hosts": 3}, h0=SILENT,
           h1={"why": r"10\.0\.0\.1"}, never=(r"port of this host",))
def silent_rx(lab):
    fault(lab, ("lose-rx", NIC), peers=2)


@situation("a NIC of h1, one of two peers of h0, loses everything", fabric={"hosts": 3},
           h0={"log": r"the peer's NIC 10\.0\.0\.2 \(its NIC 0\) does not answer any more",
               "why": r"to 10\.0\.0\.2, its NIC 0", "events": r"switch.*10\.0\.0\.2"},
           never=(r"mlx5_0: no peer answers", r"port of this host"))
def silent_peer(lab):
    fault(lab, ("lose-tx", "h1/mlx5_0"), ("lose-rx", "h1/mlx5_0"), peers=2)


@situation("a port of h0 flaps, and is held down when it is back",
           h0={"status": r"mlx5_0 is well, and held down for", "why": r"held down for \d+ s more, after \d falls.*drain it and repair it",
               "events": r"nic-up", "log": r"port-down", "do": r"check cable"})
def flaps(lab):
    ends = start(lab, holddown_ms=30000, holddown_max_ms=60000)
    for n in (1, 2):
        lab.fault("port-down", NIC)
        told(ends, "nic-down", n)
        lab.ctl("heal", "all")
        told(ends, "nic-up", n)


def both_down(host):
    def make(lab):
        ends = start(lab)
        for nic in ("mlx5_0", "mlx5_1"):
            lab.fault("port-down", f"{host}/{nic}")
        work(ends)
    return make


@situation("both ports of h0 are down, and the connection waits", ask=process,
           h0={"status": r"1 stalled", "events": r"stalled.*no NIC is left", "metrics": r"shift_stalled_connections\{.*\} 1",
               "log": "port 1 is down", "why": r"stands? still|stood still", "do": r"bring .*NIC"},
           h1={"status": r"nothing passes; connections that stand still: 1", "do": r"other host|both ends"}, never=(SHARE,))
def both_down_here(lab):
    both_down("h0")(lab)


@situation("the port of the NIC in use, and later that of its backup, go down at h0", ask=process,
           h0={"status": r"1 stalled", "why": r"stood still|stands? still", "do": r"bring .*NIC"})
def second_fault(lab):
    ends = start(lab)
    lab.fault("port-down", NIC)
    moved(ends)
    lab.fault("port-down", "h0/mlx5_1")
    work(ends)


@situation("both ports of h0 stay down for longer than connections wait", ask=process, alert=("h0", "h1"),
           h0={"log": r"failed mlx5_\d", "events": r"failed", "metrics": r"failed_connections_total\{.*\} 1",
               "why": r"could not be moved", "do": r"bring .*NIC|cable"},
           h1={"log": r"failed mlx5_\d", "why": "could not be moved", "do": "host|NIC"}, never=(SHARE,))
def lost(lab):
    ends = start(lab, deadline_ms=3000)
    for nic in ("mlx5_0", "mlx5_1"):
        lab.fault("port-down", f"h0/{nic}")
    work(ends)
    for p in ends.both:
        p.say("status")


@situation("the port of the backup goes down while it is not in use", ask=process,
           h0={"status": r"mlx5_1 +open, port down", "events": r"nic-down +port-down +mlx5_1", "log": r"mlx5_1: port 1 is down",
               "metrics": r'nic="mlx5_1",state="port-down"', "why": r"the port of this host went down", "do": r"check cable"},
           h1={"why": r"no path to its peer", "status": r"no path to its peer", "do": "check the backup NICs of both ends"})
def backup_down(lab):
    start(lab)
    lab.fault("port-down", "h0/mlx5_1")


@situation("the cable of the NIC is out for good, and there is no third NIC", ask=process,
           h0={"status": r"it runs on its backup, and there is no third NIC", "why": r"port of this host went down",
               "do": r"check cable", "metrics": r'state="on-backup"'})
def third_nic(lab):
    moved(fault(lab, ("cable-down", NIC)))


@situation("priority flow control pauses both ports of h0", ask=process,
           h0={"status": r"its port may not send \(paused by PFC", "events": r"stalled +paused.*PFC", "why": r"paused by PFC",
               "do": r"look for pause frames", "metrics": r"shift_stalled_connections\{.*\"paused\".*\} 1"},
           never=(r"reset", r"switch mlx5", r"RNR", r"posts no receive"))
def paused(lab):
    ends = start(lab)
    for nic in ("mlx5_0", "mlx5_1"):
        lab.fault("pause", f"h0/{nic}")
    ends.server.say("work")


# ---- NICs ----------------------------------------------------------------------------------------

FATAL = {"log": r"mlx5_0: the device reported a fatal error", "status": r"mlx5_0 +\S*.*(fatal|dead|lost)",
         "events": r"async-fatal", "metrics": r'cause="async-fatal"', "why": r"the NIC reported a fatal error",
         "do": r"dmesg; reset or replace the NIC"}



@situation("the firmware of a NIC of h0 dies", h0=FATAL, h1=PEER_MOVED)
def internal_error(lab):
    fault(lab, ("nic-internal-error", NIC))


@situation("the firmware of a NIC of h1 dies", h0={**PEER_MOVED, "log": r"\(peer\).* to 10\.0\.0\.2"}, h1=FATAL)
def internal_error_there(lab):
    fault(lab, ("nic-internal-error", "h1/mlx5_0"))


@situation("a NIC of h0 takes no commands and sends nothing",
           h0={"log": r"mlx5_0: does not execute commands", "status": r"mlx5_0 +open, .*(sick|hang)", "events": r"hang",
               "metrics": r'state="sick"|cause="hang"', "why": r"did not do what it was told", "do": r"reset the NIC"},
           h1={"do": r"other host|check the NICs of both ends"})
def hang(lab):
    fault(lab, ("nic-hang", NIC))


@situation("the driver takes a NIC of h0 away from the program (disassociate)", h0=FATAL, h1=PEER_MOVED)
def disassociated(lab):
    fault(lab, ("nic-disassociate", NIC))


@situation("a NIC of h0 is pulled out of its slot", h0=FATAL, h1=PEER_MOVED)
def unplugged(lab):
    fault(lab, ("nic-unplug", NIC))


@situation("PCI errors take a NIC of h0 off the bus", h0={**FATAL, "why": "", "log": "", "do": r"dmesg", "events": "switch",
                                                         "metrics": ONE_SWITCH % r"[\w-]+"},
           h1=PEER_MOVED)
def pci_error(lab):
    fault(lab, ("nic-pci-error", NIC))


@situation("a card of two ports dies whole; the backup is on another card", fabric={"nics": 4},
           h0={**FATAL, "why": r"connections? left mlx5_0 for mlx5_2"}, h1=PEER_MOVED)
def card(lab):
    fault(lab, ("nic-internal-error", NIC), ("nic-internal-error", "h0/mlx5_1"),
          backup="mlx5_0=mlx5_2,mlx5_1=mlx5_3,mlx5_2=mlx5_0,mlx5_3=mlx5_1")


# ---- operators -----------------------------------------------------------------------------------

@situation("an operator drains a NIC of h0", h0={"log": r"mlx5_0: drained by the operator", "status": r"mlx5_0 +open, drained",
                                                 "events": r"drain +drain +mlx5_0", "metrics": r'cause="(drain|peer)"',
                                                 "why": r"an operator drained it", "do": r"shiftctl undrain"},
           h1={"why": r"other end", "do": r"ask `shiftctl why` on the other host \(that of 10\.0\.0\.1\)"},
           never=(r"cable", r"reset"))
def drained(lab):
    start(lab)
    lab.shiftctl("h0", "drain", "mlx5_0")


@situation("an operator of h1 drains a NIC there",
           h0={"why": r"the other end", "events": r"switch.*10\.0\.0\.2", "do": r"other host \(that of 10\.0\.0\.2\)"},
           h1={"why": r"an operator drained it", "do": "shiftctl undrain"}, never=(r"cable", r"reset"))
def drained_there(lab):
    start(lab)
    lab.shiftctl("h1", "drain", "mlx5_0")


@situation("a drain finds no other NIC: the backup's port is down",
           h0={"status": r"mlx5_1 +open, port down", "events": "drain", "log": r"drained by the operator",
               "why": r"still on mlx5_0, and cannot leave it: .*\. Do not take it away",
               "do": r"check the backup NICs .* before the drained NIC is taken away; then shiftctl undrain"})
def drain_refused(lab):
    ends = start(lab)
    lab.fault("port-down", "h0/mlx5_1")
    ends.event("h0", "nic-down")
    lab.shiftctl_all("h0", "drain", "mlx5_0", "--wait", "1")


# ---- processes -----------------------------------------------------------------------------------

GONE = {"log": r"failed mlx5_0 \(peer-gone\).*10\.0\.0\.2.*its program or host is gone", "events": r"failed +peer-gone",
        "metrics": r'cause="peer-gone"\} 1', "why": r"silent on all paths while other peers answered", "status": "ENDED",
        "do": r"look at the other host.*10\.0\.0\.2"}


@situation("the peer's program is killed while requests are under way; another peer lives", ask=process, fabric={"hosts": 3},
           h0=GONE, never=(r"cable", r"reset", r"port of this host"))
def killed(lab):
    ends = start(lab, peers=2, deadline_ms=3000)
    ends.client.kill()
    ends.server.say("work")


@situation("the only peer's program is killed while requests are under way: nobody can tell that from a dead network",
           ask=process, alert=("h0",),
           h0={"log": r"failed mlx5_0 \(deadline\).*10\.0\.0\.2.*did not answer in time", "events": "failed +deadline",
               "metrics": r'cause="deadline"\} 1', "why": "did not answer in time", "do": r"look at the other host.*10\.0\.0\.2"},
           never=(r"cable", r"reset", r"port of this host"))
def killed_alone(lab):
    ends = start(lab, deadline_ms=3000)
    ends.client.kill()
    ends.server.say("work")


@situation("the peer's program is stopped (SIGSTOP)", ask=process,
           h0={"status": r"1 stalled.*|the peer is silent on all paths", "events": r"stalled.*silent on all paths",
               "metrics": r"shift_stalled_connections\{.*silence.*\} 1", "why": r"silent on all paths",
               "do": r"other host"}, never=(r"reset", r"port of this host", SHARE, r"on other NICs"))
def stopped(lab):
    ends = start(lab)
    os.kill(ends.client.pid, signal.SIGSTOP)
    ends.server.say("rnr")


@situation("the peer's program ends without closing its queue pair; another peer lives", ask=process, fabric={"hosts": 3},
           h0=GONE, never=(r"cable", r"reset", r"port of this host"))
def ended(lab):
    ends = start(lab, peers=2, deadline_ms=3000)
    ends.client.say("end")
    ends.client.wait(30)
    ends.server.say("work")


@situation("the peer's program closes its queue pair while this one still sends", ask=process,
           h0={"events": r"peer-closed", "why": r"closed the connection or is gone",
               "do": r"look at the program on the other host"},
           never=(r"cable", r"reset", r"port of this host"))
def closes_early(lab):
    ends = start(lab)
    ends.client.say("close")
    ends.said(ends.client, "CLOSED")
    ends.server.say("work")
    ends.server.say("status")
    ends.said(ends.server, "STATUS")


@situation("the peer's program is not run under SHIFT", ask=process,
           h0={"log": r"does not run SHIFT, or has not said so", "status": r"its peer does not run SHIFT",
               "metrics": r'unprotected_qps\{.*does not run SHIFT.*\} 1', "why": r"does not run SHIFT",
               "do": r"under SHIFT|shiftctl run"}, never=(r"cable", r"reset"))
def without_shift(lab):
    start(lab, protected=False, client="stock")


@situation("the peer's program runs under SHIFT in another job (SHIFT_JOB)", ask=process,
           h0={"log": r"in this SHIFT_KV and SHIFT_JOB", "status": r"job theirs-not(.*\n)+.*its peer does not run SHIFT, or has not said so",
               "why": r"of job theirs-not", "do": r"SHIFT_JOB"}, h1={"status": "job theirs", "why": "of job theirs"},
           never=(r"cable", r"reset"))
def other_job(lab):
    start(lab, protected=False, job="theirs-not", client=Shift(log="warn", backup="pair", job="theirs", **SOON))


@situation("the peer's SHIFT has another protocol", ask=process,
           h0={"log": r"the other end has protocol 99, this end has protocol \d+: run the same version",
               "status": r"the other end has protocol 99", "why": r"protocol 99", "do": r"same version of SHIFT at both ends"},
           h1={"status": "this end has protocol 99", "do": r"same version of SHIFT at both ends"}, never=(r"cable", r"reset"))
def other_protocol(lab):
    start(lab, protected=False, client=Shift(libdir=variant(lab.out, "protocol_99"), log="warn", backup="pair", **SOON))


@situation("two jobs on one host: a fault hits the NIC of one of them", fabric={"nics": 4}, ask="mlx5_2",
           h0={"why": r"connections? left mlx5_2 for mlx5_3", "log": r"switch mlx5_2 -> mlx5_3 \(port-down\)", "do": r"check cable",
               "status": r"mlx5_2 +open, port down"},
           never=(r"switch mlx5_0", r"connections? left mlx5_0"))
def two_jobs(lab):
    how = {"backup": "mlx5_0=mlx5_1,mlx5_1=mlx5_0,mlx5_2=mlx5_3,mlx5_3=mlx5_2"}
    start(lab, **how)
    ends = start(lab, name="second-", env={"TRUTH_NIC": "mlx5_2"}, **how)
    lab.fault("port-down", "h0/mlx5_2")
    work(ends)


# ---- errors of programs --------------------------------------------------------------------------

def program(how, who="client"):
    def make(lab):
        ends = start(lab)
        getattr(ends, who).say("err " + how)
        getattr(ends, who).say("status")
        ends.said(getattr(ends, who), "STATUS")
    return make


HIS = {"log": r"ended mlx5_0 \((peer-)?application\).* to 10\.0\.0\.1", "events": r"ended.*application",
       "why": r"program", "do": r"no NIC is at fault"}
HIS_PEER = {"log": r"ended mlx5_0 \((peer-)?application\).* to 10\.0\.0\.2", "events": r"ended.*application",
            "why": r"program", "do": r"no NIC is at fault"}
for _how, _what in (("rkey", "a wrong rkey"), ("lkey", "a wrong lkey"), ("bounds", "an address beyond the region"),
                    ("read", "a READ with a wrong rkey"), ("length", "a message larger than the receive"),
                    ("atomic", "an atomic on a word that is not aligned")):
    SITUATIONS["wrong_" + _how] = Situation(f"the program of h1 errs: {_what}", program(_how), {"h0": HIS_PEER, "h1": HIS}, NO_NIC,
                                            ask=process)


@situation("the program of h0 posts no receives, and its peer waits for ever", ask=process,
           h1={"status": r"posts no receive \(RNR", "events": r"stalled +not-ready.*RNR",
               "metrics": r"stalled_connections\{.*not-ready.*\} 1", "why": r"posts no receive \(RNR",
               "do": r"no NIC is at fault: see the program at the other end"}, never=(*NO_NIC, r"PFC"))
def no_receive(lab):
    start(lab).client.say("rnr")


@situation("the program of h0 posts no receives, and its peer's retries end", ask=process,
           h1={"log": r"ended.*posted no receive in time", "events": r"ended.*posted no receive", "why": r"posted no receive in time",
               "do": r"no NIC is at fault"}, never=NO_NIC)
def rnr_exceeded(lab):
    ends = start(lab, env={"TRUTH_RNR": "1"})
    ends.client.say("rnr")
    ends.client.say("status")
    ends.said(ends.client, "STATUS")


@situation("the program of h1 overruns its own completion queue, which is not protected", ask=process,
           h1={"log": r"ended.*this program left more completions unpolled than its completion queue holds", "events": r"ended +application",
               "status": r"its completion queue overran", "why": r"left more completions unpolled", "do": r"no NIC is at fault: see the program"},
           never=(r"reset", r"cable", r"NIC died", r"failed mlx5"))
def overrun(lab):
    lab.ctl("limit", "h1/mlx5_0", "cq-resize", 0)
    ends = start(lab, protected=False)
    for p in ends.both:
        p.say("narrow")
    for p in ends.both:
        ends.said(p, "MADE")
    ends.client.say("overrun 40")
    ends.client.say("event")
    ends.said(ends.client, "OVERRAN")


def taken(lab):
    """Messages of connections that the NIC there has taken."""
    return lab.nic(0)["rc_rx_messages"]


@situation("a cable is pulled while an atomic is under way: nobody may say whether it ran", ask=process, alert=("h0", "h1"),
           h1={"log": r"failed", "events": r"failed.*atomic", "metrics": r'failed_connections_total\{.*cause="atomic".*\} 1',
               "why": r"atomic", "do": r"restart the job from its checkpoint"}, h0={"log": "failed", "do": "host|restart"})
def atomic(lab):
    ends = start(lab)
    before = taken(lab)
    lab.fault("lose-tx", "h0/mlx5_0")
    ends.client.say("add")
    ends.said(ends.client, "POSTED")
    wait_for("the atomic, whose answer is lost,", lambda: taken(lab) > before, 20)
    lab.fault("cable-down", "h0/mlx5_0")


@situation("a queue pair of a type that is not protected (UC)", ask=process,
           h0={"status": r"UC.*its transport is neither RC nor UD|its type is not one", "why": r"", "do": r""},
           never=(r"cable", r"reset"))
def unprotected_type(lab):
    start(lab).server.say("uc")


# ---- settings, limits ----------------------------------------------------------------------------

def unprotected(lab, **how):
    return start(lab, protected=False, **how)


@situation("the host has one NIC", fabric={"nics": 1}, ask=process,
           h0={"status": r"no other NIC of its kind", "metrics": r"unprotected_qps\{.*no other NIC", "why": r"no other NIC",
               "do": r"SHIFT_BACKUP|NIC"})
def no_backup(lab):
    unprotected(lab)


@situation("SHIFT_BACKUP names a NIC that is not there", ask=process,
           h0={"log": r'backup map "mlx5_0=mlx5_9", character 8: no device mlx5_9; there are mlx5_0, mlx5_1.*runs without SHIFT'})
def wrong_backup(lab):
    unprotected(lab, backup="mlx5_0=mlx5_9")


@situation("the MTU of the backup is smaller", ask=process,
           h0={"status": r"path MTU is larger than that of the NIC of the standby", "metrics": "MTU", "why": r"MTU",
               "do": r"MTU"})
def mtu(lab):
    lab.ctl("mtu", "h0/mlx5_1", 512)
    unprotected(lab)


@situation("the backup is in another partition (InfiniBand)", fabric={"link": "ib"}, ask=process,
           h0={"status": r"partition|P_Key", "why": r"partition|P_Key", "do": r"partition"})
def partition(lab):
    lab.ctl("pkeys", "h0/mlx5_1", "0x8123")
    unprotected(lab)


@situation("the backups of both hosts are on rails that do not reach each other", fabric={"nics": 3}, ask=process,
           h0={"status": r"no path to its peer over another NIC answers", "why": r"no path to its peer over another NIC answers",
               "do": r"backup|SHIFT_BACKUP"}, never=(r"reset",))
def rails(lab):
    unprotected(lab, backup="mlx5_0=mlx5_1",
                client=Shift(log="warn", **{**SOON, "backup": "mlx5_0=mlx5_2"}))


@situation("the switch of the backups passes nothing from the start", ask=process,
           h0={"status": r"no path to its peer over another NIC answers", "why": r"no path", "do": r"link|switch|NIC"})
def backup_rail(lab):
    lab.fault("switch-down", "rail1")
    unprotected(lab)


@situation("the backup of h0 has too small queues", ask=process,
           h0={"status": r"mlx5_1 .*control QP cannot be opened: the device refuses its size", "why": "mlx5_1",
               "do": r"compare the limits of that NIC.*max_qp_wr"}, never=(r"ulimit -l",))
def small_rings(lab):
    lab.ctl("limit", "h0/mlx5_1", "qp-wr", 8)
    unprotected(lab)


@situation("the backup takes no more memory regions", ask=process,
           h0={"log": r"memory could not be registered|cannot register", "status": r"its memory could not be registered on the NIC of the standby",
               "metrics": r"unprotected_qps\{.*memory could not be registered", "why": r"memory could not be registered",
               "do": r"ulimit -l|name another backup"})
def regions(lab):
    lab.ctl("limit", "h0/mlx5_1", "mrs", 1)
    unprotected(lab)


@situation("few file descriptors are left (ulimit -n)", ask=process,
           h0={"log": r"mlx5_0 is foreign: its limit of file descriptors is below 512 \(ulimit -n\)"})
def descriptors(lab):
    unprotected(lab, before=["prlimit", "--nofile=300:300"])


@situation("SHIFT is switched off by a setting at h0", ask=process,
           h1={"status": r"its peer does not run SHIFT", "do": r"without SHIFT_DISABLE"})
def disabled(lab):
    Ends(lab, protected=False, disable=1, client=Shift(log="warn", backup="pair", **SOON))


# ---- the store -----------------------------------------------------------------------------------

@situation("the KV server is not there", ask=process,
           h0={"log": r"the KV cannot be used: redis at 127\.0\.0\.1:\d+", "status": r"", "metrics": r'kv_processes\{.*unreachable.*\} 1',
               "events": "kv-lost", "why": r"key-value store cannot be used", "do": r"store"}, never=(r"cable", r"reset", r"under SHIFT"))
def kv_away(lab):
    unprotected(lab, kv=Redis(lab).url)


@situation("the KV server is lost while connections are protected", ask=process,
           h0={"log": r"the KV cannot be used: redis at", "metrics": r'kv_processes\{.*unreachable.*\} 1', "events": "kv-lost",
               "why": r"key-value store cannot be used", "do": r"store"}, never=(r"cable", r"reset"))
def kv_lost(lab):
    redis = Redis(lab).start()
    start(lab, kv=redis.url, lease_ms=3000)
    redis.kill()


@situation("the password of the KV server is wrong", ask=process,
           h0={"log": r"refuses user or password", "events": "kv-lost", "do": r"password|store"}, never=(r"cable", r"reset"))
def kv_password(lab):
    redis = Redis(lab, args=("--requirepass", "right")).start()
    unprotected(lab, kv=redis.url.replace("//", "//:wrong@"))


@situation("the secret of the job differs between the hosts", ask=process,
           h0={"log": r"wrong MAC", "status": r"MAC|secret|SECRET", "do": r"SHIFT_SECRET_FILE"}, never=(r"cable", r"reset"))
def secret(lab):
    files = []
    for i in range(2):
        files.append(os.path.join(lab.folder, f"secret{i}"))
        with open(files[-1], "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
            f.write(f"{i}" * 64 + "\n")
    unprotected(lab, secret_file=files[0], client=Shift(log="warn", backup="pair", secret_file=files[1], **SOON))


# ---- what is slow --------------------------------------------------------------------------------

GRAY = {"gray_look_ms": 200, "gray_least": 3, "gray_hold_ms": 1000, "gray_hold_max_ms": 3600000}


@situation("the PCI link of a NIC of h0 has fewer lanes",
           h0={"log": r"mlx5_0: its PCI link carries \d+.* of the", "status": r"slow: its PCI link", "events": r"gray.*slow-pci",
               "metrics": r'nic_gray\{.*slow.*\} 1', "why": r"its PCI link carries less than it can", "do": r"LnkSta.*seat of the card"},
           never=(r"cable", r"transceiver"))
def lanes(lab):
    ends = start(lab, **GRAY)
    lab.ctl("speed", NIC, "pci", "x1")
    work(ends)


@situation("the port of a NIC of h0 has fewer lanes",
           h0={"log": r"mlx5_0: the link of its port carries \d+.* of the", "status": r"slow \(\d+ of", "events": r"gray.*slow-link",
               "why": r"the link of its port carries less than it can", "do": r"check cable, transceiver and the speed of the switch port"},
           never=(r"PCI", r"LnkSta"))
def port_lanes(lab):
    ends = start(lab, **GRAY)
    lab.ctl("speed", NIC, "port", "1X")
    work(ends)
