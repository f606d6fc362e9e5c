#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What happens to the KV must cost protection for a while, never the job, and one clear line each.

A stock ib_write_bw between two hosts runs through it, while it sets up or under traffic, to a good
end; then protection is there, and the logs hold what was said and nothing else about the KV.

And whom to believe: jobs with a secret, a forger without it, two users on one server.

Loss of all packets: the redis-server is in a network namespace of its own behind a pair of virtual
interfaces, of which the far one goes down. Where that cannot be made, it is a server that is stopped
(SIGSTOP), which neither answers nor refuses, and the script says so. The full disk is a small tmpfs
in a mount namespace of this script's own.

usage: kv_chaos.py --build BUILD [CASE...]; without cases all, the long ones too
"""
import ctypes
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time

from shiftlab import perftest
from shiftlab.lab import Shift, cases_main, free_port, wait_for
from shiftlab.perftest import Failed
from shiftlab.redis import PATIENCE_S, Redis

NO_SECRET = "the job has no secret"
SILENCE_MS = 1500   # of a server that is not slow
LEASE_MS = 3000
CLONE_NEWNS, CLONE_NEWNET, MS_REC, MS_PRIVATE = 0x00020000, 0x40000000, 0x4000, 1 << 18
NEAR, FAR, NEAR_IP, FAR_IP = "shift-near", "shift-far", "192.0.2.1", "192.0.2.2"
GONE, BACK = "the KV cannot be used", "the KV answers again"
SECRET = "0123456789abcdef0123456789abcdef\n"
_libc = ctypes.CDLL(None, use_errno=True)


def check(truth, what):
    if not truth:
        raise Failed(what)


class FarRedis(Redis):
    """The same in a network of its own, to which all packets can be lost."""

    host = FAR_IP

    def __init__(self, lab):
        super().__init__(lab)
        self.home = os.open("/proc/self/ns/net", os.O_RDONLY)
        try:
            if _libc.unshare(CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "no network namespace")
            self.link = self.make_link()
        except BaseException:
            self.leave()
            raise

    def make_link(self):
        """This end of the link, in a namespace of this script's; the other one is its holder's."""
        holder = self.lab.launch("network", ["unshare", "-n", "sleep", "infinity"], self.lab.env())
        own = os.readlink("/proc/self/ns/net")
        wait_for("a network namespace", lambda: not holder.running() or
                 os.readlink(f"/proc/{holder.pid}/ns/net") != own)
        self.inside = ["nsenter", "-t", str(holder.pid), "-n"]
        for words in (["ip", "link", "set", "lo", "up"],
                      ["ip", "link", "add", NEAR, "type", "veth", "peer", "name", FAR],
                      ["ip", "link", "set", FAR, "netns", str(holder.pid)],
                      ["ip", "addr", "add", NEAR_IP + "/24", "dev", NEAR],
                      ["ip", "link", "set", NEAR, "up"],
                      [*self.inside, "ip", "link", "set", "lo", "up"],
                      [*self.inside, "ip", "addr", "add", FAR_IP + "/24", "dev", FAR],
                      [*self.inside, "ip", "link", "set", FAR, "up"]):
            self.network(words)
        # Known for good, else who sends is told after a while that there is no such host.
        far = self.network([*self.inside, "ip", "-json", "link", "show", "dev", FAR])
        mac = json.loads(far)[0]["address"]
        self.network(["ip", "neigh", "replace", FAR_IP, "lladdr", mac, "nud", "permanent", "dev",
                      NEAR])
        return holder

    @staticmethod
    def network(words):
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise OSError(done.returncode, f"{' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def argv(self):
        return [*self.inside, *super().argv(), "--protected-mode", "no"]

    def stop(self):
        self.network([*self.inside, "ip", "link", "set", FAR, "down"])
        with socket.socket() as s:
            s.settimeout(0.3)
            try:
                s.connect((FAR_IP, self.port))
                raise Failed("packets are not lost")
            except socket.timeout:
                pass

    def go_on(self):
        self.network([*self.inside, "ip", "link", "set", FAR, "up"])

    def end(self):
        super().end()
        self.leave()

    def leave(self):
        """Back to the network that this script came from."""
        _libc.setns(self.home, CLONE_NEWNET)
        os.close(self.home)


def lossy_redis(lab):
    try:
        return FarRedis(lab).start()
    except OSError as e:
        print(f"       packets cannot be lost here ({e}): the server is stopped instead")
        return Redis(lab).start()


class Job:
    """A stock tool between the hosts; each end with settings of its own."""

    def __init__(self, lab, kv, name="", client_kv=None, client=None, **settings):
        self.lab = lab
        settings = {"log": "info", "lease_ms": LEASE_MS, "kv_timeout_ms": 10000, "job": "chaos",
                    **settings}
        argv = ["ib_write_bw", "-d", "mlx5_0", "-x", "0", "-F", "-p", free_port(), "-D", 300,
                "-u", 20]   # retries that end after the test: a busy machine is no fault
        self.server = lab.start("h0", argv, shift=Shift(kv=kv, **settings), name=name + "server")
        self.server.await_listening()
        self.client = lab.start("h1", argv + ["127.0.0.1"], name=name + "client",
                                shift=Shift(kv=client_kv or kv, **{**settings, **(client or {})}))
        self.ends = (self.server, self.client)

    def says(self, text, program=None):
        return all(text in self.lab.shift_log(p) for p in ([program] if program else self.ends))

    def await_line(self, text, program=None):
        wait_for(f"line \"{text}\"", lambda: self.says(text, program), PATIENCE_S)

    def await_protection(self):
        wait_for("protection", lambda: all(self.lab.protected(p) for p in self.ends), PATIENCE_S)

    def runs(self):
        """It makes progress: both are there, and bytes are carried."""
        check(all(p.running() for p in self.ends), "the job ended")
        before = self.lab.carried(0) + self.lab.carried(1)
        wait_for("traffic", lambda: self.lab.carried(0) + self.lab.carried(1) > before, PATIENCE_S)

    def end(self, moves=0):
        self.runs()
        perftest.end("ib_write_bw", self.server, self.client)
        for p in self.ends:
            check(p.wait(90) == 0, f"{p.name} failed\n{p.tail()}")
        for p in self.ends:
            got = len(self.lab.moves(p))
            check(got == moves, f"{p.name} moved {got} times, not {moves}")

    def lines(self, text):
        return [self.lab.shift_log(p).count(text) for p in self.ends]

    def check_lines(self, **counts):
        """Of each end: exactly so many lines with GONE, BACK; nothing else at level warn but NO_SECRET."""
        for text, n in ((GONE, counts.get("gone", 0)), (BACK, counts.get("back", 0))):
            check(self.lines(text) == [n, n], f"\"{text}\" is said {self.lines(text)} times")
        for p in self.ends:
            other = [row for row in self.lab.shift_log(p).splitlines()
                     if row.startswith(("shift: warn", "shift: error"))
                     and GONE not in row and BACK not in row and NO_SECRET not in row]
            check(not other, f"{p.name} says more:\n" + "\n".join(other))


# ---- while it sets up ---------------------------------------------------------------------------

def refused_at_first(lab):
    """Nobody listens; then somebody does."""
    redis = Redis(lab)
    job = Job(lab, redis.url)
    job.await_line(GONE)
    job.runs()
    redis.start()
    job.await_protection()
    job.end()
    job.check_lines(gone=1, back=1)


def killed_again_and_again(lab):
    """kill -9 and restart with nothing, while the ends look for each other."""
    redis = Redis(lab).start()
    done = threading.Event()

    def torment():
        while not done.wait(0.05):
            redis.kill()
            redis.start()

    thread = threading.Thread(target=torment)
    thread.start()
    try:
        job = Job(lab, redis.url)
        job.runs()
        time.sleep(2)
    finally:
        done.set()
        thread.join()
    redis.kill()    # the last one was a child of the thread, and ends with it
    redis.start()
    job.await_protection()
    wait_for("as many lines of its return as of its end",
             lambda: job.lines(GONE) == job.lines(BACK), PATIENCE_S)
    job.end()


def silent_at_first(lab, seconds=3):
    redis = lossy_redis(lab)
    try:
        redis.stop()
        job = Job(lab, redis.url, kv_timeout_ms=SILENCE_MS)
        job.await_line(GONE)
        time.sleep(seconds)
        job.runs()
        redis.go_on()
        job.await_protection()
        job.end()
        job.check_lines(gone=1, back=1)
    finally:
        redis.end()


def silent_at_first_30s(lab):
    silent_at_first(lab, 30)


class SlowProxy:
    """Hands bytes to a server and back, each direction some time later."""

    def __init__(self, port, delay_s):
        self.to, self.delay_s = port, delay_s
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self.to))
            for a, b in ((near, far), (far, near)):
                threading.Thread(target=self.carry, args=(a, b), daemon=True).start()

    def carry(self, source, sink):
        try:
            while data := source.recv(65536):
                self.delay()
                sink.sendall(data)
        except OSError:
            pass
        for s in (source, sink):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def delay(self):
        time.sleep(self.delay_s)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def slow(lab):
    """Each answer takes 0.4 s, which is within the time-out."""
    redis = Redis(lab).start()
    proxy = SlowProxy(redis.port, 0.2)
    try:
        job = Job(lab, f"redis://127.0.0.1:{proxy.port}")
        job.await_protection()
        job.end()
        job.check_lines()
    finally:
        proxy.close()


def write_secret(lab, name, text):
    path = os.path.join(lab.folder, name)
    with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as f:
        f.write(text)
    return path


def wrong_password(lab):
    """Refused; then the password file is put right, while the job runs. It is never repeated."""
    redis = Redis(lab, args=["--requirepass", "hunter2"]).start()
    path = write_secret(lab, "password", "hunter3\n")
    job = Job(lab, redis.url, kv_password_file=path)
    job.await_line("WRONGPASS")
    job.runs()
    write_secret(lab, "password", "hunter2\n")
    job.await_protection()
    status = lab.shiftctl("h0", "status", "--json")
    job.end()
    job.check_lines(gone=1, back=1)
    check("hunter" not in lab.shift_logs() + status, "a password was told")


def in_mount_namespace():
    return os.geteuid() == 0 and not _libc.unshare(CLONE_NEWNS) and \
        not _libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None)


def full_disk(lab):
    """No room for the file at all; later there is, and it fills up again under traffic."""
    disk = os.path.join(lab.folder, "disk")
    os.mkdir(disk, 0o700)
    if not in_mount_namespace() or _libc.mount(b"none", disk.encode(), b"tmpfs", 0, b"size=1m,mode=700"):
        print("full_disk: skipped, no mount namespace here")
        return
    try:
        other = os.path.join(disk, "other")

        def fill():
            with open(other, "wb", buffering=0) as f:
                try:
                    while f.write(b"x" * 4096) == 4096:
                        pass
                except OSError:
                    pass

        fill()
        job = Job(lab, f"lmdb:{disk}/kv")
        job.await_line(GONE)
        check(job.says("No space left"), "the reason is not said")
        job.runs()
        os.unlink(other)
        job.await_protection()
        fill()
        time.sleep(LEASE_MS / 1000)
        job.end()
        check(job.lines(GONE)[0] >= 1, "nobody said that it is full")
    finally:
        _libc.umount2(disk.encode(), 2)


# ---- under traffic ------------------------------------------------------------------------------

def killed_under_traffic(lab):
    """The server is gone: traffic still moves off a dead link. It comes back empty: entries are put again."""
    redis = Redis(lab).start()
    job = Job(lab, redis.url, holddown_ms=100)
    job.await_protection()
    redis.kill()
    lab.fault("port-down", "h1/mlx5_0", lasts=2)
    wait_for("moves there and back", lambda: all(
        lab.shift_log(p).count(" moved from ") >= 2 for p in job.ends), PATIENCE_S)
    redis.start()
    wait_for("entries", lambda: len(redis.keys("chaos/*")) == 2, PATIENCE_S)
    job.end(moves=2)


def silent_under_traffic(lab, seconds=3):
    redis = lossy_redis(lab)
    try:
        job = Job(lab, redis.url, kv_timeout_ms=SILENCE_MS)
        job.await_protection()
        redis.stop()
        job.await_line(GONE)
        time.sleep(seconds)
        job.runs()
        redis.go_on()
        job.await_line(BACK)
        job.end()
        job.check_lines(gone=1, back=1)
    finally:
        redis.end()


def silent_under_traffic_30s(lab):
    silent_under_traffic(lab, 30)


# ---- whom to believe ----------------------------------------------------------------------------

def secret(lab):
    """Both have it; then one has not, and both say why, in one line that names the key."""
    redis = Redis(lab).start()
    path = write_secret(lab, "secret", SECRET)
    job = Job(lab, redis.url, name="both-", secret_file=path)
    job.await_protection()
    job.end()
    job.check_lines()
    job = Job(lab, redis.url, name="one-", secret_file=path, client={"secret_file": ""})
    job.await_line("is not believed")  # the other end has no secret, which is said at once, and names it, too
    check("SHIFT_SECRET_FILE" in lab.shiftctl("h0", "status"), "status does not say why")
    job.end()
    check(job.lines("is not believed") == [1, 1] and job.lines("key chaos/qp/") == [1, 1],
          "not one line each that names the key")
    check(not any(lab.protected(p) for p in job.ends), "protected in spite of it")


def forger(lab):
    """
    A client without the secret writes all over the job's prefix: other keys' values, old ones, cut
    ones. While it does, an end that looks for the other finds nothing to believe; a protected one
    notices nothing; when it stops, all is well.
    """
    redis = Redis(lab).start()
    path = write_secret(lab, "secret", SECRET)
    first = Job(lab, redis.url, name="first-", secret_file=path)
    first.await_protection()
    values = redis.keys("chaos/*")
    check(len(values) == 2, f"keys: {values}")
    script = ("local n = 0 "
              "for _, k in ipairs(redis.call('KEYS', 'chaos/qp/*')) do "
              "local v = redis.call('GET', ARGV[1 + n % 2]) or 'x' n = n + 1 "
              "if n % 3 == 0 then v = string.sub(v, 1, 40) end "
              "redis.call('SET', k, v, 'PX', 2000) end return n")
    for i, key in enumerate(values):
        redis.ask("copy", key, f"stolen/{i}")
        redis.ask("persist", f"stolen/{i}")
    forgers = [lab.launch(f"forger-{i}", ["redis-cli", "-p", str(redis.port), "-r", "100000000", "eval",
                                          script, "0", "stolen/0", "stolen/1"], lab.env())
               for i in range(2)]
    second = Job(lab, redis.url, name="second-", secret_file=path)
    second.runs()
    wait_for("refusal of what was forged", lambda: max(second.lines("wrong MAC")), PATIENCE_S)
    first.runs()
    for program in forgers:
        check(program.running(), "the forger ended")
        program.end()
    second.await_protection()
    second.end()
    first.end()
    check(max(second.lines("is not believed")) == 1, "more than one line")
    check(first.lines("is not believed") == [0, 0], "the protected job asked again")


def two_users(lab):
    """Two jobs with users of their own on one server: neither sees the other's keys."""
    acl = []
    for name in ("alice", "bob"):
        acl += ["--user", name, "on", f">{name}-pw", f"~{name}/*", "resetchannels", "+getrange", "+set",
                "+del"]
    redis = Redis(lab, args=["--user", "default", "off", "--user", "root", "on", ">root", "~*",
                             "+@all", *acl]).start()
    root = ("--user", "root", "--pass", "root")
    jobs = [Job(lab, f"redis://{n}:{n}-pw@127.0.0.1:{redis.port}", name=n + "-", job=n)
            for n in ("alice", "bob")]
    for job in jobs:
        job.await_protection()
    keys = redis.ask("keys", "*", user=root)
    for name in ("alice", "bob"):
        check(sum(k.startswith(name + "/qp/") for k in keys) == 2, f"keys of {name}: {keys}")
    theirs = next(k for k in keys if k.startswith("alice/"))
    for words in (("getrange", theirs, "0", "9"), ("set", theirs, "x"), ("del", theirs),
                  ("keys", "*")):
        said = " ".join(redis.ask(*words, user=("--user", "bob", "--pass", "bob-pw")))
        check("NOPERM" in said, f"bob may {words[0]}: {said}")
    for job in jobs:
        job.end()
        job.check_lines()
    # Bob in Alice's prefix: refused by the server, in words, and his job goes on.
    bob = Job(lab, f"redis://bob:bob-pw@127.0.0.1:{redis.port}", name="intruder-", job="alice")
    bob.await_line("NOPERM")
    bob.end()
    bob.check_lines(gone=1)


CASES = {f.__name__: f for f in (
    refused_at_first, killed_again_and_again, silent_at_first, slow, wrong_password, full_disk,
    killed_under_traffic, silent_under_traffic, secret, forger, two_users, silent_at_first_30s,
    silent_under_traffic_30s)}


if __name__ == "__main__":
    for tool in ("redis-server", "redis-cli", "ib_write_bw"):
        if not shutil.which(tool):
            print(f"skipped: {tool} is missing")
            sys.exit(77)
    sys.exit(cases_main(list(CASES), lambda lab, name: CASES[name](lab)))
