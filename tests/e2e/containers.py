#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Jobs in containers: in PID namespaces of their own, where all have the same process ids, with the host's
directory of sockets, or each with its own. The host's shiftctl and exporter see all of them, by their numbers
here; a drain misses none, and says by its exit status whether it found nobody or somebody stays.

The test itself runs in a PID namespace: the jobs of other tests are not its to find.

  containers.py --build DIR [CASE...]
"""
import json
import os
import re
import subprocess
import sys
import urllib.request

from shiftlab.lab import Shift, cases_main, wait_for
from shiftlab.perftest import SOON, Failed

JOBS = 4
NOBODY, STAYS, SKIPPED = 3, 4, 77
INSIDE = "CONTAINERS_INSIDE"
UNSHARE = ["unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc"]
# The containers that share the host's directory; the others have a /run of their own.
CASES = {"shared": range(JOBS), "unshared": (), "half": (0, 2)}


def must(what, ok, *context):
    if not ok:
        raise Failed(what + "".join(f"\n{c}" for c in context))


class Host:
    """The host of the containers: its directory is the default one."""

    def __init__(self, lab):
        self.lab = lab

    def shiftctl(self, *args, status=0):
        argv, env = self.lab.command("h0", [os.path.join(self.lab.out, "bin", "shiftctl"), *args], "host",
                                     env={"SHIFT_RUN_DIR": ""})
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)
        must(f"shiftctl {args}: exit {done.returncode}, not {status}", done.returncode == status, done)
        return done

    def status(self):
        return json.loads(self.shiftctl("status", "--json").stdout)


def start(lab, number, shared, shift=True):
    """A job in a container: a process with three connections to itself."""
    way = Shift(log="info", kv=f"lmdb:{lab.folder}/kv-{number}", **SOON) if shift else None
    argv, env = lab.command("h0", [os.path.join(lab.out, "bin", "within")], f"job-{number}", way,
                            env={"SHIFT_RUN_DIR": ""})
    mount = "" if shared else "mount -t tmpfs tmpfs /run; "
    return lab.launch(f"job-{number}", UNSHARE + ["sh", "-c", mount + 'exec "$@"', "sh"] + argv, env, True)


def here(program):
    """The job's number on the host: the only one below unshare that is no software NIC."""
    with open(f"/proc/{program.pid}/task/{program.pid}/children", encoding="ascii") as f:
        return int(f.read().split()[0])


def nics(status):
    return {p["pid_here"]: {q["nic"] for q in p["qps"]} for p in status["processes"]}


def scrape(lab):
    argv, env = lab.command("h0", [os.path.join(lab.out, "bin", "shift-exporter"), "--listen", "127.0.0.1:0"],
                            "exporter", env={"SHIFT_RUN_DIR": ""})
    exporter = lab.launch("exporter", argv, env)
    address = wait_for("address", lambda: re.search(r"127\.0\.0\.1:\d+", exporter.err()), 20).group()
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=20) as page:
        text = page.read().decode()
    exporter.end()
    return text


def check_drain(host, jobs):
    pids = {here(j) for j in jobs}
    done = host.shiftctl("drain", "mlx5_0")
    must("each job is told of", {int(n) for n in re.findall(r"^(\d+): 3 connections moved, 0 stay", done.stdout,
                                                            re.M)} == pids, done.stdout, pids)
    seen = nics(host.status())
    must("all are on the other NIC", seen == {pid: {"mlx5_1"} for pid in pids}, seen)
    host.shiftctl("undrain", "mlx5_0")
    wait_for("return", lambda: nics(host.status()) == {pid: {"mlx5_0"} for pid in pids}, 60)


def check_one(host, jobs):
    """One of them by its number here, whatever numbers they have in their containers."""
    pid = here(jobs[1])
    one, = json.loads(host.shiftctl("status", "--json", "--pid", str(pid)).stdout)["processes"]
    must("one by its number", one["pid_here"] == pid and one["pid"] != pid, one)
    table = host.shiftctl("status").stdout
    must("the table has both numbers", f"{pid} ({one['pid']} in its container) " in table, table)


def check_past(lab, host):
    """A job without SHIFT, in a container too, is no job that is not there."""
    program = start(lab, "stock", False, shift=False)
    wait_for("traffic", lambda: "CONNECTED" in program.out(), 30)
    pid = here(program)
    past, = host.status()["unreached"]
    must("it is told of", past["pid"] == pid and past["devices"] == ["mlx5_0"], past)
    done = host.shiftctl("drain", "mlx5_0", status=STAYS)
    must("a drain says that it stays", f"{pid}: uses mlx5_0 past SHIFT: it runs without SHIFT" in done.stdout, done)
    host.shiftctl("undrain", "mlx5_0")
    text = scrape(lab)
    must("the exporter counts it", 'shift_unreached_processes{nic="mlx5_0"} 1' in text, text)
    program.say("end")
    must("it ends well", not program.wait(60), program.tail())


def run(lab, name):
    host = Host(lab)
    decoy = os.path.join(lab.folder, "..", f"shift-decoy-{os.path.basename(lab.folder)}")
    os.mkdir(decoy, 0o755)      # somebody else's, with a name that only looks like ours
    try:
        run_jobs(lab, name, host)
    finally:
        os.rmdir(decoy)


def run_jobs(lab, name, host):
    host.shiftctl("drain", "mlx5_0", status=NOBODY)
    jobs = [start(lab, i, i in CASES[name]) for i in range(JOBS)]
    for job in jobs:
        wait_for("protection of " + job.name, lambda job=job: lab.protected(job) >= 3, 40)
    status = host.status()
    must("all are seen", {p["pid_here"] for p in status["processes"]} == {here(j) for j in jobs} and
         len(status["processes"]) == JOBS, status)
    must("they have equal numbers in their containers", len({p["pid"] for p in status["processes"]}) < JOBS, status)
    must("none is past SHIFT", not status["unreached"], status["unreached"])
    text = scrape(lab)
    must("the exporter sees all", f'shift_processes{{state="answering"}} {JOBS}' in text, text)
    must("and none past SHIFT", "shift_unreached_processes{" not in text, text)
    check_drain(host, jobs)
    check_one(host, jobs)
    check_past(lab, host)
    for job in jobs:
        job.say("end")
    for job in jobs:
        must(f"{job.name} ends well", not job.wait(60), job.tail())
    host.shiftctl("drain", "mlx5_0", status=NOBODY)


if __name__ == "__main__":
    if os.geteuid():
        print("containers: skipped, as only root makes namespaces here")
        sys.exit(SKIPPED)
    if INSIDE not in os.environ:
        os.environ[INSIDE] = "1"
        # /run of its own as well: the default directory of root's sockets lies there
        os.execvp("unshare", UNSHARE + ["sh", "-c", 'mount -t tmpfs tmpfs /run; exec "$@"', "sh", sys.executable,
                                        *sys.argv])
    sys.exit(cases_main(CASES, run))
