# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""
Under SHIFT: programs outlive what Linux' own driver makes of a broken NIC, no byte is wrong, and traffic is back on the NIC when the
kernel has it back. On stock each of these faults ends them.
"""
from shiftlab.guest.cases import case, check
from shiftlab.guest.verify import Verify

QPS = 3
BACK_S = 120    # until the kernel has a NIC again: its driver waits for the firmware, and guests are slow
HOLD_S = 5      # of a fault that ends by a word


def verify(rig, shift):
    """Both ends on the case's NIC, whose queue pairs talk to each other. No atomics: of unknown fate, one ends its connection."""
    v = Verify(rig, shift, rig.seed, QPS, "abce", timeout=14, nic=lambda end: rig.nic.name)
    rig.await_protected(2 * QPS, v.ends)
    v.moves_on()
    return v


def finish(rig, v):
    v.stop()
    messages = v.verdict()
    moves = len(rig.moves(*v.ends))
    check(moves >= 2, f"{moves} moves, where each end had to make one")
    check(not v.failed_qps, f"{v.failed_qps} ends of connections have died")
    rig.kernel_is_content()
    return f"{moves} moves, {messages} messages, 0 wrong bytes, seed {rig.seed}"


def left(rig):
    """True when no connection is on the case's NIC."""
    found = rig.connections()
    return len(found) == 2 * QPS and all(q["nic"] != rig.nic.name for q in found)


def outlives(rig, word, over=None):
    """over: the word that ends the fault; None: the driver does."""
    v = verify(rig, rig.shift())
    rig.breaks(word)
    rig.until("move", lambda: left(rig), v.ends, 60, 0.3)
    v.moves_on()
    if over:
        rig.breaks(over)
    rig.await_path(0, v.ends, BACK_S)
    v.moves_on()
    return finish(rig, v)


@case("shift.fatal", by_name=True)
def fatal(rig):
    """A fatal error of the firmware: the driver tells it twice, resets the function and makes its device anew."""
    return outlives(rig, "fatal")


@case("shift.port")
def port(rig):
    """The port goes down, and comes up."""
    return outlives(rig, "port-down", "port-up")


@case("shift.flr", by_name=True)
def flr(rig):
    """A reset behind the driver's back."""
    return outlives(rig, "flr")


@case("shift.surprise", by_name=True)
def surprise(rig):
    """The card leaves its slot without a word, and comes back as a new device."""
    return outlives(rig, "surprise", "insert")


@case("shift.hang", by_name=True)
def hang(rig):
    """Neither commands nor data: nobody is told. Behind it the program ends at once, though its NIC hangs."""
    v = verify(rig, rig.shift(hang_ms=3000))
    rig.breaks("hang")
    rig.until("move", lambda: left(rig), v.ends, 90, 0.3)
    v.moves_on()
    said = finish(rig, v)
    rig.breaks("resume")
    return said
