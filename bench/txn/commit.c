// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A transaction in FORD's batches: CAS and READ of the records to write, READ of the rest (one
 * round trip); READ of the locks and versions of the rest; log and record to the replicas; record
 * and unlocking WRITE to the server that has the lock. Every server has every record.
 */
#include "bench/txn/txn.h"

#include <string.h>

/* Local memory of the connection to the record's own server, or to a replica: one of each. */
struct local {
	struct {
		uint64_t old;
		struct record seen, again;
	} access[SET_MAX];
	struct body body[SET_MAX];
	uint64_t unlocked;
	struct row row;
	struct log_entry log;
};

static_assert(sizeof(struct local) <= AREA, "it fits into what a connection sends from");

static struct local *local_of(struct worker *w, int server)
{
	return (struct local *)w->link[server].conn.mem;
}

/* ---- where things are ----------------------------------------------------------------------- */

struct shape shape_of(const struct workload *workload, uint32_t blocks, uint32_t workers,
		      uint32_t servers)
{
	struct shape shape = { .workload = workload,
			       .records = blocks * workload->block,
			       .rows_of_blocks = blocks * workload->rows_of_block,
			       .servers = servers };

	shape.rows = shape.rows_of_blocks + workers * workload->rows_of_worker;
	shape.rows_at = shape.records * sizeof(struct record);
	shape.log_at = shape.rows_at + shape.rows * sizeof(struct row);
	shape.bytes = shape.log_at + (WORKERS_MAX + 1) * sizeof(struct log_entry);
	return shape;
}

uint64_t txn_record_at(uint32_t record)
{
	return record * sizeof(struct record);
}

int server_of(const struct worker *w, uint32_t record)
{
	return (int)(record / w->shape.workload->block % w->shape.servers);
}

uint64_t attempt_of(const struct worker *w)
{
	return (uint64_t)w->id << 48 | w->attempt;
}

uint64_t lock_value(const struct worker *w)
{
	return w->unique ? attempt_of(w) : 1;
}

void txn_reach(struct txn *txn, uint32_t record, bool write)
{
	must(txn->n < SET_MAX, "room in the set");
	txn->set[txn->n++] = (struct access){ .record = record, .write = write };
}

/* ---- lock and read -------------------------------------------------------------------------- */

/* Locks one after the other: each call waits for its end. */
static bool lock_by_uid(struct worker *w)
{
	for (int i = 0; i < w->txn.n; i++) {
		uint32_t record = w->txn.set[i].record;
		int server = server_of(w, record);
		struct link *link = &w->link[server];
		uint64_t *old = &local_of(w, server)->access[i].old;

		if (w->txn.set[i].write &&
		    shift_uid_cas(link->uid, link->there.addr + txn_record_at(record),
				  link->there.rkey, FREE, lock_value(w), old)) {
			w->ended_atomics++;
			w->status = IBV_WC_GENERAL_ERR;
			return false;
		}
	}
	return true;
}

static bool lock_and_read(struct worker *w)
{
	struct txn *txn = &w->txn;

	if (w->by_uid && !lock_by_uid(w))
		return false;
	for (int i = 0; i < txn->n; i++) {
		int server = server_of(w, txn->set[i].record);
		uint64_t at = txn_record_at(txn->set[i].record);
		struct local *local = local_of(w, server);

		if (txn->set[i].write && !w->by_uid)
			batch_cas(w, server, &local->access[i].old, at, FREE, lock_value(w));
		batch_read(w, server, &local->access[i].seen, at, sizeof(struct record));
	}
	return batches_run(w);
}

/*
 * True if everything is locked, and no record that is only read is locked by others. New values
 * begin as the old ones.
 */
static bool all_taken(struct worker *w)
{
	struct txn *txn = &w->txn;
	bool all = true;

	for (int i = 0; i < txn->n; i++) {
		struct access *access = &txn->set[i];
		struct local *local = local_of(w, server_of(w, access->record));

		access->seen = local->access[i].seen;
		memcpy(access->value, access->seen.value, sizeof(access->value));
		access->locked = access->write && local->access[i].old == FREE;
		all &= access->write ? access->locked : access->seen.lock == FREE;
	}
	return all;
}

/* Checks records that were only read: none may have been written since, or be locked. */
static bool validate(struct worker *w, bool *valid)
{
	struct txn *txn = &w->txn;

	*valid = true;
	for (int i = 0; i < txn->n; i++) {
		int server = server_of(w, txn->set[i].record);

		if (!txn->set[i].write)
			batch_read(w, server, &local_of(w, server)->access[i].again,
				   txn_record_at(txn->set[i].record), sizeof(struct record));
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

static struct body body_of(const struct access *access)
{
	struct body body = { .version = access->seen.version + 1 };

	memcpy(body.value, access->value, sizeof(body.value));
	return body;
}

static void write_record(struct worker *w, int server, int i)
{
	struct body *body = &local_of(w, server)->body[i];

	*body = body_of(&w->txn.set[i]);
	batch_write(w, server, body,
		    txn_record_at(w->txn.set[i].record) + offsetof(struct record, version),
		    sizeof(*body));
}

static void write_log(struct worker *w, int server)
{
	struct log_entry *log = &local_of(w, server)->log;

	*log = (struct log_entry){ .attempt = w->attempt };
	for (int i = 0; i < w->txn.n; i++) {
		if (!w->txn.set[i].write)
			continue;
		log->write[log->n].record = w->txn.set[i].record;
		log->write[log->n++].body = body_of(&w->txn.set[i]);
	}
	batch_write(w, server, log, w->shape.log_at + w->id % WORKERS_MAX * sizeof(*log),
		    sizeof(*log));
}

/* The server whose locks keep others from its place. */
static int row_server(const struct worker *w)
{
	return server_of(w, w->txn.set[0].record);
}

static void write_row(struct worker *w, int server)
{
	struct row *row = &local_of(w, server)->row;

	if (!w->txn.row.number)
		return;
	*row = w->txn.row;
	row->by = attempt_of(w);
	batch_write(w, server, row, w->shape.rows_at + w->txn.row_at * sizeof(*row), sizeof(*row));
}

static bool replicate(struct worker *w)
{
	for (int s = 0; s < (int)w->shape.servers; s++) {
		write_log(w, s);
		if (row_server(w) != s)
			write_row(w, s);
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
		    txn_record_at(access->record) + offsetof(struct record, lock),
		    sizeof(uint64_t));
}

static bool write_and_unlock(struct worker *w)
{
	write_row(w, row_server(w));
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
	if (!all_taken(w) || !w->shape.workload->compute(w))
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
