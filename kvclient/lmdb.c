/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Records in one LMDB file, for the processes of one user on one machine.
 *
 * LMDB's rules, and how they are kept:
 * - A process must not open a file twice: handles on one file share a store, found by inode.
 * - A store must not be used after fork(): it carries its pid. The child leaves the parent's where
 *   it is (closing it would touch the parent's locks) and opens its own.
 * - Its locks have no time-out: every operation first takes the gate, a record lock on a file of
 *   ours, by trying until the time is up. The kernel drops a gate with its process, so a killed one
 *   bars nobody, and what it left inside LMDB is repaired by the next (robust mutex, reader check).
 *
 * Leases are told by CLOCK_BOOTTIME with the boot id beside it. All users of the file share one
 * kernel, so this clock is common to them; unlike the time of day nobody sets it, so a lease cannot
 * end early or live on; and a file that survived a reboot holds expired records only.
 */
#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kvclient/check.h"
#include "kvclient/files.h"
#include "kvclient/lmdb.h"
#include "kvclient/seal.h"

#define KV_SWEEP_BATCH 256u

/* The lease before every value. */
struct kv_lease {
	uint8_t magic[4];
	char boot_id[KV_BOOT_ID_LEN];
	uint8_t expiry_ms[8];
};

static_assert(sizeof(struct kv_lease) == 48, "size of the lease on disk");

static const uint8_t kv_lease_magic[4] = { 'S', 'K', 'V', 1 };

static struct kv_lmdb *to_lmdb(struct kv *kv)
{
	return (struct kv_lmdb *)kv;
}

static uint64_t kv_boot_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static MDB_val kv_lmdb_key(const char *key)
{
	return (MDB_val){ .mv_size = strlen(key), .mv_data = (void *)key };
}

static bool kv_lease_alive(const struct kv_store *s, const MDB_val *val, uint64_t now_ms)
{
	struct kv_lease lease;
	uint64_t expiry;

	if (val->mv_size < sizeof(lease))
		return false;
	memcpy(&lease, val->mv_data, sizeof(lease));
	memcpy(&expiry, lease.expiry_ms, sizeof(expiry));
	return !memcmp(lease.magic, kv_lease_magic, sizeof(lease.magic)) &&
	       !memcmp(lease.boot_id, s->boot_id, sizeof(lease.boot_id)) &&
	       now_ms < le64toh(expiry);
}

/*
 * Sweeps one transaction's worth, as the pages that a deletion touches are copied until it
 * commits.
 */
static int kv_lmdb_sweep_some(const struct kv_store *s, MDB_txn *txn, MDB_cursor *cur,
			      unsigned *swept)
{
	uint64_t now_ms = kv_boot_ms();
	MDB_val key, val;
	int rc;

	*swept = 0;
	rc = kv_mdb.cursor_get(cur, &key, &val, MDB_FIRST);
	while (!rc && *swept < KV_SWEEP_BATCH) {
		if (!kv_lease_alive(s, &val, now_ms)) {
			rc = kv_mdb.cursor_del(cur, 0);
			(*swept)++;
		}
		if (!rc)
			rc = kv_mdb.cursor_get(cur, &key, &val, MDB_NEXT);
	}
	return rc == MDB_NOTFOUND ? 0 : rc;
}

static int kv_lmdb_sweep_batch(const struct kv_store *s, unsigned *swept)
{
	MDB_cursor *cur;
	MDB_txn *txn;
	int rc;

	rc = kv_mdb.txn_begin(s->env, NULL, 0, &txn);
	if (rc)
		return rc;
	rc = kv_mdb.cursor_open(txn, s->dbi, &cur);
	if (!rc) {
		rc = kv_lmdb_sweep_some(s, txn, cur, swept);
		kv_mdb.cursor_close(cur);
	}
	if (rc) {
		kv_mdb.txn_abort(txn);
		return rc;
	}
	return kv_mdb.txn_commit(txn);
}

/* Removes the records of jobs that are gone. Dead readers first: they pin the pages we free. */
static int kv_lmdb_sweep(const struct kv_store *s)
{
	unsigned swept;
	int rc, dead;

	rc = kv_mdb.reader_check(s->env, &dead);
	do {
		if (!rc)
			rc = kv_lmdb_sweep_batch(s, &swept);
	} while (!rc && swept == KV_SWEEP_BATCH);
	return rc;
}

static void kv_lease_fill(const struct kv_store *s, struct kv_lease *lease, unsigned lease_ms)
{
	uint64_t expiry = htole64(kv_boot_ms() + lease_ms);

	memcpy(lease->magic, kv_lease_magic, sizeof(lease->magic));
	memcpy(lease->boot_id, s->boot_id, sizeof(lease->boot_id));
	memcpy(lease->expiry_ms, &expiry, sizeof(expiry));
}

/* A key that is there may always be renewed; a new one must fit the limit. */
static int kv_lmdb_room(const struct kv_lmdb *l, MDB_txn *txn, MDB_val *key)
{
	MDB_stat st;
	MDB_val old;
	int rc;

	rc = kv_mdb.stat(txn, l->store->dbi, &st);
	if (rc || st.ms_entries < l->limits.max_entries)
		return rc;
	rc = kv_mdb.get(txn, l->store->dbi, key, &old);
	return rc == MDB_NOTFOUND ? MDB_MAP_FULL : rc;
}

static int kv_lmdb_put(struct kv_lmdb *l, MDB_txn *txn, struct kv_op *op)
{
	MDB_val k = kv_lmdb_key(op->key);
	uint8_t sealed[KV_SEALED_MAX];
	struct kv_lease lease;
	MDB_val v;
	size_t len;
	int rc;

	rc = -kv_seal(&l->kv, op, sealed, &len);
	v.mv_size = sizeof(lease) + len;
	if (!rc)
		rc = kv_lmdb_room(l, txn, &k);
	if (!rc)
		rc = kv_mdb.put(txn, l->store->dbi, &k, &v, MDB_RESERVE);
	if (rc)
		return rc;
	KV_ASSERT(v.mv_size == sizeof(lease) + len);
	kv_lease_fill(l->store, &lease, op->lease_ms);
	memcpy(v.mv_data, &lease, sizeof(lease));
	memcpy((uint8_t *)v.mv_data + sizeof(lease), sealed, len);
	op->ret = 0;
	return 0;
}

static int kv_lmdb_get(struct kv_lmdb *l, MDB_txn *txn, struct kv_op *op)
{
	MDB_val k = kv_lmdb_key(op->key), v;
	int rc = kv_mdb.get(txn, l->store->dbi, &k, &v);

	if (rc && rc != MDB_NOTFOUND)
		return rc;
	if (rc || !kv_lease_alive(l->store, &v, kv_boot_ms()))
		kv_op_fail(&l->kv, op, -ENOENT, "no such record");
	else
		kv_op_take(&l->kv, op, (const uint8_t *)v.mv_data + sizeof(struct kv_lease),
			   v.mv_size - sizeof(struct kv_lease));
	return 0;
}

static int kv_lmdb_del(struct kv_lmdb *l, MDB_txn *txn, struct kv_op *op)
{
	MDB_val k = kv_lmdb_key(op->key);
	int rc = kv_mdb.del(txn, l->store->dbi, &k, NULL);

	if (rc && rc != MDB_NOTFOUND)
		return rc;
	op->ret = 0;
	return 0;
}

static int kv_lmdb_op(struct kv_lmdb *l, MDB_txn *txn, struct kv_op *op)
{
	switch (op->type) {
	case KV_OP_PUT: return kv_lmdb_put(l, txn, op);
	case KV_OP_GET: return kv_lmdb_get(l, txn, op);
	case KV_OP_DEL: return kv_lmdb_del(l, txn, op);
	}
	return EINVAL;
}

/* The gate keeps other readers out, so slots that are still taken belong to killed processes. */
static int kv_lmdb_begin_read(const struct kv_store *s, MDB_txn **txn)
{
	int dead, rc = kv_mdb.txn_begin(s->env, NULL, MDB_RDONLY, txn);

	/*
	 * LMDB locks a byte at a process's number, which a process of another container may have
	 * as well. A writer needs no such place.
	 */
	if (rc == EAGAIN || rc == EACCES)
		return kv_mdb.txn_begin(s->env, NULL, 0, txn);
	if (rc != MDB_READERS_FULL)
		return rc;
	rc = kv_mdb.reader_check(s->env, &dead);
	return rc ? rc : kv_mdb.txn_begin(s->env, NULL, MDB_RDONLY, txn);
}

static bool kv_ops_write(const struct kv_op *ops, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (ops[i].type != KV_OP_GET)
			return true;
	return false;
}

static int kv_lmdb_op_all(struct kv_lmdb *l, MDB_txn *txn, struct kv_op *ops, uint32_t n)
{
	int rc = 0;

	for (uint32_t i = 0; i < n && !rc; i++)
		if (ops[i].ret == KV_OP_OPEN) {
			rc = kv_lmdb_op(l, txn, &ops[i]);
			KV_ASSERT(rc || ops[i].ret != KV_OP_OPEN);
		}
	return rc;
}

/*
 * Reopens the operations of an aborted transaction, which did nothing. -EINVAL was decided before
 * it.
 */
static void kv_ops_reopen(struct kv_op *ops, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (ops[i].ret != -EINVAL)
			ops[i].ret = KV_OP_OPEN;
}

static int kv_lmdb_batch(struct kv_lmdb *l, struct kv_op *ops, uint32_t n)
{
	bool write = kv_ops_write(ops, n);
	MDB_txn *txn;
	int rc;

	rc = write ? kv_mdb.txn_begin(l->store->env, NULL, 0, &txn)
		   : kv_lmdb_begin_read(l->store, &txn);
	if (rc)
		return rc;
	rc = kv_lmdb_op_all(l, txn, ops, n);
	if (!rc && write)
		rc = kv_mdb.txn_commit(txn);
	else
		kv_mdb.txn_abort(txn);
	if (rc)
		kv_ops_reopen(ops, n);
	return rc;
}

static bool kv_lmdb_full(int rc)
{
	return rc == MDB_MAP_FULL || rc == ENOSPC;
}

/* Does each operation in a transaction of its own, so that only those that do not fit fail. */
static int kv_lmdb_singly(struct kv_lmdb *l, struct kv_op *ops, uint32_t n)
{
	int rc;

	for (uint32_t i = 0; i < n; i++) {
		if (ops[i].ret != KV_OP_OPEN)
			continue;
		rc = kv_lmdb_batch(l, &ops[i], 1);
		if (kv_lmdb_full(rc))
			kv_op_fail(&l->kv, &ops[i], -ENOSPC, "it is full: %s", kv_mdb.strerror(rc));
		else if (rc)
			return rc;
	}
	return 0;
}

static int kv_lmdb_run(struct kv *kv, struct kv_op *ops, uint32_t n)
{
	struct kv_lmdb *l = to_lmdb(kv);
	int rc, mrc;

	rc = kv_lmdb_enter(l);
	if (rc)
		return rc;
	mrc = kv_lmdb_batch(l, ops, n);
	if (kv_lmdb_full(mrc)) {
		mrc = kv_lmdb_sweep(l->store);
		if (!mrc)
			mrc = kv_lmdb_batch(l, ops, n);
	}
	if (kv_lmdb_full(mrc))
		mrc = kv_lmdb_singly(l, ops, n);
	kv_lmdb_leave(l, mrc);
	if (mrc)
		return kv_fail(&l->kv, kv_lmdb_errno(mrc), "%s", kv_mdb.strerror(mrc));
	return 0;
}

static int kv_lmdb_ping(struct kv *kv)
{
	struct kv_lmdb *l = to_lmdb(kv);
	int rc = kv_lmdb_enter(l);

	if (!rc)
		kv_lmdb_leave(l, MDB_SUCCESS);
	return rc;
}

static void kv_lmdb_close(struct kv *kv)
{
	struct kv_lmdb *l = to_lmdb(kv);

	kv_lmdb_release(l);
	free(l);
}

static const struct kv_ops kv_lmdb_ops = {
	.ping = kv_lmdb_ping,
	.run = kv_lmdb_run,
	.close = kv_lmdb_close,
};

struct kv *kv_lmdb_new(const struct kv_url *url, const struct kv_lmdb_limits *limits)
{
	struct kv_lmdb *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->kv.ops = &kv_lmdb_ops;
	l->limits = *limits;
	l->is_default = url->scheme == KV_SCHEME_LMDB_DEFAULT;
	if (l->is_default)
		kv_files_default_path(l->path, sizeof(l->path));
	else
		strcpy(l->path, url->path);
	snprintf(l->kv.where, sizeof(l->kv.where), "lmdb at %.140s", l->path);
	return &l->kv;
}
