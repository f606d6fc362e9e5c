#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Draws FOLDER/cluster.json: FOLDER/figures/cluster-NAME.svg and .png, in the look of the other figures.

  draw_cluster.py FOLDER"""
import json
import os
import sys

from draw_figures import draw_to, finish, log_axis, plt, rows_named

DASHES = (0, (3, 1.5))
PLANNED = " (planned)"


def look_of(kind, look):
    """colour, marker, line"""
    return {"stock": (look.stock, "^", "-"), "pair": (look.backup, "s", "-"), "pair-hook": (look.shift, "o", "-"),
            "spread": (look.fault, "v", DASHES), "spread-hook": (look.third, "D", DASHES)}[kind]


def name_of(kind, data):
    words = {"stock": "without SHIFT", "pair": "pair, runs on", "pair-hook": "pair, degraded policy",
             "spread": "spread, runs on", "spread-hook": "spread, degraded policy"}[kind]
    return words + (PLANNED if kind in data["planned"] else "")


def note(fig, look, data, what, more):
    """What it is a model of. Text of one size, at the lower left."""
    about = f"Model, not a measurement; SHIFT {data['about']['shift']} ({data['about']['commit'] or 'no commit'}). "
    fig.text(0.008, 0.012, about + what + "\n" + more, fontsize=6.5, color=look.muted, va="bottom", ha="left",
             linespacing=1.35)


def months(data):
    days = data["goodput"][0]["days"]
    return f"Bars: 95 % of {data['runs']} times {days} days" + (", too few to tell." if data["quick"] else ".")


# ---- goodput --------------------------------------------------------------------------------------

def by_size(axes, data, look, key, ci, kinds, scale):
    rows = data["goodput"]
    x = [r["gpus"] for r in rows]
    for kind in kinds:
        color, marker, line = look_of(kind, look)
        y = [scale * r["kinds"][kind][key] for r in rows]
        half = [scale * r["kinds"][kind][ci] for r in rows]
        axes.errorbar(x, y, half, color=color, marker=marker, markersize=4.5, linestyle=line, linewidth=1.3,
                      capsize=2.5, label=name_of(kind, data))
    axes.set_xscale("log")
    log_axis(axes.xaxis, x)
    axes.tick_params(axis="x", labelrotation=30)
    axes.set_xlabel("GPUs of the job")


def draw_goodput(data, look):
    kinds = list(data["goodput"][0]["kinds"])
    fig, (a, b) = plt.subplots(1, 2, figsize=(7.6, 3.9))
    by_size(a, data, look, "goodput", "ci", kinds, 100)
    a.set_title("goodput, % of the time")
    by_size(b, data, look, "gain", "gain_ci", kinds[1:], 100)
    b.axhline(0, color=look.ink, linewidth=0.9)
    b.set_title("gain over stock, points")
    note(fig, look, data, months(data), "Each kind through the same faults, at Llama 3's rates; checkpoints by Young's "
         "formula for stock.")
    handles, labels = a.get_legend_handles_labels()
    fig.legend(handles, labels, loc="upper left", ncol=3, bbox_to_anchor=(0.0, 1.0), borderaxespad=0.3,
               handlelength=2.2, columnspacing=1.6)
    finish(fig, top=0.45)
    return fig


def draw_sensitivity(data, look):
    rows = data["sensitivity"]
    kinds = [kind for kind in rows[0]["kinds"] if kind != "stock"]
    fig, axes = plt.subplots(figsize=(7.6, 0.34 * len(rows) + 1.5))
    for k, kind in enumerate(kinds):
        color, marker, _ = look_of(kind, look)
        y = [i + 0.17 * (k - (len(kinds) - 1) / 2) for i in range(len(rows))]
        axes.errorbar([100 * r["kinds"][kind]["gain"] for r in rows], y,
                      xerr=[100 * r["kinds"][kind]["gain_ci"] for r in rows], color=color, marker=marker, markersize=4,
                      linestyle="none", linewidth=1.1, label=name_of(kind, data))
    axes.axvline(0, color=look.ink, linewidth=0.9)
    rows_named(axes, [f"{r['what']} ({100 * r['kinds']['stock']['goodput']:.1f})" for r in rows])
    axes.set_xlabel("gain over stock, points of goodput (in brackets: stock's goodput, %)")
    note(fig, look, data, f"{rows[0]['gpus']:,} GPUs. {months(data)}",
         "What the first row assumes is in bench/cluster/inputs.json, each value with its source.")
    finish(fig, axes.get_legend_handles_labels())
    return fig


# ---- a shared NIC ---------------------------------------------------------------------------------

def draw_shared(data, look):
    hosts = min(r["hosts"] for r in data["rail"])
    fig, axes = plt.subplots(figsize=(6.4, 3.2))
    lines = (("pair", "one NIC", "pair: one NIC, or two, or a rail switch dead", look.backup, "s", "-"),
             ("spread", "two NICs of one host", "spread: two NICs of one host dead", look.fault, "v", DASHES),
             ("spread", "one NIC", "spread: one NIC, or a rail switch dead", look.third, "D", DASHES))
    for backup, dead, label, color, marker, line in lines:
        rows = [r for r in data["rail"] if (r["backup"], r["dead"], r["hosts"]) == (backup, dead, hosts)]
        axes.plot([r["qps"] for r in rows], [r["factor"] for r in rows], color=color, marker=marker, markersize=5,
                  linestyle=line, label=label)
    axes.axhline(8 / 7, color=look.muted, linewidth=0.8, linestyle=(0, (1, 2)), label="8/7")
    axes.set_xscale("log")
    log_axis(axes.xaxis, sorted({r["qps"] for r in data["rail"]}))
    axes.set_ylim(1, 2.9)
    axes.set_xlabel("queue pairs between a NIC and its peer")
    axes.set_title("a step's communication, healthy = 1")
    axes.legend(loc="upper right")
    note(fig, look, data, f"Flows (SimGrid) of a ring of {hosts} hosts with 8 rails.",
         "256 hosts: the same. A queue pair is not split, so few of them cannot be spread evenly.")
    finish(fig)
    return fig


# ---- storms ---------------------------------------------------------------------------------------

def storm_lines(axes, rows, x, y, looks, chosen):
    """Filled where something was measured, hollow beyond."""
    for (label, wanted), (color, marker) in zip(chosen, looks):
        found = [r for r in rows if all(r[key] == value for key, value in wanted.items())]
        axes.plot([r[x] for r in found], [r[y] for r in found], color=color, linewidth=1.3, label=label)
        for r in found:
            axes.plot([r[x]], [r[y]], color=color, marker=marker, markersize=4.5,
                      fillstyle="none" if r["extrapolated"] else "full")
    axes.set_xscale("log")
    log_axis(axes.xaxis, sorted({r[x] for r in rows}))
    axes.tick_params(axis="x", labelrotation=40)


def by_hosts(axes, storm, look, y, qps):
    nearest = [{**r, "about": min(qps, key=lambda n, r=r: abs(n - r["qps"]))} for r in storm["hosts"]]
    looks = ((look.shift, "o"), (look.third, "D"), (look.backup, "s"), (look.fault, "v"))
    chosen = [(f"{n:,} queue pairs, {words}", {"about": n, "pattern": "ring", "fault": fault}) for n in qps
              for fault, words in (("switch", "port down"), ("silent", "silent"))]
    storm_lines(axes, nearest, "hosts", y, looks, chosen)
    axes.set_xlabel("hosts whose rail dies")


def by_qps(axes, storm, look, y):
    looks = ((look.shift, "o"), (look.backup, "s"), (look.third, "D"))
    chosen = [("free commands", {"command_us": 0}), ("commands of 100 us", {"command_us": 100, "own_cores": False}),
              ("... and cores of their own", {"command_us": 100, "own_cores": True})]
    storm_lines(axes, storm["qps"], "qps", y, looks, chosen)
    axes.set_xlabel("queue pairs of a NIC (16 hosts)")


def measured_times(axes, storm, look):
    axes.plot([r["qps"] for r in storm["fit"]], [r["ms"] for r in storm["fit"]], color=look.ink, marker="x",
              markersize=5.5, linestyle="none", label="measured (2 hosts)")


def draw_storm(data, look):
    storm = data["storm"]
    fig, ((a, b), (c, d)) = plt.subplots(2, 2, figsize=(7.6, 5.8))
    by_hosts(a, storm, look, "since_fault_ms", (64, 1024))
    a.set_ylim(0, 900)
    a.set_title("ms from the fault until all flow again")
    a.legend(loc="upper left", fontsize=7)
    by_qps(b, storm, look, "ms")
    measured_times(b, storm, look)
    b.set_yscale("log")
    log_axis(b.yaxis)
    b.set_title("ms from the first notice until all flow again")
    b.legend(loc="upper left", fontsize=7)
    by_hosts(c, storm, look, "messages", (64, 1024))
    c.set_yscale("log")
    log_axis(c.yaxis)
    c.set_title("messages of all hosts")
    by_qps(d, storm, look, "messages_per_qp")
    d.set_ylim(0, 16)
    d.set_title("messages of a connection")
    worst = max(abs(r["error"]) for r in storm["fit"])
    note(fig, look, data, "The real core of each end, in virtual time.", "Costs fitted to bench/scale.py, 2 hosts, off "
         f"by {100 * worst:.0f} % at most. Ring, commands of 100 us unless said. Hollow: extrapolated.")
    finish(fig)
    return fig


FIGURES = {"goodput": ("goodput", draw_goodput), "sensitivity": ("sensitivity", draw_sensitivity),
           "shared": ("rail", draw_shared), "storm": ("storm", draw_storm)}


def main():
    folder = sys.argv[1]
    with open(os.path.join(folder, "cluster.json"), encoding="utf-8") as f:
        data = json.load(f)
    os.makedirs(os.path.join(folder, "figures"), exist_ok=True)
    drawn = 0
    for name, (part, make) in FIGURES.items():
        if data[part]:
            draw_to(folder, "cluster-" + name, make, data)
            drawn += 1
        else:
            print(f"{name}: {part} was left out, not drawn")
    print(f"{drawn} figures drawn into {folder}/figures")
    return 0


if __name__ == "__main__":
    sys.exit(main())
