#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""sdr_perf between two hosts of software NICs: every byte by its place, and every way in which an end can fail. What has times
that a neighbour could upset is in timed_e2e.py.

  sdr_e2e.py --build DIR [CASE...]
"""
import contextlib
import json
import os
import signal
import socket
import struct
import sys

from shiftlab.lab import Lab, Shift, cases_main, free_port, wait_for
from shiftlab.perftest import Failed
from shiftlab.redis import Redis

LONG = os.environ.get("SDR_LONG") == "1"    # make sdr-long
BACKENDS = "window", "stage", "root"
SCHEMES = {"sr": [], "nack": [], "ec_mds": ["--code", "mds"], "ec_xor": ["--code", "xor"], "hybrid": [], "auto": []}


def argv_of(lab, *options):
    return [os.path.join(lab.out, "bin", "sdr_perf"), "-d", "mlx5_0", "--json", *map(str, options)]


def start(lab, options, shift=None, server=(), client=()):
    port = free_port()
    argv = argv_of(lab, "-p", port, *options)
    return (lab.start("h0", [*argv, *server], "server", shift),
            lab.start("h1", [*argv, *client, "127.0.0.1"], "client", shift))


def results(ends, timeout=120):
    for end in ends:
        if end.wait(timeout):
            raise Failed(f"{end.name} ended with {end.process.returncode}: {end.tail()}")
    return [json.loads(end.out().splitlines()[-1]) for end in ends]


def whole(lab, options, n, size, **kw):
    """n Writes, each with the right bytes."""
    server, client = results(start(lab, ["-n", n, "-s", size, "--verify", *options], **kw))
    for end in server, client:
        if end["writes"] != n or end["wrong"] or end["failed"]:
            raise Failed(f"not all is right: {end}")
    return server, client


def fails(end, code, *words):
    end.wait(60)
    if end.process.returncode != code:
        raise Failed(f"{end.name} ended with {end.process.returncode}, not {code}: {end.tail()}")
    for word in words:
        if word not in end.err():
            raise Failed(f"{end.name} does not say \"{word}\": {end.err()}")


def schemes(lab):
    """All schemes, all backends, lengths that are no whole chunks: each scheme by each backend, and with each length."""
    sizes = 1, 4095, 65537, 1 << 20
    for i, (name, options) in enumerate(SCHEMES.items()):
        for j, size in enumerate(sizes):
            for backend in BACKENDS if LONG else (BACKENDS[(i + j) % 3],):
                server, _ = whole(lab, ["--scheme", name.split("_")[0], *options, "--backend", backend,
                                        "--inflight", 2], 12, size)
                if server["backend"] != backend:
                    raise Failed(f"not by {backend}: {server}")


def chunks(lab):
    """A chunk is a packet, and of a Write that has too many packets for an ACK two are."""
    for size, wanted in ("1M", 256), ("80M", 10240):
        for end in whole(lab, ["--timeout", "60s"], 1, size):
            if end["chunks"] != wanted:
                raise Failed(f"{size}: {end['chunks']} chunks, not {wanted}")


def mixed(lab):
    """A stage at one end, windows at the other; several channels; small chunks."""
    whole(lab, ["--scheme", "nack"], 20, 300000, server=["--backend", "stage"], client=["--backend", "window"])
    whole(lab, ["--scheme", "hybrid", "--channels", 4, "--inflight", 4, "--chunk", "16K"], 40, 300000)


def mtus(lab):
    """Ends whose ports have unequal MTUs, with chunks by default: both take the larger one's."""
    lab.ctl("mtu", "h1/mlx5_0", "1024")
    for backend in BACKENDS:
        whole(lab, ["--backend", backend], 12, 300001)
    lab.ctl("mtu", "h1/mlx5_0", "4096")


def dry(lab):
    """A receive queue of a few packets loses what finds none; the Writes come whole nevertheless."""
    resent = 0
    for scheme in "sr", "nack", "ec", "hybrid":
        _, client = whole(lab, ["--scheme", scheme, "--depth", 32, "--timeout", "60s", "--lifetime", "50ms"],
                          5, 1 << 20)
        resent += client["resent"]
    print(f"     {resent} chunks were sent again")
    if not resent:
        raise Failed("nothing was lost: the case shows nothing")


def sent(lab):
    return sum(nic["tx_messages"] for host in lab.status()["hosts"] for nic in host["nics"])


def killed(lab):
    """Whichever end is killed in the middle: the other says so, and ends."""
    for victim in 0, 1:
        before = sent(lab)
        ends = start(lab, ["-n", 1000000, "-s", "64K", "--rate", "1G"])
        wait_for("traffic", lambda: sent(lab) > before + 2000
                 or not all(end.running() for end in ends), 30)
        if not all(end.running() for end in ends):
            raise Failed(f"ended too early: {ends[0].tail()} {ends[1].tail()}")
        ends[victim].process.send_signal(signal.SIGKILL)
        fails(ends[1 - victim], 1, "the other end has ended")


def silent(lab):
    """A host that does not even refuse: --wait bounds that, too."""
    with socket.socket() as full, contextlib.ExitStack() as others:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):
            other = others.enter_context(socket.socket())
            other.setblocking(False)
            other.connect_ex(full.getsockname())
        fails(lab.start("h0", argv_of(lab, "--wait", 2, "-p", full.getsockname()[1], "127.0.0.1"), "silent"), 1, "no server at")


def refused(lab):
    """What cannot work is said at once, in a sentence."""
    without = lab.start("h0", argv_of(lab, "--backend", "root"), "no-devx", env={"SIMNIC_DEVX": "0"})
    fails(without, 1, "mlx5_0 has no indirect keys", "--backend window")
    for end in start(lab, [], client=["--backend", "root"]):
        fails(end, 1, "the ends differ", "root")
    fails(lab.start("h0", [*argv_of(lab), "-d", "mlx5_9"], "device"), 1, "there is no device mlx5_9")
    fails(lab.start("h0", [*argv_of(lab), "-d", "mlx5_0,mlx5_9"], "devices"), 1, "there is no device mlx5_0,mlx5_9")
    fails(lab.start("h0", [*argv_of(lab), "-d", "mlx5_0,mlx5_1,mlx5_0"], "twice"), 1, "names a device twice")
    fails(lab.start("h0", [*argv_of(lab, "--channels", 1), "-d", "mlx5_0,mlx5_1"], "idle"), 2, "a channel for each")
    fails(lab.start("h0", argv_of(lab, "--backend", "magic"), "backend"), 2, "--backend magic makes no sense")
    fails(lab.start("h0", argv_of(lab, "--scheme", "hope"), "scheme"), 2, "--scheme hope makes no sense")
    fails(lab.start("h0", argv_of(lab, "--wait", 1, "-p", free_port()), "alone"), 1, "no client came")
    fails(lab.start("h0", argv_of(lab, "--wait", 1, "-p", free_port(), "127.0.0.1"), "lonely"), 1, "no server at")
    silent(lab)
    ends = start(lab, [], client=["--scheme", "sr"])
    for end in ends:
        fails(end, 1, "the ends differ", "scheme sr", "scheme auto")
    lab.fault("port-down", "h0/mlx5_0")
    fails(lab.start("h0", argv_of(lab), "down"), 1, "is not active")
    lab.ctl("heal", "h0/mlx5_0")


def odd(lab):
    """Options that make no sense, or no sense together: each is said, none is taken for another one."""
    for option, value in (("-n", 0), ("-n", -1), ("-n", "many"), ("-s", 0), ("-s", -5), ("-s", "1e400"), ("-s", "nan"), ("-s", "8Q"),
                          ("--chunk", 0), ("--chunk", "8G"), ("--rate", "fast"), ("--rtt", "0ms"), ("--rtt", "2000s"),
                          ("--lifetime", "7200s"), ("--burst", 0), ("--depth", 0), ("--inflight", 257), ("--channels", 9),
                          ("--k", 0), ("--m", 255), ("-p", 0), ("-p", 70000), ("--wait", 0), ("--timeout", 0)):
        name = {"-n": "writes", "-s": "size", "-p": "port"}.get(option, option[2:])
        fails(lab.start("h0", argv_of(lab, option, value), f"odd-{name}-{len(lab.programs)}"), 2, f"--{name} {value} makes no sense")
    few = [("--rate", "10"), 2, "are too few"], [("-s", "2G"), 1, "is too long"], [("-s", "900000000G"), 1, "is too long"], \
        [("--chunk", "12K"), 1, "a power of two of packets"], [("--k", 8, "--m", 16), 1, "no Writes with k 8 and m 16"], \
        [("--gid-index", 4000), 1, "--gid-index"], [("a", "b"), 2, "one HOST at most"], \
        [("--loss", ".1"), 2, "is for sdr_perf model"]
    for options, code, word in few:
        fails(lab.start("h0", argv_of(lab, *options), f"few-{len(lab.programs)}"), code, word)
    model = [os.path.join(lab.out, "bin", "sdr_perf"), "model"]
    fails(lab.launch("model", model, lab.env()), 2, "model needs --rate and --loss")
    for n, (options, word) in enumerate(((("--loss", "1"), "--loss 1 makes no sense"), (("-d", "mlx5_0"), "--dev is not for model"),
                                         (("h",), "meets nobody"), (("--verify",), "--verify is not for model"),
                                         (("--chunk", "5000"), "a power of two of packets"), (("--mtu", "9000"), "makes no sense"),
                                         (("--k", "8", "--m", "16"), "no Writes with k 8 and m 16"),
                                         (("--nccl", "--chunk", "8K"), "the plugin chooses code and chunk"),
                                         (("--rate", "auto"), "model needs --rate"))):
        fails(lab.launch(f"model-{n}", [*model, "--rate", "1G", "--loss", ".01", *options], lab.env()), 2, word)
    fails(lab.launch("hopeless", [*model, "--rate", "1G", "--loss", ".95"], lab.env()), 2, "more than 9 in 10 are lost")
    lossless = lab.launch("lossless", [*model, "--rate", "1G", "--rtt", "10ms", "--loss", "0", "-s", "125000"], lab.env())
    if lossless.wait(30) or ["sr", "11.016"] not in [row.split()[:2] for row in lossless.out().splitlines()]:
        raise Failed(f"no model of a link that loses nothing: {lossless.tail()}")
    for loss, least, most in ("0", 1, 1), ("1e-2", 5, 12):
        nccl = lab.launch(f"nccl-{loss}", [*model, "--nccl", "--rate", "1G", "--rtt", "25ms", "--loss", loss, "-s", "512K", "--json"], lab.env())
        row = json.loads(nccl.out())["rows"][0] if not nccl.wait(30) else None
        if not row or not least <= row["rc_each_ms"] / row["sdr_each_ms"] <= most:
            raise Failed(f"no model of NCCL's messages: {nccl.tail()}")
    # A rate of 0 is none, as the page says; a byte is a Write.
    whole(lab, ["--rate", 0, "--inflight", 3], 5, 1)
    whole(lab, ["--rate", "auto", "--inflight", 3], 20, "256K")


def interrupted(lab):
    """Ctrl-C at either end, by TCP and by a store, whether or not the other is there yet: both end, and say why."""
    fails_by = signal.SIGINT
    store = "lmdb:" + os.path.join(lab.folder, "interrupted")
    for way in [], ["--kv", store]:
        alone = lab.start("h0", argv_of(lab, "-p", free_port(), *way), f"alone-{len(lab.programs)}")
        wait_for("its signals", lambda: alone.catches(fails_by) or not alone.running(), 10)
        alone.process.send_signal(fails_by)
        fails(alone, 1, "interrupted")
        for victim in 0, 1:
            before, options = sent(lab), ["-n", 1000000, "-s", "64K", "--rate", "1G"]
            ends = meet(lab, store, f"int{victim}", options) if way else start(lab, options)
            wait_for("traffic", lambda: sent(lab) > before + 2000 or not all(end.running() for end in ends), 30)
            ends[victim].process.send_signal(fails_by)
            fails(ends[victim], 1, "interrupted")
            fails(ends[1 - victim], 1, "the other end has ended")


def second(lab):
    """A second client of one server is told; the first one's Writes are right."""
    port = free_port()
    server = lab.start("h0", argv_of(lab, "-p", port, "-n", 200, "-s", "64K", "--verify"), "one")
    wait_for("the server", server.listens, 10)
    clients = [lab.start("h1", argv_of(lab, "-p", port, "-n", 200, "-s", "64K", "--verify", "--wait", 2, "127.0.0.1"), name)
               for name in ("first", "second")]
    codes = sorted(client.wait(60) for client in clients)
    if codes != [0, 1] or server.wait(60):
        raise Failed(f"{codes}: {server.tail()} {clients[0].tail()} {clients[1].tail()}")
    loser = next(client for client in clients if client.process.returncode)
    if "no server at" not in loser.err() and "the other end" not in loser.err():
        raise Failed(f"it is not said why: {loser.err()}")


def misuse(lab):
    """What a program may do wrong with libsdr is an errno, and harms nothing that is right."""
    # Together: they wait for what comes in no time.
    programs = [lab.start("h0", [os.path.join(lab.out, "bin", "sdr_misuse"), "mlx5_0", backend], f"misuse-{backend}")
                for backend in BACKENDS]
    for program in programs:
        if program.wait(120) or "all is said" not in program.out():
            raise Failed(f"{program.name}: {program.tail(40)}")


def meet(lab, store, job, options, first=0, each=((), ())):
    """Server and client, which meet in a store; first: which of them is started first."""
    ends = [None, None]
    for i in first, 1 - first:
        ends[i] = lab.start(f"h{i}", argv_of(lab, "--kv", store, "--job", job, *options, *each[i], *(["--client"] * i)))
    return ends


def store_is_enough(lab, store, secrets):
    few = ["-n", 5, "-s", "64K", "--verify"]
    for first, options in enumerate(([], ["--secret", secrets[0]], ["--against", "rc"], ["--sdk"])):
        for end in results(meet(lab, store, "one", [*few, *options], first % 2)):
            if end.get("wrong") or end.get("missing"):
                raise Failed(f"{store} {options}: {end}")
    before = sent(lab)
    ends = meet(lab, store, "two", ["-n", 1000000, "-s", "64K"])
    wait_for("traffic", lambda: sent(lab) > before + 2000 or not all(end.running() for end in ends), 30)
    for end in ends:
        end.process.send_signal(signal.SIGKILL)
        end.wait(10)
    results(meet(lab, store, "two", few))   # what those have left is nobody's
    for end in meet(lab, store, "three", [], each=([], ["--scheme", "sr"])):
        fails(end, 1, "the ends differ")
    server, client = meet(lab, store, "four", ["--wait", 2], each=(["--secret", secrets[0]], ["--secret", secrets[1]]))
    fails(client, 1, "--kv: ")
    fails(server, 1, "no client came to job four")


def by_kv(lab):
    """Both ends meet in a store, a file or a server: with a secret and without, whichever comes first, one pair after the other."""
    secrets = [os.path.join(lab.folder, name) for name in ("kv-secret", "kv-other")]
    for path in secrets:
        with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="ascii") as f:
            f.write(f"what only this job knows: {path}\n")
    redis = Redis(lab).start()
    for store in "lmdb:" + os.path.join(lab.folder, "meet"), redis.url:
        store_is_enough(lab, store, secrets)
    fails(lab.start("h1", argv_of(lab, "--kv", redis.url, "--client", "--wait", 1)), 1, "no server of job sdr_perf")
    redis.kill()
    fails(lab.start("h0", argv_of(lab, "--kv", redis.url)), 1, "--kv: ")
    fails(lab.start("h0", argv_of(lab, "--kv", "carrier://pigeon")), 1, "--kv carrier://pigeon: ")
    fails(lab.start("h0", argv_of(lab, "--kv", redis.url, "--job", "a b")), 1, "--job a b makes no sense")
    fails(lab.start("h0", argv_of(lab, "--kv", redis.url, "127.0.0.1")), 2, "by HOST, or with --kv by --client")
    fails(lab.start("h0", argv_of(lab, "--client")), 2, "by HOST, or with --kv by --client")


def frame(data):
    return struct.pack(">I", len(data)) + data


def take(sock):
    def exactly(n):
        data = b""
        while len(data) < n:
            more = sock.recv(n - len(data))
            if not more:
                raise Failed("the server has hung up")
            data += more
        return data
    return exactly(struct.unpack(">I", exactly(4))[0])


def play(lab, name, change, words, hello=None):
    """A client of ours, whose blob is the server's own but for what is changed."""
    port = free_port()
    server = lab.start("h0", argv_of(lab, "-p", port), name)
    wait_for("the server", server.listens, 10)
    with socket.create_connection(("127.0.0.1", port)) as sock:
        said = take(sock)
        sock.sendall(frame(hello or said))
        if not hello:
            sock.sendall(frame(change(take(sock))))
        fails(server, 1, *words)


def strangers(lab):
    """Blobs that are damaged, of another version or of other attributes; a peer that is another program."""
    word = struct.Struct("<I").pack
    play(lab, "cut", lambda blob: blob[:-1], ["damaged"])
    play(lab, "short", lambda blob: blob[:3], ["damaged"])
    play(lab, "magic", lambda blob: b"XXXX" + blob[4:], ["damaged"])
    play(lab, "version", lambda blob: blob[:4] + word(1) + blob[8:], ["another version of libsdr"])
    play(lab, "attributes", lambda blob: blob[:16] + word(7) + blob[20:], ["max_msgs: 32 here, 7 there"])
    play(lab, "channels", lambda blob: blob[:24] + word(1 << 31) + blob[28:], ["damaged"])
    play(lab, "perf", None, ["another version"], hello=b"sdr_perf 9: size 1")
    play(lab, "http", None, ["another version"], hello=b"GET / HTTP/1.1")


def under_shift(lab):
    """SDR's queue pairs are foreign to SHIFT, which changes nothing. SDR's own project has no SHIFT."""
    if not os.path.isdir(os.path.join(lab.out, "lib", "shift")):
        print("under_shift is skipped: this build has no SHIFT (cmake -S sdr)")
        return
    for backend in BACKENDS:
        whole(lab, ["--scheme", "hybrid", "--backend", backend], 10, 1 << 20, shift=Shift(log="info"))


class Late:
    """A receiver on h0 and a sender on h1, each with one slot, that do one thing after the other. keys: of each end."""

    def __init__(self, lab, backend, generations, keys=("-", "-"), patience_s=20, nics=1, program="sdr_late", before_peer=lambda: None):
        self.lab, self.ends, self.nics = lab, [], nics
        devices = ",".join(f"mlx5_{i}" for i in range(nics))
        for key, (host, role) in zip(keys, (("h0", "receiver"), ("h1", "sender"))):
            argv = [os.path.join(lab.out, "bin", program), devices, backend, str(generations), key, str(patience_s)]
            self.ends.append(lab.start(host, argv, f"{role}-{len(lab.programs)}", stdin=True))
        self.seen = [0, 0]
        infos = [self.hear(i, "INFO")[1] for i in (0, 1)]
        before_peer()
        for i in 0, 1:
            self.say(i, f"peer {infos[1 - i]}", "CONNECTED")

    def hear(self, i, *words):
        end = self.ends[i]
        wait_for(f"{words} of {end.name}", lambda: end.out().count("\n") > self.seen[i] or not end.running(), 30)
        lines = end.out().splitlines()
        if len(lines) <= self.seen[i]:
            raise Failed(f"{end.name} ended: {end.tail()}")
        line = lines[self.seen[i]].split()
        self.seen[i] += 1
        if line[0] not in words:
            raise Failed(f"{end.name} says {line}, not {words}")
        return line

    def say(self, i, word, *answers):
        self.ends[i].say(word)
        return self.hear(i, *answers)

    def late(self):
        return sum(nic["late"] for nic in self.lab.status()["hosts"][0]["nics"])

    def meet(self, n):
        """Message n is held on its way, and arrives when its slot and buffer serve the next one. Was that clean?"""
        before = self.late()
        self.say(0, f"post {n}", "POSTED")
        for i in range(self.nics):
            self.lab.fault("hold-requests", f"h1/mlx5_{i}")
        self.say(1, f"send {n}", "SENT")
        self.say(0, "complete", "COMPLETED")
        self.say(0, f"post {n + 1}", "POSTED")
        for i in range(self.nics):
            self.lab.ctl("release", f"h1/mlx5_{i}")
            self.lab.ctl("heal", f"h1/mlx5_{i}")
        wait_for("late packets", lambda: self.late() >= before + 16, 20)
        clean = self.say(0, "clean", "CLEAN", "DIRTY")[0] == "CLEAN"
        if clean:
            self.say(1, f"send {n + 1}", "SENT")
            self.say(0, "whole", "WHOLE")
            self.say(0, "complete", "COMPLETED")
        return clean

    def end(self):
        for end in self.ends:
            end.end()


def bursts(lab):
    """Losses of eight packets in a row: what is coded together does not lie together, and next to nothing is sent again."""
    n, size, loss = (100, "128M", "1e-3") if LONG else (4, "16M", "1e-2")
    lab.ctl("link", "h0/mlx5_0", "--rate", "400M", "--delay", "12.5ms", "--loss", loss, "--burst", "8")
    server, client = results(start(lab, ["-n", n, "-s", size, "--scheme", "ec", "--chunk", "4K", "--rate", "350M", "--rtt", "25ms",
                                         "--depth", 16384, "--timeout", "60s", "--verify"]), 3000)
    print(f"     {n} Writes of {size}: {client['fallbacks']} fell back, {server['decoded']} chunks decoded")
    if server["writes"] != n or server["wrong"] or not server["decoded"]:
        raise Failed(f"not all is right, or nothing was lost: {server} {client}")
    if LONG and client["fallbacks"] > n / 100:  # beside other programs timers expire
        raise Failed(f"{client['fallbacks']} of {n} Writes fell back")
    lab.ctl("link", "h0/mlx5_0", "off")


def link(lab):
    """Over a long cable that loses, doubles and reorders: every byte of every scheme; what was lost is made good."""
    lab.ctl("link", "h0/mlx5_0", "--rate", "400M", "--delay", "5ms", "--loss", "1e-2", "--burst", "4",
            "--reorder", "1e-2:3ms", "--duplicate", "1e-2")
    resent = decoded = 0
    for i, (name, options) in enumerate(SCHEMES.items()):
        for backend in BACKENDS if LONG else (BACKENDS[i % 3],):
            server, client = whole(lab, ["--scheme", name.split("_")[0], *options, "--backend", backend, "--rate",
                                         "350M", "--rtt", "10ms", "--timeout", "60s", "--duplicates"], 5, (1 << 20) + 5000)
            resent, decoded = resent + client["resent"], decoded + server["decoded"]
    said = lab.ctl("link", "h0/mlx5_0")
    print(f"     {resent} chunks were sent again, {decoded} decoded")
    if not resent or not decoded:
        raise Failed(f"nothing was made good: {said}")
    lab.ctl("link", "h0/mlx5_0", "off")


def allreduce(lab):
    """Four hosts in a ring whose cables lose: every sum is right, by each scheme."""
    times = 4 if LONG else 2
    with Lab(lab.out, hosts=4, nics=1, seed=lab.seed) as ring:
        for host in range(4):
            ring.ctl("link", f"h{host}/mlx5_0", "--rate", "200M", "--delay", "2ms", "--loss", "5e-3")
        for scheme in "sr", "nack", "hybrid", "auto":
            ranks = [ring.start(f"h{rank}", [os.path.join(ring.out, "bin", "sdr_allreduce"), "mlx5_0", str(rank), "4",
                                             "lmdb:" + os.path.join(ring.folder, "ring"), scheme, "1000000", str(times), scheme,
                                             "200", "4"], f"{scheme}-{rank}") for rank in range(4)]
            for rank in ranks:
                if rank.wait(120) or f"sum of 4 ranks right {times} times" not in rank.out():
                    raise Failed(f"{rank.name} ended with {rank.process.returncode}: {rank.tail()}")
        lost = ring.ctl("link", "h0/mlx5_0").split(" lost ")[1].split()[0]
        print(f"     h0's cable lost {lost} packets")
        if lost == "0":
            raise Failed("nothing was lost: the case shows nothing")


def signed(lab):
    """With a secret of the job: all goes as without. Without it, or by another one, nobody is believed."""
    secrets = [os.path.join(lab.folder, name) for name in ("secret", "other")]
    for path in secrets:
        with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="ascii") as f:
            f.write(f"a secret of this job alone: {path}\n")
    for scheme in "sr", "nack", "hybrid":
        whole(lab, ["--scheme", scheme, "--secret", secrets[0], "--inflight", 4], 20, 1 << 20)
    for other in [], ["--secret", secrets[1]]:
        for end in start(lab, ["-n", 1], server=["--secret", secrets[0]], client=other):
            fails(end, 1, "the ends differ", "secret")
    fails(lab.start("h0", argv_of(lab, "--secret", secrets[0] + ".no"), "none"), 1, "--secret")
    key, wrong = "0123456789abcdef", "0123456789abcdeF"
    pair = Late(lab, "window", 1, (key, key), 2)
    pair.say(0, "post 0", "POSTED")
    pair.say(1, "send 0", "SENT")
    pair.say(0, "whole", "WHOLE")
    pair.end()
    pair = Late(lab, "window", 1, (key, wrong), 2)  # whoever is connected, and has not the key
    pair.say(0, "post 0", "POSTED")
    pair.ends[1].say("send 0")
    fails(pair.ends[1], 1, "its end: not within 2 s", "is not signed by this end's mac_key")
    pair.end()


CASES = {case.__name__: case for case in
         (schemes, chunks, mixed, mtus, dry, link, bursts, allreduce, killed, signed, by_kv, refused, odd, interrupted, second, misuse,
          strangers, under_shift)}

if __name__ == "__main__":
    os.environ["SIMNIC_DEVX"] = "1"     # as kernels grant it: a root's key is made by it
    sys.exit(cases_main(CASES, lambda lab, name: CASES[name](lab)))
