# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What a case works with, inside a guest: rails of soft-RoCE with two ends, programs on them, faults.

End a is the server's host, end b the client's; rail 0 has the default NICs, rail 1 their backups. rails.sh says how
both fit into one guest.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import time

from shiftlab.lab import Program, Shift, Stuck, free_port, slow_by, slowed, wait_for

HERE = os.path.dirname(os.path.abspath(__file__))
ENDS = ("a", "b")
GID = 1                     # the IPv4 address; 0 is the link-local one
START_S = 40                # for a program to come up: each start costs a second under emulation
BACKUPS = {end: f"rxe_{end}0=rxe_{end}1,rxe_{end}1=rxe_{end}0" for end in ENDS}
LIMIT_S = 60                # of a case; where it may take longer, so may each step
# A guest is slow, and no NIC of it is sick for that: SHIFT gives the peer, the commands and a move more time.
LONGEST_MS = 60000          # of those
PATIENCE = ("silence_ms", "command_ms", "hang_ms", "flush_wait_ms", "deadline_ms")
SLOW_GUEST = {"log": "info", "silence_ms": 20000, "command_ms": 20000, "hang_ms": 20000,
              "flush_wait_ms": 20000, "deadline_ms": 40000, "holddown_ms": 500, "holddown_max_ms": 2000}
QUEUE = ("pfifo", "limit", 10000)   # of each interface: rails.sh says why
# The first byte of RoCE's header behind IPv4 and UDP, as (value, mask): answers to reliable requests.
OPCODE_AT = 28
ANSWERS = ((0x0d, 0xff), (0x0e, 0xfe), (0x10, 0xfe), (0x12, 0xff))
RELIABLE = (0x00, 0xe0)     # all opcodes of RC; those of UD, SHIFT's control path, pass


class Failed(Exception):
    """A case did not end as it should."""


class Skipped(Exception):
    """A case cannot be run here."""


def check(truth, what):
    if not truth:
        raise Failed(what)


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


def rails(*args):
    return run("sh", os.path.join(HERE, "rails.sh"), *args)


def other(end):
    return ENDS[1 - ENDS.index(end)]


def device(end, rail=0):
    return f"rxe_{end}{rail}"


def address(end, rail=0):
    return f"10.77.{rail}.{1 + ENDS.index(end)}"


def port_state(name):
    with open(f"/sys/class/infiniband/{name}/ports/1/state", encoding="ascii") as f:
        return f.read().split()[-1]


class Rails:
    """The wires: their faults, and whole again."""

    def __init__(self, count):
        self.count = count
        self.touched = False    # is something to be healed?
        self.cm = False         # did programs connect by rdma_cm meanwhile?

    def all(self):
        return [(end, rail) for rail in range(self.count) for end in ENDS]

    def down(self, end, rail=0):
        self.touched = True
        rails("down", end, rail)

    def up(self, end, rail=0):
        rails("up", end, rail)

    def lose(self, end, rail=0, percent=100):
        """So much of all that this end sends on the rail does not arrive; nobody is told."""
        self.shape(end, rail, "loss", f"{percent}%")

    def shape(self, end, rail, *netem):
        """What this end sends on the rail, as netem's options say; nobody is told."""
        self.touched = True
        run("tc", "qdisc", "replace", "dev", f"{end}{rail}", "root", "netem", *netem)

    def lose_answers(self, end, rail=0):
        """Acknowledgements and READ's data from this end; its own requests and datagrams arrive."""
        self._filters(other(end), rail, [(opcode, "drop") for opcode in ANSWERS])

    def lose_requests(self, end, rail=0):
        """Reliable requests from this end; its answers and its datagrams arrive."""
        self._filters(other(end), rail, [(opcode, "ok") for opcode in ANSWERS] + [(RELIABLE, "drop")])

    def _filters(self, end, rail, rules):
        """Where packets come in: what is dropped on its way out, rxe takes for congestion, and tries for ever."""
        name = f"{end}{rail}"
        self.touched = True
        run("tc", "qdisc", "replace", "dev", name, "clsact")
        for number, ((value, mask), action) in enumerate(rules, 1):
            run("tc", "filter", "add", "dev", name, "ingress", "protocol", "ip", "prio", number, "u32",
                "match", "ip", "protocol", 17, "0xff", "match", "u8", f"{value:#x}", f"{mask:#x}", "at", OPCODE_AT,
                "action", action)

    def pass_all(self, end, rail=0):
        """Ends what lose*() began for this end."""
        run("tc", "qdisc", "replace", "dev", f"{end}{rail}", "root", *QUEUE)
        run("tc", "qdisc", "del", "dev", f"{other(end)}{rail}", "clsact", fine=False)

    def active(self):
        """The RDMA devices whose port is active."""
        return {name for name in os.listdir("/sys/class/infiniband") if port_state(name) == "ACTIVE"}

    def heal(self, anew=True):
        """Everything as in the beginning, whatever a case has done. anew: the RDMA devices are made anew, too."""
        shaped = run("tc", "qdisc", "show")
        for end, rail in self.all():
            if re.search(rf"^qdisc (netem .*dev {end}{rail} |clsact .*dev {other(end)}{rail} )", shaped, re.M):
                self.pass_all(end, rail)
            self.up(end, rail)
        if anew:
            rails("renew", self.count)
        wanted = {device(end, rail) for end, rail in self.all()}
        wait_for("active ports", lambda: self.active() >= wanted, 20, 0.2)


class Rig:
    """For one case. Programs that it starts are ended with it."""

    def __init__(self, order, folder, tell):
        self.out = order["build"]   # the folder of programs and libraries
        self.debs = order["debs"]   # of SHIFT's packages; None
        self.seed = order["seed"]
        self.rails = Rails(order["rails"])
        self.folder = folder        # this case's own; its files are kept if it fails
        self.tell = tell            # a line to whoever waits
        self.kv = "lmdb:" + os.path.join(folder, "kv")
        self.programs = []
        self.fabric = None          # software NICs beside the rails: cross.py
        slow_by(max(1.0, order["limit"] / LIMIT_S))
        self.settings = {name: min(LONGEST_MS, int(slowed(value))) if name in PATIENCE else value
                         for name, value in SLOW_GUEST.items()}
        self.conf = os.path.join(folder, "shift.conf")
        open(self.conf, "x", encoding="ascii").close()

    def end(self):
        for p in self.programs:
            p.end()
        if self.fabric:
            self.fabric.end()

    # ---- programs -------------------------------------------------------------------------

    def bin(self, name):
        return os.path.join(self.out, "bin", name)

    def env(self):
        env = {k: v for k, v in os.environ.items() if not k.startswith("SHIFT_")}
        env["SHIFT_CONF"] = self.conf
        return env

    def shift(self, **settings):
        return Shift(**{**self.settings, **settings})

    def start(self, end, argv, name=None, shift=None, retry=False, stdin=False, env=None):
        """
        Starts argv on an end. shift: a Shift, or None for the distribution's library. retry: 7 retries are 6, so
        that a program finds that its packets are lost.
        """
        argv = [str(a) for a in argv]
        name = name or f"{os.path.basename(argv[0])}-{len(self.programs)}"
        full = {**self.env(), **(env or {})}
        if retry:
            shim = os.path.join(self.out, "lib", "kernel", "retry.so")
            full["LD_PRELOAD"] = ":".join(filter(None, (full.get("LD_PRELOAD"), shim)))
        if shift:
            full.setdefault("SHIFT_BACKUP", self.fabric.backup(end) if self.fabric else BACKUPS[end])
            full.setdefault("SHIFT_RUN_DIR", os.path.join(self.folder, "run"))
            full.setdefault("SHIFT_STATS", os.path.join(self.folder, "stats-" + name))
            full.setdefault("SHIFT_LOG_FILE", os.path.join(self.folder, f"shift-{name}.log"))
            argv = shift.apply(self, argv, full)
        if self.fabric:
            argv = self.fabric.place(end, argv, full)
        # programs that poll must keep neither the kernel's threads from the wire, nor a case from its commands
        program = Program(name, ["nice", "-n", "19", *argv], full, self.folder, stdin)
        self.programs.append(program)
        return program

    def listens_cm(self, program):
        """Does it wait for rdma_cm's connections? They are no sockets."""
        return re.search(rf"state LISTEN .*pid {program.pid} ", run("rdma", "resource", "show", "cm_id") + " ")

    def await_server(self, program, cm=False):
        if cm:
            wait_for(f"listening of {program.name}",
                     lambda: self.listens_cm(program) or not program.running(), START_S, 0.3)
        else:
            wait_for(f"listening of {program.name}", lambda: program.listens() or not program.running(), START_S)
        check(program.running(), f"{program.name} ended with {program.process.returncode} before its client came: "
                                 + program.tail(3))

    def pair(self, server, client, cm=False, **kw):
        """A server and its client, both running; names: "server" and "client"."""
        self.rails.cm |= cm
        s = self.start("a", server, "server", **kw)
        self.await_server(s, cm)
        return s, self.start("b", client, "client", **kw)

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

    # ---- perftest -------------------------------------------------------------------------

    def perftest(self, tool, extra=(), cm=False, **kw):
        """Both ends of a tool over rail 0, which is told by its device and GID, or by its addresses."""
        common = [*tool.split(), "-d", None, "-x", GID, "-F", "-p", free_port(), *extra]
        argv = {end: [device(end) if a is None else a for a in common] for end in ENDS}
        if cm:
            for end in ENDS:
                argv[end] += ["-R", "--source_ip", address(end)]
        return self.pair(argv["a"], argv["b"] + [address("a") if cm else "127.0.0.1"], cm, **kw)

    def carried(self, rail):
        """Bytes that both ends have sent on a rail, of whatever kind."""
        total = 0
        for end in ENDS:
            with open(f"/sys/class/net/{end}{rail}/statistics/tx_bytes", encoding="ascii") as f:
                total += int(f.read())
        return total

    def await_traffic(self, rail, programs, least=200_000, timeout=40):
        """Until so many bytes more went over a rail: a few messages of bulk traffic, and no heartbeats."""
        before = self.carried(rail)
        self.until(f"traffic on rail {rail}", lambda: self.carried(rail) - before >= least, programs, timeout)

    # ---- SHIFT ----------------------------------------------------------------------------

    def shiftctl(self, *args, **kw):
        env = {**self.env(), "SHIFT_RUN_DIR": os.path.join(self.folder, "run")}
        return run(self.bin("shiftctl"), *args, env=env, **kw)

    def doctor(self):
        return self.shiftctl("doctor", "--kv", self.kv, "--backup", ",".join(BACKUPS.values()), fine=False)

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
