# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""One perftest job between two hosts of a fabric of its own, a fault in it, and what it made of it."""
import re
import time

from shiftlab.lab import Lab, Shift, Stuck, free_port, wait_for
from shiftlab.redis import Redis

STEP_S = 0.2
STARTED_BYTES = 1 << 20
END_S = 1.0          # so long before its end must the traffic be back where it began
BACK_SHARE = 0.99
RETRY_EXCEEDED = 12


class Job:
    """A run of one tool: its moments, what it measured, how it ended."""

    def __init__(self, args, panel, with_shift):
        self.args = args
        self.panel = panel
        self.with_shift = with_shift
        self.fault_at = args.fault_at if with_shift else args.stock_fault_at
        self.heal_at = args.heal_at if with_shift else None
        self.duration = args.duration if with_shift else int(args.stock_fault_at) + 20
        self.samples = []      # (seconds since the traffic began, Gb/s of mlx5_0, of mlx5_1)
        self.moves = []
        self.exit = self.server_exit = None
        self.status = 0
        self.note = ""
        self.redis = None

    # --- measuring ---------------------------------------------------------------------------

    def counters(self):
        """Bytes that each NIC of the receiving host has got, by the fabric."""
        nics = self.lab.status()["hosts"][self.panel.receiver]["nics"]
        return time.monotonic(), [n["rx_bytes"] for n in nics]

    def happen(self, t, todo):
        """The fault and its end, when their times have come."""
        while todo and t >= todo[0][0]:
            _, what, act = todo.pop(0)
            act()
            if self.with_shift:
                print(f"  {t:5.1f} s  *** {what}", flush=True)

    def sample(self, begun):
        """Samples until the client ends, one line per second."""
        todo = [(self.fault_at, f"{self.panel.kind} {self.panel.target}", self.break_it)]
        if self.heal_at is not None:
            todo.append((self.heal_at, f"heal {self.panel.target}", self.heal_it))
        last_t, last = self.counters()
        shown = 0
        while self.client.running():
            due = min([STEP_S] + [max(0.0, begun + at - time.monotonic()) for at, *_ in todo[:1]])
            time.sleep(due)
            self.happen(time.monotonic() - begun, todo)
            if due < STEP_S:
                continue
            t, now = self.counters()
            self.samples.append((t - begun, *(max(0, b - a) * 8e-9 / (t - last_t)
                                              for a, b in zip(last, now))))
            last_t, last = t, now
            if int(t - begun) > shown:
                shown = int(t - begun)
                self.show(shown)
            if t - begun > self.duration + 30:
                raise Stuck(f"{self.panel.tool} did not end")

    def show(self, second):
        rows = [r for t, *r in self.samples if second - 1 < t <= second + STEP_S]
        if not self.with_shift or not rows:
            return
        a, b = (sum(r[i] for r in rows) / len(rows) for i in (0, 1))
        print(f"  {second:5.1f} s  mlx5_0 {a:7.2f} Gb/s   mlx5_1 {b:7.2f} Gb/s", flush=True)

    def mean(self, start, end):
        rows = [sum(r) for t, *r in self.samples if start < t <= end]
        return sum(rows) / len(rows) if rows else 0.0

    def share_at_end(self):
        """The default NIC's share of what arrived shortly before the job ended."""
        end = self.samples[-1][0] if self.samples else 0
        rows = [r for t, *r in self.samples if t > end - END_S - STEP_S]
        total = sum(sum(r) for r in rows)
        return sum(r[0] for r in rows) / total if total else 0.0

    # --- the run -----------------------------------------------------------------------------

    def break_it(self):
        self.lab.fault(self.panel.kind, self.panel.target)

    def heal_it(self):
        self.lab.ctl("heal", self.panel.target)

    def command(self, *extra):
        return [self.panel.tool, "-d", "mlx5_0", "-x", "0", "-F", "-D", self.duration, "-p",
                self.port, "--report_gbits", *extra]

    def shift(self):
        if not self.with_shift:
            return None
        if self.args.kv.startswith("redis"):
            self.redis = Redis().start()
        return Shift(kv=self.redis.url if self.redis else None, log="info")

    def start(self):
        shift = self.shift()
        self.port = str(free_port())
        self.server = self.lab.start("h0", self.command(), "server", shift)
        self.server.await_listening()
        self.client = self.lab.start("h1", self.command("127.0.0.1"), "client", shift)

        def traffic():
            return self.counters()[1][0] > STARTED_BYTES or not self.client.running()

        wait_for("traffic", traffic, 20)

    def stop_redis_after_setup(self):
        if self.args.kv != "redis-stopped" or not self.redis:
            return
        for p in (self.server, self.client):
            wait_for("protection of " + p.name, lambda p=p: self.lab.protected(p), 10)
        self.redis.end()
        print("           redis-server stopped", flush=True)

    def finish(self):
        self.exit = self.client.process.returncode
        try:
            self.server_exit = self.server.wait(10 if self.exit == 0 else 1)
        except Stuck:
            self.server_exit = None
        text = self.client.out() + self.client.err()
        found = re.search(r"[Ff]ailed status (\d+)", text)
        self.status = int(found.group(1)) if found else 0
        for p in (self.client, self.server):
            stats = self.lab.stats(p) or {"moves": []}
            self.moves += [dict(m, end=p.name) for m in stats["moves"]]

    def run(self):
        with Lab(self.args.build) as self.lab:
            try:
                self.start()
                begun = time.monotonic()
                self.stop_redis_after_setup()
                self.sample(begun)
            except Stuck as e:
                self.note = str(e)
                for p in self.lab.programs:
                    p.end()
            finally:
                if self.redis:
                    self.redis.end()
            self.finish()
            if self.wrong():
                for p in self.lab.programs:
                    print(p.tail() + self.lab.shift_log(p)[-3000:], flush=True)
        return self

    # --- what came of it ---------------------------------------------------------------------

    def wrong(self):
        """Why this is not what should have come of it; empty if it is."""
        if self.note:
            return self.note
        if not self.with_shift:
            return "" if self.exit and self.status == RETRY_EXCEEDED else \
                f"stock should die with status 12: exit {self.exit}, status {self.status}"
        if self.exit or self.server_exit:
            return f"exit {self.exit} and {self.server_exit}, status {self.status}"
        if self.fallback_us() is None:
            return "no move away from mlx5_0"
        if self.share_at_end() < BACK_SHARE:
            return f"{100 * self.share_at_end():.0f} % of the bytes at the end came by mlx5_0"
        return "" if self.failback_us() is not None else "no move back to mlx5_0"

    def longest(self, key, nic):
        """The longest pause that one of the two ends saw in a move from or to a NIC."""
        values = [m["fallback_us"] for m in self.moves if m[key] == nic and m["fallback_us"]]
        return max(values) if values else None

    def fallback_us(self):
        return self.longest("from", "mlx5_0")

    def failback_us(self):
        return self.longest("to", "mlx5_0")

    def total(self, key):
        return sum(m.get(key) or 0 for m in self.moves)

    def record(self):
        record = {"fault_at_s": self.fault_at, "exit": self.exit, "status": self.status,
                  "t_s": [round(s[0], 3) for s in self.samples],
                  "gbps": {f"mlx5_{i}": [round(s[i + 1], 3) for s in self.samples]
                           for i in (0, 1)}}
        if self.with_shift:
            record.update({"heal_at_s": self.heal_at, "server_exit": self.server_exit,
                           "fallback_us": self.fallback_us(), "failback_us": self.failback_us(),
                           "share_of_default_at_end": round(self.share_at_end(), 4),
                           "resubmitted_wrs": self.total("resubmitted_wrs"),
                           "settled_wrs": self.total("settled_wrs"), "moves": self.moves})
        return record
