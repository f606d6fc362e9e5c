#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Comments that can be read once: how many of a folder begin without a subject, and which lines are too wide.

A comment of four words or more that begins with a pronoun or a preposition has no subject of its own: the reader has to guess
what "it" is, or of what it tells. Such comments may be a small part of a folder's only. A line of product code has at most
100 columns, comments included, which clang-format does not break.

usage: check_sentences.py [--list] [ROOT] [FOLDER...]
  --list: the comments and the lines themselves, not their number alone
"""
import argparse
import collections
import os
import re
import subprocess
import sys

MAX_COLUMNS = 100
MIN_WORDS = 4
MAX_SHARE = 0.04        # of a folder's comments
FOLDERS = ("shiftlib", "providers", "simnic", "kvclient", "libibverbs", "include", "uid", "sdr", "tools", "bench", "tests")
# Tests are behind: share of comments and number of lines as they are today. A number only ever falls.
BOUNDS = {"tests": (0.32, 499), "sdr/tests": (0.36, 60)}

PRONOUNS = ("it its they them their theirs he his him this that these those who whoever whom whose which what whatever one ones "
            "both likewise such same").split()
PREPOSITIONS = "of as by at in on to for from with without under over behind beside between within until through".split()
SUBJECTLESS = frozenset(PRONOUNS + PREPOSITIONS)

# A literal is taken whole, so that a comment sign in it is none.
TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)+\'|/\*.*?\*/|//[^\n]*', re.S)
WORD = re.compile(r"[A-Za-z][\w'-]*")


def comments(text):
    """(line, words) of each comment. Lines of // that follow each other are one."""
    last_end, last = None, None
    for found in TOKEN.finditer(text):
        token = found.group()
        if token[0] != "/":
            continue
        body = token[2:-2] if token[1] == "*" else token[2:]
        body = re.sub(r"^[ \t]*\*", " ", body, flags=re.M)
        line = text.count("\n", 0, found.start()) + 1
        if token[1] == "/" and last and not text[last_end:found.start()].strip() and line == last[2] + 1:
            last = (last[0], last[1] + " " + body, line)
        else:
            if last:
                yield last[0], last[1].split()
            last = (line, body, line)
        last_end = found.end()
    if last:
        yield last[0], last[1].split()


def is_sentence(words):
    """Neither a licence, nor the head of a section, nor the name of a parameter."""
    return len(words) >= MIN_WORDS and not words[0].startswith(("SPDX", "--", "==", "clang-format"))


def lacks_subject(words):
    found = WORD.match(words[0])
    return bool(found) and found.group().lower() in SUBJECTLESS


def wide(text):
    """(line, columns)"""
    for n, line in enumerate(text.split("\n"), 1):
        columns = len(line.expandtabs(8))
        if columns > MAX_COLUMNS:
            yield n, columns


class Folder:
    def __init__(self):
        self.comments = 0
        self.subjectless = []
        self.wide = []

    def add(self, name, text):
        for line, words in comments(text):
            if not is_sentence(words):
                continue
            self.comments += 1
            if lacks_subject(words):
                self.subjectless.append(f"{name}:{line}: {' '.join(words)[:120]}")
        self.wide += [f"{name}:{line}: {columns} columns" for line, columns in wide(text)]

    def share(self):
        return len(self.subjectless) / self.comments if self.comments else 0.0


def sources(root, only):
    names = subprocess.run(["git", "-C", root, "ls-files", "*.c", "*.h"], capture_output=True, text=True, check=True).stdout
    for name in names.split("\n"):
        if name and (any(name.startswith(o.rstrip("/") + "/") for o in only) if only else name.split("/")[0] in FOLDERS):
            yield name


def folder_of(parts):
    """shiftlib has one for each of its own; SDR's tests are tests."""
    if parts[0] == "shiftlib" and len(parts) > 2 or parts[:2] == ["sdr", "tests"]:
        return "/".join(parts[:2])
    return parts[0]


def self_test():
    spoken = {"/* It is of that one. */": 1, "/* Of all its moves. */": 1, "/* Who sends it here. */": 1,
              "/* The sender's half of it. */": 0, "/* one of */": 0, 'f("/* it is a string */");': 0,
              "// As it does\n// when it moves.": 1, "int a; /*\n * that is\n * of this kind. */": 1,
              "/* The ring's number, which\n * it has. */": 0}
    wrong = []
    for text, wanted in spoken.items():
        folder = Folder()
        folder.add("a.c", text)
        if len(folder.subjectless) != wanted:
            wrong.append(f"{text!r}: {len(folder.subjectless)} found")
    if list(wide("\t" + "a" * 92)) or not list(wide("\t" + "a" * 93)):
        wrong.append("a line of 100 columns is not wide, one of 101 is")
    return wrong


def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--list", action="store_true")
    p.add_argument("root", nargs="?", default=".")
    p.add_argument("folders", nargs="*")
    return p.parse_args()


def judge(name, folder):
    """What breaks the bound of a folder."""
    share, columns = BOUNDS.get(name, (MAX_SHARE, 0))
    if folder.share() > share:
        yield f"{name}: {100 * folder.share():.1f} % of its comments begin without a subject, more than {100 * share:.1f} %"
    if len(folder.wide) > columns:
        yield f"{name}: {len(folder.wide)} lines of more than {MAX_COLUMNS} columns, more than {columns}"


def main():
    args = parse()
    os.chdir(args.root)
    broken = self_test()
    folders = collections.defaultdict(Folder)
    for name in sources(".", args.folders):
        parts = name.split("/")
        with open(name, encoding="utf-8") as f:
            folders[folder_of(parts)].add(name, f.read())
    for name, folder in sorted(folders.items()):
        if args.list:
            print("\n".join(folder.subjectless + folder.wide))
        print(f"{name}: {folder.comments} comments, {100 * folder.share():.1f} % without a subject; "
              f"{len(folder.wide)} wide lines")
        broken += judge(name, folder)
    print("\n".join(broken))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
