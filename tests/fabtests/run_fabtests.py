#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""
libfabric's own tests (fabtests) on the software NIC: as they are, and with SHIFT under them. Nothing may be worse with SHIFT,
and each failure without SHIFT is explained in explained.txt: the exit status says so.

These are the tests that fabtests' runfabtests.sh names unit, functional and short, without those that fabtests itself excludes
for the provider. Each has a fabric of its own; server and client are on two hosts. libfabric takes the addresses of network
interfaces, so all of it runs in a network namespace that has them.

Exit: 0 all is well; 1 otherwise; 77 the tests are not there (scripts/build-fabtests.sh), or there can be no such namespace.
"""
import argparse
import errno
import os
import re
import shlex
import sys
import time

from shiftlab.lab import SKIPPED, Lab, Shift, Stuck, wait_for
from shiftlab.pyverbs import ENDINGS, WAYS, Batch, how_it_died

HERE = os.path.dirname(os.path.abspath(__file__))
EXPLAINED = os.path.join(HERE, "explained.txt")
A, B = "10.0.0.1", "10.0.0.2"       # mlx5_0 of h0 and of h1
PROVIDERS = {"verbs": "verbs", "verbs;ofi_rxm": "ofi_rxm"}      # and whose exclusions count
SETS = ("unit", "functional", "short")
NETWORK = (f"ip link set lo up && ip link add va type veth peer name vb && ip link set va up && ip link set vb up && "
           f"ip addr add {A}/24 dev va && ip addr add {B}/24 dev va || exit {SKIPPED}; exec \"$@\"")
NOT_THERE = (errno.ENODATA, errno.ENOSYS)       # by which a test says that the provider lacks something
LISTEN_S = 3


class Fabtests:
    def __init__(self, args):
        self.args = args
        self.folder = os.path.join(os.path.abspath(args.build), "fabtests")

    def missing(self):
        return not os.access(os.path.join(self.folder, "bin", "fi_rdm"), os.X_OK)

    def excluded(self, provider):
        path = os.path.join(self.folder, "test_configs", *[PROVIDERS[provider]] * 2) + ".exclude"
        with open(path, encoding="utf-8") as f:
            return [line.strip() for line in f if line.strip() and not line.startswith("#")]

    def tests(self, provider, kind):
        with open(os.path.join(self.folder, "runfabtests.sh"), encoding="utf-8") as f:
            block = re.search(rf"^{kind}_tests=\($(.*?)^\)$", f.read(), re.M | re.S)
        patterns = self.excluded(provider)
        return [t for t in re.findall(r'"(.*)"', block[1]) if not any(re.search(p, t) for p in patterns)]

    def batches(self):
        for provider in self.args.providers:
            for kind in self.args.sets:
                tests = [f"{provider}: {t}" for t in self.tests(provider, kind)]
                tests = [t for t in tests if re.search(self.args.only, t)]
                if tests:
                    yield kind, Batch(f"{provider} {kind}", tests)

    def argv(self, test):
        provider, _, line = test.partition(": ")
        program, *rest = line.replace("SERVER_ADDR", A).replace("GOOD_ADDR", A).split()
        return [os.path.join(self.folder, "bin", program), *rest, "-p", provider]

    def run(self, kind, test, way):
        """(ending, why)"""
        shift = Shift() if way == "shift" else None
        with Lab(self.args.build) as lab:
            try:
                ends = self.alone(lab, test, shift) if kind == "unit" else self.both(lab, test, shift)
            except Stuck:
                ends = lab.programs
            result = self.ending(ends)
            if self.args.verbose:
                print(f"---- {way} {test}", *(p.tail(60) for p in lab.programs), sep="\n", flush=True)
            complaints = lab.complaints()
        return ("failed", complaints) if complaints else result

    def alone(self, lab, test, shift):
        program = lab.start("h0", self.argv(test), shift=shift)
        program.wait(self.args.seconds)
        return [program]

    def both(self, lab, test, shift):
        server = lab.start("h0", [*self.argv(test), "-s", A], shift=shift)
        try:
            wait_for("listening of the server", lambda: lab.listeners(server) or not server.running(), LISTEN_S)
        except Stuck:
            pass        # there are tests whose server does not listen
        client = lab.start("h1", [*self.argv(test), "-s", B, A], shift=shift)
        client.wait(self.args.seconds)
        server.wait(5 if client.process.returncode else self.args.seconds)
        return [client, server]

    @staticmethod
    def ending(programs):
        found = [p.process.returncode for p in programs]        # the client's first
        if all(status in NOT_THERE for status in found):
            return "skipped", os.strerror(found[0])
        bad = next((p for p in programs if p.process.returncode is None or p.process.returncode), None)
        if bad is None:
            return "passed", ""
        return "failed", f"{how_it_died(bad.process.returncode)}: {bad.tail(2)}".replace("\n", " ")


def explanations():
    """[(expression, why)] of the lines EXPRESSION => WHY."""
    with open(EXPLAINED, encoding="utf-8") as f:
        lines = [line.strip() for line in f if line.strip() and not line.startswith("#")]
    return [(re.compile(name), why) for name, _, why in (line.partition(" => ") for line in lines)]


def report(batches, ways):
    """Prints sums, and what is not explained. Returns whether all is well."""
    known, well = explanations(), True
    for b in batches:
        for way in ways:
            for test, (ending, why) in b.results[way].items():
                if ending != "failed":
                    continue
                reason = next((text for name, text in known if name.search(test)), None)
                well &= reason is not None
                print(f"{'explained' if reason else 'UNEXPLAINED'} {way} {test}: {reason or why}")
        for test in b.worse() if len(ways) == len(WAYS) else ():
            well = False
            print(f"WORSE {test}: {b.results['shift'][test]}")
    for provider in PROVIDERS:
        of = [b for b in batches if b.name.split(" ")[0] == provider]
        if of:
            print(f"{provider}: " + "; ".join(
                f"{way} " + ", ".join(f"{sum(b.count(way, e) for b in of)} {e}" for e in ENDINGS) for way in ways))
    return well


def in_network():
    """Begins anew in a network namespace of its own."""
    if os.environ.get("FABTESTS_NETWORK"):
        return
    os.environ["FABTESTS_NETWORK"] = "1"
    os.execvp("unshare", ["unshare", "--net", "sh", "-c", NETWORK, "sh", sys.executable, *sys.argv])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build")
    p.add_argument("--providers", type=lambda s: s.split(","), default=list(PROVIDERS))
    p.add_argument("--sets", type=lambda s: s.split(","), default=list(SETS))
    p.add_argument("--only", default="", help="tests whose PROVIDER: COMMAND matches this expression")
    p.add_argument("--ways", type=lambda s: s.split(","), default=list(WAYS))
    p.add_argument("--seconds", type=float, default=180, help="for one test")
    p.add_argument("--verbose", action="store_true", help="what the tests print")
    args = p.parse_args()
    fabtests = Fabtests(args)
    if fabtests.missing():
        print(f"skipped: nothing in {shlex.quote(fabtests.folder)}; scripts/build-fabtests.sh builds it")
        return SKIPPED
    in_network()
    begun, batches = time.monotonic(), []
    for kind, batch in fabtests.batches():
        batches.append(batch)
        for test in batch.tests:
            for way in args.ways:
                batch.results[way][test] = fabtests.run(kind, test, way)
            print(f"{test:60} " + ", ".join(f"{way} {batch.results[way][test][0]}" for way in args.ways), flush=True)
    if not batches:
        print("no test matches")
        return 1
    print(f"{sum(len(b.tests) for b in batches)} tests, {time.monotonic() - begun:.0f} s")
    return 0 if report(batches, args.ways) else 1


if __name__ == "__main__":
    sys.exit(main())
