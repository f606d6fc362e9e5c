#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Somebody on the fabric who has read the store sends datagrams to the control queue pairs, in the
name of a connection's peer. Without a secret that ends the protection (so the attack is a real one);
with a secret nothing counts that was not signed for this receiver and this pair of NICs, and that only
once: each is refused, counted in the status, and said in one line for each peer. And a record that
somebody forges for one connection leads no other one away, nor does one that a killed job left behind.

  forge.py --build DIR [CASE...]
"""
import hashlib
import hmac
import json
import os
import shutil
import socket
import struct
import sys
import threading

from kv_chaos import SECRET, Job, SlowProxy, check, write_secret
from shiftlab.lab import Lab, Shift, cases_main, free_port, wait_for
from shiftlab.perftest import SOON, Failed
from shiftlab.redis import PATIENCE_S, Redis

PROTOCOL = 5                # KV_PROTOCOL of kvclient/kv.h
UNKNOWN, PING = 3, 9        # types of records: "I have no such connection", a heartbeat
SEAL_HEAD, HEAD, ADDR = 12, 48, 36
NOBODY = 0x1234567812345678  # no instance
NIC_NOBODY_USES = 7
HIGHEST = (1 << 64) - 1
ROUNDS = 30         # each led by either end, by chance


class Record:
    """What the store holds of an end, as docs/security.md says: for anybody who can read it."""

    def __init__(self, value):
        value = value[SEAL_HEAD:]
        self.instance, self.conn, self.nonce = struct.unpack_from("<QII", value, 8)
        self.qpn_at, self.qkey = struct.unpack_from("<II", value, HEAD + 8)
        self.gid = value[HEAD + 20:HEAD + ADDR].hex()


def read_values(redis):
    """By the key."""
    values = {}
    for key in redis.keys("chaos/qp/*"):
        with socket.create_connection(("127.0.0.1", redis.port)) as s, s.makefile("rb") as f:
            s.sendall(b"GET " + key.encode() + b"\r\n")
            values[key] = f.read(int(f.readline()[1:]))
    return values


def write_value(redis, key, value):
    with socket.create_connection(("127.0.0.1", redis.port)) as s, s.makefile("rb") as f:
        s.sendall(b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n" %
                  (len(key), key.encode(), len(value), value))
        check(f.readline() == b"+OK\r\n", "the store does not take the forged value")


def read_records(redis):
    return [Record(value) for value in read_values(redis).values()]


NO_SECRET = "warn: the job has no secret: whoever can write to its KV server"


def datagram(source, target, kind, body=b"", ids=(0, 0, 0)):
    record = struct.pack("<HHIII", kind, 16 + len(body), *ids) + body
    return struct.pack("<4sBBHQQII", b"SHFT", PROTOCOL, 0, 1, source, target, 32 + len(record), 0) + record


def unknown(victim, peer):
    """The peer says that it knows nothing of the connection."""
    return datagram(peer.instance, victim.instance, UNKNOWN,
                    ids=(peer.conn, victim.conn, peer.nonce))


def ping(victim, peer):
    return datagram(peer.instance, victim.instance, PING, struct.pack("<II", 1, NIC_NOBODY_USES))


def mac(key, text):
    return hmac.new(key, text, hashlib.sha256).digest()


def signed(secret, source, target, number, message, nics=(NIC_NOBODY_USES, 0)):
    key = mac(mac(secret.strip().encode(), b"shift-control-1"), struct.pack("<QQ", source, target))
    text = message + struct.pack("<QBBH", number, *nics, 0)
    return text + mac(key, text)[:16]


class Attacker:
    """A program on a third host."""

    def __init__(self, lab, victim):
        self.program = lab.start("h2", [os.path.join(lab.out, "bin", "forge")], "attacker", stdin=True)
        self.victim, self.sent = victim, 0
        wait_for("attacker", lambda: "ready" in self.program.out(), PATIENCE_S)

    def send(self, data):
        self.program.say(f"{self.victim.gid} {self.victim.qpn_at} {self.victim.qkey} {data.hex()}")
        self.sent += 1
        wait_for("a datagram to leave", lambda: self.program.out().count("sent") == self.sent or
                 not self.program.running(), PATIENCE_S)
        check(self.program.running(), "the attacker ended\n" + self.program.tail())


def process(lab, host="h0"):
    return json.loads(lab.shiftctl(host, "status", "--json"))["processes"][0]


def set_up(lab, **settings):
    """The job; an attacker; the server's record and its peer's."""
    redis = Redis(lab).start()
    job = Job(lab, redis.url, **settings)
    job.await_protection()
    own = int(process(lab)["instance"], 16)
    peer, victim = sorted(read_records(redis), key=lambda r: r.instance == own)
    return job, Attacker(lab, victim), victim, peer


def no_secret(lab):
    """The control: such a datagram is believed, and the connection is not protected any more."""
    job, attacker, victim, peer = set_up(lab)
    attacker.send(unknown(victim, peer))
    wait_for("loss of protection", lambda: lab.connections("h0")[0]["level"] != "protected",
             PATIENCE_S)
    for p in job.ends:
        p.end()
        check(lab.shift_log(p).count(NO_SECRET) == 1, f"{p.name} was not told once that it trusts")


def secret(lab):
    job, attacker, victim, peer = set_up(lab, secret_file=write_secret(lab, "secret", SECRET))
    check(process(lab)["signed"], "the status does not say that datagrams are signed")
    here = (peer.instance, victim.instance)
    bad, good = unknown(victim, peer), ping(victim, peer)
    signed_ping = signed(SECRET, *here, 1000, good)
    for data in (
            bad, bad + bytes(27), signed_ping[:-5],            # unsigned
            bad + bytes(28), signed("f" * 32, *here, 1, bad),  # forged
            signed(SECRET, peer.instance, peer.instance, 1, bad),
            signed(SECRET, victim.instance, peer.instance, 1, bad),
            signed(SECRET, *here, 1001, ping(victim, peer))[:-1] + b"?",
            datagram(NOBODY, victim.instance, PING, bytes(8)) + bytes(28),
            signed(SECRET, *here, 1, bad, nics=(0, 1)),        # astray
            datagram(*here[::-1], PING, bytes(8)), datagram(here[0], NOBODY, PING, bytes(8)),
            bad[:20], b"x" * 40, good[:-1],                    # damaged
            signed_ping,                                       # the only one that counts
            signed_ping, signed(SECRET, *here, 700, good)):    # replayed
        attacker.send(data)
    want = {"unsigned": 3, "forged": 6, "astray": 3, "damaged": 3, "replayed": 2}
    wait_for("all to be counted", lambda: process(lab)["refused"] == want, PATIENCE_S)
    check(all(q["level"] == "protected" for h in ("h0", "h1") for q in lab.connections(h)),
          "protection ended")
    text = lab.shiftctl("h0", "status")
    check("datagrams signed" in text and "6 forged" in text, "shiftctl status does not show it")
    job.end()
    rows = [row for row in lab.shift_log(job.server).splitlines() if " is refused, as it is " in row]
    check(len(rows) == 2, "not one line for the peer and one for strangers:\n" + "\n".join(rows))
    check(" is refused, as it is " not in lab.shift_log(job.client), "the client was not meant")
    check(NO_SECRET not in lab.shift_logs(), "a job with a secret was told that it has none")


def elsewhere(value, qpn, remote_qpn):
    """A record of the same instance for another connection, with false addresses of later revisions."""
    forged = bytearray(value)
    struct.pack_into("<IIII", forged, SEAL_HEAD + 16, 999, 999, qpn, remote_qpn)
    for at in range(SEAL_HEAD + HEAD, len(forged), ADDR):
        struct.pack_into("<I", forged, at + 8, 0x3ffff1)
        revision, = struct.unpack_from("<I", forged, at + 16)
        struct.pack_into("<I", forged, at + 16, revision + 1000)
    return bytes(forged)


def led_away(lab):
    """
    No secret. While a second connection waits for its peer, somebody writes a record in the peer's
    name that leads elsewhere: the first connection, which is protected, moves and returns all the same.
    """
    redis = Redis(lab).start()
    argv = [os.path.join(lab.out, "bin", "abuse"), "late-second", "--port", free_port()]
    shift = Shift(kv=redis.url, log="info", job="chaos", **SOON)
    programs = [lab.start("h0", argv + ["--server"], "server", shift, stdin=True),
                lab.start("h1", argv + ["--client"], "client", shift, stdin=True)]
    wait_for("protection of the first", lambda: all(
        "protected" in [q["level"] for q in lab.connections(h)] for h in ("h0", "h1")), PATIENCE_S)

    def unconnected():
        return [q["qpn"] for q in process(lab, "h1")["qps"] if q["why"] == "not connected yet"]

    wait_for("the second there", unconnected, PATIENCE_S)
    second, = unconnected()
    peer = process(lab, "h1")
    first = next(q["qpn"] for q in lab.connections("h1"))
    wait_for("the second here", lambda: len(lab.connections("h0")) == 2, PATIENCE_S)
    here = next(q["qpn"] for q in lab.connections("h0") if q["level"] != "protected")
    key, value = next((k, v) for k, v in read_values(redis).items()
                      if Record(v).instance == int(peer["instance"], 16))
    folder, number = key.rsplit("/", 1)
    check(int(number, 16) == first, f"the key {key} is not understood")
    write_value(redis, f"{folder}/{second:0{len(number)}x}", elsewhere(value, second, here))

    def of(host, qpn):
        return next(q for q in lab.connections(host) if q["qpn"] == qpn)

    wait_for("the forged record to be read", lambda: of("h0", here)["peer"] == peer["instance"],
             PATIENCE_S)
    lab.fault("port-down", "h0/mlx5_0")
    wait_for("the move", lambda: of("h1", first)["nic"] == "mlx5_1", PATIENCE_S)
    lab.ctl("heal", "h0/mlx5_0")
    wait_for("the return", lambda: of("h1", first)["nic"] == "mlx5_0" and
             of("h1", first)["level"] == "protected", PATIENCE_S)
    for word in ("connect", "go"):
        for p in programs:
            p.say(word)
    for p in programs:
        check(p.wait(60) == 0 and p.out().endswith("OK\n"), f"{p.name} failed")


def left_behind(lab, redis):
    """What a job that was killed leaves: the client's entry. As if its instance had the highest number of all."""
    with Lab(lab.out) as before:
        job = Job(before, redis.url, name="killed-")
        job.await_protection()
        server = int(process(before)["instance"], 16)
        key, value = next((key, bytearray(value)) for key, value in read_values(redis).items()
                          if Record(value).instance != server)
        for p in job.ends:
            p.end()
    struct.pack_into("<Q", value, SEAL_HEAD + 8, HIGHEST)
    return key, bytes(value)


class Gate(SlowProxy):
    """Nothing passes before it is opened."""

    def __init__(self, port):
        self.opened = threading.Event()
        super().__init__(port, 0)

    def delay(self):
        self.opened.wait()


def again_server_leads(lab, redis, name):
    """The job once more; its client writes to the store when the server has read what is there. Who leads in the end."""
    gate = Gate(redis.port)
    try:
        job = Job(lab, redis.url, name=name, log="debug", client_kv=f"redis://127.0.0.1:{gate.port}")
        job.await_line("INTRODUCED", job.server)
        gate.opened.set()
        job.await_protection()
        server_leads = process(lab)["instance"] > process(lab, "h1")["instance"]
        job.end()
        return server_leads
    finally:
        gate.opened.set()
        gate.close()


def left_over(lab):
    """
    The same job anew, with the same addresses and queue pair numbers: a server that finds the entry of the client
    before follows that. It is protected all the same, and whichever of the two is to lead.
    """
    redis = Redis(lab).start()
    key, value = left_behind(lab, redis)
    led = set()
    for n in range(ROUNDS):
        write_value(redis, key, value)
        with Lab(lab.out) as again:
            led.add(again_server_leads(again, redis, f"{n}-"))
        if len(led) == 2:
            return
    raise Failed(f"of {ROUNDS} jobs only one end has led: chance, or instances are not drawn")


CASES = {"no_secret": no_secret, "left_over": left_over, "led_away": led_away, "secret": secret}

if __name__ == "__main__":
    if not shutil.which("redis-server"):
        print("skipped: redis-server is missing")
        sys.exit(77)
    sys.exit(cases_main(CASES, lambda lab, name: CASES[name](lab), hosts=3))
