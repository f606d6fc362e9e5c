#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The wheel in fresh virtual environments: installed by root, used by somebody else, who cannot write there. A stock
ib_write_bw under shiftrun, on the wheel's own software NICs, outlives a dead port.

usage: wheel_test.py --build BUILD | --wheel FILE [PYTHON...]     default: the Python that runs this
"""
import argparse
import glob
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NOBODY = 65534
PATIENCE_S = 60
KEEP = ("PATH", "LANG")


class Failed(Exception):
    pass


def check(well, what):
    if not well:
        raise Failed(what)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def become_nobody():
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def user_of(python):
    """Nobody, where we may be anybody and nobody may run this Python."""
    if os.geteuid() != 0:
        return os.geteuid()
    try:
        subprocess.run([python, "-c", ""], preexec_fn=become_nobody, check=True, cwd="/")
    except (PermissionError, subprocess.CalledProcessError):
        print(f"note: nobody but root may run {python}, so root is the user")
        return 0
    return NOBODY


class Venv:
    """A virtual environment with the wheel, and a user of it."""

    def __init__(self, python, wheel, folder):
        self.folder, self.home = os.path.join(folder, "venv"), os.path.join(folder, "home")
        self.bin = os.path.join(self.folder, "bin")
        self.uid = user_of(python)
        whole = subprocess.run([python, "-c", "import ensurepip"], capture_output=True, check=False).returncode == 0
        subprocess.run([python, "-m", "venv", *([] if whole else ["--without-pip"]), self.folder], check=True)
        pip = [self.at("python"), "-m", "pip"] if whole else [sys.executable, "-m", "pip", "--python", self.at("python")]
        subprocess.run([*pip, "--disable-pip-version-check", "install", "--quiet", "--no-index", wheel], check=True,
                       stderr=subprocess.DEVNULL)
        os.mkdir(self.home)
        self.tmp = os.path.join(folder, "tmp")
        os.mkdir(self.tmp)
        for mine in (self.home, self.tmp):
            os.chown(mine, self.uid, -1)
            os.chmod(mine, 0o700)
        self.fabric = f"wheel-{os.getpid()}"

    def at(self, name):
        return os.path.join(self.bin, name)

    def env(self, **more):
        return {**{k: os.environ[k] for k in KEEP if k in os.environ}, "HOME": self.home, "TMPDIR": self.tmp,
                "SIMNIC_FABRIC": self.fabric, "SHIFT_RUN_DIR": self.tmp, **more}

    def become(self):
        if self.uid != os.geteuid():
            become_nobody()

    def run(self, *argv, well=True, **env):
        """stdout and stderr of a program of the environment, run by its user."""
        done = subprocess.run([self.at(argv[0]), *argv[1:]], env=self.env(**env), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, preexec_fn=self.become, timeout=PATIENCE_S,
                              cwd=self.tmp, check=False)
        check(not well or not done.returncode, f"{' '.join(argv)} ended with {done.returncode}: {done.stdout}")
        return done.stdout

    def start(self, name, *argv, **env):
        with open(os.path.join(self.tmp, name), "w", encoding="utf-8") as out:
            process = subprocess.Popen([self.at(argv[0]), *argv[1:]], env=self.env(**env), stdout=out, stderr=out,
                                       preexec_fn=self.become, cwd=self.tmp)
        process.out = out.name
        return process

    def links(self):
        return glob.glob(os.path.join(self.home, ".cache/shift-rdma/links-*"))


def await_word(process, pattern):
    end = time.monotonic() + PATIENCE_S
    while True:
        with open(process.out, encoding="utf-8") as f:
            text = f.read()
        if re.search(pattern, text):
            return
        check(process.poll() is None and time.monotonic() < end, f"no \"{pattern}\" in: {text}")
        time.sleep(0.02)


def await_listening(process, port):
    """ib_write_bw takes one connection: it is not tried out, but looked for."""
    end, entry = time.monotonic() + PATIENCE_S, f":{int(port):04X} "
    while True:
        with open("/proc/net/tcp", encoding="utf-8") as f, open("/proc/net/tcp6", encoding="utf-8") as f6:
            lines = f.readlines() + f6.readlines()
        if any(line.split()[1].endswith(entry.strip()) and line.split()[3] == "0A" for line in lines):
            return
        check(process.poll() is None and time.monotonic() < end, f"nobody listens at {port}")
        time.sleep(0.02)


def commands(venv):
    said = venv.run("shiftctl", "version")
    check(f"{venv.home}/.cache/shift-rdma/links-" in said and "libibverbs" in said, said)
    said = venv.run("python", "-m", "shift", "doctor", well=False)
    check("libibverbs-distro" in said or "ok" in said, said)
    check(len(venv.links()) == 1, f"{venv.links()}: not one folder of links")
    target = os.readlink(os.path.join(venv.links()[0], "libibverbs-distro.so.1"))
    check(target.endswith("/libibverbs.so.1"), f"{target} is gone with the next upgrade of the system's package")
    said = venv.run("shiftrun", "--help")
    check(said.startswith("usage: shiftctl run"), said)
    for name in ("shiftrun", "shiftctl", "simnicctl"):
        for option in ("--version", "-V"):
            said = venv.run(name, option)
            check(re.fullmatch(rf"{name} \d+\.\d+\.\d+\n?", said), said)
    said = venv.run("shiftrun", "--", "env")
    check("/shift/libibverbs.so.1" in said or "/libibverbs.so.1" in re.search("LD_PRELOAD=.*", said).group(), said)
    check("LD_LIBRARY_PATH=" + venv.links()[0] in said, said)
    for page in ("man1/shiftctl.1", "man7/shift.7"):
        check(os.path.exists(os.path.join(venv.folder, "share/man", page)), page)


ENVIRON = """
import os, subprocess, shift
before = dict(os.environ)
made = shift.environ(kv="redis://127.0.0.1:1", log="info")
assert os.environ == before, "the environment of this process has changed"
assert made["SHIFT_KV"] == "redis://127.0.0.1:1" and made["SHIFT_LOG"] == "info", made
assert made["HOME"] == before["HOME"] and shift.libdir() in made["LD_LIBRARY_PATH"], made
maps = subprocess.run(["cat", "/proc/self/maps"], env=made, stdout=subprocess.PIPE, check=True).stdout
assert b"shift/_files/lib/shift/libibverbs.so.1" in maps, maps
wanted = {"NCCL_PROTO": "^LL128", "UCX_TLS": "^rc_x,dc_x,ud_x,ud_mlx5:aux", "UCX_IB_MLX5_DEVX": "n"}
assert wanted.items() <= made.items(), made
assert not {"NCCL_PROTO", "UCX_TLS"} & shift.environ(no_env=True).keys()
assert shift.environ({**before, "UCX_TLS": "rc"}, ll128=True)["UCX_TLS"] == "rc"
assert "NCCL_PROTO" not in shift.environ(ll128=True)
twice = shift.environ(made)
assert twice["LD_PRELOAD"] == made["LD_PRELOAD"], twice
try:
    shift.environ(kv="bogus")
except shift.Error as error:
    assert "no KV address" in str(error), error
else:
    raise AssertionError("a wrong address is taken")
print("well")
"""


def environment(venv):
    check(venv.run("python", "-c", ENVIRON).strip() == "well", "shift.environ()")


SIMNIC = """
import importlib.metadata, simnic
with simnic.fabric(hosts=2, nics=1) as f:
    argv = ["ibv_rc_pingpong", "-d", "mlx5_0", "-g", "0", "-n", "10", "-p", str(simnic.free_port())]
    server = f.start("h0", *argv)
    server.await_port(int(argv[-1]))
    assert "10 iters" in f.run("h1", *argv, "127.0.0.1").stdout
    server.wait()
    f.fault("port-down", "h0/mlx5_0")
    assert not f.nic("h0/mlx5_0")["port_up"]
plugins = importlib.metadata.entry_points()     # a dict until Python 3.9
plugins = plugins.select(group="pytest11") if hasattr(plugins, "select") else plugins["pytest11"]
assert ("simnic", "simnic._pytest") in [(p.name, p.value) for p in plugins], plugins
print("well")
"""


def fabric_of_python(venv):
    """The package simnic, with the wheel's simnicctl alone: no other is in PATH."""
    said = venv.run("python", "-c", SIMNIC, PATH="/usr/bin:/bin")
    check(said.strip() == "well", said)


def other_places(venv):
    """A home that is not there; and a folder in the way, of somebody else."""
    said = venv.run("shiftctl", "version", HOME="/proc/none")
    check(f"{venv.tmp}/shift-rdma-{venv.uid}/links-" in said, said)
    shutil.rmtree(os.path.join(venv.tmp, f"shift-rdma-{venv.uid}"))
    os.mkdir(os.path.join(venv.tmp, f"shift-rdma-{venv.uid}"))
    os.chmod(os.path.join(venv.tmp, f"shift-rdma-{venv.uid}"), 0o777)
    said = venv.run("shiftctl", "version", well=False, HOME="/proc/none")
    check("not a directory of yours alone" in said, said)


def fault(venv):
    """A port dies under ib_write_bw, which notices nothing."""
    port = str(free_port())
    bw = ("shiftrun", "--log", "info", "--", "ib_write_bw", "-d", "mlx5_0", "-D", "8", "-p", port, "-F")
    venv.run("simnicctl", "create")
    try:
        server = venv.start("server", "simnicctl", "run", "--host", "h0", "--", venv.at(bw[0]), *bw[1:])
        await_listening(server, port)
        client = venv.start("client", "simnicctl", "run", "--host", "h1", "--", venv.at(bw[0]), *bw[1:], "127.0.0.1")
        await_word(client, "is protected by mlx5_1")
        venv.run("simnicctl", "fault", "port-down", "h1/mlx5_0")
        await_word(client, "moved from mlx5_0 to mlx5_1")
        for process in (client, server):
            with open(process.out, encoding="utf-8") as f:
                check(process.wait(PATIENCE_S) == 0, f"ended with {process.returncode}: {f.read()}")
    finally:
        for name in ("server", "client"):
            process = locals().get(name)
            if process and process.poll() is None:
                process.send_signal(signal.SIGKILL)
        venv.run("simnicctl", "destroy", well=False)


PLUGIN = """
import ctypes, shift
ctypes.CDLL(shift.nccl_net_plugin()).ncclNetPlugin_v11
print("well")
"""


def nccl(venv):
    """The plugin for NCCL finds libsdr beside it, and so does sdr_perf."""
    check(venv.run("python", "-c", PLUGIN).strip() == "well", "shift.nccl_net_plugin()")
    check("worth it" in venv.run("sdr_perf", "model", "--nccl", "--rate", "10G", "--rtt", "25ms", "--loss", "1e-3"), "sdr_perf")


def parts():
    found = [commands, environment, nccl, other_places, fabric_of_python]
    return found + [fault] if shutil.which("ib_write_bw") else found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--build", help="its wheel is made")
    source.add_argument("--wheel", metavar="FILE")
    parser.add_argument("python", nargs="*", default=[sys.executable])
    args = parser.parse_args()
    failed = tried = 0
    with tempfile.TemporaryDirectory(prefix="shift-wheel-") as folder:
        os.chmod(folder, 0o755)
        wheel = args.wheel or subprocess.run(
            [sys.executable, os.path.join(ROOT, "scripts/make-wheel.py"), args.build, folder], check=True,
            stdout=subprocess.PIPE, text=True).stdout.strip()
        for n, python in enumerate(args.python):
            tried += 1
            os.mkdir(os.path.join(folder, str(n)))
            venv = Venv(python, wheel, os.path.join(folder, str(n)))
            for part in parts():
                try:
                    part(venv)
                    print(f"ok     {python} {part.__name__}")
                except Failed as error:
                    failed += 1
                    print(f"FAILED {python} {part.__name__}: {error}")
    return 1 if failed else 0 if tried else 77


if __name__ == "__main__":
    sys.exit(main())
