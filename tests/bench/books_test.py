#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What checks the books behind bench/txn notices each that is wrong: a history that is right is drawn, and then
something in it is changed.

  books_test.py [--seed S]"""
import random
import sys

from changed_books import check_changes
from shiftlab.books import (COMMITTED, COMMITTING, DOUBTFUL, LOCKING, REPLICATING, Books, Entry, Record, Table, Wrong,
                            fields)
from shiftlab.smallbank import START_VALUE, SmallBank

RECORDS, SERVERS, WORKERS, TRANSACTIONS = 12, 3, 4, 200


def primary(record):
    return record // 2 % SERVERS


class Drawn:
    """Transfers between two records each, and now and then a read."""

    def __init__(self, r):
        self.random = r
        self.tables = [Table([Record(0, 0, fields(START_VALUE), i) for i in range(RECORDS)], []) for _ in range(SERVERS)]
        self.entries = []
        for attempt in range(1, TRANSACTIONS + 1):
            self.transfer(r.randint(1, WORKERS), attempt)
        self.entries.sort(key=lambda e: (e.worker, e.attempt))

    def entry(self, worker, attempt, record, delta, outcome=COMMITTED, phase=COMMITTING):
        at = self.tables[primary(record)].records[record]
        return Entry(worker, attempt, attempt, record, outcome, phase, int(delta != 0), 0, worker << 48 | attempt,
                     at.version, at.values, fields(at.values[0] + delta), record)

    def write(self, e, servers=range(SERVERS)):
        for s in servers:
            self.set(s, e.record, version=e.version + 1, values=e.after)

    def transfer(self, worker, attempt):
        a, b = self.random.sample(range(RECORDS), 2)
        amount = self.random.choice((0, 1, 500))
        for record, delta in ((a, -amount), (b, amount)):
            e = self.entry(worker, attempt, record, delta)
            self.entries.append(e)
            if delta:
                self.write(e)

    def set(self, server, record, **changed):
        records = self.tables[server].records
        records[record] = records[record]._replace(**changed)

    def some(self, write=True):
        """The place of an entry behind which others wrote the record."""
        return self.random.choice([i for i, e in enumerate(self.entries) if bool(e.write) == write and
                                   self.tables[0].records[e.record].version > e.version + 1])

    def change(self, i, **changed):
        self.entries[i] = self.entries[i]._replace(**changed)

    def books(self):
        return Books(SmallBank(), self.tables, self.entries)

    def doubt(self, phase, record=3):
        e = self.entry(1, TRANSACTIONS + 1, record, 7, DOUBTFUL, phase)
        self.entries.append(e)
        return e


# ---- books that are right ---------------------------------------------------------------------------

def locked_in_doubt(d):
    e = d.doubt(LOCKING)
    d.set(primary(e.record), e.record, lock=e.lock)


def replica_in_doubt(d):
    e = d.doubt(REPLICATING)
    d.set(primary(e.record), e.record, lock=e.lock)
    d.write(e, [(primary(e.record) + 1) % SERVERS])


def written_in_doubt(d):
    d.write(d.doubt(COMMITTING))


RIGHT = (lambda d: None, locked_in_doubt, replica_in_doubt, written_in_doubt)


# ---- and wrong ones: what is done, and what is said -------------------------------------------------

def two_owners(d):
    i = d.some()
    d.entries.append(d.entries[i]._replace(worker=WORKERS + 1))


def unlocked_by_nobody(d):
    d.set(primary(5), 5, lock=1)


def replica_locked(d):
    e = d.doubt(LOCKING)
    d.set((primary(e.record) + 1) % SERVERS, e.record, lock=e.lock)


def old_again(d):
    """A WRITE that came a second time."""
    e = d.entries[d.some()]
    d.write(e, [primary(e.record)])


def old_in_replica(d):
    e = d.entries[d.some()]
    d.write(e, [(primary(e.record) + 1) % SERVERS])


def never_written(d):
    d.entries.append(d.entry(1, TRANSACTIONS + 1, 4, 500))


def torn_read(d):
    i = d.some(write=False)
    d.change(i, before=fields(d.entries[i].before[0] + 1))


def torn_write(d):
    i = d.some()
    d.change(i, before=fields(d.entries[i].before[0] + 1))


def other_record(d):
    d.change(d.some(write=False), key=RECORDS)


def other_place(d):
    d.set(1, 2, key=3)


def not_in_order(d):
    """A worker sees what was before what it has seen."""
    i = d.some()
    e = d.entries[i]
    d.entries.append(e._replace(attempt=TRANSACTIONS + 1, write=0, after=e.before))


def doubt_in_place(d):
    """What did not come to the last phase has nothing in the first place."""
    e = d.doubt(REPLICATING)
    d.write(e)


WRONG = {two_owners: "was written by", unlocked_by_nobody: "without an owner", replica_locked: "without an owner",
         old_again: "has version", old_in_replica: "has version", never_written: "has version", torn_read: "which was",
         torn_write: "which was", other_record: "in place of", other_place: "another record", not_in_order: "go back",
         doubt_in_place: "has version"}


def check_money():
    """A unit out of nothing."""
    d = Drawn(random.Random(1))
    books = d.books()
    books.check()
    d.set(primary(0), 0, values=fields(d.tables[primary(0)].records[0].values[0] + 1))
    try:
        books.workload.check(books)
    except Wrong:
        return True
    return False


def main():
    check_changes(Drawn, RIGHT, WRONG)
    if not check_money():
        raise SystemExit("FAILED: money out of nothing was not noticed")
    print(f"{len(RIGHT)} right books, {len(WRONG) + 1} wrong ones")
    return 0


if __name__ == "__main__":
    sys.exit(main())
