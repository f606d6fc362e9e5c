#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""SHIFT_ON_EVENT: what the command finds, that the program does not notice it, storms, time-outs."""
import os
import re
import sys

from ctl import QPS, Ctl, must
from shiftlab.lab import Shift, cases_main, free_port, wait_for

KIND = '"$SHIFT_EVENT_KIND"'


class App:
    """on_event_app with a command, drained and used again from outside."""

    def __init__(self, lab, command, mib=0, **settings):
        settings.setdefault("on_event_kinds", "all")
        self.lab = lab
        self.ctl = Ctl(lab, "h0")
        self.program = lab.start("h0", [os.path.join(lab.out, "bin", "on_event_app"), mib], "app",
                                 Shift(log="info", on_event=command, **settings), stdin=True)
        wait_for("the program", lambda: "ready" in self.program.out(), 30)

    def event(self, n=1):
        """Events, one after the other: drain, undrain, drain, ..."""
        for i in range(n):
            self.ctl("undrain" if i % 2 else "drain", "mlx5_0", "--pid", self.program.pid)

    def log(self):
        return self.lab.shift_log(self.program)

    def end(self, mine=0):
        """It saw its own children and nothing else."""
        self.program.process.stdin.close()
        must("it ends well", self.program.wait(20) == 0, self.program.tail(), self.log())
        signals, own, others = map(int, re.search(r"signals (\d+) mine (\d+) others (\d+)",
                                                  self.program.out()).groups())
        must("no child of others", (own, others) == (mine, 0), self.program.out())
        must("no signal of others", signals <= mine, self.program.out())


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read()
    except FileNotFoundError:
        return ""


def script(lab, text):
    """A command that reports into a file: its path, and the file's, complete when it is there."""
    out = os.path.join(lab.folder, "told")
    path = os.path.join(lab.folder, "command")
    with open(path, "w", encoding="utf-8") as f:
        f.write(f"#!/bin/sh\n{{ {text}\n}} > {out}.$$ && mv {out}.$$ {out}\n")
    os.chmod(path, 0o755)
    return path, out


def finds(lab):
    """Its niceness, its environment, its files, its signals; and none of it is the program's child."""
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    command, out = script(lab, f"until [ $(awk '{{print $19}}' /proc/$$/stat) = {nice} ]; do :; done; "
                          "env; echo ppid $(awk '/PPid/ {print $2}' /proc/$$/status); "
                          "awk '/Sig(Blk|Ign)/' /proc/self/status; ls /proc/self/fd | tr '\\n' ' '")
    app = App(lab, f"exec {command} 'with blanks'", mib=64)
    app.program.say("child")
    app.event()
    wait_for("what the command found", lambda: read(out), 20)
    told = read(out)
    env = dict(line.split("=", 1) for line in told.splitlines() if "=" in line)
    must("the event", (env["SHIFT_EVENT_KIND"], env["SHIFT_EVENT_CAUSE"], env["SHIFT_EVENT_FROM"],
                       env["SHIFT_EVENT_PID"], env["SHIFT_EVENT_COUNT"], env["SHIFT_EVENT_NUMBER"]) ==
         ("drain", "drain", "mlx5_0", str(app.program.pid), "1", "1"), told)
    must("without SHIFT", env["SHIFT_DISABLE"] == "1" and
         not any("lib/shift" in env.get(n, "") for n in ("LD_PRELOAD", "LD_LIBRARY_PATH")), told)
    must("what else was preloaded stays", "libsimnic" in env["LD_PRELOAD"], told)
    must("the program's environment", env["SHIFT_KV"] == lab.kv, told)
    must("an orphan", re.search(r"^ppid (\d+)$", told, re.M)[1] != str(app.program.pid), told)
    for name in ("SigBlk", "SigIgn"):
        must("signals", re.search(rf"^{name}:\s*0+$", told, re.M), told)
    last = told.splitlines()[-1].split()
    # 3: the folder that ls reads
    must("no file of the program", set(last) <= {"0", "1", "2", "3"} and last, told)
    app.end(mine=1)


def measure(lab):
    """The time until the command runs, by the log, of a program with 1 GiB; nothing is asserted of it."""
    command, out = script(lab, f"echo {KIND}")
    app = App(lab, command, mib=1024)
    for i in range(10):
        app.event(1 + i % 2)
        wait_for("command", lambda i=i: app.log().count("SHIFT_ON_EVENT: process") > i, 20)
    wait_for("the last", lambda: read(out), 20)
    us = sorted(int(n) for n in re.findall(r"(\d+) us after it was recorded", app.log()))
    print(f"       with 1 GiB of memory, the command runs {us[0]} to {us[-1]} us after the event, "
          f"{us[len(us) // 2]} at the median")
    app.end()


def storm(lab):
    """One at a time; of what comes meanwhile, the newest of each kind is told, with how many."""
    gate, done = os.path.join(lab.folder, "gate"), os.path.join(lab.folder, "done")
    os.mkfifo(gate)
    busy = os.path.join(lab.folder, "busy")
    app = App(lab, f"mkdir {busy} || echo two at once >> {done}; read line < {gate}; "
              f'echo {KIND} "$SHIFT_EVENT_COUNT" "$SHIFT_EVENT_NUMBER" >> {done}; rmdir {busy}')

    def release():
        with open(gate, "w", encoding="ascii") as f:
            f.write("go\n")
    app.event()
    wait_for("the first", lambda: os.path.isdir(busy), 20)
    for _ in range(3):
        app.ctl("undrain", "mlx5_0")
        app.ctl("drain", "mlx5_0")
    for n in range(1, 4):
        release()
        wait_for(f"command {n}", lambda n=n: read(done).count("\n") == n, 20)
    must("what they were told", read(done) == "drain 1 1\nundrain 3 6\ndrain 3 7\n", read(done))
    app.end()


def late(lab):
    """It is killed with all that it has started, and the next one runs."""
    pids, next_one = os.path.join(lab.folder, "pids"), os.path.join(lab.folder, "next")
    app = App(lab, f"[ {KIND} = undrain ] && echo ran > {next_one} && exit; "
              f"sleep 1000 & echo $$ $! >> {pids}; sleep 1000", on_event_timeout_ms=300)

    def killed():
        """What the first had started when it was killed, and the next one ran; on a busy machine neither may have
        begun by then."""
        done = app.log().count("is killed") + 2
        app.event(2)
        wait_for("both commands", lambda: read(next_one) == "ran\n" or app.log().count("is killed") == done, 30)
        return read(next_one) and [int(p) for p in read(pids).split()]
    started = wait_for("a command that had begun, and the next", killed, 60)
    must("it ran", len(started) % 2 == 0, started)
    wait_for("their end", lambda: not any(alive(p) for p in started), 20)
    must("it was said", "has not ended within 300 ms and is killed" in app.log(), app.log())
    app.end()


def alive(pid):
    state = re.search(r"^State:\s*(\w)", read(f"/proc/{pid}/status"), re.M)
    return state and state[1] not in "ZX"


def wrong(lab):
    """What the shell says is in the log."""
    app = App(lab, "no_such_program --option")
    app.event()
    wait_for("what the shell says", lambda: "no_such_program: not found" in app.log(), 20)
    app.end()


def filtered(lab):
    """Kinds that are not wanted, and kinds that there are not."""
    out = os.path.join(lab.folder, "kinds")
    app = App(lab, f"echo {KIND} >> {out}", on_event_kinds="switch,undrain")
    app.event(3)
    wait_for("the first", lambda: read(out) == "undrain\n", 20)
    app.event(2)
    wait_for("the second", lambda: read(out).count("\n") == 2, 20)
    must("only that", read(out) == "undrain\nundrain\n", read(out))
    app.end()


def unknown_kind(lab):
    app = App(lab, "true", on_event_kinds="switch,bogus")
    must("it is said", "SHIFT_ON_EVENT_KINDS='switch,bogus' is neither" in app.log(), app.log())
    app.end()


def at_the_end(lab):
    """What happened just before the program's end is told."""
    out = os.path.join(lab.folder, "kinds")
    p = lab.run("h0", [os.path.join(lab.out, "bin", "api_drain"), "mlx5_0"], name="short",
                shift=Shift(log="info", on_event=f"echo {KIND} >> {out}", on_event_kinds="all"))
    must("it ends well", not p.process.returncode, p.tail())
    wait_for("the command", lambda: "drain" in read(out), 20)


def fallback(lab):
    """A port dies under load: the command runs, after the traffic has moved."""
    command, out = script(lab, 'echo "$SHIFT_EVENT_KIND $SHIFT_EVENT_CAUSE $SHIFT_EVENT_FROM '
                          '$SHIFT_EVENT_TO $SHIFT_EVENT_QPS $SHIFT_EVENT_SWITCH_NS"')
    shift = Shift(log="info", on_event=command)
    argv = ["ib_write_bw", "-d", "mlx5_0", "-x", "0", "-F", "-D", "60", "-q", str(QPS), "-p",
            str(free_port())]
    server = lab.start("h0", argv, "server", shift)
    server.await_listening()
    client = lab.start("h1", argv + ["127.0.0.1"], "client", Shift(log="info"))
    wait_for("protected connections", lambda: lab.protected(server) >= QPS and
             lab.protected(client) >= QPS, 30)
    lab.fault("port-down", "h0/mlx5_0")
    wait_for("the command", lambda: read(out) and "SHIFT_ON_EVENT: process" in lab.shift_log(server), 30)
    words = read(out).split()
    must("the event", words[:4] == ["switch", "port-down", "mlx5_0", "mlx5_1"] and
         1 <= int(words[4]) <= QPS and int(words[5]) > 0, words)
    log = lab.shift_log(server)
    must("in order", log.index("moved from mlx5_0") < re.search(r"event \d+: switch", log).start() <
         log.index("SHIFT_ON_EVENT: process"), log)
    us = re.findall(r"(\d+) us after the traffic of its connections moved", log)[0]
    print(f"       the command runs {us} us after the traffic has moved")
    client.process.kill()


def degraded(lab):
    """The command is told since when, and what is left; and when it is over."""
    out = os.path.join(lab.folder, "told")
    shift = Shift(log="info", on_event_kinds="degraded,whole", on_event=
                  f'echo "$SHIFT_EVENT_KIND $SHIFT_EVENT_FROM $SHIFT_EVENT_SINCE $SHIFT_EVENT_BANDWIDTH_LEFT" >> {out}')
    argv = ["ib_write_bw", "-d", "mlx5_0", "-x", "0", "-F", "-D", "60", "-p", str(free_port())]
    server = lab.start("h0", argv, "server", shift)
    server.await_listening()
    client = lab.start("h1", argv + ["127.0.0.1"], "client", Shift(log="info"))
    wait_for("protected connections", lambda: all(lab.protected(p) for p in (server, client)), 30)
    lab.fault("port-down", "h0/mlx5_0")
    wait_for("the first", lambda: "degraded" in read(out), 30)
    lab.ctl("heal", "h0/mlx5_0")
    wait_for("the second", lambda: "whole" in read(out), 60)
    lines = [line.split() for line in read(out).splitlines()]
    must("what they were told", len(lines) == 2 and lines[0][:2] == ["degraded", "mlx5_0"] and lines[0][3] == "0.500" and
         lines[1] == ["whole", lines[0][2], "1.000"], lines)
    client.process.kill()


CASES = {f.__name__: f for f in (finds, measure, storm, late, wrong, filtered, unknown_kind,
                                 at_the_end, fallback, degraded)}

if __name__ == "__main__":
    sys.exit(cases_main(CASES, lambda lab, name: CASES[name](lab)))
