# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A fabric of software NICs, programs on its hosts, and SHIFT under them or not.

Everything a Lab starts is ended by its process id, at the latest when the Lab is closed; a program
also dies with the script that started it.
"""
import argparse
import concurrent.futures
import ctypes
import glob
import json
import os
import random
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)
SKIPPED = 77
SLOW = 6.0      # what a sanitizer costs, in time limits
# Of SHIFT: thousands of moves at once on two busy cores are slow, but no NIC is sick, nor the peer gone.
PATIENT = {"deadline_ms": 120000, "command_ms": 60000, "hang_ms": 60000, "flush_wait_ms": 60000,
           "silence_ms": 60000, "heartbeat_loss_ms": 60000}
# The same, where the loss of a path has to be found by its silence.
NO_NIC_IS_SICK = {name: ms for name, ms in PATIENT.items() if name != "heartbeat_loss_ms"}
_slow = 1.0
# The distribution's libraries are not instrumented: libmlx5's seed of address handles. It is loaded as a
# provider, or by a program that links it.
COMPLAINTS = ("Sanitizer", "simnic: PROTOCOL ERROR", "a timer was not set", "is lost; please report")
KNOWN_RACES = "race:libmlx5-rdmav\nrace:libmlx5.so\n"


class Stuck(Exception):
    """A program did not end in its time."""


def _die_with_parent():
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def free_port():
    """A TCP port that nobody listens on just now."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def out_folder(build):
    """Where a build's programs are: build/out, or the folder itself."""
    build = os.path.abspath(build)
    inner = os.path.join(build, "out")
    return inner if os.path.isdir(inner) else build


def sanitizer_of(build):
    """Which one a build folder was configured with: "address", "thread", or "" for none."""
    try:
        with open(os.path.join(build, "CMakeCache.txt"), encoding="utf-8") as f:
            found = re.search(r"^SHIFT_SANITIZE:\w+=(\w*)$", f.read(), re.M)
    except FileNotFoundError:
        return ""
    return found.group(1) if found else ""


def slow_by(factor):
    """All that is waited for may take so many times longer."""
    global _slow
    _slow = factor


def slowed(seconds):
    return seconds * _slow


def wait_for(what, test, timeout=10.0, step=0.02):
    """Polls test() until it is true; returns its value."""
    timeout *= _slow
    end = time.monotonic() + timeout
    while True:
        value = test()
        if value:
            return value
        if time.monotonic() > end:
            raise Stuck(f"no {what} within {timeout:g} s")
        time.sleep(step)


def _children(pid):
    """Those that the process has not waited for."""
    found = []
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        with open(path, encoding="ascii") as f:
            found += map(int, f.read().split())
    return found


def _listening_inodes(pid):
    """Of the TCP sockets that listen in the process' network."""
    inodes = set()
    for name in ("tcp", "tcp6"):
        try:
            with open(f"/proc/{pid}/net/{name}") as f:
                rows = [row.split() for row in f.readlines()[1:]]
        except OSError:     # it ended, or there is no IPv6
            continue
        inodes.update(row[9] for row in rows if row[3] == "0A")
    return inodes


class Program:
    """A process with its output in files."""

    def __init__(self, name, argv, env, folder, stdin=False):
        self.name = name
        self.argv = argv
        self.out_path = os.path.join(folder, name + ".out")
        self.err_path = os.path.join(folder, name + ".err")
        with open(self.out_path, "wb") as out, open(self.err_path, "wb") as err:
            self.process = subprocess.Popen(
                argv, env=env, stdout=out, stderr=err, preexec_fn=_die_with_parent,
                stdin=subprocess.PIPE if stdin else subprocess.DEVNULL)
        self.pid = self.process.pid
        self.started = time.monotonic()

    def out(self):
        with open(self.out_path, errors="replace") as f:
            return f.read()

    def err(self):
        with open(self.err_path, errors="replace") as f:
            return f.read()

    def say(self, word):
        """One line to the program's standard input."""
        try:
            self.process.stdin.write((word + "\n").encode())
            self.process.stdin.flush()
        except (BrokenPipeError, ValueError):
            pass

    def running(self):
        return self.process.poll() is None

    def _signal_bit(self, mask, number):
        with open(f"/proc/{self.pid}/status") as f:
            row = next(line for line in f if line.startswith(mask + ":"))
        return int(row.split()[1], 16) >> (number - 1) & 1

    def pending(self, number):
        """Was this signal sent to the process and not taken yet?"""
        return self._signal_bit("ShdPnd", number)

    def catches(self, number):
        """Has the process a handler for this signal, by now?"""
        return self._signal_bit("SigCgt", number)

    def listens(self):
        found = _listening_inodes(self.pid)
        for fd in glob.glob(f"/proc/{self.pid}/fd/*"):
            try:
                kind, _, inode = os.readlink(fd).partition(":")
            except OSError:     # closed meanwhile
                continue
            if kind == "socket" and inode.strip("[]") in found:
                return True
        return False

    def await_listening(self):
        """Until it can be connected to, or has ended."""
        wait_for(f"listening of {self.name}", lambda: self.listens() or not self.running(), 30)

    def wait(self, timeout):
        timeout *= _slow
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise Stuck(f"{self.name} did not end within {timeout:g} s") from None

    def kill(self):
        """SIGKILL. Then nobody has its descriptors any more: its software NIC is a process that shares them, and that
        the kernel kills behind it."""
        nics = [os.pidfd_open(pid) for pid in _children(self.pid)]
        self.process.kill()
        self.process.wait()
        for nic in nics:
            wait_for(f"end of the NIC of {self.name}", lambda nic=nic: select.select([nic], [], [], 0)[0])
            os.close(nic)

    def end(self):
        """Ends it if it still runs."""
        if self.running():
            self.process.kill()
        self.process.wait()
        if self.process.stdin:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass

    def tail(self, lines=12):
        text = ""
        for kind, content in (("stdout", self.out()), ("stderr", self.err())):
            rows = content.strip().splitlines()[-lines:]
            if rows:
                text += f"--- {self.name} {kind}\n" + "\n".join(rows) + "\n"
        return text


class Shift:
    """How SHIFT comes under a program: which way it is loaded, and its settings."""

    def __init__(self, way="shiftctl", libdir=None, kv=None, **settings):
        self.way = way          # shiftctl, path (LD_LIBRARY_PATH), preload (LD_PRELOAD), both
        self.libdir = libdir
        self.kv = kv
        self.settings = settings  # SHIFT_<NAME>=value

    def apply(self, lab, argv, env):
        libdir = self.libdir or os.path.join(lab.out, "lib", "shift")
        env["SHIFT_KV"] = self.kv or lab.kv
        for name, value in self.settings.items():
            env["SHIFT_" + name.upper()] = str(value)
        if self.way == "shiftctl" and not self.libdir:
            return [os.path.join(lab.out, "bin", "shiftctl"), "run", "--"] + argv
        if self.way in ("path", "both", "shiftctl"):
            env["LD_LIBRARY_PATH"] = libdir + _rest(env.get("LD_LIBRARY_PATH"))
        if self.way in ("preload", "both", "shiftctl"):
            env["LD_PRELOAD"] = os.path.join(libdir, "libibverbs.so.1") + _rest(
                env.get("LD_PRELOAD"))
        return argv


def _run(argv, env, timeout=60):
    try:
        return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Stuck(f"{' '.join(argv)} did not end within {timeout:g} s") from None


def _rest(value):
    return ":" + value if value else ""


class Lab:
    """A fabric with its programs, as a context manager."""

    def __init__(self, build, hosts=2, nics=2, link="eth", cost_us=None, seed=None, keep=False, joined=False,
                 gpus=None):
        self.out = out_folder(build)
        self.sanitizer = sanitizer_of(build)
        slow_by(SLOW if self.sanitizer else 1.0)
        self.seed = seed
        self.folder = tempfile.mkdtemp(prefix="shift-lab-")
        self.conf = os.path.join(self.folder, "shift.conf")     # instead of this machine's own
        open(self.conf, "x", encoding="ascii").close()
        self.known_races = os.path.join(self.folder, "known-races")     # of libraries underneath
        with open(self.known_races, "x", encoding="ascii") as f:
            f.write(KNOWN_RACES)
        self.fabric = "lab-" + os.path.basename(self.folder)[len("shift-lab-"):]
        self.kv = os.environ.get("SHIFT_KV") or "lmdb:" + os.path.join(self.folder, "kv")
        self.keep = keep
        self.programs = []
        self.created = False
        self.create_args = ["--hosts", str(hosts), "--nics", str(nics), "--link-layer", link]
        if cost_us is not None:
            self.create_args += ["--cmd-cost-us", str(cost_us)]
        if joined:
            self.create_args.append("--joined")
        if gpus:
            self.create_args += ["--gpu-switch", str(gpus)]
        if seed is not None:
            self.create_args += ["--seed", str(seed & 0x7fffffff)]

    def __enter__(self):
        try:
            self.ctl("create", *self.create_args)
            self.created = True
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        return self

    def __exit__(self, kind, *_):
        if kind and issubclass(kind, Exception):
            self.tell()
        for p in self.programs:
            p.end()
        if self.created:
            self.ctl("destroy", check=False)
        if not self.keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    def env(self):
        # a suite is run for an engine, which no program of it chooses
        env = {k: v for k, v in os.environ.items()
               if not k.startswith("SHIFT_") or k == "SHIFT_ENGINE"}
        env["SIMNIC_FABRIC"] = self.fabric
        env["SHIFT_CONF"] = self.conf
        if self.sanitizer:
            env.update(self.sanitizer_env())
        return env

    def sanitizer_env(self):
        """Programs end as they are, with what libraries hold: leaks are leaks.py's matter."""
        # a cancelled thread's stack is not cleaned, and ASan trips over itself on the way out
        return {"ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0:use_sigaltstack=0",
                "TSAN_OPTIONS": "exitcode=66:report_signal_unsafe=0:suppressions=" + self.known_races}

    def complaints(self):
        """What a sanitizer, a software NIC or SHIFT's own checks said of the programs; None."""
        said = [(p.name, p.err() + self.shift_log(p)) for p in self.programs]
        return "".join(f"complaint about {name}:\n{err[:8000]}" for name, err in said
                       if any(word in err for word in COMPLAINTS)) or None

    def tell(self):
        """Prints what the programs and SHIFT in them said, for who looks for the cause of a failure."""
        print("".join(p.tail() for p in self.programs) + self.shift_logs() + (self.complaints() or ""), flush=True)

    def ctl(self, *args, check=True):
        argv = [os.path.join(self.out, "bin", "simnicctl")] + [str(a) for a in args]
        done = _run(argv, self.env())
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(args)}: exit {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def fault(self, kind, target, after=None, at_message=None, lasts=None):
        args = ["fault", kind, target]
        for name, value in (("--after", after), ("--at-message", at_message), ("--for", lasts)):
            if value is not None:
                args += [name, str(value)]
        self.ctl(*args)

    def shiftctl(self, host, *args, check=True):
        """shiftctl, as on a host: it reaches the programs that were started there."""
        env = dict(self.env(), SHIFT_RUN_DIR=self.run_dir(host))
        argv = [os.path.join(self.out, "bin", "shiftctl")] + [str(a) for a in args]
        done = _run(argv, env)
        if check and done.returncode:
            raise RuntimeError(f"shiftctl {' '.join(argv[1:])}: exit {done.returncode}: "
                               f"{done.stdout.strip()} {done.stderr.strip()}")
        return done.stdout

    def shiftctl_all(self, host, *args):
        """All that it writes, whatever its exit status."""
        env = dict(self.env(), SHIFT_RUN_DIR=self.run_dir(host))
        done = _run([os.path.join(self.out, "bin", "shiftctl")] + [str(a) for a in args], env)
        return done.stdout + done.stderr

    def connections(self, host, of=None):
        """The RC queue pairs of a host's programs, or of some, that are connected, as SHIFT sees them."""
        status = json.loads(self.shiftctl(host, "status", "--json", check=False))
        pids = {p.pid for p in of or ()}
        return [q for p in status["processes"] if of is None or p["pid"] in pids for q in p.get("qps", [])
                if q["type"] == "RC" and q["why"] != "not connected yet"]

    def listeners(self, program):
        """What a program listens for by rdma_cm."""
        return [x for x in self.status()["listeners"] if x["pid"] == program.pid]

    def run_dir(self, host):
        return os.path.join(self.folder, "run-" + host)

    def status(self):
        return json.loads(self.ctl("status", "--json"))

    def nic(self, host, nic=0, status=None):
        status = status or self.status()
        return status["hosts"][host]["nics"][nic]

    def carried(self, nic):
        """Bytes of connections that all NICs of this index have sent, without the datagrams."""
        nics = [h["nics"][nic] for h in self.status()["hosts"]]
        return sum(n.get("rc_tx_bytes", n["tx_bytes"]) for n in nics)

    def command(self, host, argv, name, shift=None, env=None):
        """What runs argv on a host: the whole argv, and its environment."""
        full = self.env()
        full.update(env or {})
        # a program may bring SHIFT along by itself: this machine's own directory is never used
        full.setdefault("SHIFT_RUN_DIR", self.run_dir(host))
        argv = [str(a) for a in argv]
        if shift:
            full.setdefault("SHIFT_STATS", os.path.join(self.folder, "stats-" + name))
            full.setdefault("SHIFT_LOG_FILE", os.path.join(self.folder, "shift-" + name + ".log"))
            argv = shift.apply(self, argv, full)
        return [os.path.join(self.out, "bin", "simnicctl"), "run", "--host", host, "--"] + argv, full

    def start(self, host, argv, name=None, shift=None, env=None, stdin=False):
        """Starts argv on a host; shift: a Shift, or None for the distribution's library."""
        name = name or f"{os.path.basename(str(argv[0]))}-{host}-{len(self.programs)}"
        argv, env = self.command(host, argv, name, shift, env)
        return self.launch(name, argv, env, stdin)

    def launch(self, name, argv, env, stdin=False):
        """Starts argv as it is: on no host."""
        program = Program(name, argv, env, self.folder, stdin)
        self.programs.append(program)
        return program

    def run(self, host, argv, timeout=30, **kw):
        """Runs argv to its end; returns the Program."""
        program = self.start(host, argv, **kw)
        program.wait(timeout)
        return program

    def run_tool(self, argv, timeout=30):
        """Runs argv, on no host, to its end; returns the Program."""
        program = self.launch(f"{os.path.basename(argv[0])}-{len(self.programs)}", argv, self.env())
        program.wait(timeout)
        return program

    def pair(self, server, client, timeout=60, shift=None, env=None, names=None):
        """A server on h0 and its client on h1, both to their ends; returns both Programs."""
        names = names or (None, None)
        s = self.start("h0", server, shift=shift, env=env, name=names[0])
        s.await_listening()
        c = self.start("h1", client, shift=shift, env=env, name=names[1])
        c.wait(timeout)
        s.wait(timeout)
        return s, c

    def shift_log(self, program):
        try:
            with open(os.path.join(self.folder, "shift-" + program.name + ".log"),
                      errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def shift_logs(self):
        """The ends of all logs, with their names; a program may have started others."""
        text = ""
        for path in sorted(glob.glob(os.path.join(self.folder, "shift-*.log"))):
            with open(path, errors="replace") as f:
                text += f"--- {os.path.basename(path)}\n{f.read()[-6000:]}"
        return text

    def protected(self, program):
        """How many QPs SHIFT has said to be protected, by its log at level info."""
        return len(set(re.findall(r"QP (0x\w+) on \S+ is protected", self.shift_log(program))))

    def moves(self, program):
        return (self.stats(program) or {"moves": []})["moves"]

    def stats(self, program):
        """What SHIFT wrote at the program's exit; None if it wrote nothing."""
        for path in glob.glob(os.path.join(self.folder, "stats-" + program.name + ".*.json")):
            with open(path) as f:
                return json.load(f)
        return None


def draw_seed():
    """Fresh, but within a run of run.py always the same: a test that failed draws the same when it runs once more."""
    return int(os.environ.get("TESTS_DRAW", "0")) or random.SystemRandom().randrange(1, 1 << 31)


def draw(names, n):
    """n of them, others each time, in their order. They are printed: who asks for these by name replays that."""
    names = list(names)
    chosen = set(random.Random(f"{draw_seed()} {os.environ.get('SHIFT_ENGINE')} {names}").sample(names, n))
    chosen = [name for name in names if name in chosen]
    print("drawn:", *chosen, flush=True)
    return chosen


def cases_main(names, run, seeded=False, few=None, together=1, of_case=lambda name: {}, **fabric):
    """
    The main() of a file of cases: runs those that were asked for, or all, by run(lab, name), on a
    fabric each. Its exit status. seeded: they draw from lab.seed, which names those that fail, and
    --rounds runs them with so many seeds, one after the other. few: it says which are run with --few.
    together: so many at a time, where they wait. of_case: what a case's fabric has beside `fabric`.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--drawn", type=int, metavar="N", help="N of the cases, others each time")
    if few:
        parser.add_argument("--few", action="store_true", help="what make test takes")
    parser.add_argument("cases", nargs="*", choices=[[], *names])
    if seeded:
        parser.add_argument("--seed", type=int, help="of all that is random; without it a fresh one",
                            default=random.SystemRandom().randrange(1, 1 << 31))
        parser.add_argument("--rounds", type=int, default=1, metavar="N", help="with so many seeds, from that on")
    args = parser.parse_args()
    chosen = args.cases or list(names)
    if args.drawn:
        chosen = draw(chosen, args.drawn)
    if few and args.few:
        chosen = few()
    rounds = [{"seed": args.seed + i} for i in range(args.rounds)] if seeded else [{}]

    def passes(case):
        own, name = case
        return run_case(args.build, name + "".join(f" --seed {seed}" for seed in own.values()),
                        lambda lab: run(lab, name), **fabric, **own, **of_case(name))
    return run_cases([(own, name) for own in rounds for name in chosen], passes, together)


def run_cases(cases, passes, together=1):
    """All that passes(case) is true of, so many at a time; the closing line. The exit status."""
    with concurrent.futures.ThreadPoolExecutor(together) as pool:
        done = list((pool.map if together > 1 else map)(passes, cases))
    print(f"{sum(done)} passed, {len(done) - sum(done)} failed")
    return 0 if all(done) else 1


def run_case(build, name, case, **fabric):
    """
    case(lab), on a fabric of its own. One that fails is told with what its programs said, and does
    not keep the others from running. True if it passed.
    """
    began = time.monotonic()
    try:
        with Lab(build, **fabric) as lab:
            case(lab)
            if lab.complaints():
                raise RuntimeError("a sanitizer, a software NIC or SHIFT itself complained")
    except Exception as e:
        print(f"FAILED {name}: {e}", flush=True)
        return False
    print(f"ok     {name}, {time.monotonic() - began:.1f} s", flush=True)
    return True
