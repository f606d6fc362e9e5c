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
#include <fcntl.h>
#include <lmdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "kvclient/backend.h"

#define KV_BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"
#define KV_BOOT_ID_LEN	36u
#define KV_GATE_MIN_US	50u
#define KV_GATE_MAX_US	2000u
#define KV_SWEEP_BATCH	256u
/* LMDB's lock file: a head and one cache line a reader; what LMDB finds larger, it uses. */
#define KV_LMDB_LOCK_BYTES (4096ul + 64ul * KV_LMDB_MAX_READERS)

/* One open file. Guarded by stores_lock. */
struct kv_store {
	struct kv_store *next;
	MDB_env *env;
	MDB_dbi dbi;
	int gate_fd;
	unsigned refs;
	bool shut; /* env and gate are closed; freed with the last handle */
	pid_t pid;
	dev_t dev;
	ino_t ino;
	char boot_id[KV_BOOT_ID_LEN];
};

struct kv_lmdb {
	struct kv kv;
	bool is_default;
	struct kv_lmdb_limits limits;
	struct kv_store *store;
	char path[KV_PATH_MAX];
};

/* What stands before every value. */
struct kv_lease {
	uint8_t magic[4];
	char boot_id[KV_BOOT_ID_LEN];
	uint8_t expiry_ms[8];
};

static_assert(sizeof(struct kv_lease) == 48, "size of the lease on disk");

static const uint8_t kv_lease_magic[4] = { 'S', 'K', 'V', 1 };

static struct {
	__typeof__(mdb_env_create) *env_create;
	__typeof__(mdb_env_open) *env_open;
	__typeof__(mdb_env_close) *env_close;
	__typeof__(mdb_env_set_mapsize) *env_set_mapsize;
	__typeof__(mdb_env_set_maxreaders) *env_set_maxreaders;
	__typeof__(mdb_env_get_fd) *env_get_fd;
	__typeof__(mdb_txn_begin) *txn_begin;
	__typeof__(mdb_txn_commit) *txn_commit;
	__typeof__(mdb_txn_abort) *txn_abort;
	__typeof__(mdb_dbi_open) *dbi_open;
	__typeof__(mdb_stat) *stat;
	__typeof__(mdb_get) *get;
	__typeof__(mdb_put) *put;
	__typeof__(mdb_del) *del;
	__typeof__(mdb_cursor_open) *cursor_open;
	__typeof__(mdb_cursor_get) *cursor_get;
	__typeof__(mdb_cursor_del) *cursor_del;
	__typeof__(mdb_cursor_close) *cursor_close;
	__typeof__(mdb_reader_check) *reader_check;
	__typeof__(mdb_strerror) *strerror;
} md;

static const char *const kv_mdb_names[] = {
	"mdb_env_create",
	"mdb_env_open",
	"mdb_env_close",
	"mdb_env_set_mapsize",
	"mdb_env_set_maxreaders",
	"mdb_env_get_fd",
	"mdb_txn_begin",
	"mdb_txn_commit",
	"mdb_txn_abort",
	"mdb_dbi_open",
	"mdb_stat",
	"mdb_get",
	"mdb_put",
	"mdb_del",
	"mdb_cursor_open",
	"mdb_cursor_get",
	"mdb_cursor_del",
	"mdb_cursor_close",
	"mdb_reader_check",
	"mdb_strerror",
	NULL,
};

static_assert(sizeof(md) / sizeof(void *) + 1 == sizeof(kv_mdb_names) / sizeof(char *),
	      "one name a function");

static pthread_once_t md_once = PTHREAD_ONCE_INIT;
static int md_rc;

/* Guards the list and every store in it; one operation at a time runs in a process. */
static pthread_mutex_t stores_lock = PTHREAD_MUTEX_INITIALIZER;
static struct kv_store *stores;

/* Another thread may have held the lock at fork(); in the child nobody does. */
static void kv_stores_after_fork(void)
{
	pthread_mutex_init(&stores_lock, NULL);
}

/* At load: see dl.c. */
static void __attribute__((constructor)) kv_stores_watch_forks(void)
{
	pthread_atfork(NULL, NULL, kv_stores_after_fork);
}

static void kv_mdb_load(void)
{
	void *slots[sizeof(md) / sizeof(void *)];

	md_rc = kv_dl_load(KV_LMDB_SONAME, kv_mdb_names, slots);
	if (!md_rc)
		memcpy(&md, slots, sizeof(md));
}

static struct kv_lmdb *to_lmdb(struct kv *kv)
{
	return (struct kv_lmdb *)kv;
}

static int kv_lmdb_errno(int rc)
{
	switch (rc) {
	case MDB_SUCCESS: return 0;
	case MDB_NOTFOUND: return -ENOENT;
	case MDB_MAP_FULL: return -ENOSPC;
	case MDB_READERS_FULL: return -EAGAIN;
	case MDB_BAD_VALSIZE: return -EINVAL;
	default: return rc > 0 ? -rc : -EIO;
	}
}

static uint64_t kv_boot_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* ---- the gate ------------------------------------------------------------------------------- */

static int kv_gate_try(int fd, short type)
{
	struct flock fl = { .l_type = type, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1 };

	return fcntl(fd, F_SETLK, &fl) ? -errno : 0;
}

static int kv_gate_enter(struct kv *kv, int fd, uint64_t deadline_ms)
{
	unsigned us = KV_GATE_MIN_US;
	int rc;

	for (;;) {
		rc = kv_gate_try(fd, F_WRLCK);
		if (rc != -EAGAIN && rc != -EACCES)
			break;
		if (!kv_left_ms(deadline_ms))
			return kv_fail(kv, -ETIMEDOUT, "another process holds its lock");
		usleep(us);
		us = us * 2 < KV_GATE_MAX_US ? us * 2 : KV_GATE_MAX_US;
	}
	return rc ? kv_fail(kv, rc, "lock: %s", strerror(-rc)) : 0;
}

static void kv_gate_leave(int fd)
{
	kv_gate_try(fd, F_UNLCK);
}

/* ---- stores --------------------------------------------------------------------------------- */

/* Without a boot id every process of this kernel reads the same zeroes: leases then end by time. */
static void kv_boot_id_read(char id[KV_BOOT_ID_LEN])
{
	int fd = open(KV_BOOT_ID_FILE, O_RDONLY | O_CLOEXEC);

	memset(id, 0, KV_BOOT_ID_LEN);
	if (fd < 0)
		return;
	if (read(fd, id, KV_BOOT_ID_LEN) != (ssize_t)KV_BOOT_ID_LEN)
		memset(id, 0, KV_BOOT_ID_LEN);
	close(fd);
}

static int kv_store_open_dbi(struct kv_store *s)
{
	MDB_txn *txn;
	int rc, dead;

	rc = md.reader_check(s->env, &dead);
	if (rc)
		return rc;
	rc = md.txn_begin(s->env, NULL, 0, &txn);
	if (rc)
		return rc;
	rc = md.dbi_open(txn, NULL, 0, &s->dbi);
	if (rc) {
		md.txn_abort(txn);
		return rc;
	}
	return md.txn_commit(txn);
}

/* LMDB opens the data file without O_CLOEXEC; programs that the application starts must not get it.
 */
static int kv_store_close_on_exec(struct kv_store *s)
{
	int fd, rc = md.env_get_fd(s->env, &fd);

	if (rc)
		return rc;
	return fcntl(fd, F_SETFD, FD_CLOEXEC) ? errno : 0;
}

/* No sync: what a crash of the machine could lose is what its reboot ends anyway. */
static int kv_store_open_env(struct kv_store *s, struct kv_lmdb *l)
{
	const unsigned flags = MDB_NOSUBDIR | MDB_NOTLS | MDB_NOSYNC;
	int rc;

	rc = md.env_create(&s->env);
	if (rc)
		return rc;
	rc = md.env_set_mapsize(s->env, l->limits.map_bytes);
	if (!rc)
		rc = md.env_set_maxreaders(s->env, KV_LMDB_MAX_READERS);
	if (!rc)
		rc = md.env_open(s->env, l->path, flags, 0600);
	if (!rc)
		rc = kv_store_close_on_exec(s);
	if (!rc)
		rc = kv_store_open_dbi(s);
	if (rc)
		md.env_close(s->env);
	return rc;
}

/*
 * Opens and enters the gate of a file that may not be there yet. The gate itself may be exchanged
 * while we wait for it; then we hold one that bars nobody, and start again.
 */
static int kv_gate_open(struct kv_lmdb *l, uint64_t deadline_ms)
{
	char name[PATH_MAX];
	struct stat ours, named;
	int fd, rc;

	snprintf(name, sizeof(name), "%s-gate", l->path);
	for (;;) {
		rc = kv_files_prepare_gate(&l->kv, l->path);
		if (rc)
			return rc;
		fd = open(name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			return kv_fail(&l->kv, -errno, "cannot open %s: %s", name, strerror(errno));
		rc = kv_gate_enter(&l->kv, fd, deadline_ms);
		if (rc)
			break;
		if (!fstat(fd, &ours) && !lstat(name, &named) && ours.st_ino == named.st_ino)
			return fd;
		close(fd);
		if (!kv_left_ms(deadline_ms))
			return kv_fail(&l->kv, -ETIMEDOUT, "%s is replaced again and again", name);
	}
	close(fd);
	return rc;
}

/* The caller holds the gate, so nobody waits inside mdb_env_open(). Takes over @gate_fd. */
static int kv_store_new(struct kv_lmdb *l, const struct stat *st, int gate_fd,
			struct kv_store **out)
{
	struct kv_store *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return kv_fail(&l->kv, -ENOMEM, "no memory for a store");
	s->pid = getpid();
	s->dev = st->st_dev;
	s->ino = st->st_ino;
	kv_boot_id_read(s->boot_id);
	rc = kv_store_open_env(s, l);
	if (rc) {
		free(s);
		return kv_fail(&l->kv, kv_lmdb_errno(rc), "cannot use %s: %s", l->path,
			       md.strerror(rc));
	}
	s->gate_fd = gate_fd;
	s->next = stores;
	stores = s;
	*out = s;
	return 0;
}

static void kv_store_shut(struct kv_store *s)
{
	struct kv_store **at;

	for (at = &stores; *at != s; at = &(*at)->next)
		;
	*at = s->next;
	md.env_close(s->env);
	close(s->gate_fd);
	s->shut = true;
}

static struct kv_store *kv_store_find(const struct stat *st)
{
	struct kv_store *s;

	for (s = stores; s; s = s->next)
		if (s->pid == getpid() && s->dev == st->st_dev && s->ino == st->st_ino)
			return s;
	return NULL;
}

static void kv_lmdb_detach(struct kv_lmdb *l)
{
	struct kv_store *s = l->store;

	l->store = NULL;
	if (!s || s->pid != getpid() || --s->refs)
		return;
	if (!s->shut)
		kv_store_shut(s);
	free(s);
}

/* A file that was removed or exchanged under us has no other readers any more. */
static bool kv_lmdb_attached(const struct kv_lmdb *l)
{
	const struct kv_store *s = l->store;
	struct stat st;

	if (!s || s->pid != getpid() || s->shut)
		return false;
	return !lstat(l->path, &st) && st.st_dev == s->dev && st.st_ino == s->ino;
}

static int kv_lmdb_attach_locked(struct kv_lmdb *l, int gate_fd)
{
	struct kv_store *s;
	struct stat st;
	int rc;

	rc = kv_files_prepare(&l->kv, l->path, KV_LMDB_LOCK_BYTES);
	if (rc)
		goto err_close_gate;
	if (lstat(l->path, &st)) {
		rc = kv_fail(&l->kv, -errno, "%s: %s", l->path, strerror(errno));
		goto err_close_gate;
	}
	s = kv_store_find(&st);
	if (s) {
		close(gate_fd);
	} else {
		rc = kv_store_new(l, &st, gate_fd, &s);
		if (rc)
			goto err_close_gate;
		kv_gate_leave(gate_fd);
	}
	s->refs++;
	l->store = s;
	return 0;

err_close_gate:
	close(gate_fd);
	return rc;
}

static int kv_lmdb_attach(struct kv_lmdb *l, uint64_t deadline_ms)
{
	int fd, rc;

	if (kv_lmdb_attached(l))
		return 0;
	kv_lmdb_detach(l);
	if (l->is_default) {
		rc = kv_files_default_make(&l->kv);
		if (rc)
			return rc;
	}
	fd = kv_gate_open(l, deadline_ms);
	return fd < 0 ? fd : kv_lmdb_attach_locked(l, fd);
}

/* ---- batches: enter, one transaction, leave ------------------------------------------------- */

static int kv_lmdb_enter(struct kv_lmdb *l)
{
	uint64_t deadline_ms = kv_now_ms() + l->kv.timeout_ms;
	int rc;

	pthread_once(&md_once, kv_mdb_load);
	if (md_rc)
		return kv_fail(&l->kv, -ELIBACC, "install %s, which lmdb: addresses need",
			       KV_LMDB_SONAME);
	pthread_mutex_lock(&stores_lock);
	rc = kv_lmdb_attach(l, deadline_ms);
	if (!rc)
		rc = kv_gate_enter(&l->kv, l->store->gate_fd, deadline_ms);
	if (rc)
		pthread_mutex_unlock(&stores_lock);
	return rc;
}

/* @rc: LMDB's. Whatever is not an everyday answer makes the next call open the file anew. */
static void kv_lmdb_leave(struct kv_lmdb *l, int rc)
{
	kv_gate_leave(l->store->gate_fd);
	switch (rc) {
	case MDB_SUCCESS:
	case MDB_NOTFOUND:
	case MDB_MAP_FULL:
	case MDB_READERS_FULL:
	case ENOSPC: break;
	default: kv_store_shut(l->store);
	}
	pthread_mutex_unlock(&stores_lock);
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

/* One transaction's worth, as the pages that a deletion touches are copied until it commits. */
static int kv_lmdb_sweep_some(const struct kv_store *s, MDB_txn *txn, MDB_cursor *cur,
			      unsigned *swept)
{
	uint64_t now_ms = kv_boot_ms();
	MDB_val key, val;
	int rc;

	*swept = 0;
	rc = md.cursor_get(cur, &key, &val, MDB_FIRST);
	while (!rc && *swept < KV_SWEEP_BATCH) {
		if (!kv_lease_alive(s, &val, now_ms)) {
			rc = md.cursor_del(cur, 0);
			(*swept)++;
		}
		if (!rc)
			rc = md.cursor_get(cur, &key, &val, MDB_NEXT);
	}
	return rc == MDB_NOTFOUND ? 0 : rc;
}

static int kv_lmdb_sweep_batch(const struct kv_store *s, unsigned *swept)
{
	MDB_cursor *cur;
	MDB_txn *txn;
	int rc;

	rc = md.txn_begin(s->env, NULL, 0, &txn);
	if (rc)
		return rc;
	rc = md.cursor_open(txn, s->dbi, &cur);
	if (!rc) {
		rc = kv_lmdb_sweep_some(s, txn, cur, swept);
		md.cursor_close(cur);
	}
	if (rc) {
		md.txn_abort(txn);
		return rc;
	}
	return md.txn_commit(txn);
}

/* Removes the records of jobs that are gone. Dead readers first: they pin the pages we free. */
static int kv_lmdb_sweep(const struct kv_store *s)
{
	unsigned swept;
	int rc, dead;

	rc = md.reader_check(s->env, &dead);
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

	rc = md.stat(txn, l->store->dbi, &st);
	if (rc || st.ms_entries < l->limits.max_entries)
		return rc;
	rc = md.get(txn, l->store->dbi, key, &old);
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
		rc = md.put(txn, l->store->dbi, &k, &v, MDB_RESERVE);
	if (rc)
		return rc;
	kv_lease_fill(l->store, &lease, op->lease_ms);
	memcpy(v.mv_data, &lease, sizeof(lease));
	memcpy((uint8_t *)v.mv_data + sizeof(lease), sealed, len);
	op->ret = 0;
	return 0;
}

static int kv_lmdb_get(struct kv_lmdb *l, MDB_txn *txn, struct kv_op *op)
{
	MDB_val k = kv_lmdb_key(op->key), v;
	int rc = md.get(txn, l->store->dbi, &k, &v);

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
	int rc = md.del(txn, l->store->dbi, &k, NULL);

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
	int dead, rc = md.txn_begin(s->env, NULL, MDB_RDONLY, txn);

	if (rc != MDB_READERS_FULL)
		return rc;
	rc = md.reader_check(s->env, &dead);
	return rc ? rc : md.txn_begin(s->env, NULL, MDB_RDONLY, txn);
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
		if (ops[i].ret == KV_OP_OPEN)
			rc = kv_lmdb_op(l, txn, &ops[i]);
	return rc;
}

/* Of a transaction that was aborted nothing was done. -EINVAL was decided before it. */
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

	rc = write ? md.txn_begin(l->store->env, NULL, 0, &txn)
		   : kv_lmdb_begin_read(l->store, &txn);
	if (rc)
		return rc;
	rc = kv_lmdb_op_all(l, txn, ops, n);
	if (!rc && write)
		rc = md.txn_commit(txn);
	else
		md.txn_abort(txn);
	if (rc)
		kv_ops_reopen(ops, n);
	return rc;
}

static bool kv_lmdb_full(int rc)
{
	return rc == MDB_MAP_FULL || rc == ENOSPC;
}

/* What does not fit has failed alone: each in a transaction of its own. */
static int kv_lmdb_singly(struct kv_lmdb *l, struct kv_op *ops, uint32_t n)
{
	int rc;

	for (uint32_t i = 0; i < n; i++) {
		if (ops[i].ret != KV_OP_OPEN)
			continue;
		rc = kv_lmdb_batch(l, &ops[i], 1);
		if (kv_lmdb_full(rc))
			kv_op_fail(&l->kv, &ops[i], -ENOSPC, "it is full: %s", md.strerror(rc));
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
		return kv_fail(&l->kv, kv_lmdb_errno(mrc), "%s", md.strerror(mrc));
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

	pthread_mutex_lock(&stores_lock);
	kv_lmdb_detach(l);
	pthread_mutex_unlock(&stores_lock);
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
