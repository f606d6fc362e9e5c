#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What a process lacks is told as that: descriptors, a place among those who ask it, its own life.

  lacks.py --build DIR [CASE...]
"""
import os
import re
import resource
import signal
import socket
import subprocess
import sys

from shiftlab.lab import Shift, cases_main, free_port, wait_for
from truth import Ends, must

CLIENTS = 8     # who may ask a process at the same time (shiftlib/admin/socket.c)
LIMIT = 700     # descriptors, above what SHIFT calls few


def asked(lab, *args):
    """shiftctl's exit status, and all that it says."""
    env = dict(lab.env(), SHIFT_RUN_DIR=lab.run_dir("h0"))
    done = subprocess.run([os.path.join(lab.out, "bin", "shiftctl"), *args], env=env, capture_output=True, text=True,
                          timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


def no_files_to_answer(lab):
    """A process without a free descriptor cannot be asked: shiftctl says so. Once it has one, it answers again."""
    ends = Ends(lab)
    before = resource.prlimit(ends.server.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(ends.server.pid, resource.RLIMIT_NOFILE, (3, before[1]))
    status, said = asked(lab, "status")
    must("it is told", status == 1 and "it has no file descriptor left (ulimit -n)" in said, said)
    resource.prlimit(ends.server.pid, resource.RLIMIT_NOFILE, before)
    wait_for("an answer", lambda: asked(lab, "status")[0] == 0, 30)
    ends.end()


def no_files_to_open(lab):
    """So many descriptors are taken that some NIC, or the store's library, cannot be opened: that is the reason, and not
    the NIC, and nobody is told to install what is there."""
    nics, stores = [], []
    for left in range(15, 36, 3):
        take = ("import os, sys, resource\n"
                f"resource.setrlimit(resource.RLIMIT_NOFILE, ({LIMIT}, {LIMIT}))\n"
                f"while os.dup(0) < {LIMIT} - {left} - 1: pass\n"
                f"for fd in range(3, {LIMIT}):\n"
                "    try: os.set_inheritable(fd, True)\n"
                "    except OSError: pass\n"
                "os.execv(sys.argv[1], sys.argv[1:])\n")
        argv = [os.path.join(lab.out, "bin", "truth"), "-p", free_port()]
        shift = Shift(log="info", backup="pair")
        server = lab.start("h0", [sys.executable, "-S", "-c", take, *argv, "-s"], f"server{left}", shift, stdin=True)
        client = lab.start("h1", argv, f"client{left}", shift, stdin=True)
        wait_for("what becomes of it", lambda p=server: not p.running() or re.search(
            r"mlx5_1 cannot serve|is protected by|KV cannot|is not protected: (?!the program is)", lab.shift_log(p)), 60)
        log = lab.shift_log(server)
        nics += re.findall(r"mlx5_\d cannot serve as a backup or carry control messages: (.*)", log)
        stores += re.findall(r"the KV cannot be used: (.*)", log)
        server.end()
        client.end()
    must("a NIC could not be opened", nics)
    must("each time for want of descriptors",
         set(nics) == {"no file descriptor was left to open the NIC (ulimit -n)"}, *nics)
    must("nobody is told to install a library", not [s for s in stores if "install" in s], *stores)


def many_ask(lab):
    """More than it serves at once: the next one is told that, and not that somebody's peer reset something."""
    ends = Ends(lab)
    folder = lab.run_dir("h0")
    name, = [n for n in os.listdir(folder) if n.endswith(".sock")]
    others = [socket.socket(socket.AF_UNIX) for _ in range(CLIENTS)]
    for s in others:
        s.connect(os.path.join(folder, name))
    status, said = asked(lab, "status")
    must("it is told", status == 1 and "it closed the connection before it answered: more ask it at the same time than it "
         "serves" in said and "reset" not in said, said)
    for s in others:
        s.close()
    wait_for("an answer", lambda: asked(lab, "status")[0] == 0, 30)
    ends.end()


def killed_meanwhile(lab):
    """A process that is killed while it is asked has ended: there is nobody to ask."""
    ends = Ends(lab)
    os.kill(ends.server.pid, signal.SIGSTOP)
    env = dict(lab.env(), SHIFT_RUN_DIR=lab.run_dir("h0"))
    asks = subprocess.Popen([os.path.join(lab.out, "bin", "shiftctl"), "why", "mlx5_0"], env=env, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    wait_for("a question in its socket", lambda: connected(asks.pid), 10)
    ends.server.kill()
    said = asks.communicate(timeout=60)[0]
    must("it is told", "reset" not in said and "no program with SHIFT has" in said, said)


def connected(pid):
    """Has the process a socket by now?"""
    try:
        return any(os.readlink(f"/proc/{pid}/fd/{fd}").startswith("socket:") for fd in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False


CASES = {f.__name__: f for f in (no_files_to_answer, no_files_to_open, many_ask, killed_meanwhile)}


if __name__ == "__main__":
    sys.exit(cases_main(CASES, lambda lab, name: CASES[name](lab)))
