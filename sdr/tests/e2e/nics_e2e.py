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
from shiftlab.lab import Lab, cases_main, draw, wait_for
from shiftlab.perftest import Failed

NICS = 4        # of a host, where one is pulled
PULL_WRITES = 8     # a busy machine's fault must not come behind the last one
BACK_WRITES = 40    # long enough for a NIC that is away for a while
UNEQUAL_WRITES = 120 if LONG else 60
# How a NIC fails, and how many an end has lost then.
PULLED = {"nic-unplug": 1, "nic-internal-error": 1, "nic-zombie": 1, "port-down": 0, "switch-down": 0}
# How a NIC fails that comes back, at which end, and below which backend.
BACK = (("nic-unplug", 0, "root"), ("nic-internal-error", 1, "window"), ("nic-zombie", 0, "stage"),
        ("nic-unplug", 0, "window"), ("nic-unplug", 1, "stage"), ("nic-zombie", 0, "window"))
# Which backends take a buffer back by unbinding, and by how many generations.
UNBIND = (("window", 1), ("root", 2))
# Of which end a NIC is pulled, where they have unequally many, and which.
UNEQUAL = ((0, 1), (1, 2), (0, 0))


def some(cases, n):
    """n of them, others each time; with LONG all."""
    if LONG:
        return list(cases)
    by_name = {str(case).replace(" ", ""): case for case in cases}
    return [by_name[name] for name in draw(by_name, n)]


def late(lab, rounds=int(os.environ.get("SDR_LATE_ROUNDS", "1000" if LONG else "8"))):
    """Late packets over completion and reuse change neither buffer nor bitmap; without a guard the same shows them. SDR_LATE_ONLY: root4x2, ..."""
    only = os.environ.get("SDR_LATE_ONLY")
    for backend, generations, nics in (("window", 1, 1), ("stage", 2, 1), ("root", 2, 1),
                                       ("window", 1, 2), ("stage", 2, 2), ("root", 4, 2)):
        if only and only != f"{backend}{generations}x{nics}":
            continue
        pair = Late(lab, backend, generations, nics=nics)
        for n in range(0, 2 * rounds, 2):
            if not pair.meet(n):
                raise Failed(f"{backend} over {nics} NICs: late packets of message {n} are seen")
        pair.end()
        print(f"     {backend} over {nics} NICs: {rounds} rounds, 16 late packets each", flush=True)
    for backend, generations, program in (("stage", 1, "sdr_late"), ("window", 1, "sdr_late_one_key"), ("root", 1, "sdr_late"),
                                          ("root", 2, "sdr_late_one_range")):
        pair = Late(lab, backend, generations, program=program)
        if pair.meet(0):
            raise Failed(f"{backend}: one key for all generations, and nobody notices: this case shows nothing")
        pair.end()


def displaced(lab):
    """A message whose receive was posted before both NICs failed, one after the other, and came back: no key of it is left. Its send
    says so, it does not wait for ever, and what is posted then goes as ever."""
    for backend in draw(BACKENDS, 3 if LONG else 1):
        with Lab(lab.out, nics=2, seed=1) as wide:
            pair = Late(wide, backend, 2 if backend == "root" else 1, nics=2)
            pair.say(0, "post 0", "POSTED")
            for nic in 0, 1:
                wide.fault("nic-unplug", f"h0/mlx5_{nic}")
                time.sleep(.2)
                wide.ctl("heal", f"h0/mlx5_{nic}")
                for end in 0, 1:
                    pair.say(end, f"joined {nic + 1}", "JOINED")
            pair.say(1, "displaced 0", "DISPLACED")
            pair.say(0, "complete", "COMPLETED")
            pair.say(0, "post 1", "POSTED")
            pair.say(1, "send 1", "SENT")
            pair.say(0, "whole", "WHOLE")
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


def pull(lab, kind, end, rng):
    """One of the NICs fails in the middle of a Write: which ends have lost it, and how much it carried of a share."""
    nic = rng.randrange(NICS)
    for i in range(NICS):
        lab.ctl("link", f"h0/mlx5_{i}", "--rate", "100M", "--delay", "5ms")
    ends = start(lab, ["-d", ",".join(f"mlx5_{i}" for i in range(NICS)), "-n", PULL_WRITES, "-s", "8M", "--rate", "300M",
                       "--rtt", "10ms", "--chunk", "4K", "--timeout", "60s", "--verify"])
    many = rng.randrange(300, 1500)
    wait_for("traffic", lambda: lab.nic(1, nic)["tx_messages"] > many or not all(e.running() for e in ends), 60)
    lab.fault(kind, f"rail{nic}" if kind == "switch-down" else f"h{end}/mlx5_{nic}")
    said = results(ends)
    for one in said:
        if one["writes"] != PULL_WRITES or one["wrong"] or one["failed"]:
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
    rng = random.Random(seed)
    for kind in some(PULLED, 3):
        lost = PULLED[kind]
        for end in (0,) if kind == "switch-down" else (0, 1) if LONG else (rng.randrange(2),):
            with Lab(lab.out, nics=NICS, seed=seed) as wide:
                seen, share = pull(wide, kind, end, rng)
                if seen != [lost * (end == i) for i in (0, 1)]:
                    raise Failed(f"{kind} of h{end}: the ends say that they lost {seen} NICs")
                if share > .8 and kind != "switch-down":
                    raise Failed(f"{kind} of h{end}: its NIC carried {share:.2f} of a share nevertheless")


def unmet(lab):
    """A NIC dies between the making of a connection and its peer's word: the connection goes on by the others."""
    for kind in ("nic-internal-error", "nic-disassociate"):
        for end in (0, 1):
            with Lab(lab.out, nics=2) as own:
                both = Late(own, "stage", 1, nics=2, before_peer=lambda: own.fault(kind, f"h{end}/mlx5_1"))
                both.say(0, "post 1", "POSTED")
                both.say(1, "send 1", "SENT")
                both.say(0, "whole", "WHOLE")
                both.end()


def come_back(lab, kind, end, backend, rng):
    """One of the NICs fails, and is well again: it carries packets of the same connection as before."""
    nic = rng.randrange(NICS)
    for i in range(NICS):
        lab.ctl("link", f"h0/mlx5_{i}", "--rate", "100M", "--delay", "5ms")
    ends = start(lab, ["-d", ",".join(f"mlx5_{i}" for i in range(NICS)), "-n", BACK_WRITES, "-s", "8M", "--rate", "300M", "--backend",
                       backend, "--rtt", "10ms", "--chunk", "4K", "--timeout", "60s", "--verify"])

    def carried():
        return lab.nic(1, nic)["tx_messages"]

    def over():
        return not all(e.running() for e in ends)
    many = rng.randrange(300, 1500)
    wait_for("traffic", lambda: carried() > many or over(), 60)
    lab.fault(kind, f"h{end}/mlx5_{nic}")
    time.sleep(rng.uniform(.01, 1.5))      # of a NIC that is away
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
    rng = random.Random(seed)
    for kind, end, backend in some(BACK, 1):
        with Lab(lab.out, nics=NICS, seed=seed) as wide:
            come_back(wide, kind, end, backend, rng)


def left(lab):
    """
    A NIC whose firmware died cannot unbind, and its data path lives: a buffer that was open to it is its user's again when the sender
    has said that it sends there no more, not before.
    """
    for backend, generations in some(UNBIND, 1):
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


def given_back(lab):
    """A connection that fails while its peer writes, and knows nothing of it: what was given back to the user is written to no more."""
    for backend, generations in some(UNBIND, 1):
        with Lab(lab.out, nics=1, seed=lab.seed) as own:
            give_back(own, backend, generations)


def give_back(lab, backend, generations):
    pair = Late(lab, backend, generations)
    for end in 0, 1:
        pair.say(end, "post 0", "POSTED")
    lab.fault("hold-requests", "h1/mlx5_0")
    pair.say(1, "send 0", "SENT")
    lab.fault("pause", "h0/mlx5_0")     # what it sends itself is not answered: that NIC counts as failed
    pair.say(0, "start 0", "STARTED")
    lab.ctl("cost", "h0/mlx5_0", "400000")  # closing takes its time
    pair.say(0, "fail", "FAILED")
    lab.ctl("heal", "h0/mlx5_0")
    lab.ctl("release", "h1/mlx5_0")
    wait_for("what was held", lambda: not lab.status()["held_packets"], 20)
    time.sleep(.5)      # for what must not come
    if pair.say(0, "still", "STILL", "WRITTEN")[0] != "STILL":
        raise Failed(f"{backend}: the receive has failed, and its buffer was written to behind that")
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


def unequal(lab):
    """One NIC here and two there, two and three: every byte is right, whichever end writes; without a word, what to do is said."""
    three = "mlx5_0,mlx5_1,mlx5_2"
    with Lab(lab.out, nics=3, seed=lab.seed, joined=True) as own:
        unequal_ends(own, three)
    for end, nic in some(UNEQUAL, 1):
        with Lab(lab.out, nics=3, seed=lab.seed, joined=True) as own:
            unequal_pull(own, ("mlx5_0,mlx5_1", three), end, nic)


def unequal_ends(lab, three):
    for end in start(lab, ["-d", "mlx5_0"], client=["-d", "mlx5_0,mlx5_1"]):
        fails(end, 1, "the ends differ", "channels 1", "channels 2", "--channels 2")
    for devices, channels in (("mlx5_0", "mlx5_0,mlx5_1"), 2), (("mlx5_0,mlx5_1", "mlx5_0"), 4), (("mlx5_0,mlx5_1", three), 3):
        for backend in BACKENDS:
            ends = start(lab, ["-d", devices[0], "--channels", channels, "--inflight", 2, "--verify", "--backend", backend, "-n", 12,
                               "-s", "1M"], client=["-d", devices[1]])
            for one in results(ends):
                if one["writes"] != 12 or one["wrong"] or one["failed"] or one["nics_lost"]:
                    raise Failed(f"{devices}, {backend}: {one}")
        print(f"     {devices[0]} and {devices[1]}, {channels} channels: all backends", flush=True)


def unequal_pull(lab, devices, end, nic):
    """A NIC of either end is pulled, with all ways over it, and comes back: each NIC sends its share, every byte is right."""
    ends = start(lab, ["-d", devices[0], "--channels", 3, "--rate", "150M", "--rtt", "4ms", "--verify", "-n", UNEQUAL_WRITES, "-s", "2M",
                       "--timeout", "60s"], client=["-d", devices[1]])

    def carried():
        return [lab.nic(1, i)["tx_messages"] for i in range(3)]

    def over():
        return not all(e.running() for e in ends)
    wait_for("traffic by all", lambda: min(carried()) > 200 or over(), 60)
    lab.fault("nic-unplug", f"h{end}/mlx5_{nic}")
    time.sleep(.2)      # of a NIC that is away
    lab.ctl("heal", f"h{end}/mlx5_{nic}")
    before = carried()
    wait_for("packets by all again", lambda: min(c - b for c, b in zip(carried(), before)) > 1000 or over(), 90)
    if over():
        raise Failed(f"NIC {nic} of h{end} did not come back: {before}, {carried()}: {ends[0].tail()} {ends[1].tail()}")
    for i, one in enumerate(results(ends)):
        if one["writes"] != UNEQUAL_WRITES or one["wrong"] or one["failed"] or one["nics_lost"] != (i == end) or not one["nics_joined"]:
            raise Failed(f"NIC {nic} of h{end}: {one}")
    print(f"     NIC {nic} of h{end} came back: {before}, then {carried()} messages by each", flush=True)


def named(lab):
    """Where the only NIC is left, it is said of what: a fatal error, or no answer."""
    lab.ctl("link", "h0/mlx5_0", "--rate", "200M", "--delay", "1ms")
    for fault, reason in ("nic-internal-error", "the device reports a fatal error"), ("pause", "it answers no request"):
        before = lab.nic(1)["tx_messages"]
        ends = start(lab, ["-n", 100000, "-s", "1M", "--rate", "100M", "--rtt", "2ms", "--timeout", "60s"])
        wait_for("traffic", lambda: lab.nic(1)["tx_messages"] > before + 500 or not all(e.running() for e in ends), 30)
        lab.fault(fault, "h1/mlx5_0")
        fails(ends[1], 1, "what failed last: mlx5_0: " + reason)
        ends[0].end()
        lab.ctl("heal", "h1/mlx5_0")


CASES = {case.__name__: case for case in (late, waiting, displaced, unmet, pulled, back, left, given_back, several, unequal, named)}

if __name__ == "__main__":
    os.environ["SIMNIC_DEVX"] = "1"     # as kernels grant it: a root's key is made by it
    sys.exit(cases_main(CASES, lambda lab, name: CASES[name](lab)))
