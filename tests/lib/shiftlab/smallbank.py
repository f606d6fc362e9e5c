# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""SmallBank of bench/txn: no unit of money is made or lost but by what was committed."""
from shiftlab.books import COMMITTED, fields, must

START_VALUE = 100000


class SmallBank:
    block = 2       # savings and checking of an account
    blocks = 1000   # accounts

    @staticmethod
    def start(_record):
        return fields(START_VALUE)

    @staticmethod
    def check(books):
        found = sum(values[0] for values in books.settled())
        total = START_VALUE * len(books.histories) + sum(
            e.delta(0) for e in books.entries if e.write and e.outcome == COMMITTED)
        must(found == total, f"{found} units in the bank, not {total}")
