# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""SDR on this kernel's UC and memory windows: an implementation that is not ours. Every byte is checked."""
import json

from shiftlab.guest.cases import case
from rig import ENDS, GID, check, device
from shiftlab.lab import free_port, slowed


def writes(rig, backend, count, size, *netem):
    """So many Writes over a wire that netem treats so, both ways."""
    for end in ENDS:
        rig.rails.shape(end, 0, *netem)
    common = [rig.bin("sdr_perf"), "-p", free_port(), "-n", count, "-s", size, "--backend", backend, "--chunk", "4K",
              "--rate", "40M", "--rtt", "20ms", "--timeout", f"{int(slowed(40))}s", "--wait", int(slowed(40)), "--verify", "--json"]
    if "duplicate" in netem:
        common.append("--duplicates")
    ends = rig.pair([*common, "-d", device("a")], [*common, "-d", device("b"), "127.0.0.1"])
    rig.ends_well(*ends)
    server, client = (json.loads(p.out().splitlines()[-1]) for p in ends)
    for end in server, client:
        check(end["writes"] == count and not end["wrong"] and not end["failed"], f"not all is right: {end}")
    check(server["backend"] == backend, f"not by {backend}: {server}")
    check(client["resent"] or server["decoded"], "nothing was lost: this shows nothing")
    return (f"{count} Writes of {size} by {backend}: {client['packets']} packets, {client['resent']} chunks again, "
            f"{server['decoded']} decoded")


def add(name, backend, count, size, netem, text):
    @case(name, needs=("tc",), by_name=True)
    def one(rig):
        return writes(rig, backend, count, size, *netem.split())
    one.__doc__ = text


PROBED = {**dict.fromkeys(("uc-order", "uc-dup", "uc-dry", "uc-key", "uc-rate", "window-all-qps", "unbind-late", "bind-cost"), "holds"),
          "null-key": "cannot tell", "umr-offset": "cannot tell"}


@case("sdr.probe_hw", by_name=True)
def probe_hw(rig):
    """What SDR assumes of a NIC, by shiftctl probe-hw: all of it holds on rxe, which has no indirect keys."""
    asked = [word for name in PROBED for word in ("--check", name)]
    said = rig.shiftctl("probe-hw", "-d", device("a"), "-x", GID, "--json", *asked, fine=False, errors=None)
    found = {c["name"]: c["verdict"] for c in json.loads(said)["checks"]}
    check(found == PROBED, f"found {found}: {said}")
    taken = {c["name"]: c["evidence"] for c in json.loads(said)["checks"]}
    return f"8 hold: {taken['uc-dup']}, {taken['uc-dry']}, {taken['bind-cost']}"


for kind in "window", "stage":
    add(f"sdr.{kind}", kind, 100, "64K", "loss 2%", f"sdr_perf by {kind}, 2 % of all packets lost: every byte is right.")
    add(f"sdr.{kind}_long", kind, 1000, "1M", "loss 2% duplicate 1% delay 2ms reorder 99% 50%",
        f"The same by {kind} with 1,000 Writes of 1 MiB, doubled and reordered packets; with --limit 600.")
