#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The bill of materials says what the files say: the same bytes twice, each file once with its true sum, each library that a
file needs, and the code of others in the files that have a text of that code in them, and in no other.

usage: sbom_test.py ROOT BUILD
"""
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT, BUILD = sys.argv[1:3]
# A text that only this code has.
INSIDE = {"hiredis": b"Protocol error, got %s as reply type byte", "jansson": b"unable to decode byte 0x%x"}


def made(folder, name):
    path = os.path.join(folder, name)
    subprocess.run([sys.executable, "-B", os.path.join(ROOT, "scripts/make-sbom.py"), BUILD, path], check=True,
                   stdout=subprocess.DEVNULL)
    with open(path, "rb") as f:
        return f.read()


def installed(folder):
    """{name: content}"""
    subprocess.run(["cmake", "--install", BUILD, "--strip"], check=True, capture_output=True,
                   env={**os.environ, "DESTDIR": folder})
    found = {}
    for top, _, names in os.walk(folder):
        for path in (os.path.join(top, name) for name in names):
            if not os.path.islink(path):
                with open(path, "rb") as f:
                    found["./" + os.path.relpath(path, folder)] = f.read()
    return found


def needed(folder, name):
    out = subprocess.run(["readelf", "-dW", os.path.join(folder, name)], capture_output=True, text=True, check=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.*)\]", out)


def wrong_links(bill, folder, files):
    """Sentences about what files need, and what is in them."""
    names = {f["SPDXID"]: f["fileName"] for f in bill["files"]}
    linked = {}
    for r in bill["relationships"]:
        if r["relationshipType"] in ("STATIC_LINK", "DYNAMIC_LINK"):
            key = (names[r["spdxElementId"]], r["relationshipType"])
            linked.setdefault(key, set()).add((r["relatedSpdxElement"], r["comment"]))
    for name, content in sorted(files.items()):
        if not content.startswith(b"\x7fELF"):
            continue
        said = " ".join(comment for _, comment in linked.get((name, "DYNAMIC_LINK"), ()))
        yield from (f"{name} needs {library}, and the bill has it not" for library in needed(folder, name)
                    if library not in said and not library.startswith("libsdr"))
        inside = {part for part, _ in linked.get((name, "STATIC_LINK"), ())}
        for part, text in INSIDE.items():
            if (text in content) != (f"SPDXRef-Package-{part}" in inside):
                yield f"{name}: {part} is {'in it, and the bill has it not' if text in content else 'not in it'}"


def wrong_with(bill, folder, files):
    """Sentences."""
    sums = {f["fileName"]: f["checksums"][1]["checksumValue"] for f in bill["files"]}
    yield from (f"in one of bill and installation only: {name}" for name in sorted(set(sums) ^ set(files)))
    yield from (f"{name}: another sum" for name in sorted(set(sums) & set(files))
                if sums[name] != hashlib.sha256(files[name]).hexdigest())
    ids = [e["SPDXID"] for e in bill["files"] + bill["packages"]] + ["SPDXRef-DOCUMENT"]
    yield from (f"{i} stands for {ids.count(i)} things" for i in sorted(set(ids)) if ids.count(i) > 1)
    for r in bill["relationships"]:
        yield from (f"{i} is nothing" for i in (r["spdxElementId"], r["relatedSpdxElement"]) if i not in ids)
    for part in INSIDE:
        yield from (f"{part} is linked in, and has no version" for p in bill["packages"]
                    if p["name"] == part and not p.get("versionInfo"))
    yield from wrong_links(bill, folder, files)


def main():
    with tempfile.TemporaryDirectory() as folder:
        one, two = made(folder, "one"), made(folder, "two")
        root = os.path.join(folder, "root")
        bill, files = json.loads(one), installed(root)
        wrong = list(wrong_with(bill, root, files)) + ([] if one == two else ["not the same bytes twice"])
        broken = json.loads(one)
        broken["relationships"] = [r for r in broken["relationships"] if r["relationshipType"] != "STATIC_LINK"]
        if not any("hiredis is in it" in line for line in wrong_with(broken, root, files)):
            wrong.append("the test does not notice that hiredis is left out")
    print("\n".join(wrong) or f"{len(files)} files, {len(bill['packages']) - 1} components")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
