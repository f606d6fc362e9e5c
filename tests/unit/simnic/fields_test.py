#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""simnic/pci's table of fields, held against the driver's own header: each field's first bit and number of bits.

The compiler judges: each field becomes two static assertions. A table made wrong on purpose is tried as well, so a
check that sees nothing fails. Skipped where mlx5_ifc.h is not there (scripts/install-driver-lane.sh gets it).

usage: fields_test.py --build BUILD --cc COMPILER
"""
import argparse
import os
import subprocess
import sys
import tempfile

SKIPPED = 77
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
# The header speaks the kernel's language of types. In it each bit is a byte.
PROGRAM = r"""
#include <stddef.h>
#include <stdint.h>
typedef uint8_t u8; typedef uint16_t u16; typedef uint32_t u32; typedef uint64_t u64;
typedef uint16_t __be16; typedef uint32_t __be32; typedef uint64_t __be64;
#define BIT(n) (1ul << (n))
#define BIT_ULL(n) (1ull << (n))
#include "mlx5_ifc.h"
"""


def header(build):
    path = os.path.join(build, "driver", "mlx5", "include")
    return path if os.path.exists(os.path.join(path, "mlx5_ifc.h")) else None


def fields():
    """(layout, name, bit, width) of each line of the lists."""
    for part in ("cap", "cmd", "ctx", "reg"):
        with open(os.path.join(ROOT, "simnic", "pci", f"fields_{part}.h"), encoding="utf-8") as f:
            for line in f:
                if line.startswith("\tF("):
                    layout, name, bit, width = line[3:line.index(")")].split(", ")
                    yield layout, name, int(bit, 16), int(width)


def assertions(table):
    for layout, name, bit, width in table:
        struct = f"struct mlx5_ifc_{layout}_bits"
        yield f'_Static_assert(offsetof({struct}, {name}) == {bit}, "{layout}.{name}: first bit");'
        if width:
            yield f'_Static_assert(sizeof((({struct} *)0)->{name}) == {width}, "{layout}.{name}: bits");'


def compile_(args, include, table):
    """What the compiler has against a table; None: nothing."""
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "fields.c")
        with open(source, "w", encoding="utf-8") as f:
            f.write(PROGRAM + "\n".join(assertions(table)) + "\n")
        done = subprocess.run([args.cc, "-fsyntax-only", "-I", include, source], capture_output=True,
                              text=True, check=False)
        return done.stderr if done.returncode else None


def wrong_tables(table):
    layout, name, bit, width = table[0]
    yield "a bit too far", [(layout, name, bit + 1, width)]
    yield "a bit too wide", [(layout, name, bit, width + 1)]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--build", required=True)
    p.add_argument("--cc", default="cc")
    args = p.parse_args()
    include = header(args.build)
    if not include:
        print("skipped: no mlx5_ifc.h below", args.build, "- scripts/install-driver-lane.sh gets it")
        return SKIPPED
    table = list(fields())
    if len(table) < 300 or len(set(t[:2] for t in table)) != len(table):
        print(f"the table has {len(table)} fields, some of them twice, or cannot be read")
        return 1
    for what, wrong in wrong_tables(table):
        if not compile_(args, include, wrong):
            print(f"a field that is {what} is not found")
            return 1
    complaints = compile_(args, include, table)
    print(complaints or f"{len(table)} fields are as the driver has them")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
