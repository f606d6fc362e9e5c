#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Programs that bring libibverbs and libmlx5 under names of their own, as auditwheel makes them for
Python wheels: loaded at run time, or linked. Under shiftctl run they are protected, and live through a
fault; loaded in ways that cannot protect them, they are told so, by a warning and a line of status.

  renamed.py --build DIR [CASE...]
"""
import os
import re
import subprocess
import sys
import time

from shiftlab.lab import Shift, cases_main, wait_for
from shiftlab.perftest import SOON, Failed

QPS = 3
NOBODY, STAYS = 3, 4    # exit statuses of shiftctl drain
# As long as the names that they take the place of: they are exchanged in the files' tables.
VERBS, VERBS_COPY = b"libibverbs.so.1", b"libibverbs-9f.1"
MLX5, MLX5_COPY = b"libmlx5.so.1", b"libmlx5-9f3c"
NOT_OURS = "it belongs to another libibverbs than the one under SHIFT"
CASES = {
    "loaded": ("wheel", "shiftctl"),
    "loaded_preload": ("wheel", "preload"),
    "linked": ("wheel_linked", "shiftctl"),
    "linked_preload": ("wheel_linked", "preload"),
    "loaded_path": ("wheel", "path"),
    "linked_path": ("wheel_linked", "path"),
    "without": ("wheel", None),
}


def renamed(source, target):
    """A copy that needs, and is, the renamed libraries."""
    with open(source, "rb") as f:
        text = f.read()
    for name, copy in ((VERBS, VERBS_COPY), (MLX5, MLX5_COPY)):
        text = text.replace(name + b"\0", copy + b"\0")
    if VERBS_COPY not in text:
        raise Failed(f"{source} does not name {VERBS.decode()}")
    with open(target, "wb") as f:
        f.write(text)
    os.chmod(target, 0o755)


def installed(name):
    """The file behind a library of this machine, as the loader finds it."""
    with os.popen("/sbin/ldconfig -p") as f:
        found = re.search(rf"^\s*{re.escape(name)} .*=> (\S+)$", f.read(), re.M)
    if not found:
        raise Failed(f"this machine has no {name}")
    return os.path.realpath(found.group(1))


def wheel(lab):
    """The folder of the wheel's libraries and programs."""
    folder = os.path.join(lab.folder, "wheel.libs")
    os.mkdir(folder)
    distro = os.path.realpath(os.path.join(lab.out, "lib", "shift", "libibverbs-distro.so.1"))
    renamed(distro, os.path.join(folder, VERBS_COPY.decode()))
    renamed(installed(MLX5.decode()), os.path.join(folder, MLX5_COPY.decode()))
    for kind, name in (("lib", "wheel_module.so"), ("bin", "wheel_linked")):
        renamed(os.path.join(lab.out, kind, name), os.path.join(folder, name))
    return folder


def start(lab, program, way):
    folder = wheel(lab)
    argv = [os.path.join(folder, program)]
    if program == "wheel":
        argv = [os.path.join(lab.out, "bin", program), os.path.join(folder, "wheel_module.so")]
    shift = Shift(way, log="info", **SOON) if way else None
    return lab.start("h0", argv, "wheel", shift, stdin=True, env={"LD_LIBRARY_PATH": folder})


def status(lab, *args):
    """shiftctl on the host itself, whose devices it sees."""
    argv, env = lab.command("h0", [os.path.join(lab.out, "bin", "shiftctl"), *args], "status")
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)


def await_moved(lab, program, source, target):
    pattern = re.compile(rf"QP (0x\w+) moved from {source} to {target}")

    def moved():
        if not program.running():
            raise Failed("the program ended")
        return len(set(pattern.findall(lab.shift_log(program)))) >= QPS

    wait_for(f"move of all queue pairs from {source} to {target}", moved, 30)


def maps_renamed(program):
    """The program has mapped the copies, so the case tries what it says."""
    with open(f"/proc/{program.pid}/maps", encoding="ascii") as f:
        maps = f.read()
    return all(name.decode() in maps for name in (VERBS_COPY, MLX5_COPY))


def end(program):
    program.say("end")
    if program.wait(60):
        raise Failed(f"ended with {program.process.returncode}")
    if not re.search(r"OK [1-9]\d* [1-9]\d* [1-9]\d*, [1-9]", program.out()):
        raise Failed("some connection carried nothing")


def run_protected(lab, program):
    wait_for("protection", lambda: lab.protected(program) >= QPS, 30)
    if not maps_renamed(program):
        raise Failed("the renamed libraries are not in the program")
    if "its engine is mlx5" not in lab.shift_log(program):
        raise Failed("the ring engine does not drive it")
    lab.fault("port-down", "h0/mlx5_0")
    await_moved(lab, program, "mlx5_0", "mlx5_1")
    time.sleep(0.2)
    lab.ctl("heal", "h0/mlx5_0")
    await_moved(lab, program, "mlx5_1", "mlx5_0")
    end(program)


def run_refused(lab, program):
    """Told loudly; and the program runs as it would without SHIFT."""
    wait_for("warning", lambda: NOT_OURS in lab.shift_log(program), 30)
    if not re.search(r"^shift: warn.*mlx5_0 is foreign", lab.shift_log(program), re.M):
        raise Failed("no warning says that the device is foreign")
    wait_for("line of status", lambda: re.search(
        rf"mlx5_0 +NOT protected: {re.escape(NOT_OURS)}", status(lab, "status").stdout), 20)
    end(program)
    if lab.protected(program):
        raise Failed("it was protected")


def run_not_reached(lab, program):
    """SHIFT has no part in it; shiftctl sees that by the kernel alone, and a drain does not forget it."""
    wait_for("traffic", lambda: "CONNECTED" in program.out(), 30)
    told = status(lab, "status")
    if not re.search(rf"^{program.pid} .*\n  mlx5_0 +NOT reached: it uses {VERBS_COPY.decode()}; "
                     "start it by shiftctl run", told.stdout, re.M):
        raise Failed(f"no line of status says it: {told}")
    drained = status(lab, "drain", "mlx5_0")
    if drained.returncode != STAYS or f"{program.pid}: uses mlx5_0 past SHIFT" not in drained.stdout:
        raise Failed(f"a drain took the NIC for free: {drained}")
    other = status(lab, "drain", "mlx5_1")
    if other.returncode != NOBODY:
        raise Failed(f"a drain of the other NIC found somebody: {other}")
    end(program)
    if status(lab, "drain", "mlx5_0").returncode != NOBODY:
        raise Failed("it is gone, and a drain found it")


def run(lab, name):
    program = start(lab, *CASES[name])
    if name == "linked_preload":
        run_refused(lab, program)
    elif CASES[name][1] in ("path", None):
        run_not_reached(lab, program)
    else:
        run_protected(lab, program)


if __name__ == "__main__":
    sys.exit(cases_main(CASES, run))
