#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The dashboard of Grafana, the rules and the configuration of Prometheus under docs/: every metric that they
name is one that shift-exporter serves, every one of those is on the dashboard or said to be left out, each
expression is PromQL, the rules fire when their tests say, and the dashboard can be provisioned.

PromQL, rules and configuration are promtool's to judge, which scripts/get-prometheus.sh gets; without it that
part is left out, the rest is done, and the exit status is 77.

usage: check_monitoring.py --build BUILD
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from shiftlab.dashboard import DASHBOARD, expressions, panels

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PROMETHEUS = os.path.join(ROOT, "docs", "prometheus")
SKIPPED = 77
# Of the exporter itself, for who looks into it; what has an alert of its own; and what one setting brings.
NOT_SHOWN = {"shift_nic_gray", "shift_degraded_seconds_total", "shift_process_bandwidth_left",
             "shift_atomics_by_word_total", "shift_exporter_start_time_seconds", "shift_exporter_refused_directories",
             "shift_exporter_dropped_series_total", "shift_processes_ended_total", "shift_switched_connections_total",
             "shift_stalled_connections", "shift_unreached_processes"}


def served():
    """{name of a family: its type}, as the exporter's table has them."""
    with open(os.path.join(ROOT, "tools", "exporter", "exporter.h"), encoding="utf-8") as f:
        rows = re.findall(r'X\(\w+, (GAUGE|COUNTER|HISTOGRAM), "(\w+)"', f.read())
    return {name: kind for kind, name in rows}


def names(expression):
    """The metrics of SHIFT that an expression names: not what stands in quotes, nor labels."""
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', expression)
    bare = re.sub(r"\b(?:by|without|on|ignoring|group_left|group_right) *\([^)]*\)", "", bare)
    return set(re.findall(r"(?<![\w:])shift_\w+", re.sub(r"\{[^}]*\}", "", bare)))


def families(expression, known):
    """Of those names the families, and those that nobody serves."""
    found, unknown = set(), set()
    for name in names(expression):
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        if name in known and known[name] != "HISTOGRAM":
            found.add(name)
        elif base != name and known.get(base) == "HISTOGRAM":
            found.add(base)
        else:
            unknown.add(name)
    return found, unknown


def check_panel(panel, taken):
    where, pos = panel["title"], panel["gridPos"]
    if pos["w"] < 1 or pos["h"] < 1 or pos["x"] < 0 or pos["x"] + pos["w"] > 24:
        yield f"{where}: it is not within 24 columns"
    for cell in ((x, y) for x in range(pos["x"], pos["x"] + pos["w"])
                 for y in range(pos["y"], pos["y"] + pos["h"])):
        if cell in taken:
            yield f"{where}: it lies over {taken[cell]}"
            break
        taken[cell] = where
    if panel["type"] == "row":
        return
    refs = [t["refId"] for t in panel["targets"]]
    if not refs or len(set(refs)) != len(refs):
        yield f"{where}: its queries have no names of their own"
    for target in [panel] + panel["targets"]:
        if target["datasource"] != {"type": "prometheus", "uid": "${datasource}"}:
            yield f"{where}: not by the variable datasource"


def check_dashboard(dashboard):
    """What Grafana needs to take it from a file of provisioning."""
    for name, kind in (("title", str), ("uid", str), ("schemaVersion", int), ("panels", list)):
        if not isinstance(dashboard.get(name), kind):
            yield f"no {name}"
    if dashboard.get("id") is not None or "__inputs" in dashboard:
        yield "it has an id or inputs: it is of one installation"
    ids = [p["id"] for p in panels(dashboard)]
    if len(set(ids)) != len(ids):
        yield "two panels have the same id"
    variables = {v["name"] for v in dashboard["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(dashboard))) - {"__rate_interval", "__range"}
    if used != variables:
        yield f"variables {sorted(variables)}, used {sorted(used)}"
    taken = {}
    for panel in panels(dashboard):
        yield from check_panel(panel, taken)


def rule_expressions():
    with open(os.path.join(PROMETHEUS, "shift.rules.yml"), encoding="utf-8") as f:
        return [("rule", e) for e in re.findall(r"^ +expr: (.*)$", f.read(), re.M)]


def check_names(dashboard):
    known = served()
    shown = set()
    if not known:
        yield "the exporter's table is not understood"
    for where, expression in expressions(dashboard) + rule_expressions():
        found, unknown = families(expression, known)
        if unknown:
            yield f"{where}: nobody serves {sorted(unknown)}"
        if where != "rule":
            shown |= found
    variables = json.dumps(dashboard["templating"])
    shown |= families(variables.replace('"', " "), known)[0]
    if known.keys() - shown != NOT_SHOWN:
        yield f"not on the dashboard: {sorted(known.keys() - shown)}, expected {sorted(NOT_SHOWN)}"


def promtool(build):
    brought = os.path.join(build, "programs", "prometheus", "promtool")
    return shutil.which("promtool") or (os.path.abspath(brought) if os.access(brought, os.X_OK) else None)


def run(argv, folder):
    done = subprocess.run(argv, cwd=folder, text=True, capture_output=True, check=False)
    if done.returncode:
        yield f"{' '.join(argv[1:])}: {done.stdout}{done.stderr}"


def check_by_promtool(tool, dashboard):
    yield from run([tool, "check", "config", "prometheus.yml"], PROMETHEUS)
    yield from run([tool, "check", "rules", "shift.rules.yml"], PROMETHEUS)
    yield from run([tool, "test", "rules", "shift.rules.test.yml"], PROMETHEUS)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "dashboard.yml")
        with open(path, "w", encoding="utf-8") as f:
            json.dump({"groups": [{"name": "dashboard", "rules": [
                {"record": f"panel:{i}", "expr": e} for i, (_, e) in enumerate(expressions(dashboard))]}]}, f)
        yield from run([tool, "check", "rules", path], folder)


def self_test():
    known = {"shift_a": "GAUGE", "shift_b_seconds": "HISTOGRAM"}
    cases = [('sum by (shift_x) (shift_a{shift_y="shift_z"})', {"shift_a"}, set()),
             ("rate(shift_b_seconds_bucket[5m])", {"shift_b_seconds"}, set()),
             ("shift_b_seconds", set(), {"shift_b_seconds"}),
             ("shift_a_count + shift_c", set(), {"shift_a_count", "shift_c"}),
             ("instance:shift_a:rate5m", set(), set())]
    return [f"check_monitoring.py does not work: {e}" for e, found, unknown in cases
            if families(e, known) != (found, unknown)]


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", required=True)
    args = p.parse_args()
    with open(DASHBOARD, encoding="utf-8") as f:
        dashboard = json.load(f)
    wrong = self_test() + list(check_dashboard(dashboard)) + list(check_names(dashboard))
    tool = promtool(args.build)
    if tool:
        wrong += check_by_promtool(tool, dashboard)
    print("\n".join(wrong) if wrong else
          f"{len(expressions(dashboard))} expressions of the dashboard, {len(rule_expressions())} rules")
    if wrong or tool:
        return 1 if wrong else 0
    print("left out: promtool is not here; scripts/get-prometheus.sh gets it")
    return SKIPPED


if __name__ == "__main__":
    sys.exit(main())
