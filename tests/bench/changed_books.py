# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Books that are drawn, then changed: those that are right still must pass, each wrong one be found by what is said of it."""
import argparse
import random

from shiftlab.books import Wrong


def verdict(drawn, seed, change):
    """What the check says of them; nothing if they are right."""
    d = drawn(random.Random(seed))
    change(d)
    try:
        d.books().check()
    except Wrong as e:
        return str(e)
    return ""


def check_changes(drawn, right, wrong):
    """
    drawn: makes them of a random.Random; --seed replays. right: changes that leave them right; wrong: change: a part of
    what must be said of it.
    """
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    seed = p.parse_args().seed
    for i, change in enumerate(right):
        if verdict(drawn, seed, change):
            raise SystemExit(f"FAILED right one {i}, {change.__name__} --seed {seed}: {verdict(drawn, seed, change)}")
    for change, said in wrong.items():
        if said not in verdict(drawn, seed, change):
            raise SystemExit(f"FAILED {change.__name__} --seed {seed}: '{said}' expected, not "
                             f"'{verdict(drawn, seed, change)}'")
