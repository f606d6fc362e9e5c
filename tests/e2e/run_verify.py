#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Runs verify through faults placed at every kind of moment.

  run_verify.py --build DIR --seeds 1..200          with SHIFT: every seed must pass
  run_verify.py --build DIR --seeds 1..20 --stock   without: every seed must fail
  run_verify.py --build DIR --seeds 1..1000 --scripts   a random script of faults for each seed
  run_verify.py --build DIR --seeds 1..40 --libdir D --must-fail   a broken build: one must fail

A failing seed is run again alone with --seeds N..N --keep, which leaves its logs.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import random
import re
import subprocess
import sys
import time

from shiftlab.fault_script import Script
from shiftlab.lab import Lab, Shift, Stuck, free_port, out_folder, wait_for

SPREAD_NICS = 4
PATIENT_TIMEOUT = 18    # of QPs: 1 s a try
HOSTS = ("h0", "h1")
UNPLACED = re.compile(r"QP (0x\w+)(?:: a request that is not a WRITE behind one that may be lost|"
                      r" could not be moved.*: a NIC died with data that it had acknowledged)")
NIC_DEATHS = ("nic-internal-error", "nic-hang", "nic-disassociate")


class Case:
    """One seed: two verify processes and one fault."""

    def __init__(self, args, seed):
        self.args = args
        self.seed = seed
        self.random = random.Random(seed)
        self.moment = args.moments[seed % len(args.moments)]
        self.side = self.random.choice(HOSTS)
        self.nth = self.random.choice((1, 2, 3)) if self.random.random() < 0.2 else \
            self.random.randint(1, 3000)
        self.fault_text = ""
        self.failed_qps = self.unplaced = 0
        self.moves = 0
        self.fallback_us = []
        self.qps, self.patterns, self.timeout = args.qps, args.patterns, args.timeout
        if self.moment == "none":   # who does not answer for half a second waits for a processor
            self.timeout = max(args.timeout, PATIENT_TIMEOUT)
        self.extra = ["--allow-events"] if args.stock else []  # the traffic shall end it
        self.settings = {"silence_ms": 8000}    # both are there, however busy the machine is
        self.nics = SPREAD_NICS if args.spread else 2
        if args.spread:
            self.settings["backup"] = "spread"
        if args.exact:
            self.settings["exact"] = args.exact
        if args.mutant:
            self.extra += ["--mutant", args.mutant]

    # --- the fault -------------------------------------------------------------------------

    def inject(self, lab, kind, target, at_message=None):
        self.fault_text += f" {kind} {target}" + (f" at +{at_message}" if at_message else "")
        lab.fault(kind, target, at_message=at_message)

    def fault(self, lab):
        """Puts the fault at its moment; returns when it has happened."""
        target = self.side + "/mlx5_0"
        name = self.moment
        if name == "none":
            return
        if name in ("idle", "idle-switch"):
            self.pause()
            if name == "idle":
                self.inject(lab, "port-down", target)
            else:
                self.inject(lab, "switch-down", "rail0")
            time.sleep(self.random.choice((0.0, 0.05, 0.3)))
            self.tell("resume")
        elif name == "switch":
            time.sleep(self.random.uniform(0, 0.2))
            self.inject(lab, "switch-down", "rail0")
        elif name == "both":
            first, second = self.random.sample(HOSTS, 2)
            self.inject(lab, "port-down", first + "/mlx5_0", self.nth)
            self.fired(lab)
            time.sleep(self.random.choice((0.0, 0.0, 0.002, 0.03)))
            self.inject(lab, "port-down", second + "/mlx5_0")
        elif name in ("initiator", "responder"):
            host = HOSTS[1] if name == "initiator" else HOSTS[0]
            self.inject(lab, "port-down", host + "/mlx5_0", self.nth)
        elif name == "lose-request-then-port":
            self.inject(lab, "lose-tx", target, self.nth)
            self.fired(lab)
            time.sleep(self.random.choice((0.0, 0.005)))
            self.inject(lab, "port-down", target)
        else:
            kind = {"mid-message": "cut-message", "lose-request": "lose-tx",
                    "lose-ack": "lose-acks", "cable": "cable-down",
                    "lose-answer": "lose-rx"}.get(name, name)
            self.inject(lab, kind, target, self.nth)
        self.fired(lab)
        if self.args.spread and self.random.random() < 0.7:
            self.second_fault(lab)

    def second_fault(self, lab):
        """One of those over which the first has spread it, at some moment of the moves or behind them."""
        time.sleep(self.random.choice((0.0, 0.002, 0.03, 0.3)))
        kind = self.random.choice(("port-down", "cable-down", "nic-internal-error"))
        self.inject(lab, kind, f"{self.random.choice(HOSTS)}/mlx5_{self.random.randrange(1, self.nics)}")

    def fired(self, lab):
        wait_for("fault", lambda: not lab.status()["scheduled"], 60)

    def pause(self):
        self.tell("pause")
        for p in self.ends:
            wait_for("pause of " + p.name, lambda p=p: "PAUSED" in p.out() or not p.running(), 30)

    # --- both ends -------------------------------------------------------------------------

    def tell(self, word):
        for p in self.ends:
            p.say(word)

    def start(self, lab):
        port = str(free_port())
        common = [self.args.verify, "--seed", self.seed, "--port", port, "--control", "--dev",
                  "mlx5_0", "--gid-index", 0, "--qps", self.qps, "--patterns", self.patterns,
                  "--timeout", self.timeout, "--retry", self.args.retry, "--stuck",
                  600 if self.args.gdb else self.args.stuck, *self.extra]
        shift = None if self.args.stock else Shift(
            libdir=self.args.libdir, log=self.args.shift_log,
            **({"lazy": self.args.lazy} if self.args.lazy else {}), **self.settings)
        self.ends = [lab.start("h0", common + ["--server"], "server", shift, stdin=True),
                     lab.start("h1", common + ["--client", "127.0.0.1"], "client", shift,
                               stdin=True)]
        for p in self.ends:
            wait_for("start of " + p.name, lambda p=p: "STARTED" in p.out() or not p.running(), 60)

    def protected(self, lab):
        """All QPs of both ends have a standby on the other NIC."""
        def ready(p):
            return lab.protected(p) >= self.qps or not p.running()

        for p in self.ends:
            wait_for("protection of " + p.name, lambda p=p: ready(p), 60)

    def progress(self, p):
        """Per QP (sent and received, failed), as the program says now."""
        before = p.out().count("PROGRESS")
        p.say("progress")
        wait_for("answer of " + p.name,
                 lambda: p.out().count("PROGRESS") > before or not p.running(), 60)
        rows = [r for r in p.out().splitlines() if r.startswith("PROGRESS")]
        if not rows or not p.running():
            return None
        fields = [word.split(":") for word in rows[-1].split()[1:]]
        return [(int(a) + int(b), failed == "1") for a, b, failed in fields]

    def moves_on(self):
        """Every QP that has not failed moves messages after the fault, at both ends together."""
        base = [self.progress(p) for p in self.ends]

        def moved():
            now = [self.progress(p) for p in self.ends]
            if None in now or None in base:
                return True
            return all(now[0][i][1] or now[1][i][1] or
                       now[0][i][0] + now[1][i][0] > base[0][i][0] + base[1][i][0] + 20
                       for i in range(self.qps))

        wait_for("traffic after the fault", moved, self.args.stuck + 5, 0.05)

    def summaries(self):
        out = []
        for p in self.ends:
            rows = [r for r in p.out().splitlines() if r.startswith("SUMMARY ")]
            out.append(json.loads(rows[-1][8:]) if rows else None)
        return out

    def verdict(self, lab):
        """None if both ends are content, else the reason."""
        reasons = []
        for p, s in zip(self.ends, self.summaries()):
            if s and s["result"] != "ok":
                gone = s["reason"] == "PEER_GONE"
                reasons.append((gone, f"{p.name}: {s['reason']}: {s['text']}"))
            elif p.process.returncode or not s:
                reasons.append((False, f"{p.name}: ended with {p.process.returncode}, no summary"))
            else:
                self.failed_qps += sum(q["failed"] for q in s["qps"])
        if reasons:
            return sorted(reasons)[0][1]
        return None if self.args.stock or self.moment == "none" else self.check_moves(lab)

    def check_moves(self, lab):
        return self.count_moves(lab) or (None if self.moves else "NOT_EXERCISED: nothing moved")

    def count_moves(self, lab):
        for p in self.ends:
            stats = lab.stats(p)
            if stats is None:
                return f"{p.name}: SHIFT wrote no statistics"
            self.moves += len(stats["moves"])
            self.fallback_us += [m["fallback_us"] for m in stats["moves"] if m["fallback_us"]]
        return None

    def prepare(self, lab):
        """The NICs, before anybody opens them."""
        for nic in (f"{host}/mlx5_{k}" for host in HOSTS for k in range(self.nics)):
            if self.args.torn_lines:
                lab.ctl("torn-lines", nic, "on")
            if self.args.rate:
                lab.ctl("link", nic, "--rate", self.args.rate)

    def body(self, lab):
        self.prepare(lab)
        self.start(lab)
        if not self.args.stock:
            self.protected(lab)
        time.sleep(self.random.uniform(0.02, 0.2))
        self.fault(lab)
        self.moves_on()
        time.sleep(self.random.uniform(0, 0.15))
        if self.moment == "nic-hang":  # as on stock, a destroy waits for the command to return
            lab.ctl("heal", self.side + "/mlx5_0")
        self.tell("stop")
        for p in self.ends:
            p.wait(self.args.stuck + 15)
        return self.verdict(lab)

    def run(self):
        begun = time.monotonic()
        with Lab(self.args.build, nics=self.nics, link=self.args.link, seed=self.seed,
                 keep=self.args.keep) as lab:
            logs = ""
            try:
                reason = self.body(lab)
            except (Stuck, RuntimeError) as e:
                logs = self.stacks() if self.args.gdb else ""
                reason = self.early_reason() or f"STUCK: {e}"
            if reason and self.args.scripts:
                reason += f" (in {self.doing})"
            if reason and self.args.verbose:
                logs += "".join(p.tail() for p in self.ends)
                logs += "--- fabric\n" + lab.ctl("status", check=False)
                logs += "".join(f"--- SHIFT of {p.name}\n" +
                                "\n".join(lab.shift_log(p).splitlines()[-25:]) + "\n"
                                for p in self.ends)
            if self.args.keep:
                logs += f"logs: {lab.folder}\n"
        return self, reason, time.monotonic() - begun, logs

    def stacks(self):
        """What every thread of both ends does, by gdb."""
        text = ""
        self.tell("describe")
        time.sleep(0.3)
        for p in self.ends:
            text += "".join(r + "\n" for r in p.out().splitlines() if r.startswith("LANE"))
            if p.running():
                done = subprocess.run(["gdb", "-p", str(p.pid), "-batch", "-ex",
                                       "thread apply all bt 12"], capture_output=True, text=True)
                text += f"--- threads of {p.name}\n" + "\n".join(
                    r for r in done.stdout.splitlines() if r.startswith(("#", "Thread"))) + "\n"
        return text

    def early_reason(self):
        """A program that failed by itself says more than our time-out."""
        for p in getattr(self, "ends", []):
            if p.running():
                try:
                    p.wait(0.5)
                except Stuck:
                    pass
        reasons = [f"{p.name}: {s['reason']}: {s['text']}"
                   for p, s in zip(getattr(self, "ends", []), self.summaries())
                   if s and s["result"] != "ok"]
        return sorted(reasons, key=lambda r: "PEER_GONE" in r)[0] if reasons else None


class ScriptCase(Case):
    """One seed: two verify processes under a script of faults, and back to the default NIC."""

    def __init__(self, args, seed):
        super().__init__(args, seed)
        self.script = Script(seed)
        self.moment = self.script.kind + (", atomics" if self.script.atomics else "")
        self.patterns, self.timeout = self.script.patterns(), self.script.timeout()
        self.qps = len(self.patterns)
        self.settings = SCRIPT_SETTINGS
        if self.script.kind == "dark":
            self.extra = ["--may-fail", "--allow-events"]
        elif self.script.may_lose_writes():
            self.extra = ["--may-fail"]
        self.doing = ""

    def begin(self, lab, step):
        self.doing = f"begin of {step}"
        host, _, device = step.target.partition("/")
        if step.kind == "quiet":
            self.tell("pause")
        elif step.kind == "drain":
            lab.shiftctl(host, "drain", device, check=False)  # a fault may keep some there
        else:
            lab.fault(step.kind, step.target, at_message=step.at_message)
            if step.at_message:
                self.await_message(lab, step)

    def await_message(self, lab, step):
        """The message may never come, where the traffic is elsewhere: then it is now."""
        try:
            wait_for("fault", lambda: not lab.status()["scheduled"], 0.3, 0.005)
        except Stuck:
            lab.ctl("heal", step.target)
            lab.fault(step.kind, step.target)

    def end(self, lab, step):
        self.doing = f"end of {step}"
        host, _, device = step.target.partition("/")
        if step.kind == "quiet":
            self.tell("resume")
        elif step.kind == "drain":
            lab.shiftctl(host, "undrain", device)
        else:
            lab.ctl("heal", step.target)

    def play(self, lab, episode):
        self.fault_text += ("; " if self.fault_text else "") + str(episode)
        ends = []
        for step, gap in zip(episode.steps, episode.gaps_s):
            self.begin(lab, step)
            ends.append((time.monotonic() + step.lasts_s, step))
            time.sleep(gap)
        for at, step in sorted(ends, key=lambda e: e[0]):
            time.sleep(max(0.0, at - time.monotonic()))
            self.end(lab, step)
        time.sleep(episode.calm_s)

    def alive(self):
        """Which QPs both ends still use, with their messages; None once a program ended."""
        now = [self.progress(p) for p in self.ends]
        if None in now:
            return None
        return {i: a[0] + b[0] for i, (a, b) in enumerate(zip(*now)) if not a[1] and not b[1]}

    def carried(self, lab):
        return sum(lab.carried(k) for k in range(1, self.nics))

    def is_back(self, lab):
        """Every QP that lives moves messages while the backup NICs carry nothing."""
        before, carried = self.alive(), self.carried(lab)
        if not before:
            return True
        time.sleep(0.1)
        now = self.alive()
        return now is None or (self.carried(lab) == carried and
                               all(n > before[i] for i, n in now.items()))

    def body(self, lab):
        self.start(lab)
        self.protected(lab)
        time.sleep(self.random.uniform(0.02, 0.1))
        for episode in self.script.episodes:
            self.play(lab, episode)
        self.doing = "return to the default NIC"
        lab.ctl("heal", "all")
        wait_for("return to the default NIC", lambda: self.is_back(lab), self.args.stuck + 10)
        self.doing = "end"
        self.tell("stop")
        for p in self.ends:
            p.wait(self.args.stuck + 15)
        return self.verdict(lab)

    def check_moves(self, lab):
        return (self.script.may_lose_writes() and self.unexplained(lab)) or self.count_moves(lab)

    def unexplained(self, lab):
        """A QP that ended though SHIFT said at neither end that a WRITE of it may be lost; or None."""
        ends = [(s["qps"], set(UNPLACED.findall(lab.shift_log(p))))
                for p, s in zip(self.ends, self.summaries())]
        for pair in zip(*(qps for qps, _ in ends)):
            if pair[0]["pattern"] in ("atomic", "fenced", "signal"):    # those may
                continue
            if not any(q["failed"] for q in pair):
                continue
            if not any(f"0x{q['qpn']:06x}" in named for q, (_, named) in zip(pair, ends)):
                return f"UNEXPLAINED: QP {pair[0]['qp']} ended, and no WRITE of it may be lost"
            self.unplaced += 1
        return None


# Paths are trusted again soon, so that a script takes seconds.
SCRIPT_SETTINGS = {"packet_lifetime_ms": 20, "holddown_ms": 40, "holddown_max_ms": 400}
MOMENTS = ("idle", "mid-message", "lose-request", "lose-ack", "initiator", "responder", "both",
           "switch", "cable", "lose-answer", "lose-request-then-port", "idle-switch") + NIC_DEATHS


def parse_args():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build", help="build folder")
    p.add_argument("--seeds", default="1..20", help="A..B, both included")
    p.add_argument("--moments", default=",".join(MOMENTS), help="comma-separated; also: none")
    p.add_argument("--scripts", action="store_true", help="several faults in each run, and their end")
    p.add_argument("--fresh", type=int, metavar="N", help="N seeds that nobody has chosen")
    p.add_argument("--jobs", type=int, default=1)
    p.add_argument("--link", choices=("eth", "ib"), default="eth", help="link layer")
    p.add_argument("--stock", action="store_true", help="without SHIFT; every seed must fail")
    p.add_argument("--spread", action="store_true",
                   help="four NICs a host and SHIFT_BACKUP=spread; often a backup dies too")
    p.add_argument("--lazy", nargs="?", const="on", choices=["on", "pool"],
                   help="standbys are made when they are needed")
    p.add_argument("--exact", choices=("on", "off"), help="SHIFT_EXACT")
    p.add_argument("--mutant", help="a rule of verify's own that it breaks (verify --help)")
    p.add_argument("--rate", help="of all links, as simnicctl has it")
    p.add_argument("--torn-lines", action="store_true",
                   help="all NICs write each line of 128 bytes in two pieces")
    p.add_argument("--libdir", help="folder of another drop-in library")
    p.add_argument("--must-fail", action="store_true",
                   help="stop at the first seed that fails; pass if there is one")
    p.add_argument("--qps", type=int, default=5)
    p.add_argument("--patterns", default="abcde")
    p.add_argument("--timeout", type=int, default=14, help="QP timeout")
    p.add_argument("--retry", type=int, default=7, help="QP retry count")
    p.add_argument("--stuck", type=float, default=10, help="seconds without progress")
    p.add_argument("--shift-log", default="info")
    p.add_argument("--gdb", action="store_true", help="show all threads of a stuck case")
    p.add_argument("--keep", action="store_true", help="keep each case's folder")
    p.add_argument("--quiet", dest="verbose", action="store_false", help="no logs of failures")
    args = p.parse_args()
    if args.fresh:
        first = random.SystemRandom().randrange(1, 1 << 31)
        args.seeds = f"{first}..{first + args.fresh - 1}"
        print(f"seeds {args.seeds}", flush=True)
    first, _, last = args.seeds.partition("..")
    args.seeds = range(int(first), int(last or first) + 1)
    args.moments = args.moments.split(",")
    unknown = set(args.moments) - set(MOMENTS) - {"none"}
    if unknown:
        p.error("unknown moments: " + ", ".join(sorted(unknown)))
    args.verify = os.path.join(out_folder(args.build), "bin", "verify")
    return args


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]


def main():
    args = parse_args()
    good = bad = failed_qps = unplaced = moves = 0
    fallback = []
    kind = ScriptCase if args.scripts else Case
    kinds = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        cases = pool.map if args.jobs > 1 else map
        for case, reason, seconds, logs in cases(lambda s: kind(args, s).run(), args.seeds):
            word = "FAIL" if reason else "ok"
            print(f"{word:4} seed {case.seed:4} {case.moment:{14 if args.scripts else 22}} {seconds:5.1f} s"
                  f" {case.fault_text.strip()}"
                  + (f"  errors on {case.failed_qps} QP ends" if case.failed_qps else "")
                  + (f"\n     {reason}" if reason else ""), flush=True)
            if logs and (reason and (not args.stock or case.moment == "none") or args.keep):
                print(logs, flush=True)
            good += not reason
            bad += bool(reason)
            failed_qps += case.failed_qps
            unplaced += case.unplaced
            fallback += case.fallback_us
            moves += case.moves
            kinds[case.moment] += 1
            if reason and args.must_fail:
                break
    if args.scripts:
        print(", ".join(f"{n} {name}" for name, n in sorted(kinds.items())) +
              f"; {moves} moves; {unplaced} connections ended as a WRITE may be lost")
    if fallback:
        print(f"{len(fallback)} moves measured: median {percentile(fallback, .5):.0f} us, 99th "
              f"percentile {percentile(fallback, .99):.0f} us; {failed_qps} QP ends with errors "
              f"(atomics of unknown fate{', or no path' if args.scripts else ''})")
    print(f"{good} passed, {bad} failed")
    if args.stock and "none" not in args.moments:
        return 1 if good else 0
    if args.must_fail:
        return 0 if bad else 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
