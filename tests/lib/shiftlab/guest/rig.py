# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What a case works with, inside a guest, in each lane: programs, SHIFT under them or not, and what they said."""
import glob
import json
import os
import shutil
import subprocess
import time

from shiftlab.guest.cases import Failed, check
from shiftlab.lab import Program, Shift, Stuck, slow_by, slowed, wait_for

START_S = 40                # for a program to come up: each start costs a second under emulation
LIMIT_S = 60                # of a case; where it may take longer, so may each step
# A guest is slow, and no NIC of it is sick for that: SHIFT gives the peer, the commands and a move more time.
LONGEST_MS = 60000          # of those
PATIENCE = ("silence_ms", "command_ms", "hang_ms", "flush_wait_ms", "deadline_ms")
SLOW_GUEST = {"log": "info", "silence_ms": 20000, "command_ms": 20000, "hang_ms": 20000,
              "flush_wait_ms": 20000, "deadline_ms": 40000, "holddown_ms": 500, "holddown_max_ms": 2000}


def run(*argv, timeout=30, fine=True, env=None, errors=subprocess.STDOUT):
    """Its output, with what it says of errors; fine: it must end with status 0."""
    argv, timeout = [str(a) for a in argv], slowed(timeout)
    try:
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=errors, text=True, errors="replace",
                              stdin=subprocess.DEVNULL, timeout=timeout, env=env)
    except subprocess.TimeoutExpired:
        raise Stuck(f"{' '.join(argv)} did not end within {timeout:g} s") from None
    if fine and done.returncode:
        raise Failed(f"{' '.join(argv)}: exit {done.returncode}: {done.stdout.strip()[-400:]}")
    return done.stdout


class Rig:
    """For one case. Programs that it starts are ended with it."""

    def __init__(self, order, folder, tell):
        self.out = order["build"]   # the folder of programs and libraries
        self.seed = order["seed"]
        self.folder = folder        # this case's own; its files are kept if it fails
        self.tell = tell            # a line to whoever waits
        self.kv = "lmdb:" + os.path.join(folder, "kv")
        self.programs = []
        slow_by(max(1.0, order["limit"] / LIMIT_S))
        self.settings = {name: min(LONGEST_MS, int(slowed(value))) if name in PATIENCE else value
                         for name, value in SLOW_GUEST.items()}
        self.conf = os.path.join(folder, "shift.conf")
        open(self.conf, "x", encoding="ascii").close()

    def end(self):
        for p in self.programs:
            p.end()

    def left(self):
        """What whoever cleans behind the case has to know."""
        return {}

    # ---- programs -------------------------------------------------------------------------

    def bin(self, name):
        return os.path.join(self.out, "bin", name)

    def env(self):
        env = {k: v for k, v in os.environ.items() if not k.startswith("SHIFT_")}
        env["SHIFT_CONF"] = self.conf
        return env

    def shift(self, **settings):
        return Shift(**{**self.settings, **settings})

    def launch(self, name, argv, env, stdin=False):
        """Programs that poll must keep neither the kernel's threads from the wire, nor a case from its commands."""
        program = Program(name, ["nice", "-n", "19", *argv], env, self.folder, stdin)
        self.programs.append(program)
        return program

    def under_shift(self, name, argv, env, shift):
        """argv under SHIFT, whose files are the case's; what env has already stays."""
        env.setdefault("SHIFT_RUN_DIR", os.path.join(self.folder, "run"))
        env.setdefault("SHIFT_STATS", os.path.join(self.folder, "stats-" + name))
        env.setdefault("SHIFT_LOG_FILE", os.path.join(self.folder, f"shift-{name}.log"))
        return shift.apply(self, argv, env)

    def await_listening(self, program, listens=Program.listens, step=0.02):
        wait_for(f"listening of {program.name}", lambda: listens(program) or not program.running(), START_S, step)
        check(program.running(), f"{program.name} ended with {program.process.returncode} before its client came: "
                                 + program.tail(3))

    def ends_well(self, *programs, timeout=50):
        for p in programs:
            status = p.wait(timeout)
            check(status == 0, f"{p.name} ended with {status}: {p.tail(4)}")

    def until(self, what, test, programs, timeout=40, step=0.1):
        """wait_for(), as long as the programs run."""
        def tried():
            if test():
                return True
            for p in programs:
                check(p.running(), f"{p.name} ended with {p.process.returncode}, and no {what}: {p.tail(4)}")
            return False

        wait_for(what, tried, timeout, step)

    def await_out(self, program, word, count=1):
        """Until a program has said the word so many times."""
        self.until(f"{word} of {program.name}", lambda: program.out().count(word) >= count, (program,))

    # ---- SHIFT ----------------------------------------------------------------------------

    def shiftctl(self, *args, **kw):
        env = {**self.env(), "SHIFT_RUN_DIR": os.path.join(self.folder, "run")}
        return run(self.bin("shiftctl"), *args, env=env, **kw)

    def connections(self):
        """RC queue pairs of programs under SHIFT, as they are now."""
        status = json.loads(self.shiftctl("status", "--json", fine=False, errors=None))
        return [q for p in status["processes"] for q in p.get("qps", [])
                if q["type"] == "RC" and q["why"] != "not connected yet"]

    def await_protected(self, count, programs):
        """count: of connections' ends."""
        def protected():
            return sum(q["level"] == "protected" for q in self.connections()) >= count

        try:
            self.until("protection", protected, programs, START_S, 0.5)
        except Stuck:
            whys = sorted({f"{q['level']}: {q['why']}" for q in self.connections()})
            raise Failed(f"not protected within {slowed(START_S):g} s: {'; '.join(whys) or 'no connections'}") from None

    def await_path(self, path, programs, timeout=40):
        """Every connection's traffic is on this path, and no move is under way."""
        def there():
            found = self.connections()
            return found and all(q.get("path") == path for q in found)

        self.until(f"path {path}", there, programs, timeout, 0.3)

    def moves(self, *programs):
        """Those that SHIFT wrote down at the programs' ends."""
        found = []
        for p in programs:
            for path in glob.glob(os.path.join(self.folder, f"stats-{p.name}.*.json")):
                with open(path, encoding="utf-8") as f:
                    found += json.load(f)["moves"]
        return found

    # ---- what is left of it ---------------------------------------------------------------

    def keep(self, to):
        """The programs' output and SHIFT's logs, where the host finds them."""
        os.makedirs(to, exist_ok=True)
        for path in glob.glob(os.path.join(self.folder, "*")):
            if path.endswith((".out", ".err", ".log", ".json")) and os.path.getsize(path):
                shutil.copyfile(path, os.path.join(to, os.path.basename(path)))


def settle(seconds):
    """Lets traffic run, or a fault last."""
    time.sleep(seconds)
