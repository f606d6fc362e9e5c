#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The rules of the house that a program can see: licence lines, lengths, leftovers. Wide lines: check_sentences.py.

usage: check_style.py [ROOT]
"""
import os
import re
import statistics
import subprocess
import sys

SPDX = "SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB"
# What is compiled with headers under the GPL-2.0 is under that alone.
GPL_FOLDER = "simnic/pci/qemu/"
GPL_SPDX = "SPDX-License-Identifier: GPL-2.0 */"
MAX_FILE = 1000  # of tests; other .c files and headers are shorter
MAX_C_FILE = 600
MAX_HEADER = 250
MAX_MEMBERS = 40
MAX_FUNCTION = 70
MAX_MEDIAN = 15
C_FILES = (".c", ".h")
LICENSED = C_FILES + (".py", ".sh", ".cmake", "CMakeLists.txt", "Makefile", ".1", ".7", ".5")
# In a text that a person reads, these words mean that something is not done.
LEFTOVER = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")
CASE = re.compile(r"^\s*(case\b.*|default):")


def functions(lines):
    """(first line, body lines): what stands between a { and a } at the left margin, behind a )."""
    start = None
    for i, line in enumerate(lines):
        if line == "{" and i and re.search(r"[)\w]$", lines[i - 1]):
            start = i
        elif line.startswith("}") and start is not None:
            yield start + 1, lines[start + 1:i]
            start = None


def code_lines(body):
    """How much there is to follow: tables of constants are no code."""
    n, table_end = 0, None
    for line in body:
        if table_end:
            table_end = None if line == table_end else table_end
            continue
        n += 1
        if line.endswith("= {"):
            table_end = line[:len(line) - len(line.lstrip("\t"))] + "};"
    return n


STRUCT = re.compile(r"\b(?:struct|union)\s*(\w*)\s*\{")
COMMENT_OR_STRING = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"', re.S)


def blank(match):
    """As many lines, and nothing that could be taken for code."""
    return re.sub(r"[^\n]", " ", match.group())


def members(body):
    """How many a struct's text declares; a struct inside of it counts as one."""
    body = re.sub(r"^[ \t]*#.*$", "", body, flags=re.M)
    flat, depth = "", 0
    for c in body:
        depth += (c in "({[") - (c in ")}]")
        flat += c if not depth and c not in ")}]" else ""
    n = 0
    for declaration in flat.split(";"):
        if declaration.strip():
            n += 1 + declaration.count(",")
    return n


def structs(text):
    """(line, name, number of members) of each struct and union that is declared."""
    text = COMMENT_OR_STRING.sub(blank, text)
    for found in STRUCT.finditer(text):
        depth, end = 1, found.end()
        while depth and end < len(text):
            depth += (text[end] == "{") - (text[end] == "}")
            end += 1
        yield text.count("\n", 0, found.start()) + 1, found[1], members(text[found.end():end - 1])


def is_dispatch(body):
    """A switch with one call per case."""
    return sum(1 for line in body if CASE.match(line)) * 2 >= len(body) * 0.8


def max_lines(name):
    if name.endswith(".h"):
        return MAX_HEADER
    return MAX_FILE if name.startswith(("tests/", "sdr/tests/")) else MAX_C_FILE


def check_size(name, text):
    n = text.count("\n")
    if n > max_lines(name):
        yield n, f"{n} lines, more than {max_lines(name)}"
    for line, struct, n in structs(text):
        if n > MAX_MEMBERS:
            yield line, f"struct {struct} has {n} members, more than {MAX_MEMBERS}"


def check_text(name, text):
    lines = text.split("\n")
    head = lines[:2] if lines[0].startswith("#!") else lines[:1]
    spdx = GPL_SPDX if name.startswith(GPL_FOLDER) else SPDX
    if name.endswith(LICENSED) and not any(spdx in line for line in head):
        yield 1, "the SPDX line does not come first"
    for n, line in enumerate(lines, 1):
        if LEFTOVER.search(line):
            yield n, "something is left to do"
        if name.endswith(C_FILES) and line.rstrip() != line:
            yield n, "blanks at the end of the line"
    if name.endswith(".c"):
        for start, body in functions(lines):
            if code_lines(body) > MAX_FUNCTION and not is_dispatch(body):
                yield start, f"a function of {code_lines(body)} lines, more than {MAX_FUNCTION}"


def self_test():
    spdx = f"/* {SPDX} */\n"
    long_body = "int f(void)\n{\n" + "\tg();\n" * 71 + "}\n"
    dispatch = "int f(int a)\n{\n\tswitch (a) {\n" + "\tcase 1: return g();\n" * 71 + "\t}\n}\n"
    bad = ["int a;\n", spdx + "/* TO" "DO */\n", spdx + "int a; \n", spdx + long_body]
    table = "int f(void)\n{\n\tint t[] = {\n" + "\t\t1,\n" * 71 + "\t};\n}\n"
    good = [spdx + "int a;\n", spdx + long_body.replace("\tg();\n", "", 1), spdx + dispatch,
            spdx + table]
    # 39 members, and one more that counts once: a struct, a function, several of a line.
    many = "struct s {\n" + "\tint a, b[2], c;\n" * 13
    nested = "\tstruct {\n\t\tint e, f; /* two; of one */\n\t} d;\n"
    large = [("a.h", "\n" * 251), ("a.c", "\n" * 601), ("tests/a.c", "\n" * 1001),
             ("a.h", many + "\tint d, e;\n};\n"), ("a.c", many + nested + "\tint (*f)(int a, int b);\n};\n"),
             ("a.h", "struct t {\n\tint o;\n\t" + many + "\tint x, y;\n\t} s;\n};\n")]
    small = [("a.h", "\n" * 250), ("a.c", "\n" * 600), ("tests/a.c", "\n" * 1000),
             ("a.h", many + nested + "};\n"), ("a.h", many + "\tint (*f)(int a, int b);\n};\n"),
             ("a.h", "enum e { " + "A, " * 50 + "};\n")]
    return [f"not found: {t[:90]!r}" for t in bad if not list(check_text("a.c", t))] + \
           [f"falsely found: {t[:90]!r}" for t in good if list(check_text("a.c", t))] + \
           [f"not found: {n} {t[:90]!r}" for n, t in large if not list(check_size(n, t))] + \
           [f"falsely found: {n} {t[:90]!r}" for n, t in small if list(check_size(n, t))]


def tracked(root):
    try:
        out = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True,
                             check=True).stdout.decode()
        return [name for name in out.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        return [os.path.relpath(os.path.join(folder, name), root)
                for folder, dirs, names in os.walk(root)
                if not os.path.relpath(folder, root).startswith((".git", "build", "out"))
                for name in names]


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", "..")
    failed = False
    for line in self_test():
        print(f"check_style.py does not work: {line}")
        failed = True
    lengths = {}
    for name in sorted(tracked(root)):
        path = os.path.join(root, name)
        if not name.endswith(LICENSED + (".md",)) or not os.path.isfile(path):
            continue
        with open(path, encoding="utf-8") as f:
            text = f.read()
        found = list(check_text(name, text))
        if name.endswith(C_FILES):
            found += check_size(name, text)
        for line, what in found:
            print(f"{name}:{line}: {what}")
            failed = True
        if name.endswith(".c"):
            lengths.setdefault(name.split("/")[0], []).extend(
                code_lines(body) for _, body in functions(text.split("\n")))
    for folder, all_lengths in sorted(lengths.items()):
        if not all_lengths:
            continue
        median = statistics.median(all_lengths)
        print(f"{folder}: {len(all_lengths)} functions, median {median:g} lines, "
              f"longest {max(all_lengths)}")
        if median >= MAX_MEDIAN:
            print(f"{folder}: the median is to stay under {MAX_MEDIAN}")
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
