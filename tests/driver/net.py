# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A NIC's network interface, inside a guest: addresses, its link, and what the kernel says of both."""
import ctypes
import fcntl
import glob
import os
import socket
import struct

from shiftlab.guest.cases import check
from shiftlab.guest.rig import run
from shiftlab.lab import slowed, wait_for

LINK_S = 30     # until the kernel has told of a link
PINGS = 5
SIOCETHTOOL, ETHTOOL_GTSO = 0x8946, 0x1e


def address(rail, host):
    return f"10.{rail + 20}.0.{host + 1}"


class Net:
    """host: the guest's number in the fabric."""

    def __init__(self, nic, host, busybox):
        self.nic, self.busybox = nic, busybox
        self.address, self.peers_address = address(nic.rail, host), address(nic.rail, 1 - host)

    @property
    def name(self):
        found = glob.glob(os.path.join(self.nic.folder, "net", "*"))
        check(len(found) == 1, f"{self.nic.address} has {len(found)} network interfaces")
        return os.path.basename(found[0])

    @property
    def ib_name(self):
        """Of its RDMA device."""
        found = glob.glob(os.path.join(self.nic.folder, "infiniband", "*"))
        check(len(found) == 1, f"{self.nic.address} has {len(found)} RDMA devices")
        return os.path.basename(found[0])

    def rdma_device(self):
        return self.ib_name

    def set(self, *what):
        run("ip", "link", "set", "dev", self.name, *what)

    def up(self):
        """With its address; the link may need the other end's."""
        run("ip", "address", "replace", f"{self.address}/24", "dev", self.name)
        self.set("up")

    def down(self):
        self.set("down")

    def add(self, more):
        """An address, in use at once."""
        run("ip", "address", "add", more, "dev", self.name, *(["nodad"] if ":" in more else []))

    def remove(self, more):
        run("ip", "address", "del", more, "dev", self.name)

    def read(self, file):
        with open(os.path.join("/sys/class/net", self.name, file), encoding="ascii") as f:
            return f.read().strip()

    def carrier(self):
        """Whether the kernel has heard that the link is up; False while the interface is down."""
        try:
            return self.read("carrier") == "1"
        except OSError:
            return False

    def await_link(self, wanted=True):
        wait_for(f"link {'up' if wanted in (True, 'True') else 'down'} of {self.name}",
                 lambda: self.carrier() == (wanted in (True, "True")), LINK_S, 0.1)

    def port(self):
        """What the RDMA device says of its port: ACTIVE, DOWN."""
        path = f"/sys/class/infiniband/{self.ib_name}/ports/1/state"
        with open(path, encoding="ascii") as f:
            return f.read().split()[-1]

    def await_port(self, wanted):
        wait_for(f"port {wanted} of {self.ib_name}", lambda: self.port() == wanted, LINK_S, 0.1)

    def gids(self):
        """The GIDs that are there, by index."""
        folder = f"/sys/class/infiniband/{self.ib_name}/ports/1/gids"
        found = {}
        for index in os.listdir(folder):
            with open(os.path.join(folder, index), encoding="ascii") as f:
                gid = f.read().strip()
            if gid.replace("0", "").replace(":", ""):
                found[int(index)] = gid
        return found

    def gid_index(self):
        """Of its IPv4 address, for RoCE v2."""
        folder = f"/sys/class/infiniband/{self.ib_name}/ports/1/gid_attrs/types"
        wanted = ":ffff:%02x%02x:%02x%02x" % tuple(int(n) for n in self.address.split("."))
        for index, gid in sorted(self.gids().items()):
            with open(os.path.join(folder, str(index)), encoding="ascii") as f:
                if gid.endswith(wanted) and "v2" in f.read():
                    return index
        return None

    def await_gid(self, end, wanted=True):
        """Until a GID ends so, or none does."""
        wanted = wanted in (True, "True")
        wait_for(f"GID {end} {'there' if wanted else 'gone'} on {self.ib_name}", lambda: self.has_gid(end) == wanted,
                 LINK_S, 0.1)

    def has_gid(self, end):
        return any(gid.endswith(end) for gid in self.gids().values())

    def link_local(self):
        """Its IPv6 address of the link."""
        rows = run("ip", "-6", "-o", "address", "show", "dev", self.name, "scope", "link").split()
        return rows[rows.index("inet6") + 1].partition("/")[0] if "inet6" in rows else None

    def await_link_local(self):
        """When it is no tentative one any more."""
        def there():
            said = run("ip", "-6", "-o", "address", "show", "dev", self.name, "scope", "link")
            return "inet6" in said and "tentative" not in said
        wait_for(f"IPv6 address of {self.name}", there, LINK_S, 0.2)

    def ping(self, to, *options):
        """Fails unless every echo comes back."""
        said = run(self.busybox, "ping", *options, "-c", PINGS, "-W", int(slowed(5)), "-I", self.name, to, timeout=60)
        check(f"{PINGS} packets received" in said, f"ping {to}: {said.strip().splitlines()[-2:]}")
        return said.strip().splitlines()[-1]

    def cuts(self):
        """Whether the kernel leaves it to the NIC to cut long frames of TCP."""
        value = bytearray(struct.pack("II", ETHTOOL_GTSO, 0))
        at = (ctypes.c_char * len(value)).from_buffer(value)
        request = struct.pack("16sP", self.name.encode(), ctypes.addressof(at))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            fcntl.ioctl(s, SIOCETHTOOL, request)
        return struct.unpack("II", value)[1] == 1

    def statistics(self):
        return {name: int(self.read(f"statistics/{name}"))
                for name in ("rx_packets", "tx_packets", "rx_errors", "rx_dropped", "tx_errors")}
