#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""shift-exporter with stock programs on the fabric: what it serves through faults, ends and kills, beside
processes that stand still or lie; and a real Prometheus that scrapes it, which scripts/get-prometheus.sh
gets (else that case is skipped)."""
import argparse
import http.client
import json
import os
import re
import signal
import socket
import sys
import threading

from shiftlab.dashboard import DASHBOARD, expressions
from shiftlab.lab import SKIPPED, Shift, Stuck, free_port, run_case, wait_for
from shiftlab.perftest import LONG_S, end
from shiftlab.prometheus import Prometheus, tool

QPS = 4
SERIES = re.compile(r'^([a-z_]+)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)')


class Failed(Exception):
    """The exporter did something else."""


def must(what, ok, *context):
    if not ok:
        raise Failed(what + "".join(f"\n{c}" for c in context))


def parse(page):
    """{(name, ((label, value), ...)): number}; anything that is no line of the format fails."""
    out = {}
    for line in page.splitlines():
        if re.match(r"# (HELP|TYPE) [a-z_]+ ", line):
            continue
        found = SERIES.match(line)
        must("a line of the format", found, line)
        labels = found.group(2) or ""
        must("labels", not LABEL.sub("", labels), line)
        key = (found.group(1), tuple(sorted(LABEL.findall(labels))))
        must("once", key not in out, line)
        out[key] = float(found.group(3))
    return out


class Exporter:
    def __init__(self, lab, build, folder, *args):
        self.lab, self.build = lab, build
        self.program = lab.launch("exporter", [
            os.path.join(lab.out, "bin", "shift-exporter"), "--listen", "127.0.0.1:0",
            "--run-dir", folder, *args], lab.env())
        wait_for("address", lambda: "/metrics" in self.program.err() or not self.program.running(), 30)
        found = re.search(r"http://(\S+:\d+)/metrics", self.program.err())
        must("it listens", found, self.program.err())
        self.address = found.group(1)

    def get(self, path="/metrics", method="GET"):
        connection = http.client.HTTPConnection(self.address, timeout=60)
        connection.request(method, path, body=b"x" if method == "POST" else None)
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer.status, body

    def page(self):
        status, page = self.get()
        must("200", status == 200, status)
        return page

    def value(self, name, **labels):
        """The sum of what has these labels; None if there is none."""
        found = [v for (n, l), v in parse(self.page()).items()
                 if n == name and set(labels.items()) <= set(l)]
        return sum(found) if found else None

    def await_value(self, wanted, name, **labels):
        wait_for(f"{name} {labels} = {wanted}", lambda: self.value(name, **labels) == wanted, 30, 0.2)

    def switches(self, source, to, **labels):
        return self.value("shift_switches_total", **{"from": source}, to=to, **labels)

    def await_moved(self, source, to):
        """All connections of both ends; in how many switches: of a busy host those that come late are apart."""
        self.await_value(2 * QPS, "shift_switched_connections_total", **{"from": source}, to=to)
        n = self.switches(source, to)
        must("together", 2 <= n <= 2 * QPS, n)
        return n

    def check(self):
        """By promtool, where there is one."""
        promtool = tool(self.build, "promtool")
        if not promtool:
            print("promtool check metrics is left out: scripts/get-prometheus.sh gets it", flush=True)
            return
        path = os.path.join(self.lab.folder, "page")
        with open(path, "w", encoding="utf-8") as f:
            f.write(self.page())
        done = self.lab.run_tool(["sh", "-c", f"{promtool} check metrics <{path}"])
        must("promtool check metrics", not done.process.returncode and not done.err().strip(),
             done.out(), done.err())

    def end(self):
        self.program.process.terminate()
        must("ends with 0", self.program.wait(10) == 0, self.program.err())


class Host:
    """ib_write_bw between two hosts of the fabric that have one run directory, as one host would; for as long
    as it is needed."""

    def __init__(self, lab):
        self.lab = lab
        self.folder = folder = os.path.join(lab.folder, "run")
        self.shift = Shift(log="info", run_dir=folder)
        self.argv = ["ib_write_bw", "-d", "mlx5_0", "-x", "0", "-F", "-D", str(LONG_S), "-q",
                     str(QPS), "-p", str(free_port())]
        self.ends = []

    def start(self):
        server = self.lab.start("h0", self.argv, "server", self.shift)
        server.await_listening()
        client = self.lab.start("h1", self.argv + ["127.0.0.1"], "client", self.shift)
        self.ends = [server, client]
        wait_for("protected connections", lambda: all(self.lab.protected(p) >= QPS for p in self.ends), 30)
        return self

    def break_link(self):
        self.lab.fault("port-down", "h1/mlx5_0")

    def told(self, kind):
        """Of all connections, at both ends, whether in one event or not."""
        return all(sum(map(int, re.findall(rf"event \d+: {kind} .*?, (\d+) connections?", self.lab.shift_log(p))))
                   >= QPS for p in self.ends)

    def end(self):
        end("ib_write_bw", *self.ends)
        for p in self.ends:
            must(f"{p.name} ended with {p.wait(60)}", not p.process.returncode, p.tail())


class Liar:
    """A socket in the directory that answers each question by these bytes, and may not close."""

    def __init__(self, folder, number, answer, close=True):
        self.answer, self.close, self.kept = answer, close, []
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(os.path.join(folder, f"{number}-{number:016x}.sock"))
        self.socket.listen(16)
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                peer = self.socket.accept()[0]
                if peer.recv(100) == b"farewell\n" or not self.close:
                    self.kept.append(peer)
                    if self.close:
                        continue
                peer.sendall(self.answer)
                if self.close:
                    peer.close()
            except OSError:
                if self.socket.fileno() < 0:
                    return


def case_fault(lab, build):
    """A fault, seen from both ends; both end, and nothing that they counted is lost."""
    host = Host(lab)
    exporter = Exporter(lab, build, host.folder)
    must("nobody", exporter.value("shift_processes", state="answering") == 0)
    host.start()
    exporter.await_value(2, "shift_processes", state="answering")
    exporter.await_value(2 * QPS, "shift_qps", nic="mlx5_0", level="protected")
    exporter.await_value(2 * QPS, "shift_pair_connections", default="mlx5_0", backup="mlx5_1", state="ready")
    exporter.await_value(2, "shift_process_bandwidth_left", program="ib_write_bw")
    must("nobody was degraded", exporter.value("shift_degraded_seconds_total") == 0)
    must("zeros", exporter.value("shift_switches_total", to="mlx5_1", cause="port-down") == 0)
    for cause in "retry-exceeded", "transport-error", "hang", "atomic", "atomics-wait":
        must(f"zeros of {cause}", exporter.value("shift_failed_connections_total", nic="mlx5_0", cause=cause) == 0)
    must("programs", exporter.value("shift_process_info", program="ib_write_bw",
                                    pid=str(host.ends[0].pid)) == 1)
    host.break_link()
    both = exporter.await_moved("mlx5_0", "mlx5_1")
    own = exporter.switches("mlx5_0", "mlx5_1", cause="port-down")
    must("of one end the port, the other is told", own >= 1 and
         own + exporter.switches("mlx5_0", "mlx5_1", cause="peer") == both, exporter.page())
    must("time of both", exporter.value("shift_switch_seconds_count", to="mlx5_1") == both)
    # who is told may have seen a sign of it before
    noticed = exporter.value("shift_detection_seconds_count", to="mlx5_1")
    must("detection of the one end, and of the other if it noticed too", own <= noticed <= both, noticed, own, both)
    must("a histogram", exporter.value("shift_switch_seconds_bucket", to="mlx5_1", le="+Inf") == both)
    must("bytes", exporter.value("shift_resent_bytes_total") ==
         65536 * exporter.value("shift_resent_requests_total"))
    exporter.await_value(2 * QPS, "shift_pair_connections", state="on-backup")
    exporter.await_value(2 * QPS, "shift_unprotected_qps", nic="mlx5_0")
    exporter.await_value(1, "shift_nic_processes", nic="mlx5_0", state="port-down")
    exporter.await_value(1, "shift_process_bandwidth_left")     # a half each
    must("degraded", exporter.value("shift_degraded_seconds_total") > 0)
    must("KV", exporter.value("shift_kv_processes", state="ok") == 2 and
         exporter.value("shift_kv_operations_total") > 0)
    exporter.check()
    lab.ctl("heal", "h1/mlx5_0")
    both += exporter.await_moved("mlx5_1", "mlx5_0")
    exporter.await_value(2, "shift_process_bandwidth_left")
    host.end()
    exporter.await_value(2, "shift_processes_ended_total", farewell="yes")
    must("kept", exporter.value("shift_switches_total") == both, exporter.page())
    must("nobody is left", exporter.value("shift_processes") == 0)
    must("nor gauges of them", exporter.value("shift_qps") is None)
    exporter.end()


def case_late(lab, build):
    """Of a switch before the exporter's start nothing is counted; of one after its last scrape, all is."""
    host = Host(lab).start()
    host.break_link()
    wait_for("switch", lambda: host.told("switch"), 30)
    exporter = Exporter(lab, build, host.folder)
    must("the past", exporter.value("shift_switches_total") == 0, exporter.page())
    must("but the present", exporter.value("shift_pair_connections", state="on-backup") == 2 * QPS)
    lab.ctl("heal", "h1/mlx5_0")
    wait_for("return", lambda: host.told("return"), 60)
    host.end()
    exporter.await_value(2, "shift_processes_ended_total", farewell="yes")
    must("what came behind the last scrape", exporter.value("shift_switched_connections_total") == 2 * QPS and
         exporter.value("shift_switched_connections_total", **{"from": "mlx5_1"}, to="mlx5_0") == 2 * QPS and
         exporter.value("shift_switches_total") == exporter.switches("mlx5_1", "mlx5_0"), exporter.page())
    exporter.end()


def case_killed(lab, build):
    """One process stands still, the other answers; one is killed, and its counts stay."""
    host = Host(lab)
    exporter = Exporter(lab, build, host.folder, "--timeout", "0.3")
    host.start()
    host.break_link()
    both = exporter.await_moved("mlx5_0", "mlx5_1")
    host.ends[1].process.send_signal(signal.SIGSTOP)
    exporter.await_value(1, "shift_processes", state="silent")
    exporter.await_value(1, "shift_processes", state="answering")
    must("its counters stay", exporter.switches("mlx5_0", "mlx5_1") == both)
    host.ends[1].kill()
    exporter.await_value(1, "shift_processes_ended_total", farewell="no")
    must("its counters stay for ever", exporter.switches("mlx5_0", "mlx5_1") == both)
    exporter.end()


def case_hostile(lab, build):
    """Whatever a user's own process says, the others' counters are served, in the format."""
    host = Host(lab)
    os.mkdir(host.folder, 0o700)
    exporter = Exporter(lab, build, host.folder, "--timeout", "0.3")
    ugly = {"instance": "1", "bounds": [1], "program": 'a"b\\c\nd\x1b', "pid": 1 << 60, "job": "\u20ac" * 200,
            "qps": [{"nic": "x", "level": 'y"} 5\n#', "why": "\\", "n": -1}, {"n": 1}, 3, None],
            "kv": {"operations": 1e308, "state": "ok"},
            "ways": [{"from": f"f{i}", "to": "t", "switches": {str(k): 1 for k in range(60)}}
                     for i in range(100)],
            "nics": {"no": "list"}, "pairs": [[]], "failed": [{"connections": {"a": "b"}}]}
    liars = [Liar(host.folder, 70001, json.dumps(ugly).encode()),
             Liar(host.folder, 70002, b"nonsense\n"), Liar(host.folder, 70003, b"{}"),
             Liar(host.folder, 70004, b"", close=False),
             Liar(host.folder, 70005, b'{"a": "' + b"x" * (1 << 20)),
             Liar(host.folder, 70006, b'{"format": 1, "error": "no"}')]
    exporter.await_value(len(liars), "shift_processes")
    host.start()
    exporter.await_value(2 * QPS, "shift_qps", level="protected")
    wait_for("escaped name", lambda: 'program="a\\"b\\\\c\\nd\x1b"' in exporter.page(), 30, 0.2)
    must("bounded", exporter.value("shift_exporter_dropped_series_total") > 0)
    must("no more than may be", len(parse(exporter.page())) < 9000)
    exporter.check()
    for liar in liars:
        liar.socket.close()
    host.end()
    exporter.end()


def case_http(lab, build):
    folder = os.path.join(lab.folder, "run")
    exporter = Exporter(lab, build, folder)
    must("healthz", exporter.get("/healthz") == (200, "ok\n"))
    must("root", exporter.get("/")[0] == 200)
    must("404", exporter.get("/x")[0] == 404)
    must("405", exporter.get(method="POST")[0] == 405)
    must("HEAD", exporter.get(method="HEAD") == (200, ""))
    os.mkdir(folder)
    os.chmod(folder, 0o777)
    exporter.await_value(1, "shift_exporter_refused_directories")
    wait_for("why", lambda: "0700" in exporter.program.err())
    exporter.await_value(1, "shift_exporter_refused_directories")
    must("said once", exporter.program.err().count("0700") == 1, exporter.program.err())
    binary = os.path.join(lab.out, "bin", "shift-exporter")
    for args in (["--listen", "x"], ["--listen", "localhost:1"], ["--listen", "127.0.0.1:x"],
                 ["--listen", "::1:1"], ["--listen", exporter.address], ["--timeout", "0"],
                 ["--timeout", "x"], ["x"], ["--bogus"]):
        done = lab.run_tool([binary, *args])
        must(f"{args}: 2, and why", done.process.returncode == 2 and done.err(), done.err())
    must("help", "--run-dir" in lab.run_tool([binary, "--help"]).out())
    exporter.end()


def await_panels(prometheus, panels):
    """Until each of the dashboard shows something: at times a scrape takes too long."""
    empty = []

    def all_show():
        empty[:] = [title for title, expression in panels if not prometheus.query(expression)]
        return not empty

    try:
        wait_for("each panel", all_show, 60, 0.2)
    except Stuck:
        raise RuntimeError("nothing is shown by: " + ", ".join(empty)) from None


def case_prometheus(lab, build):
    host = Host(lab)
    exporter = Exporter(lab, build, host.folder)
    prometheus = Prometheus(lab, build, {exporter.address: "h0"})
    prometheus.await_value('up{job="shift"}', 1)
    host.start()
    prometheus.await_value('shift_processes{state="answering"}', 2)
    prometheus.await_value('sum(shift_switches_total{cause="port-down"})', 0)
    host.break_link()
    prometheus.await_value('sum(shift_switches_total{cause="port-down"})', 1)
    wait_for("increase()", lambda: prometheus.query(
        'sum(increase(shift_switches_total{cause="port-down"}[5m]))') > [0.5], 30, 0.2)
    wait_for("quantile", lambda: prometheus.query(
        "histogram_quantile(0.99, sum by (le) (rate(shift_switch_seconds_bucket[5m])))") > [0], 30, 0.2)
    with open(DASHBOARD, encoding="utf-8") as f:
        panels = expressions(json.load(f))
    await_panels(prometheus, panels)
    lab.ctl("heal", "h1/mlx5_0")
    wait_for("return", lambda: host.told("return"), 60)
    host.end()
    prometheus.await_value('shift_processes_ended_total{farewell="yes"}', 2)
    prometheus.await_value('sum(shift_switches_total{cause="port-down"})', 1)
    prometheus.end()
    exporter.end()


CASES = {"fault": case_fault, "late": case_late, "killed": case_killed, "hostile": case_hostile,
         "http": case_http, "prometheus": case_prometheus}


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", required=True)
    p.add_argument("cases", nargs="*", choices=[[], *CASES])
    args = p.parse_args()
    chosen = args.cases or list(CASES)
    skip = "prometheus" in chosen and not tool(args.build, "prometheus")
    if skip:
        print("skipped prometheus: it is not here; scripts/get-prometheus.sh gets it", flush=True)
        chosen.remove("prometheus")
    failed = sum(not run_case(args.build, name, lambda lab, name=name: CASES[name](lab, args.build))
                 for name in chosen)
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return 1 if failed else 0 if chosen else SKIPPED


if __name__ == "__main__":
    sys.exit(main())
