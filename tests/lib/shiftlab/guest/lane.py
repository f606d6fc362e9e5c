# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Boots guests, has cases run in them, and says what came of each case: the runner of a lane.

Each case is passed, failed or skipped, with the reason. Logs of those that failed are in OUT/LANE/NAME, what the
kernels said in OUT/LANE/console-N. If a case brings its guest down, that case is named, and the rest go on in
another boot.
"""
import concurrent.futures
import os
import queue
import random
import resource
import sys
import threading
import time

from shiftlab.guest import cases

LIMIT_S = 60
BOOT_S = 150        # until the first word; idle it is less than ten seconds
BEYOND_LIMIT_S = 30  # a guest that does not even say that a case took too long
FATES = ("passed", "failed", "skipped")


class Lane:
    """All boots and their results. NAME: of the lane's folder below args.out. A lane of its own makes guests."""

    NAME = None

    def __init__(self, args, image):
        self.args, self.image = args, image
        self.out = os.path.join(os.path.abspath(args.out), self.NAME)
        self.results = {}
        self.boots = 0
        self.lock = threading.Lock()    # of boots, and of lines that belong together
        self.began = time.monotonic()
        self.deadline = self.began + 60 * args.minutes

    def guest(self, names, number, shell):
        """A Guest that runs these cases."""
        raise NotImplementedError

    def ask(self, guest, what):
        """What a guest asks of the host: what is returned is the answer."""
        raise NotImplementedError

    def boot(self, names, shell=False):
        with self.lock:
            self.boots += 1
            number = self.boots
        return self.guest(names, number, shell)

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
        self.run_shares([share for share in (names[i::n] for i in range(n)) if share])

    def run_shares(self, shares):
        """Shares of the cases, as many guests at a time as are wanted."""
        with concurrent.futures.ThreadPoolExecutor(self.args.guests) as pool:
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
        elif "ask" in said:
            self.guest.answer(answer=self.lane.ask(self.guest, said["ask"]))
        elif "unclean" in said:
            self.lane.say(f"        another guest for the rest: {said['unclean']}")
        return "finished" in said or "unclean" in said


def chosen(patterns):
    names = cases.chosen(patterns)
    if not names:
        sys.exit(f"lane.py: no case is named {' or '.join(patterns)}; see --list")
    return names


def close(results):
    counts = [sum(fate == f for fate in results.values()) for f in FATES]
    print(f"{counts[0]} passed, {counts[1]} failed, {counts[2]} skipped", flush=True)
    return 1 if counts[1] else 0


def children_s():
    """Seconds of CPU of the guests that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def add_options(p, name, guests=2, minutes=10.0):
    """The options that each lane has."""
    p.add_argument("--build", default="build", help="build folder")
    p.add_argument("--out", default="out", help=f"where logs go, into OUT/{name}")
    p.add_argument("--case", action="append", metavar="PATTERN", help="only cases of this name; may be repeated")
    p.add_argument("--list", action="store_true", help="name the cases, and run none")
    p.add_argument("--shell", action="store_true", help="a shell in a guest; its exit ends the guest")
    p.add_argument("--limit", type=float, default=LIMIT_S, metavar="SEC",
                   help=f"for one case ({LIMIT_S}); where it is more, so is the patience with each step")
    p.add_argument("--minutes", type=float, default=minutes,
                   help=f"for all of them; what is left then has failed ({minutes:g})")
    p.add_argument("--guests", type=int, default=guests, choices=range(1, 9), help=f"at a time ({guests})")
    p.add_argument("--nice", type=int, default=19, help="QEMU's niceness (19: everything else goes first)")
    p.add_argument("--cpus", type=int, default=2, choices=range(1, 9), help="of a guest (2)")
    p.add_argument("--seed", type=int, help="of all that is random; without it a fresh one",
                   default=random.SystemRandom().randrange(1, 1 << 31))
    p.add_argument("--no-fetch", action="store_true", help="install and fetch nothing")


def list_cases():
    for case in cases.CASES.values():
        print(f"{case.name:40} {case.text}")


def skip_all(names, why):
    """Closes a lane that cannot run."""
    print(f"skipped: all {len(names)} cases: {why}")
    return close({name: "skipped" for name in names})


def run(lane, names, behind=None):
    """All of a lane's cases, what comes behind them, and the closing lines; the exit status."""
    before = children_s()
    lane.run(names)
    if behind:
        behind()
    print(f"{time.monotonic() - lane.began:.0f} s, of CPU {children_s() - before:.0f} s in {lane.boots} "
          f"boot{'s' * (lane.boots != 1)}")
    return close(lane.results)
