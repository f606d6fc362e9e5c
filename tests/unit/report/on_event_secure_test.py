#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A setuid program runs no command of SHIFT_ON_EVENT, and says so; the same program without the bit does.

usage: hook_secure_test.py HOOK_ONCE
"""
import os
import shutil
import subprocess
import sys
import tempfile
import time

NOBODY = 65534


def run(program, path):
    """What it printed, and what it logged."""
    done = subprocess.run([program, f'echo "$SHIFT_EVENT_FROM" > {path}.new && mv {path}.new {path}'],
                          text=True, capture_output=True, check=True, user=NOBODY, group=NOBODY,
                          extra_groups=[], env={"PATH": "/usr/bin:/bin"})
    return done.stdout, done.stderr


def wait_for(path):
    end = time.monotonic() + 60
    while not os.path.exists(path):
        assert time.monotonic() < end, f"no {path}"
        time.sleep(0.02)
    with open(path, encoding="ascii") as f:
        return f.read()


def main():
    if os.geteuid():
        print("skipped: only root can make a file of another user setuid")
        return 77
    folder = tempfile.mkdtemp(prefix="shift-hook-")
    try:
        os.chmod(folder, 0o777)
        plain, setuid, told = (os.path.join(folder, n) for n in ("plain", "setuid", "told"))
        for path, mode in ((plain, 0o755), (setuid, 0o4755)):
            shutil.copy(sys.argv[1], path)
            os.chmod(path, mode)
        printed, logged = run(setuid, told)
        if "secure=0" in printed:
            print("skipped: this file system does not know setuid")
            return 77
        assert "more rights than its user" in logged, logged
        # It would be there before that of the program that runs it.
        printed, logged = run(plain, told + "-plain")
        assert wait_for(told + "-plain") == "mlx5_0\n"
        assert not os.path.exists(told), "a setuid program ran the command"
        print("run for a program, not for one with more rights than its user")
        return 0
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
