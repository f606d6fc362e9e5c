// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * One transaction in FORD's batches: CAS and READ of what is to be written, READ of the rest (one round trip);
 * READ of the locks and versions of the rest; log and record to the replicas; record and unlocking WRITE
 * to the server that has the lock. Every server has every record.
 */
#include "bench/txn/txn.h"

#include <string.h>

/* In the memory of the connection to the record's own server, or to a replica: one of each. */
struct local {
	struct {
		uint64_t old;
		struct record seen, again;
	} access[SET_MAX];
	struct {
		uint64_t version;
		int64_t value;
	} body[SET_MAX];
	uint64_t unlocked;
	struct log_entry log;
};

static struct local *local_of(struct worker *w, int server)
{
	return (struct local *)w->link[server].conn.mem;
}

struct shape shape_of(uint32_t accounts, uint32_t servers)
{
	struct shape shape = { .records = 2 * accounts, .servers = servers };

	shape.log_at = shape.records * sizeof(struct record);
	shape.bytes = shape.log_at + (WORKERS_MAX + 1) * sizeof(struct log_entry);
	return shape;
}

uint64_t record_at(uint32_t record)
{
	return record * sizeof(struct record);
}

int server_of(const struct worker *w, uint32_t record)
{
	return (int)(record / 2 % w->shape.servers);
}

static uint64_t lock_value(const struct worker *w)
{
	return w->unique ? (uint64_t)w->id << 48 | w->attempt : 1;
}

/* ---- lock and read -------------------------------------------------------------------------- */

static bool lock_and_read(struct worker *w)
{
	struct txn *txn = &w->txn;

	for (int i = 0; i < txn->n; i++) {
		int server = server_of(w, txn->set[i].record);
		uint64_t at = record_at(txn->set[i].record);
		struct local *local = local_of(w, server);

		if (txn->set[i].write)
			batch_cas(w, server, &local->access[i].old, at, FREE, lock_value(w));
		batch_read(w, server, &local->access[i].seen, at, sizeof(struct record));
	}
	return batches_run(w);
}

/* Is everything locked, and nothing that is only read locked by others? */
static bool all_taken(struct worker *w)
{
	struct txn *txn = &w->txn;
	bool all = true;

	for (int i = 0; i < txn->n; i++) {
		struct access *access = &txn->set[i];
		struct local *local = local_of(w, server_of(w, access->record));

		access->seen = local->access[i].seen;
		access->locked = access->write && local->access[i].old == FREE;
		all &= access->write ? access->locked : access->seen.lock == FREE;
	}
	return all;
}

/* What was only read must not have been written since, nor be locked. */
static bool validate(struct worker *w, bool *valid)
{
	struct txn *txn = &w->txn;

	*valid = true;
	for (int i = 0; i < txn->n; i++) {
		int server = server_of(w, txn->set[i].record);

		if (!txn->set[i].write)
			batch_read(w, server, &local_of(w, server)->access[i].again,
				   record_at(txn->set[i].record), sizeof(struct record));
	}
	if (!batches_run(w))
		return false;
	for (int i = 0; i < txn->n; i++) {
		struct access *access = &txn->set[i];
		const struct record *again =
			&local_of(w, server_of(w, access->record))->access[i].again;

		*valid &= access->write ||
			  (again->lock == FREE && again->version == access->seen.version);
	}
	return true;
}

/* ---- write ---------------------------------------------------------------------------------- */

static void write_record(struct worker *w, int server, int i)
{
	struct access *access = &w->txn.set[i];
	struct local *local = local_of(w, server);

	local->body[i].version = access->seen.version + 1;
	local->body[i].value = access->value;
	batch_write(w, server, &local->body[i],
		    record_at(access->record) + offsetof(struct record, version), RECORD_BODY);
}

static void write_log(struct worker *w, int server)
{
	struct log_entry *log = &local_of(w, server)->log;

	*log = (struct log_entry){ .attempt = w->attempt };
	for (int i = 0; i < w->txn.n; i++) {
		const struct access *access = &w->txn.set[i];

		if (!access->write)
			continue;
		log->write[log->n].record = access->record;
		log->write[log->n].version = access->seen.version + 1;
		log->write[log->n++].value = access->value;
	}
	batch_write(w, server, log, w->shape.log_at + w->id % WORKERS_MAX * sizeof(*log),
		    sizeof(*log));
}

static bool replicate(struct worker *w)
{
	for (int s = 0; s < (int)w->shape.servers; s++) {
		write_log(w, s);
		for (int i = 0; i < w->txn.n; i++)
			if (w->txn.set[i].write && server_of(w, w->txn.set[i].record) != s)
				write_record(w, s, i);
	}
	return batches_run(w);
}

static void unlock(struct worker *w, const struct access *access)
{
	int server = server_of(w, access->record);

	local_of(w, server)->unlocked = FREE;
	batch_write(w, server, &local_of(w, server)->unlocked,
		    record_at(access->record) + offsetof(struct record, lock), sizeof(uint64_t));
}

static bool write_and_unlock(struct worker *w)
{
	for (int i = 0; i < w->txn.n; i++) {
		if (!w->txn.set[i].write)
			continue;
		write_record(w, server_of(w, w->txn.set[i].record), i);
		unlock(w, &w->txn.set[i]);
	}
	return batches_run(w);
}

static enum outcome release(struct worker *w)
{
	w->phase = RELEASING;
	for (int i = 0; i < w->txn.n; i++)
		if (w->txn.set[i].locked)
			unlock(w, &w->txn.set[i]);
	return batches_run(w) ? ABORTED : DOUBTFUL;
}

static bool writes_any(const struct txn *txn)
{
	for (int i = 0; i < txn->n; i++)
		if (txn->set[i].write)
			return true;
	return false;
}

enum outcome txn_run(struct worker *w)
{
	bool valid;

	w->attempt++;
	w->phase = LOCKING;
	if (!lock_and_read(w))
		return DOUBTFUL;
	if (!all_taken(w) || !txn_compute(&w->txn))
		return release(w);
	if (!validate(w, &valid))
		return DOUBTFUL;
	if (!valid)
		return release(w);
	if (!writes_any(&w->txn))
		return COMMITTED;
	w->phase = REPLICATING;
	if (!replicate(w))
		return DOUBTFUL;
	w->phase = COMMITTING;
	return write_and_unlock(w) ? COMMITTED : DOUBTFUL;
}
