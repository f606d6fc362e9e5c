# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""How many times as long a step's communication takes while NICs are dead, in closed form: a step ends with its
busiest NIC. rail.py finds the same from flows, which tests/bench holds it to.

pair     all queue pairs of a dead NIC move to its mate (SHIFT_BACKUP=pair)
spread   they are shared out over all NICs of the host that live (SHIFT_BACKUP=spread, and auto with several NICs)"""
import math

BACKUPS = ("pair", "spread")


def mate(rail):
    return rail ^ 1


def survives(backup, dead, nics):
    """dead: rails that are gone at one of two hosts. Has each connection between them another way?"""
    if backup == "pair":
        return all(mate(rail) not in dead and mate(rail) < nics for rail in dead)
    return len(dead) < nics


def factor(backup, n_dead, p):
    """The busiest NIC's load, healthy = 1, with n_dead rails gone between two hosts that all survive()."""
    if not n_dead:
        return 1.0
    if backup == "pair":
        return 2.0
    moved = n_dead * p.qps
    return 1 + math.ceil(moved / (p.nics - n_dead)) / p.qps
