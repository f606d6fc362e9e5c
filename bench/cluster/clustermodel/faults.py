# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What breaks when, drawn before any job runs: so each kind of job meets the same faults at the same times."""
import random
import typing


class Fault(typing.NamedTuple):
    at: float
    kind: str                   # other, nic, link, switch
    hosts: range = range(0)     # whose NIC `rail` it takes away
    rail: int = 0
    maskable: bool = False      # another NIC of each host reaches the peer
    heals_after: float = 0.0    # s; 0: not by itself


def _network_fault(rng, at, kind, hosts, p):
    """A NIC comes back by itself never, a link or switch sometimes."""
    first, wide = rng.randrange(hosts), p.switch_hosts if kind == "switch" else 1
    first -= first % wide
    transient, outage = rng.random() < p.transient, rng.expovariate(1 / p.outage_s)
    return Fault(at, kind, range(first, min(first + wide, hosts)), rng.randrange(p.nics),
                 rng.random() < p.masked, outage if transient and kind != "nic" else 0.0)


def draw(seed, gpus, seconds, rates, p):
    """Poisson, each class by itself; in the order of time."""
    found = []
    hosts = max(1, gpus // p.gpus_per_host)
    for kind, rate in rates.items():
        rng = random.Random(f"{seed} {kind}")
        at = 0.0
        while rate > 0:
            at += rng.expovariate(rate * gpus)
            if at >= seconds:
                break
            found.append(Fault(at, kind) if kind == "other" else _network_fault(rng, at, kind, hosts, p))
    return sorted(found, key=lambda fault: fault.at)
