#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""docs/troubleshooting.md describes every sentence that the library and shiftctl say of something wrong.

A sentence is any string of the sources below with a blank between words, but for what EXCEPT names with
its reason. In the page it stands between backquotes, with <...> where the source has a value; both ways
are checked: nothing in the sources that the page does not have, nothing there that no source says.

usage: check_messages.py [ROOT]     (--list: what is missing, by file)
"""
import glob
import os
import re
import sys

PAGE = "docs/troubleshooting.md"
SOURCES = ("shiftlib", "libibverbs", "providers", "kvclient", "tools")
STRING = r'"(?:[^"\\\n]|\\.)*"'
STRINGS = re.compile(rf"{STRING}(?:\s*(?:[A-Z][A-Z0-9_]+\s*)?{STRING})*")
PART = re.compile(rf"({STRING})|([A-Z][A-Z0-9_]+)")
VALUE = re.compile(r"(?:0x)?%[-+ #0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh|h|ll|l|z|j)?[diouxXscpfeg]")
# What stands before a string that nobody is shown, or that is no complaint.
QUIET = re.compile(r"\b(?:static_assert|_Static_assert|__asm__|sh_info_once|FINDING_OK)\b")
CALM = re.compile(r"SH_LOG_(?:INFO|DEBUG)")
LOUD = re.compile(r"SH_LOG_(?:WARN|ERROR)")
EXCEPT = [
    (r"tools/probe/", r"", "shiftctl probe-hw explains each of its checks itself, by --list and in its report"),
    (r"tools/shiftctl\.c", r"^(?!no command)", "the help text"),
    (r"", r"\\\":|^[ ,]*[{}\[\]]", "JSON"),
    (r"backup/pair\.c", r"same|known|another NUMA", "how near a backup is: no complaint"),
    (r"kvclient/(redis_conn|lmdb)\.c", r"^(redis|lmdb) at %", "where a complaint of the store begins"),
    (r"shiftlib/base/log\.c", r"^shift: (%s|error): ", "how each line begins"),
    (r"shiftlib/base/holder\.c", r"^read -r end", "a shell's command, which ps shows"),
    (r"shiftlib/base/crash\.c", r"^ (at|in|of|\()|^, ", "parts of the line whose ends the page quotes"),
    (r"tools/(status|drain)\.c", r"^, |^  (?!QP 0x%06llx stays)|^%d: (?!uses)|^%lld \(|connections on it|^port down$|^LID ",
     "a report, no complaint"),
    (r"tools/why_(words|todo)\.c", r"", "the words of a story, which says itself what to do"),
    (r"tools/why\.c", r"^(?!why takes|no program)", "a story, which says itself what to do"),
    (r"tools/proc\.c", r"^Max open files$", "a row of /proc"),
    (r"tools/report\w*\.c", r"^(?!report takes|%s is incomplete|%s: out of|tar|no program)",
     "the list of what is in the archive, and its parts"),
    (r"tools/(watch|version)\.c|tools/library\.c", r"processes|scroll|^, some|version|protocol|^libibverbs +%s|rdma-core|"
     r"^shiftctl +%s", "a report, no complaint"),
    (r"tools/exporter/", r"^usage: |^shift-exporter <|^shift-exporter %s|^text/plain|^GET, HEAD$|^# HELP", "no complaint"),
    (r"tools/exporter/exporter\.h", r"", "what metrics mean, in the page that it serves and in shift-exporter(1)"),
    (r"tools/exporter/http\.c", r"^listening on|^GET or HEAD|^ok\\n$|^see /metrics|and /healthz", "answers of the exporter"),
    (r"shiftlib/report/event\.c", r"^, ", "part of an event, which shiftctl events explains in its page"),
    (r"tools/events\.c", r"^(DETECT|SWITCH) ms$|^events %lld$", "heads of columns, and the question to a process"),
    (r"tools/doctor\.c", r"^%-17s|^%s, port|^no engine$|^ \(rdma-core|^\\nWould be|^, if the peer|^version map$",
     "what was found, no complaint"),
    (r"tools/doctor\.c", r"Nothing would be protected|see the lines marked NO", "the last line says what to read"),
    (r"shiftlib/base/variables\.c", r"^Open MPI$", "a library's name"),
    (r"tools/doctor_env\.c", r"^shift: (error|warn): $", "how lines of the library begin"),
    (r"", r"^RoCE v[12]$", "a type of GID"),
    (r"tools/devices\.c", r"^unknown (type|link layer)$", "a value in the list of devices"),
]


def without_comments(text):
    """With as many lines, and strings left alone."""
    def blank(match):
        return match.group() if match.group().startswith('"') else re.sub(r"[^\n]", " ", match.group())
    return re.sub(rf"{STRING}|/\*.*?\*/|//[^\n]*", blank, text, flags=re.S)


def strings(text):
    """(line, what stands before it in its statement, the string) of a C source."""
    text = without_comments(text)
    text = re.sub(r"^[ \t]*#[ \t]*(?:include|error)[^\n]*", "", text, flags=re.M)
    for match in STRINGS.finditer(text):
        before = text[:match.start()]
        begin = max(before.rfind(";"), before.rfind("{"), before.rfind("}"))
        parts = [text[1:-1] if text else "%s" for text, macro in PART.findall(match.group())]
        yield before.count("\n") + 1, before[begin + 1:], "".join(parts)


def is_sentence(string):
    words = plain(string).replace("<>", "")
    return bool(re.search(r"[A-Za-z]{2}.* |(?:^|[ :]) *[a-z]+ [a-z]| [a-z]{2}", words))


def plain(text):
    """A format, or a quotation of the page, with <> for values."""
    text = text.replace("\\n", "").replace('\\"', '"').replace("%%", "%")
    text = re.sub(r"(?:<[^<>]*>)+", "<>", VALUE.sub("<>", text))
    return re.sub(r"\s+", " ", text).strip()


def said(root):
    """{sentence: where} of all sources; and the exceptions that were met."""
    found, met = {}, set()
    for folder in SOURCES:
        for path in sorted(glob.glob(f"{folder}/**/*.[ch]", root_dir=root, recursive=True)):
            with open(os.path.join(root, path), encoding="utf-8") as f:
                text = f.read()
            for line, before, string in strings(text):
                if not is_sentence(string) or QUIET.search(before) or \
                        CALM.search(before) and not LOUD.search(before):
                    continue
                excepted = [n for n, (file, what, _) in enumerate(EXCEPT)
                            if re.search(file, path) and re.search(what, string)]
                met.update(excepted)
                if not excepted:
                    found.setdefault(plain(string), f"{path}:{line}")
    return found, met


def quoted(root):
    """{sentence: line} of what the page's list items begin with: quotations with line breaks between them."""
    found = {}
    with open(os.path.join(root, PAGE), encoding="utf-8") as f:
        for n, line in enumerate(f, 1):
            item = re.match(r"- ((?:`[^`]+`(?:<br>)?)+)", line)
            if item:
                for text in re.findall(r"`([^`]+)`", item.group(1)):
                    found.setdefault(plain(text), n)
    return found


def main():
    args = [a for a in sys.argv[1:] if not a.startswith("--")]
    root = args[0] if args else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    sources, met = said(root)
    page = quoted(root) if os.path.exists(os.path.join(root, PAGE)) else {}
    wrong = [f"{sources[s]}: not in {PAGE}: {s}" for s in sources if s not in page]
    wrong += [f"{PAGE}:{page[s]}: no source says: {s}" for s in page if s not in sources]
    wrong += [f"exception {EXCEPT[n][:2]} is of no string any more"
              for n in range(len(EXCEPT)) if n not in met]
    if len(sources) < 100:
        wrong.append(f"only {len(sources)} sentences were found")
    print("\n".join(sorted(wrong)) if wrong else f"{len(sources)} sentences are described")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
