# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""RDMA NICs in software, for tests: hosts that see NICs, programs on them, and faults.

    with simnic.fabric(hosts=2, nics=2) as f:
        server = f.start("h0", "ib_write_bw", "-d", "mlx5_0")
        server.await_port(18515)
        f.run("h1", "ib_write_bw", "-d", "mlx5_0", "127.0.0.1")

Nothing of the machine changes, and no privilege is needed. docs/simnic.md says what the NICs can, simnicctl(1) which
faults there are. TCP is the machine's own: all hosts are 127.0.0.1.
"""
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from typing import Any, Callable, Dict, List, Mapping, Optional

__all__ = ["Error", "Fabric", "Program", "Result", "fabric", "free_port"]

COMMAND_S = 60.0    # simnicctl answers in milliseconds, but machines of CI are slow
GRACE_S = 5.0       # what a program gets between SIGTERM and SIGKILL

_numbers = itertools.count()


class Error(RuntimeError):
    """What was asked of a fabric failed; str() says why, with what simnicctl or the program said."""


def _simnicctl() -> str:
    """The wheel's own, or that in PATH."""
    try:
        from shift import _links    # pylint: disable=import-outside-toplevel
        return _links.program("simnicctl")
    except (ImportError, RuntimeError):
        found = shutil.which("simnicctl")
    if not found:
        raise Error("there is no simnicctl in PATH: install shift-rdma, or Debian's shift-rdma-simnic")
    return found


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read()


def _listens(port: int) -> bool:
    """Whether a socket of this machine waits for connections there."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        if not os.path.exists(table):
            continue
        for line in _text(table).splitlines()[1:]:
            local, _, state = line.split()[1:4]
            if state == "0A" and int(local.rpartition(":")[2], 16) == port:
                return True
    return False


def free_port() -> int:
    """A TCP port that nobody uses."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


class Result:
    """How a program ended: its exit status (-N: signal N), and what it said."""

    def __init__(self, argv: List[str], returncode: int, stdout: str, stderr: str):
        self.argv = argv
        self.returncode = returncode
        self.stdout = stdout
        self.stderr = stderr

    def __repr__(self) -> str:
        return f"<{' '.join(self.argv)}: {self.returncode}>"


class Program:
    """A program that runs on a host of a fabric, started by Fabric.start()."""

    def __init__(self, host: str, argv: List[str], command: List[str], env: Mapping[str, str], folder: str):
        self.host = host
        self.argv = argv
        self._files = [os.path.join(folder, name) for name in ("stdout", "stderr")]
        with open(self._files[0], "wb") as out, open(self._files[1], "wb") as err:
            # A session of its own: its children end with it.
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                             env=dict(env), start_new_session=True)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def stdout(self) -> str:
        """What it has written so far."""
        return _text(self._files[0])

    @property
    def stderr(self) -> str:
        return _text(self._files[1])

    def running(self) -> bool:
        return self._process.poll() is None

    def _error(self, what: str) -> Error:
        said = "\n".join(text.strip() for text in (self.stdout, self.stderr) if text.strip())
        return Error(f"{' '.join(self.argv)} on {self.host} {what}" + (f"; it said:\n{said}" if said else ""))

    def _await(self, what: str, look: Callable[[], Any], timeout: float) -> Any:
        end = time.monotonic() + timeout
        while True:
            ended = not self.running()      # before the look: what it did last is not missed
            found = look()
            if found:
                return found
            if ended:
                raise self._error(f"ended with {self._process.returncode} and did not {what}")
            if time.monotonic() > end:
                raise self._error(f"did not {what} within {timeout:g} s")
            time.sleep(0.01)

    def expect(self, pattern: str, timeout: float = COMMAND_S) -> "re.Match[str]":
        """Waits until its output (stdout, then stderr) has what the regular expression asks for. Programs in C keep what
        they write to a file until it is much, or they end; await_port() needs no output. Raises Error where the program
        ends without it, or the time is over."""
        return self._await(f"say {pattern!r}", lambda: re.search(pattern, self.stdout, re.M) or
                           re.search(pattern, self.stderr, re.M), timeout)

    def await_port(self, port: int, timeout: float = COMMAND_S) -> None:
        """Waits until someone listens on this TCP port, without connecting. Raises Error as expect() does."""
        self._await(f"listen on port {port}", lambda: _listens(port), timeout)

    def wait(self, timeout: float = COMMAND_S, check: bool = True) -> Result:
        """Waits for its end. check: raise Error where its exit status is not 0. Raises Error when the time is over; the
        program is stopped then."""
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.stop()
            raise self._error(f"did not end within {timeout:g} s") from None
        if check and code:
            raise self._error(f"ended with {code}")
        return Result(self.argv, code, self.stdout, self.stderr)

    def signal(self, number: int) -> None:
        """Sends a signal to it and its children; nothing where it has ended."""
        if self.running():
            os.killpg(self.pid, number)

    def stop(self) -> None:
        """Ends it and its children: by SIGTERM, then by SIGKILL."""
        self.signal(signal.SIGTERM)
        try:
            self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(self.pid, signal.SIGKILL)     # children may be left of one that has ended
        except ProcessLookupError:
            pass
        self._process.wait()


class Fabric:
    """Hosts h0, h1, ... with NICs mlx5_0, mlx5_1, ... each, as fabric() makes it. Usable in a with statement."""

    def __init__(self, name: str, hosts: int, nics: int, options: List[str]):
        self._simnicctl = _simnicctl()
        self.name = name
        self.hosts = [f"h{i}" for i in range(hosts)]
        self.nics = [f"mlx5_{i}" for i in range(nics)]
        self._programs: List[Program] = []
        self._open = False
        self.ctl("create", "--hosts", str(hosts), "--nics", str(nics), *options)
        self._open = True
        self._folder = tempfile.mkdtemp(prefix=f"simnic-{name}-")

    def __enter__(self) -> "Fabric":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the programs that this fabric started, each by its pid, and removes the fabric. Safe to repeat."""
        if not self._open:
            return
        self._open = False
        for program in reversed(self._programs):
            program.stop()
        shutil.rmtree(self._folder, ignore_errors=True)
        self.ctl("destroy")

    def environ(self, env: Optional[Mapping[str, str]] = None) -> Dict[str, str]:
        """A copy of this process' environment, with env, in which simnicctl finds this fabric."""
        return {**os.environ, **(env or {}), "SIMNIC_FABRIC": self.name}

    def ctl(self, *args: str) -> str:
        """Any command of simnicctl(1) on this fabric; returns what it printed."""
        done = subprocess.run([self._simnicctl, *args], env=self.environ(), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=COMMAND_S, check=False)
        if done.returncode:
            raise Error(done.stderr.strip() or f"simnicctl {' '.join(args)} ended with {done.returncode}")
        return done.stdout

    def start(self, host: str, *argv: str, env: Optional[Mapping[str, str]] = None) -> Program:
        """Starts a program on a host, in the background. env: variables that it has besides those of this process. It is
        stopped with the fabric, if not before."""
        if not self._open:
            raise Error(f"fabric {self.name} is closed")
        if host not in self.hosts:
            raise Error(f"no host {host!r}: the fabric has {', '.join(self.hosts)}")
        if not argv:
            raise Error(f"no command for {host}")
        if not shutil.which(argv[0], path=self.environ(env).get("PATH")):
            raise Error(f"{argv[0]}: no such program, or not executable")
        program = Program(host, list(argv), [self._simnicctl, "run", "--host", host, "--", *argv], self.environ(env),
                          tempfile.mkdtemp(prefix=f"{host}-", dir=self._folder))
        self._programs.append(program)
        return program

    def run(self, host: str, *argv: str, env: Optional[Mapping[str, str]] = None, timeout: float = COMMAND_S,
            check: bool = True) -> Result:
        """Runs a program on a host to its end. check: raise Error where its exit status is not 0. Raises Error, and stops
        it, when the time is over."""
        return self.start(host, *argv, env=env).wait(timeout, check)

    def fault(self, kind: str, target: str, *, after: Optional[float] = None, at_message: Optional[int] = None,
              lasts: Optional[float] = None) -> None:
        """Breaks something: fault("port-down", "h0/mlx5_0"), fault("switch-down", "rail0"). after: so many seconds from
        now; at_message: when the NIC has sent so many more messages; lasts: it ends by itself after these seconds."""
        options = (("--after", after), ("--at-message", at_message), ("--for", lasts))
        self.ctl("fault", kind, target, *(f"{word}" for name, value in options if value is not None
                                          for word in (name, value)))

    def heal(self, target: str = "all") -> None:
        """Mends a NIC, a rail or all; faults that were to come are cancelled."""
        self.ctl("heal", target)

    def status(self) -> Dict[str, Any]:
        """What `simnicctl status --json` says: NICs, rails, counters, processes."""
        return json.loads(self.ctl("status", "--json"))

    def nic(self, name: str) -> Dict[str, Any]:
        """What the status says of one NIC, as nic("h0/mlx5_0")."""
        host, _, device = name.partition("/")
        for entry in self.status()["hosts"]:
            for nic in entry["nics"]:
                if (entry["name"], nic["name"]) == (host, device):
                    return nic
        raise Error(f"no NIC {name!r}: the fabric has {self.hosts[0]}/{self.nics[0]} to "
                    f"{self.hosts[-1]}/{self.nics[-1]}")


def fabric(hosts: int = 2, nics: int = 2, *, link_layer: str = "eth", name: Optional[str] = None,
           options: Optional[List[str]] = None) -> Fabric:
    """Makes a fabric. link_layer: eth (RoCE v2) or ib. name: where programs outside shall find it by SIMNIC_FABRIC;
    otherwise one that nobody else has. options: more of `simnicctl create`. Raises Error."""
    return Fabric(name or f"py-{os.getpid()}-{next(_numbers)}", hosts, nics,
                  ["--link-layer", link_layer, *(options or [])])
