#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""simnic's rdma_cm under the distribution's librdmacm: its own tools, and what a program hears, step by step, while
connections are made, refused and ended, and while NICs, cables and processes go. Nothing of SHIFT.

  rdma_cm.py --build DIR [CASE...]
"""
import errno
import os
import random
import re
import shutil
import signal
import sys
import time

from shiftlab.lab import Lab, cases_main, wait_for
from shiftlab.perftest import rejected

A, B = "10.0.0.1", "10.0.0.2"   # mlx5_0 of h0 and of h1
PORT = 7471
REJ_NO_LISTENER, REJ_CONSUMER = 8, 28
SLOW_S = 30
LOOKS_S = 1             # in which the other end has found a process to be dead
UNANSWERED_S = 5        # more than a REQ is repeated, at the times of ends()


class Failed(Exception):
    """It did not do what a kernel does."""


# ---- the tools of rdmacm-utils and perftest -------------------------------------------------------

TOOLS = {
    "rping": ("rping -s -a 0.0.0.0 -p {port} -C 20", "rping -c -a {A} -p {port} -C 20 -V"),
    "rping IPv6": ("rping -s -a :: -p {port} -C 5", "rping -c -a fd00::a00:1 -p {port} -C 5"),
    "ib_write_bw -R": ("ib_write_bw -R -p {port} -n 500 -q 4", "ib_write_bw -R -p {port} -n 500 -q 4 {A}"),
    "ib_send_lat -R": ("ib_send_lat -R -p {port} -n 200", "ib_send_lat -R -p {port} -n 200 {A}"),
    "udaddy": ("udaddy -c 4", "udaddy -c 4 -s {A}"),
    "ucmatose": ("ucmatose -c 50 -C 3", "ucmatose -c 50 -C 3 -s {A}"),
    "rdma_server": ("rdma_server -p {port}", "rdma_client -s {A} -p {port}"),
    "rdma_xserver": ("rdma_xserver -p {port}", "rdma_xclient -s {A} -p {port}"),
    "rstream": ("rstream -p {port} -S 65536 -C 50", "rstream -s {A} -p {port} -S 65536 -C 50"),
    "riostream": ("riostream -p {port} -S 4096 -C 50", "riostream -s {A} -p {port} -S 4096 -C 50"),
}


def tool(lab, name, at=A, client_on="h1", trials=5):
    server, client = (text.format(A=at, port=PORT).split() for text in TOOLS[name])
    s = lab.start("h0", server)
    wait_for(f"listening of {name}", lambda: lab.listeners(s) or not s.running(), SLOW_S)
    c = lab.start(client_on, client)
    c.wait(SLOW_S)
    if trials > 1 and rejected(c):
        print(f"       {name} asked before its server listened, and is tried again")
        s.end()
        tool(lab, name, at, client_on, trials - 1)
        return
    for program in (c, s):
        if program.wait(SLOW_S):
            raise Failed(f"{name}: {program.name} ended with {program.process.returncode}\n{program.tail()}")


def tools(lab):
    for name in TOOLS:
        if name != "rping IPv6":
            tool(lab, name)
    for host in ("h0", "h1"):
        lab.ctl("gids", f"{host}/mlx5_0", "both", "ipv6")
    tool(lab, "rping IPv6")


def infiniband(lab):
    """LIDs instead of GIDs, and a route that the subnet manager gives. There 127.0.0.1 leads to a NIC."""
    with Lab(lab.out, link="ib") as ib:
        for name in ("rping", "ib_write_bw -R", "udaddy", "rstream"):
            tool(ib, name)
        tool(ib, "rping", "127.0.0.1", "h0")
        if ib.complaints():
            raise Failed(ib.complaints())


# libfabric takes the addresses of interfaces, so these need a network of their own that has them.
INTERFACES = """
ip link set lo up && ip link add va type veth peer name vb && ip link set va up && ip link set vb up &&
ip addr add {A}/24 dev va && ip addr add {B}/24 dev va || exit 77
timeout 40 {simnicctl} run --host h0 -- {pingpong} &
for i in $(seq 200); do grep -q ":B9E8 " /proc/net/tcp && break; sleep 0.05; done
timeout 40 {simnicctl} run --host h1 -- {pingpong} {A} && wait $!
"""


def libfabric(lab):
    missing = [name for name in ("fi_pingpong", "ip", "unshare") if not shutil.which(name)]
    if missing:
        print("libfabric: skipped, without", *missing)
        return
    script = INTERFACES.format(A=A, B=B, simnicctl=os.path.join(lab.out, "bin", "simnicctl"),
                               pingpong="fi_pingpong -d mlx5_0 -I 20 -p verbs -e msg")
    program = lab.launch("pingpong", ["unshare", "--net", "sh", "-c", script], lab.env())
    status = program.wait(100)
    if status == 77:
        print("libfabric: skipped, as no network with interfaces can be made here:", program.err().strip())
        return
    if status or not re.search(r"^1m +20 ", program.out(), re.M):
        raise Failed(f"fi_pingpong ended with {status}\n{program.tail()}")


# ---- a program that is told its steps ---------------------------------------------------------------

class Agent:
    """One end. Its lines are read in order: answers to orders, and events."""

    def __init__(self, lab, host, name=None):
        self.lab = lab
        self.program = lab.start(host, [os.path.join(lab.out, "bin", "rdma_cm")], name or f"{host}-{len(lab.programs)}",
                                 stdin=True)
        self.read = 0           # lines that were looked at
        self.events = []        # those not asked for yet
        self.ids = 0

    def _next(self, what, seconds):
        def line():
            lines = self.program.out().split("\n")[:-1]
            return lines[self.read:self.read + 1] or not self.program.running()
        found = wait_for(f"{what} of {self.program.name}", line, seconds)
        if found is True:
            raise Failed(f"{self.program.name} ended before {what}")
        self.read += 1
        return found[0]

    def order(self, text, expect=0):
        """0, or the errno that it has to fail with. What it printed instead of "ok", if it is a port."""
        self.program.say(text)
        said = ""
        while True:
            line = self._next(f"answer to '{text}'", 20)
            if line.startswith("event "):
                self.events.append(line)
            elif line.startswith("port "):
                said = line[5:]
            else:
                break
        wanted = f"error {expect}" if expect else "ok"
        if line != wanted:
            raise Failed(f"{self.program.name}: '{text}' gave '{line}', not '{wanted}'")
        return said

    def event(self, n, name, status=0, text=None, seconds=20):
        line = self.events.pop(0) if self.events else self._next(f"{name} of id {n}", seconds)
        wanted = f"event {n} {name} {status} "
        if not line.startswith(wanted) or text not in (None, line[len(wanted):]):
            raise Failed(f"{self.program.name} printed '{line}', not '{wanted}{text or ''}'")

    def silent(self):
        """No event that nobody has asked for: an order's answer comes behind it."""
        self.order("well")
        if self.events:
            raise Failed(f"{self.program.name} printed {self.events}")

    def id(self, space="tcp"):
        self.order(f"id {space}")
        self.ids += 1
        return self.ids - 1

    def request(self, text=None, seconds=20):
        self.event(self.ids, "CONNECT_REQUEST", 0, text, seconds)
        self.ids += 1
        return self.ids - 1

    def listen(self, address="0.0.0.0", port=PORT, backlog=0, space="tcp"):
        n = self.id(space)
        self.order(f"bind {n} {address} {port}")
        self.order(f"listen {n} {backlog}")
        return n

    def resolved(self, address=A, port=PORT, space="tcp"):
        n = self.id(space)
        self.order(f"resolve {n} {address} {port} 2000")
        self.event(n, "ADDR_RESOLVED")
        self.order(f"route {n} 2000")
        self.event(n, "ROUTE_RESOLVED")
        self.order(f"qp {n}")
        return n


def ends(lab, quick=True):
    if quick:
        for host in ("h0", "h1"):
            for nic in ("mlx5_0", "mlx5_1"):
                lab.ctl("retry", f"{host}/{nic}", "0.05")
    return Agent(lab, "h0"), Agent(lab, "h1")


def connected(server, client, listener=True):
    """A connection; the ids of both ends."""
    if listener:
        server.listen()
    c = client.resolved()
    client.order(f"connect {c} hello")
    s = server.request("hello")
    server.order(f"qp {s}")
    server.order(f"accept {s} welcome")
    client.event(c, "ESTABLISHED", 0, "welcome")
    server.event(s, "ESTABLISHED")
    return s, c


def closed(server, s, client, c):
    client.order(f"disconnect {c}")
    server.event(s, "DISCONNECTED")
    server.order(f"disconnect {s}")
    client.event(c, "DISCONNECTED")
    client.event(c, "TIMEWAIT_EXIT")
    server.event(s, "TIMEWAIT_EXIT")


# ---- without a fault --------------------------------------------------------------------------------

def connect(lab):
    server, client = ends(lab)
    s, c = connected(server, client)
    closed(server, s, client, c)
    for agent, n in ((server, s), (client, c)):
        agent.order(f"destroy {n}")
        agent.silent()


def reject(lab):
    server, client = ends(lab)
    server.listen()
    c = client.resolved()
    client.order(f"connect {c} hello")
    s = server.request("hello")
    server.order(f"reject {s} no")
    client.event(c, "REJECTED", REJ_CONSUMER, "no")
    server.order(f"accept {s} late", errno.EINVAL)
    client.order(f"connect {c} again", errno.EINVAL)
    c = client.resolved(port=PORT + 1)
    client.order(f"connect {c} nobody")
    client.event(c, "REJECTED", REJ_NO_LISTENER)
    c = client.resolved()       # what is destroyed before it was accepted is refused
    client.order(f"connect {c} hello")
    server.order(f"destroy {server.request('hello')}")
    client.event(c, "REJECTED", REJ_CONSUMER)
    c = client.resolved()       # too long for a REQ, which has 56 bytes
    client.order(f"connect {c} {'x' * 57}", errno.EINVAL)
    client.order(f"connect {c} {'x' * 56}")
    s = server.request("x" * 56)
    server.order(f"qp {s}")
    server.order(f"accept {s} {'y' * 196}")
    client.event(c, "ESTABLISHED", 0, "y" * 196)


def datagrams(lab):
    server, client = ends(lab)
    server.listen(space="udp")
    c = client.resolved(space="udp")
    client.order(f"connect {c} {'q' * 180}")
    s = server.request("q" * 180)
    server.order(f"qp {s}")
    server.order(f"accept {s} here")
    client.event(c, "ESTABLISHED", 0, "here")
    c = client.resolved(space="udp")
    client.order(f"connect {c} again")
    server.order(f"reject {server.request('again')} no")
    client.event(c, "UNREACHABLE", 2, "no")
    c = client.resolved(port=PORT + 1, space="udp")
    client.order(f"connect {c} nobody")
    client.event(c, "UNREACHABLE", 1)
    server.order(f"join {server.id('udp')} 239.0.0.1", errno.EINVAL)
    n = server.id("udp")
    server.order(f"bind {n} {A} 0")
    server.order(f"join {n} 239.0.0.1", errno.ENOSYS)


def addresses(lab):
    server, client = ends(lab)
    n = server.id()
    server.order(f"bind {n} {B} 0", errno.EADDRNOTAVAIL)        # the other host's
    server.order(f"bind {n} 10.1.0.1 0")
    server.order(f"bind {n} 10.1.0.1 0", errno.EINVAL)
    port = int(server.order(f"port {n}"))
    if not 32768 <= port <= 60999:
        raise Failed(f"port {port} is none of the ephemeral ones")
    # 127.0.0.1 is all addresses to rdma_cm; so nobody else may have the port
    n = server.id()
    server.order(f"bind {n} 127.0.0.1 {PORT}")
    server.order(f"listen {n} 0")
    other = server.id()
    server.order(f"bind {other} {A} {PORT}", errno.EADDRNOTAVAIL)
    third = Agent(lab, "h0")
    n = third.id()
    third.order(f"bind {n} {A} {PORT}", errno.EADDRNOTAVAIL)    # another process of the host
    third.order(f"bind {n} {A} {PORT + 1}")
    m = third.id()
    third.order(f"bind {m} 10.1.0.1 {PORT + 1}")                # another address
    third.order(f"bind {third.id()} {A} {PORT + 1}", errno.EADDRINUSE)
    n = third.id()
    for m in (n, third.id()):
        third.order(f"option {m} reuse 1")
        third.order(f"bind {m} {A} {PORT + 2}")
    third.order(f"listen {n} 0", errno.EADDRINUSE)
    third.program.kill()
    server.order(f"bind {other} {A} {PORT + 1}")                # its ports are free at once
    s, c = connected(server, client, listener=False)
    closed(server, s, client, c)
    n = client.id()
    client.order(f"resolve {n} 10.0.0.77 {PORT} 300")           # nobody has it
    client.event(n, "ADDR_ERROR", -errno.ETIMEDOUT)
    n = client.id()
    client.order(f"resolve {n} 192.0.2.1 {PORT} 300")           # no NIC leads there
    client.event(n, "ADDR_ERROR", -errno.ENODEV)
    n = client.id()
    client.order(f"bind {n} 10.1.0.2 0")
    client.order(f"resolve {n} {A} {PORT} 300", errno.ENETUNREACH)
    n = client.id()
    client.order(f"resolve {n} 127.0.0.1 {PORT} 300")
    client.event(n, "ADDR_RESOLVED")
    client.order(f"route {n} 300", errno.ENODEV)                # no interface of RoCE has it


def many(lab):
    """Many at a time, accepted late and in another order; a backlog that is full; a listener that goes."""
    server, client = ends(lab)
    server.listen(backlog=8)
    ids = [client.resolved() for _ in range(64)]
    for n in ids:
        client.order(f"connect {n} c{n}")
    of = {}
    for _ in ids:       # a request that found no room comes again
        line = server._next("a request", 40) if not server.events else server.events.pop(0)
        n, text = re.match(r"event (\d+) CONNECT_REQUEST 0 (\w+)", line).groups()
        of[text] = int(n)
        server.ids += 1
    order = list(of.items())
    random.Random(lab.seed).shuffle(order)
    for text, n in order:
        server.order(f"qp {n}")
        server.order(f"accept {n} {text}")
    up = {client.events.pop(0) if client.events else client._next("ESTABLISHED", 40) for _ in ids}
    if up != {f"event {n} ESTABLISHED 0 c{n}" for n in ids}:
        raise Failed(f"the client heard {up}")
    server.order("destroy 0")
    c = client.resolved()
    client.order(f"connect {c} late")
    client.event(c, "REJECTED", REJ_NO_LISTENER)
    server.program.kill()
    down = {client._next("DISCONNECTED", 40) for _ in ids}
    if down != {f"event {n} DISCONNECTED 0 " for n in ids}:
        raise Failed(f"the client heard {down}")


def files(lab):
    """An id that moves to another channel, with its events; a child that uses its parent's file."""
    server, client = ends(lab)
    s, c = connected(server, client)
    server.order(f"migrate {s}")
    client.order(f"disconnect {c}")
    server.event(s, "DISCONNECTED")
    n = server.id()
    server.order(f"bind {n} {A} {PORT + 1}")
    server.order(f"fork {n}", errno.EACCES)
    server.order(f"listen {n} 0")


# ---- faults -----------------------------------------------------------------------------------------

def lost(lab):
    """A REQ, a REP and a DREQ on a cable that loses, and one that is down for long."""
    server, client = ends(lab)
    server.listen()
    c = client.resolved()
    lab.fault("lose-rx", "h0/mlx5_0")
    client.order(f"connect {c} hello")
    client.silent()
    server.silent()
    lab.ctl("heal", "h0/mlx5_0")
    s = server.request("hello")         # repeated
    server.order(f"qp {s}")
    lab.fault("lose-tx", "h0/mlx5_0")
    server.order(f"accept {s} welcome")
    client.silent()
    lab.ctl("heal", "h0/mlx5_0")
    client.event(c, "ESTABLISHED", 0, "welcome")
    server.event(s, "ESTABLISHED")
    lab.fault("switch-down", "rail0")
    client.order(f"disconnect {c}")
    server.silent()
    lab.ctl("heal", "rail0")
    server.event(s, "DISCONNECTED")


def cable(lab):
    """A cable of 20 ms that loses a third: connections are made and ended all the same, and each event comes once."""
    server, client = ends(lab)
    lab.ctl("link", "h1/mlx5_0", "--delay", "20ms", "--loss", "0.3")
    server.listen()
    for _ in range(6):
        s, c = connected(server, client, listener=False)
        client.order(f"disconnect {c}")
        server.event(s, "DISCONNECTED")
        server.order(f"destroy {s}")    # with the answer; if that is lost, the kernel gives it for an id that is gone
        client.event(c, "DISCONNECTED")
        client.event(c, "TIMEWAIT_EXIT")
        client.order(f"destroy {c}")
    client.silent()


def unreachable(lab):
    server, client = ends(lab)
    server.listen()
    c = client.resolved()
    lab.fault("port-down", "h1/mlx5_0")
    client.order(f"connect {c} hello")
    client.event(c, "UNREACHABLE", -errno.ETIMEDOUT, seconds=40)
    n = client.id()
    client.order(f"resolve {n} {A} {PORT} 300")
    client.event(n, "ADDR_ERROR", -errno.ETIMEDOUT)
    lab.ctl("heal", "h1/mlx5_0")
    s, c = connected(server, client, listener=False)
    lab.fault("port-down", "h0/mlx5_0")
    client.order(f"disconnect {c}")
    client.event(c, "DISCONNECTED", -errno.ETIMEDOUT, seconds=40)
    client.event(c, "TIMEWAIT_EXIT")
    server.silent()
    lab.ctl("heal", "h0/mlx5_0")
    server.silent()                     # nobody tells it any more


def removed(lab):
    """A NIC that is taken away: its ids hear of it, and so does the other end. A listener of all NICs stays."""
    server, client = ends(lab)
    s, c = connected(server, client)
    own = server.id()
    server.order(f"bind {own} {A} {PORT + 1}")
    server.order(f"listen {own} 0")
    lab.fault("nic-disassociate", "h0/mlx5_0")
    heard = {server._next("DEVICE_REMOVAL", 20) for _ in range(2)}
    if heard != {f"event {n} DEVICE_REMOVAL 0 " for n in (s, own)}:
        raise Failed(f"the server heard {heard}")
    client.event(c, "DISCONNECTED")
    server.order(f"listen {own} 0", errno.ENXIO)
    server.order(f"destroy {own}")
    n = client.id()
    client.order(f"resolve {n} 10.1.0.1 {PORT} 2000")
    client.event(n, "ADDR_RESOLVED")
    client.order(f"route {n} 2000")
    client.event(n, "ROUTE_RESOLVED")
    client.order(f"qp {n}")
    client.order(f"connect {n} other")
    server.request("other")


def killed(lab):
    """A process that dies: its kernel says goodbye, if there is a way."""
    server, client = ends(lab)
    s, c = connected(server, client)
    client.program.kill()
    server.event(s, "DISCONNECTED")
    client = Agent(lab, "h1")
    s, c = connected(server, client, listener=False)
    lab.fault("port-down", "h0/mlx5_0")
    server.program.kill()
    time.sleep(LOOKS_S)
    server = Agent(lab, "h0")
    server.listen()
    lab.ctl("heal", "h0/mlx5_0")
    connected(server, client, listener=False)
    client.silent()                     # of the dead one it was never told
    client.order(f"disconnect {c}")     # which the new kernel's answer ends
    client.event(c, "DISCONNECTED")


def halted(lab):
    """A program that is stopped: its kernel goes on without it, and asks the other end for patience."""
    server, client = ends(lab)
    server.listen()
    c = client.resolved()
    os.kill(server.program.pid, signal.SIGSTOP)
    client.order(f"connect {c} waits")
    time.sleep(UNANSWERED_S)
    client.silent()
    os.kill(server.program.pid, signal.SIGCONT)
    server.order(f"reject {server.request('waits')} no")
    client.event(c, "REJECTED", REJ_CONSUMER, "no")


CASES = {f.__name__: f for f in (tools, infiniband, libfabric, connect, reject, datagrams, addresses, many, files, lost, cable, unreachable, removed,
                                 killed, halted)}


if __name__ == "__main__":
    sys.exit(cases_main(CASES, lambda lab, name: CASES[name](lab), together=2))
