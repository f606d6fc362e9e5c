#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What shiftctl doctor says of LL128: it is safe where each backup is as near to the GPUs as the default NIC is. Four NICs, of which
none, one, two or four share a PCIe switch, each with a GPU beside it.

  gpus.py --build DIR [CASE...]
"""
import os
import re
import subprocess
import sys

from shiftlab.lab import cases_main
from shiftlab.perftest import Failed

NICS, SKIPPED = 4, 77
SET = "NCCL_PROTO=^LL128"
# GPUs: cards with one below a switch. too_far: for each default NIC, the backup that is named; all others are near enough.
CASES = {
    "no_gpus": {"backup": "pair"},
    "apart": {"gpus": 1, "backup": "pair", "too_far": {0: 1, 1: 0, 2: 3, 3: 2}},
    "pairs": {"gpus": 2, "backup": "pair", "too_far": {}},
    "pairs_crossed": {"gpus": 2, "backup": "mlx5_0=mlx5_2,mlx5_1=mlx5_0", "too_far": {0: 2}},
    "pairs_spread": {"gpus": 2, "backup": "spread", "too_far": {0: 2, 1: 2, 2: 0, 3: 0}},
    "second_backup": {"gpus": 2, "backup": "mlx5_0=mlx5_1:mlx5_3", "too_far": {0: 3}},
    "all": {"gpus": 4, "backup": "spread", "too_far": {}},
    "auto_takes_near_ones": {"gpus": 2, "backup": "auto", "memlock": 4 << 20, "too_far": {}},
}


def doctor(lab, case):
    argv, env = lab.command("h0", [os.path.join(lab.out, "bin", "shiftctl"), "doctor"], "shiftctl",
                            env={"SHIFT_KV": lab.kv, "SHIFT_BACKUP": case["backup"]})
    if "memlock" in case:
        argv = ["prlimit", f"--memlock={case['memlock']}:{case['memlock']}", "setpriv", "--bounding-set", "-ipc_lock",
                "--inh-caps", "-ipc_lock", *argv]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)
    lines = [line for line in done.stdout.splitlines() if re.match(r"LL128\b", line)]
    if not lines and "gpus" in case:
        raise Failed(f"no word of LL128: {done.stdout}{done.stderr}")
    return lines


def run(lab, name):
    case = CASES[name]
    lines = doctor(lab, case)
    if "gpus" not in case:
        if lines:
            raise Failed(f"there is no GPU: {lines}")
        return
    said = {int(nic): int(far) for far, nic in re.findall(
        r"mlx5_(\d) is not below one PCIe switch with the GPUs of mlx5_(\d): " + re.escape(SET), "\n".join(lines))}
    if said != case["too_far"]:
        raise Failed(f"too far are {case['too_far']}, and doctor says {said}: {lines}")
    if bool(said) == any("safe on this host" in line for line in lines):
        raise Failed(f"the summary contradicts: {lines}")


if __name__ == "__main__":
    if os.geteuid():
        print("gpus: skipped, as only root can set all these limits")
        sys.exit(SKIPPED)
    sys.exit(cases_main(CASES, run, nics=NICS, of_case=lambda name: {"gpus": CASES[name].get("gpus")}))
