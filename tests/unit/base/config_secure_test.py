#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A setuid copy of config_secure_test, run by another user with a hostile environment, believes none
of it; the same program without the bit believes all.

usage: config_secure_test.py PROGRAM
"""
import os
import shutil
import subprocess
import sys
import tempfile

NOBODY = 65534
HOSTILE = {"SHIFT_KV": "redis://evil:1", "SHIFT_KV_PASSWORD_FILE": "/evil/p",
           "SHIFT_SECRET_FILE": "/evil/s", "SHIFT_BACKUP": "evil=evil", "SHIFT_JOB": "evil",
           "SHIFT_STATS": "/evil/stats", "SHIFT_RUN_DIR": "/evil/run", "SHIFT_LOG": "debug",
           "SHIFT_KV_TIMEOUT_MS": "77"}
FIELDS = {"kv": "SHIFT_KV", "password": "SHIFT_KV_PASSWORD_FILE", "secret": "SHIFT_SECRET_FILE",
          "backup": "SHIFT_BACKUP", "job": "SHIFT_JOB", "stats": "SHIFT_STATS",
          "run_dir": "SHIFT_RUN_DIR", "timeout": "SHIFT_KV_TIMEOUT_MS"}


def run(program, log):
    got = subprocess.run([program], env={**HOSTILE, "SHIFT_LOG_FILE": log}, text=True,
                         capture_output=True, check=True, user=NOBODY, group=NOBODY,
                         extra_groups=[])
    return dict(line.split("=", 1) for line in got.stdout.splitlines())


def main():
    if os.geteuid():
        print("skipped: only root can make a file of another user setuid")
        return 77
    folder = tempfile.mkdtemp(prefix="shift-secure-")
    try:
        os.chmod(folder, 0o755)
        plain, setuid = (os.path.join(folder, name) for name in ("plain", "setuid"))
        for path in (plain, setuid):
            shutil.copy(sys.argv[1], path)
            os.chmod(path, 0o755)
        os.chmod(setuid, 0o4755)
        log = os.path.join(folder, "log")
        HOSTILE["XDG_RUNTIME_DIR"] = os.path.join(folder, "xdg")     # one that is there, and theirs to write to
        os.mkdir(HOSTILE["XDG_RUNTIME_DIR"])
        os.chmod(HOSTILE["XDG_RUNTIME_DIR"], 0o777)
        believed = run(plain, log)
        assert believed["secure"] == "0", believed
        for field, variable in FIELDS.items():
            assert believed[field] == HOSTILE[variable], (field, believed)
        assert believed["runtime"] == HOSTILE["XDG_RUNTIME_DIR"] + "/shift" and believed["debug"] == "1", believed
        believed = run(setuid, log)
        if believed["secure"] == "0":
            print("skipped: this file system does not know setuid")
            return 77
        for field in FIELDS:
            assert believed[field] in ("", "1000"), (field, believed)
        assert believed["runtime"] == "/tmp/shift-4711" and believed["debug"] == "0", believed
        assert not os.path.exists(log), "the log went to a file of the user's choice"
        print("a setuid program ignores", ", ".join(sorted(HOSTILE)))
        return 0
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
