#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What makes connections move, and what does not: faults that no event tells of, against pauses,
stopped processes and slow commands; and what looking for them costs.

  detect.py --build DIR [CASE...]
"""
import argparse
import os
import shutil
import signal
import subprocess
import sys
import time

from shiftlab import perftest
from shiftlab.lab import SKIPPED, Shift, free_port, run_case, wait_for
from shiftlab.perftest import Failed

TOOL_S = 120        # perftest's -D; it is ended when it has shown what it should
MOVE_S = 30         # by far longer than any fault may stay unseen
CALM_S = 2          # what a wrong verdict would take to show
BETWEEN_S = 0.5     # two pauses in a row are two, not one
PACKETS_PER_S = 100     # of heartbeats, a peer and path
PATIENT = ["-u", "20"]  # the QP's own retries take 30 s: SHIFT comes first, also on a busy machine
BOTH = 3            # paths, as bits
SOON = {"holddown_ms": 200}     # paths are steady soon


def check(truth, what):
    if not truth:
        raise Failed(what)


class Pair:
    """A stock tool between the hosts, protected."""

    def __init__(self, lab, tool="ib_write_bw", options=(), **settings):
        self.lab, self.tool = lab, tool
        shift = Shift(log="info", **{**SOON, **settings})
        argv = [tool, "-d", "mlx5_0", "-x", "0", "-F", "-p", free_port(), "-D", TOOL_S, *PATIENT,
                *options]
        self.server = lab.start("h0", argv, shift=shift, name="server")
        self.server.await_listening()
        self.client = lab.start("h1", argv + ["127.0.0.1"], shift=shift, name="client")
        wait_for("protection, and steady paths", lambda: all(
            self.rests_on(host) for host in ("h0", "h1")), 30)

    def rests_on(self, host):
        qps = self.lab.connections(host)
        return qps and all(q["level"] == "protected" and q["paths"]["up"] == BOTH and
                           q["paths"]["steady"] == BOTH for q in qps)

    def both(self):
        return self.client, self.server

    def moved(self):
        return all(" moved from " in self.lab.shift_log(p) for p in self.both())

    def any_moved(self):
        return any(" moved from " in self.lab.shift_log(p) for p in self.both())

    def end(self):
        perftest.end(self.tool, self.server, self.client)
        for p in self.both():
            check(p.wait(90) == 0, f"{p.name} failed\n{p.tail()}")
        return [self.lab.stats(p)["moves"] for p in self.both()]


def reasons(moves):
    return [m["reason"] for m in moves]


def expect_move(pair, reason):
    wait_for("move of both ends", pair.moved, MOVE_S)
    client, server = pair.end()
    check(reason in reasons(client[:1] + server[:1]),
          f"first moves for {reasons(client)} and {reasons(server)}, not for {reason}")


def expect_none(pair):
    time.sleep(CALM_S)
    client, server = pair.end()
    check(not client and not server, f"moved: {reasons(client)} {reasons(server)}")


# ---- faults without an event --------------------------------------------------------------------

def silent_switch(lab):
    pair = Pair(lab)
    lab.fault("switch-down", "rail0")
    expect_move(pair, "silence")


def silent_late(lab):
    """The paths had been steady, and quiet, before the connection had its standby."""
    lab.ctl("cost", "h1/mlx5_1", 50000)     # it is slow to be made
    pair = Pair(lab, holddown_ms=10, holddown_max_ms=20)
    lab.fault("switch-down", "rail0")
    expect_move(pair, "silence")


def silent_one_way(lab):
    """What the initiator's NIC sends is lost; all that the peer sends arrives."""
    pair = Pair(lab, "ib_send_bw")
    lab.fault("lose-tx", "h1/mlx5_0")
    expect_move(pair, "silence")


def silent_reads(lab):
    pair = Pair(lab, "ib_read_bw")
    lab.fault("lose-rx", "h0/mlx5_0")
    expect_move(pair, "silence")


def nothing_passes(lab):
    """Both paths answer heartbeats and pass no data: each is tried twice, then the program gets its
    error."""
    pair = Pair(lab, "ib_read_bw", ["-u", "15"], holddown_ms=100)
    for nic in ("mlx5_0", "mlx5_1"):
        lab.fault("lose-acks", "h1/" + nic)
    check(pair.client.wait(60), "ended well, without an answer")
    moves = pair.lab.stats(pair.client)["moves"]
    check(len(moves) > 1, f"given up after {len(moves)} moves")
    check("status 12" in pair.client.out() + pair.client.err(), "not the error of retries\n" +
          pair.client.tail())
    pair.server.end()


def one_passes_nothing(lab):
    """One of both paths answers heartbeats and passes no data: tried again and again, as the other one works."""
    pair = Pair(lab, "ib_read_bw", ["-u", "15"], holddown_ms=50, holddown_max_ms=50)
    lab.fault("lose-acks", "h1/mlx5_0")

    def moves():
        check(pair.client.running(), "ended, though one path works\n" + pair.client.tail())
        return lab.shift_log(pair.client).count(" moved from ")

    wait_for("moves there and back", lambda: moves() >= 6, 90)
    lab.ctl("heal", "h1/mlx5_0")
    client, _ = pair.end()
    check(reasons(client).count("transport-error") >= 2, f"moved for {reasons(client)}")


def nic_hangs(lab):
    """Found before its silence would be, and without a command of the application."""
    pair = Pair(lab, heartbeat_loss_ms=5000)
    lab.fault("nic-hang", "h1/mlx5_0", lasts=4)
    expect_move(pair, "device-fatal")
    check("mlx5_0: does not execute commands" in lab.shift_log(pair.client),
          "moved, but not as the NIC hangs")


def link(lab):
    """The network interface loses its link; the port says nothing."""
    for host in ("h0", "h1"):
        lab.ctl("netdev", f"{host}/mlx5_0", "shift0")
    subprocess.run(["ip", "link", "set", "shift1", "up"], check=True)
    subprocess.run(["ip", "link", "set", "shift0", "up"], check=True)
    pair = Pair(lab, heartbeat="off")
    subprocess.run(["ip", "link", "set", "shift1", "down"], check=True)
    expect_move(pair, "port-down")


# ---- what is no fault ---------------------------------------------------------------------------

def pause(lab, _pair):
    """The class of the data is paused; heartbeats have their own."""
    lab.fault("pause", "h1/mlx5_0", lasts=2)
    time.sleep(2)


def stopped_peer(_lab, pair):
    """A process that is stopped answers on no path."""
    stop_for_a_while(pair.server)


def stopped_self(_lab, pair):
    stop_for_a_while(pair.client)


def stop_for_a_while(program):
    """simnicctl and shiftctl become the program that they run."""
    os.kill(program.pid, signal.SIGSTOP)
    time.sleep(2)
    os.kill(program.pid, signal.SIGCONT)


def slow_commands(lab, _pair):
    for host in ("h0", "h1"):
        lab.ctl("cost", host + "/mlx5_0", 1500000)
    time.sleep(3)
    for host in ("h0", "h1"):
        lab.ctl("cost", host + "/mlx5_0", 0)


def no_fault(lab):
    """One after the other, to the same programs, whose traffic flows between: nothing moves."""
    pair = Pair(lab, holddown_ms=1000)      # as by default
    for what in (pause, stopped_peer, stopped_self, slow_commands):
        what(lab, pair)
        before = lab.carried(0)
        wait_for(f"traffic behind {what.__name__}", lambda b=before: lab.carried(0) > b, 30)
        time.sleep(BETWEEN_S)
        check(not pair.any_moved(), f"moved: {what.__name__} was taken for a fault")
    expect_none(pair)


# ---- what it costs ------------------------------------------------------------------------------

def sent(lab):
    """Messages of both NICs on the second rail, where nothing but datagrams is."""
    return sum(lab.nic(host, 1)["tx_messages"] for host in (0, 1))


def rate(lab):
    """Counted while data flows; by the clock that the programs have too."""
    pair = Pair(lab)
    before, began = sent(lab), time.monotonic()
    time.sleep(3)
    # On a busy machine a path that needs none has a few in that time, or none.
    wait_for("heartbeat on the standby's path", lambda: sent(lab) > before, 30)
    count, took = sent(lab) - before, time.monotonic() - began
    print(f"       {count} packets in {took:.1f} s")
    client, server = pair.end()
    check(not client and not server, f"moved: {reasons(client)} {reasons(server)}")
    check(count / took < PACKETS_PER_S, f"{count} packets in {took:.1f} s")


def idle_is_quiet(lab):
    """Connections without work, with receives posted."""
    port = free_port()
    shift = Shift(log="info", holddown_ms=100)
    argv = [os.path.join(lab.out, "bin", "verify"), "--control", "--patterns", "b", "--qps", "2",
            "--dev", "mlx5_0", "--port", port, "--stuck", 60]
    server = lab.start("h0", argv + ["--server"], shift=shift, name="server", stdin=True)
    server.await_listening()
    client = lab.start("h1", argv + ["--client", "127.0.0.1"], shift=shift, name="client",
                       stdin=True)
    for p in (server, client):
        wait_for("protection", lambda p=p: lab.protected(p) >= 2, 30)
    for p in (server, client):
        p.say("pause")
    wait_for("quiet", lambda: quiet(lab), 30)
    for p in (server, client):
        p.say("resume")
    wait_for("heartbeats", lambda: not quiet(lab), 30)
    for p in (server, client):
        p.say("stop")
    for p in (server, client):
        check(p.wait(60) == 0, f"{p.name} failed\n{p.tail()}")


def quiet(lab):
    """Nothing was sent on the second rail, in a time of several heartbeats."""
    before = sent(lab)
    time.sleep(1)
    return sent(lab) == before


CASES = (silent_switch, silent_late, silent_one_way, silent_reads, nothing_passes, one_passes_nothing, nic_hangs, link,
         no_fault, rate, idle_is_quiet)


# ---- running them -------------------------------------------------------------------------------

def in_network():
    """A network namespace with a pair of interfaces, for the case that needs one."""
    made = "ip link set lo up && ip link add shift0 type veth peer name shift1"
    return subprocess.run(["sh", "-c", made], stderr=subprocess.DEVNULL).returncode == 0


def run_apart(build):
    """The case link: in a network of its own, or not at all."""
    again = [sys.executable, os.path.abspath(__file__), "--build", build, "--apart", "link"]
    for unshare in (["unshare", "-n"], ["unshare", "-rn"]):
        done = shutil.which("unshare") and subprocess.run(unshare + ["true"],
                                                          stderr=subprocess.DEVNULL)
        if done and done.returncode == 0:
            return subprocess.run(unshare + again).returncode
    return SKIPPED


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--apart", action="store_true", help="in a network that may be changed")
    parser.add_argument("cases", nargs="*", choices=[[], *(c.__name__ for c in CASES)])
    args = parser.parse_args()
    cases = [c for c in CASES if not args.cases or c.__name__ in args.cases]
    if args.apart and not in_network():
        return SKIPPED
    failed = 0
    for case in cases:
        if case is link and not args.apart:
            ret = run_apart(args.build)
            if ret == SKIPPED:
                print("link: skipped, no network namespace here", flush=True)
            failed += ret not in (0, SKIPPED)
        else:
            failed += not run_case(args.build, case.__name__, case)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
