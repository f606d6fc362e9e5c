# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Under SHIFT, with NICs of two vendors at each end: connections move from one to the other, and back."""
import random

from cases import case
from cases_protected import finish
from cross import GIDS, Cross
from traffic import Verify

PATTERNS = "abce"       # no atomics: one of unknown fate ends its connection, as promised
QPS = len(PATTERNS)
MOVES = 10              # of each connection in each of the two cases that make up 20
LEAST = 1000            # bytes of 20 messages


def on_path(rig, cross, v, path):
    """All traffic is there, and goes on: by SHIFT's account, and by that of the NICs."""
    rig.await_path(path, v.ends)
    before = cross.carried(path)
    v.moves_on()
    rig.until(f"bytes on path {path}", lambda: cross.carried(path) - before >= LEAST, v.ends)


def there_and_back(rig, first, seed):
    draw = random.Random(seed)
    cross = Cross(rig, first)
    v = Verify(rig, rig.shift(), seed, QPS, PATTERNS, nic=cross.nic, gid=GIDS[first])
    rig.await_protected(2 * QPS, v.ends)
    cross.check_engines()
    on_path(rig, cross, v, 0)
    done = []
    for _ in range(MOVES // 2):
        done.append(cross.begin(draw, 0))
        on_path(rig, cross, v, 1)
        cross.heal()
        on_path(rig, cross, v, 0)
    rig.tell(", ".join(done))
    return finish(rig, v, least_moves=2 * QPS * MOVES)


def add(first, text, number):
    @case(f"cross.{first}_first_{number}", needs=("tc",), engine=True)
    def one(rig):
        return there_and_back(rig, first, rig.seed + number)
    one.__doc__ = f"verify on {text}: {MOVES} moves of each connection, part {number} of 2."


for part in (1, 2):
    add("mlx5", "software ConnectX, with soft-RoCE as backup", part)
    add("rxe", "soft-RoCE, with a software ConnectX as backup", part)
