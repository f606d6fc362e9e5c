#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Runs every command of README.md and docs/, page by page, as a reader would.

Each page gets a shell of its own, in a folder where the repository lies as if it had just been built;
with the rights for it, its own network (so that ports and addresses are those of the page) and its own
/dev/shm. Blocks marked "not run" are told with their reason, and held against bash -n. Options that
commands name must be in the --help of their program. pages.py has the marks.

usage: run_docs.py --build BUILD [PAGE...]
"""
import argparse
import ctypes
import fcntl
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

import pages

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "..", ".."))
BLOCK_S = 180       # of a command that hangs: far more than any takes
CLONE_NEWNET, CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x40000000, 0x00020000, 0x4000, 0x40000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
TOOLS = ("shiftctl", "simnicctl", "shift-exporter", "sdr_perf")


class Failed(Exception):
    """A command did something else than its page says."""


def own_network_and_memory():
    """In the child, with the rights for it: nothing of this page meets anything else on the machine."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET | CLONE_NEWNS):
        return
    libc.mount(b"none", b"/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None)
    libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", ctypes.c_ulong(0), None)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        fcntl.ioctl(s, SIOCSIFFLAGS, struct.pack("16sH14s", b"lo", IFF_UP, b""))


class Reader:
    """Somebody who works through one page."""

    def __init__(self, build):
        self.folder = tempfile.mkdtemp(prefix="shift-docs-")
        self.steps = os.path.join(self.folder, "steps")
        self.home = os.path.join(self.folder, "shift")
        for path in (self.steps, self.home, os.path.join(self.folder, "run")):
            os.mkdir(path, 0o700)
        for name in os.listdir(ROOT):
            if not name.startswith((".git", "build", "out")):
                os.symlink(os.path.join(ROOT, name), os.path.join(self.home, name))
        os.symlink(os.path.abspath(build), os.path.join(self.home, "build"))
        self.conf = os.path.join(self.folder, "shift.conf")
        open(self.conf, "x", encoding="ascii").close()

    def env(self):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("SHIFT_", "SIMNIC_", "LD_"))}
        env.update(HOME=self.folder, SHIFT_CONF=self.conf, TERM="dumb", LC_ALL="C",
                   SHIFT_RUN_DIR=os.path.join(self.folder, "run"), PYTHONDONTWRITEBYTECODE="1")
        return env

    def script(self, blocks):
        """The driver: each command in the same shell, its output and its status in files."""
        n = 0
        with open(os.path.join(self.steps, "driver"), "w", encoding="utf-8") as driver:
            driver.write("unset BASH_ENV\n"
                         f"ends_now() {{ {sys.executable} {HERE}/ends_now.py $(jobs -p); }}\n")
            for block in blocks:
                driver.write(f"echo before {block.line} > {self.steps}/at\n")
                driver.writelines(line + "\n" for line in block.first)
                for text, _ in block.commands():
                    with open(f"{self.steps}/{n}.sh", "w", encoding="utf-8") as f:
                        f.write(text)
                    strict = "set -e; " if block.language == "sh" else ""
                    driver.write(f"echo {n} > {self.steps}/at\n"
                                 f"{strict}. {self.steps}/{n}.sh > {self.steps}/{n}.out 2>&1\n"
                                 f"echo $? > {self.steps}/{n}.rc\nset +e\n")
                    n += 1
            driver.write("kill $(jobs -p) 2> /dev/null; wait\n")

    def run(self, blocks):
        """Runs them to the end, or until one hangs; what is left over is ended by its group."""
        self.script(blocks)
        with open(os.path.join(self.steps, "rest"), "wb") as rest:
            shell = subprocess.Popen(
                ["bash", os.path.join(self.steps, "driver")], cwd=self.home, env=self.env(),
                stdin=subprocess.DEVNULL, stdout=rest, stderr=rest, start_new_session=True,
                preexec_fn=own_network_and_memory)
        try:
            self.watch(shell)
        finally:
            try:
                os.killpg(shell.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            shell.wait()

    def watch(self, shell):
        at, since = None, time.monotonic()
        while shell.poll() is None:
            now = self.text("at")
            if now != at:
                at, since = now, time.monotonic()
            if time.monotonic() - since > BLOCK_S:
                return
            time.sleep(0.05)

    def text(self, name):
        try:
            with open(os.path.join(self.steps, name), encoding="utf-8", errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def verdicts(self, blocks):
        """Of each block None, or what was wrong; after one that was not ended, nothing more."""
        n = 0
        for block in blocks:
            wrong = []
            for text, shown in block.commands():
                out, rc = self.text(f"{n}.out"), self.text(f"{n}.rc").strip()
                first = text.split("\n", maxsplit=1)[0]
                if rc != "0":
                    what = f"status {rc}" if rc else "was not ended"
                    wrong.append(f"{first}: {what}; it printed:\n{out[-3000:]}")
                elif shown and not matches(shown, out, block.numbers_vary):
                    wrong.append(f"{first}: the page shows\n" + "\n".join(shown) +
                                 f"\nand it printed\n{out[-3000:]}")
                n += 1
            yield block, "\n".join(wrong)

    def end(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def word_pattern(word, numbers_vary):
    """A number is of decimal digits, or of hexadecimal ones with a decimal one among them, or a date."""
    if not numbers_vary:
        return re.escape(word)
    parts = re.split(r"(\d+-\d+-\d+T[\d:.]+Z|0x[0-9a-f]+|\b[0-9a-f]*\d[0-9a-f]*(?:[.:]\d+)*\b)", word)
    return "".join(r"[-0-9a-fxTZ.:]+" if n % 2 else re.escape(part) for n, part in enumerate(parts))


def pattern(line, numbers_vary=False):
    """As a regular expression: "..." stands for anything, blanks for any number of blanks."""
    parts = [r"\s+".join(word_pattern(word, numbers_vary) for word in part.split(" ") if word)
             for part in line.strip().split("...")]
    return r"\s*" + r".*?".join(r"\s*" + p + r"\s*" if p else "" for p in parts)


def matches(shown, out, numbers_vary=False):
    """Do the shown lines come in this order? A line "..." stands for any lines, or none."""
    wanted, lines = [s for s in shown if s.strip()], [line for line in out.split("\n") if line.strip()]
    at, loose = 0, False
    for want in wanted:
        if want.strip() == "...":
            loose = True
            continue
        while at < len(lines) and loose and not re.fullmatch(pattern(want, numbers_vary), lines[at]):
            at += 1
        if at == len(lines) or not re.fullmatch(pattern(want, numbers_vary), lines[at]):
            return False
        at, loose = at + 1, False
    return loose or at == len(lines)


def self_test():
    def must(shown, out, ok, numbers_vary=False):
        if matches(shown, out, numbers_vary) != ok:
            raise Failed(f"matching of {shown} to {out!r} is not {ok}")
    must(["a ... b"], "a x y b\n", True)
    must(["a ... b"], "a x y c\n", False)
    must(["a", "...", "d"], "a\nb\nc\nd\n", True)
    must(["a", "d"], "a\nb\nd\n", False)
    must(["a"], "a\nb\n", False)
    must(["a", "..."], "a\nb\n", True)
    must(["QP  0x... protected"], "  QP   0x12 protected", True)
    must(["12 moved in 1.5 ms"], "7 moved in 11.25 ms", True, True)
    must(["12 moved in 1.5 ms"], "7 moved in 11.25 ms", False)
    must(["12 moved from mlx5_0, 0x40"], "7 moved from mlx5_1, 0x40", False, True)
    must(["id ab12cd34"], "id 0011ffee", True, True)
    must(["added face"], "added fade", False, True)


def syntax(block):
    text = "".join(text for text, _ in block.commands())
    done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
    return done.stderr


def helps(build):
    """What --help of each tool says, and that of its commands, where they have one of their own."""
    found = {}
    for tool in TOOLS:
        path = os.path.join(build, "out", "bin", tool)
        done = subprocess.run([path, "--help"], capture_output=True, text=True, check=True)
        found[tool] = done.stdout
        names = set(re.findall(rf"^(?:usage: |\s+){tool} ([a-z][a-z-]+)|^  ([a-z][a-z-]+)(?: |$)", done.stdout, re.M))
        for command in {first or second for first, second in names}:
            again = subprocess.run([path, command, "--help"], capture_output=True, text=True, check=False)
            if again.returncode or not again.stdout.startswith("usage: "):
                raise Failed(f"{tool} {command} --help does not help: {again.stderr}")
            if again.stdout != done.stdout:
                found[f"{tool} {command}"] = again.stdout
    return found


def options(block, known):
    """Words of our tools' commands that their --help does not have."""
    text = "".join(text for text, _ in block.commands()).replace("\\\n", " ")
    for line in re.split(r"\n|&&|\|\||[|;&]", re.sub(r"(^|\s)#.*", "", text)):
        for tool in TOOLS:
            found = re.search(rf"(?:^|[\s/]){tool}\s+(.*)", line)
            if not found:
                continue
            own = re.split(r"\s--\s", found.group(1))[0].split()
            for word in own[:1] + [w.split("=")[0] for w in own[1:] if w.startswith("--") and w != "--"]:
                helped = known.get(f"{tool} {own[0]}", "") + known[tool]
                if re.fullmatch(r"-?-?[a-z-]+", word) and word not in helped:
                    yield f"{tool} has no {word} in its --help"


def check_page(build, page, known):
    """All blocks of one page; the number that failed."""
    failed, run = 0, []
    for block in pages.blocks(ROOT, page):
        if block.language not in pages.RUNNABLE:
            continue
        wrong = syntax(block) + "\n".join(options(block, known))
        if wrong.strip():
            failed += 1
            print(f"FAILED {block.where}: {wrong}", flush=True)
        elif block.not_run:
            print(f"not run {block.where}: {block.not_run}", flush=True)
        else:
            run.append(block)
    return failed + run_blocks(build, run)


def run_blocks(build, blocks):
    if not blocks:
        return 0
    reader, failed, began = Reader(build), 0, time.monotonic()
    try:
        reader.run(blocks)
        for block, wrong in reader.verdicts(blocks):
            failed += bool(wrong)
            print(f"FAILED {block.where}: {wrong}" if wrong else f"ok      {block.where}", flush=True)
        if failed:
            print(f"--- the rest of the shell's output\n{reader.text('rest')[-3000:]}", flush=True)
    finally:
        reader.end()
    print(f"        {blocks[0].page}: {time.monotonic() - began:.1f} s", flush=True)
    return failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("pages", nargs="*")
    args = parser.parse_args()
    self_test()
    build, known = os.path.abspath(args.build), None
    known = helps(build)
    failed = sum(check_page(build, page, known) for page in args.pages or pages.pages(ROOT))
    for block in pages.man_examples(ROOT):
        wrong = syntax(block) + "\n".join(options(block, known))
        failed += bool(wrong.strip())
        print(f"FAILED {block.where}: {wrong}" if wrong.strip() else f"syntax  {block.where}")
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
