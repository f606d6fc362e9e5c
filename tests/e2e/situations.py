#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Situations of shiftlab.situations, each on a fabric of its own: what the log, `shiftctl status`, `events`, `why` and
the exporter tell of it names who broke and what to do, blames nobody else, and raises the critical alert where it is due.

  situations.py --build DIR [--drawn N] [--write FOLDER] [CASE...]

--write: the outputs alone, one folder each, in an order that is drawn, for a reader who does not know the table; the
names are in FOLDER/key.
"""
import argparse
import os
import random
import re
import sys
from concurrent.futures import ThreadPoolExecutor

from shiftlab.lab import draw, draw_seed, run_case, run_cases, wait_for
from shiftlab.outputs import KINDS, Outputs
from shiftlab.perftest import Failed
from shiftlab.situations import SITUATIONS

TOGETHER = 3        # they mostly wait


def lacks(wanted, told):
    """What is wanted of the outputs of a host, and is not there."""
    for kind, patterns in wanted.items():
        text = told["why" if kind == "do" else kind]
        if kind == "do":
            text = "\n".join(re.findall(r"What to do: .*", text))
        for pattern in [patterns] if isinstance(patterns, str) else patterns:
            if not re.search(pattern, text, re.M):
                yield kind, pattern


class Run:
    """One situation, from its making to its judgement."""

    def __init__(self, lab, situation):
        self.lab, self.situation = lab, situation
        self.outputs = Outputs(lab, situation.hosts)
        self.told = {}

    def ask(self, hosts):
        """At once: a process that is stopped lets each of its askers wait."""
        with ThreadPoolExecutor(len(self.situation.hosts)) as pool:
            self.told.update(zip(hosts, pool.map(lambda host: self.outputs.of(host, self.situation.ask), hosts)))

    def all_told(self):
        self.ask(list(self.situation.wanted))
        return not self.missing()

    def missing(self):
        return [(host, *lack) for host, wanted in self.situation.wanted.items()
                for lack in lacks(wanted, self.told[host])]

    def check(self):
        s = self.situation
        try:
            wait_for("all that is to be told", self.all_told, float(os.environ.get("WITHIN", s.within)), 0.3)
        except Exception as e:
            self.ask(s.hosts)
            raise Failed("not told: " + "; ".join(f"{host} {kind} /{pattern}/" for host, kind, pattern in
                                                   self.missing())) from e
        self.ask(s.hosts)
        for host, told in self.told.items():
            for kind in KINDS:
                for pattern in s.never:
                    found = re.search(pattern, told[kind], re.M)
                    if found:
                        said = told[kind][max(0, found.start() - 300):found.end() + 200]
                        raise Failed(f"{host} {kind} says '{found.group(0)}':\n{said}")
        alarmed = tuple(host for host in s.hosts if self.outputs.alert(host))
        if alarmed != s.alert:
            raise Failed(f"the critical alert is raised at {alarmed} instead of {s.alert}")

    def write(self, folder):
        os.makedirs(folder, exist_ok=True)
        for host, told in self.told.items():
            for kind in KINDS:
                with open(os.path.join(folder, f"{host}.{kind}"), "w", encoding="utf-8") as f:
                    f.write(told[kind])


def run(lab, situation, folder):
    this = Run(lab, situation)
    try:
        situation.make(lab)
        this.check()
    finally:
        if folder:
            this.write(folder)
    if not this.told:
        raise Failed("nothing was told")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--drawn", type=int, metavar="N", help="N of the situations, others each time")
    parser.add_argument("--write", metavar="FOLDER", help="the outputs, for a reader")
    parser.add_argument("cases", nargs="*", choices=[[], *SITUATIONS])
    return parser.parse_args()


def folders(args, names):
    """Where each is written: numbers in an order that says nothing. The key is kept apart."""
    if not args.write:
        return {}
    order = list(names)
    random.Random(draw_seed()).shuffle(order)
    os.makedirs(args.write, exist_ok=True)
    with open(os.path.join(args.write, "key"), "w", encoding="utf-8") as f:
        f.writelines(f"{i:02} {name}: {SITUATIONS[name].what}\n" for i, name in enumerate(order, 1))
    return {name: os.path.join(args.write, f"{i:02}") for i, name in enumerate(order, 1)}


def main():
    args = arguments()
    names = args.cases or list(SITUATIONS)
    if args.drawn:
        names = draw(names, args.drawn)
    where = folders(args, names)

    def passes(name):
        s = SITUATIONS[name]
        return run_case(args.build, name, lambda lab: run(lab, s, where.get(name)), **s.fabric)
    return run_cases(names, passes, TOGETHER)


if __name__ == "__main__":
    sys.exit(main())
