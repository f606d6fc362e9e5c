# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Between two guests, whose NICs are Ethernet: mlx5's network interface, RoCE over it, and connections by rdma_cm."""
import contextlib
import hashlib
import os

from shiftlab.guest.cases import Failed, case, check
from shiftlab.guest.rig import run as run_program
from shiftlab.lab import wait_for

TCP_BYTES = 4 << 20
# The other end of a TCP connection: says the digest of what has come.
SINK = ("import hashlib, socket, sys; s = socket.create_server((sys.argv[1], 7000)); c = s.accept()[0]; "
        "h = hashlib.sha256(); [h.update(d) for d in iter(lambda: c.recv(65536), b'')]; print(h.hexdigest())")
REDIS = 6379
QPS = 3
MOVE_S, BACK_S = 60, 120


def paired(name, **options):
    """A case that has the other guest ready for it, with the link of the case's NIC up."""
    def add(run):
        def whole(rig):
            rig.peer.begin(name, rig.number)
            failed = True
            try:
                said = run(rig)
                rig.kernel_is_content()
                rig.peer.kernel_is_content()
                failed = False
                return said
            finally:
                rig.peer.end(name if failed else "")
        whole.__doc__ = run.__doc__
        return case(name, **options)(whole)
    return add


def connect(rig, which="net"):
    """Brings both ends of a NIC up."""
    net, peer = getattr(rig, which), getattr(rig.peer, which)
    peer("up")
    net.up()
    net.await_link()
    peer("await_link")


@paired("net.ping")
def ping(rig):
    """IPv4 and IPv6 between the two guests: broadcasts of ARP, multicasts of ND, echoes from 56 to 4,000 bytes; both ways."""
    connect(rig)
    said = rig.net.ping(rig.net.peers_address)
    rig.peer.net("ping", rig.net.address)
    rig.net.await_link_local()
    rig.peer.net("await_link_local")
    rig.net.ping(rig.peer.net("link_local"), "-6")
    for bytes_ in (1, 1472, 4000):      # the last one in three fragments
        rig.net.ping(rig.net.peers_address, "-s", str(bytes_))
    counts = rig.net.statistics()
    check(not counts["rx_errors"] and not counts["tx_errors"], f"errors: {counts}")
    return said


@paired("net.tcp")
def tcp(rig):
    """4 MiB over TCP, which the driver hands to the NIC in pieces of up to 64 KiB: the NIC cuts them (LSO), and no byte is wrong."""
    connect(rig)
    check(rig.net.cuts(), "the kernel cuts long frames itself")
    rig.peer.start("sink", ["python3", "-c", SINK, rig.net.peers_address])
    rig.peer.await_listening("sink")
    data = os.urandom(TCP_BYTES)
    before = rig.net.statistics()["tx_packets"]
    source = ("import socket, sys; s = socket.create_connection((sys.argv[1], 7000)); "
              "s.sendall(open(sys.argv[2], 'rb').read()); s.close()")
    path = os.path.join(rig.folder, "data")
    with open(path, "wb") as f:
        f.write(data)
    run_program("python3", "-c", source, rig.net.peers_address, path, timeout=90)
    check(rig.peer.wait("sink") == 0, "the other end: " + rig.peer.tail("sink"))
    check(rig.peer.out("sink").strip() == hashlib.sha256(data).hexdigest(), "other bytes came than were sent")
    sent = rig.net.statistics()["tx_packets"] - before
    return f"{TCP_BYTES} bytes, {sent} packets by the driver's count"


@paired("net.link")
def link(rig):
    """"ip link set down" at one end: the other end's kernel hears that the port is down, and the RDMA device tells its programs."""
    connect(rig)
    rig.net.await_port("ACTIVE")
    rig.peer.net("await_port", "ACTIVE")
    device = rig.peer.net("rdma_device")
    rig.peer.start("watch", ["stdbuf", "-oL", "ibv_asyncwatch", "-d", device])
    rig.peer.await_out("watch", "async event FD")
    rig.net.down()
    rig.peer.net("await_link", False)
    rig.peer.net("await_port", "DOWN")
    rig.peer.await_out("watch", "EVENT_PORT_ERR")
    rig.net.up()
    rig.peer.net("await_link")
    rig.peer.net("await_port", "ACTIVE")
    rig.peer.await_out("watch", "EVENT_PORT_ACTIVE")
    rig.net.ping(rig.net.peers_address)
    return "PORT_ERR and PORT_ACTIVE at the other end"


@paired("net.gids")
def gids(rig):
    """GIDs follow the interface's addresses."""
    connect(rig)
    rig.net.await_gid(":ffff:0a%02x:0001" % (rig.nic.rail + 20))
    rig.net.add("10.99.1.2/24")
    rig.net.await_gid(":ffff:0a63:0102")
    rig.net.add("fd00:99::5/64")
    rig.net.await_gid("fd00:0099:0000:0000:0000:0000:0000:0005")
    rig.net.remove("10.99.1.2/24")
    rig.net.await_gid(":ffff:0a63:0102", False)
    return f"{len(set(rig.net.gids().values()))} addresses"


@paired("net.rping", needs=("rping",))
def rping(rig):
    """rping: both ends find and connect each other by rdma_cm over the NIC's own GSI, by IPv4 and IPv6."""
    connect(rig)
    for address, other in ((rig.net.peers_address, []), ("fd00:50::2", ["fd00:50::1/64", "fd00:50::2/64"])):
        if other:
            rig.net.add(other[0])
            rig.peer.net("add", other[1])
            rig.net.await_gid("fd00:0050:0000:0000:0000:0000:0000:0001")
            rig.peer.net("await_gid", "fd00:0050:0000:0000:0000:0000:0000:0002")
        name = f"server-{len(other)}"
        rig.peer.start(name, ["rping", "-s", "-a", address, "-C", 10, "-v"])
        await_cm(rig, name)
        run_program("rping", "-c", "-a", address, "-C", 10, "-v", timeout=60)
        check(rig.peer.wait(name) == 0, "the other end: " + rig.peer.tail(name))
    return "IPv4 and IPv6, 10 times each"


def await_cm(rig, name):
    """Until the other guest's program listens by rdma_cm, which no socket shows."""
    wait_for(f"listening of {name}", lambda: "state LISTEN" in rig.peer.run("rdma", "resource", "show", "cm_id"), 30, 0.3)


@paired("net.write_bw", needs=("ib_write_bw",))
def write_bw(rig):
    """A stock ib_write_bw whose queue pairs rdma_cm connects (-R)."""
    connect(rig)
    common = ["ib_write_bw", "-R", "-s", 65536, "-n", 200, "-q", 2, "-t", 16, "-F"]
    rig.peer.start("server", common)
    await_cm(rig, "server")
    said = run_program(*common, rig.net.peers_address, timeout=90)
    check(rig.peer.wait("server") == 0, "the other end: " + rig.peer.tail("server"))
    rows = [row.split() for row in said.splitlines() if row.strip().startswith("65536")]
    check(rows, "no result: " + said[-400:])
    rate = float(rows[0][3])
    # It measures the processor's clock first, and says 0 where a busy host keeps it from that.
    why = next((row for row in said.splitlines() if "Correlation" in row), "perftest found no clock")
    return f"{rate} MB/s" if rate else f"no rate: {why}"


def ends_of_verify(rig, shift, patterns):
    """
    verify between the guests, its server in the other one. It and SHIFT's table talk over the NICs that no case breaks; a
    backup of each end is its NIC of another rail.
    """
    for which in ("net", "backup_net", "spare_net"):
        connect(rig, which)
    address = rig.spare_net.peers_address
    rig.peer.start("redis", ["redis-server", "--bind", address, "--port", REDIS, "--save", "", "--protected-mode", "no"])
    rig.peer.await_listening("redis")
    settings = {**shift, "kv": f"redis://{address}:{REDIS}", "backup": f"{rig.nic.name}={rig.backup.name}"}
    common = ["--control", "--plain", "--seed", rig.seed, "--qps", QPS, "--patterns", patterns, "--retry", 6, "--timeout", 18,
              "--max-size", 4096, "--stuck", 90]
    rig.peer.start("server", [rig.bin("verify"), *common, "--server", "--listen", address, "--dev", rig.nic.name, "--gid-index",
                              rig.peer.net("gid_index")], settings)
    rig.peer.await_listening("server")
    client = rig.start([rig.bin("verify"), *common, "--client", address, "--dev", rig.nic.name, "--gid-index",
                        rig.net.gid_index()], "client", rig.shift(**settings), True)
    rig.await_out(client, "STARTED")
    return client


def is_back(rig):
    """True when all are on the NIC. A driver that makes its interface anew leaves it down and without an address."""
    with contextlib.suppress(Failed):
        if not rig.net.carrier():   # an address that is set anew makes the port's addresses change
            rig.net.up()
    return all(q["nic"] == rig.nic.name for q in rig.connections())


def shift_through(rig, word, over=None, patterns="abce"):
    """
    verify between two guests under SHIFT, over RoCE, through a fault of this end's NIC: both ends move and return. over: the word
    that ends the fault.
    """
    client = ends_of_verify(rig, {}, patterns)
    rig.await_protected(QPS, (client,))
    rig.breaks(word)
    rig.until("move", lambda: all(q["nic"] != rig.nic.name for q in rig.connections()), (client,), MOVE_S, 0.3)
    if over:
        rig.breaks(over)
    rig.until("return", lambda: is_back(rig), (client,), BACK_S, 1)
    client.say("stop")
    rig.peer.say("server", "stop")
    rig.ends_well(client)
    check(rig.peer.wait("server") == 0, "the other end: " + rig.peer.tail("server"))
    moves = len(rig.moves(client))
    check(moves >= QPS, f"{moves} moves at this end")
    return f"{moves} moves at this end"


@paired("net.shift_port", needs=("redis-server",), by_name=True)
def shift_port(rig):
    """A port goes down and up."""
    return shift_through(rig, "port-down", "port-up")


@paired("net.shift_fatal", needs=("redis-server",), by_name=True)
def shift_fatal(rig):
    """A fatal error of the firmware, from which the driver recovers."""
    return shift_through(rig, "fatal")


@paired("net.shift_surprise", needs=("redis-server",), by_name=True)
def shift_surprise(rig):
    """The card leaves its slot, and comes back as a new device. No WRITEs: it may take along what it had acknowledged (P3)."""
    return shift_through(rig, "surprise", "insert", "bc")


@paired("net.rebind")
def rebind(rig):
    """The driver is unloaded and loaded with the interface up, and echoes come back as before."""
    connect(rig)
    rig.net.ping(rig.net.peers_address)
    for _ in range(3):
        rig.driver("unbind")
        rig.peer.net("await_link", False)
        rig.driver("bind")
        rig.await_device()
        rig.net.up()
        rig.net.await_link()
        rig.peer.net("await_link")
        rig.net.ping(rig.net.peers_address)
    rig.no_command_is_lost()
    return "3 times"
