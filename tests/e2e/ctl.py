#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""shiftctl status, drain and undrain, and the library call, with stock programs on the fabric."""
import argparse
import fcntl
import glob
import json
import os
import pty
import re
import select
import signal
import socket
import stat
import struct
import subprocess
import sys
import termios
import time

from shiftlab.lab import PATIENT, Lab, Shift, free_port, wait_for
from shiftlab.perftest import LONG_S, end

QPS = 2
NOBODY, STAYS = 3, 4    # exit statuses of drain


class Failed(Exception):
    """shiftctl or a process under it did something else."""


def must(what, ok, *context):
    if not ok:
        raise Failed(what + "".join(f"\n{c}" for c in context))


class Traffic:
    """ib_write_bw between two hosts, protected; for as long as it is needed."""

    def __init__(self, lab, client=True, qps=QPS, **settings):
        self.lab, self.qps = lab, qps
        self.shift = Shift(**{"log": "info", **settings})
        self.argv = ["ib_write_bw", "-d", "mlx5_0", "-x", "0", "-F", "-D", str(LONG_S), "-q",
                     str(qps), "-p", str(free_port())]
        self.server = lab.start("h0", self.argv, "server", self.shift)
        self.client = None
        if client:
            self.server.await_listening()
            self.start_client()

    def start_client(self):
        self.client = self.lab.start("h1", self.argv + ["127.0.0.1"], "client", self.shift)

    def protected(self):
        wait_for("protected connections", lambda: all(
            self.lab.protected(p) >= self.qps for p in (self.server, self.client)), 30)
        return self

    def end(self):
        end("ib_write_bw", self.server, self.client)
        for p in (self.client, self.server):
            p.wait(60)
            must(f"{p.name} ended with {p.process.returncode}", not p.process.returncode, p.tail(),
                 self.lab.shift_log(p))


class Ctl:
    """shiftctl, as on a host of a lab."""

    def __init__(self, lab, host, **env):
        self.lab = lab
        self.folder = lab.run_dir(host)
        self.env = dict(lab.env(), SHIFT_RUN_DIR=self.folder, **env)

    def run(self, *args):
        argv = [os.path.join(self.lab.out, "bin", "shiftctl")] + [str(a) for a in args]
        return subprocess.run(argv, env=self.env, capture_output=True, text=True, timeout=60, check=False)

    def __call__(self, *args, status=0):
        done = self.run(*args)
        must(f"shiftctl {' '.join(map(str, args))}: exit {done.returncode}, not {status}",
             done.returncode == status, done.stdout, done.stderr)
        return done

    def watched(self, *args, lines):
        """The first lines of status --watch, not on a terminal."""
        argv = [os.path.join(self.lab.out, "bin", "shiftctl"), "status", "--watch", "--interval", "0.1"]
        with subprocess.Popen(argv + list(args), env=self.env, stdout=subprocess.PIPE,
                              text=True) as process:
            rows = [process.stdout.readline() for _ in range(lines)]
            process.terminate()
            process.stdout.read()
            must(f"--watch ended with {process.wait(30)}", process.returncode == 0)
        return rows

    def watch_screen(self, pid, end):
        """On a terminal of its own: drawn, drawn anew when the size changes, ended by a key or a signal."""
        main, side = pty.openpty()
        before = termios.tcgetattr(side)
        argv = [os.path.join(self.lab.out, "bin", "shiftctl"), "status", "--watch", "--interval", "0.2"]
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 200, 0, 0))
        with subprocess.Popen(argv, env=self.env, stdin=side, stdout=side, stderr=side,
                              start_new_session=True, preexec_fn=lambda: fcntl.ioctl(
                                  0, termios.TIOCSCTTY, 0)) as process:
            try:
                self.watch_process(process, main, side, pid, end)
            finally:
                process.kill()
        must("terminal as before", termios.tcgetattr(side) == before)
        os.close(main)
        os.close(side)

    @staticmethod
    def watch_process(process, main, side, pid, end):
        seen, ours = b"", f"{pid} ib_write_bw"

        def shows(code):
            nonlocal seen
            while select.select([main], [], [], 0.01)[0]:
                seen += os.read(main, 65536)
            return code in seen

        def screen(has):
            """Its rows, of the last that is complete: the one before may be on its way yet."""
            last = shows(b"\x1b[J") and seen.rpartition(b"\x1b[J")[0].rpartition(b"\x1b[H")[2]
            return last and has(re.sub(r"\x1b\[\d*[a-zA-Z]|\r", "", last.decode()).split("\n"))

        wait_for("second screen", lambda: shows(b"\x1b[?1049h"))
        wait_for("table", lambda: screen(lambda rows: any(ours in r for r in rows) and
                                         any("protected" in r for r in rows)))
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 4, 20, 0, 0))
        wait_for("small screen", lambda: screen(lambda rows: len(rows) == 4 and ours[:20] in rows[1] and
                                                all(len(r) <= 20 for r in rows)))
        os.write(main, b"j")
        wait_for("scrolled", lambda: screen(lambda rows: "instance" in rows[1]))
        if isinstance(end, bytes):
            os.write(main, end)
        else:
            process.send_signal(end)
        must("exit", process.wait(30) == 0, seen)
        wait_for("first screen", lambda: shows(b"\x1b[?25h\x1b[?1049l"))

    def processes(self, *args):
        return json.loads(self("status", "--json", *args).stdout)["processes"]

    def qps(self, pid):
        one, = self.processes("--pid", pid)
        return one["qps"]

    def sockets(self, pid):
        return glob.glob(os.path.join(self.folder, f"{pid}-*.sock"))

    def socket(self, pid):
        one, = self.sockets(pid)
        return one

    def ask(self, pid, text, timeout=10):
        """What a process answers to these bytes."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(timeout)
            s.connect(self.socket(pid))
            s.sendall(text)
            answer = b""
            while True:
                more = s.recv(65536)
                if not more:
                    return answer
                answer += more


class Tests:
    def __init__(self, build):
        self.build = build

    def lab(self, **kw):
        return Lab(self.build, **kw)

    def status(self):
        with self.lab() as lab:
            traffic = Traffic(lab).protected()
            ctl = Ctl(lab, "h0")
            pid = traffic.server.pid
            one, = ctl.processes()
            must("pid", one["pid"] == pid, one)
            must("command", one["command"].startswith("ib_write_bw -d mlx5_0"), one)
            must("KV", one["kv"] == "ok", one)
            nics = {n["name"]: n for n in one["nics"]}
            must("NICs", set(nics) == {"mlx5_0", "mlx5_1"} and
                 all(n["state"] == "open" and not n["drained"] for n in nics.values()), one)
            peer, = Ctl(lab, "h1").processes()
            must("QPs", len(one["qps"]) == QPS, one)
            for qp in one["qps"]:
                must("QP", (qp["type"], qp["level"], qp["nic"], qp["send"], qp["path"]) ==
                     ("RC", "protected", "mlx5_0", "DEFAULT", 0), qp)
                must("standby", (qp["standby"]["nic"], qp["standby"]["phase"]) ==
                     ("mlx5_1", "READY"), qp)
                must("peer", qp["peer"] == peer["instance"], qp)
            table = ctl("status").stdout
            must("table", f"{pid} ib_write_bw" in table and f"{QPS} queue pairs: {QPS} protected" in
                 table and len(re.findall(r"^  0x\w+ protected", table, re.M)) == QPS, table)
            must("peer's address", all(f"10.0.0.2 0x{qp['peer_qpn']:06x}" in table and
                                       qp["peer_gid"] == "::ffff:10.0.0.2" and
                                       qp["default_nic"] == "mlx5_0" for qp in one["qps"]), one)
            must("nothing for others", not ctl("status", "--pid", 1, status=1).stdout)
            traffic.end()
            must("removed at the end", not os.listdir(ctl.folder), os.listdir(ctl.folder))
            done = ctl("status", status=1)
            must("says that there is none", "no process" in done.stderr, done.stderr)

    def exact(self):
        """Whether each NIC tells expected PSNs, and why not."""
        with self.lab() as lab:
            lab.ctl("quirk", "h0/mlx5_1", "stale-psn")
            traffic = Traffic(lab).protected()
            ctl, peer = Ctl(lab, "h0"), Ctl(lab, "h1")
            wait_for("the trials", lambda: all(
                n["exact"] != "unasked" for side in (ctl, peer) for n in side.processes()[0]["nics"]), 30)
            nics = {n["name"]: n for n in ctl.processes()[0]["nics"]}
            must("truth is told apart", [(nics[n]["exact"], not nics[n]["exact_why"]) for n in sorted(nics)] ==
                 [("yes", True), ("no", False)], nics)
            table = ctl("status").stdout
            must("table", "exact count: yes" in table and
                 f"exact count: no ({nics['mlx5_1']['exact_why']})" in table, table)
            traffic.end()

    def watch(self):
        """A screen on a terminal, which is left as it was found; elsewhere the text, again and again."""
        with self.lab() as lab:
            traffic = Traffic(lab).protected()
            ctl = Ctl(lab, "h0")
            lines = ctl.watched("--json", lines=3)
            must("JSON, a line each", all(
                json.loads(row)["processes"][0]["pid"] == traffic.server.pid for row in lines), lines)
            plain = "".join(ctl.watched(lines=20))
            must("plain text, repeated", plain.count(f"{traffic.server.pid} ib_write_bw") >= 2 and
                 "\x1b" not in plain, plain)
            for key in (b"q", b"\x03", signal.SIGTERM):
                ctl.watch_screen(traffic.server.pid, key)
            traffic.end()

    def usage(self):
        with self.lab() as lab:
            ctl = Ctl(lab, "h0")
            for args in (["status", "x"], ["status", "--bogus"], ["status", "--pid", "0"],
                         ["status", "--pid", "x"], ["status", "--interval", "0"],
                         ["status", "--interval", "x"], ["version", "x"], ["drain"], ["drain", "a", "b"],
                         ["drain", "mlx5_0", "--wait", "-1"], ["drain", "a b"], ["drain", ""],
                         ["undrain"], ["undrain", "mlx5_0", "--pid", ""]):
                must(f"{args} says why", ctl(*args, status=2).stderr)
            must("version", re.search(
                r"^shiftctl +(\S+)\nlibrary +\1, \S+/libibverbs.so.1\nprotocol +\d+\n"
                r"libibverbs +\S+/libibverbs.so", ctl("version").stdout), ctl("version").stdout)
            must("no library", ctl("version", "--libdir", "/nowhere", status=1).stderr)
            done = ctl("drain", "mlx5_0", status=NOBODY)    # that nothing was found is no success
            must("nobody was found", "no process with SHIFT found" in done.stderr, done.stderr)
            ctl("drain", "mlx5_0", "--pid", 1, status=NOBODY)
            ctl("undrain", "mlx5_0")

    def permissions(self):
        """Of the socket and its directory; and a directory that others can write is not used."""
        with self.lab() as lab:
            ctl = Ctl(lab, "h0")
            os.mkdir(lab.run_dir("h1"))
            os.chmod(lab.run_dir("h1"), 0o777)
            traffic = Traffic(lab).protected()
            must("directory", stat.S_IMODE(os.stat(ctl.folder).st_mode) == 0o700)
            must("socket", stat.S_IMODE(os.stat(ctl.socket(traffic.server.pid)).st_mode) == 0o600)
            must("none in an open directory", not os.listdir(lab.run_dir("h1")))
            must("the log says why", "0700" in lab.shift_log(traffic.client),
                 lab.shift_log(traffic.client))
            done = Ctl(lab, "h1")("status", status=1)
            must("shiftctl says why", "0700" in done.stderr, done.stderr)
            os.symlink(ctl.folder, os.path.join(lab.folder, "link"))
            ctl.env["SHIFT_RUN_DIR"] = os.path.join(lab.folder, "link")
            done = ctl("status", status=1)
            must("a link is not followed", "symbolic link" in done.stderr, done.stderr)
            traffic.end()

    def other_user(self):
        """Another user is not answered, even where the directory would let him in."""
        if os.geteuid():
            return
        with self.lab() as lab:
            traffic = Traffic(lab).protected()
            ctl = Ctl(lab, "h0")
            path = ctl.socket(traffic.server.pid)
            for name in (lab.folder, ctl.folder):
                os.chmod(name, 0o755)
            os.chmod(path, 0o666)
            must("root is answered", self.answered_as(0, path))
            must("another user is not", not self.answered_as(65534, path))
            traffic.end()

    @staticmethod
    def answered_as(uid, path):
        pid = os.fork()
        if not pid:
            status = 2
            try:
                os.setuid(uid)
                with socket.socket(socket.AF_UNIX) as s:
                    s.connect(path)
                    status = 1
                    s.sendall(b"status\n")
                    status = 0 if s.recv(1) else 1
            except OSError as e:
                if status == 2:
                    print(f"user {uid}: {e}", flush=True)
            finally:
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        must("the socket can be reached", status != 2)
        return status == 0

    def killed(self):
        """What a killed process leaves is cleaned, and does not hinder the next of its number."""
        with self.lab() as lab:
            traffic = Traffic(lab).protected()
            ctl, other = Ctl(lab, "h0"), Ctl(lab, "h1")
            traffic.client.process.send_signal(signal.SIGSTOP)  # it would end with its server
            traffic.server.kill()
            must("its socket is left", len(ctl.sockets(traffic.server.pid)) == 1)
            ctl("status", status=1)
            must("its socket is gone", not os.listdir(ctl.folder))
            must("the peer's is not", len(os.listdir(other.folder)) == 1)
            name = "99999-0123456789abcdef.sock"
            with open(os.path.join(ctl.folder, name), "w", encoding="ascii"):
                pass
            ctl("status", status=1)
            must("what is no socket stays", os.listdir(ctl.folder) == [name])
            traffic.client.process.kill()

    def looked_for_too_early(self):
        """Who looks for sockets just when one is made does not take it away."""
        with self.lab() as lab:
            at, go = (os.path.join(lab.folder, name) for name in ("at", "go"))
            for name in (at, go):
                os.mkfifo(name)
            fifo = os.open(at, os.O_RDONLY | os.O_NONBLOCK)
            p = lab.start("h0", [os.path.join(lab.out, "bin", "on_event_app")], "app", Shift(), stdin=True, env={
                "LD_PRELOAD": os.path.join(lab.out, "lib", "listen_shim.so"), "LISTEN_AT": at, "LISTEN_GO": go})
            wait_for("the socket", lambda: select.select([fifo], [], [], 0)[0] and os.read(fifo, 1) or
                     not p.running(), 30)
            os.close(fifo)
            must("it runs", p.running(), p.tail())
            ctl = Ctl(lab, "h0")
            ctl("status", status=1)
            os.close(os.open(go, os.O_WRONLY))
            wait_for("answer", lambda: ctl.run("status", "--pid", p.pid).returncode == 0, 30)
            must("one name", len(os.listdir(ctl.folder)) == len(ctl.sockets(p.pid)) == 1,
                 os.listdir(ctl.folder))
            p.process.stdin.close()
            must("it ends", p.wait(30) == 0, p.tail())

    def rude_clients(self):
        """No client of a socket holds up anything, whatever it sends."""
        with self.lab() as lab:
            traffic = Traffic(lab).protected()
            ctl, pid = Ctl(lab, "h0"), traffic.server.pid
            try:
                must("too long a request is refused", b"error" in ctl.ask(pid, b"x" * 5000))
            except ConnectionResetError:
                pass
            for text in (b"\n", b"bogus\n", b"drain\n", b"drain nope\n",
                         b"status extra\n", b"\0\0\n", b"drain " + b"a" * 100 + b"\n"):
                must(f"{text[:20]} is refused", "error" in json.loads(ctl.ask(pid, text)))
            must("version", json.loads(ctl.ask(pid, b"version\n"))["version"])
            silent = []

            def answers(status):
                return ctl.run("status").returncode == status

            def full():
                """No slot is left: told so at once. They are waited for some seconds only."""
                while silent:
                    silent.pop().close()
                for _ in range(8):
                    s = socket.socket(socket.AF_UNIX)
                    s.connect(ctl.socket(pid))
                    s.send(b"stat")
                    silent.append(s)
                return answers(1)
            wait_for("no slot", full, 60)
            wait_for("slots again", lambda: answers(0), 60)
            for s in silent:
                s.close()
            gone = socket.socket(socket.AF_UNIX)
            gone.connect(ctl.socket(pid))
            gone.send(b"status\n")
            gone.close()
            wait_for("answer", lambda: answers(0), 60)
            must("it still answers", len(ctl.processes()) == 1)
            traffic.end()

    def slices(self):
        """A long answer is written as it is read: who does not read holds up nobody, and gets the state of the
        moment when it asked."""
        qps, port = 500, free_port()
        with self.lab() as lab:
            ends = [lab.start(host, [os.path.join(lab.out, "bin", "idle"), side, "--port", port, "--rest",
                                     qps], side[2:], Shift(log="info", **PATIENT), stdin=True)
                    for host, side in (("h0", "--server"), ("h1", "--client"))]
            for p in ends:
                wait_for("protected connections", lambda p=p: lab.protected(p) >= qps, 60, 0.2)
            ctl, pid = Ctl(lab, "h0"), ends[0].pid
            lazy = []
            for _ in range(3):
                s = socket.socket(socket.AF_UNIX)
                s.connect(ctl.socket(pid))
                s.sendall(b"status\n")
                lazy.append(s)
                must("it has begun", s.recv(1, socket.MSG_PEEK))
            must("others are answered", json.loads(ctl.ask(pid, b"version\n"))["pid"] == pid)
            must("metrics are short", len(ctl.ask(pid, b"metrics\n")) < 20000)
            must("orders are taken", json.loads(ctl.ask(pid, b"drain mlx5_0\n"))["drained"])
            for s in lazy:
                answer = json.loads(b"".join(iter(lambda s=s: s.recv(1 << 20), b"")))
                must("the state when it asked", len(answer["qps"]) == qps and
                     all(q["nic"] == "mlx5_0" for q in answer["qps"]))
                s.close()
            wait_for("moves", lambda: all(q["nic"] == "mlx5_1" for q in ctl.qps(pid)), 60, 0.2)
            for p in ends:
                p.say("end")
            for p in ends:
                must(f"{p.name} ended with {p.wait(60)}", not p.process.returncode, p.tail())

    def drain(self):
        """Under load: all moves and comes back, nothing is sent again, nobody sees an error."""
        with self.lab() as lab:
            traffic = Traffic(lab).protected()
            ctl, pid = Ctl(lab, "h0"), traffic.server.pid
            time.sleep(1)
            done = ctl("drain", "mlx5_0", "--wait", 10)
            must("it says what moved",
                 f"{pid}: {QPS} connections moved, 0 stay; 0 requests sent again" in done.stdout,
                 done.stdout, done.stderr)
            must("all are on the backup",
                 all(q["nic"] == "mlx5_1" and q["path"] == 1 for q in ctl.qps(pid)))
            nics = ctl.processes()[0]["nics"]
            must("it is drained", nics[0]["drained"] and not nics[1]["drained"], nics)
            before = lab.carried(0)
            time.sleep(1)
            must("the drained NICs carry nothing", lab.carried(0) == before)
            ctl("undrain", "mlx5_0")
            wait_for("return", lambda: all(q["nic"] == "mlx5_0" for q in ctl.qps(pid)), 60)
            must("moves", all(q["moves"] == 2 and q["resubmitted"] == 0 for q in ctl.qps(pid)),
                 ctl.qps(pid))
            traffic.end()

    def drain_before(self):
        """A drained NIC stays drained: connections made later leave it, too."""
        with self.lab() as lab:
            traffic = Traffic(lab, client=False)
            ctl, pid = Ctl(lab, "h0"), traffic.server.pid
            wait_for("socket", lambda: ctl.sockets(pid))
            done = ctl("drain", "mlx5_0", "--pid", pid)
            must("nothing to move", f"{pid}: 0 connections moved, 0 stay" in done.stdout, done)
            traffic.start_client()
            wait_for("moves", lambda: len(ctl.qps(pid)) == QPS and
                     all(q["nic"] == "mlx5_1" for q in ctl.qps(pid)), 60)
            wait_for("the peer's, too",
                     lambda: all(q["nic"] == "mlx5_1" for q in Ctl(lab, "h1").qps(traffic.client.pid)), 60)
            traffic.end()

    def drain_last(self):
        """There is nowhere to go: each connection says so, and runs on."""
        with self.lab() as lab:
            traffic = Traffic(lab).protected()
            ctl = Ctl(lab, "h0")
            ctl("drain", "mlx5_1")
            done = ctl("drain", "mlx5_0", "--wait", 3, status=STAYS)
            must("why", done.stdout.count("none of its other NICs") == QPS, done.stdout, done.stderr)
            traffic.end()

    def library_call(self):
        with self.lab() as lab:
            for name, shift, expected in (("stock", None, "absent"),
                                          ("shift", Shift(), "0 19 22 22"),
                                          ("off", Shift(disable=1), "95 95 22 22")):
                argv = [os.path.join(lab.out, "bin", "api_drain"), "mlx5_0"]
                p = lab.run("h0", argv, shift=shift, name=name)
                must("shift_drain()", p.out().strip() == expected, p.tail())

    def forked(self):
        """A child has a socket of its own, or none; its end leaves the parent's alone."""
        with self.lab() as lab:
            p = lab.start("h0", [os.path.join(lab.out, "bin", "api_drain"), "mlx5_0", "fork"],
                          shift=Shift(), name="fork", stdin=True)
            ctl = Ctl(lab, "h0")
            wait_for("two sockets", lambda: os.path.isdir(ctl.folder) and
                     len(os.listdir(ctl.folder)) == 2, 30)
            wait_for("both to answer", lambda: len(ctl.processes()) == 2, 30)
            p.say("child")
            wait_for("the child's end", lambda: len(os.listdir(ctl.folder)) == 1, 30)
            one, = ctl.processes()
            must("the parent answers", one["pid"] == p.pid, one)
            p.say("parent")
            p.wait(30)
            must("both are gone", not os.listdir(ctl.folder))

    def each_command_has_help(self):
        """Of shiftctl and simnicctl, all that --help lists, by --help behind the command."""
        for program, row in (("shiftctl", r"^([a-z-]+) {2,}\w"), ("simnicctl", r"^ {2}([a-z-]+)\b")):
            path = os.path.join(self.build, "out", "bin", program)
            told = subprocess.run([path, "--help"], capture_output=True, text=True, check=True).stdout
            names = set(re.findall(row, told, re.M))
            must(f"{program} --help lists commands", len(names) >= 5, told)
            for name in names:
                said = subprocess.run([path, name, "--help"], capture_output=True, text=True, check=False)
                must(f"{program} {name} --help", said.returncode == 0 and name in said.stdout and
                     not said.stderr, said.stdout, said.stderr)


def methods_main(tests_of, description, helpers=()):
    """The main() of a class of tests, which is made of a build folder: its methods are the tests, but for
    those that begin with _ and the helpers. All are run, or one; its exit status."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--build", required=True)
    parser.add_argument("--only", help="name of one test")
    args = parser.parse_args()
    tests = tests_of(args.build)
    failed = 0
    for name in (n for n in vars(tests_of) if n[0] != "_" and n not in helpers):
        if args.only and name != args.only:
            continue
        try:
            getattr(tests, name)()
            print(f"ok   {name}", flush=True)
        except Exception as e:  # pylint: disable=broad-except
            failed += 1
            print(f"FAIL {name}: {type(e).__name__}: {e}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(methods_main(Tests, __doc__, helpers=("lab", "answered_as")))
