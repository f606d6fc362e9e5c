# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Counters that the driver reads from the NIC: /sys/class/infiniband/DEVICE/ports/1, as SHIFT and operators read them."""
import os

from shiftlab.guest.cases import case, check

MESSAGES, BYTES = 200, 65536


def counter(rig, name):
    path = os.path.join("/sys/class/infiniband", rig.net.ib_name, "ports", "1", name)
    with open(path, encoding="ascii") as f:
        return int(f.read())


@case("count.traffic", needs=("ib_write_bw",))
def traffic(rig):
    """What ib_write_bw sends is counted at the port and at the queue pairs, in sysfs; no command of the driver is refused."""
    names = ("counters/port_rcv_packets", "counters/port_rcv_data", "hw_counters/rx_write_requests")
    before = {name: counter(rig, name) for name in names}
    common = ["ib_write_bw", "-s", BYTES, "-n", MESSAGES, "-F", "-t", 16]
    server, client = rig.pair([*common, "-d", rig.net.ib_name], [*common, "-d", rig.spare_net.ib_name, "127.0.0.1"])
    rig.ends_well(server, client)
    more = {name: counter(rig, name) - before[name] for name in names}
    check(more["hw_counters/rx_write_requests"] >= MESSAGES, f"counted: {more}")
    check(more["counters/port_rcv_data"] * 4 >= MESSAGES * BYTES, f"counted, in words of four bytes: {more}")
    check(more["counters/port_rcv_packets"] >= MESSAGES * BYTES // 4096, f"counted: {more}")
    refused = [line for line in rig.kernel_log().splitlines() if "mlx5_cmd_out_err" in line]
    check(not refused, "refused: " + "\n".join(refused[:3]))
    rig.kernel_is_content()
    return ", ".join(f"{name.rsplit('/', maxsplit=1)[-1]} +{n}" for name, n in more.items())
