# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The proof (docs/proof/), compiled out of the source tree: what the programs of this folder share."""
import concurrent.futures
import fcntl
import hashlib
import os
import re
import resource
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SOURCES = os.path.join(ROOT, "docs", "proof")
LIBRARY = "Shift"       # the logical name of the folder


class Failure(Exception):
    """What a person reads when something is not as it should be."""


def skip_without_coq():
    """Status 77 is ctest's for a test that was skipped."""
    missing = [tool for tool in ("coqc", "coqchk", "ocamlfind", "ocamlopt") if not shutil.which(tool)]
    if missing:
        print(f"skipped: {', '.join(missing)} is not installed and could not be "
              "(scripts/install-coq.sh, as root)")
        sys.exit(77)


def command(argv, cwd=None):
    done = subprocess.run(argv, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False)
    if done.returncode:
        raise Failure(f"{' '.join(argv)}: exit {done.returncode}\n{done.stdout[-6000:]}")
    return done.stdout


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def names():
    """All files of the proof, without .v."""
    return sorted(name[:-2] for name in os.listdir(SOURCES) if name.endswith(".v"))


def needs(text):
    """The files of the proof that this text requires."""
    found = []
    for line in re.findall(rf"^From {LIBRARY} Require (?:Import |Export )?([\w ]+)\.", text, flags=re.M):
        found += line.split()
    return found


class Folder:
    """A build folder with copies of the sources and what was compiled of them, for all programs that need it."""

    def __init__(self, path):
        self.path = os.path.abspath(path)
        self.seconds = {}       # of the compiler's own time
        self.said = {}
        os.makedirs(self.path, exist_ok=True)

    def at(self, name):
        return os.path.join(self.path, name)

    def empty(self):
        shutil.rmtree(self.path)
        os.makedirs(self.path)

    def closure(self, name):
        """It and all that it needs, what is needed first."""
        order = []

        def visit(one):
            if one not in order:
                for other in needs(read(os.path.join(SOURCES, one + ".v"))):
                    visit(other)
                order.append(one)
        visit(name)
        return order

    def mark(self, name):
        """What a compiled file depends on."""
        text = "".join(read(os.path.join(SOURCES, one + ".v")) for one in self.closure(name))
        return hashlib.sha256(text.encode()).hexdigest()

    def compile(self, name):
        """Unless it is there; of two programs that want it, one does."""
        with open(self.at(name + ".lock"), "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.compile_locked(name)

    def compile_locked(self, name):
        mark, marked = self.mark(name), self.at(name + ".mark")
        if os.path.exists(marked) and read(marked) == mark:
            return
        shutil.copy(os.path.join(SOURCES, name + ".v"), self.at(name + ".v"))
        begun = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        wall = time.monotonic()
        self.said[name] = command(["coqc", "-q", "-Q", ".", LIBRARY, name + ".v"], self.path)
        used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - begun
        self.seconds[name] = min(used, time.monotonic() - wall)
        write(marked, mark)

    def compile_all(self, wanted, jobs, done=lambda name: None):
        """In an order in which each finds what it needs; `done` is called as each is ready."""
        left = {name: set(needs(read(os.path.join(SOURCES, name + ".v")))) for name in wanted}
        for deps in list(left.values()):
            if deps - set(left):
                raise Failure(f"there is no {' '.join(deps - set(left))} in {SOURCES}")
        running, ready = {}, set()
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            while left or running:
                for name in [n for n in left if left[n] <= ready]:
                    running[pool.submit(self.compile, name)] = name
                    del left[name]
                if not running:
                    raise Failure(f"files that need each other: {' '.join(left)}")
                for future in concurrent.futures.wait(
                        running, return_when=concurrent.futures.FIRST_COMPLETED).done:
                    name = running.pop(future)
                    future.result()
                    ready.add(name)
                    done(name)

    def script(self, name, text, into=None):
        """Runs a text that is no part of the proof, in another folder; what it printed."""
        into = into or self.path
        write(os.path.join(into, name + ".v"), text)
        return command(["coqc", "-q", "-Q", self.path, LIBRARY, name + ".v"], into)

    def extract(self, source, wanted, into):
        """Compiles what `source`, an extract.v, needs, and runs it: its .ml file lies in that folder then."""
        for one in wanted:
            for name in self.closure(one):
                self.compile(name)
        self.script(os.path.splitext(os.path.basename(source))[0], read(source), into)


def program_folders(parser, name):
    """Adds --build, where a program made of the proof goes, and --proof, what is compiled for all of them."""
    build = os.path.join(ROOT, "build")
    parser.add_argument("--build", default=os.path.join(build, name))
    parser.add_argument("--proof", default=os.path.join(build, "proof"), help="the compiled proof, as of run_proof.py")


def folders_of(args):
    """(the compiled proof, where the program goes)"""
    os.makedirs(args.build, exist_ok=True)
    return Folder(args.proof), os.path.abspath(args.build)
