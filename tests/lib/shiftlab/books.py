# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What must be true behind a run of bench/txn, from the servers' memory and the workers' journals.

A worker that an error ended leaves a transaction in doubt: its locks may be held, and what it wrote may be in
memory or not. Everything else has one right answer. What is behind all transactions but those in doubt is
`settled`: of it a workload (smallbank.py, tpcc.py) checks what is its own."""
import struct
import typing

FIELDS, LINES = 5, 10
COMMITTED, DOUBTFUL = 0, 2
LOCKING, RELEASING, REPLICATING, COMMITTING = range(4)
RECORD = struct.Struct(f"<QQ{FIELDS}qQ")
ROW = struct.Struct(f"<QQQQq{LINES}Q")
ENTRY = struct.Struct(f"<QQQIBBBBQQ{FIELDS}q{FIELDS}qQ")


class Record(typing.NamedTuple):
    lock: int
    version: int
    values: tuple
    key: int


class Row(typing.NamedTuple):
    """Of a transaction that adds one; by: worker << 48 | attempt. number 0: it is free."""
    number: int
    by: int
    record: int
    n: int
    amount: int
    lines: tuple


FREE_ROW = Row(0, 0, 0, 0, 0, (0,) * LINES)


class Entry(typing.NamedTuple):
    """Of one record in one transaction; version and before: as they were read."""
    worker: int
    attempt: int
    time_ns: int
    record: int
    outcome: int
    phase: int
    write: int
    type: int
    lock: int
    version: int
    before: tuple
    after: tuple
    key: int

    def by(self):
        return f"worker {self.worker}, attempt {self.attempt}"

    def id(self):
        return self.worker << 48 | self.attempt

    def delta(self, field):
        return self.after[field] - self.before[field]


class Table(typing.NamedTuple):
    """A server's memory."""
    records: list
    rows: list


class Wrong(Exception):
    """The books are not right."""


def fields(*values):
    """Of a record: the rest are zeros."""
    return tuple(values) + (0,) * (FIELDS - len(values))


def read_row(memory):
    """Most are free: these are one object."""
    r = ROW.unpack(memory) if any(memory) else None
    return Row(*r[:5], r[5:]) if r else FREE_ROW


def read_table(path, n_records):
    with open(path, "rb") as f:
        memory = f.read()
    rows_at = n_records * RECORD.size
    records = [Record(r[0], r[1], r[2:2 + FIELDS], r[-1]) for r in RECORD.iter_unpack(memory[:rows_at])]
    return Table(records, [read_row(memory[at:at + ROW.size]) for at in range(rows_at, len(memory), ROW.size)])


def read_journal(path):
    with open(path, "rb") as f:
        return [Entry(*r[:10], r[10:10 + FIELDS], r[10 + FIELDS:10 + 2 * FIELDS], r[-1])
                for r in ENTRY.iter_unpack(f.read())]


def must(truth, what):
    if not truth:
        raise Wrong(what)


class History:
    """Of one record: who wrote each version, and its values."""

    def __init__(self, record, start):
        self.record = record
        self.start = start
        self.writer = {}
        self.doubtful = []

    def add(self, e):
        if e.outcome == DOUBTFUL:
            self.doubtful.append(e)
            if e.phase in (LOCKING, RELEASING):
                return
        version = e.version + 1
        other = self.writer.setdefault(version, e)
        must(other is e, f"record {self.record}: version {version} was written by {other.by()}, and by {e.by()}")

    def values(self, version):
        must(version == 0 or version in self.writer, f"record {self.record}: nobody wrote version {version}")
        return self.writer[version].after if version else self.start

    def check_chain(self):
        for version, e in self.writer.items():
            must(e.before == self.values(version - 1),
                 f"record {self.record}: {e.by()} read {e.before} as version {version - 1}, "
                 f"which was {self.values(version - 1)}")

    def last(self):
        """The last version whose writer has committed; what one in doubt may have made of it."""
        top = max((v for v, e in self.writer.items() if e.outcome == COMMITTED), default=0)
        for version, e in self.writer.items():
            must(e.outcome == COMMITTED or version <= top + 1,
                 f"record {self.record}: {e.by()} in doubt saw version {version - 1} behind {top}")
        return top, self.writer.get(top + 1)

    def check_place(self, server, found, primary):
        top, doubtful = self.last()
        may = [top]
        if doubtful and (doubtful.phase == COMMITTING or not primary):
            may.append(top + 1)
        must(found.version in may, f"record {self.record}: server {server} has version {found.version}, not "
             + " or ".join(map(str, may)))
        must(found.values == self.values(found.version),
             f"record {self.record}: server {server} has {found.values} as version {found.version}, not "
             f"{self.values(found.version)}")
        owners = [e.lock for e in self.doubtful] if primary else []
        must(not found.lock or found.lock in owners,
             f"record {self.record}: server {server} has a lock {found.lock:#x} without an owner")
        must(found.key == self.record, f"record {self.record}: server {server} has another record there")

    def settled(self, found):
        """The values without what one in doubt has made of them."""
        return found.values if found.version == self.last()[0] else self.writer[found.version].before


class Books:
    """tables: of each server; entries: of all workers, each worker's in order. workload: its block of records that are at
    one server, the values with which each starts, and what else it checks."""

    def __init__(self, workload, tables, entries):
        self.workload, self.tables, self.entries = workload, tables, entries
        self.histories = [History(r, workload.start(r)) for r in range(len(tables[0].records))]

    def primary(self, record):
        return record // self.workload.block % len(self.tables)

    def settled(self):
        """The values of all records, where their locks are."""
        return [h.settled(self.tables[self.primary(r)].records[r]) for r, h in enumerate(self.histories)]

    def check_reads(self):
        """What was committed had read values that were right, and no worker saw a record go back."""
        seen = {}
        for e in self.entries:
            if e.outcome != COMMITTED:
                continue
            must(e.key == e.record, f"{e.by()} read record {e.key} in place of {e.record}")
            right = self.histories[e.record].values(e.version)
            must(e.before == right, f"{e.by()} read {e.before} as version {e.version} of record {e.record}, which was "
                 f"{right}")
            must(e.version >= seen.get((e.worker, e.record), 0),
                 f"{e.by()} saw record {e.record} go back to version {e.version}")
            seen[e.worker, e.record] = e.version + (1 if e.write else 0)

    def check(self):
        """Raises Wrong."""
        for e in self.entries:
            if e.write:
                self.histories[e.record].add(e)
        for history in self.histories:
            history.check_chain()
        self.check_reads()
        for record, history in enumerate(self.histories):
            for server, table in enumerate(self.tables):
                history.check_place(server, table.records[record], server == self.primary(record))
        self.workload.check(self)
