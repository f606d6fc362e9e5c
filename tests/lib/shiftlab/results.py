# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What a benchmark writes: its figures, and on what they were taken."""
import json
import os
import platform
import re
import subprocess
import sys
import time

ROOT = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "..")
DEVICE = "software ConnectX (simnic), not hardware"


def _said(*argv):
    try:
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=20, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if not done.returncode else ""


def _cpu():
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as f:
        found = re.search(r"^(?:model name|Model|cpu model)\s*:\s*(.*)$", f.read(), re.M)
    return found.group(1).strip() if found else platform.machine()


def _version():
    with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as f:
        return re.search(r"project\(shift VERSION ([\d.]+)", f.read()).group(1)


def about():
    """The machine and the versions, of this moment."""
    return {"cpu": _cpu(), "cores": os.cpu_count(), "kernel": platform.release(), "device": DEVICE,
            "shift": _version(), "commit": _said("git", "describe", "--always", "--dirty"),
            "rdma_core": _said("dpkg-query", "-W", "-f", "${Version}", "libibverbs1"),
            "load": os.getloadavg()[0],
            "when": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())}


def save(out, name, results):
    """Into the file OUT/name, beside what it was taken on."""
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, name), "w", encoding="utf-8") as f:
        json.dump(dict(results, about=about()), f, indent=1)
        f.write("\n")


def run_plot(script, *args):
    """By the Python that has matplotlib: the distribution's, if this is another one."""
    for python in (sys.executable, "/usr/bin/python3"):
        if not subprocess.run([python, "-c", "import matplotlib"], stderr=subprocess.DEVNULL,
                              check=False).returncode:
            subprocess.run([python, script, *args], check=True)
            return
    raise SystemExit("no picture: install python3-matplotlib")
