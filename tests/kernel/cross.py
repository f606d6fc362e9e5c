# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""NICs of two vendors at each end: a software ConnectX (simnic), and soft-RoCE of the kernel.

A fabric of simnic has two hosts. Each gets the end's soft-RoCE device of rail 0 beside its software NIC, by "simnicctl
real", and nothing else: so a program there finds mlx5_0 and one rxe device, and neither finds the other end's.
"""
import json
import os

from rig import ENDS, check, device, run

NIC = "mlx5_0"
RAIL = 0
GIDS = {"mlx5": 0, "rxe": 1}        # the index of the RoCE v2 GID of the IPv4 address
HOST = {end: f"h{i}" for i, end in enumerate(ENDS)}
# Faults of a NIC by vendor: of the whole path, which is left alone until they are over; and of the data while
# heartbeats pass, where SHIFT tries the path again and again.
FAULTS = {"mlx5": ("port-down", "cable-down", "lose-tx", "lose-rx"), "rxe": ("down", "lose")}
DATA_FAULTS = {"mlx5": ("lose-acks",), "rxe": ("lose_requests", "lose_answers")}


class Cross:
    """Both NICs of both ends. first: the vendor of those that programs use, mlx5 or rxe; the other's are backups."""

    def __init__(self, rig, first):
        self.rig, self.first = rig, first
        self.broken = None
        self.name = "cross-" + os.path.basename(rig.folder)
        self.env = {**os.environ, "SIMNIC_FABRIC": self.name}
        self.ctl("create", "--hosts", len(ENDS), "--nics", 1, "--seed", rig.seed)
        rig.fabric = self
        for end in ENDS:
            self.ctl("real", device(end, RAIL), "--host", HOST[end])

    def ctl(self, *args, **kw):
        return run(self.rig.bin("simnicctl"), *args, env=self.env, **kw)

    def end(self):
        self.ctl("destroy", fine=False)

    # ---- what Rig and Verify ask -----------------------------------------------------------

    def place(self, end, argv, env):
        """What runs argv on this end's host."""
        env["SIMNIC_FABRIC"] = self.name
        return [self.rig.bin("simnicctl"), "run", "--host", HOST[end], "--", *argv]

    def backup(self, end):
        return f"{NIC}={device(end, RAIL)},{device(end, RAIL)}={NIC}"

    def nic(self, end):
        return NIC if self.first == "mlx5" else device(end, RAIL)

    # ---- faults and what was carried -------------------------------------------------------

    def vendor(self, path):
        return self.first if path == 0 else "rxe" if self.first == "mlx5" else "mlx5"

    def begin(self, draw, kinds):
        """A fault of one of those kinds, of the NIC that an end's program uses; what it is."""
        vendor = self.first
        end, kind = draw.choice(ENDS), draw.choice(kinds[vendor])
        self.broken = vendor, end, kind
        if vendor == "mlx5":
            self.ctl("fault", kind, f"{HOST[end]}/{NIC}")
        else:
            getattr(self.rig.rails, kind)(end, RAIL)
        return f"{kind} of {end}'s {vendor}"

    def heal(self):
        """Ends what begin() began."""
        vendor, end, kind = self.broken
        if vendor == "mlx5":
            self.ctl("heal", f"{HOST[end]}/{NIC}")
        elif kind == "down":
            self.rig.rails.up(end, RAIL)
        else:
            self.rig.rails.pass_all(end, RAIL)

    def carried(self, path):
        """Bytes that both ends' NICs on the path have sent; of mlx5's those of connections."""
        if self.vendor(path) == "rxe":
            return self.rig.carried(RAIL)
        hosts = json.loads(self.ctl("status", "--json", errors=None))["hosts"]
        return sum(host["nics"][0]["rc_tx_bytes"] for host in hosts)

    def check_engines(self):
        """Both vendors' NICs are driven by the ledger."""
        said = json.loads(self.rig.shiftctl("status", "--json", errors=None))
        found = sorted((nic["name"], nic.get("engine")) for process in said["processes"] for nic in process["nics"])
        wanted = sorted((name, "ledger") for end in ENDS for name in (NIC, device(end, RAIL)))
        check(found == wanted, f"engines are {found}")
