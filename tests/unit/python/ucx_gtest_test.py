#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What tests/ucx makes of gtest's words: passed, failed, skipped, crashed, hung, ended badly after all.

usage: ucx_gtest_test.py
"""
import os
import sys
import unittest

from ucx import run_ucx_gtest as ucx

LIST = """[     INFO ] dc_mlx5 is not available
rc_verbs/uct_flush_test.
  am_zcopy/0  # GetParam() = rc_verbs/mlx5_0:1
  put_bcopy/0  # GetParam() = rc_verbs/mlx5_0:1
ud_verbs/test_ud.
  crc/0  # GetParam() = ud_verbs/mlx5_0:1
"""
A, B, C = "rc_verbs/t.a/0", "rc_verbs/t.b/0", "rc_verbs/t.c/0"


def run(test):
    return f"[ RUN      ] {test} <rc_verbs/mlx5_0:1>\n"


def good(test):
    return f"[       OK ] {test} (2 ms)\n"


class Results(unittest.TestCase):
    def take(self, said, status, left=(A, B, C)):
        results = {}
        return results, ucx.take(results, said, list(left), status)

    def test_names_are_taken_from_the_list(self):
        self.assertEqual(ucx.names(LIST), ["rc_verbs/uct_flush_test.am_zcopy/0", "rc_verbs/uct_flush_test.put_bcopy/0",
                                           "ud_verbs/test_ud.crc/0"])

    def test_each_ending(self):
        said = run(A) + good(A) + run(B) + "[     SKIP ] (!check_atomics())\n" + good(B)
        said += run(C) + "/src/x/test_rc.cc:12: Failure\nExpected: 1\n" + f"[  FAILED  ] {C}, where GetParam() = rc (3 ms)\n"
        said += f"[==========] 3 tests ran.\n[  PASSED  ] 2 tests.\n[  FAILED  ] 1 test, listed below:\n[  FAILED  ] {C}, where\n"
        results, left = self.take(said, 1)
        self.assertEqual(results, {A: ("passed", ""), B: ("skipped", "(!check_atomics())"),
                                   C: ("failed", "test_rc.cc:12: Failure")})
        self.assertEqual(left, [])

    def test_a_crash_ends_one_test_and_the_rest_is_left(self):
        results, left = self.take(run(A) + good(A) + run(B), -11)
        self.assertEqual((results[B], left), (("failed", "the process died of SIGSEGV"), [C]))

    def test_a_test_that_hangs(self):
        results, left = self.take(run(A), None)
        self.assertEqual((results[A], left), (("failed", "it did not end in its time"), [B, C]))

    def test_a_process_that_runs_nothing_makes_progress(self):
        results, left = self.take("", 127)
        self.assertEqual((results[A][0], left), ("failed", [B, C]))

    def test_a_bad_end_behind_the_last_test(self):
        results, left = self.take(run(A) + good(A), 1, [A])
        self.assertEqual((results[A], left), (("failed", "at exit: the process ended with 1"), []))

    def test_each_explanation_has_a_reason(self):
        for name, why in ucx.explanations():
            self.assertTrue(why, name.pattern)


if __name__ == "__main__":
    unittest.main()
