#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What checks orders and payments behind bench/txn notices each that is wrong: a history that is right is drawn, and
then something in it is changed at all places that other checks compare with it.

  tpcc_test.py [--seed S]"""
import sys

from changed_books import check_changes
from shiftlab import tpcc
from shiftlab.books import (COMMITTED, COMMITTING, DOUBTFUL, FREE_ROW, LINES, LOCKING, REPLICATING, Books, Entry,
                            Record, Row, Table)
from shiftlab.tpcc import BLOCK, NEW_ORDER, PAYMENT, Tpcc

SERVERS, WORKERS, TRANSACTIONS = 3, 4, 120
WAREHOUSES = Tpcc.blocks
ROWS = WAREHOUSES * tpcc.DISTRICTS * tpcc.ORDERS + WORKERS * tpcc.PAYMENTS


def primary(record):
    return record // BLOCK % SERVERS


class Drawn:
    def __init__(self, r):
        self.random = r
        records = [Record(0, 0, Tpcc.start(i), i) for i in range(WAREHOUSES * BLOCK)]
        self.tables = [Table(list(records), [FREE_ROW] * ROWS) for _ in range(SERVERS)]
        self.entries, self.attempt = [], 0
        self.payments = [0] * (WORKERS + 1)
        self.rows = {NEW_ORDER: [], PAYMENT: []}    # their places
        for _ in range(TRANSACTIONS):
            self.commit(r.randint(1, WORKERS), r.choice((NEW_ORDER, PAYMENT)))

    # ---- one transaction -----------------------------------------------------------------------

    def entry(self, worker, kind, record, **changes):
        """changes: of fields, by their number behind an f."""
        at = self.tables[primary(record)].records[record]
        after = list(at.values)
        for field, by in changes.items():
            after[int(field[1:])] += by
        return Entry(worker, self.attempt, self.attempt, record, COMMITTED, COMMITTING, int(bool(changes)), kind,
                     worker << 48 | self.attempt, at.version, at.values, tuple(after), record)

    def order(self, worker):
        home, district = (worker - 1) % WAREHOUSES, self.random.randrange(tpcc.DISTRICTS)
        customer = (home * BLOCK + tpcc.CUSTOMER_AT + district * tpcc.CUSTOMERS
                    + self.random.randrange(tpcc.CUSTOMERS))
        entries = [self.entry(worker, NEW_ORDER, home * BLOCK),
                   self.entry(worker, NEW_ORDER, tpcc.district_of(home, district), f0=1),
                   self.entry(worker, NEW_ORDER, customer)]
        number, lines = entries[1].before[tpcc.NEXT], []
        stocks = [w * BLOCK + tpcc.STOCK_AT + i for w in range(WAREHOUSES) for i in range(tpcc.ITEMS)]
        for stock in self.random.sample(stocks, self.random.randint(tpcc.LINES_MIN, LINES)):
            quantity = self.random.randint(1, tpcc.QUANTITY_MAX)
            lines.append(stock << 32 | quantity)
            has = self.tables[primary(stock)].records[stock].values[tpcc.QUANTITY]
            refill = tpcc.REFILL if has < quantity + tpcc.STOCK_LEAST else 0
            entries.append(self.entry(worker, NEW_ORDER, stock, f0=refill - quantity, f1=quantity, f2=1,
                                      f3=int(stock // BLOCK != home)))
        cost = (sum(tpcc.Line(packed).price() for packed in lines) * (1000 + entries[0].before[tpcc.TAX])
                * (100 - entries[2].before[tpcc.DISCOUNT]) // 100000)
        row = Row(number, entries[0].id(), customer, len(lines), cost, tuple(lines) + (0,) * (LINES - len(lines)))
        return entries, (home * tpcc.DISTRICTS + district) * tpcc.ORDERS + number - 1, row

    def payment(self, worker):
        home, amount = (worker - 1) % WAREHOUSES, self.random.randint(100, 500000)
        district = tpcc.district_of(home, self.random.randrange(tpcc.DISTRICTS))
        customer = (self.random.randrange(WAREHOUSES) * BLOCK + tpcc.CUSTOMER_AT
                    + self.random.randrange(tpcc.DISTRICTS * tpcc.CUSTOMERS))
        entries = [self.entry(worker, PAYMENT, home * BLOCK, f0=amount),
                   self.entry(worker, PAYMENT, district, f1=amount),
                   self.entry(worker, PAYMENT, customer, f0=-amount, f1=amount, f2=1)]
        at = WAREHOUSES * tpcc.DISTRICTS * tpcc.ORDERS + (worker - 1) * tpcc.PAYMENTS + self.payments[worker]
        row = Row(self.payments[worker] + 1, entries[0].id(), customer, 1, amount, (district,) + (0,) * (LINES - 1))
        return entries, at, row

    def draw(self, worker, kind):
        self.attempt += 1
        return self.order(worker) if kind == NEW_ORDER else self.payment(worker)

    def commit(self, worker, kind):
        entries, at, row = self.draw(worker, kind)
        self.entries += entries
        self.write(entries)
        self.put(at, row)
        self.rows[kind].append(at)
        self.payments[worker] += kind == PAYMENT

    def doubt(self, kind, phase):
        entries, at, row = self.draw(1, kind)
        self.entries += [e._replace(outcome=DOUBTFUL, phase=phase) for e in entries]
        return entries, at, row

    # ---- what is in memory ---------------------------------------------------------------------

    def write(self, entries, servers=range(SERVERS)):
        for e in entries:
            for s in servers if e.write else ():
                records = self.tables[s].records
                records[e.record] = records[e.record]._replace(version=e.version + 1, values=e.after)

    def put(self, at, row, servers=range(SERVERS)):
        for s in servers:
            self.tables[s].rows[at] = row

    def change_row(self, kind, servers=range(SERVERS), **changed):
        at = self.random.choice(self.rows[kind])
        self.put(at, self.tables[0].rows[at]._replace(**changed), servers)

    def change_last(self, chosen, field):
        """The last one who wrote such a record wrote one more, and so it lies in all memories."""
        i = max(i for i, e in enumerate(self.entries) if e.write and chosen(e.record))
        after = list(self.entries[i].after)
        after[field] += 1
        self.entries[i] = last = self.entries[i]._replace(after=tuple(after))
        self.write([last])
        for k, e in enumerate(self.entries):    # who has read it since
            if e.record == last.record and e.version == last.version + 1:
                self.entries[k] = e._replace(before=last.after, after=last.after)

    def books(self):
        return Books(Tpcc(), self.tables, sorted(self.entries, key=lambda e: (e.worker, e.attempt)))


def is_district(record):
    return tpcc.DISTRICT_AT <= record % BLOCK < tpcc.CUSTOMER_AT


# ---- books that are right ---------------------------------------------------------------------------

def locked(d):
    d.doubt(NEW_ORDER, LOCKING)


def replicated(kind):
    def change(d):
        entries, at, row = d.doubt(kind, REPLICATING)
        server = (primary(entries[0].record) + 1) % SERVERS
        d.put(at, row, [server])
        d.write([e for e in entries if primary(e.record) != server], [server])
    return change


def half(kind):
    """At the replicas; where its locks are the row is."""
    def change(d):
        entries, at, row = d.doubt(kind, COMMITTING)
        d.put(at, row)
        for s in range(SERVERS):
            d.write([e for e in entries if primary(e.record) != s], [s])
    return change


def whole(kind):
    def change(d):
        entries, at, row = d.doubt(kind, COMMITTING)
        d.put(at, row)
        d.write(entries)
    return change


RIGHT = [lambda d: None, locked] + [f(kind) for f in (replicated, half, whole) for kind in (NEW_ORDER, PAYMENT)]


# ---- and wrong ones: what is done, and what is said -------------------------------------------------

def order_lost(d):
    d.put(d.random.choice(d.rows[NEW_ORDER]), FREE_ROW)


def payment_lost_at_one(d):
    d.put(d.random.choice(d.rows[PAYMENT]), FREE_ROW, [d.random.randrange(SERVERS)])


def number_skipped(d):
    d.change_last(is_district, tpcc.NEXT)


def number_wrong(d):
    d.change_row(NEW_ORDER, number=tpcc.ORDERS + 1)


def number_twice(d):
    """Two workers had the same."""
    i = next(i for i, e in enumerate(d.entries) if e.write and is_district(e.record) and e.type == NEW_ORDER)
    d.entries.append(d.entries[i]._replace(worker=WORKERS + 1))


def row_of_nobody(d):
    _, at, row = d.draw(1, NEW_ORDER)
    d.put(at, row, [d.random.randrange(SERVERS)])


def row_too_early(d):
    """Where the locks are it comes last."""
    entries, at, row = d.doubt(NEW_ORDER, REPLICATING)
    d.put(at, row, [primary(entries[0].record)])


def row_differs(d):
    d.change_row(PAYMENT, [SERVERS - 1], amount=1)


def cost(d):
    d.change_row(NEW_ORDER, amount=1)


def lines(d):
    d.change_row(NEW_ORDER, n=tpcc.LINES_MIN - 1)


def no_customer(d):
    d.change_row(NEW_ORDER, record=0)


def no_stock(d):
    at = d.random.choice(d.rows[NEW_ORDER])
    row = d.tables[0].rows[at]
    d.put(at, row._replace(lines=(1 << 32 | 1,) + row.lines[1:]))


def stock_left(d):
    d.change_last(tpcc.is_stock, tpcc.STOCK_YTD)


def stock_there(d):
    d.change_last(tpcc.is_stock, tpcc.QUANTITY)


def paid(d):
    d.change_row(PAYMENT, amount=1)


def district_has(d):
    d.change_last(is_district, tpcc.DISTRICT_YTD)


def warehouse_has(d):
    d.change_last(lambda record: record % BLOCK == 0, tpcc.YTD)


def customer_has(d):
    d.change_last(tpcc.is_customer, tpcc.BALANCE)


WRONG = {order_lost: "has one by 0x0", payment_lost_at_one: "has one by 0x0", number_skipped: "the next one is",
         number_wrong: "has the number", number_twice: "was written by", row_of_nobody: "which nobody",
         row_too_early: "which nobody", row_differs: "not the same", cost: "costs", lines: "so many lines",
         no_customer: "is no customer's", no_stock: "what is not there", stock_left: "the orders",
         stock_there: "refills", paid: "that were paid", district_has: "that were paid", warehouse_has: "its districts",
         customer_has: "the payments"}


def main():
    check_changes(Drawn, RIGHT, WRONG)
    print(f"{len(RIGHT)} right books, {len(WRONG)} wrong ones")
    return 0


if __name__ == "__main__":
    sys.exit(main())
