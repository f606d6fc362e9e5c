# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The panels of Grafana's dashboard, drawn from what bench/dashboard.py has asked Prometheus for. Used by draw_figures.py."""
import math

import matplotlib.pyplot as plt

COLUMNS = 24            # of Grafana's grid
WIDTH, ROW = 7.2, 0.17  # inches: of the picture, and of a row of the grid
FOOT = 0.55             # inches under the panels
SMALL = 5.5             # points
ROWS_SHOWN = 7          # of a table
GAP_S = 1.5             # between points of a line: farther apart, there was none, as Grafana shows it
LEGEND = 1.4            # height of a panel over its highest value: the legend is there
PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1, ""), (1e-3, "m"), (1e-6, "µ"))
UNITS = {"s": "s", "bytes": "B", "ops": "/s"}


def scaled(value, unit):
    if unit == "percentunit":
        return f"{value * 100:.0f} %"
    if not value:
        return "0"
    for factor, prefix in PREFIXES:
        if abs(value) >= factor:
            break
    text = f"{value / factor:.3g}"
    return text + (f" {prefix}{UNITS[unit]}" if unit in UNITS else prefix)


def palette(look):
    return (look.shift, look.backup, look.third, look.fault, look.stock)


def draw_stat(axes, panel, look):
    value = panel["series"][0]["points"][-1][1] if panel["series"] else None
    axes.axis("off")
    axes.text(0.5, 0.42, "no data" if value is None else scaled(value, panel["unit"]), fontsize=13, ha="center", va="center",
              color=look.shift)


def whole(points):
    """The points, with one of no value where some are missing."""
    for before, point in zip([points[0], *points], points):
        if point[0] - before[0] > GAP_S:
            yield (before[0] + point[0]) / 2, math.nan
        yield point


def draw_lines(axes, panel, look, times):
    stacked = panel["style"].get("stacking", {}).get("mode") == "normal"
    bars = panel["style"].get("drawStyle") == "bars"
    floor = {}
    for i, series in enumerate(panel["series"]):
        color = palette(look)[i % len(palette(look))]
        points = list(whole(series["points"]))
        x = [at for at, _ in points]
        low = [floor.get(round(at), 0) if stacked else 0 for at in x]
        high = [base + value for base, (_, value) in zip(low, points)]
        if stacked:
            floor.update({round(at): top for at, top in zip(x, high) if not math.isnan(top)})
        if bars:
            axes.bar(x, [top - base for top, base in zip(high, low)], bottom=low, width=1, color=color, label=series["legend"])
        else:
            axes.plot(x, high, color=color, linewidth=0.9, label=series["legend"])
            axes.fill_between(x, low, high, color=color, alpha=0.3 if stacked else 0.08, linewidth=0)
    for name, at in times.items():
        if name != "end":
            axes.axvline(at, color=look.fault, linewidth=0.5, linestyle=":")
    axes.set_xlim(0, times["end"])
    axes.set_ylim(0, axes.get_ylim()[1] * LEGEND)
    axes.tick_params(labelsize=SMALL, length=2, pad=1)
    axes.yaxis.set_major_formatter(lambda value, _: scaled(value, panel["unit"]))
    axes.yaxis.set_major_locator(plt.MaxNLocator(3))
    axes.legend(fontsize=SMALL, loc="upper left", ncol=3, handlelength=1, borderaxespad=0.2, borderpad=0.2, columnspacing=0.8,
                labelspacing=0.2)


def cells(series):
    labels = {k: v for k, v in series["labels"].items() if k != "__name__"}
    return "  ".join([*labels.values(), scaled(series["points"][-1][1], "short")])


def draw_rows(axes, panel, look):
    """A table, or bars without their axes: the rows with the highest values."""
    axes.axis("off")
    rows = sorted(panel["series"], key=lambda s: -s["points"][-1][1])
    for i, series in enumerate(rows[:ROWS_SHOWN]):
        axes.text(0.02, 0.92 - i / (ROWS_SHOWN + 0.5), cells(series), fontsize=SMALL, va="top", color=look.ink,
                  transform=axes.transAxes)
    if len(rows) > ROWS_SHOWN:
        axes.text(0.02, 0, f"and {len(rows) - ROWS_SHOWN} more", fontsize=SMALL, color=look.muted, transform=axes.transAxes)


def place(fig, panel, height):
    """The axes of a panel, where Grafana's grid has it."""
    at = panel["place"]
    left, right = at["x"] / COLUMNS, (at["x"] + at["w"]) / COLUMNS
    top, bottom = height - at["y"] * ROW, height - (at["y"] + at["h"]) * ROW
    pad = (0.38 if panel["type"] == "timeseries" else 0.1, 0.08, 0.22, 0.2 if panel["type"] == "timeseries" else 0.04)
    return fig.add_axes([left + pad[0] / WIDTH, (bottom + pad[3]) / height, right - left - (pad[0] + pad[1]) / WIDTH,
                         (top - bottom - pad[2] - pad[3]) / height])


def draw_dashboard(data, look, footer):
    height = max(p["place"]["y"] + p["place"]["h"] for p in data["panels"]) * ROW + FOOT
    fig = plt.figure(figsize=(WIDTH, height))
    for panel in data["panels"]:
        if panel["type"] == "row":
            fig.text(0.008, 1 - (panel["place"]["y"] + 0.8) * ROW / height, panel["title"], fontsize=7.5, weight="bold", color=look.ink)
            continue
        axes = place(fig, panel, height)
        axes.set_title(panel["title"], fontsize=6.5, pad=3)
        if panel["type"] == "timeseries":
            draw_lines(axes, panel, look, data["times"])
        elif panel["type"] == "stat":
            draw_stat(axes, panel, look)
        else:
            draw_rows(axes, panel, look)
    seen = "Dotted: " + ", ".join(f"{name} at {at:.0f} s" for name, at in data["times"].items() if name != "end")
    footer(fig, data["about"], look, f"The dashboard's queries, answered by Prometheus {data['prometheus']}, drawn by matplotlib.\n{seen}.")
    return fig
