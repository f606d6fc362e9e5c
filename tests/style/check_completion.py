#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The bash completion of shiftctl, in a real bash: what it offers, and that it offers every command and
option that `shiftctl --help` names, and no other.

usage: check_completion.py --build BUILD
"""
import argparse
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = os.path.join(HERE, "..", "..", "tools", "completion", "shiftctl")
ASK = """
shiftctl() {
	case "$*" in
	status) printf '%s\\n' "$STATUS" ;;
	"probe-hw --list") printf 'nop-order  What it is.\\n           Otherwise: worse.\\nfence      That.\\n' ;;
	esac
}
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
_shiftctl
printf '%s\\n' "${COMPREPLY[@]}"
"""
STATUS = """4711 python3 train.py --lr 1
  instance 0123456789abcdef, KV ok
  2 queue pairs: 2 protected
  mlx5_0       open, drained
  rocep1s0f1   opening
  bad_0        failed: no such device
  QP       LEVEL
  0x000040 protected  mlx5_0
4712 other"""
wrong = []


def offers(*words):
    done = subprocess.run(["bash", "-c", ASK, "bash", SCRIPT, "shiftctl", *words], text=True,
                          capture_output=True, env=dict(os.environ, STATUS=STATUS), check=False)
    if done.returncode or done.stderr:
        wrong.append(f"{words}: exit {done.returncode}: {done.stderr}")
    return set(done.stdout.split())


def expect(words, offered):
    found = offers(*words)
    if found != offered:
        wrong.append(f"shiftctl {' '.join(words)}<TAB>: {sorted(found)}, not {sorted(offered)}")


def help_of(*words):
    return subprocess.run([*words, "--help"], text=True, capture_output=True, check=True).stdout


def help_of(program, *command):
    return subprocess.run([program, *command, "--help"], text=True, capture_output=True, check=True).stdout


def against_help(program):
    """Each command with its own --help."""
    commands = set(re.findall(r"^(?:usage:|      ) shiftctl ([a-z][a-z-]*)", help_of(program), re.M))
    expect([""], commands | {"--help", "--version"})
    if not commands:
        wrong.append("--help names no command")
    for command in sorted(commands):
        text = help_of(program, command)
        named = set(re.findall(r"^  (?:-[a-z], )?(--[a-z][a-z0-9-]*)", text, re.M))
        usage = re.findall(r"^(?:usage:|      ) (shiftctl .*)$", text, re.M)
        named |= set(re.findall(r"--[a-z][a-z0-9-]+", " ".join(usage)))
        offered = offers(command, "--") - {"--"}
        if offered != named | {"--help"}:
            wrong.append(f"{command}: --help names {sorted(named)}, offered are {sorted(offered)}")


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", required=True)
    args = p.parse_args()
    against_help(os.path.join(args.build, "out", "bin", "shiftctl"))
    expect(["st"], {"status"})
    expect(["status", "--pid", ""], {"4711", "4712"})
    expect(["status", "--pid", "4712"], {"4712"})
    expect(["drain", "m"], {"mlx5_0"})
    expect(["undrain", "b"], {"bad_0"})
    expect(["drain", "ro"], {"rocep1s0f1"})
    expect(["drain", "mlx5_0", "--w"], {"--wait"})
    expect(["run", "--log", ""], {"error", "warn", "info", "debug"})
    expect(["run", "--lazy", "--log", "d"], {"debug"})
    expect(["run", "--log", "info", "--", "basenam"], {"basename"})
    expect(["run", "basenam"], {"basename"})
    expect(["run", "--kv", "lm"], {"lmdb:/"})
    expect(["version", "--libdir", "/us"], {"/usr"})
    expect(["status", "--interval", ""], set())
    expect(["probe-hw", "--check", ""], {"nop-order", "fence"})
    expect(["probe-hw", "--device", "m"], {"mlx5_0"})
    print("\n".join(wrong) if wrong else "the completion offers what --help names")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
