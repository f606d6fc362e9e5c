#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""One build in the userlands of other distributions: each a small root of its own, made by scripts/make-root.sh from
where this machine's apt gets Debian, with its own rdma-core, perftest, Redis, dpkg and Python.

  distros.py --build DIR [--out DIR] [--suites NAME,...] [--cases NAME,...] [--environments N] [--over DIR]
             [--pythons DIR...]

--pythons: folders of more Pythons for the case wheel, such as ~/.pyenv/versions/3.9.18: each is there at its own place.
--over: files that are laid over the suite's own, such as another rdma-core by `DESTDIR=DIR ninja install`.

The cases are in inside.py. Each root stays as it is: cases run in an overlay over it, in namespaces of their own (mounts,
processes, network). Writes OUT/distros.md, OUT/distros.json and, for each suite, OUT/distros/SUITE.log. The closing line is
"N passed, N failed, N skipped"; the exit status is 1 if one failed.
"""
import argparse
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import threading

from shiftlab.results import ROOT, save

SUITES = ("bullseye", "bookworm", "trixie", "forky", "sid")
CASES = {"loads": "loads", "pingpong": "ibv_rc_pingpong", "write_bw": "ib_write_bw", "redis": "Redis", "doctor": "doctor",
         "wheel": "wheel", "packages": "packages", "pyverbs": "rdma-core's python tests"}
ALONE = ("pyverbs",)            # what takes long runs only where it is asked for
WANTED = (33, 39, 44, 48, 56)   # versions of rdma-core, and the newest
SHARE = "/mnt/shift"            # where the source tree is in a root
LIMIT_S = 2400
SKIPPED = 77
HERE = os.path.dirname(os.path.realpath(__file__))
TREE = os.path.realpath(ROOT)
BEGIN = 'ip link set lo up; echo 127.0.0.1 localhost > /etc/hosts; exec "$@"'
INSIDE = ["unshare", "--mount", "--pid", "--net", "--ipc", "--fork", "--kill-child", "--mount-proc"]


def skipped(why):
    return {name: {"fate": "skipped", "text": why} for name in args.cases}


def in_share(path):
    """The same folder in a root."""
    relative = os.path.relpath(os.path.realpath(path), TREE)
    if relative.startswith(".."):
        sys.exit(f"distros: {path} is not in {TREE}, which the roots see")
    return os.path.join(SHARE, relative)


def asked(root, *argv):
    done = subprocess.run(["chroot", root, *argv], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def rdma_core(root):
    """By its package, or by the name of the library that lies over it."""
    for path in glob.glob(args.over + "/usr/lib/*/libibverbs.so.1.*.*.*") if args.over else ():
        return path.split(".so.1.")[1].split(".", 1)[1] + ", built"
    return asked(root, "dpkg-query", "-W", "-f", "${Version}", "libibverbs1")


def versions(root):
    glibc = re.search(r"([\d.]+)$", asked(root, "ldd", "--version").split("\n")[0])
    return {"rdma_core": rdma_core(root),
            "perftest": asked(root, "dpkg-query", "-W", "-f", "${Version}", "perftest"),
            "glibc": glibc.group(1) if glibc else "?", "python": asked(root, "python3", "--version").split()[-1]}


def command():
    return ["PYTHONDONTWRITEBYTECODE=1", "python3", SHARE + "/tests/distros/inside.py", "--build", in_share(args.build),
            "--packages", in_share(args.packages),
            *(["--environments", str(args.environments)] if args.environments else []),
            *(["--pythons", ":".join(args.pythons)] if args.pythons else []), *args.cases]


def enter(root, folder):
    """Runs the cases in a root, and yields what is printed."""
    os.mkdir(os.path.join(folder, "copy"))
    system = ":".join([args.over, root] if args.over else [root])
    argv = INSIDE + [os.path.join(TREE, "tests/packages/enter.sh"), system, folder, TREE, "sh", "-c", BEGIN, "sh", "env", "-i",
                     "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8", *command()]
    env = {**os.environ, "SHIFT_ALSO": ":".join(args.pythons)}
    with subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace") as process:
        watch = threading.Timer(LIMIT_S, process.kill)
        watch.start()
        yield from process.stdout
        watch.cancel()


def run(suite):
    """{"rdma_core": ..., "cells": {case: {"fate", "text"}}} of a suite."""
    made = subprocess.run([os.path.join(TREE, "scripts/make-root.sh"), suite, args.roots], stdout=subprocess.PIPE, text=True,
                          check=False)
    print(made.stdout, end="", flush=True)
    if made.returncode:
        why = made.stdout.strip().split("\n")[-1].replace("make-root: ", "", 1)
        if made.returncode != SKIPPED:
            raise RuntimeError(f"make-root.sh {suite}: exit {made.returncode}: {why}")
        return {"cells": skipped(why)}
    root = os.path.join(args.roots, suite)
    found = {**versions(root), "cells": {}}
    log = os.path.join(args.out, "distros", suite + ".log")
    with tempfile.TemporaryDirectory(prefix="shift-distros-") as folder, open(log, "w", encoding="utf-8") as f:
        for line in enter(root, folder):
            f.write(line)
            f.flush()
            if line.startswith("CELL "):
                cell = json.loads(line[5:])
                found["cells"][cell["case"]] = cell
                print(f"{suite} {cell['case']}: {cell['fate']} ({cell['seconds']} s): {cell['text']}", flush=True)
    for case in args.cases:
        found["cells"].setdefault(case, {"fate": "FAIL", "text": f"not reached; the last words are in {log}"})
    return found


def major(version):
    return int(re.match(r"\d+", version).group())


def missing(suites):
    """Sentences about versions that no suite has."""
    have = {major(s["rdma_core"]) for s in suites.values() if "rdma_core" in s}
    return [f"rdma-core {n}: not to be had, as none of these suites has it" for n in WANTED if n not in have]


def table(suites):
    head = ["suite", "rdma-core", "glibc", *(CASES[c] for c in args.cases)]
    rows = [head, ["---"] * len(head)]
    for name, suite in suites.items():
        rows.append([name, suite.get("rdma_core", ""), suite.get("glibc", ""),
                     *(suite["cells"][c]["fate"] for c in args.cases)])
    lines = ["| " + " | ".join(row) + " |" for row in rows] + [""]
    lines += [f"- {line}" for line in missing(suites)]
    lines += [f"- {name}, {CASES[case]}: {cell['fate']}, {cell['text']}" for name, suite in suites.items()
              for case, cell in suite["cells"].items()]
    return "\n".join(lines) + "\n"


def names(text, known, alone=()):
    chosen = text.split(",") if text else [name for name in known if name not in alone]
    wrong = [name for name in chosen if name not in known]
    if wrong:
        sys.exit(f"distros: what is {', '.join(wrong)}? There are {', '.join(known)}")
    return chosen


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--out", default="out")
    parser.add_argument("--suites", help="of " + ", ".join(SUITES))
    parser.add_argument("--cases", help="of " + ", ".join(CASES))
    parser.add_argument("--environments", type=int, help="so many of doctor's, drawn (all)")
    parser.add_argument("--over", metavar="DIR", help="files over the suite's own")
    parser.add_argument("--pythons", metavar="DIR", nargs="*", default=[], help="folders of more Pythons")
    given = parser.parse_args()
    given.pythons = [os.path.realpath(os.path.expanduser(folder)) for folder in given.pythons]
    given.over = given.over and os.path.abspath(given.over)
    given.suites, given.cases = names(given.suites, SUITES), names(given.cases, CASES, ALONE)
    given.roots = os.path.join(os.path.abspath(given.build), "distros")
    given.packages = os.path.join(os.path.abspath(given.out), "packages")
    return given


def main():
    os.makedirs(os.path.join(args.out, "distros"), exist_ok=True)
    suites = {suite: run(suite) for suite in args.suites}
    text = table(suites)
    with open(os.path.join(args.out, "distros.md"), "w", encoding="utf-8") as f:
        f.write(text)
    save(args.out, "distros.json", {"suites": suites, "missing": missing(suites)})
    print("\n" + text)
    fates = [cell["fate"] for suite in suites.values() for cell in suite["cells"].values()]
    print(f"{fates.count('PASS')} passed, {fates.count('FAIL')} failed, {fates.count('skipped')} skipped")
    return 1 if "FAIL" in fates else 0


if __name__ == "__main__":
    args = parse()
    sys.exit(main())
