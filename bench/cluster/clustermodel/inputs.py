# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What the models are fed with: inputs.json, where each value has its source."""
import json
import os
import types

PATH = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "inputs.json")
KINDS = ("published", "measured", "fitted", "assumed")
HOUR = 3600.0
DAY = 24 * HOUR


def rows():
    """{name: {value, unit, kind, source}}"""
    with open(PATH, encoding="utf-8") as f:
        found = json.load(f)
    for name, row in found.items():
        if row["kind"] not in KINDS or not row["source"] or not row["unit"]:
            raise SystemExit(f"inputs.json: {name} has no source, unit or kind")
    return found


def values(**other):
    """By name, with some replaced. What is not an input is an error."""
    found = {name: row["value"] for name, row in rows().items()}
    unknown = sorted(set(other) - set(found))
    if unknown:
        raise KeyError(f"no input: {', '.join(unknown)}")
    return types.SimpleNamespace(**{**found, **other})


def rates(p):
    """{class of fault: faults a second on one GPU}, of the table of interruptions."""
    exposure_s = p.gpus * p.days * DAY
    link = p.link * (1 - p.switch_share)
    switch = p.link * p.switch_share
    other = p.interruptions - p.link - p.nic
    return {name: count / exposure_s for name, count in
            (("other", other), ("nic", p.nic), ("link", link), ("switch", switch))}


def with_network(p, share, total=None):
    """The rates with another share of the network, and another rate of all; its parts stay in proportion."""
    usual = rates(p)
    total = total or sum(usual.values())
    network = sum(rate for name, rate in usual.items() if name != "other")
    return {name: total * (1 - share) if name == "other" else total * share * rate / network
            for name, rate in usual.items()}
