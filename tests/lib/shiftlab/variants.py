# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Builds of the drop-in that differ on purpose (tests/e2e/variants.cmake)."""
import os
import subprocess

from shiftlab.lab import out_folder


def variant(build, name):
    """Makes one that is not there yet, or is not up to date; its folder."""
    out = out_folder(build)
    argv = ["ninja", "-C", os.path.dirname(out), "dropin_" + name]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)} failed\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return os.path.join(out, "variants", name)
