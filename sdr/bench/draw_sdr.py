#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Draws FOLDER/sdr-model.json, and what was measured beside RC, FOLDER/sdr.json, and of senders that share a link,
FOLDER/sdr-rate.json, whichever is there: FOLDER/figures/sdr-NAME.svg and .png, in
the look of the other figures.

  draw_sdr.py FOLDER"""
import json
import os
import sys

from draw_figures import draw_to, finish, footer, log_axis, plt

MARKERS = "osD^v"
NOTE = "4 KiB chunks and packets, 400 Gbit/s, 25 ms, RTO three round trips, exact distributions unless said."


def colors(look):
    return look.shift, look.backup, look.third, look.fault, look.stock


def lines(axes, named, look, dashed=()):
    for i, (name, points) in enumerate(named.items()):
        xs, ys = zip(*points)
        axes.plot(xs, ys, color=colors(look)[i % 5], linestyle=(0, (3, 1.5)) if name in dashed else "-", label=name)


def panel(axes, named, look, x, y, title, logy=False, published=None):
    lines(axes, named, look)
    axes.set_xscale("log")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title)
    if logy:
        axes.set_yscale("log")
        log_axis(axes.yaxis)
    for value, word in published or ():
        axes.axhline(value, color=look.muted, linewidth=0.8, linestyle=(0, (1, 2)))
        axes.annotate(word, (0.01, value), xycoords=("axes fraction", "data"), fontsize=6.5, color=look.muted, va="bottom")


def note(fig, look, text):
    fig.text(0.008, 0.012, NOTE + "\n" + text, fontsize=6.5, color=look.muted, va="bottom", ha="left", linespacing=1.35)


def draw_slowdown(data, look):
    fig, (a, b, c) = plt.subplots(1, 3, figsize=(9.6, 3.3))
    s = data["series"]
    panel(a, s["3a"], look, "MiB, loss 1e-5", "mean over lossless", "by size (Figure 3a)", published=[(2.5, "published: axis to 2.5")])
    panel(b, s["3b"], look, "km, 8 GiB, loss 1e-5", "", "by distance (3b)", published=[(1.6, "axis to 1.6")])
    panel(c, s["3c"], look, "loss, 128 MiB", "", "by loss (3c)", published=[(3, "3 to"), (10, "10 above 1e-4")])
    note(fig, look, "Dotted: what the paper's figures name. Hybrid is not in the paper.")
    finish(fig, a.get_legend_handles_labels())
    return fig


def draw_gain(data, look):
    fig, (a, b) = plt.subplots(1, 2, figsize=(9.6, 3.6))
    points = data["series"]["9"]["mean"]
    xs, ys = sorted({p[0] for p in points}), sorted({p[1] for p in points})
    value = {(p[0], p[1]): p[2] for p in points}
    marks = a.contour(xs, ys, [[value[x, y] for x in xs] for y in ys], levels=(1, 1.5, 2, 3, 4, 5, 6),
                      colors=[look.fault, *[look.shift] * 6], linewidths=1.1)
    a.clabel(marks, fontsize=7, fmt="%g")
    a.set_xscale("log")
    a.set_yscale("log")
    log_axis(a.yaxis)
    a.set_xlabel("loss")
    a.set_ylabel("MiB")
    a.set_title("mean of SR over EC(32,8) (Figure 9; published: up to 6.5)")
    panel(b, data["series"]["12"], look, "km, 8 GiB, loss 1e-5", "mean of SR over EC", "by distance and rate (12)")
    b.axhline(1, color=look.ink, linewidth=0.9)
    b.legend(loc="upper left")
    note(fig, look, "Along the line of 1 both take the same time.")
    finish(fig)
    return fig


def draw_schemes(data, look):
    fig, (a, b, c) = plt.subplots(1, 3, figsize=(9.6, 3.4))
    tail = {n.split(",")[0] + ("" if n.count(",") == 1 else "," + n.split(",")[1]): p
            for n, p in data["series"]["10a"].items() if n.endswith("p99.9")}
    panel(a, tail, look, "MiB, loss 1e-5", "p99.9 over lossless", "tails by size (Figure 10a)")
    a.legend(loc="upper right")
    panel(b, data["series"]["10d"], look, "loss, 128 MiB", "mean over lossless", "codes (10d)", logy=True)
    b.legend(loc="upper left")
    panel(c, data["series"]["11"], look, "loss, 128 MiB, (32,8)", "falls back", "XOR and MDS (11)")
    c.legend(loc="upper left")
    note(fig, look, "Published: XOR falls back at ~1e-3, MDS beyond 1e-2; the readings are in sdr-model.json.")
    finish(fig)
    return fig


def draw_ring(data, look):
    named = {"by loss, 4 sites": [], "by sites, loss 0.01": []}
    for r in data["rows"]:
        if r["figure"] == "13":
            sites = int(r["what"].split()[2].rstrip(","))
            loss = float(r["what"].split("loss ")[1].split(":")[0])
            if sites == 4:
                named["by loss, 4 sites"].append([loss, r["here"]])
            if loss == 0.01:
                named["by sites, loss 0.01"].append([sites, r["here"]])
    fig, grid = plt.subplots(1, 2, figsize=(7.2, 3.0), sharey=True)
    for axes, (name, points), x in zip(grid, named.items(), ("loss", "sites")):
        xs, ys = zip(*sorted(points))
        axes.plot(xs, ys, color=look.shift, marker="o", markersize=5)
        axes.set_xscale("log")
        axes.set_xlabel(x)
        axes.set_title(name)
    log_axis(grid[1].xaxis, [2, 4, 8, 16])
    grid[0].set_ylim(bottom=0)
    grid[0].set_ylabel("p99.9 of SR over EC(32,8)")
    note(fig, look, f"Ring all-reduce of 128 MiB (Figure 13; published: 3 to more than 6, rising). Seed {data['seed']}.")
    finish(fig)
    return fig


def draw_against(data, look):
    """How long a Write takes in the mean, by RC and by SDR, in turns over the same link."""
    fig, axes = plt.subplots(figsize=(7.2, 2.9))
    rows = sorted(data["rows"], key=lambda row: row["ratio"])
    for place, row in enumerate(rows):
        for offset, ms, color, name in ((0.2, row["rc_ms"], look.stock, "RC"), (-0.2, row["sdr_ms"], look.shift, "SDR")):
            axes.barh(place + offset, ms / 1e3, height=0.36, color=color, label=None if place else name)
        axes.annotate(f"{row['ratio']:.2g} times" if row["ratio"] < 10 else f"{row['ratio']:.0f} times", (row["rc_ms"] / 1e3, place + 0.2),
                      xytext=(4, 0), textcoords="offset points", va="center", fontsize=8, color=look.ink)
    axes.set_yticks(range(len(rows)), [row["what"].split(", ", 1)[1] for row in rows])
    axes.grid(False, axis="y")
    axes.set_xlabel("seconds of a Write, mean")
    axes.margins(x=0.12)
    footer(fig, data["about"], look, f"{data['rate_gbps']:g} Gbit/s, round trip {data['rtt_ms']:g} ms; "
           f"{', '.join(str(row['writes']) for row in rows)} Writes, in turns with RC's; seed {data['seed']}")
    finish(fig, axes.get_legend_handles_labels())
    return fig


def draw_rate(data, look):
    """The parts of a link that senders take, second by second."""
    fig, grid = plt.subplots(1, 3, figsize=(9.6, 3.0), sharey=True)
    names = {"alone": ("SDR",), "tcp": ("SDR", "as TCP Reno"), "self": ("SDR", "SDR, 10 s later")}
    for axes, (case, title) in zip(grid, (("alone", "alone"), ("tcp", "beside a flow of TCP"), ("self", "beside its like"))):
        for flow, name in enumerate(names[case]):
            xs, ys = zip(*((line[0], line[2]) for line in data["traces"][case] if line[1] == flow))
            color = look.stock if "TCP" in name else (look.shift, look.backup)[flow]
            axes.plot(xs, ys, color=color, linewidth=0.9, label=name)
        axes.set_xlabel("seconds")
        axes.set_title(title)
    grid[0].set_ylabel("part of the link")
    grid[0].set_ylim(0, 1.05)
    handles = {label: handle for axes in grid for handle, label in zip(*axes.get_legend_handles_labels())}
    footer(fig, data["about"], look, f"Simulated packet by packet; each picture is a link that was drawn from seed {data['seed']}")
    finish(fig, (list(handles.values()), list(handles)))
    return fig


FIGURES = {"slowdown": draw_slowdown, "gain": draw_gain, "schemes": draw_schemes, "ring": draw_ring}
SOURCES = {"sdr-model.json": FIGURES, "sdr.json": {"against": draw_against}, "sdr-rate.json": {"rate": draw_rate}}


def main():
    folder = sys.argv[1]
    drawn = 0
    os.makedirs(os.path.join(folder, "figures"), exist_ok=True)
    for source, figures in SOURCES.items():
        path = os.path.join(folder, source)
        if not os.path.exists(path):
            continue
        with open(path, encoding="utf-8") as f:
            data = json.load(f)
        for name, make in figures.items():
            draw_to(folder, "sdr-" + name, make, data)
            drawn += 1
    print(f"{drawn} figures drawn into {folder}/figures")
    return 0 if drawn else 1


if __name__ == "__main__":
    sys.exit(main())
