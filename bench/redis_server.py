# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A redis-server of a benchmark's own, which keeps nothing, and what it has counted."""
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests", "e2e"))
from lab import free_port, wait_for  # noqa: E402


class Redis:
    def __init__(self, folder):
        self.port = free_port()
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir",
             folder, "--maxclients", "20000"], stdout=subprocess.DEVNULL)
        wait_for("answer of redis-server",
                 lambda: self.process.poll() is not None or "PONG" in self.ask("ping"), 20)

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def ask(self, *words):
        return subprocess.run(["redis-cli", "-p", str(self.port), *words], capture_output=True,
                              text=True, timeout=30, check=False).stdout

    def counters(self):
        info = dict(line.split(":", 1) for line in self.ask("info", "all").splitlines()
                    if ":" in line and not line.startswith("#"))
        return {"commands": int(info["total_commands_processed"]),
                "in": int(info["total_net_input_bytes"]), "out": int(info["total_net_output_bytes"]),
                "cpu": float(info["used_cpu_sys"]) + float(info["used_cpu_user"]),
                "memory": int(info["used_memory"]) - int(info["mem_clients_normal"])}

    def calls(self):
        """Commands by name, without those of looking."""
        found = re.findall(r"cmdstat_(\S+?):calls=(\d+)", self.ask("info", "commandstats"))
        return {name: int(n) for name, n in found if name not in ("info", "ping")}

    def end(self):
        self.process.kill()
        self.process.wait()
