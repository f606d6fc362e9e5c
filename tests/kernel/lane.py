#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Real programs on a real kernel's RDMA stack: soft-RoCE of Debian's own kernel, in a guest that QEMU emulates.

  lane.py --build DIR                       all cases, in two guests if none brings its guest down
  lane.py --build DIR --case 'stock.*'      those that the pattern names; may be repeated
  lane.py --build DIR --list                their names, and what each shows
  lane.py --build DIR --shell               a shell in a guest with the rails up

Each case is passed, failed or skipped, with the reason. Logs of those that failed are in OUT/kernel/NAME, what the
kernels said in OUT/kernel/console-N. The closing line is "N passed, N failed, N skipped"; the exit status is 1 if a
case failed. tests/kernel/README.md has more.
"""
import argparse
import os
import shutil
import subprocess
import sys

import cases
from shiftlab.guest.boot import ROOT, Guest, Image, Missing
from shiftlab.guest.lane import Lane, add_options, chosen, list_cases, run, skip_all
from shiftlab.lab import out_folder

MODULES = ("crc32_generic",     # without it no rxe device can be added: ENOENT
           "rdma_rxe", "ib_uverbs", "rdma_ucm", "veth", "sch_netem", "sch_ingress", "cls_u32", "act_gact")


class KernelLane(Lane):
    NAME = "kernel"

    def order(self, names, shell=False):
        debs = os.path.abspath(self.args.debs)
        return {"cases": names, "build": out_folder(self.args.build), "shell": shell, "rails": self.args.rails,
                "debs": debs if os.path.isdir(debs) else None, "seed": self.args.seed, "limit": self.args.limit,
                "served": self.args.served}

    def guest(self, names, number, shell):
        return Guest(self.image, self.order(names, shell), self.out, number, "tests/kernel/inside.py", self.args.nice,
                     cpus=self.args.cpus)


def parse_args():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(p, "kernel", minutes=20.0)
    p.add_argument("--rails", type=int, default=2, choices=range(2, 5), help="in a guest (2)")
    p.add_argument("--debs", default="out/packages", metavar="FOLDER", help="SHIFT's Debian packages (out/packages)")
    p.add_argument("--served", action="store_true",
                   help="take it that SHIFT's engine serves rxe, whatever shiftctl doctor says")
    return p.parse_args()


def make_image(args):
    """Kernel and initramfs; raises Missing."""
    folder = os.path.join(os.path.abspath(args.build), "kernel")
    if not args.no_fetch:
        subprocess.run([os.path.join(ROOT, "scripts", "install-kernel-lane.sh"), args.build], check=False)
    image = Image(folder, MODULES)
    print(f"the kernel of {image.make()}; seed {args.seed}", flush=True)
    return image


def main():
    args = parse_args()
    cases.load()
    if args.list:
        list_cases()
        return 0
    names = chosen(args.case)
    try:
        image = make_image(args)
    except Missing as e:
        return skip_all(names, e)
    lane = KernelLane(args, image)
    shutil.rmtree(lane.out, ignore_errors=True)
    if args.shell:
        return lane.boot([], shell=True).process.wait()
    return run(lane, names)


if __name__ == "__main__":
    sys.exit(main())
