#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Draws what the benchmarks have left in a folder: FOLDER/figures/NAME.svg and NAME.png.

  draw_figures.py FOLDER [NAME...]

Backgrounds are transparent. The SVG has the colours of a light or of a dark page, by what the page is; the PNG
those of a light one. Results that are not there are said and left
out; without any, or of a figure that was asked for by name, it fails."""
import argparse
import io
import json
import os
import statistics
import sys
import typing

import matplotlib

from draw_dashboard import draw_dashboard
from page_svg import page_svg

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.ticker import FuncFormatter, NullFormatter  # noqa: E402

MISSING_FILES = 2
LEGEND_ROOM = 12    # so many times as high as its highest value is an axis under a legend


class Look(typing.NamedTuple):
    """Colours that the colour-blind tell apart (after Okabe and Ito), for one kind of page."""
    ink: str
    muted: str
    grid: str
    shift: str
    backup: str
    stock: str
    fault: str
    third: str


LIGHT = Look("#1f2328", "#59636e", "#d1d9e0", "#0072b2", "#e69f00", "#6e7781", "#d55e00", "#009e73")
DARK = Look("#e6edf3", "#9198a1", "#3d444d", "#56b4e9", "#f0b83f", "#9ea7b3", "#ff8a5b", "#3fc89b")


def style(look):
    plt.rcdefaults()
    plt.rcParams.update({
        "font.size": 9, "axes.titlesize": 9, "axes.titlelocation": "left", "axes.labelsize": 9,
        "xtick.labelsize": 8, "ytick.labelsize": 8, "legend.fontsize": 8, "legend.frameon": False,
        "text.color": look.ink, "axes.labelcolor": look.ink, "axes.titlecolor": look.ink,
        "axes.edgecolor": look.muted, "xtick.color": look.muted, "ytick.color": look.muted,
        "xtick.labelcolor": look.ink, "ytick.labelcolor": look.ink, "grid.color": look.grid,
        "grid.linewidth": 0.6, "axes.grid": True, "axes.axisbelow": True, "axes.spines.top": False,
        "axes.spines.right": False, "axes.linewidth": 0.7, "lines.linewidth": 1.6,
        "figure.facecolor": "none", "axes.facecolor": "none", "savefig.facecolor": "none",
        "svg.fonttype": "path", "figure.dpi": 100})


# ---- parts of pictures ----------------------------------------------------------------------------

def number(value, _=None):
    """1,024; 0.5; 12"""
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:g}"


def log_axis(axis, ticks=None):
    """Ticks that are numbers, not powers."""
    axis.set_major_formatter(FuncFormatter(number))
    axis.set_minor_formatter(NullFormatter())
    if ticks:
        axis.set_ticks(ticks)


def quartiles(values):
    if len(values) < 2:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def spread(axes, y, values, color, marker="o", **more):
    """A row: from the least to the most, thicker between the quartiles, a point at the median."""
    low, high = quartiles(values)
    axes.plot([min(values), max(values)], [y, y], color=color, linewidth=1, solid_capstyle="butt")
    axes.plot([low, high], [y, y], color=color, linewidth=4, alpha=0.45, solid_capstyle="butt")
    axes.plot([statistics.median(values)], [y], color=color, marker=marker, markersize=5.5,
              linestyle="none", **more)


def rows_named(axes, names):
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)


def times(n, what="run"):
    return f"{n} {what}{'' if n == 1 else 's'}"


def footer(fig, about, look, runs):
    """On what it was taken. Text of one size, at the lower left."""
    lines = (f"{about['cpu']}, {about['cores']} cores, Linux {about['kernel']}; SHIFT {about['shift']} "
             f"({about['commit'] or 'no commit'}), rdma-core {about['rdma_core'] or '?'}; {about['when']}",
             f"{about['device']}. {runs}")
    fig.text(0.008, 0.012, "\n".join(lines), fontsize=6.5, color=look.muted, va="bottom", ha="left",
             linespacing=1.35)


def finish(fig, legend=None, top=0.0):
    """Room for the footer below, and for a legend above."""
    height = fig.get_figheight()
    if legend:
        fig.legend(*legend, loc="upper left", ncol=len(legend[1]), bbox_to_anchor=(0.0, 1.0),
                   borderaxespad=0.3, handlelength=1.6, columnspacing=1.6)
        top += 0.28
    fig.tight_layout(rect=(0, 0.29 / height, 1, 1 - top / height), w_pad=1.6, h_pad=1.2)


# ---- throughput through faults --------------------------------------------------------------------

def throughput_panel(axes, panel, look):
    run, stock = panel["shift"], panel["stock"]
    first, second = run["gbps"]["mlx5_0"], run["gbps"]["mlx5_1"]
    axes.stackplot(run["t_s"], first, second, colors=[look.shift, look.backup], alpha=0.75, linewidth=0,
                   labels=["SHIFT, default NIC", "SHIFT, backup NIC"])
    axes.axvspan(run["fault_at_s"], run["heal_at_s"], color=look.fault, alpha=0.18, linewidth=0,
                 label="fault")
    moved = run["fault_at_s"] - stock["fault_at_s"]     # both faults at one place
    t = [x + moved for x in stock["t_s"]]
    axes.plot(t, stock["gbps"]["mlx5_0"], color=look.ink, linewidth=1.1, linestyle=(0, (3, 1.5)),
              label="without SHIFT")
    if t and stock["exit"]:
        axes.plot([t[-1]], [0], marker="x", markersize=7, color=look.fault, markeredgewidth=2,
                  clip_on=False, linestyle="none", label="the program dies", zorder=5)
    axes.set_title(f"{panel['tool']}: {panel['fault']} {panel['target']}", fontsize=8)


def draw_throughput(data, look):
    panels = data["panels"]
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    fig, grid = plt.subplots(rows, columns, figsize=(max(7.2, 3.1 * columns + 0.4), 1.55 * rows + 1.1),
                             sharex=True, sharey=True, squeeze=False)
    flat = [axes for row in grid for axes in row]
    for axes, panel in zip(flat, panels):
        throughput_panel(axes, panel, look)
    for axes in flat[len(panels):]:
        axes.set_visible(False)
    flat[0].set_ylim(bottom=0)
    flat[0].set_xlim(0, max(p["shift"]["t_s"][-1] for p in panels if p["shift"]["t_s"]))
    for row in grid:
        row[0].set_ylabel("Gb/s")
    for axes in grid[-1]:
        axes.set_xlabel("seconds")
    footer(fig, data["about"], look, f"One run each, a sample every {data['sample_s']:g} s; the fault "
           "ends where the shading does.")
    finish(fig, flat[0].get_legend_handles_labels())
    return fig


# ---- fallback latency by scenario -----------------------------------------------------------------

def draw_fallback(data, look):
    names = list(dict.fromkeys(s["scenario"] for s in data["series"]))
    costs = sorted({s["cmd_cost_us"] for s in data["series"]})
    fig, axes = plt.subplots(figsize=(7.2, 0.42 * len(names) + 1.55))
    for s in data["series"]:
        k = costs.index(s["cmd_cost_us"])
        label = f"commands of {s['cmd_cost_us']} us" if s["scenario"] == names[0] else None
        spread(axes, names.index(s["scenario"]) + 0.24 * (k - (len(costs) - 1) / 2),
               [us / 1e3 for us in s["us"]], (look.shift, look.backup)[k % 2], "os"[k % 2], label=label)
    rows_named(axes, names)
    axes.set_xscale("log")
    log_axis(axes.xaxis)
    axes.set_xlabel("milliseconds from the first thing noticed to the first completion on the backup NIC")
    runs = len(data["series"][0]["us"])
    footer(fig, data["about"], look, f"{times(runs)} each: median, quartiles (thick), least and most (thin).")
    finish(fig, axes.get_legend_handles_labels())
    return fig


# ---- cost of data verbs ---------------------------------------------------------------------------

def draw_verbs(data, look):
    rows = data["rows"]
    kinds = (("SHIFT on the backup NIC", "fallback_ratio", look.backup, "s", 6.5),
             ("SHIFT", "ratio", look.shift, "o", 4.5),      # where both are one, it lies on top
             ("a ledger that copies each request", "ledger_ratio", look.stock, "D", 5))
    fig, axes = plt.subplots(figsize=(7.2, 0.23 * len(rows) + 1.5))
    for label, key, color, marker, size in kinds:
        points = [(r[key], i) for i, r in enumerate(rows) if r[key] is not None]
        axes.plot([x for x, _ in points], [y for _, y in points], color=color, marker=marker,
                  markersize=size, linestyle="none", label=label)
    axes.axvline(1, color=look.ink, linewidth=0.9)
    rows_named(axes, [f"{r['verb']} ({r['stock_insn']:,.0f})" for r in rows])
    axes.grid(axis="y", visible=True)
    axes.set_xlim(left=0)
    axes.set_xlabel("instructions of one call, libmlx5 alone = 1 (in brackets: its own)")
    footer(fig, data["about"], look, f"Counted by callgrind, the least of {data['samples']} calls.")
    finish(fig, axes.get_legend_handles_labels())
    return fig


# ---- latency without a fault ----------------------------------------------------------------------

def latency_panel(axes, measures, look):
    for offset, key, label, color, marker in ((-0.1, "stock", "without SHIFT", look.stock, "s"),
                                              (0.1, "shift", "SHIFT", look.shift, "o")):
        for i, m in enumerate(measures):
            values, (low, high) = m[key], quartiles(m[key])
            median = statistics.median(values)
            axes.errorbar([i + offset], [median], [[median - low], [high - median]], color=color,
                          marker=marker, markersize=5.5, linewidth=1.4, capsize=3,
                          label=label if not i else None)
    axes.set_xticks(range(len(measures)), [m["name"].split()[1] for m in measures])
    axes.set_xlim(-0.5, len(measures) - 0.5)
    axes.grid(axis="x", visible=False)
    axes.set_xlabel("bytes")
    axes.set_title(measures[0]["name"].split()[0])


def draw_latency(data, look):
    tools = {}
    for m in data["measures"]:
        if m["unit"] == "us" and "idle" not in m["name"]:
            tools.setdefault(m["name"].split()[0], []).append(m)
    fig, grid = plt.subplots(1, len(tools), figsize=(7.2, 3.0), sharey=True, squeeze=False)
    for axes, measures in zip(grid[0], tools.values()):
        latency_panel(axes, measures, look)
    grid[0][0].set_ylim(bottom=0)
    grid[0][0].set_ylabel("microseconds, one way")
    footer(fig, data["about"], look, f"{times(data['rounds'])} of each kind in turns, perftest's t_typical: "
           "median and quartiles.")
    finish(fig, grid[0][0].get_legend_handles_labels())
    return fig


# ---- training -------------------------------------------------------------------------------------

def down_times(run, end):
    """[(from, to)] of its link."""
    spans, since = [], None
    for t, down in run["events"]:
        if down and since is None:
            since = t
        elif not down and since is not None:
            spans.append((since, t))
            since = None
    return spans + ([(since, end)] if since is not None else [])


def training_panel(axes, runs, end, look):
    for i, span in enumerate(down_times(runs[0], end)):
        axes.axvspan(*span, color=look.fault, alpha=0.18, linewidth=0, label=None if i else "link down")
    seen = set()
    for run in runs:
        label = "SHIFT" if run["shift"] else "without SHIFT"
        axes.plot(run["t_s"], run["steps"], color=look.shift if run["shift"] else look.stock,
                  linestyle="-" if run["shift"] else (0, (3, 1.5)), linewidth=1.3,
                  label=None if label in seen else label)
        seen.add(label)
        if run["died"]:
            axes.plot([run["t_s"][-1]], [run["steps"][-1]], marker="x", markersize=7, color=look.fault,
                      markeredgewidth=2, linestyle="none", zorder=5,
                      label=None if "died" in seen else "the job dies")
            seen.add("died")
    axes.set_xlim(0, end)
    axes.set_xlabel("seconds")


def draw_training(data, look):
    titles = {"fatal": "a link fails for good", "flapping": "a link that comes and goes"}
    fig, grid = plt.subplots(1, 2, figsize=(7.2, 3.1), sharey=True)
    for axes, (fault, title) in zip(grid, titles.items()):
        training_panel(axes, [r for r in data["runs"] if r["fault"] == fault], data["duration_s"], look)
        axes.set_title(title)
    grid[0].set_ylim(bottom=0)
    grid[0].set_ylabel("training steps done")
    runs = sum(r["fault"] == "fatal" and r["shift"] for r in data["runs"])
    footer(fig, data["about"], look, f"Each line is a run, {runs} of each kind in turns: 2 ranks, Open MPI "
           "with UCX over verbs, on CPUs.")
    finish(fig, grid[0].get_legend_handles_labels())
    return fig


# ---- detection ------------------------------------------------------------------------------------

def draw_detection(data, look):
    faults = data["faults"]
    fig, axes = plt.subplots(figsize=(7.2, 0.36 * len(faults) + 1.5))
    for i, f in enumerate(faults):
        spread(axes, i, [us / 1e3 for us in f["us"]], look.shift, label=None if i else "SHIFT: flows again")
        ms = (f["stock_s"] or data["stock_formula_s"]) * 1e3
        axes.plot([ms], [i], color=look.fault, marker="x", markersize=6.5, markeredgewidth=1.8,
                  linestyle="none", label=None if i else "without SHIFT: the program gets its error")
    rows_named(axes, [f["fault"] for f in faults])
    axes.set_xscale("log")
    log_axis(axes.xaxis)
    axes.set_xlabel("milliseconds without a completion, QP timeout 20 and 7 retries (NCCL's)")
    stock = ("measured" if any(f["stock_s"] for f in faults) else "by the formula of the retry time")
    footer(fig, data["about"], look, f"{times(data['runs'])} each: median, quartiles (thick), least and most "
           f"(thin). Without SHIFT: {stock}.")
    finish(fig, axes.get_legend_handles_labels())
    return fig


# ---- detection against false moves ----------------------------------------------------------------

def silence_lines(rows):
    """{ms between heartbeats: [rows by silence]}"""
    lines = {}
    for r in rows:
        lines.setdefault(r["beat_ms"], []).append(r)
    return {beat: sorted(line, key=lambda r: r["silence_ms"]) for beat, line in sorted(lines.items())}


def silence_time(axes, line, color, marker):
    x = [r["silence_ms"] for r in line]
    axes.fill_between(x, [r["median_ms"] for r in line], [r["most_ms"] for r in line], color=color, alpha=0.2,
                      linewidth=0)
    axes.plot(x, [r["median_ms"] for r in line], color=color, marker=marker, markersize=5)
    axes.set_xlabel("silence after which a path is lost, ms")
    axes.set_ylabel("ms from its death to the verdict")
    axes.set_title("detection time: median to 99 %")


def silence_moves(axes, line, runs, color, marker):
    """Moves of 1,000 runs of all weathers. Zero has a place of its own."""
    moves = [sum(r["moves"].values()) * 1000 / (runs * len(r["moves"])) for r in line]
    axes.plot([r["median_ms"] for r in line], moves, color=color, marker=marker, markersize=5,
              label=f"heartbeat {line[0]['beat_ms']} ms, {statistics.median(r['pings'] for r in line):.0f} pings/s")
    axes.set_yscale("symlog", linthresh=0.25, linscale=0.6)
    log_axis(axes.yaxis, [0, 0.25, 1, 4, 16, 64, 256])
    axes.set_xlabel("median detection time, ms")
    axes.set_title("false moves in 1,000 runs of weather")


def draw_silence(data, look):
    fig, grid = plt.subplots(1, 2, figsize=(7.2, 3.3))
    looks = ((look.backup, "s"), (look.shift, "o"), (look.third, "D"), (look.stock, "^"))
    for (color, marker), line in zip(looks, silence_lines(data["rows"]).values()):
        silence_time(grid[0], line, color, marker)
        silence_moves(grid[1], line, data["runs"], color, marker)
    for axes in grid:
        axes.set_xscale("log")
        log_axis(axes.xaxis, [50, 75, 100, 150, 200, 300, 400])
    grid[0].set_yscale("log")
    log_axis(grid[0].yaxis, [50, 75, 100, 150, 200, 300, 400])
    footer(fig, dict(data["about"], device="Simulated time, no NIC"), look,
           f"Seed {data['seed']}; a point: {data['runs']:,} deaths and as many runs of each of 4 weathers. "
           "The silence is 200 ms by default.")
    finish(fig, grid[1].get_legend_handles_labels())
    return fig


# ---- scale ----------------------------------------------------------------------------------------

def scale_lines(rows):
    """{(command_us, lazy): [rows by number of queue pairs]}, of this build alone."""
    lines = {}
    for r in rows:
        if not r["build"]:
            lines.setdefault((r["command_us"], r["lazy"]), []).append(r)
    return {key: sorted(line, key=lambda r: r["qps"]) for key, line in sorted(lines.items())}


def scale_time(axes, lines, look):
    looks = ((look.shift, "o"), (look.backup, "s"), (look.third, "D"), (look.stock, "^"))
    for (color, marker), ((cost, lazy), line) in zip(looks, lines.items()):
        x = [r["qps"] for r in line]
        ms = [[run["ms"] for run in r["runs"]] for r in line]
        axes.fill_between(x, [min(v) for v in ms], [max(v) for v in ms], color=color, alpha=0.2,
                          linewidth=0)
        axes.plot(x, [statistics.median(v) for v in ms], color=color, marker=marker, markersize=5,
                  label=("free commands" if not cost else f"commands of {cost:g} us, one after the other")
                  + (", lazy" if lazy else ""))
        if cost and not lazy:
            axes.plot(x, [n * cost / 1e3 for n in x], color=color, linewidth=0.9, linestyle=(0, (2, 2)),
                      label="one such command each")
    axes.set_ylabel("milliseconds")
    axes.set_title("until all flow again")


def scale_messages(axes, lines, look):
    line = next(iter(lines.values()))
    x = [r["qps"] for r in line]
    axes.plot(x, [r["messages"] for r in line], color=look.stock, marker="^", markersize=5,
              label="messages about moves")
    axes.plot(x, [r["datagrams"] for r in line], color=look.third, marker="D", markersize=5,
              label="datagrams that carry them")
    axes.set_title("sent by both ends")


def draw_scale(data, look):
    lines = scale_lines(data["rows"])
    fig, grid = plt.subplots(1, 2, figsize=(7.2, 3.3), width_ratios=(3, 2))
    scale_time(grid[0], lines, look)
    scale_messages(grid[1], lines, look)
    ticks = [r["qps"] for r in next(iter(lines.values()))]
    for axes in grid:
        axes.set_xscale("log")
        axes.set_yscale("log")
        log_axis(axes.xaxis, ticks)
        log_axis(axes.yaxis)
        axes.set_xlabel("queue pairs of one dying NIC")
        axes.set_ylim(top=axes.get_ylim()[1] * LEGEND_ROOM)
        axes.legend(loc="upper left", handlelength=1.6)
    footer(fig, data["about"], look, f"{times(data['runs'])} each: median; shaded: least to most. Each queue "
           "pair has a WRITE outstanding.")
    finish(fig)
    return fig


# ---- transactions ---------------------------------------------------------------------------------

TXN_MODES = (("stock", "without SHIFT", "stock", (0, (3, 1.5))), ("shift", "SHIFT", "shift", "-"),
             ("shift+owner", "SHIFT_ATOMICS=owner", "backup", "-"), ("shift+uid", "SHIFT_ATOMICS=uid", "third", "-."))
TXN_FAULTS = {"port": "port down", "switch": "silent switch", "flap": "flap, 0.2 s", "responder": "responder's NIC dies",
              "drain": "drain"}
TXN_WORKLOADS = {"smallbank": "SmallBank", "tpcc": "TPC-C-like"}
TXN_BINS = 20       # of the series, to a point of the picture


def txn_rates(run):
    """Committed per second."""
    bins = run["per_10ms"]
    return [sum(bins[i:i + TXN_BINS]) * 100 / TXN_BINS for i in range(0, len(bins), TXN_BINS)]


def txn_panel(axes, runs, start, look):
    axes.axvspan(0, runs[0]["lasts_s"], color=look.fault, alpha=0.18, linewidth=0, label="fault")
    for mode, label, color, dashes in TXN_MODES:
        rates = [txn_rates(r) for r in runs if r["mode"] == mode]
        points = list(zip(*rates))
        t = [start + (i + 0.5) * TXN_BINS / 100 for i in range(len(points))]
        if len(rates) > 1:
            axes.fill_between(t, list(map(min, points)), list(map(max, points)), color=getattr(look, color),
                              alpha=0.2, linewidth=0)
        if rates:
            axes.plot(t, list(map(statistics.median, points)), color=getattr(look, color), linestyle=dashes,
                      linewidth=1.2, label=label)


def draw_transactions(data, look):
    runs = [r for r in data["runs"] if r["fault"] in TXN_FAULTS]
    workloads = [w for w in TXN_WORKLOADS if any(r["workload"] == w for r in runs)]
    faults = [f for f in TXN_FAULTS if any(r["fault"] == f for r in runs)]
    fig, grid = plt.subplots(len(workloads), len(faults), figsize=(7.2, 1.6 * len(workloads) + 1.1), sharex=True,
                             sharey="row", squeeze=False)
    for row, workload in zip(grid, workloads):
        for axes, fault in zip(row, faults):
            txn_panel(axes, [r for r in runs if (r["workload"], r["fault"]) == (workload, fault)],
                      data["series_from_s"], look)
        row[0].set_ylim(bottom=0)
        row[0].set_ylabel(f"{TXN_WORKLOADS[workload]}, per s", fontsize=8)
    for axes, fault in zip(grid[0], faults):
        axes.set_title(TXN_FAULTS[fault], fontsize=8)
    for axes in grid[-1]:
        axes.set_xlabel("seconds")
    each = sum((r["workload"], r["fault"], r["mode"]) == (workloads[0], faults[0], runs[0]["mode"]) for r in runs)
    footer(fig, data["about"], look, f"Seed {data['seed']}; {times(each)} each: committed in {TXN_BINS * 10} ms, median; shaded: least to "
           "most.")
    finish(fig, grid[0][0].get_legend_handles_labels())
    return fig


# ---- all of them ----------------------------------------------------------------------------------

FIGURES = {     # name: what a benchmark left, and who draws it
    "throughput": ("demo.json", draw_throughput),
    "fallback": ("fallback.json", draw_fallback),
    "verbs": ("bench-verbs.json", draw_verbs),
    "latency": ("bench-lat.json", draw_latency),
    "training": ("training.json", draw_training),
    "detection": ("detect.json", draw_detection),
    "silence": ("silence.json", draw_silence),
    "scale": ("scale.json", draw_scale),
    "transactions": ("txn.json", draw_transactions),
    "dashboard": ("dashboard.json", lambda data, look: draw_dashboard(data, look, footer)),
}


def draw_to(folder, name, make, data):
    """FOLDER/figures/NAME.svg, for light and dark pages, and its .png."""
    style(LIGHT)
    fig = make(data, LIGHT)
    path = os.path.join(folder, "figures", name)
    svg = io.StringIO()
    fig.savefig(svg, format="svg")
    with open(path + ".svg", "w", encoding="utf-8") as f:
        f.write(page_svg(svg.getvalue(), dict(zip(LIGHT, DARK))))
    fig.savefig(path + ".png", dpi=144, metadata={"Software": None})
    plt.close(fig)


def draw(name, folder):
    source, make = FIGURES[name]
    with open(os.path.join(folder, source), encoding="utf-8") as f:
        data = json.load(f)
    draw_to(folder, name, make, data)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder")
    p.add_argument("names", nargs="*", choices=[[], *FIGURES], metavar="NAME",
                   help="of " + ", ".join(FIGURES))
    args = p.parse_args()
    os.makedirs(os.path.join(args.folder, "figures"), exist_ok=True)
    drawn = 0
    for name in args.names or FIGURES:
        if args.names or os.path.exists(os.path.join(args.folder, FIGURES[name][0])):
            draw(name, args.folder)
            drawn += 1
        else:
            print(f"{name}: no {FIGURES[name][0]} in {args.folder}, not drawn")
    print(f"{drawn} figures drawn into {args.folder}/figures")
    return 0 if drawn else MISSING_FILES


if __name__ == "__main__":
    sys.exit(main())
