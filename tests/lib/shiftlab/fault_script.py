# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Random scripts of faults for a fabric of two hosts with two NICs each; a seed names one.

alive  one of both paths is well at every moment: nobody may see an error
blink  both are dead at once, for less than a connection waits: nobody may see an error
dark   both are dead for longer: every connection may end, with errors at both of its ends

A script ends with everything well again. Atomics whose fate nobody knows end in each of them, and so may
what wrote to a NIC that died and was another device before anybody could ask whether it had reached memory.
"""
import platform
import random

HOSTS = ("h0", "h1")
LINK = ("port-down", "cable-down", "cut-message")
LOSS = ("lose-tx", "lose-rx", "lose-acks", "hold-requests", "hold-acks")
DEATH = ("nic-internal-error", "nic-hang", "nic-disassociate", "nic-reprobe")
KINDS = LINK * 3 + LOSS * 2 + DEATH + ("switch-down",) * 3 + ("pause", "drain", "quiet")
AT_ONCE = ("switch-down", "pause", "drain", "quiet")   # cannot wait for a message
STEADY_S = {"alive": (0.0, 0.05, 0.3), "death": (0.4, 0.8)}
DARK_S = (1.2, 2.0)
BLINK_S = (0.02, 0.3)


class Step:
    """Something that begins, and what ends it."""

    def __init__(self, kind, target, lasts_s, at_message=None):
        self.kind = kind
        self.target = target
        self.lasts_s = lasts_s
        self.at_message = at_message

    def __str__(self):
        when = f" at +{self.at_message}" if self.at_message else ""
        return f"{self.kind} {self.target}{when} for {1000 * self.lasts_s:.0f} ms"


class Episode:
    """Steps that begin one after the other and end in any order, and calm after them."""

    def __init__(self, steps, gaps_s, calm_s):
        self.steps = steps
        self.gaps_s = gaps_s
        self.calm_s = calm_s

    def __str__(self):
        return " + ".join(str(s) for s in self.steps)


class Script:
    def __init__(self, seed):
        self.random = random.Random(seed)
        draw = self.random.random()
        self.kind = "dark" if draw < 0.08 else "blink" if draw < 0.25 else "alive"
        self.atomics = self.random.random() < 0.3
        self.episodes = [self.episode() for _ in range(self.random.randint(1, 4))]
        if self.kind == "blink":
            self.episodes.append(self.both(self.random.uniform(*BLINK_S)))
        elif self.kind == "dark":
            self.episodes.append(self.both(self.random.uniform(*DARK_S)))

    def may_lose_writes(self):
        """Does a NIC die, and is back soon? The promises tell what may end then, and SHIFT tells of each."""
        return self.kind != "dark" and any(s.kind in DEATH for e in self.episodes for s in e.steps)

    def patterns(self):
        """Of verify. Slots in lines of 128 bytes are for processors that keep loads and stores in order."""
        slots = "gh" if platform.machine() == "x86_64" else "gg"
        return f"abcdef{slots}i" if self.atomics else f"abcea{slots}"

    def timeout(self):
        """Of the QPs: how long a connection that has no path waits."""
        return 14 if self.kind == "dark" else 20

    def __str__(self):
        return f"{self.kind}{', atomics' if self.atomics else ''}: " + \
            "; ".join(str(e) for e in self.episodes)

    # --- pieces ----------------------------------------------------------------------------

    def rail(self):
        """Mostly that of the default NICs."""
        return 0 if self.random.random() < 0.75 else 1

    def step(self, rail, kinds=KINDS):
        kind = self.random.choice(kinds)
        target = f"rail{rail}" if kind == "switch-down" else "both ends" if kind == "quiet" else \
            f"{self.random.choice(HOSTS)}/mlx5_{rail}"
        message = None
        if kind not in AT_ONCE and self.random.random() < 0.5:
            message = self.random.choice((1, 2, 3, self.random.randint(4, 400)))
        lasts = self.random.uniform(0.2, 0.5) if kind == "pause" else \
            self.random.choice((self.random.uniform(0.001, 0.05), self.random.uniform(0.05, 0.4)))
        return Step(kind, target, lasts, message)

    def episode(self):
        """One path only: what happens in it may overlap."""
        rail = self.rail()
        steps = [self.step(rail) for _ in range(self.random.choice((1, 1, 2, 3)))]
        gaps = [self.random.choice((0.0, 0.002, 0.05, 0.2)) for _ in steps]
        dead = any(s.kind in DEATH for s in steps)
        return Episode(steps, gaps, self.random.choice(STEADY_S["death" if dead else "alive"]))

    def both(self, lasts_s):
        """Both paths are dead for so long, from the second step's beginning."""
        kinds = LINK[:2] + DEATH[:1] + ("switch-down",)
        steps = [self.step(rail, kinds) for rail in self.random.sample((0, 1), 2)]
        for s in steps:
            s.at_message = None
            s.lasts_s = lasts_s
        return Episode(steps, [self.random.choice((0.0, 0.0, 0.01)), 0.0], 0.0)
