# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What part of its time a job makes progress: many months of faults, and what is known in closed form."""
import math
import statistics

from clustermodel import faults, inputs, job

SIZES = (1024, 4096, 8192, 16384, 32768, 65536)
SEED = 20261124


# ---- what is known in closed form -----------------------------------------------------------------

def interval(mttf_s, p):
    """Between checkpoints, to first order the best for stock (Young)."""
    return math.sqrt(2 * p.checkpoint_s * mttf_s)


def formula(mttf_s, interval_s, p):
    """Goodput where each fault stops the job, faults of checkpoints and restarts included (Daly 2006, complete)."""
    rate = 1 / mttf_s
    whole = math.exp(rate * p.restart_s) * math.expm1(rate * (interval_s + p.checkpoint_s)) / rate
    return interval_s / whole


def crash_rate(rates, kind, p):
    """Of faults that stop the job; that two meet on one host is not in it."""
    masked = 0 if kind == "stock" else p.masked
    return sum(rate * (1 if name == "other" else 1 - masked) for name, rate in rates.items())


# ---- many of them ---------------------------------------------------------------------------------

def t_975(n):
    """Student's quantile for n - 1 degrees of freedom, to the second order of its expansion."""
    z, v = statistics.NormalDist().inv_cdf(0.975), n - 1
    return z + (z ** 3 + z) / (4 * v) + (5 * z ** 5 + 16 * z ** 3 + 3 * z) / (96 * v * v)


def mean(found):
    """(mean, half of its 95 % interval)"""
    return statistics.mean(found), t_975(len(found)) * statistics.stdev(found) / math.sqrt(len(found))


def size(gpus, runs, p, rates=None, days=30, seed=SEED, kinds=job.KINDS, interval_s=None):
    """A row: each kind of job in `runs` months of the same faults."""
    rates, seconds, hosts = rates or inputs.rates(p), days * inputs.DAY, gpus // p.gpus_per_host
    mttf_s = 1 / (gpus * sum(rates.values()))
    interval_s = interval_s or interval(mttf_s, p)
    months = [faults.draw(seed + i, gpus, seconds, rates, p) for i in range(runs)]
    row = {"gpus": gpus, "mttf_h": mttf_s / inputs.HOUR, "interval_s": interval_s, "days": days, "runs": runs,
           "formula": formula(mttf_s, interval_s, p), "kinds": {}}
    base = None
    for kind in kinds:
        crash_mttf_s = 1 / (gpus * crash_rate(rates, kind, p))
        found = [job.run(kind, month, hosts, seconds, interval_s, crash_mttf_s, p) for month in months]
        base = base or found
        good, ci = mean([r["goodput"] for r in found])
        gain, gain_ci = mean([r["goodput"] - b["goodput"] for r, b in zip(found, base)]) if kind != kinds[0] else (0, 0)
        row["kinds"][kind] = {"goodput": good, "ci": ci, "gain": gain, "gain_ci": gain_ci,
                              **{k: statistics.mean(r[k] for r in found) for k in found[0] if k != "goodput"}}
    return row


def told(row):
    cells = "  ".join(f"{kind} {k['goodput']:.4f}" + (f" ({100 * k['gain']:+.2f} +-{100 * k['gain_ci']:.2f})"
                                                      if k["gain_ci"] else "")
                      for kind, k in row["kinds"].items())
    return f"{row['gpus']:6} GPUs, a fault each {row['mttf_h']:5.2f} h, formula {row['formula']:.4f}: {cells}"
