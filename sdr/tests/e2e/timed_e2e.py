#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""As sdr_e2e.py: ends that wait for a time, which the machine has to itself.

  timed_e2e.py --build DIR [CASE...]
"""
import os
import random
import signal
import sys
import time

from sdr_e2e import BACKENDS, LONG, argv_of, fails, results, sent, start
from shiftlab.lab import cases_main, wait_for
from shiftlab.perftest import Failed


def messages(lab):
    """Without reliability: all is there on a link that loses nothing, or is counted as missing."""
    for backend in BACKENDS:
        for size in 1, 8192, 1 << 20:
            server, _ = results(start(lab, ["--sdk", "--verify", "--backend", backend, "--inflight", 8,
                                            "-n", 40, "-s", size]))
            if server["missing"] or server["wrong"]:
                raise Failed(f"{backend}, {size}: {server}")
    lab.ctl("link", "h0/mlx5_0", "--rate", "400M", "--delay", "1ms", "--loss", "2e-2")
    server, _ = results(start(lab, ["--sdk", "--verify", "--rate", "350M", "-n", 5, "-s", "1M"]))
    if not server["missing"] or server["wrong"]:
        raise Failed(f"on a link that loses: {server}")
    lab.ctl("link", "h0/mlx5_0", "off")


def stalled(lab):
    """A sender that gets no processor for a second in the middle of a message has lost nothing of it."""
    for turn in range(5 if LONG else 2):
        before = sent(lab)
        ends = start(lab, ["--sdk", "--verify", "--inflight", 2, "-n", 200, "-s", "1M"])
        wait_for("traffic", lambda: sent(lab) > before + 3000 + 3000 * turn or not ends[1].running(), 60)
        ends[1].process.send_signal(signal.SIGSTOP)
        time.sleep(1.2)     # longer than the server waits for the rest of a message that was sent
        ends[1].process.send_signal(signal.SIGCONT)
        server, _ = results(ends)
        if server["missing"] or server["wrong"]:
            raise Failed(f"stopped after {3000 + 3000 * turn} packets: {server}")


def silent(lab):
    """Whichever end falls silent in the middle of a Write, its TCP connection still there: the other ends at the deadline."""
    lab.ctl("link", "h0/mlx5_0", "--rate", "200M", "--delay", "5ms")
    for victim in 0, 1:
        before = sent(lab)
        ends = start(lab, ["-n", 100000, "-s", "8M", "--rate", "200M", "--rtt", "10ms", "--timeout", "3s"])
        wait_for("traffic", lambda: sent(lab) > before + 3000
                 or not all(end.running() for end in ends), 30)
        if not all(end.running() for end in ends):
            raise Failed(f"ended too early: {ends[0].tail()} {ends[1].tail()}")
        ends[victim].process.send_signal(signal.SIGSTOP)
        fails(ends[1 - victim], 1, "it was not over in its time")
        ends[victim].process.send_signal(signal.SIGKILL)
    lab.ctl("link", "h0/mlx5_0", "off")


def many(lab):
    """Threads with several connections each, both ways at once, of drawn attributes: over a link that loses, too."""
    seed = int(os.environ.get("SDR_MANY_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
    print(f"     SDR_MANY_SEED={seed}", flush=True)
    for options in [], ["--rate", "1G", "--delay", "500us", "--loss", "1e-2", "--reorder", "1e-2:300us"]:
        if options:
            lab.ctl("link", "h0/mlx5_0", *options)
        done = lab.run("h0", [os.path.join(lab.out, "bin", "sdr_many"), "mlx5_0", str(seed), "3", "40"], timeout=150)
        if done.process.returncode or "3 of 3 threads are right" not in done.out():
            raise Failed(f"{options}: {done.tail(40)}")
    lab.ctl("link", "h0/mlx5_0", "off")


def against_rc(lab):
    """Both over one link that loses: every byte of each, and what both took."""
    lab.ctl("link", "h0/mlx5_0", "--rate", "400M", "--delay", "2ms", "--loss", "5e-3")
    ends = start(lab, ["-n", 5, "-s", "1M", "--rate", "350M", "--rtt", "4ms", "--verify", "--against", "rc", "--burst", "1M"])
    _, row = results(ends)
    if row["against"] != "rc" or row["rc_ms"] < 8 * 1048576 / 400e3 or abs(row["rc_ms"] / row["sdr_ms"] - row["ratio"]) > .01:
        raise Failed(f"no times of both: {row}")
    resent = lab.status()["hosts"][1]["nics"][0]["rc_retransmits"]
    print(f"     RC sent {resent} packets again, and took {row['ratio']} times as long")
    if not resent:
        raise Failed("RC lost nothing: it did not take the link")
    lab.ctl("link", "h0/mlx5_0", "off")
    fails(lab.start("h0", argv_of(lab, "--against", "tcp"), "tcp"), 2, "--against tcp makes no sense")
    fails(lab.start("h0", argv_of(lab, "--against", "rc", "--sdk"), "sdk"), 2, "--against rc is for Writes")


CASES = {case.__name__: case for case in (messages, stalled, silent, against_rc, many)}

if __name__ == "__main__":
    os.environ["SIMNIC_DEVX"] = "1"     # as kernels grant it: a root's key is made by it
    sys.exit(cases_main(CASES, lambda lab, name: CASES[name](lab)))
