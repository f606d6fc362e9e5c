# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Under SHIFT, with NICs of two vendors at each end: connections move from one to the other, and back."""
import random

from shiftlab.guest.cases import case
from cases_protected import finish
from cross import DATA_FAULTS, FAULTS, GIDS, Cross
from traffic import Verify

PATTERNS = "abce"       # no atomics: one of unknown fate ends its connection, as promised
QPS = len(PATTERNS)
MOVES = (5, 4)          # so many cases, of so many each of each connection: 20
IN_LANE = 3             # of those; the others by name, cross.*_first_*
LEAST = 1000            # bytes of 20 messages


def on_path(rig, cross, v, path):
    """All traffic is there, and goes on: by SHIFT's account, and by that of the NICs."""
    rig.await_path(path, v.ends)
    before = cross.carried(path)
    v.moves_on()
    rig.until(f"bytes on path {path}", lambda: cross.carried(path) - before >= LEAST, v.ends)


def protected(rig, first, seed):
    """The NICs of both ends, and both ends of verify, protected."""
    cross = Cross(rig, first)
    v = Verify(rig, rig.shift(), seed, QPS, PATTERNS, nic=cross.nic, gid=GIDS[first])
    rig.await_protected(2 * QPS, v.ends)
    cross.check_engines()
    on_path(rig, cross, v, 0)
    return cross, v


def there_and_back(rig, first, seed):
    draw = random.Random(seed)
    cross, v = protected(rig, first, seed)
    done = []
    for _ in range(MOVES[1] // 2):
        done.append(cross.begin(draw, FAULTS))
        on_path(rig, cross, v, 1)
        cross.heal()
        on_path(rig, cross, v, 0)
    rig.tell(", ".join(done))
    return finish(rig, v, least_moves=2 * QPS * MOVES[1])


def data_lost(rig, first):
    """Connections that lose data go to the backup, return since heartbeats pass, lose data again."""
    cross, v = protected(rig, first, rig.seed)
    rig.tell(cross.begin(random.Random(rig.seed), DATA_FAULTS))
    rig.until("a move and its return", lambda: any(q.get("moves", 0) >= 2 for q in rig.connections()), v.ends)
    v.moves_on()
    cross.heal()
    on_path(rig, cross, v, 0)
    return finish(rig, v, least_moves=2)


def add_moves(first, text, number):
    @case(f"cross.{first}_first_{number}", needs=("tc",), engine=True, by_name=number > IN_LANE)
    def one(rig):
        return there_and_back(rig, first, rig.seed + number)
    parts, each = MOVES
    one.__doc__ = f"verify on {text}: {each} moves of each connection, part {number} of {parts}."


def add_data_lost(first, text):
    @case(f"cross.{first}_data_lost", needs=("tc",), engine=True)
    def one(rig):
        return data_lost(rig, first)
    one.__doc__ = f"verify on {text}: data is lost while heartbeats pass."


VENDORS = {"mlx5": "software ConnectX, with soft-RoCE as backup",
           "rxe": "soft-RoCE, with a software ConnectX as backup"}

for vendor, what in VENDORS.items():
    for part in range(1, MOVES[0] + 1):
        add_moves(vendor, what, part)
for vendor, what in VENDORS.items():
    add_data_lost(vendor, what)
