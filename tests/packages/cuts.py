# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A package manager that is killed, with all its children, right before a change of a name (cut.c)."""
import os
import subprocess
import sys


def cut(command, library, counter, at=None):
    """Runs it, to be killed before the at-th change. (killed, changes)"""
    with open(counter, "r+b" if os.path.exists(counter) else "wb") as f:
        f.write(bytes(8))
    env = dict(os.environ, LD_PRELOAD=library, CUT_FILE=counter)
    if at:
        env["CUT_AT"] = str(at)
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, start_new_session=True)
    with open(counter, "rb") as f:
        count = int.from_bytes(f.read(8), sys.byteorder)
    if done.returncode not in ((0, -9) if at else (0,)):
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout.decode()}")
    return done.returncode == -9, count
