# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Under SHIFT, everything must run no worse than without it, with an engine for rxe or (SHIFT_ENGINE=mlx5) without."""
import json

from shiftlab.guest.cases import case
from cases_stock import FAULT_TEXTS, FAULTS, dies
from rig import GID, check, device
from traffic import Verify, cm_tool, runs


@case("shift.doctor")
def doctor(rig):
    """shiftctl doctor names every rxe device, and says whether it would be protected."""
    said = rig.doctor()
    for end, rail in rig.rails.all():
        check(f"\n{device(end, rail)} " in said, f"no line of {device(end, rail)}:\n{said}")
    check("would be protected" in said.lower(), f"no verdict:\n{said}")
    return said.strip().splitlines()[-1]


# What the nine checks of plain verbs find on rxe: what is assumed, but no LAST_WQE_REACHED.
PROBED = {"verbs-" + name: "holds" for name in (
    "flush", "acked", "post-err", "send-limit", "empty-write", "mixed", "state-word", "extended")}
PROBED["verbs-srq-last"] = "fails"


@case("shift.probe_hw")
def probe_hw(rig):
    """The nine checks of plain verbs by shiftctl probe-hw: rxe is as SHIFT takes it to be."""
    asked = [word for name in PROBED for word in ("--check", name)]
    said = rig.shiftctl("probe-hw", "-d", device("a"), "-x", GID, "--json", *asked, fine=False, errors=None)
    found = {c["name"]: c["verdict"] for c in json.loads(said)["checks"]}
    check(found == PROBED, f"found {found}: {said}")
    return "8 hold; LAST_WQE_REACHED does not come"


def without_engine(rig):
    """SHIFT as it is where no engine serves rxe."""
    return rig.shift(engine="mlx5")


@case("shift.foreign")
def foreign(rig):
    """Without an engine for rxe, verify has every byte right, and SHIFT drives none of its connections."""
    v = Verify(rig, without_engine(rig), qps=2, patterns="ab")
    v.moves_on()
    driven = [q for q in rig.connections() if q["level"] != "foreign"]
    v.stop()
    messages = v.verdict()
    check(not driven, f"queue pairs are driven: {json.dumps(driven)[:300]}")
    return f"{messages} messages, 0 wrong bytes"


def add_run(name, needs, function):
    @case("shift." + name, needs=needs)
    def one(rig):
        return function(rig, shift=rig.shift())
    one.__doc__ = f"{name}, under SHIFT, without a fault."


for row in runs():
    add_run(*row)


OFTEN = 25


@case("shift.riostream_often", needs=("riostream",), by_name=True)
def riostream_often(rig):
    """riostream, 25 times in a row: its threads poll a channel that blocks, so nothing may be kept from them. Needs --limit 900."""
    for n in range(OFTEN):
        try:
            said = cm_tool(rig, "riostream", shift=rig.shift())
        except Exception as e:
            raise type(e)(f"number {n}: {e}") from e
    return f"{OFTEN} times; {said}"


def add_death(name, begin):
    @case("shift.dies_" + name, needs=("ib_write_bw", "tc"))
    def one(rig):
        return dies(rig, begin, shift=without_engine(rig))
    one.__doc__ = f"Without an engine for rxe, ib_write_bw under SHIFT dies as on stock of {FAULT_TEXTS[name]}."


for row in FAULTS.items():
    add_death(*row)


@case("shift.cm_dies_peer_link_down", needs=("ib_write_bw",))
def cm_dies(rig):
    """Without an engine for rxe, ib_write_bw -R under SHIFT dies as on stock of ip link set down at the other end."""
    return dies(rig, FAULTS["peer_link_down"], cm=True, shift=without_engine(rig))
