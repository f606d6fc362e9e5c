#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What UCX loses where it goes by the verbs: ucx_perftest on the software fabric by rc_mlx5 on stock, which writes to the
NIC itself; by rc_verbs on stock; and by rc_verbs under SHIFT, protected. Prints messages per second (the middle of the
rounds) and the instructions of one post of 8 bytes (by callgrind), and writes OUT/bench-ucx.json.

  ucx.py --build DIR [--out DIR] [--rounds N]
"""
import argparse
import glob
import os
import re
import shutil
import statistics
import sys

from shiftlab import apart
from shiftlab.lab import SKIPPED, Lab, Shift, free_port
from shiftlab.results import save

KINDS = {"rc_mlx5": ("rc_x", False), "rc_verbs": ("rc_v", False), "SHIFT rc_verbs": ("rc_v", True)}
TESTS = {"tag_bw 8": ("tag_bw", 8, 200_000), "tag_bw 4096": ("tag_bw", 4096, 50_000), "tag_lat 8": ("tag_lat", 8, 20_000),
         "put_bw 8": ("ucp_put_bw", 8, 200_000)}
COUNTED = ("tag_bw", 8, 20_000)
POSTS = ("uct_rc_mlx5_ep_am_short", "uct_rc_verbs_ep_am_short")
LIMIT_S = 300


def run(lab, kind, test, client_before=()):
    """The client, which has ended."""
    tls, shift = KINDS[kind]
    name, size, count = test
    env = {"UCX_TLS": tls + ",self", "UCX_NET_DEVICES": "mlx5_0:1", "UCX_WARN_UNUSED_ENV_VARS": "n"}
    port, programs = str(free_port()), []
    for i, more in enumerate(((), ("127.0.0.1", "-t", name, "-s", str(size), "-n", str(count), "-w", "10000"))):
        host, label = f"h{i}", f"{name}-{size}-{kind.replace(' ', '-')}-{'client' if i else 'server'}-{len(lab.programs)}"
        argv, full = lab.command(host, [*(client_before if i else ()), "ucx_perftest", "-p", port, *more], label,
                                 Shift(log="info") if shift else None, env)
        programs.append(lab.launch(label, apart.command(lab, host, argv), full))
        if not i:
            programs[0].await_listening()
    for p in reversed(programs):
        if p.wait(LIMIT_S):
            raise RuntimeError(f"{p.name} ended with {p.process.returncode}\n{p.tail()}{lab.shift_log(p)}")
    if shift and not lab.protected(programs[1]):
        raise RuntimeError("the connection was not protected\n" + lab.shift_log(programs[1]))
    return programs[1]


def rate(client):
    final = re.search(r"^Final: .*$", client.out(), re.M).group().split()
    return float(final[-1])


def cost(text, function):
    """(instructions of all calls, calls) of a function and what it calls, in what callgrind wrote."""
    names, called, total, calls, inside = {}, None, 0, 0, False
    for line in text.split("\n"):
        match = re.match(r"cfn=\((\d+)\)(?: (.*))?$", line)
        if match:
            if match.group(2):
                names[match.group(1)] = match.group(2)
            called = names.get(match.group(1))
            continue
        match = re.match(r"fn=\((\d+)\) (.*)$", line)
        if match:
            names[match.group(1)] = match.group(2)
        match = re.match(r"calls=(\d+) ", line)
        if match:
            inside = called == function
            calls += int(match.group(1)) if inside else 0
        elif inside:
            total += int(line.split()[-1])
            inside = False
    return total, calls


def instructions(lab, kind):
    """Of one post, and of what it calls, in the client."""
    path = os.path.join(lab.folder, "callgrind." + kind.replace(" ", "-"))
    run(lab, kind, COUNTED, ("valgrind", "--tool=callgrind", "--fair-sched=yes", f"--callgrind-out-file={path}.%p"))
    for name in glob.glob(path + ".*"):
        with open(name, errors="replace", encoding="utf-8") as f:
            text = f.read()
        for function in POSTS:
            total, calls = cost(text, function)
            if calls >= COUNTED[2]:
                return total / calls
    raise RuntimeError(f"callgrind saw no post by {kind}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--out", default="out")
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    missing = [p for p in ("ucx_perftest", "valgrind") if not shutil.which(p)]
    if missing:
        print(f"SKIP: no {' and no '.join(missing)}; scripts/install-programs.sh installs UCX's tools")
        return SKIPPED
    if apart.missing():
        return apart.skip()
    result = {"rates": {t: {k: [] for k in KINDS} for t in TESTS}, "post": {}}
    with Lab(args.build) as lab:
        apart.begin(lab)
        for _ in range(args.rounds):
            for name, test in TESTS.items():
                for kind in KINDS:
                    result["rates"][name][kind].append(rate(run(lab, kind, test)))
        for kind in KINDS:
            result["post"][kind] = instructions(lab, kind)
    print(f"{'messages per second':24}" + "".join(f"{kind:>18}" for kind in KINDS))
    for name, kinds in result["rates"].items():
        print(f"{name:24}" + "".join(f"{statistics.median(rates):18.0f}" for rates in kinds.values()))
    print(f"{'instructions of a post':24}" + "".join(f"{n:18.1f}" for n in result["post"].values()))
    save(args.out, "bench-ucx.json", result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
