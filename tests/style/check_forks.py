#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Every lock that the child of a fork may meet is minded: the table says how, and the sources are held against it.

A lock that the whole process has is held over a fork, so that what it guards is whole in the child, or made anew there.
A lock that is part of an object is the object's: a child that has no use for its parent's objects never waits for it.
Whoever adds a lock says here which it is. The check is first tried on sources made up to break it.

usage: check_forks.py [ROOT]
"""
import glob
import os
import re
import sys

FOLDERS = ("shiftlib", "providers", "libibverbs", "kvclient", "uid")
TYPES = r"(?:pthread_(?:mutex|rwlock|cond|spinlock|barrier)_t|sem_t|struct sp_lock|struct sh_readers)"
MEMBER = re.compile(rf"^\s*(?:extern |static |const )*{TYPES} (\w+(?:\[\w*\])?(?:, \w+)*)(?: = \w+)?;", re.M)
ANEW_IN_BODY = re.compile(r"static const pthread_mutex_t anew = \w+;")

HELD = "held over a fork, and made anew in the child"
ANEW = "made anew in the child"
OBJECT = "an object's"
# file: {lock: (how, and what in the sources shows it: a file and a text)}
PROCESS = "shiftlib/process.c"
LOCKS = {
    "shiftlib/base/lock.h": {"sh_lock_mutex": (HELD, PROCESS, ".lock = &sh_lock_mutex")},
    "shiftlib/base/lock.c": {"sh_lock_mutex": (HELD, PROCESS, ".lock = &sh_lock_mutex")},
    "shiftlib/loop/loop.h": {
        "idle": (ANEW, PROCESS, "sh_cond_init(&sh.idle"),
        "devices_lock": (HELD, PROCESS, ".lock = &sh.devices_lock")},
    "shiftlib/cm/internal.h": {
        "lock": (ANEW, "shiftlib/cm/events.c", "pthread_mutex_init(&sh_cm.lock"),
        "poked": (ANEW, "shiftlib/cm/events.c", "pthread_cond_init(&sh_cm.poked")},
    "shiftlib/report/on_event.c": {
        "lock": (ANEW, "shiftlib/report/on_event.c", "pthread_mutex_init(&on_event.lock"),
        "changed": (ANEW, "shiftlib/report/on_event.c", "sh_cond_init(&on_event.changed")},
    "shiftlib/facade/cq_events.c": {
        "settle_lock": (ANEW, "shiftlib/facade/cq_events.c", "pthread_mutex_init(&settle_lock"),
        "settled": (ANEW, "shiftlib/facade/cq_events.c", "pthread_cond_init(&settled")},
    "libibverbs/context.c": {"lock": (HELD, "libibverbs/context.c", "contexts_before_fork, ")},
    "kvclient/dl.c": {
        "loading": (HELD, "kvclient/dl.c", "pthread_mutex_init(&loading"),
        "calling": (HELD, "kvclient/dl.c", "pthread_mutex_init(&calling")},
    "kvclient/lmdb_store.c": {"stores_lock": (ANEW, "kvclient/lmdb_store.c",
                                              "pthread_mutex_init(&stores_lock")},
    "shiftlib/facade/async.c": {"lock": (OBJECT,), "idle": (OBJECT,)},
    "shiftlib/facade/internal.h": {"lock": (OBJECT,), "readers": (OBJECT,)},
    "shiftlib/control/internal.h": {"lock": (OBJECT,)},
    "shiftlib/base/readers.h": {"lock": (OBJECT,)},
    "shiftlib/base/worker.c": {"lock": (OBJECT,), "changed": (OBJECT,), "ended": (OBJECT,)},
    "providers/ledger/cq.h": {"lock": (OBJECT,), "ex_lock": (OBJECT,)},
    "providers/ledger/qp.h": {"sq_lock": (OBJECT,)},
    "providers/ledger/srq.h": {"lock": (OBJECT,)},
    "providers/mlx5/bf.h": {"lock": (OBJECT,)},
    "providers/mlx5/cq.h": {"lock": (OBJECT,), "ex_lock": (OBJECT,)},
    "providers/mlx5/dev.h": {"lock": (OBJECT,)},
    "providers/mlx5/qp.h": {"sq_lock": (OBJECT,)},
    "providers/mlx5/srq.h": {"lock": (OBJECT,)},
}


def locks_of(text):
    """The names of all locks that a source defines, by lines."""
    found = []
    for match in MEMBER.finditer(ANEW_IN_BODY.sub("", text)):
        found += [name.split("[")[0] for name in match.group(1).split(", ")]
    return found


def is_of_process(text, name):
    """Defined at the outermost level, or in a struct that has an initialised object."""
    return bool(re.search(rf"^(?:static )?{TYPES} {name}\b", text, re.M) or
                re.search(rf"\.{name} = PTHREAD_\w+", text))


def wrong(sources, locks):
    """Sentences about what is missing, in either direction."""
    said = []
    for path, text in sources.items():
        known = locks.get(path, {})
        found = locks_of(text)
        said += [f"{path}: what becomes of {name} in the child of a fork? See {os.path.basename(__file__)}"
                 for name in found if name not in known]
        said += [f"{path}: there is no lock {name}" for name in known if name not in found]
        said += [f"{path}: {name} is the process's, not an object's" for name in found
                 if known.get(name, ("",))[0] == OBJECT and is_of_process(text, name)]
    for path, known in locks.items():
        if path not in sources:
            said.append(f"there is no {path}")
        for name, (how, *where) in known.items():
            if how != OBJECT and where[1] not in sources.get(where[0], ""):
                said.append(f"{path}: {name} is not {how}: {where[0]} has no {where[1]!r}")
    return said


def selftest(sources):
    """A lock that is added, one of the process that is called an object's, and one that is not minded any more."""
    added = dict(sources, **{"shiftlib/base/log.c": sources["shiftlib/base/log.c"] +
                             "static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;\n"})
    called = {**LOCKS, "kvclient/dl.c": {"loading": (OBJECT,), "calling": (OBJECT,)}}
    forgotten = dict(sources, **{PROCESS: sources[PROCESS].replace(".lock = &sh.devices_lock", "")})
    for name, result in (("added", wrong(added, LOCKS)), ("called", wrong(sources, called)),
                         ("forgotten", wrong(forgotten, LOCKS))):
        if not result:
            sys.exit(f"check_forks.py sees nothing where a lock is {name}")


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", "..")
    sources = {}
    for folder in FOLDERS:
        for path in glob.glob(os.path.join(root, folder, "**", "*.[ch]"), recursive=True):
            with open(path, encoding="utf-8") as f:
                sources[os.path.relpath(path, root)] = f.read()
    selftest(sources)
    said = wrong(sources, LOCKS)
    print("\n".join(said) or f"{sum(map(len, LOCKS.values()))} locks are minded")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
