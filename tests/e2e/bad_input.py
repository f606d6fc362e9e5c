#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What SHIFT cannot use must cost one clear line, never the job.

Each case runs a real job (ib_send_bw, checked to its end) with something wrong around SHIFT: the
job must run as it would without SHIFT, and each end that is concerned must say what is wrong, in
one line that names it.
"""
import argparse
import os
import re
import shutil
import sys
import time

from shiftlab.lab import PATIENT, Lab, Stuck, free_port, wait_for
from shiftlab.perftest import CALM, LONG_S, Failed, end

JOB = "ib_send_bw"
AGAIN_S = 1     # whoever says a line again and again does so within this


class Case:
    """A job with something wrong; said: what the lines must match; by: the ends that must speak."""

    def __init__(self, name, said, by=("server", "client"), nics=2, settings=None, kv=None,
                 backup=None, prepare=None, without=(), link_missing=None, lines=1):
        self.name = name
        self.said = re.compile(said, re.IGNORECASE)
        self.by = by
        self.nics = nics
        self.settings = settings or {}
        self.kv = kv
        self.backup = backup
        self.prepare = prepare
        self.without = without      # ends that run without SHIFT
        self.link_missing = link_missing
        self.lines = lines

    def argv(self, lab, side, port):
        job = [JOB, "-d", "mlx5_0", "-x", "0", "-F", "-D", str(LONG_S), "-p", port, *CALM]
        if side == "client":
            job.append("127.0.0.1")
        if side in self.without:
            return job
        shiftctl = os.path.join(self.tree(lab), "bin", "shiftctl")
        extra = ["--backup", self.backup] if self.backup else []
        return [shiftctl, "run", *extra, "--", *job]

    def tree(self, lab):
        """The installed tree, or a copy of it that lacks a link to one of the distribution's libraries."""
        if not self.link_missing:
            return lab.out
        copy = os.path.join(lab.folder, "tree")
        if not os.path.exists(copy):
            shutil.copytree(os.path.join(lab.out, "lib"), os.path.join(copy, "lib"), symlinks=True)
            os.makedirs(os.path.join(copy, "bin"))
            shutil.copy(os.path.join(lab.out, "bin", "shiftctl"), os.path.join(copy, "bin"))
            os.unlink(os.path.join(copy, "lib", "shift", self.link_missing))
        return copy

    def env(self, lab, side):
        if side in self.without:
            return {}
        settings = {**PATIENT, **self.settings}
        return {"SHIFT_KV": self.kv or lab.kv,
                **{"SHIFT_" + k.upper(): str(v) for k, v in settings.items()}}

    def run(self, build):
        with Lab(build, nics=self.nics) as lab:
            if self.prepare:
                self.prepare(lab)
            port = str(free_port())
            server = lab.start("h0", self.argv(lab, "server", port), "server",
                               env=self.env(lab, "server"))
            server.await_listening()
            client = lab.start("h1", self.argv(lab, "client", port), "client",
                               env=self.env(lab, "client"))
            self.await_lines(lab, (server, client))
            end(JOB, server, client)
            for p in (client, server):
                p.wait(30)
                if p.process.returncode:
                    raise Failed(f"the job ended with {p.process.returncode}\n" + p.tail())
            for p in (server, client):
                self.check_lines(p)

    @staticmethod
    def rows(program):
        return [r for r in (program.err() + program.out()).splitlines()
                if r.startswith(("shift", "shiftctl"))]

    def has_said(self, program):
        return program.name not in self.by or any(map(self.said.search, self.rows(program)))

    def await_lines(self, lab, ends):
        wait_for("traffic", lambda: lab.carried(0) or not all(p.running() for p in ends), 30)
        for p in ends:
            try:
                wait_for(f"line of {p.name}",
                         lambda p=p: self.has_said(p) or not all(q.running() for q in ends), 30)
            except Stuck:
                raise Failed(f"{p.name} does not say /{self.said.pattern}/ but:\n  " +
                             "\n  ".join(self.rows(p) or ["nothing"])) from None
        time.sleep(AGAIN_S)

    def check_lines(self, program):
        rows = self.rows(program)
        if program.name in self.by:
            if not self.has_said(program):
                raise Failed(f"{program.name} does not say /{self.said.pattern}/ but:\n  " +
                             "\n  ".join(rows or ["nothing"]))
            if len(rows) > self.lines:
                raise Failed(f"{program.name} says more than it should:\n  " + "\n  ".join(rows))
            print(f"     {program.name}: {rows[0]}")
        elif program.name in self.without and rows:
            raise Failed(f"{program.name} runs without SHIFT but says\n  " + "\n  ".join(rows))


def limit_backup_mrs(lab):
    for host in ("h0", "h1"):
        lab.ctl("limit", f"{host}/mlx5_1", "mrs", 1)


CASES = [
    Case("unknown device in --backup", r"mlx5_9", backup="mlx5_0=mlx5_9"),
    Case("malformed --backup", r"backup", backup="mlx5_0"),
    Case("malformed SHIFT_KV", r"nonsense", kv="nonsense://somewhere"),
    Case("SHIFT_KV with a bad port", r"99999", kv="redis://127.0.0.1:99999"),
    Case("KV refuses", r"127\.0\.0\.1:1\b", kv="redis://127.0.0.1:1"),
    Case("KV file cannot be made", r"/proc/", kv="lmdb:/proc/nowhere/kv"),
    Case("no backup NIC", r"mlx5_0.*(backup|other)|(backup|other).*mlx5_0", nics=1),
    Case("backup NIC has no room for MRs", r"mlx5_1|memory", prepare=limit_backup_mrs),
    Case("peer without SHIFT", r"peer", by=("server",), without=("client",)),
    Case("link to the distribution's library is missing", r"libibverbs-distro\.so\.1",
         link_missing="libibverbs-distro.so.1"),
    Case("link of the companion is missing", r"librdmacm-distro\.so\.1", link_missing="librdmacm-distro.so.1"),
    Case("bad SHIFT_LOG", r"SHIFT_LOG", settings={"log": "loud"}),
]


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build")
    p.add_argument("--only", help="cases whose name has this in it")
    args = p.parse_args()
    good = bad = 0
    for case in CASES:
        if args.only and args.only not in case.name:
            continue
        try:
            case.run(args.build)
            print(f"ok   {case.name}", flush=True)
            good += 1
        except (Failed, Stuck, RuntimeError) as e:
            print(f"FAIL {case.name}: {e}", flush=True)
            bad += 1
    print(f"{good} passed, {bad} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
