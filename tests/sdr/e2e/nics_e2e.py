#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Late packets, which must change nothing, and channels over several NICs, of which one fails, and comes back.

  nics_e2e.py --build DIR [CASE...]
"""
import os
import random
import signal
import sys
import time

from sdr_e2e import BACKENDS, LONG, Late, fails, results, start, whole
from shiftlab.lab import Lab, cases_main, wait_for
from shiftlab.perftest import Failed

NICS = 4        # of a host, where one is pulled
BACK_WRITES = 40    # long enough for a NIC that is away for a while
# How a NIC fails that comes back, at which end, and below which backend; the first have each fault, end and backend once.
BACK = (("nic-unplug", 0, "root"), ("nic-internal-error", 1, "window"), ("nic-zombie", 0, "stage"),
        ("nic-unplug", 0, "window"), ("nic-unplug", 1, "stage"), ("nic-zombie", 0, "window"))


def late(lab, rounds=int(os.environ.get("SDR_LATE_ROUNDS", "1000" if LONG else "8"))):
    """Late packets over completion and reuse change neither buffer nor bitmap; without a guard the same shows them."""
    for backend, generations, nics in (("window", 1, 1), ("stage", 2, 1), ("root", 2, 1),
                                       ("window", 1, 2), ("stage", 2, 2), ("root", 4, 2)):
        pair = Late(lab, backend, generations, nics=nics)
        for n in range(0, 2 * rounds // nics, 2):
            if not pair.meet(n):
                raise Failed(f"{backend} over {nics} NICs: late packets of message {n} are seen")
        pair.end()
        print(f"     {backend} over {nics} NICs: {rounds // nics} rounds, 16 late packets each", flush=True)
    for backend, generations, program in (("stage", 1, "sdr_late"), ("window", 1, "sdr_late_one_key"), ("root", 1, "sdr_late"),
                                          ("root", 2, "sdr_late_one_range")):
        pair = Late(lab, backend, generations, program=program)
        if pair.meet(0):
            raise Failed(f"{backend}: one key for all generations, and nobody notices: this case shows nothing")
        pair.end()


def waiting(lab):
    """What still waits in the sender's NIC has not begun its lifetime: the id is not used again, however short that is."""
    pair = Late(lab, "stage", 1, patience_s=2)
    pair.say(0, "post 0", "POSTED")
    lab.fault("pause", "h1/mlx5_0")
    pair.ends[1].say("send 0")
    pair.say(0, "complete", "COMPLETED")
    pair.ends[0].say("post 1")
    fails(pair.ends[0], 1, "receive: not within 2 s")
    pair.end()
    lab.ctl("heal", "h1/mlx5_0")


def pull(lab, kind, end, draw):
    """One of the NICs fails in the middle of a Write: which ends have lost it, and how much it carried of a share."""
    nic = draw.randrange(NICS)
    for i in range(NICS):
        lab.ctl("link", f"h0/mlx5_{i}", "--rate", "100M", "--delay", "5ms")
    ends = start(lab, ["-d", ",".join(f"mlx5_{i}" for i in range(NICS)), "-n", 4, "-s", "8M", "--rate", "300M",
                       "--rtt", "10ms", "--chunk", "4K", "--timeout", "60s", "--verify"])
    many = draw.randrange(300, 1500)
    wait_for("traffic", lambda: lab.nic(1, nic)["tx_messages"] > many or not all(e.running() for e in ends), 60)
    lab.fault(kind, f"rail{nic}" if kind == "switch-down" else f"h{end}/mlx5_{nic}")
    said = results(ends)
    for one in said:
        if one["writes"] != 4 or one["wrong"] or one["failed"]:
            raise Failed(f"not all is right: {one}")
    if kind == "switch-down" and not said[1]["resent"] and not said[0]["decoded"]:
        raise Failed(f"nothing was lost with NIC {nic}, after {many} packets of it: the case shows nothing")
    sent = [lab.nic(1, i)["tx_messages"] for i in range(NICS)]
    print(f"     {kind} of h{end}'s NIC {nic} after {many} of its packets: {sent} sent by each, "
          f"{said[1]['resent']} chunks again, {said[0]['decoded']} decoded", flush=True)
    return [one["nics_lost"] for one in said], sent[nic] / (sum(sent) / NICS)


def pulled(lab):
    """Channels over four NICs, one of which fails at an end, with LONG at either: only loss, every byte of every Write is right."""
    seed = int(os.environ.get("SDR_PULL_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
    print(f"     SDR_PULL_SEED={seed}", flush=True)
    draw = random.Random(seed)
    for kind, lost in (("nic-unplug", 1), ("nic-internal-error", 1), ("nic-zombie", 1), ("port-down", 0), ("switch-down", 0)):
        for end in (0,) if kind == "switch-down" else (0, 1) if LONG else (draw.randrange(2),):
            with Lab(lab.out, nics=NICS, seed=seed) as wide:
                seen, share = pull(wide, kind, end, draw)
                if seen != [lost * (end == i) for i in (0, 1)]:
                    raise Failed(f"{kind} of h{end}: the ends say that they lost {seen} NICs")
                if share > .8 and kind != "switch-down":
                    raise Failed(f"{kind} of h{end}: its NIC carried {share:.2f} of a share nevertheless")


def come_back(lab, kind, end, backend, draw):
    """One of the NICs fails, and is well again: it carries packets of the same connection as before."""
    nic = draw.randrange(NICS)
    for i in range(NICS):
        lab.ctl("link", f"h0/mlx5_{i}", "--rate", "100M", "--delay", "5ms")
    ends = start(lab, ["-d", ",".join(f"mlx5_{i}" for i in range(NICS)), "-n", BACK_WRITES, "-s", "8M", "--rate", "300M", "--backend",
                       backend, "--rtt", "10ms", "--chunk", "4K", "--timeout", "60s", "--verify"])

    def carried():
        return lab.nic(1, nic)["tx_messages"]

    def over():
        return not all(e.running() for e in ends)
    many = draw.randrange(300, 1500)
    wait_for("traffic", lambda: carried() > many or over(), 60)
    lab.fault(kind, f"h{end}/mlx5_{nic}")
    time.sleep(draw.uniform(.01, 1.5))      # of a NIC that is away
    lab.ctl("heal", f"h{end}/mlx5_{nic}")
    before = carried()
    # What its old life had posted, and control datagrams, are far fewer.
    wait_for("packets by a NIC that is well again", lambda: carried() > before + 2000 or over(), 90)
    if over():
        raise Failed(f"{kind} of h{end}'s NIC {nic} ({backend}): {carried() - before} packets by it since it is well: "
                     f"{ends[0].tail()} {ends[1].tail()}")
    said = results(ends)
    for i, one in enumerate(said):
        if one["writes"] != BACK_WRITES or one["wrong"] or one["failed"] or one["nics_lost"] != (i == end) or one["nics_joined"] != 1:
            raise Failed(f"{kind} of h{end}'s NIC {nic} ({backend}): {one}")
    print(f"     {kind} of h{end}'s NIC {nic}, {backend}: {carried() - before} packets by it since it is well", flush=True)


def back(lab):
    """A NIC that failed and is well again joins its connection, whichever end it is of: every byte is right."""
    seed = int(os.environ.get("SDR_PULL_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
    print(f"     SDR_PULL_SEED={seed}", flush=True)
    draw = random.Random(seed)
    for kind, end, backend in BACK if LONG else BACK[:3]:
        with Lab(lab.out, nics=NICS, seed=seed) as wide:
            come_back(wide, kind, end, backend, draw)


def left(lab):
    """
    A NIC whose firmware died cannot unbind, and its data path lives: a buffer that was open to it is its user's again when the sender
    has said that it sends there no more, not before.
    """
    for backend, generations in ("window", 1), ("root", 2):
        with Lab(lab.out, nics=2, seed=lab.seed) as own:
            leave(own, backend, generations)


def leave(lab, backend, generations):
    pair = Late(lab, backend, generations, nics=2)
    receiver, sender = pair.ends
    pair.say(0, "post 0", "POSTED")
    sender.process.send_signal(signal.SIGSTOP)
    lab.fault("nic-zombie", "h0/mlx5_0")
    pair.say(0, "lost", "LOST")     # until then its data path would unbind, and it would be over
    receiver.say("complete")
    time.sleep(2)   # for what must not come
    if "COMPLETED" in receiver.out() or not receiver.running():
        raise Failed(f"the receive is over, and its sender may still write: {receiver.tail()}")
    sender.process.send_signal(signal.SIGCONT)
    pair.hear(0, "COMPLETED")
    pair.end()


def several(lab):
    """Two NICs at each end: schemes, stages, messages alone, more channels than NICs; nothing is lost."""
    two = ["-d", "mlx5_0,mlx5_1", "--inflight", 2]
    for options in ["--scheme", "nack"], ["--scheme", "ec", "--backend", "stage"], ["--scheme", "hybrid", "--channels", 5]:
        whole(lab, [*two, *options], 12, 1 << 20)
    for backend in BACKENDS:
        server, _ = results(start(lab, [*two, "--sdk", "--verify", "--backend", backend, "-n", 40, "-s", "1M"]))
        if server["missing"] or server["wrong"]:
            raise Failed(f"{backend}: {server}")
    ends = start(lab, ["--channels", 2], client=["-d", "mlx5_0,mlx5_1"])
    for end in ends:
        fails(end, 1, "the ends differ", "2 devices")


CASES = {case.__name__: case for case in (late, waiting, pulled, back, left, several)}

if __name__ == "__main__":
    os.environ["SIMNIC_DEVX"] = "1"     # as kernels grant it: a root's key is made by it
    sys.exit(cases_main(CASES, lambda lab, name: CASES[name](lab)))
