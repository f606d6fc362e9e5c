# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""QEMU's monitor (QMP) of one guest, by which NICs are broken from outside."""
import json
import socket

PATIENCE_S = 20


class Refused(Exception):
    """QEMU does not do what it was told."""


class Monitor:
    """Connects when it is first used. Not for several threads."""

    def __init__(self, path):
        self.path = path
        self.file = None

    def open(self):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(PATIENCE_S)
        s.connect(self.path)
        self.file = s.makefile("rw", encoding="utf-8")
        s.close()       # the file keeps the connection
        self.file.readline()    # the greeting
        self.execute("qmp_capabilities")

    def execute(self, command, **arguments):
        """What the command returns."""
        if not self.file:
            self.open()
        self.file.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.file.flush()
        while True:
            said = json.loads(self.file.readline())
            if "error" in said:
                raise Refused(f"{command}: {said['error']['desc']}")
            if "return" in said:    # and no event
                return said["return"]

    def human(self, line):
        """A command of the monitor for people."""
        said = self.execute("human-monitor-command", **{"command-line": line})
        if "rror" in said:
            raise Refused(f"{line}: {said.strip()}")
        return said

    def fault(self, nic, word):
        self.execute("qom-set", path=f"/machine/peripheral/nic{nic}", property="fault", value=word)

    def close(self):
        if self.file:
            self.file.close()
