# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What the tests of the documentation read: pages, their fenced blocks, the examples of man pages.

A block of commands is fenced as sh (commands alone) or console (commands behind "$ " with what they
print). HTML comments before it, which no reader sees, say more:

    <!-- not run: REASON -->    it needs hardware, a server, minutes; its syntax is checked all the same
    <!-- before: COMMAND -->    what the page takes for granted: a server that runs; or that its reader is patient:
                                ends_now ends the newest ib_write_bw -D of the shell
    <!-- wait: COMMAND -->      what a reader would wait for before he goes on; tried until it succeeds
    <!-- numbers vary -->       a number that is shown stands for any other one
"""
import glob
import os
import re

RUNNABLE = ("sh", "console")
FENCE = re.compile(r"^( *)(```+)\s*(\S*)")
COMMENT = re.compile(r"<!--\s*(not run|before|wait|numbers vary):?\s*(.*?)\s*-->", re.S)


class Block:
    """A fenced block: where it stands, its language, its lines, what the comments before it say."""

    def __init__(self, page, line, language):
        self.page = page
        self.line = line
        self.language = language
        self.lines = []
        self.not_run = None
        self.first = []     # lines of shell that come before its commands
        self.numbers_vary = False

    @property
    def where(self):
        return f"{self.page}:{self.line}"

    def commands(self):
        """Of each command its text, and the lines that it shall print; None for an sh block."""
        if self.language == "sh":
            return [("\n".join(self.lines) + "\n", None)]
        found = []
        for line in self.lines:
            if line.startswith("$ "):
                found.append([line[2:] + "\n", []])
            elif line.startswith("> ") and found and not found[-1][1]:
                found[-1][0] += line[2:] + "\n"
            elif found:
                found[-1][1].append(line)
            else:
                raise ValueError(f"{self.where}: output before the first command")
        return [(text, shown) for text, shown in found]


def pages(root):
    """README.md, CONTRIBUTING.md and all of docs, SDR's, too, as paths from the root."""
    found = ["README.md", "CONTRIBUTING.md"]
    for folder in ("docs", "sdr/docs"):
        found += glob.glob(f"{folder}/**/*.md", root_dir=root, recursive=True)
    return sorted(found, key=lambda name: (name.count("/"), name))


def read(root, page):
    with open(os.path.join(root, page), encoding="utf-8") as f:
        return f.read()


def said_before(lines, at):
    """The comments that stand right before line at, and only blank lines between."""
    end = at
    while end and not lines[end - 1].strip():
        end -= 1
    start = end
    while start and "<!--" not in lines[start - 1] and lines[start - 1].strip():
        start -= 1
    text = "\n".join(lines[max(start - 1, 0):end])
    if not text.strip().endswith("-->"):
        return []
    found = COMMENT.findall(text)
    return said_before(lines, start - 1) + found if start else found


def blocks(root, page):
    """All fenced blocks of a page."""
    lines = read(root, page).split("\n")
    found, block, fence = [], None, None
    for n, line in enumerate(lines):
        match = FENCE.match(line)
        if block is None and match:
            fence = match.group(1), match.group(2)
            block = Block(page, n + 1, match.group(3))
            for kind, text in said_before(lines, n):
                if kind == "wait":
                    block.first.append(f"until {text}; do sleep 0.05; done")
                elif kind == "before":
                    block.first.append(text)
                elif kind == "numbers vary":
                    block.numbers_vary = True
                else:
                    block.not_run = " ".join(text.split())
        elif block is not None and line.strip() == fence[1]:
            found.append(block)
            block = None
        elif block is not None:
            block.lines.append(line[len(fence[0]):] if line.startswith(fence[0]) else line)
    if block is not None:
        raise ValueError(f"{block.where}: the fence is not closed")
    return found


def prose(root, page):
    """The page's lines with their numbers, without fenced blocks and comments."""
    inside = False
    text = re.sub(r"<!--.*?-->", lambda m: "\n" * m.group().count("\n"), read(root, page), flags=re.S)
    for n, line in enumerate(text.split("\n"), 1):
        if FENCE.match(line):
            inside = not inside
        elif not inside:
            yield n, line


def man_examples(root):
    """What stands as it is in the EXAMPLES sections of the man pages, as blocks that are not run."""
    for path in sorted(path for folder in ("docs", "sdr/docs") for path in glob.glob(f"{folder}/man/*.[1-8]", root_dir=root)):
        block, inside, verbatim = None, False, False
        for n, line in enumerate(read(root, path).split("\n"), 1):
            if line in (".nf", ".fi"):
                verbatim = line == ".nf"
            elif line.startswith(".SH"):
                inside = line.startswith((".SH EXAMPLE", ".SH \"EXAMPLE"))
                if inside:
                    block = Block(path, n, "sh")
                    block.not_run = "an example of a man page"
            elif inside and verbatim and not line.startswith("."):
                block.lines.append(line.replace("\\-", "-").replace("\\e", "\\").replace("\\&", "")
                                   .replace("\\(aq", "'").replace("\\(dq", '"'))
        if block and "".join(block.lines).strip():
            yield block
