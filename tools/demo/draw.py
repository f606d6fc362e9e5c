#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Draws FOLDER/demo.json as demo.png and demo.svg: throughput over time, panel by panel."""
import json
import os
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

FIRST, SECOND, FAULT, LINE, STOCK = "#2f6f9f", "#e0923d", "#b3423a", "#333333", "#888888"
COLUMNS = 3


def draw_shift(panel, run):
    t, first, second = run["t_s"], run["gbps"]["mlx5_0"], run["gbps"]["mlx5_1"]
    panel.stackplot(t, first, second, colors=[FIRST, SECOND], alpha=0.75,
                    labels=["SHIFT, over mlx5_0", "SHIFT, over mlx5_1"])
    panel.plot(t, [a + b for a, b in zip(first, second)], color=LINE, linewidth=0.8)
    panel.axvspan(run["fault_at_s"], run["heal_at_s"], color=FAULT, alpha=0.10, label="fault")


def draw_stock(panel, run, fault_at):
    """Moved in time, so that both faults stand at one place."""
    shift = fault_at - run["fault_at_s"]
    t = [x + shift for x in run["t_s"]]
    panel.plot(t, run["gbps"]["mlx5_0"], color=STOCK, linestyle="--", linewidth=1.2,
               label="as it is")
    if t and run["exit"]:
        panel.plot([t[-1]], [0], marker="x", markersize=9, color=FAULT, mew=2.5, clip_on=False,
                   linestyle="none", label=f"dies, status {run['status']}")


def draw_panel(axes, panel):
    shift = panel["shift"]
    draw_shift(axes, shift)
    draw_stock(axes, panel["stock"], shift["fault_at_s"])
    times = ", ".join(f"{word} {shift[key] / 1000:.1f} ms" for word, key in
                      (("fall", "fallback_us"), ("return", "failback_us")) if shift[key])
    axes.set_title(f"({panel['panel']}) {panel['tool']}: {panel['fault']} {panel['target']}\n"
                   f"{times}", fontsize=8, loc="left")
    axes.grid(alpha=0.25)
    return shift["t_s"][-1] if shift["t_s"] else 1


def main():
    folder = sys.argv[1]
    with open(os.path.join(folder, "demo.json")) as f:
        panels = json.load(f)["panels"]
    columns = min(COLUMNS, len(panels))
    rows = (len(panels) + columns - 1) // columns
    fig, grid = plt.subplots(rows, columns, figsize=(4.2 * columns, 2.4 * rows + 0.5), sharex=True,
                             sharey=True, squeeze=False)
    flat = [axes for row in grid for axes in row]
    ends = [draw_panel(axes, panel) for axes, panel in zip(flat, panels)]
    for axes in flat[len(panels):]:
        axes.set_visible(False)
    for row in grid:
        row[0].set_ylabel("Gb/s")
    for axes in grid[-1]:
        axes.set_xlabel("seconds")
    flat[0].set_xlim(0, max(ends))
    flat[0].set_ylim(bottom=0)
    handles, labels = flat[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="upper center", ncol=len(labels), fontsize=8, frameon=False)
    fig.tight_layout(rect=(0, 0, 1, 1 - 0.25 / (2.4 * rows + 0.5)))
    for kind in ("png", "svg"):
        fig.savefig(os.path.join(folder, "demo." + kind), dpi=130)


if __name__ == "__main__":
    main()
