#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The plugin for NCCL between two hosts of software NICs, driven by NCCL's own interface (nccl/drive.c): links, NICs and messages
are drawn from a seed, which a failure names.

  nccl_e2e.py --build DIR [--seed N] [--rounds N] [CASE...]
"""
import concurrent.futures
import os
import random
import signal
import socket
import sys
import tempfile
import time

from shiftlab.lab import Lab, Stuck, cases_main, slowed, wait_for
from shiftlab.perftest import Failed

NICS = 4
DRAWN = int(os.environ.get("NCCL_DRAWN", "12"))     # runs of the case drawn
JOBS = int(os.environ.get("NCCL_JOBS", "1"))        # of them at a time
HANGS_S = 240       # an end that is not over by then hangs
TIMEOUT_S = 4       # NCCL_SDR_TIMEOUT where an end dies
FAULTS = "nic-unplug", "nic-internal-error", "nic-zombie", "port-down"


def start(lab, options, env=None, hca=("mlx5_0", "mlx5_0")):
    """Both ends, the receiver first."""
    folder = tempfile.mkdtemp(dir=lab.folder)
    options = {"seed": lab.seed, "seconds": int(slowed(HANGS_S)), **options}
    argv = [os.path.join(lab.out, "bin", "nccl_drive"), os.path.join(lab.out, "lib", "libnccl-net-sdr.so")]
    return [lab.start(f"h{i}", [*argv, role, folder, *(str(word) for name, value in options.items()
                                                       for word in ("--" + name.replace("_", "-"), value))], role,
                      env={"NCCL_SDR_IFNAME": "lo", "NCCL_SDR_HCA": hca[i], **(env or {})})
            for i, role in enumerate(("recv", "send"))]


def whole(lab, options, **kw):
    """All is right at both ends."""
    for end in start(lab, options, **kw):
        if end.wait(slowed(HANGS_S) + 20):
            raise Failed(f"{end.name} ended with {end.process.returncode}: {end.tail(30)}")
        if end.name == "recv" and not end.out():
            raise Failed("nothing was received")


def all_nics(lab, args, first=0, last=NICS):
    for i in range(first, last):
        lab.ctl("link", f"h0/mlx5_{i}", *args)


def names(n):
    return ",".join(f"mlx5_{i}" for i in range(n))


def versions(lab):
    """Each version of the interface, several connections and threads at once."""
    for version in 10, 11, 12:
        whole(lab, {"version": version, "comms": 4, "messages": 60})


def shapes(lab):
    """One message in flight and many, one buffer and eight, none but small ones, and long ones."""
    for options in ({"in_flight": 1, "buffers": 1}, {"in_flight": 32, "buffers": 1}, {"in_flight": 32, "buffers": 8},
                    {"max_size": 300, "messages": 400}, {"max_size": 16 << 20, "messages": 12, "in_flight": 4}):
        whole(lab, {"messages": 80, **options})


def schemes(lab):
    """Each scheme and each backend over a link that loses a packet in a hundred."""
    all_nics(lab, ["--rate", "400M", "--delay", "3ms", "--loss", "1e-2"], last=1)
    for scheme in "sr", "nack", "ec", "hybrid", "auto":
        whole(lab, {"messages": 40}, env={"NCCL_SDR_SCHEME": scheme})
    whole(lab, {"messages": 40}, env={"NCCL_SDR_BACKEND": "root", "SIMNIC_DEVX": "1"})


def few_slots(lab):
    """Few slots and messages at once: what has no room waits. A slot whose packets were lost rests for a lifetime."""
    all_nics(lab, ["--rate", "400M", "--delay", "1ms", "--loss", "1e-2"], last=1)
    whole(lab, {"messages": 100, "in_flight": 32},
          env={"NCCL_SDR_SLOTS": "32", "NCCL_SDR_IN_FLIGHT": "8", "NCCL_SDR_LIFETIME": "30ms"})


def slow_program(lab):
    """A program that tests seldom: the plugin's own thread answers the other end."""
    all_nics(lab, ["--delay", "2ms", "--loss", "1e-2"], last=1)
    whole(lab, {"messages": 60, "pause_us": 20000, "max_size": 100000})


def odd(lab):
    """What NCCL's interface allows and NCCL seldom does, and what it forbids (nccl/odd.c): peers that are far, and near ones."""
    for env in {}, {"NCCL_SDR_FAR": ""}:
        end = lab.start("h0", [os.path.join(lab.out, "bin", "nccl_odd"), os.path.join(lab.out, "lib", "libnccl-net-sdr.so")], "odd",
                        env={"NCCL_SDR_IFNAME": "lo", "NCCL_SDR_HCA": names(2), **env})
        if end.wait(slowed(HANGS_S)):
            raise Failed(f"{end.name} ended with {end.process.returncode} ({env}): {end.tail(30)}")


def draw_link(rng):
    args = ["--rate", rng.choice(["200M", "400M", "1G"]), "--delay", f"{rng.choice([0, 0.5, 3, 12.5])}ms",
            "--loss", str(rng.choice([0, 1e-4, 1e-3, 1e-2, 3e-2]))]
    if rng.random() < 0.4:
        args += ["--burst", str(rng.choice([2, 8, 32]))]
    if rng.random() < 0.4:
        args += ["--reorder", f"{rng.choice([1e-3, 1e-2])}:{rng.choice([100, 500])}us"]
    return args


def draw_faults(lab, rng, nics):
    """NICs of one end that fail while it runs; the first one stays well at both."""
    said = []
    for i in rng.sample(range(1, nics), rng.randrange(nics)) if nics > 1 else []:
        kind, host, at = rng.choice(FAULTS), rng.randrange(2), rng.randrange(50, 1500)
        lab.fault(kind, f"h{host}/mlx5_{i}", at_message=at)
        said.append(f"{kind} of h{host}/mlx5_{i} at {at}")
    return said


def one_drawn(lab, seed):
    rng = random.Random(seed)
    here, there = rng.choice([(1, 1), (2, 2), (4, 4), (3, 3), (2, 4), (4, 1)])
    link = draw_link(rng)
    all_nics(lab, link)
    options = {"seed": seed, "messages": rng.choice([30, 80]), "max_size": rng.choice([300, 20000, 400000, 4 << 20]),
               "comms": rng.choice([1, 1, 2, 4]), "in_flight": rng.choice([1, 4, 8, 32]), "buffers": rng.choice([1, 2, 8]),
               "version": rng.choice([10, 11, 12])}
    if options["max_size"] > 1 << 20:
        options.update(messages=15, comms=1)
    faults = draw_faults(lab, rng, min(here, there))
    try:
        whole(lab, options, hca=(names(here), names(there)))
    except Failed as failed:
        raise Failed(f"run with seed {seed}, {here} and {there} NICs, link {' '.join(link)}, {options}, {faults}: {failed}") from None
    finally:
        lab.ctl("heal", "all")


def drawn_passes(seed):
    """False: it does not, and what was wrong has been printed."""
    try:
        with Lab(BUILD, nics=NICS, seed=seed) as lab:
            one_drawn(lab, seed)
    except (Failed, Stuck) as failed:
        print(f"     {failed}", flush=True)
        return False
    return True


def drawn(lab):
    """Runs on links and with NICs that are drawn, JOBS at a time."""
    began = time.monotonic()
    seeds = range(lab.seed, lab.seed + DRAWN)
    passed = []
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for ok in pool.map(drawn_passes, seeds):
            passed.append(ok)
            if len(passed) % 20 == 0 or len(passed) == DRAWN:
                print(f"     {len(passed)} runs from seed {lab.seed} on, {passed.count(False)} failed, "
                      f"{time.monotonic() - began:.0f} s, load {os.getloadavg()[0]:.0f}", flush=True)
    if not all(passed):
        raise Failed(f"seeds {', '.join(str(seed) for seed, ok in zip(seeds, passed) if not ok)}")


def sent(lab):
    return sum(nic["tx_messages"] for host in lab.status()["hosts"] for nic in host["nics"])


def killed(lab):
    """Whichever end is killed, the other hears of it by an error within its deadline."""
    for victim in 0, 1:
        before = sent(lab)
        ends = start(lab, {"messages": 1000000}, env={"NCCL_SDR_TIMEOUT": f"{TIMEOUT_S}s"})
        wait_for("traffic", lambda: sent(lab) > before + 2000 or not all(end.running() for end in ends), 60)
        ends[victim].process.send_signal(signal.SIGKILL)
        left = ends[1 - victim]
        left.wait(slowed(HANGS_S))
        if left.process.returncode != 4 or "is gone" not in left.err():
            raise Failed(f"{left.name} ended with {left.process.returncode}: {left.tail()}")


def last_nic(lab):
    """With its last NIC a connection fails, and both ends say so."""
    lab.fault("nic-unplug", "h1/mlx5_0", at_message=1000)
    ends = start(lab, {"messages": 1000000}, env={"NCCL_SDR_TIMEOUT": f"{TIMEOUT_S}s"})
    for end in ends:
        end.wait(slowed(HANGS_S))
        if end.process.returncode != 4:
            raise Failed(f"{end.name} ended with {end.process.returncode}: {end.tail()}")
    lab.ctl("heal", "all")


def late_close(lab):
    """A receiver whose buffers a zombie of a NIC may still write to ends well, though the sender is long gone."""
    all_nics(lab, ["--rate", "50M", "--delay", "3ms"], last=2)
    lab.fault("nic-zombie", "h0/mlx5_1", at_message=15)
    ends = start(lab, {"messages": 32, "in_flight": 32, "buffers": 1, "max_size": 4 << 20, "seed": 1}, env={"NCCL_SDR_LIFETIME": "6s"},
                 hca=(names(2), names(2)))
    for end in ends:
        if end.wait(slowed(HANGS_S)):
            raise Failed(f"{end.name} ended with {end.process.returncode}: {end.tail()}")
    if " 1 NICs lost" not in ends[0].err():
        raise Failed(f"no NIC was lost: {ends[0].tail()}")
    lab.ctl("heal", "all")


def strangers(lab):
    """Whoever else comes to the receiver's port is left alone, whatever it says."""
    folder = tempfile.mkdtemp(dir=lab.folder)
    argv = [os.path.join(lab.out, "bin", "nccl_drive"), os.path.join(lab.out, "lib", "libnccl-net-sdr.so")]
    env = {"NCCL_SDR_IFNAME": "lo", "NCCL_SDR_HCA": "mlx5_0"}
    tail = [folder, "--seed", str(lab.seed), "--seconds", str(int(slowed(HANGS_S)))]
    receiver = lab.start("h0", [*argv, "recv", *tail], "recv", env=env)
    handle = os.path.join(folder, "handle-0")
    wait_for("a handle", lambda: os.path.exists(handle), 30)
    with open(handle, "rb") as f:
        port = int.from_bytes(f.read(20)[18:20], "big")
    rng = random.Random(lab.seed)
    for said in b"", b"GET / HTTP/1.0\r\n\r\n", rng.randbytes(72), (1).to_bytes(4, "little") + (64).to_bytes(4, "little") + bytes(64):
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall(said)
    sender = lab.start("h1", [*argv, "send", *tail], "send", env=env)
    for end in receiver, sender:
        if end.wait(slowed(HANGS_S)):
            raise Failed(f"{end.name} ended with {end.process.returncode}: {end.tail()}")
    if "this program" not in receiver.err():
        raise Failed(f"no stranger was seen: {receiver.tail()}")


def refused(lab):
    """Settings that make no sense are named, and NCCL is told not to use the plugin."""
    for env, word in (({"NCCL_SDR_SCHEME": "best"}, "NCCL_SDR_SCHEME=best"), ({"NCCL_SDR_RATE": "fast"}, "NCCL_SDR_RATE=fast"),
                      ({"NCCL_SDR_SLOTS": "100"}, "NCCL_SDR_SLOTS=100"), ({"NCCL_SDR_HCA": "mlx9_9"}, "mlx9_9"),
                      ({"NCCL_SDR_TIMEOUT": "5"}, "NCCL_SDR_TIMEOUT=5")):
        for end in start(lab, {}, env=env):
            end.wait(slowed(60))
            if end.process.returncode != 4 or word not in end.err():
                raise Failed(f"{env}: {end.name} ended with {end.process.returncode}: {end.tail()}")


BUILD = sys.argv[sys.argv.index("--build") + 1] if "--build" in sys.argv else None
CASES = {case.__name__: case for case in
         (versions, shapes, schemes, few_slots, slow_program, odd, drawn, killed, last_nic, late_close, strangers, refused)}


def run(lab, name):
    CASES[name](lab)


if __name__ == "__main__":
    sys.exit(cases_main(CASES, run, seeded=True, nics=NICS))
