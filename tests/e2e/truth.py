#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What an operator is told, the first time: who broke, where, and what to do. Each case makes a
situation, and reads the log, `shiftctl status`, `events` and the counters of both hosts.

  truth.py --build DIR [CASE...]
"""
import json
import os
import re
import signal
import sys

from shiftlab.lab import PATIENT, cases_main, wait_for
from shiftlab.truth import HOSTS, Ends, must

# ---- errors of a program (P6) --------------------------------------------------------------------

REM_INV_REQ, REM_ACCESS, LOC_PROT, LOC_LEN = 9, 10, 4, 1


def program_err(how, client):
    """Both ends say that a program erred, and neither that SHIFT could not move a connection."""
    def case(lab):
        ends = Ends(lab)
        ends.client.say("err " + how)
        ends.client.say("status")
        must("status", int(ends.said(ends.client, "STATUS")) == client, ends.client.tail())
        ended = [ends.event(host, "ended") for host in HOSTS]
        must("causes", {e["cause"] for e in ended} == {"application", "peer-application"} or
             [e["cause"] for e in ended] == ["application", "application"], ended)
        must("both ends are named", all(
            (e["from"], e["qps"]) == ("mlx5_0", 1) and e["qpn"] and e["peer_qpn"] and
            e["peer_gid"] == f"::ffff:10.0.0.{there}" for e, there in zip(ended, (2, 1))), ended)
        for host, p in zip(HOSTS, ends.both):
            events = ends.events(host)
            must("no failure of SHIFT's", not [e for e in events if e["kind"] == "failed"], events)
            must("no alert", not ends.failures(host), ends.failures(host))
            text = "\n".join(ends.log(p))
            must("the log does not blame a path",
                 "could not be moved" not in text and "cannot go on" not in text, text)
            loud = "\n".join(ends.log(p, "warn"))
            must("the log says whose error it is, at both ends",
                 re.search(r"ended mlx5_0 .* to 10\.0\.0\.\d \(its NIC 0\), QP 0x\w+ to QP 0x\w+"
                           r".*program", loud), loud)
        ends.end()
    return case


def erred_in_a_move(lab):
    """A wrong request lies behind a fault of a NIC: the move is a switch, and the error the program's."""
    for host, who in (("h0", "client"), ("h1", "client"), ("h1", "server")):
        ends = Ends(lab, deadline_ms=3000)      # so long a key is looked for
        lab.fault("port-down", f"{host}/mlx5_0")
        getattr(ends, who).say("err rkey")
        getattr(ends, who).say("status")
        must("status", int(ends.said(getattr(ends, who), "STATUS")) == REM_ACCESS,
             getattr(ends, who).tail())
        for there in HOSTS:
            ends.event(there, "ended")
            must("no alert", not ends.failures(there), ends.failures(there), ends.events(there))
        ends.end()
        lab.ctl("heal", "all")


def lost(lab):
    """A connection that no NIC is left to ends after its patience: both ends raise the alert."""
    ends = Ends(lab, deadline_ms=3000)
    for i in range(2):
        lab.fault("port-down", f"h0/mlx5_{i}")
    for p in ends.both:
        p.say("work")
    for host in HOSTS:
        failed = ends.event(host, "failed", 60)
        must("who is concerned", failed["qps"] == 1 and failed["qpn"] and failed["why"], failed)
        must("the alert", sum(ends.failures(host).values()) == 1, ends.failures(host))
        wait_for("no word of half a loss", lambda host=host: [
            e for e in ends.events(host) if e["kind"] == "degraded" and not e["bandwidth_left"]])
        wait_for("it has ended", lambda host=host: [
            e for e in ends.events(host) if e["kind"] == "whole" and e["why"]])


def overrun(lab):
    """The receiver lets more completions lie than the backup's queue holds: no NIC has died."""
    lab.ctl("limit", "h0/mlx5_1", "cqe", 1023)
    ends = Ends(lab)
    for p in ends.both:
        p.say("deep")
    for p in ends.both:
        ends.said(p, "MADE")
    for host in HOSTS:
        ends.await_protected(host, 2)
    lab.fault("port-down", "h0/mlx5_0")
    wait_for("moves", lambda: all(lab.shift_log(p).count("moved from mlx5_0 to mlx5_1") == 2
                                  for p in ends.both), 30)
    ends.client.say("send 1700")
    ends.said(ends.client, "SENT")
    for host in HOSTS:
        failed = ends.event(host, "failed")
        must("the cause", failed["cause"] == "cq-error" and
             "completion queue" in failed["why"], failed)
    for p in ends.both:
        must("no NIC has died", "a NIC died" not in lab.shift_log(p), lab.shift_log(p))


# ---- who is silent -------------------------------------------------------------------------------

def cut(lab, nic):
    for kind in ("lose-tx", "lose-rx"):
        lab.fault(kind, nic)


def silent_nic(lab):
    """A NIC here loses everything, and two peers are there: it is this NIC."""
    ends = Ends(lab, peers=2)
    cut(lab, "h0/mlx5_0")
    for p in ends.both:
        p.say("work")
    down = ends.event("h0", "nic-down")
    must("the NIC", (down["from"], down["cause"]) == ("mlx5_0", "silence"), down)
    nics = {n["name"]: n for n in ends.status("h0")["nics"]}
    must("status", nics["mlx5_0"]["silent"] and not nics["mlx5_1"]["silent"], nics)
    must("table", re.search(r"mlx5_0 +open, silent", ends.table("h0")), ends.table("h0"))
    loud = "\n".join(ends.log(ends.server, "warn"))
    must("the log", "mlx5_0: no peer answers over it" in loud and "the peer's NIC" not in loud,
         loud)
    for i in (1, 2):
        switch = ends.event(f"h{i}", "switch")
        must("the peer knows who it is", switch["peer_gid"] == "::ffff:10.0.0.1", switch)
    lab.ctl("heal", "all")
    up = ends.event("h0", "nic-up")
    must("over", (up["from"], up["cause"]) == ("mlx5_0", "silence"), up)


def silent_peer(lab):
    """A NIC of one of two peers loses everything: not ours."""
    ends = Ends(lab, peers=2)
    cut(lab, "h1/mlx5_0")
    for p in ends.both:
        p.say("work")
    switch = ends.event("h0", "switch")
    must("the peer's NIC", (switch["peer_gid"], switch["qps"]) == ("::ffff:10.0.0.2", 1), switch)
    wait_for("the log", lambda: "the peer's NIC 10.0.0.2 (its NIC 0) does not answer any more, "
             "and other peers do" in lab.shift_log(ends.server), 30)
    events = ends.events("h0")
    must("not this NIC", not [e for e in events if e["kind"] == "nic-down"], events)


# ---- nothing passes -----------------------------------------------------------------------------

def both_down(lab, work):
    """Both ports of a host are down: nothing is left, and nobody is called protected."""
    ends = Ends(lab, qps=2)
    for i in range(2):
        lab.fault("port-down", f"h0/mlx5_{i}")
    for p in ends.both if work else ():
        p.say("work")
    for host in HOSTS:
        causes = {"no-standby", "silence"}
        ends.stalled(host, *causes, qps=2)
        wait_for("nobody is protected", lambda host=host: all(
            q["level"] == "driven" and q["stalled"] and q["stalled"]["cause"] in causes
            for q in ends.status(host)["qps"]), 30)
        must("the table", "2 stalled" in ends.table(host), ends.table(host))
        metrics = json.loads(ends.ask(host, b"metrics\n"))["stalled"]
        must("the metric", metrics.keys() <= causes and sum(metrics.values()) == 2, metrics)
        wait_for("nothing is left", lambda host=host: [
            e for e in ends.events(host) if e["kind"] == "degraded" and not e["bandwidth_left"]])
    lab.ctl("heal", "all")
    for host in HOSTS:
        ends.event(host, "flowing")
        ends.event(host, "whole")
        must("all goes on", not [q for q in ends.status(host)["qps"] if q["stalled"]], host)
    ends.end()


def paused(lab):
    """PFC holds the port's traffic for a while: told, and nothing is moved."""
    ends = Ends(lab)
    lab.fault("pause", "h0/mlx5_0")
    lab.fault("pause", "h0/mlx5_1")
    ends.server.say("work")
    stalled, *_ = ends.stalled("h0", "paused")
    must("the reason", "PFC" in stalled["why"] and "RNR" not in stalled["why"], stalled)
    lab.ctl("heal", "all")
    ends.event("h0", "flowing")
    ends.server.say("done")
    must("done", ends.said(ends.server, "DONE") == "0", ends.server.tail())
    ends.end()


def no_receive(lab):
    """The receiver posts nothing: the fabric is well, and is said to be."""
    ends = Ends(lab)
    ends.server.say("rnr")
    stalled, *_ = ends.stalled("h0", "not-ready")
    must("the reason", "RNR" in stalled["why"] and "PFC" not in stalled["why"], stalled)
    must("no move", not [e for e in ends.events("h0") if e["kind"] == "switch"], ends.events("h0"))
    wait_for("protection", lambda: ends.status("h0")["qps"][0]["level"] == "protected", 30)


def counts(lab):
    """An event of a NIC says how many connections it concerns."""
    ends = Ends(lab, qps=3)
    lab.fault("port-down", "h0/mlx5_0")
    must("down", ends.event("h0", "nic-down")["qps"] == 3, ends.events("h0"))
    ends.event("h0", "switch")
    lab.ctl("heal", "all")
    must("up", ends.event("h0", "nic-up")["qps"] == 3, ends.events("h0"))


def third_nic(lab):
    """On its backup, without a third NIC: said so, and not that no path answers."""
    ends = Ends(lab)
    lab.fault("cable-down", "h0/mlx5_0")
    for host in HOSTS:
        ends.event(host, "switch")
        wait_for("the reason", lambda host=host: "it runs on its backup, and there is no third NIC"
                 in ends.table(host), 30)


# ---- one flap -----------------------------------------------------------------------------------

def flap_lines(lab):
    """By default a flap of many connections is a few lines, which name both ends."""
    ends = Ends(lab, qps=200, log="warn", **{k: v for k, v in PATIENT.items() if k != "log"})
    lab.fault("port-down", "h0/mlx5_0")
    for host in HOSTS:
        wait_for("moves", lambda host=host: sum(e["qps"] for e in ends.events(host)
                                                if e["kind"] == "switch") == 200, 60)
    lab.ctl("heal", "all")
    for host in HOSTS:
        wait_for("returns", lambda host=host: sum(e["qps"] for e in ends.events(host)
                                                  if e["kind"] == "return") == 200, 60)
    for p in ends.both:
        lines = ends.log(p)
        must("at most five lines", 2 <= len(lines) <= 5, *lines)
        must("both ends", all(re.search(r" to 10\.\d\.0\.\d \(its NIC", line) for line in lines
                              if "switch" in line or "return" in line), *lines)


# ---- told as a story ----------------------------------------------------------------------------

def why(lab):
    """One connection, one NIC, one process: what happened, what SHIFT did, what to do."""
    ends = Ends(lab, qps=2)
    lab.fault("port-down", "h0/mlx5_0")
    ends.event("h0", "switch")
    qp = ends.status("h0")["qps"][0]
    story = lab.shiftctl("h0", "why", f"0x{qp['qpn']:06x}")
    for part in ("connections left mlx5_0 for mlx5_1 (to 10.0.0.2, its NIC 0), as the port of this host went down",
                 f"Now QP 0x{qp['qpn']:06x} runs on mlx5_1 (its own is mlx5_0), to 10.0.0.2 QP",
                 "What to do: check cable, transceiver and switch port of that NIC"):
        must("the connection's story", part in story, story)
    story = lab.shiftctl("h0", "why", "mlx5_0")
    must("the NIC's", "2 connections left mlx5_0" in story and
         "Now mlx5_0: its port is down" in story, story)
    story = lab.shiftctl("h0", "why", str(ends.server.pid))
    must("the process's", "Now 0 of 2 queue pairs are protected" in story, story)
    story = lab.shiftctl("h1", "why", "mlx5_0")
    must("the peer is sent on", "What to do: ask `shiftctl why` on the other host" in story, story)
    lab.ctl("heal", "all")
    ends.event("h0", "return")
    wait_for("all is well", lambda: "What to do: nothing" in lab.shiftctl("h0", "why", "mlx5_0"))
    must("nobody", not lab.shiftctl("h0", "why", "mlx5_7", check=False))


def installed():
    """The programs that the build installs, by what its files say; a build's folder may have others' files."""
    names = set()
    for folder, folders, files in os.walk(ROOT):
        if "CMakeCache.txt" in files:
            folders.clear()
        elif "CMakeLists.txt" in files:
            with open(os.path.join(folder, "CMakeLists.txt"), encoding="utf-8") as f:
                found = re.findall(r"install\(TARGETS ([\w -]+) RUNTIME", f.read())
            names.update(name for names in found for name in names.split())
    return sorted(names)


def versions(lab):
    """Each program that is installed says what it is, in the same words."""
    must("the programs are found", {"shiftctl", "simnicctl", "shift-exporter", "shift-probe",
                                    "sdr_perf"} <= set(installed()), installed())
    for name in installed():
        program = os.path.join(lab.out, "bin", name)
        for option in ("--version", "-V"):
            said = lab.run_tool([program, option])
            must(f"{name} {option}", not said.process.returncode and
                 re.fullmatch(rf"{name} \d+\.\d+\.\d+\n", said.out()), said.out(), said.err())
        for option in ("--help", "-h"):
            said = lab.run_tool([program, option])
            must(f"{name} {option}", not said.process.returncode and
                 re.match(rf"usage: ({name}|shiftctl) ", said.out()), said.out(), said.err())


# ---- docs/on-call.md ----------------------------------------------------------------------------

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PAGE = os.path.join(ROOT, "docs", "on-call.md")


def rows():
    """The table of the page: {what is seen: (command, what it says)}."""
    with open(PAGE, encoding="utf-8") as f:
        found = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \| `([^`]+)` \| .* \|$", f.read(), re.M)
    return {seen: (command, says) for seen, command, says in found}


def night_fault(kind, host="h0"):
    def make(lab, ends):
        for p in ends.both:
            p.say("work")
        lab.fault(kind, f"{host}/mlx5_0")
    return make


def night_cut(nic):
    def make(lab, ends):
        cut(lab, nic)
        for p in ends.both:
            p.say("work")
    return make


def night_both_down(lab, ends):
    lab.fault("port-down", "h0/mlx5_0")
    ends.event("h0", "switch")
    lab.fault("port-down", "h0/mlx5_1")
    ends.server.say("work")


def night_stopped(lab, ends):
    os.kill(ends.client.pid, signal.SIGSTOP)
    ends.server.say("rnr")


def night_paused(lab, ends):
    for nic in ("mlx5_0", "mlx5_1"):
        lab.fault("pause", f"h0/{nic}")
    ends.server.say("work")


def night_flap(lab, ends):
    for _ in range(2):
        lab.fault("port-down", "h0/mlx5_0")
        ends.event("h0", "switch")
        lab.ctl("heal", "all")


# What makes each row; settings; peers.
NIGHT = {
    "switch mlx5_0 -> mlx5_1 (port-down)": (night_fault("port-down"), {}, 1),
    "switch mlx5_0 -> mlx5_1 (peer)": (night_fault("port-down", "h1"), {}, 1),
    "the device reported a fatal error": (night_fault("nic-internal-error"), {}, 1),
    "does not execute commands": (night_fault("nic-hang"), {}, 1),
    "no peer answers over it": (night_cut("h0/mlx5_0"), {}, 2),
    "that NIC, its cable or its switch's port": (night_cut("h1/mlx5_0"), {}, 2),
    "stalled mlx5_1 (no-standby)": (night_both_down, {}, 1),
    "the peer is silent on all paths": (night_stopped, {}, 1),
    "(not-ready)": (lambda lab, ends: ends.server.say("rnr"), {}, 1),
    "(paused)": (night_paused, {}, 1),
    "ended mlx5_0 (application)": (lambda lab, ends: ends.server.say("err lkey"), {}, 1),
    "drained by the operator": (lambda lab, ends: lab.shiftctl("h0", "drain", "mlx5_0"), {}, 1),
    "and held down for": (night_flap, {"holddown_ms": 30000, "holddown_max_ms": 60000}, 1),
}


def night(seen):
    """What the page says is seen is seen, and its command says what it says."""
    def case(lab):
        command, says = rows()[seen]
        make, settings, peers = NIGHT[seen]
        ends = Ends(lab, peers=peers, **settings)
        make(lab, ends)
        if seen.startswith("ended"):
            ends.server.say("status")
            ends.said(ends.server, "STATUS")
        wait_for(f"'{seen}'", lambda: seen in lab.shift_log(ends.server) or
                 seen in ends.table("h0"), 40)
        argv = command.split()[1:]

        def told():
            """Here, or where it sends on to: either end may have seen it first."""
            said = lab.shiftctl("h0", *argv)
            return says in said or (ELSEWHERE in said and says in lab.shiftctl("h1", *argv))
        wait_for(f"'{says}' of {command}", told, 20)
    return case


ELSEWHERE = "ask `shiftctl why` on the other host"


def night_whole(_):
    must("each row of the page is made here", set(rows()) == set(NIGHT), rows(), NIGHT)


CASES = {
    "night_whole": night_whole,
    **{f"night_{i}": night(seen) for i, seen in enumerate(NIGHT)},
    "versions": versions,
    "why": why,
    "overrun": overrun,
    "erred_in_a_move": erred_in_a_move,
    "lost": lost,
    "silent_nic": silent_nic,
    "silent_peer": silent_peer,
    "flap_lines": flap_lines,
    "both_down_idle": lambda lab: both_down(lab, False),
    "both_down_busy": lambda lab: both_down(lab, True),
    "paused": paused,
    "no_receive": no_receive,
    "third_nic": third_nic,
    "counts": counts,
    **{f"wrong_{how}": program_err(how, status) for how, status in
       (("rkey", REM_ACCESS), ("lkey", LOC_PROT), ("bounds", REM_ACCESS), ("read", REM_ACCESS),
        ("length", REM_INV_REQ))},
}


def run(lab, name):
    CASES[name](lab)


if __name__ == "__main__":
    sys.exit(cases_main(CASES, run, hosts=3))
