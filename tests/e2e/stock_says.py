#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What stock UCX says when its NIC, port or switch dies: the messages by which docs/troubleshooting.md is found.
Each is said on a software NIC, and stands in that page.

  stock_says.py --build DIR [CASE...]
"""
import os
import re
import shutil
import sys

from shiftlab import apart
from shiftlab.lab import SKIPPED, cases_main, free_port, wait_for
from shiftlab.perftest import Failed

PAGE = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "troubleshooting.md")
ENOUGH = 5000       # packets
SAID_WITHIN_S = 60
VERBS = "send completion with error: transport retry counter exceeded [qpn <n> wrid <n>vendor_err 0x81]"
MLX5 = "Transport retry count exceeded on mlx5_0:1/RoCE (synd 0x15 vend 0x81 hw_synd 0/0)"
DEATH = "IB Async event on mlx5_0: local catastrophic error on port 1"
CASES = {   # UCX's transport, the fault at the client's end, what one of the ends says
    "verbs_port": ("rc_v", "port-down h1/mlx5_0", VERBS),
    "mlx5_port": ("rc_x", "port-down h1/mlx5_0", MLX5),
    "mlx5_switch": ("rc_x", "switch-down rail0", MLX5),
    "verbs_death": ("rc_v", "nic-internal-error h1/mlx5_0", DEATH),
    "mlx5_death": ("rc_x", "nic-internal-error h1/mlx5_0", DEATH),
}


def start(lab, tls):
    env = {"UCX_TLS": tls + ",self", "UCX_NET_DEVICES": "mlx5_0:1", "UCX_WARN_UNUSED_ENV_VARS": "n", "UCX_LOG_FILE": "stderr"}
    programs, port = [], free_port()
    for i, more in enumerate(((), ("127.0.0.1", "-t", "tag_bw", "-s", "4096", "-n", "100000000"))):
        argv, full = lab.command(f"h{i}", ["ucx_perftest", "-p", port, *more], f"p{i}", None, env)
        programs.append(lab.launch(f"p{i}", apart.command(lab, f"h{i}", argv), full))
        if not i:
            programs[0].await_listening()
    return programs


def run(lab, name):
    tls, fault, message = CASES[name]
    with open(PAGE, encoding="utf-8") as f:
        if message not in f.read():
            raise Failed(f"docs/troubleshooting.md does not have: {message}")
    apart.begin(lab)
    programs = start(lab, tls)
    before = lab.carried(0)
    wait_for("traffic", lambda: lab.carried(0) > before + ENOUGH, 60)
    lab.fault(*fault.split())
    form = re.escape(message).replace("<n>", "0x[0-9a-f]+")
    wait_for("the message", lambda: any(re.search(form, p.err()) for p in programs), SAID_WITHIN_S)


if __name__ == "__main__":
    if not shutil.which("ucx_perftest"):
        print("SKIP: no ucx_perftest; scripts/install-programs.sh installs it")
        sys.exit(SKIPPED)
    if apart.missing():
        sys.exit(apart.skip())
    sys.exit(cases_main(CASES, run))
