#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The completions of bash, zsh and fish: the files are as tools/completion/table.json wants them, the table has every
command and option that --help of each program names, and no other, and each shell, the real one, offers the same.

A shell that is not installed is left out, and said to be; the exit status is then 77, if nothing is wrong.

usage: check_completion.py --build BUILD
"""
import argparse
import importlib.util
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.abspath(os.path.join(HERE, "..", "..", "tools", "completion"))
SKIPPED = 77
STATUS = """4711 python3 train.py --lr 1
  instance 0123456789abcdef, KV ok
  2 queue pairs: 2 protected
  mlx5_0       open, drained
  rocep1s0f1   opening
  bad_0        failed: no such device
  QP       LEVEL
  0x000040 protected  mlx5_0
4712 other"""
STUBS = {   # what the programs say to completions
    "shiftctl": f"""case "$*" in
status) cat <<'END'
{STATUS}
END
;;
"probe-hw --list") printf 'nop-order  What it is.\\n           Otherwise: worse.\\nfence      That.\\n' ;;
esac""",
    "simnicctl": r"printf 'fabric f, Ethernet\nh0/mlx5_0  ok, port up\nh1/mlx5_0  ok, port up\nrail0  up\n'"}
# (words, the last of which is completed; what is offered)
WANTED = [
    ("shiftctl st", {"status"}),
    ("shiftctl status --pid ", {"4711", "4712"}),
    ("shiftctl status --pid 4712", {"4712"}),
    ("shiftctl drain ml", {"mlx5_0"}),
    ("shiftctl undrain ba", {"bad_0"}),
    ("shiftctl why ro", {"rocep1s0f1"}),
    ("shiftctl drain mlx5_0 --w", {"--wait"}),
    ("shiftctl run --log ", {"error", "warn", "info", "debug"}),
    ("shiftctl run --lazy --log d", {"debug"}),
    ("shiftctl run --log info -- basenam", {"basename"}),
    ("shiftctl run basenam", {"basename"}),
    ("shiftctl run --kv lm", {"lmdb:/"}),
    ("shiftctl version --libdir /us", {"/usr"}),
    ("shiftctl status --interval ", set()),
    ("shiftctl probe-hw --check ", {"nop-order", "fence"}),
    ("shiftctl probe-hw --device ml", {"mlx5_0"}),
    ("shiftctl probe-hw -d ml", {"mlx5_0"}),
    ("shiftctl report --outp", {"--output"}),
    ("simnicctl fault cab", {"cable-down", "cable-up"}),
    ("simnicctl fault --after 1 cable-u", {"cable-up"}),
    ("simnicctl fault cable-up h1", {"h1/mlx5_0"}),
    ("simnicctl heal ra", {"rail0"}),
    ("simnicctl run --host ", {"h0", "h1"}),
    ("simnicctl run --host h0 -- basenam", {"basename"}),
    ("simnicctl link h0/mlx5_0 o", {"out", "off"}),
    ("shift-exporter --listen 1", {"127.0.0.1:10471"}),
]
ZSH = """
PS1= PS2= RPS1= ; unsetopt beep prompt_sp zle_bracketed_paste 2>/dev/null; unset zle_bracketed_paste
setopt no_list_beep; LISTMAX=100000
fpath=("$COMPLETIONS" $fpath)
autoload -Uz compinit; compinit -u -D
bindkey -e; bindkey '^I' complete-word
compadd() {
	local -a hits
	if [[ " ${(j: :)@[1,(i)(-|--)]} " == *' '-[a-zA-Z]#[OAD]' '* ]]; then
		builtin compadd "$@"
		return
	fi
	builtin compadd -A hits "$@"
	(( $#hits )) && print -rl -- $hits >> $FOUND
	builtin compadd "$@"
}
answered() { print -n > $FOUND.done }
zle -N answered; bindkey '^X^A' answered
print -n > $FOUND.done
"""


class Bash:
    def __init__(self, env):
        self.env = env

    def offers(self, line):
        words = line.split(" ")
        ask = """source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
            $FUNCTION; printf '%s\\n' "${COMPREPLY[@]}" """
        done = subprocess.run(["bash", "-c", ask, "bash", os.path.join(FOLDER, "bash", words[0]), *words], text=True,
                              capture_output=True, env=dict(self.env, FUNCTION="_" + words[0].replace("-", "_")), check=False)
        return set(done.stdout.split()), done.stderr

    def end(self):
        pass


class Fish(Bash):
    def offers(self, line):
        ask = f"source {FOLDER}/fish/{line.split(' ')[0]}.fish; complete --do-complete=$argv[1]"
        done = subprocess.run(["fish", "--no-config", "-c", ask, line], text=True, capture_output=True, env=self.env, check=False)
        return {row.split("\t")[0] for row in done.stdout.splitlines()}, done.stderr


class Zsh:
    """It completes on a terminal alone: one of ours."""

    def __init__(self, env):
        self.found = os.path.join(env["HOME"], "found")
        setup = os.path.join(env["HOME"], "setup")
        with open(setup, "w", encoding="ascii") as f:
            f.write(ZSH)
        self.pid, self.fd = pty.fork()
        if not self.pid:
            os.execvpe("zsh", ["zsh", "-f", "-i"], dict(env, FOUND=self.found, TERM="dumb", COMPLETIONS=FOLDER + "/zsh"))
        self.send(f"source {setup}\r")

    def send(self, text):
        """Until the shell has done all of it."""
        os.write(self.fd, text.encode())
        deadline = time.monotonic() + 60
        while not os.path.exists(self.found + ".done"):
            if time.monotonic() > deadline:
                raise RuntimeError(f"zsh does not answer to {text!r}")
            if select.select([self.fd], [], [], 0.02)[0]:
                os.read(self.fd, 65536)
        os.unlink(self.found + ".done")

    def offers(self, line):
        open(self.found, "w", encoding="utf-8").close()
        self.send(line + "\t\x18\x01")
        self.send("\x15\x18\x01")
        with open(self.found, encoding="utf-8") as f:
            return set(f.read().split()), ""

    def end(self):
        os.write(self.fd, b"\x15exit\r")
        os.close(self.fd)
        os.waitpid(self.pid, 0)


SHELLS = {"bash": Bash, "zsh": Zsh, "fish": Fish}


def help_of(*words):
    return subprocess.run([*words, "--help"], text=True, capture_output=True, check=True).stdout


def options_in(text):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", text))


def shiftctl_help(program):
    """{command: its options} as --help has them."""
    names = re.findall(r"^(?:usage:|      ) shiftctl ([a-z][a-z-]*)", help_of(program), re.M)
    found = {}
    for name in names:
        text = help_of(program, name)
        usage = re.findall(r"^(?:usage:|      ) (shiftctl .*)$", text, re.M)
        found[name] = options_in(" ".join(usage)) | set(re.findall(r"^  (?:-[a-z], )?(--[a-z][a-z0-9-]*)", text, re.M))
    return found


def simnicctl_help(program):
    """A command begins each line of two blanks; what is behind is its, until the text about it."""
    found, name = {}, None
    for line in help_of(program).splitlines():
        if line.startswith("TARGET:"):
            break
        begins = re.match(r"  ([a-z][a-z-]*)", line)
        if begins:
            name = begins.group(1)
        if name:
            found.setdefault(name, set()).update(options_in(re.split(r"(?<=\S)  +", line)[0]))
    return found


def fault_kinds(program):
    text = re.search(r"^KIND:(.*?)^--at-message", help_of(program), re.M | re.S).group(1)
    return set(text.split())


def expect(wrong, what, found, wanted):
    if found != wanted:
        wrong.append(f"{what}: {sorted(found)}, not {sorted(wanted)}")


def check_table(wrong, programs, out):
    """Held against each program's help, both ways."""
    helps = {"shiftctl": shiftctl_help, "simnicctl": simnicctl_help}
    expect(wrong, "programs", {p.name for p in programs}, {"shiftctl", "simnicctl", "shift-exporter"})
    for p in programs:
        path = os.path.join(out, p.name)
        if p.name in helps:
            wanted = helps[p.name](path)
            expect(wrong, f"{p.name}: commands of the table", {c.name for c in p.commands}, set(wanted))
            for c in p.commands:
                expect(wrong, f"{p.name} {c.name}: options of the table", {o.long for o in c.options} - {"--help"},
                       wanted.get(c.name, set()) - {"--help"})
        else:
            expect(wrong, f"{p.name}: options of the table", {o.long for o in p.options}, options_in(help_of(path)))
    fault, = [c for p in programs if p.name == "simnicctl" for c in p.commands if c.name == "fault"]
    expect(wrong, "simnicctl fault: kinds", set(fault.arguments[0].split()), fault_kinds(os.path.join(out, "simnicctl")))


def check_shell(wrong, name, shell, programs):
    def ask(line, wanted):
        found, complaint = shell.offers(line)
        # zsh tells a folder's name without what leads to it, fish with a slash behind it
        if {w.strip("/") for w in found} != {w.strip("/") for w in wanted} or complaint:
            wrong.append(f"{name}: {line}<TAB>: {sorted(found)}, not {sorted(wanted)} {complaint}")
    for p in programs:
        if p.commands:
            for c in p.commands:
                ask(f"{p.name} {c.name} --", {o.long for o in c.options})
                ask(f"{p.name} {c.name[:-1]}", {d.name for d in p.commands if d.name.startswith(c.name[:-1])})
        ask(f"{p.name} --", {o.long for o in p.options})
    for line, wanted in WANTED:
        ask(line, wanted)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", required=True)
    args = p.parse_args()
    spec = importlib.util.spec_from_file_location("make", os.path.join(FOLDER, "make.py"))
    make = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make)
    programs, out, wrong = make.programs(), os.path.join(args.build, "out", "bin"), []
    stale = subprocess.run([sys.executable, "-B", os.path.join(FOLDER, "make.py"), "--check"], text=True,
                           capture_output=True, check=False)
    if stale.returncode:
        wrong.append(stale.stdout + stale.stderr)
    check_table(wrong, programs, out)
    missing = [name for name in SHELLS if not shutil.which(name)]
    with tempfile.TemporaryDirectory() as folder:
        for name, text in STUBS.items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
                f.write("#!/bin/sh\n" + text + "\n")
            os.chmod(f.name, 0o755)
        env = {"PATH": folder + ":/usr/bin:/bin", "HOME": folder, "LC_ALL": "C.UTF-8"}
        for name, shell in SHELLS.items():
            if name not in missing:
                shell = shell(env)
                check_shell(wrong, name, shell, programs)
                shell.end()
    print("\n".join(wrong) if wrong else "the completions offer what --help names")
    if missing:
        print("not installed, so not tried:", *missing)
    return 1 if wrong else SKIPPED if missing else 0


if __name__ == "__main__":
    sys.exit(main())
