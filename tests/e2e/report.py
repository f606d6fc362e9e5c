#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""shiftctl report: what the archive for a bug report has, and what it must not have. Secrets are planted wherever a
report could find them, and each file of the archive is searched for them.

  report.py --build DIR [CASE...]
"""
import json
import os
import re
import subprocess
import sys
import tarfile

from shiftlab.lab import Shift, cases_main, free_port
from shiftlab.perftest import Failed
from truth import Ends, must

FILES = {"CONTENTS", "versions.txt", "doctor.txt", "settings.txt", "nics.txt", "status.txt", "status.json", "events.txt",
         "events.json", "why.txt", "log.txt"}
# Each is planted below, and none may be in a report.
SECRET = "Planted5ecret"
KV_PASSWORD, KV_USER = SECRET + "-kv-p@ss", SECRET + "-kv-user"


def report(lab, *args, env=None, cwd=None):
    argv, full = lab.command("h0", [os.path.join(lab.out, "bin", "shiftctl"), "report", *args], "report", env=env)
    return subprocess.run(argv, env=full, capture_output=True, text=True, timeout=120, check=False,
                          cwd=cwd or lab.folder)


def unpacked(path):
    """{name: text} of the archive; all is in one folder, for the reader alone, and without a user's name."""
    found = {}
    with tarfile.open(path, "r:gz") as tar:
        for member in tar.getmembers():
            top, _, name = member.name.partition("/")
            must("one folder", top == os.path.basename(path)[:-len(".tar.gz")], member.name)
            must("nobody is named", not member.uname.strip("0") and not member.uid, member.uname, member.uid)
            if member.isfile():
                must("the user's alone", member.mode & 0o077 == 0, member.name, oct(member.mode))
                found[name] = tar.extractfile(member).read().decode()
    return found


def one_archive(folder):
    names = [n for n in os.listdir(folder) if n.startswith("shift-report-")]
    must("one archive", len(names) == 1 and names[0].endswith(".tar.gz"), names)
    return os.path.join(folder, names[0])


def search(files, *secrets):
    for name, text in files.items():
        for secret in secrets:
            for line in text.splitlines():
                if secret in line:
                    raise Failed(f"{name} has a secret: {line}")


def whole(lab):
    """A fault is in it, and each file has what its line in the list says."""
    ends = Ends(lab)
    lab.fault("port-down", "h0/mlx5_0")
    ends.event("h0", "switch")
    done = report(lab, "--pid", str(ends.server.pid))
    must("exit", done.returncode == 0, done.stdout, done.stderr)
    path = one_archive(lab.folder)
    files = unpacked(path)
    must("the files", set(files) == FILES, files.keys())
    for name in FILES:
        must(f"{name} is in the printed list, with what it has",
             re.search(rf"^  {re.escape(name)} +\w.{{20}}", done.stdout, re.M), done.stdout)
    must("a person is to read it first", "before you send it" in done.stdout and os.path.basename(path) in done.stdout, done.stdout)
    must("the list goes with it", "status.txt" in files["CONTENTS"], files["CONTENTS"])
    for name, wanted in {
            "versions.txt": r"shiftctl +\d+\.\d+[\s\S]*protocol +\d[\s\S]*kernel +\S+[\s\S]*distribution +\S",
            "doctor.txt": r"^mlx5_0 .*backup mlx5_1",
            "settings.txt": r"SHIFT_BACKUP=pair$",
            "nics.txt": r"^mlx5_0/ports/1/state: \d: \w+",
            "status.txt": r"0x\w{6} +\w+ +mlx5_0 +mlx5_1",
            "events.txt": r" switch +port-down",
            "why.txt": r"What to do: check cable",
            "log.txt": r"^shift: info: "}.items():
        must(f"{name}: {wanted}", re.search(wanted, files[name], re.M), files[name])
    status = json.loads(files["status.json"])["processes"]
    must("one process", [p["command"] for p in status] == ["truth"], status)
    events = json.loads(files["events.json"])["processes"]
    must("its events", any(e["kind"] == "switch" for e in events[0]["events"]), events)
    must("no address of this machine's own name", os.uname().nodename not in "".join(files.values()) or
         len(os.uname().nodename) < 4, os.uname().nodename)
    lab.ctl("heal", "all")
    ends.end()


def secrets(lab):
    """Nothing of what was planted is in it: not in files that SHIFT is given, its log, or another's program."""
    key = os.path.join(lab.folder, "tls-key.pem")
    secret_file = os.path.join(lab.folder, "job-secret")
    for path in (key, secret_file):
        with open(path, "w", encoding="ascii") as f:
            f.write(f"-----BEGIN PRIVATE KEY-----\n{SECRET}-in-{os.path.basename(path)}\n")
        os.chmod(path, 0o600)
    url = (f"rediss://{KV_USER}:{KV_PASSWORD.replace('@', '%40')}@127.0.0.1:1/0?cert={key}&key={key},"
           f"redis://u:{SECRET}-second@127.0.0.1:1")
    env = {"SHIFT_KV": url, "SHIFT_KV_PASSWORD_FILE": secret_file,
           "SHIFT_ON_EVENT": f"curl -H 'Authorization: {SECRET}-token' http://localhost/",
           "AWS_SECRET_ACCESS_KEY": SECRET + "-aws", "SHIFT_BACKUPS": SECRET + "-misspelt",
           "NCCL_DEBUG_FILE": SECRET + "-nccl", "UCX_TLS": "rc"}
    argv = [os.path.join(lab.out, "bin", "truth"), "-p", free_port(), "-s", SECRET + "-argument"]
    ends = Ends(lab)
    other = lab.start("h0", argv, "other", Shift(), env={k: v for k, v in env.items() if k != "SHIFT_KV"})
    other.await_listening()
    with open(os.path.join(lab.folder, f"shift-{ends.server.name}.log"), "a", encoding="ascii") as f:
        f.write(f"{SECRET}-of-the-program\nshift: warn: store {url} is away\n")
    for args in ((), ("--pid", str(ends.server.pid))):
        done = report(lab, "--output", os.path.join(lab.folder, f"r{len(args)}.tar.gz"), *args, env=env)
        must("exit", done.returncode in (0, 1), done.stdout, done.stderr)
        files = unpacked(os.path.join(lab.folder, f"r{len(args)}.tar.gz"))
        must("the files", set(files) == FILES, files.keys())
        search({**files, "(printed)": done.stdout + done.stderr}, SECRET, "curl", "PRIVATE KEY", "pass%40", "p@ss")
        must("the other program is not within, where one was asked for", not args or
             f"process {other.pid}" not in files["settings.txt"] and "stats-other" not in "".join(files.values()),
             files["settings.txt"])
        must("the store's host is told", "127.0.0.1:1" in files["settings.txt"], files["settings.txt"])
        must("that a command is set is told", "SHIFT_ON_EVENT" in files["settings.txt"], files["settings.txt"])
        must("what is left out is told", "command lines" in files["CONTENTS"], files["CONTENTS"])
        must("SHIFT's own line is there", "is away" in files["log.txt"], files["log.txt"])
        must("command lines are not", "TRUTH_QPS" not in "".join(files.values()) and
             "-p " not in files["status.txt"], files["status.txt"])
    must("the other program runs", other.running(), other.tail())
    ends.end()


def malformed(lab):
    """An address that is none may hold a password anywhere: it is not shown."""
    done = report(lab, env={"SHIFT_KV": f"redis:/{SECRET}"})
    files = unpacked(one_archive(lab.folder))
    search({**files, "(printed)": done.stdout + done.stderr}, SECRET)
    must("that it is set, is", "SHIFT_KV" in files["settings.txt"], files["settings.txt"])


def directory(lab):
    """Left unpacked; what is there is not overwritten; wrong use is said."""
    folder = os.path.join(lab.folder, "seen")
    done = report(lab, "--directory", "--output", folder)
    must("exit", done.returncode == 0, done.stdout, done.stderr)
    must("the files", set(os.listdir(folder)) == FILES, os.listdir(folder))
    must("no program is there, which is no fault", "no program" in open(
        os.path.join(folder, "status.txt"), encoding="utf-8").read())
    must("the reader's alone", os.stat(folder).st_mode & 0o077 == 0)
    again = report(lab, "--directory", "--output", folder)
    must("not over another", again.returncode == 1 and "exists" in again.stderr, again.stderr)
    for args, word in ((("--pid", "x"), "process id"), (("more",), "no argument"), (("--bogus",), "see shiftctl")):
        wrong = report(lab, *args)
        must(f"usage {args}", wrong.returncode == 2 and word in wrong.stderr, wrong.stderr)
    nobody = report(lab, "--pid", str(os.getpid()), "--output", os.path.join(lab.folder, "x.tar.gz"))
    must("a process without SHIFT", nobody.returncode == 1 and "no program with SHIFT" in nobody.stderr, nobody.stderr)
    there = report(lab, "--output", "/nowhere/x.tar.gz")
    must("a place that is none", there.returncode == 1 and "/nowhere" in there.stderr, there.stderr)


CASES = {"whole": whole, "secrets": secrets, "malformed": malformed, "directory": directory}


if __name__ == "__main__":
    sys.exit(cases_main(CASES, lambda lab, name: CASES[name](lab)))
