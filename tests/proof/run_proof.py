#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Checks the proof (docs/proof/) with Coq, from its sources alone.

All files are compiled; no word in them leaves something unproven; what docs/proof/README.md names exists and
assumes nothing; coqchk, a checker of its own, goes through all that was compiled.

usage: run_proof.py [--build DIR] [--jobs N] [--quick | --drawn N | --library]

--quick    without coqchk, and only what has changed
--drawn    coqchk goes through N files, others each time (--only NAME... is printed, and replays them)
--library  coqchk goes through Coq's own library, too
"""
import argparse
import os
import random
import re
import subprocess
import sys
import time

import coq

README = os.path.join(coq.SOURCES, "README.md")
MODEL = os.path.join(coq.ROOT, "docs", "model")
UNPROVEN = re.compile(r"\b(Admitted|admit|give_up|Axioms?|Conjecture|Parameters?|Hypothes[ei]s|bypass_check|"
                      r"Unset\s+(?:Guard|Positivity|Universe)\s+Check\w*|type_in_type)\b")
COMMENT = re.compile(r"\(\*.*?\*\)", re.S)      # the files have none inside others
NAMED = re.compile(r"`([A-Z]\w*\.\w+)`")        # `Dir.old_carriers_are_dead`
# Of Coq's library: a module that hides what it defines, which coqchk sees in the file alone.
SEALED = re.compile(r"Coq\.ssr\.ssrunder\.Under_rel\.\w+")


def check_words():
    """What would let something pass unproven, by word: found before the compiler is asked."""
    if not UNPROVEN.search("Lemma a : False. Admitted.") or UNPROVEN.search("admitted by the guard"):
        raise coq.Failure("run_proof.py does not see an unproven lemma")
    found = {"axioms": 0, "admitted": 0}
    for name in coq.names():
        text = COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match.group()),
                           coq.read(os.path.join(coq.SOURCES, name + ".v")))
        for match in UNPROVEN.finditer(text):
            print(f"{name}.v:{text.count(chr(10), 0, match.start()) + 1}: {match.group()}")
            found["admitted" if "dmit" in match.group() or match.group() == "give_up" else "axioms"] += 1
    return found


def named(*paths):
    """The theorems that a page names, in its order; a file's own name (`Dir.v`) is none."""
    found = []
    for path in paths:
        found += [name for name in NAMED.findall(coq.read(path)) if not name.endswith(".v")]
    return list(dict.fromkeys(found))


def check_named(folder):
    """Each exists, and stands on nothing but Coq itself."""
    promised = named(README)
    if not promised:
        raise coq.Failure(f"{README} names no theorem")
    files = " ".join(coq.names())
    said = folder.script("Named", f"From {coq.LIBRARY} Require {files}.\n" +
                         "".join(f"Print Assumptions {name}.\n" for name in promised))
    closed = said.count("Closed under the global context")
    print(f"{closed} of {len(promised)} theorems of the README closed under the global context")
    if closed != len(promised):
        raise coq.Failure(said)


def rows_of_model():
    """(rule, functions, lemmas) of the table in docs/model/README.md."""
    rows = []
    for line in coq.read(os.path.join(MODEL, "README.md")).split("\n"):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3 and NAMED.search(cells[2]):
            rows.append(tuple(re.findall(r"`([^`]+)`", cell) for cell in cells))
    return rows


def check_model(folder):
    """Names in the model's table: rules are in shift.pml, functions in the core, lemmas in the proof."""
    rows = rows_of_model()
    if not rows:
        raise coq.Failure("docs/model/README.md has no table of rules and lemmas")
    model = coq.read(os.path.join(MODEL, "shift.pml"))
    core_folder = os.path.join(coq.ROOT, "shiftlib", "core")
    core = "".join(coq.read(os.path.join(core_folder, name)) for name in os.listdir(core_folder)
                   if name.endswith((".c", ".h")))
    lemmas = []
    for rules, functions, named_here in rows:
        missing = [name for name in rules if not re.search(rf"\b{re.escape(name)}\b", model)] + \
                  [name for name in functions if not re.search(rf"\b{re.escape(name)}\b", core)]
        if missing:
            raise coq.Failure(f"docs/model/README.md names what is not there: {' '.join(missing)}")
        lemmas += named_here
    folder.script("Rules", f"From {coq.LIBRARY} Require {' '.join(coq.names())}.\n" +
                  "".join(f"Check {name}.\n" for name in lemmas))
    print(f"{len(rows)} rules of docs/model: {len(set(lemmas))} lemmas, all there")


def check_again(folder, names, library):
    """By Coq's independent checker; library: Coq's own with it, which is the same each time."""
    begun = time.monotonic()
    files = [word for name in names for word in ([] if library else ["-norec"]) + [f"{coq.LIBRARY}.{name}"]]
    said = coq.command(["coqchk", "-silent", "-o", "-Q", ".", coq.LIBRARY, *files], folder.path)
    axioms = re.search(r"\* Axioms:\s*(.*?)\n\s*\n", said, re.S)
    if not axioms or any(not (SEALED.fullmatch(name) and not library) for name in axioms.group(1).split()
                         if name != "<none>"):
        raise coq.Failure(f"coqchk:\n{said}")
    for what in ("type-in-type", "unsafe", "positivity"):
        for line in re.findall(rf"\* .*{what}.*:\s*(.*)", said):
            if line.strip() != "<none>":
                raise coq.Failure(f"coqchk:\n{said}")
    print(f"{'coqchk':12} {time.monotonic() - begun:6.1f} s  no axioms{', in the library neither' if library else ''}")


def files_again(args):
    """What coqchk goes through."""
    if not args.only and not args.drawn:
        return coq.names()
    names = args.only or sorted(random.SystemRandom().sample(coq.names(), args.drawn))
    print(f"coqchk: --only {' '.join(names)}", flush=True)
    return names


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(coq.ROOT, "build", "proof"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--drawn", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=coq.names())
    parser.add_argument("--library", action="store_true")
    return parser.parse_args()


def main():
    args = parse_args()
    coq.skip_without_coq()
    folder = coq.Folder(args.build)
    if not args.quick:
        folder.empty()
    words = check_words()
    begun = time.monotonic()

    def tell(name):
        if name in folder.seconds:
            lines = coq.read(folder.at(name + ".v")).count("\n")
            print(f"{name:12} {folder.seconds[name]:6.1f} s  {lines} lines", flush=True)
    folder.compile_all(coq.names(), args.jobs, tell)
    check_named(folder)
    check_model(folder)
    if not args.quick:
        check_again(folder, files_again(args), args.library)
    print(f"{'all':12} {time.monotonic() - begun:6.1f} s")
    print(f"{len(coq.names())} files, {words['axioms']} axioms, {words['admitted']} admitted")
    return 1 if any(words.values()) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (coq.Failure, subprocess.SubprocessError) as failure:
        print(f"run_proof: {failure}", file=sys.stderr)
        sys.exit(1)
