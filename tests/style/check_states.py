#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""State of the core changes only in functions named transition_<from>_to_<to>, which assert where they come from.

What is state is read from the headers: each field of a struct whose type is an enum called *_state or *_phase.
The rules are first tried on sources made up to break them, so a check that sees nothing fails.

usage: check_states.py [ROOT]
"""
import os
import re
import sys

CORE = os.path.join("shiftlib", "core")
# Not of this end: what the other one said last.
HEARD = {"peer"}
# Where structs begin, all zeroes.
INITIALISERS = {"sc_init", "sh_path_init"}
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
FIELD = re.compile(r"^\s+enum \w+_(?:state|phase) (\w+);", re.M)
FUNCTION = re.compile(r"^(?:\w[\w \t*]*?[ *])(\w+)\([^;{}]*\)\n\{\n(.*?)^\}", re.M | re.S)
ASSERTS = re.compile(r"\b(?:SC_ASSERT|assert)\(")
OVERWRITES = re.compile(r"\bmemset\((?:c|conn|path),|^\s*\*(?:c|conn|path) = ", re.M)
TRANSITION = re.compile(r"transition_\w+_to_(\w+)$")


def fields_of(headers):
    return {name for text in headers for name in FIELD.findall(COMMENT.sub("", text))} - HEARD


def assignments(fields):
    """Of NAME->field or NAME.field to something: = and whatever else changes a number."""
    field = "|".join(sorted(fields))
    return re.compile(rf"[\w\])](?:->|\.)({field})\s*(?:(?:[-+|&^]|<<|>>)?=(?!=)\s*([\w.>-]*)|\+\+|--)")


def check_function(name, body, assigns):
    to = TRANSITION.search(name)
    for field, value in assigns.findall(body):
        if not to:
            yield f"{name}() changes {field}: only a function transition_<from>_to_<to> may"
        elif not value.lower().endswith("_" + to[1]):
            yield f"{name}() sets {field} to {value or 'something'}, not to {to[1]}"
    if to and not ASSERTS.search(body):
        yield f"{name}() does not assert where it comes from"
    if name not in INITIALISERS and OVERWRITES.search(body):
        yield f"{name}() overwrites a whole struct, with its state; only {', '.join(sorted(INITIALISERS))} may"


def check(headers, sources, shell):
    """What is wrong; headers and sources of the core, and what lies around it: {path: text}."""
    fields = fields_of(headers.values())
    if not fields:
        return ["no state is found"]
    assigns = assignments(fields)
    wrong = []
    for path, text in sorted(sources.items()):
        bare = COMMENT.sub("", text)
        functions = FUNCTION.findall(bare)
        wrong += [f"{path}: {line}" for name, body in functions for line in check_function(name, body, assigns)]
        if len(assigns.findall(bare)) != sum(len(assigns.findall(body)) for _, body in functions):
            wrong.append(f"{path}: a state changes outside of what this check takes for functions")
    field = "|".join(sorted(fields))
    outside = re.compile(rf"\bcore(?:->|\.)(?:\w+\.)?({field})\s*=(?!=)")
    for path, text in sorted(shell.items()):
        wrong += [f"{path}: changes {name} of the core" for name in outside.findall(COMMENT.sub("", text))]
    return wrong


def self_test():
    header = {"a.h": "struct a {\n\tenum sc_send_state send;\n\tenum sc_standby_phase peer;\n\tint n;\n};\n"
                     "struct b {\n\tenum sc_switch_phase phase;\n};\n"}
    good = ["static void transition_one_to_two(struct a *c)\n{\n\tSC_ASSERT(c->send == ONE);\n"
            "\tc->send = SC_SEND_TWO;\n}\n",
            "void sc_init(struct a *conn)\n{\n\tmemset(conn, 0, sizeof(*conn));\n}\n",
            "static bool is(struct a *c)\n{\n\tc->n = 1;\n\tc->peer = 2;\n\treturn c->send == ONE;\n}\n",
            "void tell(struct a *c)\n{\n\t*m = (struct m){\n\t\t.phase = c->sw.phase,\n\t};\n}\n",
            "/* c->send = ONE; */\n"]
    bad = [good[0].replace("transition_one_to_two", "go"),
           good[0].replace("\tSC_ASSERT(c->send == ONE);\n", ""),
           good[0].replace("SC_SEND_TWO", "SC_SEND_THREE"),
           "static void stop(struct a *c, int phase)\n{\n\tif (c)\n\t\tc->sw.phase = phase;\n}\n",
           "void f(struct a *c)\n{\n\tc->sw.phase++;\n}\n", "void f(struct a *c)\n{\n\tc[1].send |= ONE;\n}\n",
           "void f(struct a *c)\n{\n\t*c = (struct a){ 0 };\n}\n",
           "#define GO(c) ((c)->send = ONE)\n"]
    wrong = [f"not found: {t!r}" for t in bad if not check(header, {"a.c": t}, {})]
    wrong += [f"falsely found: {v}" for t in good for v in check(header, {"a.c": t}, {})]
    if not check(header, {}, {"b.c": "void f(struct q *q)\n{\n\tq->core.sw.phase = 1;\n}\n"}):
        wrong.append("not found: the shell changes state of the core")
    if check(header, {}, {"b.c": "void f(struct q *q)\n{\n\tq->sw.phase = q->core.send == 1;\n}\n"}):
        wrong.append("falsely found: the shell's own state")
    if not check({}, {}, {}):
        wrong.append("no state is no complaint")
    return wrong


def read(root, folder, ending):
    texts = {}
    for at, _, names in os.walk(os.path.join(root, folder)):
        for name in names:
            if name.endswith(ending):
                path = os.path.join(at, name)
                with open(path, encoding="utf-8") as f:
                    texts[os.path.relpath(path, root)] = f.read()
    return texts


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", "..")
    wrong = [f"check_states.py does not work: {line}" for line in self_test()]
    headers, sources = read(root, CORE, ".h"), read(root, CORE, ".c")
    shell = {path: text for path, text in read(root, "shiftlib", (".c", ".h")).items()
             if not path.startswith(CORE + os.sep)}
    wrong += check(headers, sources, shell)
    for line in wrong:
        print(line)
    if not wrong:
        print(f"{', '.join(sorted(fields_of(headers.values())))} change in transitions only")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
