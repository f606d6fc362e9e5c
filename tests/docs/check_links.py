#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""README.md and docs/ lead nowhere dead: relative links and anchors, pictures, files and make targets that
are named between backquotes, alerts; and every page can be reached from docs/README.md. Commands stand in fenced
blocks with a language, where run_docs.py finds them.

usage: check_links.py [ROOT]
"""
import os
import re
import sys

import pages

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)|<(?:img|source)[^>]*?(?:src|srcset)=\"([^\"]+)\"")
PATH = re.compile(r"`((?:docs|tests|tools|scripts|bench|shiftlib|libibverbs|providers|kvclient|simnic|include|"
                  r"debian)/[\w./-]*)`")
TARGET = re.compile(r"`make ([a-z][a-z0-9-]*)[^`]*`")
COMMAND = re.compile(r"^(?: {4,}|\t)(?:\$ |sudo |shiftctl |simnicctl |make |export |scripts/|tests/|tools/|cd |"
                     r"apt )")
COMMANDS_OF_US = re.compile(r"^\s*(?:\$ )?(?:shiftctl|simnicctl) ", re.M)
ALERT = re.compile(r"\bShift[A-Z]\w+")
RULES = "docs/prometheus/shift.rules.yml"
INDEX = "docs/README.md"


def slug(title):
    """As GitHub makes them of headings."""
    title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).replace("`", "").lower()
    return re.sub(r"[^\w\- ]", "", title).strip().replace(" ", "-")


def anchors(root, page):
    return {slug(m.group(1)) for _, line in pages.prose(root, page)
            if (m := re.match(r"#+ (.*)", line))}


def check_link(root, page, link):
    """What is wrong with a relative link; None."""
    path, _, anchor = link.partition("#")
    target = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
    if not os.path.exists(os.path.join(root, target)):
        return f"{link} leads nowhere"
    if anchor and target.endswith(".md") and anchor not in anchors(root, target):
        return f"{target} has no heading for #{anchor}"
    return None


def headings_twice(root, page):
    seen = set()
    for n, line in pages.prose(root, page):
        if re.match(r"#+ ", line):
            if line in seen:
                yield n, f"a second {line}"
            seen.add(line)


def check_page(root, page, targets, alerts, linked):
    yield from headings_twice(root, page)
    for n, line in pages.prose(root, page):
        for found in LINK.finditer(line):
            link = found.group(1) or found.group(2)
            if re.match(r"[a-z]+:", link):
                continue
            linked.add(os.path.normpath(os.path.join(os.path.dirname(page), link.partition("#")[0])))
            wrong = check_link(root, page, link)
            if wrong:
                yield n, wrong
        for path in PATH.findall(line):
            if not os.path.exists(os.path.join(root, path)):
                yield n, f"there is no {path}"
        for alert in ALERT.findall(line):
            if alert not in alerts:
                yield n, f"{RULES} has no alert {alert}"
        for target in TARGET.findall(line):
            if target not in targets:
                yield n, f"there is no make {target}"
        if COMMAND.match(line):
            yield n, "a command outside of a fenced block"
    for block in pages.blocks(root, page):
        if not block.language:
            if COMMANDS_OF_US.search("\n".join(block.lines)):
                yield block.line, "a block of commands without a language"


def main():
    root = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else
                           os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    targets = set()
    for makefile in ("Makefile", "sdr/sdr.mk"):
        targets |= set(re.findall(r"^([a-z][a-z0-9 -]*):", pages.read(root, makefile), re.M))
    targets = {word for line in targets for word in line.split()} | {"help"}
    alerts = set(re.findall(r"alert: (\w+)", pages.read(root, RULES)))
    wrong, linked, from_index = [], set(), set()
    found = pages.pages(root)
    for page in found:
        links = from_index if page == INDEX else linked
        wrong += [f"{page}:{n}: {what}" for n, what in check_page(root, page, targets, alerts, links)]
    wrong += [f"{INDEX} does not lead to {page}" for page in found
              if page.startswith(("docs/", "sdr/docs/")) and page != INDEX and page not in from_index]
    print("\n".join(wrong) if wrong else f"{len(found)} pages, {len(linked | from_index)} links")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
