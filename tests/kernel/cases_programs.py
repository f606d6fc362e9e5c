# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Programs of Debian's packages beside those that the lane runs each time (traffic.py): stock, under SHIFT, and through
a link that goes down and comes back. By name alone: programs.*; what is not installed is skipped.
"""
import os
import re
import typing

from shiftlab.guest.cases import case
from rig import GID, START_S, address, check, device, run, settle
from shiftlab.lab import free_port, wait_for
from traffic import CALM, DIED

LEAST = 50_000          # bytes that show that traffic goes on
LONG_S = 600            # programs that are ended as soon as they have shown what they should
HERE = os.path.dirname(os.path.abspath(__file__))
FIO = "fio --output-format=terse --name=job --ioengine=rdma --port={port} --bs=16k"
QPERF = "qperf {A} -lp {port} -cm 1 -m 1024"


class Pair(typing.NamedTuple):
    """
    A server and its client. In both command lines {A} and {B} are the addresses of the ends, {a} and {b} their devices,
    {port} is one that is free.
    """
    server: str
    client: str
    said: str               # by the client, in the end: a pattern; its status is 0
    forever: bool = False   # the server waits for the next client
    cm: bool = True         # they connect by rdma_cm


def fio(verb, how):
    return Pair(FIO + " --rw=read --iodepth=16 " + how,
                FIO + f" --rw=write --iodepth=8 --hostname={{A}} --bindname={{B}} --verb={verb} " + how, r"^3;fio-")


def qperf(tests, how="-t 1"):
    return Pair("qperf -lp {port}", f"{QPERF} {how} {tests}", "=", forever=True)


def rsocket(how):
    return Pair(f"python3 {HERE}/rsocket_talk.py --server {{A}} {{port}}",
                f"python3 {HERE}/rsocket_talk.py --client {{A}} {{port}} {how}", "WRONG 0")


PAIRS = {
    "fio_write": fio("write", "--size=4m"),
    "fio_read": fio("read", "--size=4m"),
    "qperf_two_sided": qperf("rc_bw rc_bi_bw rc_lat"),
    "qperf_one_sided": qperf("rc_rdma_read_bw rc_rdma_read_lat rc_rdma_write_bw rc_rdma_write_lat "
                             "rc_rdma_write_poll_lat"),
    "qperf_atomics": qperf("rc_compare_swap_mr rc_fetch_add_mr ver_rc_compare_swap ver_rc_fetch_add"),
    "rdma_xserver": Pair("rdma_xserver -p {port} -c r", "rdma_xclient -s {A} -p {port} -c r", "end 0"),
    "rsocket": rsocket("64"),
    "rping_persistent": Pair("rping -s -P -v -a {A} -p {port}", "rping -c -v -V -C 50 -a {A} -p {port} -I {B}",
                             "ping data:", forever=True),
    "rping_own_qp": Pair("rping -s -q -a {A} -p {port} -C 50", "rping -c -q -v -V -C 50 -a {A} -p {port} -I {B}",
                         "ping data:"),
    "uc_pingpong": Pair(f"ibv_uc_pingpong -g {GID} -e -n 100 -s 1024 -p {{port}} -d {{a}}",
                        f"ibv_uc_pingpong -g {GID} -e -n 100 -s 1024 -p {{port}} -d {{b}} 127.0.0.1", "100 iters",
                        cm=False),
}

# Programs that run until they are ended; fio as a thread, as else its child would run on.
LIVES = {
    "fio_write": fio("write", f"--thread --size=4m --time_based --runtime={LONG_S}"),
    "fio_read": fio("read", f"--thread --size=4m --time_based --runtime={LONG_S}"),
    "qperf_two_sided": qperf("rc_bw", f"-t {LONG_S}"),
    "qperf_lat": qperf("rc_lat", f"-t {LONG_S}"),
    "qperf_one_sided": qperf("rc_rdma_write_bw", f"-t {LONG_S}"),
    "qperf_read": qperf("rc_rdma_read_bw", f"-t {LONG_S}"),
    "rsocket": rsocket("0"),
    "rping_persistent": Pair("rping -s -P -S 4096 -a {A} -p {port}", "rping -c -v -V -S 4096 -a {A} -p {port} -I {B}", ""),
    "rping_own_qp": Pair("rping -s -q -S 4096 -a {A} -p {port}", "rping -c -q -v -V -S 4096 -a {A} -p {port} -I {B}", ""),
    "rstream": Pair("rstream -b {A} -p {port} -S 4096 -C 100000 -I 50 -T v",
                    "rstream -s {A} -p {port} -S 4096 -C 100000 -I 50 -T v", ""),
    "riostream": Pair("riostream -b {A} -p {port} -S 4096 -C 100000 -I 50 -T v",
                      "riostream -s {A} -p {port} -S 4096 -C 100000 -I 50 -T v", ""),
}


def fill(text, port):
    return [word.format(A=address("a"), B=address("b"), a=device("a"), b=device("b"), port=port)
            for word in text.split()]


def listens_at(port):
    """Whoever listens there: a program may do so by a child, or by a thread of its own."""
    for name in ("tcp", "tcp6"):
        with open(f"/proc/net/{name}", encoding="ascii") as f:
            if any(row.split()[1].endswith(f":{port:04X}") and row.split()[3] == "0A" for row in f.readlines()[1:]):
                return True
    return re.search(rf"state LISTEN .*:{port} ", run("rdma", "resource", "show", "cm_id") + " ")


def begin(rig, pair, shift, retry=False):
    port = free_port()
    rig.rails.cm |= pair.cm
    argv = [fill(text, port) for text in (pair.server, pair.client)]
    server = rig.start("a", argv[0], "server", shift=shift, retry=retry)
    wait_for("listening of the server", lambda: listens_at(port) or not server.running(), START_S, 0.3)
    check(server.running(), f"the server ended with {server.process.returncode} before its client came: "
                            + server.tail(4))
    return server, rig.start("b", argv[1], "client", shift=shift, retry=retry)


def once(rig, name, shift=None):
    pair = PAIRS[name]
    server, client = begin(rig, pair, shift)
    rig.ends_well(client)
    if pair.forever:
        check(server.running(), f"the server ended with {server.process.returncode}: {server.tail(4)}")
    else:
        rig.ends_well(server)
    told = (client.out() + client.err()).strip()
    check(re.search(pair.said, told, re.M), f"the client did not say {pair.said}: {told[-300:]}")
    return " ".join(told.splitlines()[-1].split())[:120]


# ---- a link goes down, and comes back ----------------------------------------------------------------

def there_and_back(rig, ends, begins, is_over, all_move):
    begins(rig.rails)
    if all_move:
        rig.await_path(1, ends)
    rig.await_traffic(1, ends, LEAST)
    is_over(rig.rails)
    rig.await_path(0, ends)
    rig.await_traffic(0, ends, LEAST)


def through(rig, ends):
    """
    A link that goes down at the server's end; then all that the client sends is lost: nobody is told, and what has
    nothing to send stays (perftest's own connection with -R). To the backup, and back.
    """
    rig.await_traffic(0, ends, LEAST)
    there_and_back(rig, ends, lambda r: r.down("a"), lambda r: r.up("a"), True)
    there_and_back(rig, ends, lambda r: r.lose("b"), lambda r: r.pass_all("b"), False)


def lives(rig, name):
    ends = begin(rig, LIVES[name], rig.shift(), True)
    rig.await_protected(2, ends)
    through(rig, ends)
    for p in ends:
        said = DIED.search(p.out() + p.err())
        check(not said, f"{p.name} says: {said}")
    return f"{len(rig.connections())} ends, each there and back twice"


# ---- perftest, options that the lane does not use ------------------------------------------------------

# Name, tool, over rdma_cm.
PERFTESTS = {
    "q8_both_ways": ("ib_write_bw -q 8 -b -s 2048", False),
    "cm_tos": ("ib_write_bw -q 2 -T 96 -s 2048", True),
    "cm_send_events": ("ib_send_bw -e -q 2 -s 2048", True),
    "cm_read": ("ib_read_bw -q 2 -s 2048", True),
    "cm_atomic": ("ib_atomic_bw -A CMP_AND_SWAP", True),
    "srq": ("ib_send_bw --use-srq -q 4 -r 64 -s 2048", False),
    "few_receives": ("ib_send_bw -r 8 -t 8 -s 2048", False),
    "inline": ("ib_write_bw -I 64 -s 64", False),
    "inline_send": ("ib_send_bw -I 64 -s 64 -q 2", False),
    "post_list": ("ib_write_bw -l 10 -t 40 -Q 10 -s 2048", False),
    "post_lists": ("ib_send_bw -l 10 -t 40 -Q 10 --recv_post_list 10 -r 100 -s 2048", False),
    "compare_and_swap": ("ib_atomic_bw -A CMP_AND_SWAP -q 2", False),
    "atomic_lat": ("ib_atomic_lat", False),
    "outstanding": ("ib_read_bw -o 1 -q 2 -s 2048", False),
    "mr_per_qp": ("ib_write_bw --mr_per_qp -q 3 -s 2048", False),
    "old_post_send": ("ib_write_bw --use_old_post_send -q 2 -s 2048", False),
    "reversed": ("ib_send_bw --reversed -s 2048", False),
    "uc_write": ("ib_write_bw -c UC -s 2048", False),
    "uc_send": ("ib_send_bw -c UC -s 2048", False),
    "lat_inline": ("ib_write_lat -I 32 -s 32", False),
    "cq_moderation": ("ib_write_bw -Q 1 -s 2048", False),
}
DURING = {name: PERFTESTS[name] for name in (
    "q8_both_ways", "cm_tos", "cm_read", "few_receives", "inline", "inline_send", "post_list",
    "post_lists", "outstanding", "mr_per_qp", "old_post_send", "reversed", "cq_moderation")}


def connections(tool):
    found = re.search(r" -q (\d+)", tool)
    return int(found[1]) if found else 1


def perftest_once(rig, name, shift=None):
    tool, cm = PERFTESTS[name]
    ends = rig.perftest(f"{tool} -n 100", cm=cm, shift=shift, extra=("-u", CALM))
    rig.ends_well(*ends)
    rows = [r for r in ends[1].out().splitlines() if re.match(r"\s*\d+\s+\d+\s+([\d.]+|inf)\s", r)]
    check(rows, f"no result of the client: {ends[1].tail(5)}")
    return " ".join(rows[-1].split())


def perftest_lives(rig, name):
    tool, cm = DURING[name]
    ends = rig.perftest(f"{tool} -D {LONG_S}", cm=cm, shift=rig.shift(), retry=True)
    rig.await_protected(2 * connections(tool), ends)
    through(rig, ends)
    return f"{2 * connections(tool)} ends, each there and back twice"


# ---- link del ----------------------------------------------------------------------------------------

def link_del_of_a_backup(rig):
    """No program has opened it but SHIFT: the operator's command does not wait, and it may come back."""
    rig.rails.touched = True        # the devices are made anew behind it
    ends = begin(rig, LIVES["rping_persistent"], rig.shift(), True)
    rig.await_protected(2, ends)
    gone = rig.start("b", ["rdma", "link", "del", device("b", 1)], "del")
    gone.wait(30)
    rig.await_traffic(0, ends, LEAST)
    run("rdma", "link", "add", device("b", 1), "type", "rxe", "netdev", "b1")
    rig.await_protected(2, ends)
    rig.rails.down("a")
    rig.await_path(1, ends)
    rig.await_traffic(1, ends, LEAST)
    return "gone at once; back, and a backup again"


def link_del_of_the_default(rig):
    """The program has opened it, so the command waits for it; the program goes on."""
    rig.rails.touched = True        # the devices are made anew behind it
    ends = begin(rig, LIVES["rping_persistent"], rig.shift(), True)
    rig.await_protected(2, ends)
    gone = rig.start("b", ["rdma", "link", "del", device("b")], "del")
    settle(5)
    rig.until("traffic", lambda: rig.carried(0) + rig.carried(1), ends)
    before = rig.carried(0) + rig.carried(1)
    rig.until("more traffic", lambda: rig.carried(0) + rig.carried(1) - before > LEAST, ends)
    waits = gone.running()
    for p in ends:
        p.end()
    gone.wait(30)
    return "the command waited for the program" if waits else "the command did not wait"


# ---- the table ---------------------------------------------------------------------------------------

def add(way, name, function, needs, engine=False):
    @case(f"programs.{way}_{name}", needs=needs, engine=engine, by_name=True)
    def one(rig):
        return function(rig)
    one.__doc__ = TEXTS[way].format(name)


TEXTS = {
    "stock": "{}, without a fault.",
    "shift": "{}, under SHIFT, without a fault.",
    "lives": "{} outlives a link that goes down, and 100 % loss, and returns.",
    "removed": "rdma link del of a {} NIC while a program runs.",
}


def programs_of(pair):
    return tuple({text.split()[0] for text in (pair.server, pair.client)})


def add_both(name, needs, function):
    add("stock", name, lambda rig: function(rig, None), needs)
    add("shift", name, lambda rig: function(rig, rig.shift()), needs)


add("removed", "backup", link_del_of_a_backup, ("rping",), engine=True)
add("removed", "default", link_del_of_the_default, ("rping",), engine=True)
for key, row in PAIRS.items():
    add_both(key, programs_of(row), lambda rig, shift, key=key: once(rig, key, shift))
for key, row in LIVES.items():
    add("lives", key, lambda rig, key=key: lives(rig, key), programs_of(row), engine=True)
for key, (line, _) in PERFTESTS.items():
    add_both("perftest_" + key, (line.split()[0],), lambda rig, shift, key=key: perftest_once(rig, key, shift))
for key, (line, _) in DURING.items():
    add("lives", "perftest_" + key, lambda rig, key=key: perftest_lives(rig, key), (line.split()[0],), engine=True)
