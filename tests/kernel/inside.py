#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Runs cases inside a guest; lane.py is the other end.

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
import sys
import tempfile
import time
import traceback

import cases
from shiftlab.lab import Stuck

from rig import Failed, Rails, Rig, Skipped, device, rails, run

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
                    self.port = open(device, "wb", buffering=0)     # pylint: disable=consider-using-with
                    return
        raise RuntimeError(f"no virtio port {PORT}")

    def tell(self, **what):
        self.port.write(json.dumps(what).encode() + b"\n")


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
        json.dump((fate, text, rig.rails.touched, rig.rails.cm), f)
    os._exit(0)


def ended(pid, seconds):
    """Waits for a child; None if it did not end in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return True
        time.sleep(0.02)
    return None


def leftovers():
    """Queue pairs of programs that still exist, by rdma's list; the kernel's own have no process."""
    return re.findall(r"^link (\S+) .*pid (\d+) comm (\S+)", run("rdma", "resource", "show", "qp", fine=False), re.M)


class Lane:
    def __init__(self, order, host):
        self.order, self.host = order, host
        self.top = tempfile.mkdtemp(prefix="lane-", dir="/run")
        self.served = order["served"] or None
        self.why = ""

    def rig(self, case):
        folder = os.path.join(self.top, case.name)
        os.mkdir(folder)
        return Rig(self.order, folder, lambda text: self.host.tell(says=text))

    def serves(self):
        """Would SHIFT protect connections on rxe? doctor's last line, and whether it says yes."""
        if self.served is None:
            folder = tempfile.mkdtemp(dir=self.top)
            said = Rig(self.order, folder, None).doctor().strip()
            verdict = said.splitlines()[-1]
            self.served = verdict.startswith("Would be protected:") and device("a") in verdict
            why = re.search(rf"^{device('a')} +NO .*; (.*)$", said, re.M)
            self.why = "doctor: " + (why[1] if why else verdict)
        return self.served

    def why_not(self, case):
        """Why a case cannot be run; None."""
        missing = case.lacks()
        if missing:
            return f"no {missing} here"
        if not case.engine or self.serves():
            return None
        return f"no engine of SHIFT's serves rxe ({self.why})"

    def run_one(self, case):
        """Of a case in a process of its own: (fate, text, is something to be cleaned, and the devices to be made anew)"""
        why = self.why_not(case)
        if why:
            return "skipped", why, False, False
        rig = self.rig(case)
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
            return "failed", f"not done within {self.order['limit']:g} s", True, True
        return tuple(json.loads(said)) if said else ("failed", "it ended without a result", True, True)

    def clean(self, anew):
        """None, or what a case has left behind that the next one would trip over."""
        for _ in range(GRACE_S * 4):
            left = leftovers()
            if not left:
                break
            time.sleep(0.25)
        else:
            return f"queue pairs are left: {left}"
        try:
            Rails(self.order["rails"]).heal(anew)
        except (Failed, Stuck) as e:
            return f"the rails do not come back: {e}"
        return None

    def run_all(self):
        for name in self.order["cases"]:
            self.host.tell(begins=name)
            began = time.monotonic()
            fate, text, touched, cm = self.run_one(cases.CASES[name])
            self.host.tell(ends=name, fate=fate, text=text, seconds=time.monotonic() - began)
            failed = fate == "failed"
            unclean = self.clean(cm or failed) if touched or failed else None
            if unclean:
                self.host.tell(unclean=unclean)
                return
        self.host.tell(finished=True)


def only_drivers():
    """libibverbs loads every provider there is in each program: a second under emulation. These two have devices."""
    for path in glob.glob("/etc/libibverbs.d/*.driver"):
        if os.path.basename(path) not in ("rxe.driver", "mlx5.driver"):
            os.unlink(path)


def shell(order):
    """A person at the console."""
    print(f"\nrails of soft-RoCE: {' '.join(sorted(Rails(order['rails']).active()))}; GID index 1\n"
          f"SHIFT: {order['build']}/bin/shiftctl run -- COMMAND\n"
          "files of the host are read-only beneath what is written here; exit ends the guest\n", flush=True)
    subprocess.run(["setsid", "--ctty", "--wait", "bash", "-i"], check=False)


def main():
    with open("/proc/cmdline", encoding="ascii") as f:
        number = re.search(r"lane\.number=(\d+)", f.read())[1]
    with open(os.path.join(OUT, f"order-{number}.json"), encoding="utf-8") as f:
        order = json.load(f)
    only_drivers()
    rails("add", order["rails"])
    if order["shell"]:
        shell(order)
        return 0
    host = Host()
    cases.load()
    found = Rails(order["rails"]).active()
    host.tell(ready=f"Linux {os.uname().release}, {len(found)} rxe devices", uptime=time.monotonic())
    Lane(order, host).run_all()
    return 0


if __name__ == "__main__":
    sys.exit(main())
