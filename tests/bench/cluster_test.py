#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The models of bench/cluster: single faults, whose outcome is worked out by hand; many, against the closed formula;
loads of rails from flows, against the closed form; storms of the real core, against what was measured.

  cluster_test.py [--build DIR] [--seed S]

Runs by the Python of DIR/cluster, which scripts/install-cluster.sh makes; without it, it is skipped."""
import argparse
import json
import os
import subprocess
import sys

SKIPPED = 77
RAIL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bench/cluster/rail.py")
RAIL_HOSTS = 16
STORM_TOLERANCE = 0.3       # make bench-cluster holds storm.WITHIN; here, that the core has not left its costs behind
MESSAGES = (4, 16)          # of a connection, least and most; about 8 are measured
IN_CLUSTER = "SHIFT_CLUSTER_TEST"


def check(truth, what):
    if not truth:
        raise SystemExit("FAILED: " + what)


def near(found, expected, what, tolerance=1e-3):
    check(abs(found - expected) <= tolerance, f"{what}: {found:.6f}, not {expected:.6f}")


# ---- single faults --------------------------------------------------------------------------------

HOSTS = 16
INTERVAL_S = 600.0


def one(kind, *found, until, mttf_s=1e9, **other):
    """A job that saves each 620 s of no fault, restarts take 100 s, announced ones 50 s, stalls 1 s."""
    p = inputs.values(**{"checkpoint_s": 20.0, "restart_s": 100.0, "announced_s": 50.0, "stall_s": 1.0,
                         "exposed": 0.15, "outage_s": 10.0, **other})
    result = job.run(kind, list(found), HOSTS, until, INTERVAL_S, mttf_s, p)
    return {**result, "saved_s": result["goodput"] * until, "lost_s": result["lost_h"] * inputs.HOUR}


def nic(at, rail=3, hosts=range(1), **other):
    return faults.Fault(at, "nic", hosts, rail, **{"maskable": True, **other})


def crash(at):
    return faults.Fault(at, "other")


def saves_between(low, high, kind, *found, n, **other):
    """The n-th checkpoint is complete between the two instants."""
    near(one(kind, *found, until=low, **other)["saved_s"], (n - 1) * INTERVAL_S, f"saved at {low}")
    near(one(kind, *found, until=high, **other)["saved_s"], n * INTERVAL_S, f"saved at {high}")


def stopped():
    saves_between(619, 621, "stock", n=1)
    saves_between(1719, 1721, "stock", crash(1000), n=2)            # 620; lost 380; 1000 + 100 + 620
    near(one("stock", crash(1000), until=1500)["lost_s"], 380, "lost")
    saves_between(1769, 1771, "stock", crash(1000), crash(1050), n=2)   # the restart begins anew
    near(one("stock", crash(610), until=700)["lost_s"], 600, "lost in a checkpoint")
    near(one("stock", nic(1000), until=1500)["lost_s"], 380, "lost: stock masks nothing")
    near(one("pair", nic(1000, maskable=False), until=1500)["lost_s"], 380, "lost: not maskable")


def masked():
    saves_between(695.5, 696.5, "pair", nic(100), n=1)      # a stall of 1 s, 500 s at 1 / 1.15, a checkpoint
    saves_between(639, 640, "spread", nic(100), n=1)        # ... at 1 / (1 + 0.15 x 0.25)
    saves_between(623, 624, "pair", nic(100, heals_after=21.0), n=1)    # 20 s of them slow: 2.6 s longer
    check(one("pair", nic(100), until=700)["crashes"] == 0, "a masked fault stopped the job")


def second_fault():
    check(one("pair", nic(100), nic(200, rail=2), until=700)["crashes"] == 1, "both of a pair are dead, and it lives")
    check(one("pair", nic(100), nic(200, rail=2, hosts=range(1, 2)), until=700)["crashes"] == 1,
          "a mate at the neighbour is dead, and it lives")
    check(one("pair", nic(100), nic(200, rail=2, hosts=range(5, 6)), until=700)["crashes"] == 0, "mates far apart")
    check(one("pair", nic(100), nic(200, rail=5), until=700)["crashes"] == 0, "other pairs")
    check(one("spread", nic(100), nic(200, rail=2), until=700)["crashes"] == 0, "six are left, and it does not live")
    dead = [nic(100 + rail, rail=rail) for rail in range(8)]
    check(one("spread", *dead[:7], until=700)["crashes"] == 0, "one is left, and it does not live")
    check(one("spread", *dead, until=700)["crashes"] == 1, "none is left, and it lives")


def policy():
    check(one("pair", nic(100), until=800)["announced"] == 0, "stops without the policy")
    check(one("pair-hook", nic(100), until=800)["announced"] == 1, "does not stop, though it pays")
    near(one("pair-hook", nic(100), until=800)["lost_s"], 0, "lost by an announced stop")
    # a crash in the announced restart at 696 s costs a whole one: 720 + 100 + 620
    saves_between(1439, 1441, "pair-hook", nic(100), crash(720), n=2)
    check(one("pair-hook", nic(100), until=800, mttf_s=300)["announced"] == 0, "stops, though it does not pay")
    check(one("pair-hook", nic(605), until=640)["announced"] == 0, "stops at once, though it may heal")
    check(one("pair-hook", nic(100, heals_after=60.0), until=800)["announced"] == 0, "stops for what has healed")


# ---- many -----------------------------------------------------------------------------------------

def formula(seed):
    for gpus, kind in ((4096, "stock"), (65536, "stock"), (16384, "pair")):
        row = checks.against_formula(gpus, checks.RUNS, kind, seed)
        check(row["ok"], f"{row['what']}: {row['here']:.4f}, not {row['reference']:.4f} ({row['note']})")
        print(f"ok     {row['what']}: {row['here']:.4f}, {row['reference']:.4f}")
    # the tolerance sees it if 15 s of each restart were left out
    p = inputs.values()
    apart = abs(goodput.formula(2785, 333, inputs.values(restart_s=p.restart_s - 15)) - goodput.formula(2785, 333, p))
    check(apart > checks.TOLERANCE, f"15 s of a restart make {apart:.4f}: the tolerance sees nothing")


def paper():
    row = checks.figure8()
    check(row["ok"], f"{row['what']}: {row['here']:.0f}, not {row['reference']:.0f}")


# ---- rails ----------------------------------------------------------------------------------------

def rails():
    try:
        from clustermodel import rail
    except ImportError as missing:
        print(f"skipped: loads of rails ({missing}): scripts/install-cluster.sh gets SimGrid")
        return
    rows = rail.measure(RAIL_HOSTS, [1, 8, 64], inputs.values().nics)
    for row in rows:
        near(row["factor"], row["closed"], f"{row['backup']}, {row['qps']} queue pairs, {row['dead']}",
             checks.RAIL_TOLERANCE)
        if row["backup"] == "pair" and row["dead"] != "healthy":
            near(row["factor"], 2.0, f"pair, {row['dead']}", checks.RAIL_TOLERANCE)
    argv = [sys.executable, RAIL, "--json", "--hosts", "2", "--nics", "4", "--qps", "8,24"]
    few = json.loads(subprocess.run(argv, capture_output=True, check=True).stdout)
    for row in few:
        near(row["factor"], row["closed"], f"4 NICs, {row['backup']}, {row['qps']} queue pairs, {row['dead']}",
             checks.RAIL_TOLERANCE)
    check(any(r["backup"] == "spread" and r["qps"] == 24 and abs(r["factor"] - 4 / 3) < 0.01 for r in few),
          "4 NICs: one dead of four does not cost a third")
    print(f"ok     {len(rows) + len(few)} loads of rails from flows")


# ---- storms ---------------------------------------------------------------------------------------

def asking(build, p):
    """An end asks its peer before it leaves: one message there and one back, and no connection stays behind."""
    costs = {**p.storm_costs, "late": 0}
    asked, unasked = (storm.run(build, costs, 4000, hosts=2, channels=1, fault="nic", unasked=n)["ms"] for n in (0, 1))
    there_and_back = 2 * costs["latency"] / 1e6
    check(there_and_back <= asked - unasked <= 2 * there_and_back, f"to ask takes {asked - unasked:.2f} ms")


def storms(build):
    p = inputs.values()
    for row in storm.errors(build, p.storm_costs, storm.points(p.scale), p):
        check(abs(row["error"]) < STORM_TOLERANCE,
              f"{row['qps']} queue pairs, commands of {row['command_us']} us: {row['model_ms']:.1f} ms, measured "
              f"{row['ms']:.1f}: has the core changed? bench/cluster/storm.py --fit finds costs for inputs.json")
    asking(build, p)
    few, many = (storm.storm(build, p.storm_costs, hosts, "ring", 64, p) for hosts in (4, 32))
    check(many["connections"] == 8 * few["connections"], "connections of a ring")
    near(many["ms"], few["ms"], "ms of 32 hosts, each busy with its own NIC", 0.25 * few["ms"])
    one = storm.storm(build, p.storm_costs, 4, "ring", 256, p)
    check(one["ms"] > 2 * few["ms"], "four times as many queue pairs take no longer")
    for row in (few, many, one):
        check(MESSAGES[0] <= row["messages_per_qp"] <= MESSAGES[1], f"{row['messages_per_qp']} messages a connection")
    lossy = storm.storm(build, p.storm_costs, 4, "ring", 64, p, drop_permille=200)
    check(lossy["ms"] > few["ms"] and lossy["messages"] > few["messages"], "lost messages cost nothing")
    same = storm.storm(build, p.storm_costs, 4, "ring", 64, p, drop_permille=200)
    check(same == lossy, "a seed does not replay")
    print("ok     storms")


def run(args):
    for name, row in inputs.rows().items():
        check(row["source"] and row["kind"] in inputs.KINDS, f"{name} has no source")
    for case in (stopped, masked, second_fault, policy, paper):
        case()
        print("ok     " + case.__name__)
    formula(args.seed or goodput.SEED)
    rails()
    storms(args.build)
    return 0


# ---- by which Python ------------------------------------------------------------------------------

def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build")
    p.add_argument("--seed", type=int)
    args = p.parse_args()
    if os.environ.get(IN_CLUSTER):
        return run(args)
    python = os.path.join(args.build, "cluster", "bin", "python")
    if subprocess.run([python if os.path.exists(python) else sys.executable, "-c", "import simpy"],
                      stderr=subprocess.DEVNULL, check=False).returncode:
        print(f"skipped: no SimPy in {args.build}/cluster: scripts/install-cluster.sh gets it")
        return SKIPPED
    return subprocess.run([python, os.path.abspath(__file__), *sys.argv[1:]], check=False,
                          env={**os.environ, IN_CLUSTER: "1"}).returncode


if os.environ.get(IN_CLUSTER):
    from clustermodel import checks, faults, goodput, inputs, job, storm
if __name__ == "__main__":
    sys.exit(main())
