#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Each public function of each libibverbs that can be had is hooked, or was judged: judged.txt. The installed
library, and the copies of wheels in the folder of programs; JUDGED_LIBRARIES names more, with colons between.

usage: judged_test.py LIBRARY PROGRAMS_FOLDER
"""
import glob
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
OVERRIDES = os.path.join(HERE, "..", "..", "..", "libibverbs", "overrides.txt")
REASONS = {"asks", "below", "ud", "noticed", "alone", "past"}


def rows(path):
    with open(path, encoding="ascii") as f:
        return [line.split() for line in f if line.strip() and not line.startswith("#")]


def exported(library):
    """The functions of its public nodes. Those of IBVERBS_PRIVATE_* are for providers."""
    text = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", library], check=True,
                          capture_output=True, text=True).stdout
    return set(re.findall(r" [TW] (\w+)@+IBVERBS_1\.\d+$", text, re.M))


def libraries(installed, programs):
    found = [os.path.realpath(installed)]
    found += glob.glob(os.path.join(programs, "**", "libibverbs[-.]*so*"), recursive=True)
    return found + [path for path in os.environ.get("JUDGED_LIBRARIES", "").split(":") if path]


def main(installed, programs):
    judged = {name: reason for reason, name in rows(os.path.join(HERE, "judged.txt"))}
    hooked = {name for _, name in rows(OVERRIDES)}
    wrong = [f"{name}: no reason '{reason}'" for name, reason in judged.items() if reason not in REASONS]
    wrong += [f"{name}: hooked, and judged as not hooked" for name in hooked & set(judged)]
    for library in libraries(installed, programs):
        names = exported(library)
        print(f"{library}: {len(names)} functions")
        if len(names) < 60:
            wrong.append(f"{library}: only {len(names)} functions were found")
        wrong += [f"{library}: nobody has judged {name}" for name in sorted(names - hooked - set(judged))]
    print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
