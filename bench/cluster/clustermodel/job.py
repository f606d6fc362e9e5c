# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""One training job and its faults (SimPy).

A fault that is not masked costs what was done since the last checkpoint, and a restart; one that strikes a restart
begins it anew. A masked one costs a stall, then slower steps until it heals or the job starts again. Kinds of job:

stock           nothing is masked
pair            a dead NIC's traffic goes to its mate; the job runs on
spread          ... to all NICs of the host that live. SHIFT_BACKUP=spread
pair-hook       as pair, with the degraded policy: after a checkpoint the job stops by itself and starts again on whole
spread-hook     hosts, if what is degraded does not heal, and if running on would cost more"""
import simpy

from clustermodel import inputs, shares

KINDS = ("stock", "pair", "pair-hook", "spread", "spread-hook")
PATIENCE_OUTAGES = 3    # what has not healed after so many usual outages does not heal
EPSILON_S = 1e-6


class Job:
    """Full-speed seconds of work: done, and saved by a checkpoint."""

    def __init__(self, env, kind, hosts, interval_s, crash_mttf_s, p):
        self.env, self.p, self.hosts, self.interval_s = env, p, hosts, interval_s
        self.backup, _, hook = kind.partition("-")
        self.hook, self.crash_mttf_s = bool(hook), crash_mttf_s
        self.done = self.saved = self.lost = self.degraded = 0.0
        self.crashes = self.announced = self.masked = 0
        self.broken = {}        # host: {rail: fault}
        self.process = env.process(self.run())

    # -- what is broken

    def dead_near(self, host):
        """[rails that are gone at this host or at a neighbour of its ring], for each of the two neighbours."""
        own = set(self.broken.get(host, ()))
        return [own | set(self.broken.get((host + step) % self.hosts, ())) for step in (-1, 1)]

    def speed(self):
        n_dead = max((len(dead) for host in self.broken for dead in self.dead_near(host)), default=0)
        return 1 / (1 + self.p.exposed * (shares.factor(self.backup, n_dead, self.p) - 1))

    def outlives(self, fault):
        if self.backup not in shares.BACKUPS or not fault.maskable:
            return False
        for host in fault.hosts:
            self.broken.setdefault(host, {})[fault.rail] = fault
        return all(shares.survives(self.backup, dead, self.p.nics)
                   for host in fault.hosts for dead in self.dead_near(host))

    def strike(self, fault):
        if not self.outlives(fault):
            self.process.interrupt("crash")
            return
        self.masked += 1
        self.process.interrupt("stall")
        if fault.heals_after:
            self.env.process(self.heal(fault))

    def heal(self, fault):
        yield self.env.timeout(fault.heals_after)
        healed = False
        for host in fault.hosts:
            if self.broken.get(host, {}).get(fault.rail) is fault:
                del self.broken[host][fault.rail]
                healed = True
                if not self.broken[host]:
                    del self.broken[host]
        if healed:
            self.process.interrupt("healed")

    def suffer(self, found):
        for fault in found:
            yield self.env.timeout(fault.at - self.env.now)
            self.strike(fault)

    # -- the job

    def spend(self, left, working):
        """Seconds of work, or others. False: a crash came before they were over."""
        while left > EPSILON_S:
            speed, began, cause = self.speed() if working else 1.0, self.env.now, None
            try:
                yield self.env.timeout(left / speed)
            except simpy.Interrupt as interrupt:
                cause = interrupt.cause
            passed = (self.env.now - began) * speed
            left -= passed
            self.done += passed if working else 0
            self.degraded += self.env.now - began if working and speed < 1 else 0
            if cause == "crash":
                return False
            if cause == "stall" and working and not (yield from self.spend(self.p.stall_s, False)):
                return False
        return True

    def start_again(self, seconds):
        """On whole hosts, however often it takes."""
        self.lost += self.done - self.saved
        self.done = self.saved
        self.broken = {}
        while not (yield from self.spend(seconds, False)):
            self.crashes += 1
            self.broken = {}
            seconds = self.p.restart_s

    def worth_a_stop(self):
        since = [fault.at for rails in self.broken.values() for fault in rails.values()]
        patience = PATIENCE_OUTAGES * self.p.outage_s
        return (self.hook and since and self.env.now - min(since) > patience
                and (1 - self.speed()) * self.crash_mttf_s > self.p.announced_s)

    def run(self):
        while True:
            good = yield from self.spend(self.interval_s, True)
            good = good and (yield from self.spend(self.p.checkpoint_s, False))
            if not good:
                self.crashes += 1
                yield from self.start_again(self.p.restart_s)
                continue
            self.saved = self.done
            if self.worth_a_stop():
                self.announced += 1
                yield from self.start_again(self.p.announced_s)

    def result(self, seconds):
        return {"goodput": self.saved / seconds, "crashes": self.crashes, "announced": self.announced,
                "lost_h": self.lost / inputs.HOUR, "degraded_h": self.degraded / inputs.HOUR,
                "masked": self.masked}


def run(kind, found, hosts, seconds, interval_s, crash_mttf_s, p):
    """One job through these faults; crash_mttf_s: mean time to one that stops it, for the policy."""
    env = simpy.Environment()
    one = Job(env, kind, hosts, interval_s, crash_mttf_s, p)
    env.process(one.suffer(found))
    env.run(until=seconds)
    return one.result(seconds)
