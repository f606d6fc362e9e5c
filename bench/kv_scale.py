#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What the KV costs at scale: N instances (the real kvclient, no NIC) against one redis-server.

A storm of set-ups, then renewals, N rising to what the machine bears; what the server counted, in
requests, bytes and seconds of its CPU; and what that is for a job of 16,384 ranks with 64 queue
pairs each. Clients and server share this machine's cores, so times of the wall say little; the
server's CPU time for a request is what it would be elsewhere, on such a core.
Writes out/bench-kv.json and prints the arithmetic.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

from shiftlab.redis import MANY_CLIENTS, Redis
from shiftlab.results import save

RANKS, QPS = 16384, 64
LEASE_S = 60            # SHIFT_LEASE_MS' default
RENEW_S = LEASE_S / 3   # shiftlib/conn/meet/intro.c: a third of the lease
BUSY = 0.5              # of one core: what a server may be busy without answering late


def difference(after, before):
    return {k: after[k] - before[k] for k in after}


def measure(binary, instances, secret):
    redis = Redis(args=MANY_CLIENTS).start()
    argv = [binary, redis.url, str(instances), str(QPS), "2", "4"]
    try:
        program = subprocess.Popen(argv + ([secret] if secret else []), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        marks = []
        for name in ("storm", "renew", "end"):
            said = program.stdout.readline().strip()
            if said != name:
                raise RuntimeError(f"kv_scale says {said!r}, not {name}")
            marks.append(redis.counters())
            program.stdin.write("\n")
            program.stdin.flush()
        result = json.loads(program.stdout.readline())
        if program.wait() or result["errors"]:
            raise RuntimeError(f"kv_scale failed: {result}")
    finally:
        redis.end()
    qps = instances * QPS
    setup, renew = difference(marks[1], marks[0]), difference(marks[2], marks[1])
    return {**result, "secret": bool(secret), "total_qps": qps,
            "requests_per_qp": setup["commands"] / qps,
            "bytes_in_per_qp": setup["in"] / qps, "bytes_out_per_qp": setup["out"] / qps,
            "setup_cpu_us_per_request": setup["cpu"] / setup["commands"] * 1e6,
            "renew_bytes_per_qp": (renew["in"] + renew["out"]) / (2 * qps),
            "renew_cpu_us_per_request": renew["cpu"] / renew["commands"] * 1e6,
            "memory_per_qp": setup["memory"] / qps}


def extrapolate(m):
    qps = RANKS * QPS
    requests = m["requests_per_qp"] * qps
    cpu_s = requests * m["setup_cpu_us_per_request"] / 1e6
    renewals = qps / RENEW_S
    busy = renewals * m["renew_cpu_us_per_request"] / 1e6
    most = BUSY / (m["renew_cpu_us_per_request"] / 1e6) * RENEW_S
    return {
        "ranks": RANKS, "qps_per_rank": QPS, "qps": qps, "setup_requests": requests,
        "setup_bytes": (m["bytes_in_per_qp"] + m["bytes_out_per_qp"]) * qps,
        "setup_s_of_one_core": cpu_s, "renewals_per_s": renewals, "renewals_of_one_core": busy,
        "renew_bytes_per_s": m["renew_bytes_per_qp"] * renewals,
        "memory_bytes": m["memory_per_qp"] * qps, "connections": RANKS,
        "qps_at_half_a_core": most}


def tell(m, e):
    print(f"\nfrom {m['instances']} instances with {m['qps']} queue pairs each:")
    print(f"  {e['ranks']:,} ranks x {e['qps_per_rank']} = {e['qps']:,} queue pairs")
    print(f"  set-up: x {m['requests_per_qp']:.2f} requests = {e['setup_requests']:,.0f}, "
          f"x {m['setup_cpu_us_per_request']:.1f} us of the server's core = {e['setup_s_of_one_core']:.1f} s; "
          f"{e['setup_bytes'] / 1e9:.2f} GB")
    print(f"  renewals: / {RENEW_S:.0f} s = {e['renewals_per_s']:,.0f} a second, x "
          f"{m['renew_cpu_us_per_request']:.1f} us = {e['renewals_of_one_core'] * 100:.0f} % of one core; "
          f"{e['renew_bytes_per_s'] / 1e6:.1f} MB/s")
    print(f"  memory: x {m['memory_per_qp']:.0f} bytes = {e['memory_bytes'] / 1e9:.2f} GB; "
          f"{e['connections']:,} connections (maxclients is 10,000 by default)")
    print(f"  one server is half busy with the renewals of {e['qps_at_half_a_core']:,.0f} queue pairs")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--out", default="out")
    parser.add_argument("--instances", default="16,64,256,1024,4096")
    args = parser.parse_args()
    binary = os.path.join(os.path.abspath(args.build), "out", "bin", "kv_scale")
    folder = tempfile.mkdtemp(prefix="shift-kv-scale-")
    secret = os.path.join(folder, "secret")
    with open(os.open(secret, os.O_CREAT | os.O_WRONLY, 0o600), "w") as f:
        f.write("0123456789abcdef" * 4 + "\n")
    rows = []
    try:
        for n in (int(x) for x in args.instances.split(",")):
            for with_secret in (None, secret):
                rows.append(measure(binary, n, with_secret))
                m = rows[-1]
                print(f"{n:5} instances, {'with' if m['secret'] else 'no'} secret: all introduced in "
                      f"{m['setup_s']:.2f} s, {m['requests_per_qp']:.2f} requests and "
                      f"{m['bytes_in_per_qp'] + m['bytes_out_per_qp']:.0f} bytes a QP, "
                      f"{m['setup_cpu_us_per_request']:.1f} us of the server each; renewals "
                      f"{2 * m['total_qps'] / m['renew_s']:,.0f}/s, "
                      f"{m['renew_cpu_us_per_request']:.1f} us each; "
                      f"{m['memory_per_qp']:.0f} bytes of memory a QP", flush=True)
    finally:
        shutil.rmtree(folder)
    last = next(r for r in reversed(rows) if r["secret"])
    job = extrapolate(last)
    tell(last, job)
    save(args.out, "bench-kv.json", {"measured": rows, "job": job})
    return 0


if __name__ == "__main__":
    sys.exit(main())
