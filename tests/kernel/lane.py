#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Real programs on a real kernel's RDMA stack: soft-RoCE of Debian's own kernel, in a guest that QEMU emulates.

  lane.py --build DIR                       all cases, in two guests if none brings its guest down
  lane.py --build DIR --case 'stock.*'      those that the pattern names; may be repeated
  lane.py --build DIR --list                their names, and what each shows
  lane.py --build DIR --shell               a shell in a guest with the rails up

Each case is passed, failed or skipped, with the reason. Logs of those that failed are in OUT/kernel/NAME, what the
kernels said in OUT/kernel/console-N. The closing line is "N passed, N failed, N skipped"; the exit status is 1 if a
case failed. tests/kernel/README.md has more.
"""
import argparse
import concurrent.futures
import fnmatch
import os
import queue
import random
import resource
import shutil
import subprocess
import sys
import threading
import time

import cases
from guestboot import ROOT, Guest, Image, Missing
from shiftlab.lab import out_folder

LIMIT_S = 60
BOOT_S = 150        # until the first word; idle it is less than ten seconds
BEYOND_LIMIT_S = 30  # a guest that does not even say that a case took too long
FATES = ("passed", "failed", "skipped")


class Lane:
    """All boots and their results."""

    def __init__(self, args, image):
        self.args, self.image = args, image
        self.out = os.path.join(os.path.abspath(args.out), "kernel")
        self.results = {}
        self.boots = 0
        self.lock = threading.Lock()    # of boots, and of lines that belong together
        self.deadline = time.monotonic() + 60 * args.minutes

    def order(self, names, shell=False):
        debs = os.path.abspath(self.args.debs)
        return {"cases": names, "build": out_folder(self.args.build), "shell": shell, "rails": self.args.rails,
                "debs": debs if os.path.isdir(debs) else None, "seed": self.args.seed, "limit": self.args.limit,
                "served": self.args.served}

    def boot(self, names, shell=False):
        with self.lock:
            self.boots += 1
            number = self.boots
        return Guest(self.image, self.order(names, shell), self.out, number, self.args.nice)

    def note(self, name, fate, text, seconds=None):
        self.results[name] = fate
        took = f" ({seconds:.1f} s)" if seconds is not None and fate != "skipped" else ""
        rows = text.strip().splitlines() or [""]
        self.say(f"{fate:7} {name}{took}{': ' + rows[0] if rows[0] else ''}", *("        " + row for row in rows[1:]))

    def say(self, *rows):
        with self.lock:
            print("\n".join(rows), flush=True)

    def left(self, names):
        return [name for name in names if name not in self.results]

    def run(self, names):
        """Each guest has its share of the cases: an emulated kernel keeps one CPU busy."""
        n = self.args.guests
        shares = [share for share in (names[i::n] for i in range(n)) if share]
        with concurrent.futures.ThreadPoolExecutor(len(shares)) as pool:
            list(pool.map(self.run_share, shares))

    def run_share(self, names):
        while self.left(names):
            if time.monotonic() > self.deadline:
                self.give_up(names, f"not reached within {self.args.minutes:g} minutes")
            elif not self.one_boot(self.left(names)):
                self.give_up(names, "the guest did not come up")

    def give_up(self, names, why):
        for name in self.left(names):
            self.note(name, "failed", why)

    def one_boot(self, names):
        """False: not one case was begun."""
        began = time.monotonic()
        self.say(f"booting a guest for {len(names)} case{'s' * (len(names) > 1)}")
        guest = self.boot(names)
        try:
            return Boot(self, guest, began).listen()
        finally:
            guest.end()


class Boot:
    """Listens to one guest until it has finished, or is no more."""

    def __init__(self, lane, guest, began):
        self.lane, self.guest, self.began = lane, guest, began
        self.case = None            # the one that runs
        self.any = False

    def patience(self):
        """Seconds until somebody must have said something."""
        limit = self.lane.args.limit
        own = limit + BEYOND_LIMIT_S if self.any else BOOT_S * max(1.0, limit / LIMIT_S)
        return min(own, self.lane.deadline - time.monotonic())

    def listen(self):
        while True:
            try:
                said = self.guest.next(self.patience())
            except queue.Empty:
                self.fail("the guest says nothing any more" if time.monotonic() < self.lane.deadline else
                          f"ended with the lane's {self.lane.args.minutes:g} minutes")
                return self.any
            if said is None:
                self.fail("the guest went down")
                return self.any
            if self.hear(said):
                return True

    def fail(self, what):
        if self.case:
            self.lane.note(self.case, "failed", f"{what}: {self.guest.last_words()}")
        else:
            self.lane.say(f"{what}: {self.guest.last_words()}")

    def hear(self, said):
        """True: nothing more is to come."""
        if "ready" in said:
            self.lane.say(f"{said['ready']}; up after {time.monotonic() - self.began:.0f} s")
        elif "begins" in said:
            self.case, self.any = said["begins"], True
        elif "ends" in said:
            self.lane.note(said["ends"], said["fate"], said["text"], said["seconds"])
            self.case = None
        elif "says" in said:
            self.lane.say(f"        {self.case}: {said['says']}" if self.case else "        " + said["says"])
        elif "unclean" in said:
            self.lane.say(f"        another guest for the rest: {said['unclean']}")
        return "finished" in said or "unclean" in said


def chosen(patterns):
    table = cases.load()
    if not patterns:
        return [name for name, case in table.items() if not case.by_name]
    found = [name for name, case in table.items() if any(
        fnmatch.fnmatchcase(name, p) and (not case.by_name or p.startswith(name.partition(".")[0])) for p in patterns)]
    if not found:
        sys.exit(f"lane.py: no case is named {' or '.join(patterns)}; see --list")
    return found


def close(results):
    counts = [sum(fate == f for fate in results.values()) for f in FATES]
    print(f"{counts[0]} passed, {counts[1]} failed, {counts[2]} skipped", flush=True)
    return 1 if counts[1] else 0


def parse_args():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build", help="build folder")
    p.add_argument("--out", default="out", help="where logs go, into OUT/kernel")
    p.add_argument("--case", action="append", metavar="PATTERN", help="only cases of this name; may be repeated")
    p.add_argument("--list", action="store_true", help="name the cases, and run none")
    p.add_argument("--shell", action="store_true", help="a shell in a guest; its exit ends the guest")
    p.add_argument("--limit", type=float, default=LIMIT_S, metavar="SEC",
                   help=f"for one case ({LIMIT_S}); where it is more, so is the patience with each step")
    p.add_argument("--minutes", type=float, default=20, help="for all of them; what is left then has failed (20)")
    p.add_argument("--guests", type=int, default=2, choices=range(1, 9), help="at a time (2)")
    p.add_argument("--nice", type=int, default=19, help="QEMU's niceness (19: everything else goes first)")
    p.add_argument("--rails", type=int, default=2, choices=range(2, 5), help="in a guest (2)")
    p.add_argument("--debs", default="out/packages", metavar="FOLDER", help="SHIFT's Debian packages (out/packages)")
    p.add_argument("--seed", type=int, help="of all that is random; without it a fresh one",
                   default=random.SystemRandom().randrange(1, 1 << 31))
    p.add_argument("--served", action="store_true",
                   help="take it that SHIFT's engine serves rxe, whatever shiftctl doctor says")
    p.add_argument("--no-fetch", action="store_true", help="install and fetch nothing")
    return p.parse_args()


def make_image(args):
    """Kernel and initramfs; raises Missing."""
    folder = os.path.join(os.path.abspath(args.build), "kernel")
    if not args.no_fetch:
        subprocess.run([os.path.join(ROOT, "scripts", "install-kernel-lane.sh"), args.build], check=False)
    image = Image(folder)
    print(f"the kernel of {image.make()}; seed {args.seed}", flush=True)
    return image


def children_s():
    """Seconds of CPU of the guests that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main():
    args = parse_args()
    if args.list:
        for case in cases.load().values():
            print(f"{case.name:40} {case.text}")
        return 0
    names = chosen(args.case)
    began = time.monotonic()
    try:
        image = make_image(args)
    except Missing as e:
        results = {name: "skipped" for name in names}
        print(f"skipped: all {len(names)} cases: {e}")
        return close(results)
    lane = Lane(args, image)
    shutil.rmtree(lane.out, ignore_errors=True)
    if args.shell:
        guest = lane.boot([], shell=True)
        return guest.process.wait()
    before = children_s()
    lane.run(names)
    print(f"{time.monotonic() - began:.0f} s, of CPU {children_s() - before:.0f} s in {lane.boots} "
          f"boot{'s' * (lane.boots != 1)}")
    return close(lane.results)


if __name__ == "__main__":
    sys.exit(main())
