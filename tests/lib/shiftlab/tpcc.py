# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""New-order and payment of bench/txn, after TPC-C, with what it demands of the tables (its clause 3.3.2): orders of
a district are numbered without a gap; what was paid is what warehouses, districts and customers have; of what was
ordered the stock is less. The numbers are those of bench/txn/tpcc.c."""
import collections

from shiftlab.books import COMMITTED, COMMITTING, DOUBTFUL, FREE_ROW, LINES, REPLICATING, fields, must

NEW_ORDER, PAYMENT = range(2)
DISTRICTS, CUSTOMERS, ITEMS = 10, 30, 300
ORDERS, PAYMENTS = 2048, 8192
LINES_MIN, QUANTITY_MAX = 5, 10
DISTRICT_AT = 1
CUSTOMER_AT = DISTRICT_AT + DISTRICTS
STOCK_AT = CUSTOMER_AT + DISTRICTS * CUSTOMERS
BLOCK = STOCK_AT + ITEMS
STOCK_LEAST, REFILL = 10, 91
# fields
YTD, TAX = range(2)                                     # of a warehouse
NEXT, DISTRICT_YTD = range(2)                           # of a district
BALANCE, PAID, PAYMENTS_MADE, DISCOUNT = range(4)       # of a customer
QUANTITY, STOCK_YTD, STOCK_ORDERS, FOREIGN = range(4)   # of a stock


def district_of(warehouse, district):
    return warehouse * BLOCK + DISTRICT_AT + district


def is_customer(record):
    return CUSTOMER_AT <= record % BLOCK < STOCK_AT


def is_stock(record):
    return record % BLOCK >= STOCK_AT


def price(item):
    return 100 + item * 31 % 9901


class Line:
    """Of an order, as its row has it."""

    def __init__(self, packed):
        self.stock, self.quantity = packed >> 32, packed & 0xffffffff

    def price(self):
        return self.quantity * price(self.stock % BLOCK - STOCK_AT)


class Rows:
    """Who may and must have added each row: those that were committed, and one in doubt, of which some servers know."""

    def __init__(self, books):
        self.warehouses = len(books.histories) // BLOCK
        self.must, self.may = {}, {}        # {index: by}; those that may be there, at replicas alone or everywhere
        self.type = {}
        payments = collections.Counter()
        for e in books.entries:
            if e.type == NEW_ORDER and e.write and 0 < e.record % BLOCK < CUSTOMER_AT:
                self.note(e, self.order_at(e.record, e.before[NEXT]))
            elif e.type == PAYMENT and e.record % BLOCK == 0:
                self.note(e, self.payment_at(e.worker, payments[e.worker]))
                payments[e.worker] += 1

    def order_at(self, district, number):
        return (district // BLOCK * DISTRICTS + district % BLOCK - DISTRICT_AT) * ORDERS + number - 1

    def payment_at(self, worker, before):
        return self.warehouses * DISTRICTS * ORDERS + (worker - 1) * PAYMENTS + before

    def number_at(self, at):
        payment = at - self.warehouses * DISTRICTS * ORDERS
        return 1 + (at % ORDERS if payment < 0 else payment % PAYMENTS)

    def note(self, e, at):
        if e.outcome == COMMITTED:
            must(at not in self.must, f"row {at} was written by {e.by()}, and by another one")
            self.must[at] = e.id()
            self.type[at] = e.type
        elif e.outcome == DOUBTFUL and e.phase in (REPLICATING, COMMITTING):
            self.may[at] = e.id(), e.phase

    def check(self, server, rows, warehouse_server):
        used = {at for at, row in enumerate(rows) if row is not FREE_ROW}
        for at in sorted(used.union(self.must)):
            row, by = rows[at], self.must.get(at)
            if by is None:
                self.check_free(server, at, row, warehouse_server)
                continue
            must(row.by == by, f"row {at}: server {server} has one by {row.by:#x}, not by {by:#x}")
            must(row.number == self.number_at(at), f"row {at} has the number {row.number}")

    def check_free(self, server, at, row, warehouse_server):
        by, phase = self.may.get(at, (0, None))
        if by and phase == REPLICATING and warehouse_server(by) == server:
            by = 0      # that one comes last
        must(row == FREE_ROW or by and row.by == by, f"row {at}: server {server} has one by {row.by:#x}, which nobody "
             "committed")


class Tpcc:
    block = BLOCK
    blocks = 3      # warehouses

    @staticmethod
    def start(record):
        at = record % BLOCK
        if at < DISTRICT_AT:
            return fields(0, record // BLOCK % 201)
        if at < CUSTOMER_AT:
            return fields(1)
        if at < STOCK_AT:
            return fields(0, 0, 0, record % 51)
        return fields(STOCK_LEAST + record % REFILL)

    @staticmethod
    def home(worker, warehouses):
        return (worker - 1) % warehouses

    def check(self, books):
        rows = Rows(books)
        for server, table in enumerate(books.tables):
            rows.check(server, table.rows, lambda by: self.home(by >> 48, rows.warehouses) % len(books.tables))
        settled = books.settled()
        # every server has all that were committed; who wrote each was checked
        found = {at: books.tables[0].rows[at] for at in rows.must}
        for table in books.tables[1:]:
            for at, row in found.items():
                must(table.rows[at] == row, f"row {at} is not the same at all servers")
        orders = [(at, row) for at, row in sorted(found.items()) if rows.type[at] == NEW_ORDER]
        payments = [row for at, row in sorted(found.items()) if rows.type[at] == PAYMENT]
        check_numbers(settled, orders, rows.warehouses)
        check_orders(settled, [row for _, row in orders])
        check_stock(self, settled, [row for _, row in orders])
        check_payments(settled, payments, rows.warehouses)


def check_numbers(settled, orders, warehouses):
    """1, 2, 3, ... up to the next one, in each district."""
    numbers = collections.defaultdict(list)
    for at, row in orders:
        numbers[at // ORDERS].append(row.number)
    for index in range(warehouses * DISTRICTS):
        following = settled[district_of(index // DISTRICTS, index % DISTRICTS)][NEXT]
        must(numbers[index] == list(range(1, following)),
             f"district {index}: orders {numbers[index][:3]}...{numbers[index][-3:]}, the next one is {following}")


def check_orders(settled, orders):
    for row in orders:
        lines = [Line(packed) for packed in row.lines[:row.n]]
        warehouse = row.record // BLOCK * BLOCK
        must(LINES_MIN <= row.n <= LINES and not any(row.lines[row.n:]), f"order {row} has not so many lines as it says")
        must(is_customer(row.record), f"order {row} is no customer's")
        must(all(is_stock(line.stock) and 1 <= line.quantity <= QUANTITY_MAX for line in lines),
             f"order {row} orders what is not there")
        cost = sum(line.price() for line in lines) * (1000 + settled[warehouse][TAX]) * (
            100 - settled[row.record][DISCOUNT]) // 100000
        must(row.amount == cost, f"order {row} costs {cost}")


def check_stock(workload, settled, orders):
    """What has left it stands in the orders; it was refilled by whole refills."""
    left, times, foreign = collections.Counter(), collections.Counter(), collections.Counter()
    for row in orders:
        for line in map(Line, row.lines[:row.n]):
            left[line.stock] += line.quantity
            times[line.stock] += 1
            foreign[line.stock] += line.stock // BLOCK != row.record // BLOCK
    for record in filter(is_stock, range(len(settled))):
        values = settled[record]
        ordered = (left[record], times[record], foreign[record])
        must(values[STOCK_YTD:FOREIGN + 1] == ordered, f"stock {record} says {values}, the orders {ordered}")
        kept = workload.start(record)[QUANTITY] - values[STOCK_YTD]
        must(STOCK_LEAST <= values[QUANTITY] < STOCK_LEAST + REFILL and not (values[QUANTITY] - kept) % REFILL,
             f"stock {record} has {values[QUANTITY]}, where {kept} and refills of {REFILL} should be")


def check_payments(settled, payments, warehouses):
    """What was paid is in the warehouses, in their districts, and gone from the customers."""
    districts, customers, times = collections.Counter(), collections.Counter(), collections.Counter()
    for row in payments:
        districts[row.lines[0]] += row.amount
        customers[row.record] += row.amount
        times[row.record] += 1
    for warehouse in range(warehouses):
        own = [district_of(warehouse, d) for d in range(DISTRICTS)]
        for district in own:
            must(settled[district][DISTRICT_YTD] == districts[district], f"district {district} has "
                 f"{settled[district][DISTRICT_YTD]}, of {districts[district]} that were paid")
        total = sum(districts[district] for district in own)
        must(settled[warehouse * BLOCK][YTD] == total,
             f"warehouse {warehouse} has {settled[warehouse * BLOCK][YTD]}, its districts {total}")
    for record in filter(is_customer, range(len(settled))):
        paid = (-customers[record], customers[record], times[record])
        must(settled[record][:3] == paid, f"customer {record} has {settled[record]}, the payments {paid}")
