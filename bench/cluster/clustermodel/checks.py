# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The model of goodput.py held against what others have published, and against what is known in closed form."""
from clustermodel import faults, goodput, inputs, job

TOLERANCE = 0.003           # of goodput, against the closed formula
FIGURE8_TOLERANCE = 0.05    # of the time that was lost: how far its checkpoint was behind is not told
RSC1_TOLERANCE = 0.03       # the published hours have two digits
RAIL_TOLERANCE = 0.01       # flows against the closed form
RUNS = 60                   # months whose mean is within TOLERANCE, if the model is right


def row(what, here, reference, ok, note=""):
    return {"what": what, "here": here, "reference": reference, "ok": ok, "note": note}


def against_formula(gpus, runs, kind="stock", seed=goodput.SEED):
    """One kind of job; of those with backups, where all faults of the network are masked and cost nothing."""
    p = inputs.values(**({} if kind == "stock" else {"masked": 1.0, "exposed": 0.0, "stall_s": 0.0}))
    found = goodput.size(gpus, runs, p, kinds=(kind,), seed=seed)
    mttf_s = 1 / (gpus * goodput.crash_rate(inputs.rates(p), kind, p))
    expected = goodput.formula(mttf_s, found["interval_s"], p)
    here = found["kinds"][kind]["goodput"]
    what = f"{kind}, {gpus:,} GPUs, closed formula" + ("" if kind == "stock" else " of the faults that are left")
    return row(what, here, expected, abs(here - expected) <= TOLERANCE, f"{runs} months from seed {seed}")


def llama(runs):
    """More than 90 % was published; how often it was saved and how long a restart took was not."""
    for interval_s in (600, 900):
        for restart_s in (180, 300):
            p = inputs.values(restart_s=restart_s)
            found = goodput.size(int(p.gpus), runs, p, days=p.days, kinds=("stock",), interval_s=interval_s)
            here = found["kinds"]["stock"]["goodput"]
            yield row(f"Llama 3: effective time, checkpoints each {interval_s} s, restarts of {restart_s} s", here,
                      p.llama_effective, here > p.llama_effective, "more than; both times are assumed")


def figure8():
    """The paper's own run, its one fault at its time: what was lost since the last epoch."""
    p = inputs.values(checkpoint_s=0.0)
    epoch_s = p.figure8_fault_s / p.figure8_epochs
    found = job.run("stock", [faults.Fault(p.figure8_fault_s, "other")], 2, 2 * p.figure8_fault_s, epoch_s,
                        inputs.DAY, p)
    here = found["lost_h"] * inputs.HOUR
    return row("SHIFT's paper, figure 8: work lost, s", here, p.figure8_lost_s,
               abs(here - p.figure8_lost_s) <= FIGURE8_TOLERANCE * p.figure8_lost_s)


def rsc1():
    p = inputs.values()
    for gpus, hours in ((16384, p.rsc1_mttf_16384_h), (131072, p.rsc1_mttf_131072_h)):
        here = 24 * 1000 / (p.rsc1 * gpus / p.gpus_per_host)
        yield row(f"RSC-1: hours between faults of {gpus:,} GPUs", here, hours,
                  abs(here - hours) <= RSC1_TOLERANCE * hours, "arithmetic: that its rate is read right")


def everything(runs):
    found = [against_formula(gpus, runs) for gpus in goodput.SIZES]
    found += [against_formula(gpus, runs, "pair") for gpus in (16384, 65536)]
    return found + list(llama(runs)) + [figure8()] + list(rsc1())
