# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""sdr_perf at both ends of a lab's cable."""
import os

from shiftlab.lab import free_port


def sdr_perf(lab, limit_s, *options):
    """The last lines of the client of h1, in JSON; what both ends say where one of them fails."""
    argv = [os.path.join(lab.out, "bin", "sdr_perf"), "-d", "mlx5_0", "--json", "-p", str(free_port()), *map(str, options)]
    ends = [lab.start("h0", argv), lab.start("h1", [*argv, "127.0.0.1"])]
    for end in ends:
        if end.wait(limit_s):
            raise SystemExit("".join(end.tail() for end in ends))
    return ends[1].out().splitlines()
