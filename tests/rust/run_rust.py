#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""
The own tests of two Rust crates, ibverbs and sideway, on the software NIC: as they are, and with SHIFT under them. These are
all that `cargo test` runs, unit tests, integration tests and those of the documentation, and then the crates' examples as
programs. Nothing may be worse with SHIFT, and each failure without SHIFT is explained in explained.txt: the exit status says so.

Each crate has a fabric for each way, and each test program is a process of that fabric's first host.

Exit: 0 all is well; 1 otherwise; 77 the tests are not there (scripts/build-rust-tests.sh).
"""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import time

from shiftlab.lab import SKIPPED, Lab, Shift, Stuck, free_port, wait_for
from shiftlab.pyverbs import WAYS, Batch, how_it_died

HERE = os.path.dirname(os.path.abspath(__file__))
EXPLAINED = os.path.join(HERE, "explained.txt")
CRATES = ("ibverbs", "sideway")
LIBIBVERBS = "/lib/shift/libibverbs.so"
# What the example says if it did its work; the second program of a pair runs on the other host.
EXAMPLES = {
    "ibverbs": {"loopback": (r"(?s)sent.*received|received.*sent", ["loopback"])},
    "sideway": {
        "ibv_devinfo": (r"(?s)mlx5_0.*mlx5_1|mlx5_1.*mlx5_0", ["ibv_devinfo"]),
        "show_gids": (r"(?s)mlx5_0.* lo .*mlx5_1.* lo |mlx5_1.* lo .*mlx5_0.* lo ", ["show_gids"]),
        "rc_pingpong": (r"1000 iters", ["rc_pingpong", "-d", "mlx5_0", "-p", "{port}"], ["127.0.0.1"]),
        "rc_pingpong timestamps": (r"1000 iters", ["rc_pingpong", "-d", "mlx5_0", "-t", "-p", "{port}"], ["127.0.0.1"]),
        "rc_pingpong_split": (r"1000 iters", ["rc_pingpong_split", "-d", "mlx5_0", "-p", "{port}"], ["127.0.0.1"]),
        "cmtime": (r"(?i)Connect", ["cmtime", "-b", "10.0.0.1", "-p", "{port}"], ["-s", "10.0.0.1"]),
        "cmtime, own queue pairs": (r"(?i)Connect", ["cmtime", "-q", "-b", "10.0.0.1", "-p", "{port}"], ["-s", "10.0.0.1"]),
    },
}
# A test program that lives under SHIFT says so before it is run.
PROVE = ('grep -q "$1" /proc/self/maps && found=yes || found=no; [ "$found" = "$2" ] || '
         '{ echo "SHIFT loaded: $found, and should be: $2"; exit 99; }; shift 2; exec "$@"')


def section(line):
    """The name of the test program or the documentation that the next lines are about."""
    found = re.match(r"\s+(?:Running (?:unittests )?|Doc-tests )(\S+)", line)
    return found and found[1]


def name_of(program, test):
    return f"{program}: " + re.sub(r" - (compile fail|compile|should panic)$", "", test)


def listed(said):
    """The tests that cargo lists."""
    program = None
    for line in said.splitlines():
        program = section(line) or program
        if line.endswith(": test"):
            yield name_of(program, line[:-len(": test")])


def results_of(said):
    """(test, ending, why) as the test programs said it."""
    program = None
    for line in said.splitlines():
        program = section(line) or program
        found = re.match(r"test (.+?) \.\.\. (ok|FAILED|ignored)\b(.*)$", line)
        if found:
            ending = {"ok": "passed", "FAILED": "failed", "ignored": "skipped"}[found[2]]
            why = found[3].lstrip(", ") or ("" if ending == "passed" else why_of(said, found[1]))
            yield name_of(program, found[1]), ending, why


def why_of(said, test):
    """What a test that failed said last."""
    part = said.partition(f"---- {test} stdout ----")[2].partition("\n----")[0]
    lines = [line.strip() for line in part.splitlines() if line.strip() and "RUST_BACKTRACE" not in line]
    return " ".join(lines[:3])[:200]


class Crates:
    def __init__(self, args):
        self.args = args
        self.folder = os.path.join(os.path.abspath(args.build), "rust")
        self.target = os.environ.get("CARGO_TARGET_DIR", os.path.join(self.folder, "target"))

    def missing(self):
        if not shutil.which("cargo"):
            return "there is no cargo"
        have = all(os.path.exists(os.path.join(self.folder, crate, "Cargo.toml")) for crate in CRATES)
        return None if have and os.path.isdir(self.target) else f"no {self.folder}; scripts/build-rust-tests.sh makes it"

    def cargo(self, crate, *argv, **env):
        """(what it and the test programs said, its exit status; None: it did not end in its time)"""
        env = {**os.environ, "CARGO_TARGET_DIR": self.target, "CARGO_PROFILE_DEV_DEBUG": "0", "CARGO_PROFILE_TEST_DEBUG": "0",
               "CARGO_INCREMENTAL": "0", "CARGO_TERM_COLOR": "never", "CMAKE": os.path.join(self.folder, "cmake"), **env}
        argv = ["cargo", "test", "--offline", "--no-fail-fast", *argv]
        with subprocess.Popen(argv, cwd=os.path.join(self.folder, crate), env=env, text=True, errors="replace",
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              start_new_session=True) as process:
            try:
                said, _ = process.communicate(timeout=self.args.seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                return process.communicate()[0], None
        return said, process.returncode

    def skipped(self):
        return [word for name in self.args.skip for word in ("--skip", name)]

    def tests(self, crate):
        said, status = self.cargo(crate, "--", "--list", *self.skipped())
        if status:
            raise RuntimeError(f"the tests of {crate} cannot be listed:\n{said[-3000:]}")
        return sorted(listed(said))

    def run_tests(self, batch, crate, way):
        with Lab(self.args.build) as lab:
            shift = Shift() if way == "shift" else None
            argv, env = lab.command("h0", [], crate, shift)
            argv += ["sh", "-c", PROVE, "sh", LIBIBVERBS, "yes" if shift else "no"]
            said, status = self.cargo(crate, "--", *self.skipped(), **env, **{variable(): self.runner(lab, argv)})
            sent = sum(nic["tx_messages"] for nic in lab.status()["hosts"][0]["nics"])
            stats = len(glob.glob(os.path.join(lab.folder, "stats-*.json")))
        if self.args.verbose:
            print(said, flush=True)
        for test, ending, why in results_of(said):
            batch.results[way][test] = (ending, why)
        last = [line for line in said.splitlines() if line.strip()][-1:]
        for test in batch.tests:
            batch.results[way].setdefault(test, ("failed", f"it had no result; {how_it_died(status)}: {''.join(last)}"))
        return f"{sent} messages sent" + (f", SHIFT left {stats} programs' statistics" if shift else "")

    @staticmethod
    def runner(lab, argv):
        """A program that cargo can name: it takes no arguments with blanks in them."""
        path = os.path.join(lab.folder, "runner")
        quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in argv)
        with open(path, "w", encoding="ascii") as f:
            f.write(f'#!/bin/sh\nexec {quoted} "$@"\n')
        os.chmod(path, 0o755)
        return path

    def example(self, crate, name, way, trials=3):
        """(its ending, why)"""
        wanted, argv, *client = EXAMPLES[crate][name]
        argv = [os.path.join(self.target, "debug", "examples", argv[0]), *argv[1:]]
        argv = [word.format(port=free_port()) for word in argv]
        shift = Shift() if way == "shift" else None
        with Lab(self.args.build) as lab:
            if name == "show_gids":     # it asks for the name of each NIC's network interface
                for nic in range(2):
                    lab.ctl("netdev", f"h0/mlx5_{nic}", "lo")
            try:
                if not client:
                    programs = [lab.run("h0", argv, timeout=60, shift=shift)]
                elif "cmtime" in name:
                    programs = self.by_rdma_cm(lab, argv, client[0], shift)
                else:
                    programs = lab.pair(argv, argv + client[0], shift=shift)
            except Stuck as e:
                if trials > 1 and any(sent_early(p) for p in lab.programs):
                    print(f"    {way} {name}: the client sent before its server could receive, and is tried again", flush=True)
                    return self.example(crate, name, way, trials - 1)
                return "failed", f"{e}: " + " / ".join(p.tail(3).replace("\n", " ") for p in lab.programs)
            bad = next((p for p in programs if p.process.returncode), None)
            if bad:
                return "failed", f"{how_it_died(bad.process.returncode)}: {bad.tail(3)}".replace("\n", " ")
            if not re.search(wanted, programs[-1].out()):
                return "failed", f"it does not say '{wanted}': {programs[-1].tail(3)}".replace("\n", " ")
        return "passed", ""

    @staticmethod
    def by_rdma_cm(lab, argv, client, shift):
        server = lab.start("h0", argv, shift=shift)
        wait_for("listening of the server", lambda: lab.listeners(server) or not server.running(), 60)
        argv = [argv[0], *(word for word in argv[1:] if word in ("-q", "-p") or word.isdigit()), *client]
        done = lab.run("h1", argv, timeout=60, shift=shift)
        server.wait(60)
        return server, done

    def run_examples(self, batch, crate, way):
        for name in EXAMPLES[crate]:
            test = f"example: {name}"
            if test not in batch.tests:
                batch.tests.append(test)
            batch.results[way][test] = self.example(crate, name, way)


def sent_early(program):
    """
    sideway's pingpongs connect by TCP alone, and the client sends at once: if the server's NIC is ready to receive more than
    134 ms later (8 tries of 17 ms), the client ends with an error, and its server polls for ever. Busy machines are that late.
    """
    return bool(re.search(r"Failed status \S+ \(12\)", program.err()))


def variable():
    """What cargo reads the runner from."""
    asked = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    host = re.search(r"^host: (\S+)$", asked, re.M)[1]
    return "CARGO_TARGET_" + host.upper().replace("-", "_") + "_RUNNER"


def explanations():
    """[(expression, why)] of the lines EXPRESSION => WHY."""
    with open(EXPLAINED, encoding="utf-8") as f:
        lines = [line.strip() for line in f if line.strip() and not line.startswith("#")]
    return [(re.compile(name), why) for name, _, why in (line.partition(" => ") for line in lines)]


def report(batches, ways):
    """Prints what failed. Returns whether all of it is explained, and nothing is worse with SHIFT."""
    known, well, used = explanations(), True, set()
    for b in batches:
        for way in ways:
            for test, (ending, why) in b.results[way].items():
                if ending == "passed":
                    continue
                full = f"{b.name} {test}"
                reason = next(((name, text) for name, text in known if name.search(full)), None)
                used.add(reason and reason[0])
                well &= ending == "skipped" or reason is not None
                word = "skipped" if ending == "skipped" else "explained" if reason else "UNEXPLAINED"
                print(f"{word} {way} {full}: {reason[1] if reason else why}")
        for test in b.worse() if len(ways) == len(WAYS) else ():
            well = False
            print(f"WORSE {b.name} {test}: {b.results['shift'][test]}")
    for name, why in known:
        if name not in used:
            print(f"note: nothing failed that {EXPLAINED} explains by {name.pattern}: {why}")
    return well


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build")
    p.add_argument("--crates", type=lambda s: s.split(","), default=list(CRATES))
    p.add_argument("--ways", type=lambda s: s.split(","), default=list(WAYS))
    p.add_argument("--skip", action="append", default=[], metavar="NAME", help="no test whose name has this in it")
    p.add_argument("--seconds", type=float, default=600, help="for one crate's tests")
    p.add_argument("--verbose", action="store_true", help="what the tests print")
    args = p.parse_args()
    crates = Crates(args)
    missing = crates.missing()
    if missing:
        print("skipped: " + missing)
        return SKIPPED
    begun, batches = time.monotonic(), []
    for crate in args.crates:
        batch = Batch(crate, crates.tests(crate))
        batches.append(batch)
        for way in args.ways:
            told = crates.run_tests(batch, crate, way)
            crates.run_examples(batch, crate, way)
            passed, failed, skipped = batch.counts(way)
            print(f"{crate} {way}: {passed} passed, {failed} failed, {skipped} skipped; {told}", flush=True)
    well = report(batches, args.ways)
    print(f"{len(batches)} crates, {time.monotonic() - begun:.0f} s")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
