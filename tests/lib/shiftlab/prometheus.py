# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A real Prometheus that scrapes exporters, which scripts/get-prometheus.sh gets if it is not installed."""
import json
import os
import shutil
import urllib.parse
import urllib.request

from shiftlab.lab import free_port, wait_for


def tool(build, name):
    """Of Prometheus: installed, or what get-prometheus.sh has brought; or None."""
    brought = os.path.join(build, "programs", "prometheus", name)
    return shutil.which(name) or (brought if os.access(brought, os.X_OK) else None)


class Prometheus:
    """With a port and a folder of its own. targets: {address: the name of its instance}."""

    def __init__(self, lab, build, targets):
        self.lab = lab
        self.address = f"127.0.0.1:{free_port()}"
        self.http = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the machine may have one
        config = os.path.join(lab.folder, "prometheus.yml")
        with open(config, "w", encoding="ascii") as f:
            f.write("global: {scrape_interval: 500ms, scrape_timeout: 500ms}\n"
                    "scrape_configs:\n- job_name: shift\n  static_configs:\n")
            for target, instance in targets.items():
                f.write(f"  - targets: ['{target}']\n    labels: {{instance: '{instance}'}}\n")
        self.program = lab.launch("prometheus", [
            tool(build, "prometheus"), "--config.file", config, "--storage.tsdb.path",
            os.path.join(lab.folder, "tsdb"), "--web.listen-address", self.address,
            "--log.level", "warn"], lab.env())
        wait_for("Prometheus", self.ready, 60)

    def ready(self):
        if not self.program.running():
            raise RuntimeError(f"Prometheus has ended: {self.program.err()}")
        try:
            with self.http.open(f"http://{self.address}/-/ready", timeout=10) as answer:
                return answer.status == 200
        except OSError:
            return False

    def ask(self, what, **words):
        """The result of one question of its API."""
        url = f"http://{self.address}/api/v1/{what}?" + urllib.parse.urlencode(words)
        with self.http.open(url, timeout=30) as answer:
            result = json.load(answer)
        if result["status"] != "success":
            raise RuntimeError(f"Prometheus answers {result}")
        return result["data"]

    def query(self, expression):
        """Values of an instant query."""
        return [float(r["value"][1]) for r in self.ask("query", query=expression)["result"]]

    def version(self):
        return self.ask("status/buildinfo")["version"]

    def await_value(self, expression, wanted):
        wait_for(f"{expression} = {wanted}", lambda: self.query(expression) == [wanted], 30, 0.2)

    def end(self):
        self.program.process.terminate()
        self.program.wait(30)
