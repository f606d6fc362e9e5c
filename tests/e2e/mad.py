#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""simnic's umad under the distribution's infiniband-diags: what its programs say of hosts, switches and ports, of counters
and paths, and of ports that are down; and `rdma` of iproute2. Nothing of SHIFT.

  mad.py --build DIR [CASE...]
"""
import re
import shutil
import sys

from shiftlab.lab import SKIPPED, cases_main, free_port

NOT_ROUTED = r"100% packet loss"
SLOW_S = 30


class Failed(Exception):
    """A program says something else than on hardware."""


def says(lab, host, command, *wanted, status=0):
    """What a program says. It says all that is wanted, expressions, and ends with that status."""
    done = lab.run(host, command.split(), timeout=SLOW_S)
    said = done.out() + done.err()
    if status is not None and done.process.returncode != status:
        raise Failed(f"{command}: exit {done.process.returncode}, not {status}\n{said}")
    for expression in wanted:
        if not re.search(expression, said):
            raise Failed(f"{command} does not say '{expression}'\n{said}")
    return said


def says_not(lab, host, command, *unwanted):
    said = says(lab, host, command)
    for expression in unwanted:
        if re.search(expression, said):
            raise Failed(f"{command} says '{expression}'\n{said}")


def states(lab):
    """By sysfs alone, on InfiniBand and on Ethernet."""
    says(lab, "h0", "ibstat", r"CA 'mlx5_0'", r"CA 'mlx5_1'", r"Base lid: 1\n", r"Link layer: InfiniBand")
    says(lab, "h1", "ibstatus", r"'mlx5_0' port 1 status", r"'mlx5_1' port 1 status", r"base lid:\s+0x2", r"state:\s+4: ACTIVE")
    lab.fault("port-down", "h1/mlx5_0")
    says(lab, "h1", "ibstatus mlx5_0", r"state:\s+1: DOWN")
    says(lab, "h1", "ibstat mlx5_0", r"State: Down")
    says(lab, "h0", "ibstat mlx5_0", r"State: Active")


def queries(lab):
    """Agents of NICs and switches, the subnet manager, and its records."""
    says(lab, "h0", "ibaddr", r"LID start 0x1 end 0x1")
    says(lab, "h1", "ibaddr", r"LID start 0x2 end 0x2")
    says(lab, "h1", "sminfo", r"sm lid 1 ", r"SMINFO_MASTER")
    says(lab, "h0", "smpquery nodedesc 2", r"h1 simnic")
    says(lab, "h0", "smpquery -D nodeinfo 0,1", r"NodeType:\.+Switch", r"LocalPort:\.+1\n")
    says(lab, "h0", "smpquery -D nodedesc 0,1,2", r"h1 simnic")
    says(lab, "h0", "ibportstate 2 1", r"LinkState:\.+Active", r"LinkWidthActive:\.+4X", r"LinkSpeedExtActive:\.+25.78125")
    nodes = says(lab, "h0", "saquery", r"NodeDescription\.+h0 simnic", r"NodeDescription\.+h1 simnic")
    if nodes.count("NodeRecord dump") != 3:     # two hosts and a switch
        raise Failed(f"these are not three nodes:\n{nodes}")
    says(lab, "h0", "saquery -p --src-to-dst 1:2", r"dlid\.+2\n", r"slid\.+1\n", r"mtu\.+0x85")
    says(lab, "h0", "saquery MCMR", r"(?i)unsupported|not supported|failed", status=None)
    says(lab, "h0", "smpquery nodeinfo 9", r"(?i)failed", status=None)      # nobody has that LID
    says(lab, "h0", "smpquery -D nodeinfo 0,1,3", r"(?i)failed", status=None)       # nor is anything at that port


def topology(lab):
    """The subnet is discovered hop by hop; a port that is down leads nowhere."""
    says(lab, "h0", "ibhosts", r"h0 simnic", r"h1 simnic")
    says(lab, "h0", "ibswitches", r"simnic rail0")
    says(lab, "h1", "iblinkinfo", r'Active/  LinkUp\)==>\s+1\s+1\[  \] "h0 simnic"')
    says(lab, "h1", "ibnetdiscover -C mlx5_1 -p", r"rail1")
    lab.fault("port-down", "h1/mlx5_0")
    says_not(lab, "h0", "ibhosts", r"h1 simnic")
    says(lab, "h0", "iblinkinfo", r"2\[  \] ==\(\s+Down/")
    says_not(lab, "h0", "saquery", r"h1 simnic")
    lab.ctl("heal", "all")
    says(lab, "h0", "ibhosts", r"h1 simnic")


def ping(lab):
    """From process to process, through links that go and come."""
    says(lab, "h0", "ibping -c 1 2", NOT_ROUTED, status=None)  # nobody serves
    lab.start("h1", ["ibping", "-S"], name="server")
    for _ in range(20):     # it says nothing when it serves
        if "1 received" in says(lab, "h0", "ibping -c 1 2", status=None):
            break
    says(lab, "h0", "ibping -f -c 100 2", r"100 packets transmitted, 100 received, 0% packet loss", r"Pong from|statistics")
    lab.fault("cable-down", "h0/mlx5_0")
    says(lab, "h0", "ibping -c 1 2", NOT_ROUTED, status=None)
    says(lab, "h1", "ibping -C mlx5_1 -c 1 1", NOT_ROUTED, status=None)     # another rail, where nobody serves
    lab.ctl("heal", "all")
    says(lab, "h0", "ibping -f -c 10 2", r"10 received")


def counted(lab):
    """The counters of a port are those of its traffic."""
    before = says(lab, "h0", "perfquery -x 2 1", r"PortXmitPkts")
    argv = ["ib_write_bw", "-d", "mlx5_0", "-F", "-n", "100", "-p", str(free_port())]
    for program in lab.pair(argv, argv + ["127.0.0.1"]):
        if program.process.returncode:
            raise Failed(program.tail())
    data = [int(re.search(r"PortXmitData:\.+(\d+)", said)[1]) for said in
            (before, says(lab, "h0", "perfquery -x 2 1"))]
    if (data[1] - data[0]) * 4 < 100 * 65536:   # words of four bytes, all sent by h1
        raise Failed(f"PortXmitData went from {data[0]} to {data[1]}")
    lab.fault("port-down", "h1/mlx5_0")
    lab.ctl("heal", "all")
    says(lab, "h0", "perfquery 2 1", r"LinkDownedCounter:\.+1\b")


def ethernet(lab):
    """There is no queue pair 0, and no subnet manager."""
    says(lab, "h0", "ibstat", r"Link layer: Ethernet")
    says(lab, "h0", "ibstatus", r"link_layer:\s+Ethernet")
    says(lab, "h0", "sminfo", r"(?i)failed", status=None)


def rdma_tool(lab):
    """iproute2's program asks by netlink."""
    says(lab, "h0", "rdma dev", r"mlx5_0: node_type ca fw 20\.35\.1012 node_guid 0c42:a103:0000:0000", r"mlx5_1: node_type ca")
    says(lab, "h0", "rdma link", r"link mlx5_0/1 .*state ACTIVE physical_state LINK_UP")
    lab.fault("port-down", "h0/mlx5_0")
    says(lab, "h0", "rdma link show mlx5_0/1", r"state DOWN physical_state DISABLED")


CASES = {"states": states, "queries": queries, "topology": topology, "ping": ping, "counted": counted, "ethernet": ethernet,
         "rdma": rdma_tool}


def main():
    missing = [name for name in ("ibstat", "saquery", "rdma") if not shutil.which(name)]
    if missing:
        print(f"skipped: there is no {', '.join(missing)} (Debian: infiniband-diags, iproute2)")
        return SKIPPED
    return cases_main(CASES, lambda lab, name: CASES[name](lab), together=2,
                      of_case=lambda name: {"link": "eth" if name in ("ethernet", "rdma") else "ib"})


if __name__ == "__main__":
    sys.exit(main())
