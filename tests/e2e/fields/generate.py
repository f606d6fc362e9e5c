#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""All public fields of the public structures, from the installed infiniband/verbs.h: a table for fields.c.

  generate.py COMPILER > walk.h

A public structure is one of which a program holds a pointer that libibverbs gave it: it names its context or
device, or begins with another public structure. So no structure and no field is forgotten, nor one that a later
release brings.
"""
import re
import subprocess
import sys

def structs(text):
    for found in re.finditer(r"^struct ((?:ibv|verbs|_ibv)_\w+) \{\n(.*?)^\};", text, re.S | re.M):
        yield found.group(1), list(split(found.group(2)))


def split(body):
    depth, at = 0, ""
    for char in body:
        depth += (char in "({") - (char in ")}")
        if char == ";" and not depth:
            yield " ".join(at.split())
            at = ""
        else:
            at += char


def member(words):
    """(name, kind, type)"""
    function = re.match(r".*?\(\s*\*\s*(\w+)\s*\)\s*\(", words)
    if function:
        return function.group(1), "FUNCTION", ""
    inner = re.match(r"(?:struct|union)\s*\{.*\}\s*(\w+)$", words)
    if inner:
        return inner.group(1), "BYTES", ""
    kind, name, array = re.match(r"(.*?)(\w+)\s*((?:\[[^]]*\])*)$", words).groups()
    kind = kind.strip()
    if kind.endswith("*"):
        return name, "POINTER", kind
    if array:
        return name, "TEXT" if kind == "char" else "BYTES", kind
    if kind.startswith(("struct", "union", "pthread")):
        return name, "OPS" if kind.endswith("_ops") else "BYTES", kind
    return name, "NUMBER", kind


def is_public(name, body, known):
    begins = body[0].rsplit(" ", 1)[0] if body and "*" not in body[0] else ""
    return (name in ("ibv_device", "verbs_context") or begins in known or
            any(re.match(r"struct ibv_(context|device) \*\w+$", words) for words in body))


def main():
    text = subprocess.run([sys.argv[1], "-E", "-P", "-"], input="#include <infiniband/verbs.h>\n",
                          capture_output=True, text=True, check=True).stdout
    found, known = {}, set()
    for name, body in structs(text):
        if is_public(name, body, known):
            found[name] = [member(words) for words in body]
            known.add("struct " + name)
    print("/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */\n/* Made by generate.py. */")
    for name, fields in found.items():
        print(f"static const struct field fields_{name}[] = {{")
        for field, kind, of in fields:
            kind = "PART" if of in known else kind
            print(f"\tFIELD(struct {name}, {field}, KIND_{kind}),")
        print("};")
    print("static const struct type types[] = {")
    for name in found:
        print(f"\tTYPE({name}),")
    print("};")


if __name__ == "__main__":
    main()
