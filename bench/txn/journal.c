// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The acts and sights of a worker: an entry for each record that was committed or ended in doubt.
 */
#include "bench/txn/txn.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

struct entry {
	uint64_t worker, attempt, time_ns; /* time of the end, by CLOCK_MONOTONIC */
	uint32_t record;
	uint8_t outcome, phase, write, type;
	uint64_t lock, version;
	int64_t before[FIELDS], after[FIELDS];
	uint64_t key;
};

void journal_open(struct worker *w, const char *path)
{
	w->journal = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	must(w->journal >= 0, path);
}

/*
 * Notes an outcome, except an abort, which leaves nothing in memory. The lock is the one that the
 * worker takes, not the one that it saw.
 */
void journal_note(struct worker *w, enum outcome outcome)
{
	struct entry entries[SET_MAX];
	size_t bytes;

	if (outcome == ABORTED)
		return;
	for (int i = 0; i < w->txn.n; i++) {
		const struct access *access = &w->txn.set[i];

		entries[i] = (struct entry){ .worker = w->id,
					     .attempt = w->attempt,
					     .time_ns = (uint64_t)(now_s() * 1e9),
					     .record = access->record,
					     .outcome = (uint8_t)outcome,
					     .phase = (uint8_t)w->phase,
					     .write = access->write,
					     .type = w->txn.type,
					     .lock = lock_value(w),
					     .version = access->seen.version,
					     .key = access->seen.key };
		memcpy(entries[i].before, access->seen.value, sizeof(entries[i].before));
		memcpy(entries[i].after, access->value, sizeof(entries[i].after));
	}
	bytes = (size_t)w->txn.n * sizeof(*entries);
	must(write(w->journal, entries, bytes) == (ssize_t)bytes, "the journal");
}

void journal_close(struct worker *w)
{
	must_zero(close(w->journal), "close of the journal");
}
