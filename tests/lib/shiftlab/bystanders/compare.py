# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""
What stock saw beside what was seen under SHIFT. A note of a bystander must be the same, unless allowed.json names the
difference and the promise that makes it one; a protected end may see success where stock saw an error, and nothing worse.
"""
import collections
import json
import os
import re

PORT_EVENT = re.compile(r"\d+ port\d+")


def allowed_rules():
    with open(os.path.join(os.path.dirname(os.path.realpath(__file__)), "allowed.json"), encoding="utf-8") as f:
        return json.load(f)


FATAL = "8 port0"


class Events:
    """Of one context, in order: what is held back while all of its users are protected is owed to those who come later."""

    def __init__(self):
        self.owed = collections.Counter()

    def is_masked(self, stock, shift, bystander):
        """
        May SHIFT have told this where stock told that? Less of ports and devices while nobody else is there; later what is
        owed; and of a device that is dead everybody who is not protected must have heard.
        """
        mine, other = (collections.Counter(w for w in text.split(", ") if w) for text in (stock, shift))
        missing, extra = mine - other, other - mine
        late = extra & self.owed
        self.owed -= late
        masked = not bystander and all(PORT_EVENT.fullmatch(event) for event in missing)
        if masked:
            self.owed += missing
        return not extra - late and (masked or not missing) and not (bystander and self.owed[FATAL])


def all_well(text):
    return all(word.endswith(":0") for word in text.split())


def is_no_worse(what, stock, shift):
    """Of a protected end."""
    if what == "requests":
        return all_well(shift) and len(shift.split()) >= 1 or not stock or not all_well(stock)
    if what == "receives":
        return set(stock.split()) - {w for w in stock.split() if w.startswith("x")} <= set(shift.split()) or "x" in shift
    return True


def answers(text):
    """"qp 0 mr 5": {"qp": 0, "mr": 5}; a bare "0": {"": 0}. What was asked twice keeps its last answer."""
    words = text.split()
    if len(words) % 2:
        words.insert(0, "")
    return {name: value for name, value in zip(words[::2], words[1::2], strict=True)}


def is_well_answered(stock, shift):
    """Where stock's verb succeeded, this one did."""
    mine, other = answers(stock), answers(shift)
    return all(other.get(name) == "0" for name, value in mine.items() if value == "0")


def is_destroyed(stock, shift):
    """Stock could not destroy it, as its device is dead (EIO), or as another object was left (EBUSY)."""
    pairs = list(zip(stock.split(), shift.split(), strict=True)) if len(stock.split()) == len(shift.split()) else [("", "-")]
    return all(a == b or (a in ("5", "16") and b == "0") for a, b in pairs)


def is_registered(stock, shift):
    """Stock could not register memory, as the device is dead; all other answers are the same."""
    mine, other = answers(stock), answers(shift)
    return (mine.pop("mr", "0") != "0" and other.pop("mr", "") == "0" and other.pop("-mr", "0") == "0" and mine == other)


def rule_for(key, stock, shift, bystander, rules, masked):
    """The name of the rule that allows a difference; None."""
    what = key[3]
    for rule in rules:
        if what not in rule["notes"] or rule["bystander"] not in ("any", bystander):
            continue
        if rule["test"] == "masked event" and masked:
            return rule["name"]
        if rule["test"] == "destroyed" and is_destroyed(stock, shift):
            return rule["name"]
        if rule["test"] == "registered" and is_registered(stock, shift):
            return rule["name"]
        if rule["test"] == "no worse" and is_no_worse(what, stock, shift):
            return rule["name"]
        if rule["test"] == "well answered" and is_well_answered(stock, shift):
            return rule["name"]
    return None


def differences(stock, shift, rules):
    """[(key, what stock saw, what was seen under SHIFT)], and how often each rule was needed."""
    found, used, events = [], {}, {}
    for key, mine in stock.notes.items():
        other = shift.notes.get(key, "nothing: it was not reached" if shift.hangs else "nothing")
        bystander = stock.bystander[key]
        masked = key[3] == "events" and events.setdefault(key[1:3], Events()).is_masked(mine, other, bystander)
        if mine == other and (masked or key[3] != "events"):
            continue
        rule = rule_for(key, mine, other, bystander, rules, masked)
        if rule:
            used[rule] = used.get(rule, 0) + 1
        elif key in shift.notes or not shift.hangs:
            found.append((key, mine, f"{other} (and what was held back is not told)" if mine == other else other))
    return found, used
