# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Without SHIFT: what works on this kernel, and how a program dies of each fault."""
import os
import re

from shiftlab.guest.cases import case
from rig import address, check, device, run, settle
from shiftlab.lab import wait_for
from traffic import DIED, runs

DIES_S = 30     # rxe says so within a second; a guest may be slow


@case("stock.kernel")
def kernel(rig):
    """It is Debian's own kernel, and its RDMA devices are soft-RoCE, all ports active."""
    with open("/proc/version", encoding="ascii") as f:
        version = re.search(r"Debian [\w.+~-]+ \(\d{4}-[\d-]+\)", f.read())
    check(version, "this kernel is not Debian's")
    wanted = {device(end, rail) for end, rail in rig.rails.all()}
    check(rig.rails.active() == wanted, f"active are {sorted(rig.rails.active())}, not {sorted(wanted)}")
    for name in wanted:
        parent = os.path.join("/sys/class/infiniband", name, "parent")
        check(os.path.exists(parent), f"{name} is no rxe device: no {parent}")
    info = run("ibv_devinfo", "-d", device("a"))
    mtu = re.search(r"active_mtu:\s*(\d+)", info)
    return f"{os.uname().release}, {version[0]}; {', '.join(sorted(wanted))}, MTU {mtu[1] if mtu else '?'}"


def add_run(name, needs, function):
    @case("stock." + name, needs=needs)
    def one(rig):
        return function(rig)
    one.__doc__ = f"{name}, without a fault."


for row in runs():
    add_run(*row)


def dies(rig, begin, tool="ib_write_bw -s 4096 -t 4 -D 60", cm=False, shift=None):
    """
    Traffic, the fault, and the client's end with an error that tells of the connection. Few packets are under
    way: with a full ring of them, rxe may fall silent on a link that went down, and its program hangs.
    """
    server, client = rig.perftest(tool, cm=cm, shift=shift, retry=True)
    rig.await_traffic(0, (server, client))
    settle(0.5)
    begin(rig.rails)
    status = client.wait(DIES_S)
    said = client.out() + client.err()
    check(status != 0, "the client ended well, though its packets were lost")
    died = DIED.search(said)
    check(died, f"the client ended with {status}, and names no error of a connection: {client.tail(5)}")
    return f"the client ended with {status}: {died[0]}"


FAULTS = {
    "own_link_down": lambda rails: rails.down("b"),
    "peer_link_down": lambda rails: rails.down("a"),
    "requests_lost": lambda rails: rails.lose_requests("b"),
    "answers_lost": lambda rails: rails.lose_answers("a"),
    "all_lost": lambda rails: rails.lose("b"),
}
FAULT_TEXTS = {
    "own_link_down": "ip link set down at its own end",
    "peer_link_down": "ip link set down at the other end",
    "requests_lost": "100 % loss of its requests",
    "answers_lost": "100 % loss of the acknowledgements",
    "all_lost": "100 % loss of all that it sends",
}


def add_death(name, begin):
    @case("stock.dies_" + name, needs=("ib_write_bw", "tc"))
    def one(rig):
        return dies(rig, begin)
    one.__doc__ = f"A stock ib_write_bw dies of {FAULT_TEXTS[name]}."


for row in FAULTS.items():
    add_death(*row)


@case("stock.cm_dies_peer_link_down", needs=("ib_write_bw",))
def cm_dies(rig):
    """A stock ib_write_bw -R dies of ip link set down at the other end."""
    return dies(rig, FAULTS["peer_link_down"], cm=True)


@case("stock.rping_dies_peer_link_down", needs=("rping",))
def rping_dies(rig):
    """A stock rping dies of ip link set down at the other end: whichever end had something under way says so."""
    common = ["rping", "-a", address("a"), "-S", 4096]
    ends = rig.pair([*common, "-s"], [*common, "-c", "-I", address("b")], cm=True, retry=True)
    rig.await_traffic(0, ends)
    rig.rails.down("a")

    def died():
        return next((p for p in ends if DIED.search(p.err()) or "completion failed" in p.err() or
                     p.process.poll() not in (None, 0)), None)

    wait_for("end of rping", died, DIES_S)
    p = died()
    return f"the {p.name}: {(p.err().strip() or str(p.process.returncode)).splitlines()[0]}"


@case("stock.outlives_loss_of_2_percent", needs=("ib_write_bw", "tc"))
def lossy(rig):
    """A stock ib_write_bw outlives a loss of 2 %, which rxe repairs by sending again."""
    rig.rails.lose("b", percent=2)
    ends = rig.perftest("ib_write_bw -n 200 -s 16384", retry=True)
    rig.ends_well(*ends)
    return "200 messages"
