#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""How far shiftlib/ comes apart: which files of a folder are in one circle of calls, and what conn/ knows of its parts.

A circle is a set of files in which each file leads to every other one by the symbols that their objects use. A file of a large
circle cannot be read, tested or changed without the others. conn/ itself must not know the parts in its rooms, which it meets in
a table (shiftlib/conn/part.h). The bounds hold what has been reached: a number only ever falls.

usage: check_rooms.py --build BUILD [--list]
  --list: the circles, and where conn/ names a part
"""
import argparse
import collections
import json
import os
import re
import shutil
import subprocess
import sys

# The largest circle of a folder, in files, rooms included. A folder that is not named is shown alone.
CIRCLES = {"base": 1, "backup": 1, "conn": 11, "control": 1, "loop": 1}
# conn/conn.c: headers of its own folder. All of conn/: places that name what is in a room, those of callbacks.c alone.
CONN_INCLUDES = 10
NAMED = 3
WORD = re.compile(r"\b[A-Za-z_]\w*")
NOISE = re.compile(r'"(?:[^"\\\n]|\\.)*"|/\*.*?\*/|//[^\n]*|^[ \t]*#[ \t]*include[^\n]*', re.S | re.M)


def circles(arrows):
    """The strongly connected components of more than one node, the largest first (Tarjan, without recursion)."""
    index, low, on, stack, found = {}, {}, set(), [], []
    for root in sorted(arrows):
        if root in index:
            continue
        todo = [(root, iter(sorted(arrows[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on.add(root)
        while todo:
            at, others = todo[-1]
            other = next(others, None)
            if other is None:
                todo.pop()
                if todo:
                    low[todo[-1][0]] = min(low[todo[-1][0]], low[at])
                if low[at] == index[at]:
                    component = []
                    while not component or component[-1] != at:
                        component.append(stack.pop())
                        on.discard(component[-1])
                    if len(component) > 1:
                        found.append(sorted(component))
            elif other not in index:
                index[other] = low[other] = len(index)
                stack.append(other)
                on.add(other)
                todo.append((other, iter(sorted(arrows[other]))))
            elif other in on:
                low[at] = min(low[at], index[other])
    return sorted(found, key=len, reverse=True)


def arrows_of(symbols):
    """symbols: file -> (those that it defines, those that it uses). File -> files."""
    home = {symbol: path for path, (defined, _) in symbols.items() for symbol in defined}
    return {path: {home[s] for s in used if home.get(s, path) != path} for path, (_, used) in symbols.items()}


def room_of(path):
    """The room of a file of conn/; None: it is conn/ itself, or no file of it."""
    parts = path.split("/")
    return parts[2] if parts[:2] == ["shiftlib", "conn"] and len(parts) > 3 else None


def objects_of(build):
    """Source below shiftlib/ -> its object in the library."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
        commands = json.load(f)
    out = {}
    for entry in commands:
        at = entry["file"].rfind("/shiftlib/")
        output = re.search(r" -o (shiftlib/\S+\.o)", entry.get("command", ""))
        if at >= 0 and output:
            out[entry["file"][at + 1:]] = os.path.join(entry["directory"], output.group(1)), entry["file"]
    return out


def read_symbols(objects):
    wanted = {file: path for path, (file, _) in objects.items() if os.path.exists(file)}
    symbols = {path: (set(), set()) for path in wanted.values()}
    done = subprocess.run(["nm", "-A", "-P", *sorted(wanted)], text=True, capture_output=True, check=True)
    for line in done.stdout.splitlines():
        file, name, kind = re.match(r"(.*?):? (\S+) (\S)", line).groups()
        if kind in "Uw":
            symbols[wanted[file]][1].add(name)
        elif kind.isupper():
            symbols[wanted[file]][0].add(name)
    return symbols


def namings(texts, symbols):
    """(file of conn/, name of a room's, how often), by the words of the text."""
    of_rooms = {s for path, (defined, _) in symbols.items() if room_of(path) for s in defined}
    for path, text in sorted(texts.items()):
        if path.startswith("shiftlib/conn/") and not room_of(path):
            words = collections.Counter(WORD.findall(NOISE.sub(" ", text)))
            yield from ((path, word, n) for word, n in sorted(words.items()) if word in of_rooms)


def own_includes(text, folder):
    return len(re.findall(rf'^#include "{folder}/', text, re.M))


def self_test():
    wrong = []
    ring = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    if circles(ring) != [["a", "b", "c"], ["d", "e"]]:
        wrong.append(f"circles of {ring}: {circles(ring)}")
    if circles({"a": {"b"}, "b": set()}):
        wrong.append("a row is taken for a circle")
    table = {"shiftlib/conn/conn.c": ({"sh_conn"}, {"sh_level"}), "shiftlib/conn/level.c": ({"sh_level"}, {"sh_conn"}),
             "shiftlib/conn/meet/intro.c": ({"sh_intro"}, {"sh_conn"})}
    if circles(arrows_of(table)) != [["shiftlib/conn/conn.c", "shiftlib/conn/level.c"]]:
        wrong.append("a pair that uses each other's symbols is not found, or more is")
    text = {"shiftlib/conn/conn.c": '#include "shiftlib/conn/sh_intro.h"\n/* sh_intro */ f("sh_intro"); sh_intro(sh_conn);'}
    if list(namings(text, table)) != [("shiftlib/conn/conn.c", "sh_intro", 1)]:
        wrong.append("names of a room's: not the one in the code alone")
    if own_includes('#include "shiftlib/conn/a.h"\n#include "shiftlib/core/core.h"\n', "shiftlib/conn") != 1:
        wrong.append("own includes are not counted")
    return wrong


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", required=True)
    p.add_argument("--list", action="store_true")
    args = p.parse_args()
    wrong = [f"check_rooms.py does not work: {line}" for line in self_test()]
    if not shutil.which("nm") or not os.path.exists(os.path.join(args.build, "compile_commands.json")):
        print("no nm, or no compile_commands.json")
        return 77
    objects = objects_of(args.build)
    symbols = read_symbols(objects)
    texts = {}
    for path, (_, file) in objects.items():
        if os.path.exists(file):
            with open(file, encoding="utf-8") as f:
                texts[path] = f.read()
    if len(symbols) < 50:
        wrong.append(f"only {len(symbols)} objects are found in {args.build}")
    by_folder = collections.defaultdict(dict)
    for path, of in symbols.items():
        by_folder[path.split("/")[1] if path.count("/") > 1 else ""][path] = of
    print(f"{'folder':10}{'files':>6}{'circle':>8}")
    for folder, of in sorted(by_folder.items()):
        found = circles(arrows_of(of))
        largest = len(found[0]) if found else 1
        print(f"{folder or '.':10}{len(of):6}{largest:8}")
        if largest > CIRCLES.get(folder, largest):
            wrong.append(f"{folder}: a circle of {largest} files, at most {CIRCLES[folder]} may be")
        for component in found if args.list else []:
            print("    " + ", ".join(os.path.relpath(path, "shiftlib/" + folder) for path in component))
    named = list(namings(texts, symbols))
    n_named = sum(n for _, _, n in named)
    n_includes = own_includes(texts.get("shiftlib/conn/conn.c", ""), "shiftlib/conn")
    print(f"conn/conn.c includes {n_includes} headers of its own folder")
    print(f"conn/ names what is in its rooms in {n_named} places")
    for line in named if args.list else []:
        print("    {}: {} ({})".format(*line))
    if n_includes > CONN_INCLUDES:
        wrong.append(f"conn/conn.c includes {n_includes} headers of its own folder, at most {CONN_INCLUDES} may be")
    if n_named > NAMED:
        wrong.append(f"conn/ names what is in its rooms in {n_named} places, at most {NAMED} may be")
    print("\n".join(wrong) if wrong else "shiftlib/ is as far apart as it was")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
