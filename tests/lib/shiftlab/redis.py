# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A redis-server of one run, which keeps nothing, and what it has counted."""
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

from shiftlab.lab import Program, Stuck, free_port

PATIENCE_S = 60
MANY_CLIENTS = ("--maxclients", "20000")    # of a benchmark


class Redis:
    """Made, but not started. Within a lab: the server ends with the lab at the latest; else end() ends it."""

    host = "127.0.0.1"

    def __init__(self, lab=None, port=None, args=()):
        self.lab, self.port, self.args = lab, port or free_port(), list(args)
        self.folder = lab.folder if lab else tempfile.mkdtemp(prefix="shift-redis-")
        self.server = None
        self.starts = 0

    @property
    def url(self):
        return f"redis://{self.host}:{self.port}"

    def argv(self):
        return ["redis-server", "--port", str(self.port), "--bind", self.host, "--save", "",
                "--appendonly", "no", "--dir", self.folder, *self.args]

    def launch(self):
        name = f"redis-{self.port}-{self.starts}"
        if self.lab:
            return self.lab.launch(name, self.argv(), self.lab.env())
        return Program(name, self.argv(), dict(os.environ), self.folder)

    def start(self):
        """Others on this host may have been given the port while it was free: then they have it
        for a while, and the server ends at once."""
        end = time.monotonic() + PATIENCE_S
        while True:
            self.starts += 1
            self.server = self.launch()
            self.server.await_listening()
            if self.server.running():
                return self
            if time.monotonic() > end:
                raise Stuck("redis-server does not start\n" + self.server.out())

    def kill(self):
        self.server.process.kill()
        self.server.process.wait()

    def stop(self):
        """It does not answer any more, nor refuse."""
        self.server.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.server.process.send_signal(signal.SIGCONT)

    def end(self):
        """For good."""
        if self.server:
            self.server.end()
        if not self.lab:
            shutil.rmtree(self.folder, ignore_errors=True)

    def ask(self, *words, user=()):
        """The lines that the server answers."""
        done = subprocess.run(["redis-cli", "-h", self.host, "-p", str(self.port),
                               "--no-auth-warning", *user, *words], capture_output=True, text=True,
                              timeout=30, check=False)
        return done.stdout.splitlines()

    def keys(self, pattern="*"):
        return [key for key in self.ask("keys", pattern) if key]

    def counters(self):
        info = dict(line.split(":", 1) for line in self.ask("info", "all")
                    if ":" in line and not line.startswith("#"))
        return {"commands": int(info["total_commands_processed"]),
                "in": int(info["total_net_input_bytes"]), "out": int(info["total_net_output_bytes"]),
                "cpu": float(info["used_cpu_sys"]) + float(info["used_cpu_user"]),
                "memory": int(info["used_memory"]) - int(info["mem_clients_normal"])}

    def calls(self):
        """Commands by name, without those of looking."""
        found = re.findall(r"cmdstat_(\S+?):calls=(\d+)", "\n".join(self.ask("info", "commandstats")))
        return {name: int(n) for name, n in found if name not in ("info", "ping")}
