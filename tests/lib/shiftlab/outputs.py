# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What an operator of a host is told: the log, `shiftctl status`, `events` and `why`, and the exporter's page."""
import os
import re
import urllib.request
from concurrent.futures import ThreadPoolExecutor

from shiftlab.lab import wait_for

KINDS = ("log", "status", "events", "metrics", "why")
RULES = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 3, "docs", "prometheus", "shift.rules.yml")
# What is not 0 of these tells something of a fault.
SERIES = re.compile(r"^(shift_(?:failed_connections|switches|stalled|unprotected_qps|protected|nic_|kv_|pair_|process|"
                    r"unreached|refused)\w*(?:\{.*\})?) (?!0$)(\S+)$", re.M)


def critical():
    """The matcher of the rule ShiftConnectionsFailed: (label, pattern of values that it leaves out)."""
    with open(RULES, encoding="utf-8") as f:
        text = f.read()
    matcher, = re.findall(r'alert: ShiftConnectionsFailed\n +expr: .*shift_failed_connections_total\{(.*?)\}', text)
    label, but = re.fullmatch(r'(\w+)!~"([\w|-]+)"', matcher).groups()
    return label, but


class Outputs:
    """An exporter on each host, from before the situation is made on: it keeps what ended programs had counted."""

    def __init__(self, lab, hosts):
        self.lab = lab
        self.begun = {}     # programs of a host, in the order of their start
        self.addresses = {host: self.start(host) for host in hosts}
        self.label, self.but = critical()

    def start(self, host):
        folder = self.lab.run_dir(host)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        p = self.lab.launch("exporter-" + host, [os.path.join(self.lab.out, "bin", "shift-exporter"), "--listen",
                                                 "127.0.0.1:0", "--run-dir", folder], self.lab.env())
        wait_for("address", lambda: "/metrics" in p.err() or not p.running(), 30)
        return re.search(r"http://\S+/metrics", p.err()).group(0)

    def page(self, host):
        with urllib.request.urlopen(self.addresses[host], timeout=60) as answer:
            return answer.read().decode()

    def alert(self, host):
        """Does the critical alert's rule find a rise? Nothing had failed at the start."""
        found = re.findall(r"^shift_failed_connections_total\{(.*)\} (\S+)$", self.page(host), re.M)
        return sum(float(value) for labels, value in found
                   if not re.search(f'{self.label}="({self.but})"', labels)) > 0

    def log(self, host):
        """Of all programs there; and what shiftctl run has said."""
        text = ""
        for p in self.lab.programs:
            if p.argv[1:4] == ["run", "--host", host]:
                said = [line for line in p.err().splitlines() if "shift" in line]
                text += self.lab.shift_log(p) + "".join(line + "\n" for line in said)
        return text

    def of(self, host, ask):
        """ask: the argument of why, or a function of the lab and the host that tells it."""
        asked = ask(self.lab, host) if callable(ask) else ask
        with ThreadPoolExecutor(3) as pool:
            words = [("status",), ("events",), ("why", asked)]
            status, events, why = pool.map(lambda args: self.lab.shiftctl_all(host, *args), words)
        return {"log": self.log(host), "status": status, "events": events, "why": why,
                "metrics": "".join(f"{name} {value}\n" for name, value in SERIES.findall(self.page(host)))}
