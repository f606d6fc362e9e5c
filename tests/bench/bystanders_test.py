#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The judge of bench/bystanders.py: what is a difference, and that a page promises each one that is allowed."""
import os
import re
import unittest

from shiftlab.bystanders.compare import allowed_rules, differences
from shiftlab.bystanders.play import Seen
from shiftlab.bystanders.script import MAX_UNITS, Script

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


def seen(what, value, bystander, hangs=()):
    s = Seen()
    s.note((7, "A", "it", what), value, bystander)
    s.hangs = list(hangs)
    return s


def judged(what, stock, shift, bystander):
    """The name of the rule that allowed it, "different" or "the same"."""
    found, used = differences(seen(what, stock, bystander), seen(what, shift, bystander), allowed_rules())
    return "different" if found else next(iter(used), "the same")


class Compare(unittest.TestCase):
    def test_a_bystander_sees_the_same(self):
        for what, value, other in (("requests", "s0:0 s1:0", "s0:0 s1:12"), ("requests", "s0:12", "s0:0"),
                                   ("receives", "0s64 1s64", "0s64"), ("events", "10 port1", ""), ("events", "", "8 port0"),
                                   ("probe", "port 0 state 1", "port 0 state 4"), ("connect", "init 0 rtr 0", "init 0 rtr 22")):
            self.assertEqual(judged(what, value, value, True), "the same")
            self.assertEqual(judged(what, value, other, True), "different", (what, value, other))

    def test_a_protected_end_is_no_worse(self):
        self.assertEqual(judged("requests", "s0:12 s1:5", "s0:0 s1:0", False), "masked faults")
        self.assertEqual(judged("requests", "s0:0 s1:0", "s0:12 s1:5", False), "different")
        self.assertEqual(judged("requests", "s0:0 s1:0", "", False), "different")
        self.assertEqual(judged("receives", "0s64", "0s64 1s64", False), "masked faults")
        self.assertEqual(judged("receives", "0s64 1s64", "0s64", False), "different")
        self.assertEqual(judged("connect", "init 0 rtr 0 rts 0 ah 0", "init 0 rtr 5 rts -1 ah -1", False), "different")
        self.assertEqual(judged("connect", "init 5 rtr -1 rts -1 ah -1", "init 0 rtr 0 rts 0 ah 0", False), "masked answers")

    def test_events_are_held_back_of_protected_ones_alone(self):
        self.assertEqual(judged("events", "10 port1, 9 port1", "", False), "masked events")
        self.assertEqual(judged("events", "9 port1", "10 port1", False), "different")
        self.assertEqual(judged("events", "0 cq3", "", False), "different")

    def told(self, *rows):
        """[(stock, SHIFT, is a bystander there)]: how many of them differ?"""
        stock, shift = Seen(), Seen()
        for step, (mine, other, bystander) in enumerate(rows):
            stock.note((step, "A", "ctx0", "events"), mine, bystander)
            shift.note((step, "A", "ctx0", "events"), other, bystander)
        return len(differences(stock, shift, allowed_rules())[0])

    def test_who_comes_later_is_told(self):
        self.assertEqual(self.told(("10 port1", "", False), ("", "10 port1", True)), 0)
        self.assertEqual(self.told(("10 port1", "", False), ("", "10 port1", True), ("", "10 port1", True)), 1)
        self.assertEqual(self.told(("", "10 port1", True), ("10 port1", "", False)), 1)
        self.assertEqual(self.told(("8 port0", "", False), ("", "8 port0", True)), 0)
        self.assertEqual(self.told(("8 port0", "", False), ("", "", False)), 0)
        self.assertEqual(self.told(("8 port0", "", False), ("", "", True)), 1)

    def test_destroying(self):
        self.assertEqual(judged("dropqp", "ah 0 qp 5 mr 5", "ah 0 qp 0 mr 0", True), "destroyed on a dead device")
        self.assertEqual(judged("dropqp", "ah 0 qp 0 mr 0", "ah 0 qp 5 mr 0", True), "different")
        self.assertEqual(judged("dropcq", "5", "0", True), "destroyed on a dead device")

    def test_registering(self):
        stock, shift = "pd 67 mr 67 cq 67", "pd 67 mr 0 -mr 0 cq 67"
        self.assertEqual(judged("probe", stock, shift, "mixed"), "registered on a dead device")
        self.assertEqual(judged("probe", stock, shift, True), "different")
        self.assertEqual(judged("probe", stock, "pd 0 mr 0 -mr 0 cq 67", "mixed"), "different")
        self.assertEqual(judged("probe", "pd 0 mr 0 -mr 0", "pd 0 mr 67", "mixed"), "different")

    def test_what_a_hang_kept_from_being_reached_is_one_hang(self):
        found, _ = differences(seen("requests", "s0:0", True), Seen(), allowed_rules())
        self.assertEqual(len(found), 1)
        hung = Seen()
        hung.hangs = ["step 3"]
        self.assertEqual(differences(seen("requests", "s0:0", True), hung, allowed_rules())[0], [])


class Allowed(unittest.TestCase):
    def test_a_page_promises_each(self):
        for rule in allowed_rules():
            page, _, anchor = rule["promise"].partition("#")
            with open(os.path.join(ROOT, page), encoding="utf-8") as f:
                text = f.read()
            heads = {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in re.findall(r"^#+ (.+)$", text, re.M)}
            self.assertIn(anchor, heads, rule["name"])
            self.assertIn(rule["says"], " ".join(text.split()), rule["name"])


class Scripts(unittest.TestCase):
    def test_a_seed_names_one(self):
        for seed in range(300):
            script = Script(seed)
            self.assertEqual(str(script), str(Script(seed)))
            self.assertEqual([s[0] for s in script.steps], [s[0] for s in Script(seed).steps])
            self.assertLessEqual(len(script.units), MAX_UNITS)
            self.assertTrue(any(u.protected for u in script.units))

    def test_no_queue_is_overrun_by_what_a_program_counts(self):
        for seed in range(300):
            for p in Script(seed).processes.values():
                self.assertLessEqual(p.queues, 128)
                self.assertLessEqual(p.channels, 32)
                self.assertTrue(all(0 <= q.room <= q.entries for c in p.contexts for q in c.queues))


if __name__ == "__main__":
    unittest.main()
