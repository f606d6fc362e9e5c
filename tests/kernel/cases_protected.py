# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Under SHIFT, with an engine that serves rxe: programs outlive what kills them on stock, and nothing is lost."""
import json
import random
import re

from shiftlab.guest.cases import case
from rig import GID, address, check, device, settle
from shiftlab.lab import free_port
from shiftlab.perftest import end as end_perftest
from traffic import Verify

QPS = 5
RANDOM_FAULTS, FLAPS = (5, 6), (2, 10)     # so many cases, of so many each: 30 faults, 20 flaps


def protected(rig, patterns="abcea", qps=QPS):
    """Both ends of verify, protected. No atomics: one of unknown fate ends its connection, as promised."""
    v = Verify(rig, rig.shift(), rig.seed, qps, patterns)
    rig.await_protected(2 * qps, v.ends)
    v.moves_on()
    return v


def finish(rig, v, least_moves=1):
    """Both ends are content, no connection has died, and traffic has moved."""
    v.stop()
    messages = v.verdict()
    moves = len(rig.moves(*v.ends))
    check(moves >= least_moves, f"{moves} moves, where at least {least_moves} were due")
    check(not v.failed_qps, f"{v.failed_qps} ends of connections have died")
    return f"{moves} moves, {messages} messages, 0 wrong bytes, seed {rig.seed}"


def through(rig, begin, end):
    """One fault: to the backup, and back when it is over."""
    v = protected(rig)
    begin(rig.rails)
    rig.await_path(1, v.ends)
    v.moves_on()
    end(rig.rails)
    rig.await_path(0, v.ends)
    v.moves_on()
    return finish(rig, v)


FAULTS = {
    "own_link_down": ("ip link set down at the client's end", lambda r: r.down("b"), lambda r: r.up("b")),
    "peer_link_down": ("ip link set down at the server's end", lambda r: r.down("a"), lambda r: r.up("a")),
    "client_unheard": ("100 % loss of what the client sends", lambda r: r.lose("b"), lambda r: r.pass_all("b")),
    "server_unheard": ("100 % loss of what the server sends", lambda r: r.lose("a"), lambda r: r.pass_all("a")),
}


def add_fault(name, text, begin, end):
    @case("protected." + name, needs=("tc",), engine=True)
    def one(rig):
        return through(rig, begin, end)
    one.__doc__ = f"verify outlives {text}, and returns."


for key, row in FAULTS.items():
    add_fault(key, *row)


@case("protected.status", engine=True)
def status(rig):
    """shiftctl status --json names the engine, ledger, and calls each end protected."""
    v = protected(rig, "a", 2)
    said = json.loads(rig.shiftctl("status", "--json", errors=None))
    v.stop()
    v.verdict()
    engines = {nic["name"]: nic.get("engine") for process in said["processes"] for nic in process["nics"]}
    check(len(engines) == 4 and set(engines.values()) == {"ledger"}, f"engines are {engines}")
    return "4 ends are protected, by the engine ledger on 4 NICs"


@case("protected.wrong_key", engine=True)
def wrong_key(rig):
    """A WRITE from memory of no key ends as on stock, at once: with status 2, which rxe has for a dead link too."""
    said = []
    for shift in (None, rig.shift()):
        port = free_port()
        ends = rig.pair([rig.bin("wrong_key"), "--server", port, device("a"), GID],
                        [rig.bin("wrong_key"), "--client", port, device("b"), GID], shift=shift, stdin=True)
        rig.await_out(ends[1], "STARTED")
        if shift:
            rig.await_protected(2, ends)
        ends[1].say("wrong")
        rig.ends_well(*ends)
        said.append(re.search(r"STATUS \d+", ends[1].out())[0])
    check(said == ["STATUS 2", "STATUS 2"], f"on stock {said[0]}, under SHIFT {said[1]}")
    check(not rig.moves(*ends), "the connection was moved")
    return "STATUS 2 on both, no move"


def add_data_loss(name, text, begin):
    @case("protected." + name, needs=("tc",), engine=True)
    def one(rig):
        v = protected(rig)
        begin(rig.rails)
        rig.until("a move", lambda: any(q.get("moves") for q in rig.connections()), v.ends)
        v.moves_on()
        rig.rails.pass_all("a")
        rig.rails.pass_all("b")
        rig.await_path(0, v.ends)
        return finish(rig, v)
    one.__doc__ = f"verify outlives 100 % loss of {text}, while heartbeats pass."


add_data_loss("requests_lost", "the client's requests", lambda r: r.lose_requests("b"))
add_data_loss("answers_lost", "the server's acknowledgements", lambda r: r.lose_answers("a"))


@case("protected.loss_of_30_percent", needs=("tc",), engine=True)
def lossy(rig):
    """verify outlives a loss of 30 % both ways, on whichever rail SHIFT then prefers, and returns."""
    v = protected(rig)
    for end in ("a", "b"):
        rig.rails.lose(end, percent=30)
    v.moves_on()
    settle(3)
    v.moves_on()
    for end in ("a", "b"):
        rig.rails.pass_all(end)
    rig.await_path(0, v.ends)
    return finish(rig, v, least_moves=0)


@case("protected.both_rails", engine=True)
def both_rails(rig):
    """verify outlives the death of rail 0, and of rail 1 as soon as rail 0 is back."""
    v = protected(rig)
    rig.rails.down("b", 0)
    rig.await_path(1, v.ends)
    rig.rails.up("b", 0)
    rig.until("path 0", lambda: all(q["paths"]["up"] & 1 and q["peer_paths"]["up"] & 1 for q in rig.connections()),
              v.ends)
    rig.rails.down("a", 1)
    rig.await_path(0, v.ends)
    v.moves_on()
    rig.rails.up("a", 1)
    rig.await_protected(2 * QPS, v.ends)
    v.moves_on()
    return finish(rig, v, least_moves=2)


# What a client does to eight words of the server's, what is lost, and what is to become of the words.
EXACT = {
    "write_seen": ("write", "answers", "over", "its acknowledgements are lost: what a third party wrote there since stays"),
    "add_lost": ("add", "requests", "once", "it is lost: it never ran, and runs"),
    "swap_lost": ("swap", "requests", "once", "it is lost: it never ran, and runs"),
}
WORDS, LOOK_S = 8, 5


def tells_psns(rig):
    """The NICs of both ends have shown that the expected PSN that their kernel tells is true."""
    def all_told():
        said = json.loads(rig.shiftctl("status", "--json", fine=False, errors=None))
        told = {(nic["name"], nic["exact"]) for process in said["processes"]
                for nic in process.get("nics", ())}     # one that does not answer now has none
        check("no" not in (exact for _, exact in told), f"the trial says {told}")
        return len([name for name, exact in told if exact == "yes"]) == 4

    rig.until("what the NICs can tell", all_told, rig.programs)


def add_exact(name, what, lost, becomes, text):
    @case("protected." + name, needs=("tc",), engine=True)
    def one(rig):
        common = [rig.bin("exact"), "-p", free_port(), "-x", GID, "-w", LOOK_S, "-n", WORDS]
        server, client = ends = rig.pair([*common, "-s", "-d", device("a"), what], [*common, "-d", device("b"), what],
                                         shift=rig.shift(), retry=True, stdin=True)
        rig.await_protected(2, ends)
        tells_psns(rig)
        rig.rails.lose_answers("a") if lost == "answers" else rig.rails.lose_requests("b")
        for p in ends:
            p.say("go")
        rig.await_out(client, "DONE")
        server.say("done")
        rig.await_out(server, "ARE")
        good, wrong = map(int, re.search(r"DONE (\d+) good, (\d+) wrong", client.out()).groups())
        numbers = map(int, re.search(r"ARE (\d+) once, (\d+) over, (\d+) none", server.out()).groups())
        are = dict(zip(("once", "over", "none"), numbers))
        rig.ends_well(*ends)
        check((good, wrong) == (WORDS, 0), f"{good} of {WORDS} requests completed well, {wrong} with wrong data")
        check(are[becomes] == WORDS, f"{WORDS} words should be {becomes}: {are}")
        check(rig.moves(*ends), "nothing moved")
        return f"{WORDS} words {becomes}, by the PSN that the kernel tells"
    one.__doc__ = f"By the expected PSN of rxe: {what} behind a fault, where {text}."


for key, row in EXACT.items():
    add_exact(key, *row)


def add_flaps(number):
    @case(f"protected.flaps_{number}", engine=True)
    def one(rig):
        draw = random.Random(rig.seed + number)
        v = protected(rig)
        for _ in range(FLAPS[1]):
            end = draw.choice("ab")
            rig.rails.down(end)
            settle(draw.uniform(0, 0.4))
            rig.rails.up(end)
            settle(draw.uniform(0, 0.8))
        rig.await_path(0, v.ends)
        v.moves_on()
        return finish(rig, v)
    one.__doc__ = f"verify outlives {FLAPS[1]} flaps of rail 0, and returns, part {number} of {FLAPS[0]}."


for part in range(1, FLAPS[0] + 1):
    add_flaps(part)


KINDS = ("down", "lose", "lose", "lose_answers", "lose_requests", "lossy")


def one_fault(rig, draw):
    """Begins, lasts, ends; on rail 0 mostly, on one end."""
    end, rail, kind = draw.choice("ab"), 0 if draw.random() < 0.75 else 1, draw.choice(KINDS)
    if kind == "lossy":
        rig.rails.lose(end, rail, percent=30)
    else:
        getattr(rig.rails, kind)(end, rail)
    settle(draw.uniform(0.1, 2.0))
    if kind == "down":
        rig.rails.up(end, rail)
    else:
        rig.rails.pass_all(end, rail)
    return f"{kind} {end}{rail}"


def add_faults(number):
    @case(f"protected.verify_faults_{number}", needs=("tc",), engine=True)
    def one(rig):
        draw = random.Random(rig.seed + number)
        v = protected(rig)
        done = []
        for _ in range(RANDOM_FAULTS[1]):
            done.append(one_fault(rig, draw))
            v.moves_on(5)
            settle(draw.choice((0, 0, 0.3, 1.0)))
        rig.tell(", ".join(done))
        rig.await_path(0, v.ends)
        return finish(rig, v)
    parts, each = RANDOM_FAULTS
    one.__doc__ = f"verify outlives {each} random faults of both ends and rails, part {number} of {parts}."


for part in range(1, RANDOM_FAULTS[0] + 1):
    add_faults(part)


# ---- stock programs -----------------------------------------------------------------------------------

def bulk(rig, cm, back=True):
    ends = rig.perftest("ib_write_bw -s 16384 -D 600", cm=cm, shift=rig.shift(), retry=True)
    rig.await_protected(2, ends)
    rig.await_traffic(0, ends)
    rig.rails.down("a")
    rig.await_traffic(1, ends)
    if back:
        rig.rails.up("a")
        rig.await_path(0, ends)
        rig.await_traffic(0, ends)
    end_perftest("ib_write_bw", *ends)
    rig.ends_well(*ends)
    return f"{len(rig.moves(*ends))} moves"


@case("protected.write_bw", needs=("ib_write_bw",), engine=True)
def write_bw(rig):
    """ib_write_bw outlives ip link set down at the other end, and returns."""
    return bulk(rig, False)


@case("protected.cm_write_bw", needs=("ib_write_bw",), engine=True)
def cm_write_bw(rig):
    """ib_write_bw -R, over rdma_cm, outlives ip link set down at the other end, and returns."""
    return bulk(rig, True)


@case("protected.cm_ends_on_backup", needs=("ib_write_bw",), engine=True)
def cm_ends_on_backup(rig):
    """ib_write_bw -R disconnects while the link that rdma_cm knows is down: both ends hear of it, and end well."""
    return bulk(rig, True, back=False)


@case("protected.rping", needs=("rping",), engine=True)
def rping(rig):
    """rping outlives ip link set down at the other end, and returns."""
    common = ["rping", "-v", "-V", "-S", 4096, "-a", address("a")]
    ends = rig.pair([*common, "-s"], [*common, "-c", "-I", address("b")], cm=True, shift=rig.shift(), retry=True)
    rig.await_protected(2, ends)

    def pings():
        return len(re.findall("ping data:", ends[1].out()))

    for rail in (1, 0):
        rig.rails.down("a") if rail else rig.rails.up("a")
        rig.await_path(rail, ends)
        before = pings()
        rig.until(f"pings on rail {rail}", lambda before=before: pings() > before + 5, ends)
    return f"{pings()} pings, checked"
