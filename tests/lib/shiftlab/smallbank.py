# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What must be true behind a run of bench/txn, from the servers' memory and the workers' journals.

A worker that an error ended leaves a transaction in doubt: its locks may be held, and what it wrote may be in
memory or not. Everything else has one right answer."""
import collections
import struct
import typing

START_VALUE = 100000
COMMITTED, DOUBTFUL = 0, 2
LOCKING, RELEASING, REPLICATING, COMMITTING = range(4)
RECORD = struct.Struct("<QQqQ")
ENTRY = struct.Struct("<QQQIBBBBQQqqQ")


class Record(typing.NamedTuple):
    lock: int
    version: int
    value: int
    key: int


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
    before: int
    after: int
    key: int

    def by(self):
        return f"worker {self.worker}, attempt {self.attempt}"


class Wrong(Exception):
    """The bank's books are not right."""


def read_rows(path, layout, kind):
    with open(path, "rb") as f:
        return [kind(*row) for row in layout.iter_unpack(f.read())]


def read_table(path):
    return read_rows(path, RECORD, Record)


def read_journal(path):
    return read_rows(path, ENTRY, Entry)


def must(truth, what):
    if not truth:
        raise Wrong(what)


class History:
    """Of one record: who wrote each version, and its value."""

    def __init__(self, record):
        self.record = record
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

    def value(self, version):
        must(version == 0 or version in self.writer, f"record {self.record}: nobody wrote version {version}")
        return self.writer[version].after if version else START_VALUE

    def check_chain(self):
        for version, e in self.writer.items():
            must(e.before == self.value(version - 1),
                 f"record {self.record}: {e.by()} read {e.before} as version {version - 1}, "
                 f"which was {self.value(version - 1)}")

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
        must(found.value == self.value(found.version),
             f"record {self.record}: server {server} has {found.value} as version {found.version}, not "
             f"{self.value(found.version)}")
        owners = [e.lock for e in self.doubtful] if primary else []
        must(not found.lock or found.lock in owners,
             f"record {self.record}: server {server} has a lock {found.lock:#x} without an owner")
        must(found.key == self.record, f"record {self.record}: server {server} has another record there")


def check_reads(entries, histories):
    """What was committed had read values that were right, and no worker saw a record go back."""
    seen = {}
    for e in entries:
        if e.outcome != COMMITTED:
            continue
        must(e.key == e.record, f"{e.by()} read record {e.key} in place of {e.record}")
        must(e.before == histories[e.record].value(e.version),
             f"{e.by()} read {e.before} as version {e.version} of record {e.record}, which was "
             f"{histories[e.record].value(e.version)}")
        must(e.version >= seen.get((e.worker, e.record), 0),
             f"{e.by()} saw record {e.record} go back to version {e.version}")
        seen[e.worker, e.record] = e.version + (1 if e.write else 0)


def check_money(primary, entries):
    """No unit is made or lost but by what was committed, or is seen of what is in doubt."""
    total = START_VALUE * len(primary)
    for e in entries:
        in_place = e.outcome == COMMITTED or (e.phase == COMMITTING and primary[e.record].version > e.version)
        if e.write and in_place:
            total += e.after - e.before
    found = sum(r.value for r in primary)
    must(found == total, f"{found} units in the bank, not {total}")


def check(tables, entries):
    """Raises Wrong. tables: of each server; entries: of all workers, each worker's in order."""
    histories = collections.defaultdict(lambda: None)
    for record in range(len(tables[0])):
        histories[record] = History(record)
    for e in entries:
        if e.write:
            histories[e.record].add(e)
    for history in histories.values():
        history.check_chain()
    check_reads(entries, histories)
    for record, history in histories.items():
        for server, table in enumerate(tables):
            history.check_place(server, table[record], server == record // 2 % len(tables))
    check_money([tables[r // 2 % len(tables)][r] for r in range(len(tables[0]))], entries)
