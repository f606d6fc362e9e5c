/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The file of an LMDB store: opened once in a process, and entered through its gate. lmdb.c says
 * which rules of LMDB are kept here.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvclient/check.h"
#include "kvclient/dl.h"
#include "kvclient/files.h"
#include "kvclient/lmdb.h"
#include "kvclient/net.h"

#define KV_BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"
#define KV_GATE_MIN_US	50u
#define KV_GATE_MAX_US	2000u
/* LMDB's lock file: a head and one cache line a reader; what LMDB finds larger, it uses. */
#define KV_LMDB_LOCK_BYTES (4096ul + 64ul * KV_LMDB_MAX_READERS)

struct kv_mdb kv_mdb;

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

static_assert(sizeof(kv_mdb) / sizeof(void *) + 1 == sizeof(kv_mdb_names) / sizeof(char *),
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

/* Runs at load: see dl.c. */
static void __attribute__((constructor)) kv_stores_mind_forks(void)
{
	pthread_atfork(NULL, NULL, kv_stores_after_fork);
}

static void kv_mdb_load(void)
{
	/* Debian's and Alpine's; Fedora's and RHEL's; where the library has no soname. */
	static const char *const sonames[] = { "liblmdb.so.0", "liblmdb.so.0.0.0", "liblmdb.so",
					       NULL };
	void *slots[sizeof(kv_mdb) / sizeof(void *)];

	md_rc = kv_dl_load(sonames, kv_mdb_names, slots);
	if (!md_rc)
		memcpy(&kv_mdb, slots, sizeof(kv_mdb));
}

int kv_lmdb_errno(int rc)
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

/*
 * Reads the boot id. If there is none, every process of this kernel reads zeroes: leases then end
 * by time.
 */
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

	rc = kv_mdb.reader_check(s->env, &dead);
	if (rc)
		return rc;
	rc = kv_mdb.txn_begin(s->env, NULL, 0, &txn);
	if (rc)
		return rc;
	rc = kv_mdb.dbi_open(txn, NULL, 0, &s->dbi);
	if (rc) {
		kv_mdb.txn_abort(txn);
		return rc;
	}
	return kv_mdb.txn_commit(txn);
}

/* LMDB opens the data file without O_CLOEXEC; programs that the application starts must not get it.
 */
static int kv_store_close_on_exec(struct kv_store *s)
{
	int fd, rc = kv_mdb.env_get_fd(s->env, &fd);

	if (rc)
		return rc;
	return fcntl(fd, F_SETFD, FD_CLOEXEC) ? errno : 0;
}

/* No sync: what a crash of the machine could lose is what its reboot ends anyway. */
static int kv_store_open_env(struct kv_store *s, struct kv_lmdb *l)
{
	const unsigned flags = MDB_NOSUBDIR | MDB_NOTLS | MDB_NOSYNC;
	int rc;

	rc = kv_mdb.env_create(&s->env);
	if (rc)
		return rc;
	rc = kv_mdb.env_set_mapsize(s->env, l->limits.map_bytes);
	if (!rc)
		rc = kv_mdb.env_set_maxreaders(s->env, KV_LMDB_MAX_READERS);
	if (!rc)
		rc = kv_mdb.env_open(s->env, l->path, flags, 0600);
	if (!rc)
		rc = kv_store_close_on_exec(s);
	if (!rc)
		rc = kv_store_open_dbi(s);
	if (rc)
		kv_mdb.env_close(s->env);
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
		if (l->kv.aside)
			l->kv.aside(&fd);
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
			       kv_mdb.strerror(rc));
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

	KV_ASSERT(!s->shut);
	for (at = &stores; *at != s; at = &(*at)->next)
		KV_ASSERT(*at);
	*at = s->next;
	kv_mdb.env_close(s->env);
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
	if (!s || s->pid != getpid())
		return;
	KV_ASSERT(s->refs);
	if (--s->refs)
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
	KV_ASSERT(!l->store && !s->shut);
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

/* ---- enter, leave --------------------------------------------------------------------------- */

int kv_lmdb_enter(struct kv_lmdb *l)
{
	uint64_t deadline_ms = kv_now_ms() + l->kv.timeout_ms;
	int rc;

	pthread_once(&md_once, kv_mdb_load);
	if (md_rc == -EMFILE)
		return kv_fail(&l->kv, md_rc, "liblmdb.so.0 was not loaded: %s", kv_dl_no_files);
	if (md_rc)
		return kv_fail(&l->kv, -ELIBACC,
			       "install liblmdb.so.0, which lmdb: addresses need");
	pthread_mutex_lock(&stores_lock);
	rc = kv_lmdb_attach(l, deadline_ms);
	if (!rc)
		rc = kv_gate_enter(&l->kv, l->store->gate_fd, deadline_ms);
	if (rc)
		pthread_mutex_unlock(&stores_lock);
	return rc;
}

void kv_lmdb_leave(struct kv_lmdb *l, int rc)
{
	KV_ASSERT(l->store && !l->store->shut);
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

void kv_lmdb_release(struct kv_lmdb *l)
{
	pthread_mutex_lock(&stores_lock);
	kv_lmdb_detach(l);
	pthread_mutex_unlock(&stores_lock);
}
