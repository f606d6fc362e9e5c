#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The belief table's other side: simnic's rows, compared with those that a kernel gave.

  simnic_side.py --build DIR                     each fault; fails on a difference that known.py does not list
  simnic_side.py --build DIR --fault fatal       one
  simnic_side.py --build DIR --show              prints the rows and compares nothing
"""
import argparse
import json
import os
import sys

import belief
import known
from shiftlab.guest.cases import Failed
from shiftlab.lab import Lab, Stuck

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS = os.path.join(HERE, "rows.json")
NIC = "h0/mlx5_0"
TIMEOUT_S = 1.0     # of simnic's commands here: as for a driver, but sooner
RECOVERY_S = 2.6    # from the first DEVICE_FATAL to the second: the driver waits for the firmware, then unloads
SLOW_MS = 20        # no timeout either
# What a fault is here: commands of simnicctl. Data goes on in a NIC whose firmware reports an error.
WORDS = {
    "port-down": (("fault", "port-down", NIC),),
    "port-up": (("fault", "port-up", NIC),),
    "syndrome": (),     # nobody is told, and nothing is to be seen
    "slow": (("cost", NIC, SLOW_MS * 1000),),
    "heal": (("cost", NIC, 0),),
    "fatal": (("fault", "nic-zombie", NIC), ("fault", "nic-disassociate", NIC, "--after", RECOVERY_S)),
    "dead": (("fault", "nic-unplug", NIC), ("fault", "nic-disassociate", NIC, "--after", RECOVERY_S)),
    "surprise": (("fault", "nic-disassociate", NIC),),
    "remove": (("fault", "nic-disassociate", NIC),),
    "aer": (("fault", "nic-disassociate", NIC),),   # the driver unloads when it is told
    "hang": (("fault", "nic-hang", NIC),),
}


def words_of(steps):
    return [s.word for s in steps if isinstance(s, belief.Break)]


def possible(name):
    return all(word in WORDS for word in words_of(belief.FAULTS[name]))


def row(build, name, link="ib"):
    """What simnic says of a fault."""
    with Lab(build, hosts=1, nics=1, link=link) as lab:
        program = lab.start("h0", [os.path.join(lab.out, "bin", "nic_calls"), "mlx5_0", 0], stdin=True,
                            env={"SIMNIC_CLOSE_WAITS": "1"})    # as a kernel's

        lab.ctl("timeout", NIC, TIMEOUT_S)

        def breaks(word):
            for argv in WORDS[word]:
                lab.ctl(*argv)

        return belief.Session(program, breaks, TIMEOUT_S).run(belief.FAULTS[name])


def compare(name, kernel, simnic):
    """(what differs and is in no list, how many differences are listed)"""
    found = belief.differences(kernel, simnic)
    fresh = [d for d in found if not known.reason(name, d)]
    return fresh, len(found) - len(fresh)


def parse_args():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build")
    p.add_argument("--fault", action="append", choices=list(belief.FAULTS))
    p.add_argument("--rows", default=ROWS, help="what a kernel said (%(default)s)")
    p.add_argument("--show", action="store_true")
    return p.parse_args()


def one(args, name, kernel):
    """True: as the kernel has it."""
    if not possible(name):
        print(f"skipped {name}: simnic has no such fault", flush=True)
        return True
    try:
        simnic = row(args.build, name)
    except (Failed, Stuck) as e:
        print(f"failed  {name}: {e}", flush=True)
        return False
    if args.show:
        print(json.dumps({name: simnic}, indent=1), flush=True)
        return True
    fresh, listed = compare(name, kernel[name], simnic)
    print(f"{'failed ' if fresh else 'passed '} {name}: {listed} known differences", *fresh, sep="\n        ", flush=True)
    return not fresh


def main():
    args = parse_args()
    kernel = {}
    if not args.show:
        with open(args.rows, encoding="utf-8") as f:
            kernel = json.load(f)["rows"]
    names = args.fault or [name for name in belief.FAULTS if args.show or name in kernel]
    return 0 if all([one(args, name, kernel) for name in names]) else 1


if __name__ == "__main__":
    sys.exit(main())
