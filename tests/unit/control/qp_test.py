#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The control path between two simulated hosts, on both link layers, and on a dying NIC.

usage: qp_test.py BIN_DIRECTORY    (SHIFT_TEST_SEED=number replays)
"""
import os
import secrets
import subprocess
import sys

BIN = sys.argv[1]
COUNT = 3000
PATIENCE = 60


def simnicctl(*args):
    subprocess.run([f"{BIN}/simnicctl", *args], check=True, stdout=subprocess.DEVNULL)


class Peer:
    def __init__(self, host, *args, env=None):
        self.name = f"{host} {args[0]}"
        self.process = subprocess.Popen(
            [f"{BIN}/simnicctl", "run", "--host", host, "--", f"{BIN}/control_qp_app", *args],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        self.address = self.read()

    def read(self):
        line = self.process.stdout.readline().strip()
        if not line:
            raise SystemExit(f"{self.name}: ended early, status {self.process.wait(PATIENCE)}")
        return line

    def write(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def end(self):
        status = self.process.wait(PATIENCE)
        if status:
            raise SystemExit(f"{self.name}: status {status}")


def exchange(nic, seed):
    peers = [Peer("h0", "drive", nic, str(COUNT), str(seed)), Peer("h1", "echo", nic)]
    for peer, other in (peers, peers[::-1]):
        peer.write(other.address)
    peers[0].end()
    peers[1].process.stdin.close()
    peers[1].end()


def dies(fault):
    # On a NIC that is gone destroys fail, and what was to be destroyed stays: no leak of ours.
    options = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
    peer = Peer("h0", "dies", "mlx5_1", env={**os.environ, "ASAN_OPTIONS": options})
    peer.write(peer.address)
    assert peer.read() == "ready"
    simnicctl("fault", fault, "h0/mlx5_1")
    peer.end()
    simnicctl("heal", "all")


def main():
    seed = int(os.environ.get("SHIFT_TEST_SEED") or str(secrets.randbits(32)), 0)
    print(f"replay with SHIFT_TEST_SEED={seed}", flush=True)
    os.environ["SIMNIC_FABRIC"] = f"control-test-{os.getpid()}"
    for link_layer in ("eth", "ib"):
        simnicctl("create", "--hosts", "2", "--nics", "2", "--link-layer", link_layer)
        try:
            exchange("mlx5_0", seed)
            exchange("mlx5_1", seed)
            dies("nic-disassociate")
            dies("nic-internal-error")
        finally:
            simnicctl("destroy")
        print(f"{link_layer}: ok", flush=True)


main()
