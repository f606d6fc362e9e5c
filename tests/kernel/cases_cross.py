# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Under SHIFT, with NICs of two vendors at each end: connections move from one to the other, and back."""
import random

from cases import case
from cases_protected import finish
from cross import GIDS, Cross
from traffic import Verify

QPS = 3
MOVES = 20      # of each connection
LEAST = 1000    # bytes of 20 messages


def on_path(rig, cross, v, path):
    """All traffic is there, and goes on: by SHIFT's account, and by that of the NICs."""
    rig.await_path(path, v.ends)
    before = cross.carried(path)
    v.moves_on()
    rig.until(f"bytes on path {path}", lambda: cross.carried(path) - before >= LEAST, v.ends)


def there_and_back(rig, first):
    draw = random.Random(rig.seed)
    cross = Cross(rig, first)
    v = Verify(rig, rig.shift(), rig.seed, QPS, "abc", nic=cross.nic, gid=GIDS[first])
    rig.await_protected(2 * QPS, v.ends)
    cross.check_engines()
    on_path(rig, cross, v, 0)
    done = []
    for _ in range(MOVES // 2):
        done.append(cross.begin(draw, 0))
        on_path(rig, cross, v, 1)
        cross.heal(0)
        on_path(rig, cross, v, 0)
        rig.tell(done[-1])
    return finish(rig, v, least_moves=2 * QPS * MOVES)


@case("cross.mlx5_first", needs=("tc",), engine=True)
def mlx5_first(rig):
    """verify on software ConnectX with soft-RoCE as backup: 20 moves of each connection, by faults, and back."""
    return there_and_back(rig, "mlx5")


@case("cross.rxe_first", needs=("tc",), engine=True)
def rxe_first(rig):
    """verify on soft-RoCE with a software ConnectX as backup: 20 moves of each connection, by faults, and back."""
    return there_and_back(rig, "rxe")
