# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A real redis-server for one run."""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests",
                                "e2e"))
from lab import free_port, wait_for  # noqa: E402


class Redis:
    """On a port of its own, without files."""

    def __init__(self):
        self.port = free_port()
        self.folder = tempfile.mkdtemp(prefix="shift-redis-")
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--save", "", "--appendonly", "no",
             "--bind", "127.0.0.1", "--dir", self.folder],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for("answer from redis-server", self.answers, 10)

    def answers(self):
        done = subprocess.run(["redis-cli", "-p", str(self.port), "ping"], capture_output=True,
                              text=True)
        return done.stdout.strip() == "PONG"

    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
