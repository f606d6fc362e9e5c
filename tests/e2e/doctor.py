#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The verdict of shiftctl doctor, and of shiftctl run --require, against what then happens: a program in the
same environment, with the same limits, is protected or not.

  doctor.py --build DIR [CASE...]
"""
import os
import subprocess
import sys

from shiftlab.lab import Shift, cases_main, wait_for
from shiftlab.perftest import SOON, Failed

QPS = 3
MEMORY = "768K"     # what within registers: 256 KiB for each of its connections
LOCKED_AT_ALL = 2 * 400 + 2 * 768       # KiB, on a NIC and its backup
UNCHANGED, SKIPPED, NOT_STARTED = {}, 77, 125


def limit(name, value):
    return [f"--{name}={value}:{value}"]


def memlock(kib):
    return {"limits": limit("memlock", kib << 10), "env": {"SIMNIC_MEMLOCK": "1"}}


def setting(**env):
    return {"env": env}


# What is different from a host with four NICs where all is well, and words of what doctor must say.
CASES = {
    "plain": {},
    "memlock_1m": memlock(1024),
    "memlock_2m": memlock(2048),
    "memlock_4m": memlock(4096),
    "memlock_5m": memlock(5120),
    "memlock_5300k": memlock(5300),
    "memlock_5500k": memlock(5632),
    "memlock_6m": memlock(6144),
    "memlock_a_page_short": memlock(LOCKED_AT_ALL - 80),
    "memlock_just_enough": memlock(LOCKED_AT_ALL + 80),
    "memlock_8m": memlock(8192),
    "memlock_7m": memlock(7168),
    "memlock_spread_5m": {**memlock(5000), "env": {"SIMNIC_MEMLOCK": "1", "SHIFT_BACKUP": "spread"}},
    "memlock_spread_8m": {**memlock(8192), "env": {"SIMNIC_MEMLOCK": "1", "SHIFT_BACKUP": "spread"}},
    "files_24": {"limits": limit("nofile", 24), "words": "descriptors is below 512"},
    "files_64": {"limits": limit("nofile", 64), "words": "descriptors is below 512"},
    "files_24_of_4096": {"limits": ["--nofile=24:4096"]},
    "files_511": {"limits": limit("nofile", 511), "words": "descriptors is below 512"},
    "files_512": {"limits": limit("nofile", 512)},
    "addresses_4g": {"limits": limit("as", 4 << 30), "words": "16 GiB"},
    "addresses_64g": {"limits": limit("as", 64 << 30)},
    "disabled": {**setting(SHIFT_DISABLE="1"), "words": "SHIFT_DISABLE=1"},
    "not_disabled": setting(SHIFT_DISABLE="0"),
    "signatures": {**setting(MLX5_SRQ_SIGNATURE="1"), "words": "MLX5_SRQ_SIGNATURE"},
    "gray_bogus": {**setting(SHIFT_GRAY="bogus"), "words": "SHIFT_GRAY='bogus'"},
    "log_negative": {**setting(SHIFT_WQE_LOG="-5"), "words": "SHIFT_WQE_LOG='-5'"},
    "beat_text": {**setting(SHIFT_HEARTBEAT_MS="fast"), "words": "SHIFT_HEARTBEAT_MS='fast'"},
    "atomics_bogus": {**setting(SHIFT_ATOMICS="some"), "words": "SHIFT_ATOMICS='some'"},
    "unknown": {**setting(SHIFT_BACKUPS="mlx5_0=mlx5_1"), "words": "no setting SHIFT_BACKUPS"},
    "log_file": {**setting(SHIFT_LOG_FILE="/nowhere/log"), "words": "SHIFT_LOG_FILE=/nowhere/log"},
    "run_dir": {**setting(SHIFT_RUN_DIR="/nowhere/run"), "words": "/nowhere/run"},
    "engine_bogus": {**setting(SHIFT_ENGINE="mlx7"), "words": "SHIFT_ENGINE=mlx7"},
    "engine_ledger": setting(SHIFT_ENGINE="ledger"),
    "backup_bogus": {**setting(SHIFT_BACKUP="mlx5_0=mlx5_9"), "words": "no device mlx5_9"},
    "backup_other": {**setting(SHIFT_BACKUP="mlx5_1=mlx5_0")},
    "backup_last": {**setting(SHIFT_BACKUP="mlx5_0=mlx5_3")},
    "backup_gone": {**setting(SHIFT_BACKUP="mlx5_0=mlx5_1"), "fault": ("nic-disassociate", "h0/mlx5_1")},
    "backup_gone_of_two": {**setting(SHIFT_BACKUP="mlx5_0=mlx5_1:mlx5_2"), "fault": ("nic-disassociate", "h0/mlx5_1")},
    "backup_down": {**setting(SHIFT_BACKUP="mlx5_0=mlx5_1"), "fault": ("port-down", "h0/mlx5_1")},
    "kv_malformed": {**setting(SHIFT_KV="bogus"), "words": "bogus"},
    "kv_nobody": {**setting(SHIFT_KV="redis://127.0.0.1:1"), "words": "cannot connect"},
    "kv_folder": {**setting(SHIFT_KV="lmdb:/nowhere/kv"), "words": "/nowhere/kv"},
    "lazy": setting(SHIFT_LAZY="on"),
}


def limited(argv, case):
    """As another than root would be limited, who alone may pass such limits."""
    return ["prlimit", *case["limits"], "setpriv", "--bounding-set", "-ipc_lock", "--inh-caps", "-ipc_lock",
            *argv] if "limits" in case else argv


def shiftctl(lab, case, *args):
    argv, env = lab.command("h0", [os.path.join(lab.out, "bin", "shiftctl"), *args], "shiftctl",
                            env={"SHIFT_KV": lab.kv, **case.get("env", {})})
    return subprocess.run(limited(argv, case), env=env, capture_output=True, text=True, timeout=60, check=False)


def verdict(lab, case):
    """What doctor says of mlx5_0, the NIC that the program uses."""
    done = shiftctl(lab, case, "doctor", "--memory", MEMORY)
    last = done.stdout.strip().rsplit("\n", maxsplit=1)[-1]
    if case.get("words", "") not in done.stdout:
        raise Failed(f"doctor does not say '{case['words']}': {done.stdout}{done.stderr}")
    if done.returncode not in (0, 1) or (done.returncode == 0) != last.startswith("Would be protected"):
        raise Failed(f"exit {done.returncode}, and {last}: {done.stderr}")
    return not done.returncode and " mlx5_0" in last, done.stdout


def happens(lab, case):
    """Whether the program is protected: told by its own socket's words, or by its log where it has none."""
    env = {"SHIFT_KV": lab.kv, "SHIFT_LOG": "info", **{f"SHIFT_{k.upper()}": str(v) for k, v in SOON.items()},
           **case.get("env", {})}
    argv = [os.path.join(lab.out, "bin", "shiftctl"), "run", "--", os.path.join(lab.out, "bin", "within")]
    argv, env = lab.command("h0", argv, "within", env=env)
    if "SHIFT_LOG_FILE" not in case.get("env", {}):
        env["SHIFT_LOG_FILE"] = os.path.join(lab.folder, "shift-within.log")
    program = lab.launch("within", limited(argv, case), env, True)
    wait_for("traffic", lambda: "CONNECTED" in program.out() or not program.running(), 30)

    def protected():
        return (lab.shift_log(program) + program.err()).count(" is protected") >= QPS
    try:
        wait_for("protection", lambda: protected() or not program.running(), 6)
    except Exception:   # it is not coming
        pass
    if not program.running():
        raise Failed(f"the program ended: {program.tail()}")
    program.say("end")
    if program.wait(60):
        raise Failed(f"the program ended with {program.process.returncode}: {program.tail()}")
    return protected()


def run(lab, name):
    case = CASES[name]
    if "fault" in case:
        lab.fault(*case["fault"])
    said, text = verdict(lab, case)
    did = happens(lab, case)
    if said != did:
        raise Failed(f"doctor said {said}, and {did} is what happened: {text}")
    required = shiftctl(lab, case, "run", "--require", "--", "true")
    some = "Would be protected" in shiftctl(lab, case, "doctor").stdout
    if required.returncode != (0 if some else NOT_STARTED):
        raise Failed(f"run --require: exit {required.returncode}: {required.stderr}")


if __name__ == "__main__":
    if os.geteuid():
        print("doctor: skipped, as only root can set all these limits")
        sys.exit(SKIPPED)
    sys.exit(cases_main(CASES, run, nics=4, together=2))
