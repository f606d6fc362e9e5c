#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Writes the completions of bash, zsh and fish, a file for each program and shell, out of table.json.

In the table a program has options, and commands with options and arguments of their own. An option is named by
"-f --follow VALUE": a short form, the long one, and a word for its value, if it takes one. Behind that stand its
meaning, and what the value may be: words with blanks between them, "" for what nobody can guess, or a kind of
KINDS with "=" in front. What has a value with "=command" is a command line of its own.

usage: make.py [--check]     (--check: says which files are not as the table wants them; exit status 1)
"""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
HEAD = "# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB\n# Made by make.py from table.json: change these.\n"
KINDS = {   # what prints the words, one a line; None: the shell knows them itself
    "pid": r"shiftctl status 2>/dev/null | sed -n 's/^\([0-9][0-9]*\) .*/\1/p'",
    "device": r"ls /sys/class/infiniband 2>/dev/null; shiftctl status 2>/dev/null | "
              r"sed -n 's/^  \([[:alnum:]_.-]*\)  *\(open\|opening\|closed\|failed\)\(,.*\|:.*\|\)$/\1/p'",
    "check": r"shiftctl probe-hw --list 2>/dev/null | sed -n 's/^\([a-z][a-z-]*\)  .*/\1/p'",
    "host": r"simnicctl status 2>/dev/null | sed -n 's,^\(h[0-9]*\)/.*,\1,p' | sort -u",
    "target": r"echo all; simnicctl status 2>/dev/null | sed -n 's,^\(h[0-9]*/[^ ]*\|rail[0-9]*\) .*,\1,p'",
    "directory": None, "file": None, "command": None,
}


class Option:
    def __init__(self, name, what):
        words = name.split()
        self.short = words.pop(0) if not words[0].startswith("--") else ""
        self.long = words.pop(0)
        self.takes = words[0] if words else ""
        self.what, self.value = (what, None) if isinstance(what, str) else (what[0], what[1] if len(what) > 1 else None)
        if bool(self.takes) != (self.value is not None):
            raise ValueError(f"{name}: a value has a word and what it may be")

    def names(self):
        return [n for n in (self.short, self.long) if n]


class Command:
    def __init__(self, name, row):
        self.name, self.what, self.arguments = name, row["what"], row.get("arguments", [])
        self.options = [Option(n, what) for n, what in row["options"].items()] + [Option("--help", "show how it is used")]


class Program:
    def __init__(self, name, row):
        self.name, self.id = name, "_" + name.replace("-", "_")
        self.options = [Option(n, what) for n, what in row["options"].items()]
        self.commands = [Command(n, c) for n, c in row.get("commands", {}).items()]

    def kinds(self):
        values = [o.value for c in [self, *self.commands] for o in c.options] + [a for c in self.commands for a in c.arguments]
        return [k for k in KINDS if KINDS[k] and "=" + k in values]


def programs():
    with open(os.path.join(HERE, "table.json"), encoding="utf-8") as f:
        return [Program(name, row) for name, row in json.load(f).items()]


# ---- bash ----------------------------------------------------------------------------------------

def bash_value(program, value):
    if value in ("=directory", "=file"):
        return f'COMPREPLY=($(compgen -{value[1]} -- "$cur"))'
    if value.startswith("="):
        return f"{program.id}_words \"$({program.id}_{value[1:]})\""
    return f'{program.id}_words "{value}"' if value else "COMPREPLY=()"


def bash_case(program, of, options):
    """Branches for values of the options of a command."""
    for o in options:
        if o.takes:
            yield f"\t{' | '.join(of + ',' + n for n in o.names())}) {bash_value(program, o.value)} ;;"


def bash_commands(program):
    """What only a program with commands has: functions, and the end of its own."""
    p, runs = program.id, " | ".join(c.name for c in program.commands if "=command" in c.arguments)
    yield f"{p}_options()\n{{\n\tcase $1 in"
    yield from (f"\t{c.name}) echo \"{' '.join(o.long for o in c.options)}\" ;;" for c in program.commands)
    yield f"\tesac\n}}\n\n# The n-th argument of a command, from 1; exit status 1: nobody can guess it.\n{p}_argument()\n{{\n\tcase $1,$2 in"
    yield from (f"\t{c.name},{i}) {bash_value(program, a)} ;;" for c in program.commands
                for i, a in enumerate(c.arguments, 1) if a != "=command")
    yield "\t*) return 1 ;;\n\tesac\n}\n"
    yield f"""# The command line that begins at that word.
{p}_run()
{{
	if declare -F _command_offset >/dev/null; then
		_command_offset "$1"
	elif [ "$COMP_CWORD" -eq "$1" ]; then
		COMPREPLY=($(compgen -c -- "$cur"))
	else
		COMPREPLY=($(compgen -f -- "$cur"))
	fi
}}

{p}()
{{
	local cur=${{COMP_WORDS[COMP_CWORD]}} command=${{COMP_WORDS[1]}} i=2 n=1
	COMPREPLY=()
	if [ "$COMP_CWORD" -eq 1 ]; then
		{p}_words "{' '.join([c.name for c in program.commands] + [o.long for o in program.options])}"
		return
	fi
	while [ "$i" -lt "$COMP_CWORD" ]; do
		case $command,${{COMP_WORDS[i]}} in
		*,--) i=$((i + 1)) && break ;;
		{' | '.join(f"{c.name},{n}" for c in program.commands for o in c.options if o.takes for n in o.names())})
			i=$((i + 1)) ;;
		*,-*) ;;
		{' | '.join(f"{r},*" for r in runs.split(" | "))}) break ;;
		*) n=$((n + 1)) ;;
		esac
		i=$((i + 1))
	done
	if [ "$i" -gt "$COMP_CWORD" ]; then
		{p}_value "$command,${{COMP_WORDS[COMP_CWORD - 1]}}"
		return
	fi
	case $command in {runs})
		if [ "$i" -lt "$COMP_CWORD" ] || [ "${{cur#-}}" = "$cur" ]; then
			{p}_run "$i"
			return
		fi ;;
	esac
	[ "${{cur#-}}" = "$cur" ] && {p}_argument "$command" "$n" && return
	{p}_words "$({p}_options "$command")"
}}
"""


def bash(program):
    p, out = program.id, [HEAD + f"# bash completion of {program.name}(1)\n"]
    out += [f'{p}_words()\n{{\n\tCOMPREPLY=($(compgen -W "$1" -- "$cur"))\n}}\n']
    out += [f"{p}_{kind}()\n{{\n\t{KINDS[kind]}\n}}\n" for kind in program.kinds()]
    out += [f"# The value of an option of a command; exit status 1: there is none.\n{p}_value()\n{{\n\tcase $1 in"]
    out += [row for c in program.commands for row in bash_case(program, c.name, c.options)]
    out += [*bash_case(program, "", program.options), "\t*) return 1 ;;\n\tesac\n}\n"]
    if program.commands:
        out += bash_commands(program)
    else:
        out += [f"""{p}()
{{
	local cur=${{COMP_WORDS[COMP_CWORD]}}
	COMPREPLY=()
	{p}_value ",${{COMP_WORDS[COMP_CWORD - 1]}}" || {p}_words "{' '.join(o.long for o in program.options)}"
}}
"""]
    return "\n".join(out + [f"complete -F {p} {program.name}"]) + "\n"


# ---- zsh -----------------------------------------------------------------------------------------

def zsh_value(program, value):
    if value in ("=directory", "=file"):
        return "_files -/" if value == "=directory" else "_files"
    if value.startswith("="):
        return f"{program.id}_{value[1:]}"
    return "(" + value.replace(":", "\\:") + ")" if value else " "


def zsh_quote(text):
    return "'" + text.replace("'", "'\\''") + "'"


def zsh_option(program, option):
    what = "[" + option.what.replace(":", "\\:") + "]"
    behind = f":{option.takes.replace(':', ' ')}:{zsh_value(program, option.value)}" if option.takes else ""
    if option.short:
        return f"'({option.short} {option.long})'" + "{" + f"{option.short},{option.long}" + "}" + zsh_quote(what + behind)
    return zsh_quote(option.long + what + behind)


def zsh(program):
    p, out = program.id, [f"#compdef {program.name}\n" + HEAD]
    for kind in program.kinds():
        out += [f"{p}_{kind}()\n{{\n\tlocal -a found\n\tfound=(${{(f)\"$({KINDS[kind]})\"}})\n\tcompadd -a found\n}}\n"]
    lines = [f"{p}()", "{"]
    if program.commands:
        lines += ["\tlocal subcommand", "\tlocal -a subcommands", "\tsubcommands=("]
        lines += ["\t\t" + zsh_quote(f"{c.name}:{c.what}") for c in program.commands] + ["\t)"]
        lines += ["\tif (( CURRENT == 2 )); then", "\t\tif [[ $words[2] == -* ]]; then",
                  "\t\t\t_arguments " + " ".join(zsh_option(program, o) for o in program.options), "\t\telse",
                  "\t\t\t_describe command subcommands", "\t\tfi", "\t\treturn", "\tfi",
                  "\tsubcommand=$words[2]", "\tshift words", "\t(( CURRENT-- ))", "\tcase $subcommand in"]
        for c in program.commands:
            rows = [zsh_option(program, o) for o in c.options]
            for i, a in enumerate(c.arguments, 1):
                rows += ["'(-)1:command:_command_names -e'", "'*::argument:_normal'"] if a == "=command" else [zsh_quote(f"{i}:argument:{zsh_value(program, a)}")]
            lines += [f"\t{c.name})", "\t\t_arguments -S " + " \\\n\t\t\t".join(rows), "\t\t;;"]
        lines += ["\tesac"]
    else:
        lines += ["\t_arguments " + " \\\n\t\t".join(zsh_option(program, o) for o in program.options)]
    out += ["\n".join(lines + ["}\n", f"{p} \"$@\""])]
    return "\n".join(out) + "\n"


# ---- fish ----------------------------------------------------------------------------------------

def fish_quote(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish_value(program, value):
    if value == "=directory":
        return "-x -a '(__fish_complete_directories)'"
    if value == "=file":
        return "-r -F"
    if value.startswith("="):
        return f"-x -a '({program.id}_{value[1:]})'"
    return f"-x -a {fish_quote(value)}" if value else "-x"


def fish_option(program, option, where=""):
    parts = [f"complete -c {program.name}", where, f"-s {option.short[1:]}" if option.short else "", f"-l {option.long[2:]}",
             fish_value(program, option.value) if option.takes else "", f"-d {fish_quote(option.what)}"]
    return " ".join(part for part in parts if part)


def fish(program):
    p, out = program.id, [HEAD + f"# fish completion of {program.name}(1)\n"]
    out += [f"function {p}_{kind}\n\tsh -c {fish_quote(KINDS[kind])}\nend\n" for kind in program.kinds()]
    out += [f"complete -c {program.name} -f"]
    if not program.commands:
        return "\n".join(out + [fish_option(program, o) for o in program.options]) + "\n"
    valued = sorted({n for c in program.commands for o in c.options if o.takes for n in o.names()})
    out += [f"""
# Prints what stands behind the options of a command, and behind "--", to the cursor; "" is a word not yet begun.
function {p}_rest
	set -l words (commandline -opc) (commandline -ct)
	set -l i 3
	while test $i -lt (count $words)
		if test $words[$i] = --
			set i (math $i + 1)
			break
		else if contains -- $words[$i] {' '.join(valued)}
			set i (math $i + 2)
		else if string match -q -- '-*' $words[$i]
			set i (math $i + 1)
		else
			break
		end
	end
	test $i -le (count $words); and printf '%s\\n' $words[$i..-1]
end

# True behind that command, and with less than two words of its arguments.
function {p}_own
	set -l words (commandline -opc)
	test (count $words) -ge 2; and test "$words[2]" = $argv[1]; or return 1
	test (count ({p}_rest)) -le 1
end

# True behind that command, in its n-th argument.
function {p}_is
	set -l words (commandline -opc)
	test (count $words) -ge 2; and test "$words[2]" = $argv[1]; or return 1
	test (count ({p}_rest)) = $argv[2]
end

function {p}_first
	test (count (commandline -opc)) = 1
end

function {p}_run
	set -l words ({p}_rest)
	test (count $words) -ge 1; and not string match -q -- '-*' $words[1]; and complete --do-complete=(string join ' ' -- $words)
end
"""]
    out += [fish_option(program, o, f"-n {p}_first") for o in program.options]
    for c in program.commands:
        out += [f"complete -c {program.name} -n {p}_first -a {c.name} -d {fish_quote(c.what)}"]
        for i, a in enumerate(c.arguments, 1):
            if a == "=command":
                out += [f"complete -c {program.name} -a '({p}_run)' -n 'contains -- {c.name} (commandline -opc)[2]'"]
            elif a:
                value = fish_value(program, a).replace("-x ", "").replace("-r ", "")
                out += [f"complete -c {program.name} -n '{p}_is {c.name} {i}' {value}"]
        where = f"{p}_own {c.name}" if "=command" in c.arguments else f"contains -- {c.name} (commandline -opc)[2]"
        out += [fish_option(program, o, f"-n '{where}'") for o in c.options]
    return "\n".join(out) + "\n"


def files():
    """{path from here: text}"""
    return {path: text for program in programs() for path, text in (
        (f"bash/{program.name}", bash(program)), (f"zsh/_{program.name}", zsh(program)),
        (f"fish/{program.name}.fish", fish(program)))}


def main():
    stale = []
    for path, text in files().items():
        full = os.path.join(HERE, path)
        try:
            with open(full, encoding="utf-8") as f:
                same = f.read() == text
        except FileNotFoundError:
            same = False
        if same:
            continue
        stale.append(path)
        if "--check" not in sys.argv:
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as f:
                f.write(text)
    if "--check" in sys.argv and stale:
        print("not as table.json wants them, run tools/completion/make.py:", *stale)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
