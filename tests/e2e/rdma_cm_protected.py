#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Stock programs of rdma_cm under SHIFT, on simnic's connection manager: through a fault and back, and to a peer that
ends where the path that rdma_cm knows is dead. On a real kernel's soft-RoCE the same is tests/kernel/.

  rdma_cm_protected.py --build DIR [CASE...]
"""
import os
import re
import shutil
import sys

from shiftlab.lab import Shift, cases_main, wait_for
from shiftlab.perftest import SOON, Failed, end, link, rejected, switch

A, B = "10.0.0.1", "10.0.0.2"       # mlx5_0 of h0 and of h1
PORT = 7471
FI_PORT = 47592     # of fi_pingpong itself
TALK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kernel", "rsocket_talk.py")
WRITE_BW = "ib_write_bw -F -s 16384 -D 600 -R -x 0"


def pair(lab, server, client, listens=None, trials=5):
    """Both ends; the server listens before the client begins, by rdma_cm if not otherwise."""
    shift = Shift(log="info", **SOON)
    s = lab.start("h0", server.split(), "server", shift)
    wait_for("listening of the server", lambda: (listens() if listens else lab.status()["listeners"]) or not s.running(), 30)
    c = lab.start("h1", client.split(), "client", shift)
    if client.startswith(WRITE_BW) and trials > 1:
        wait_for("the client's connection", lambda: lab.connections("h1") or not c.running(), 30)
        if not c.running() and rejected(c):
            print("       the client asked before its server listened, and is tried again")
            s.end()
            return pair(lab, server, client, listens, trials - 1)
    return s, c


def await_protected(lab, ends, each=1):
    for p in ends:
        wait_for(f"protection of {p.name}", lambda p=p: lab.protected(p) >= each or not p.running(), 30)
        if not p.running():
            raise Failed(f"{p.name} ended with {p.process.returncode}: {p.tail()}")


def await_nic(lab, ends, nic, which=all):
    """All connections of both ends are on it, or any."""
    def there():
        for p in ends:
            if not p.running():
                raise Failed(f"{p.name} ended with {p.process.returncode}: {p.tail()}")
        nics = [c["nic"] for host in ("h0", "h1") for c in lab.connections(host)]
        return nics and which(n == f"mlx5_{nic}" for n in nics)
    wait_for(f"connections on mlx5_{nic}", there, 60)


def await_more(lab, ends, count, what):
    """What a program counts goes on."""
    before = count()
    wait_for(what, lambda: count() > before or not all(p.running() for p in ends), 40)
    if not all(p.running() for p in ends):
        raise Failed(f"a program ended: {ends[0].tail()}{ends[1].tail()}")


def ends_well(*ends):
    for p in ends:
        if p.wait(60):
            raise Failed(f"{p.name} ended with {p.process.returncode}: {p.tail()}")


def there_and_back(lab, ends, fault, count, what):
    """perftest has a connection more, which is idle: of a switch that dies without a word it does not hear."""
    for begin in (True, False):
        fault(lab, begin)
        await_nic(lab, ends, 1 if begin else 0, any if begin and fault is switch else all)
        await_more(lab, ends, count, f"{what} on mlx5_{1 if begin else 0}")


def traffic(lab):
    """Bytes of connections, over all NICs."""
    return lambda: lab.carried(0) + lab.carried(1)


def bulk(lab, fault, back=True):
    ends = pair(lab, f"{WRITE_BW} -p {PORT}", f"{WRITE_BW} -p {PORT} {A}")
    await_protected(lab, ends, 2)       # the first is perftest's own, by which it says what the others need
    await_more(lab, ends, traffic(lab), "traffic")
    if back:
        there_and_back(lab, ends, fault, traffic(lab), "traffic")
    else:
        fault(lab, True)
        await_nic(lab, ends, 1)
        await_more(lab, ends, traffic(lab), "traffic")
    end("ib_write_bw", *ends)
    ends_well(*ends)


def write_bw(lab):
    bulk(lab, link)


def write_bw_switch(lab):
    bulk(lab, switch)


def ends_on_backup(lab):
    """It disconnects while the link that rdma_cm knows is down: both ends hear of it, and end well."""
    bulk(lab, link, back=False)


def removed(lab):
    """The server's NIC is taken away: its kernel says goodbye, which SHIFT keeps to itself."""
    def gone(lab, begin):
        lab.fault("nic-disassociate", "h0/mlx5_0") if begin else lab.ctl("heal", "h0/mlx5_0")
    bulk(lab, gone, back=False)


def rping(lab):
    common = f"rping -v -V -S 4096 -a {A} -p {PORT}"
    ends = pair(lab, f"{common} -s", f"{common} -c -I {B}")
    await_protected(lab, ends)
    there_and_back(lab, ends, link, lambda: len(re.findall("ping data:", ends[1].out())), "pings")


def rsocket(lab):
    """Numbered blocks over rsockets, each byte compared; the client ends by itself once the fault has come and gone."""
    ends = pair(lab, f"{sys.executable} {TALK} --server {A} {PORT}",
                f"{sys.executable} {TALK} --client {A} {PORT} 20000")
    await_protected(lab, ends)
    link(lab, True)
    await_nic(lab, ends, 1)
    link(lab, False)
    ends_well(*ends)
    for p, word in zip(ends, ("RECEIVED 20000 WRONG 0", "SENT 20000 WRONG 0")):
        if word not in p.out():
            raise Failed(f"{p.name} does not say {word}: {p.tail()}")
        ways = {(m["from"], m["to"]) for m in lab.moves(p)}
        if not {("mlx5_0", "mlx5_1"), ("mlx5_1", "mlx5_0")} <= ways:
            raise Failed(f"{p.name} has moved {ways} only")


# libfabric takes addresses of interfaces: this is a network of their own that has them, while it is read from.
INTERFACES = f"""
ip link set lo up && ip link add va type veth peer name vb && ip link set va up && ip link set vb up &&
ip addr add {A}/24 dev va && ip addr add {B}/24 dev va && echo READY && exec cat
"""


def sockets_listen(network):
    """By TCP, the ends of fi_pingpong tell each other where they are."""
    with open(f"/proc/{network.pid}/net/tcp", encoding="ascii") as f:
        return f":{FI_PORT:04X} " in f.read()


def fi_pingpong(lab):
    """libfabric's verbs provider; each message is compared, and the first wrong one ends both."""
    missing = [name for name in ("fi_pingpong", "ip", "unshare", "nsenter") if not shutil.which(name)]
    if missing:
        print("fi_pingpong: skipped, without", *missing)
        return
    network = lab.launch("network", ["unshare", "--net", "sh", "-c", INTERFACES], lab.env(), stdin=True)
    wait_for("network", lambda: "READY" in network.out() or not network.running(), 30)
    if not network.running():
        print("fi_pingpong: skipped, as no network with interfaces can be made here:", network.err().strip())
        return
    common = f"nsenter --net=/proc/{network.pid}/ns/net fi_pingpong -d mlx5_0 -p verbs -e msg -c -I 1000000 -S 16384"
    ends = pair(lab, common, f"{common} {A}", lambda: sockets_listen(network))
    await_protected(lab, ends)
    await_more(lab, ends, traffic(lab), "traffic")
    there_and_back(lab, ends, link, traffic(lab), "traffic")
    if any(not p.running() for p in ends):
        raise Failed(f"an end has ended: {ends[0].tail()}{ends[1].tail()}")


def riostream(lab):
    """Without a fault: its threads poll a channel that blocks, so nothing may be kept from them."""
    for _ in range(3):
        ends_well(*pair(lab, f"riostream -S 4096 -C 20 -I 5 -T v -p {PORT}",
                        f"riostream -S 4096 -C 20 -I 5 -T v -s {A} -p {PORT}"))
        wait_for("end of the listener", lambda: not lab.status()["listeners"])


CASES = {f.__name__: f for f in (write_bw, write_bw_switch, ends_on_backup, removed, rping, rsocket, fi_pingpong, riostream)}


if __name__ == "__main__":
    sys.exit(cases_main(CASES, lambda lab, name: CASES[name](lab)))
