#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What Grafana's dashboard (docs/grafana/shift.json) shows of two hosts through a port that goes down and comes back,
and a NIC that dies: the dashboard's own queries, answered by a real Prometheus that scrapes two real exporters. Writes
out/dashboard.json, which draw_figures.py draws. It is no picture of Grafana: that is in no package of Debian."""
import argparse
import json
import sys
import time

from shiftlab.dashboard import DASHBOARD, filled, panels
from shiftlab.lab import SKIPPED, Lab, Shift, free_port, wait_for
from shiftlab.outputs import Outputs
from shiftlab.perftest import LONG_S
from shiftlab.prometheus import Prometheus, tool
from shiftlab.results import save

QPS = 4
STEP_S = 1
# Seconds of the scene: a window of rates; when the port goes down and comes back, and a NIC dies; its end.
RATE_S, DOWN_S, UP_S, DEAD_S, END_S = 5, 12, 27, 42, 56


class Scene:
    """Two jobs of perftest on two hosts: one between ends under SHIFT, and one whose client is not."""

    def __init__(self, lab):
        self.lab = lab
        self.ends = []
        for name, client in (("job", self.shift("h1")), ("alone", None)):
            self.ends += self.start(name, client)
        wait_for("protected connections", lambda: all(
            lab.protected(p) >= QPS for p in self.ends[:2]), 60)

    def shift(self, host):
        return Shift(log="info", run_dir=self.lab.run_dir(host))

    def start(self, name, client):
        argv = ["ib_write_bw", "-d", "mlx5_0", "-x", "0", "-F", "-D", str(LONG_S), "-q", str(QPS), "-p", str(free_port()),
                "-w", "20"]
        server = self.lab.start("h0", argv, name + "-server", self.shift("h0"))
        server.await_listening()
        return server, self.lab.start("h1", argv + ["127.0.0.1"], name + "-client", client)

    def play(self):
        """The times at which each part began, in seconds since 1970."""
        begun = time.time()
        times = {"begin": begun}
        for at, name, word in ((DOWN_S, "port down", "fault port-down h1/mlx5_0"), (UP_S, "port up", "heal h1/mlx5_0"),
                               (DEAD_S, "NIC dies", "fault nic-internal-error h0/mlx5_0"), (END_S, "end", None)):
            time.sleep(max(0.0, begun + at - time.time()))
            times[name] = time.time()
            if word:
                self.lab.ctl(*word.split())
        return times


def legend(form, labels):
    """As Grafana makes it: the form with its labels, or all labels."""
    if not form:
        return " ".join(v for k, v in sorted(labels.items()) if k != "__name__")
    for name, value in labels.items():
        form = form.replace("{{" + name + "}}", value)
    return form


def answers(prometheus, panel, times):
    variables = {"$__rate_interval": f"{RATE_S}s", "$__range": f"{END_S}s", "$__interval": f"{STEP_S}s", "$instance": ".*"}
    lines = panel["type"] == "timeseries"
    for target in panel.get("targets", []):
        expression = filled(target["expr"], variables)
        if lines:
            data = prometheus.ask("query_range", query=expression, start=times["begin"], end=times["end"], step=STEP_S)
        else:
            data = prometheus.ask("query", query=expression, time=times["end"])
        for one in data["result"]:
            points = one["values"] if lines else [one["value"]]
            yield {"legend": legend(target.get("legendFormat", ""), one["metric"]), "labels": one["metric"],
                   "points": [[at - times["begin"], float(value)] for at, value in points]}


def shown(prometheus, times):
    with open(DASHBOARD, encoding="utf-8") as f:
        dashboard = json.load(f)
    for panel in panels(dashboard):
        defaults = panel.get("fieldConfig", {}).get("defaults", {})
        yield {"title": panel["title"], "type": panel["type"], "place": panel["gridPos"], "unit": defaults.get("unit", ""),
               "style": defaults.get("custom", {}), "series": list(answers(prometheus, panel, times))}


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", default="build")
    p.add_argument("--out", default="out")
    args = p.parse_args()
    if not tool(args.build, "prometheus"):
        print("no Prometheus: scripts/get-prometheus.sh gets it")
        return SKIPPED
    with Lab(args.build) as lab:
        outputs = Outputs(lab, ("h0", "h1"))
        prometheus = Prometheus(lab, args.build, {url.split("/")[2]: host for host, url in outputs.addresses.items()})
        times = Scene(lab).play()
        time.sleep(1)       # what happened last is scraped
        drawn = list(shown(prometheus, times))
        version = prometheus.version()
        prometheus.end()
    empty = [panel["title"] for panel in drawn if panel["type"] != "row" and not panel["series"]]
    begin = times.pop("begin")
    save(args.out, "dashboard.json", {"panels": drawn, "prometheus": version,
                                      "times": {name: at - begin for name, at in times.items()}})
    print(f"{len(drawn)} panels, empty: {', '.join(empty) or 'none'}")
    return 1 if empty else 0


if __name__ == "__main__":
    sys.exit(main())
