# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Runs cases inside a guest; shiftlab.guest.lane is the other end.

What to do is in OUT/order-NUMBER.json, the number on the kernel's command line (lane.number). What happens goes to the
host as lines of JSON, over a virtio port; the logs of a case that failed go to OUT/NAME/. A case has a process of its
own, so that one that hangs can be ended.
"""
import glob
import json
import os
import re
import signal
import subprocess
import tempfile
import time
import traceback

from shiftlab.guest.cases import CASES, Failed, Skipped
from shiftlab.lab import Stuck

OUT = "/run/out"
PORT = "lane"
GRACE_S = 5         # for a case's programs to end
FATES = {Failed: "failed", Stuck: "failed", Skipped: "skipped"}


class Host:
    """Tells what happens, a line each."""

    def __init__(self):
        for name in glob.glob("/sys/class/virtio-ports/*/name"):
            with open(name, encoding="ascii") as f:
                if f.read().strip() == PORT:
                    device = "/dev/" + os.path.basename(os.path.dirname(name))
                    self.port = open(device, "r+b", buffering=0)    # pylint: disable=consider-using-with
                    return
        raise RuntimeError(f"no virtio port {PORT}")

    def tell(self, **what):
        self.port.write(json.dumps(what).encode() + b"\n")

    def ask(self, **what):
        """What the host answers. Nobody else reads the port meanwhile."""
        self.tell(ask=what)
        return self.hear()["answer"]

    def hear(self):
        """The next line of the host."""
        line = b""
        while not line.endswith(b"\n"):
            line += self.port.read(1) or b""
        return json.loads(line)


def result_of(case, rig):
    """(fate, what is said of it) of a case that is run here and now."""
    try:
        return "passed", case.run(rig) or ""
    except tuple(FATES) as e:
        return FATES[type(e)], str(e)
    except Exception:       # pylint: disable=broad-except
        return "failed", traceback.format_exc().strip()
    finally:
        rig.end()


def child(case, rig, pipe):
    """The case's process: the result goes into the pipe."""
    os.setpgid(0, 0)
    fate, text = result_of(case, rig)
    if fate == "failed":
        rig.keep(os.path.join(OUT, case.name))
    with os.fdopen(pipe, "w") as f:
        json.dump((fate, text, rig.left()), f)
    os._exit(0)


def ended(pid, seconds):
    """Waits for a child; None if it did not end in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return True
        time.sleep(0.02)
    return None


class Runner:
    """Runs the order's cases. A lane of its own says how a case's rig is made, and what is cleaned behind it."""

    def __init__(self, order, host):
        self.order, self.host = order, host
        self.top = tempfile.mkdtemp(prefix="lane-", dir="/run")

    def rig(self, case, folder):
        """A Rig for the case."""
        raise NotImplementedError

    def clean(self, left, failed):
        """
        None, or what a case has left behind that the next one would trip over. left: what the rig says of itself;
        None where it could not.
        """

    def why_not(self, case):
        """Why a case cannot be run; None."""
        missing = case.lacks()
        return f"no {missing} here" if missing else None

    def run_one(self, case):
        """Of a case in a process of its own: (fate, text, what clean() is told); the last is None if it cannot be told."""
        why = self.why_not(case)
        if why:
            return "skipped", why, {}
        folder = os.path.join(self.top, case.name)
        os.mkdir(folder)
        rig = self.rig(case, folder)
        ours, theirs = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(ours)
            child(case, rig, theirs)
        os.close(theirs)
        in_time = ended(pid, self.order["limit"])
        if not in_time:
            rig.keep(os.path.join(OUT, case.name))
            os.killpg(pid, signal.SIGKILL)
            if not ended(pid, GRACE_S):
                self.host.tell(says=f"{case.name} cannot be ended")
        with os.fdopen(ours) as f:
            said = f.read() if in_time else ""
        if not in_time:
            return "failed", f"not done within {self.order['limit']:g} s", None
        return tuple(json.loads(said)) if said else ("failed", "it ended without a result", None)

    def run_all(self):
        for name in self.order["cases"]:
            self.host.tell(begins=name)
            began = time.monotonic()
            fate, text, left = self.run_one(CASES[name])
            self.host.tell(ends=name, fate=fate, text=text, seconds=time.monotonic() - began)
            unclean = self.clean(left, fate == "failed")
            if unclean:
                self.host.tell(unclean=unclean)
                return
        self.host.tell(finished=True)


def order_of_boot():
    """What this boot is to do."""
    with open("/proc/cmdline", encoding="ascii") as f:
        number = re.search(r"lane\.number=(\d+)", f.read())[1]
    with open(os.path.join(OUT, f"order-{number}.json"), encoding="utf-8") as f:
        return json.load(f)


def only_drivers():
    """libibverbs loads every provider there is in each program: a second under emulation. These two have devices."""
    for path in glob.glob("/etc/libibverbs.d/*.driver"):
        if os.path.basename(path) not in ("rxe.driver", "mlx5.driver"):
            os.unlink(path)


def shell(words):
    """A person at the console."""
    print(f"\n{words}\nfiles of the host are read-only beneath what is written here; exit ends the guest\n", flush=True)
    subprocess.run(["setsid", "--ctty", "--wait", "bash", "-i"], check=False)
