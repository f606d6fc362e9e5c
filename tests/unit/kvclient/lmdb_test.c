/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The LMDB store: several processes, killed ones, full, removed, spoilt and unsafe files. */
#include "tests/lib/fork.h"
#include "tests/lib/kv_support.h"

#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kvclient/backend.h"
#include "kvclient/url.h"
#include "kvclient/kv.h"
#include "tests/unit/kvclient/common.h"

#define KILLS	   60
#define HAMMERS	   3
#define HAMMER_OPS 8
#define MAX_FD	   1024
#define SMALL	   64u
#define LEASE_HEAD 48u

static char *dir;
static char path[128], url[160];

static struct kv *open_kv(unsigned timeout_ms)
{
	struct kv *kv;

	assert_int_equal(kv_open(url, timeout_ms, &kv, NULL, 0), 0);
	return kv;
}

static int put(struct kv *kv, const char *key, const char *text)
{
	return kv_put(kv, key, text, strlen(text), KV_TEST_LEASE_MS);
}

static void expect_text(struct kv *kv, const char *key, const char *text)
{
	char buf[64];
	size_t len;

	assert_int_equal(kv_get(kv, key, buf, sizeof(buf), &len), 0);
	assert_int_equal(len, strlen(text));
	assert_memory_equal(buf, text, len);
}

static int get_rc(struct kv *kv, const char *key)
{
	char buf[64];
	size_t len;

	return kv_get(kv, key, buf, sizeof(buf), &len);
}

static void basics(void **state)
{
	kv_common_basics(url);
	kv_common_arguments(url);
}

static void batch(void **state)
{
	kv_common_batch(url);
}

static void lease(void **state)
{
	kv_common_lease(url);
}

static void inherited(void **state)
{
	kv_common_inherited(url);
}

static void processes(void **state)
{
	kv_common_processes(url);
	kv_common_threads(url);
}

static void hammer_batch(struct kv *kv, unsigned *seed)
{
	static uint8_t value[HAMMER_OPS][KV_VALUE_MAX];
	struct kv_op ops[HAMMER_OPS];
	char keys[HAMMER_OPS][16];

	for (int i = 0; i < HAMMER_OPS; i++) {
		snprintf(keys[i], sizeof(keys[i]), "b/%d", rand_r(seed) % 100);
		ops[i] = (struct kv_op){ .type = (enum kv_op_type)(rand_r(seed) % 3),
					 .key = keys[i],
					 .val = value[i],
					 .len = 1 + (size_t)rand_r(seed) % KV_VALUE_MAX,
					 .lease_ms = 1 + (unsigned)rand_r(seed) % 50,
					 .buf = value[i],
					 .cap = KV_VALUE_MAX };
	}
	if (kv_run(kv, ops, HAMMER_OPS)) {
		dprintf(1, "a batch failed: %s\n", kv_last_error(kv));
		_exit(5);
	}
	for (int i = 0; i < HAMMER_OPS; i++)
		if (ops[i].ret && ops[i].ret != -ENOENT)
			_exit(6);
}

static void hammer_for_ever(unsigned seed)
{
	struct kv *kv;
	char key[32], val[512];
	size_t len;
	int rc;

	if (kv_open(url, 4 * KV_TEST_TIMEOUT_MS, &kv, NULL, 0))
		_exit(1);
	memset(val, 'x', sizeof(val));
	for (;;) {
		hammer_batch(kv, &seed);
		snprintf(key, sizeof(key), "h/%d", rand_r(&seed) % 200);
		if (kv_put(kv, key, val, sizeof(val), KV_TEST_LEASE_MS))
			_exit(2);
		rc = kv_get(kv, key, val, sizeof(val), &len);
		if (rc && rc != -ENOENT) /* others delete, too */
			_exit(3);
		if (rand_r(&seed) % 4 == 0 && kv_del(kv, key))
			_exit(4);
	}
}

/* Processes are killed in the middle of whatever they do; the others never notice. */
static void killed_processes(void **state)
{
	unsigned seed = kv_test_seed();
	struct kv *kv = open_kv(KV_TEST_TIMEOUT_MS);
	int status;
	pid_t pid;

	assert_int_equal(put(kv, "steady", "value"), 0);
	for (int i = 0; i < KILLS; i++) {
		pid = test_fork();
		assert_true(pid >= 0);
		if (!pid)
			hammer_for_ever(seed + (unsigned)i);
		for (int n = rand_r(&seed) % 20; n >= 0; n--) {
			assert_int_equal(put(kv, "beat", "on"), 0);
			expect_text(kv, "steady", "value");
			usleep((unsigned)rand_r(&seed) % 700);
		}
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
	}
	expect_text(kv, "steady", "value");
	kv_close(kv);
}

/* Several at once, and nobody is left who had the file open: as when a whole node's job is killed. */
static void all_killed(void **state)
{
	unsigned seed = kv_test_seed();
	pid_t pid[HAMMERS];
	struct kv *kv;
	int status;

	kv = open_kv(KV_TEST_TIMEOUT_MS);
	assert_int_equal(put(kv, "steady", "value"), 0);
	kv_close(kv);
	for (int round = 0; round < KILLS / 2; round++) {
		for (int i = 0; i < HAMMERS; i++) {
			pid[i] = test_fork();
			assert_true(pid[i] >= 0);
			if (!pid[i])
				hammer_for_ever(seed + (unsigned)(round * HAMMERS + i));
		}
		usleep((unsigned)rand_r(&seed) % 20000);
		for (int i = 0; i < HAMMERS; i++)
			kill(pid[i], SIGKILL);
		for (int i = 0; i < HAMMERS; i++) {
			assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
			assert_true(WIFSIGNALED(status));
		}
		kv = open_kv(KV_TEST_TIMEOUT_MS);
		expect_text(kv, "steady", "value");
		assert_int_equal(put(kv, "steady", "value"), 0);
		kv_close(kv);
	}
}

static struct kv *open_small(size_t map_bytes, size_t max_entries)
{
	const struct kv_lmdb_limits limits = { .map_bytes = map_bytes, .max_entries = max_entries };
	struct kv_url parsed;
	struct kv *kv;

	assert_int_equal(kv_url_parse(url, &parsed, NULL, 0), 0);
	kv = kv_lmdb_new(&parsed, &limits);
	assert_non_null(kv);
	kv->timeout_ms = KV_TEST_TIMEOUT_MS;
	return kv;
}

static void fill(struct kv *kv, char tag, unsigned from, unsigned to, unsigned lease_ms)
{
	char key[16];

	for (unsigned i = from; i < to; i++) {
		snprintf(key, sizeof(key), "%c/%u", tag, i);
		assert_int_equal(kv_put(kv, key, "v", 1, lease_ms), 0);
	}
}

static void full_by_entries(void **state)
{
	struct kv *kv = open_small(KV_LMDB_MAP_BYTES, SMALL);

	fill(kv, 'l', 0, SMALL, KV_TEST_LEASE_MS);
	assert_int_equal(put(kv, "one/more", "v"), -ENOSPC);
	assert_int_equal(put(kv, "l/5", "renewed"), 0);
	expect_text(kv, "l/5", "renewed");
	assert_int_equal(kv_put(kv, "l/7", "v", 1, 1), 0);
	usleep(5000);
	assert_int_equal(put(kv, "one/more", "v"), 0);
	assert_int_equal(put(kv, "two/more", "v"), -ENOSPC);
	expect_text(kv, "l/5", "renewed");
	kv_close(kv);
}

/* More expired records than one sweep transaction takes, and a map that is too small for all. */
static void full_by_pages(void **state)
{
	struct kv *kv = open_small(1ul << 20, KV_LMDB_MAX_ENTRIES);
	char val[KV_VALUE_MAX], key[32];
	unsigned n = 0;
	int rc = 0;

	memset(val, 'v', sizeof(val));
	fill(kv, 'e', 0, 600, 1);
	assert_int_equal(put(kv, "kept", "value"), 0);
	usleep(5000);
	/* Fails only when nothing expired is left and every page holds a live record. */
	for (; !rc && n < 10000; n++) {
		snprintf(key, sizeof(key), "big/%u", n);
		rc = kv_put(kv, key, val, sizeof(val), 20);
	}
	if (rc) {
		assert_int_equal(rc, -ENOSPC);
		usleep(30000);
		assert_int_equal(put(kv, "after", "sweep"), 0);
		expect_text(kv, "after", "sweep");
	}
	expect_text(kv, "kept", "value");
	kv_close(kv);
}

/* One that does not fit takes nobody along: what fits is done, what is there is renewed and read. */
static void batch_of_which_some_fits(void **state)
{
	struct kv *kv = open_small(KV_LMDB_MAP_BYTES, SMALL);
	char buf[8];
	struct kv_op ops[] = {
		{ .type = KV_OP_PUT, .key = "l/5", .val = "new", .len = 3, .lease_ms = 60000 },
		{ .type = KV_OP_PUT, .key = "m/1", .val = "v", .len = 1, .lease_ms = 60000 },
		{ .type = KV_OP_GET, .key = "l/5", .buf = buf, .cap = sizeof(buf) },
		{ .type = KV_OP_PUT, .key = "m/2", .val = "v", .len = 1 },
		{ .type = KV_OP_PUT, .key = "m/3", .val = "v", .len = 1, .lease_ms = 60000 },
		{ .type = KV_OP_DEL, .key = "l/6" },
		{ .type = KV_OP_PUT, .key = "m/4", .val = "v", .len = 1, .lease_ms = 60000 },
	};
	static const int want[] = { 0, 0, 0, -EINVAL, -ENOSPC, 0, 0 };

	fill(kv, 'l', 0, SMALL - 1, KV_TEST_LEASE_MS);
	assert_int_equal(kv_run(kv, ops, sizeof(ops) / sizeof(ops[0])), 0);
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		assert_int_equal(ops[i].ret, want[i]);
	assert_memory_equal(buf, "new", 3);
	assert_int_equal(get_rc(kv, "m/4"), 0);
	assert_int_equal(get_rc(kv, "m/3"), -ENOENT);
	kv_close(kv);
}

#define DISK_BYTES (1u << 20)

/* What another program takes of the disk: everything; its file is the return value. */
static int fill_disk(void)
{
	static char block[4096];
	char name[160];
	int fd;

	snprintf(name, sizeof(name), "%s/other", dir);
	fd = open(name, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
	while (write(fd, block, sizeof(block)) == (ssize_t)sizeof(block))
		;
	return fd;
}

static void free_disk(int fd)
{
	if (ftruncate(fd, 0))
		_exit(__LINE__);
	close(fd);
}

#define EXPECT(condition)                                                                          \
	do {                                                                                       \
		if (!(condition))                                                                  \
			_exit(__LINE__ % 255 + 1);                                                 \
	} while (0)

/* -1: until one fails. */
static int put_big(struct kv *kv, unsigned lease_ms, int n)
{
	static uint8_t val[KV_VALUE_MAX];
	char key[32];
	int i, rc = 0;

	for (i = 0; !rc && i != n; i++) {
		snprintf(key, sizeof(key), "big/%d", i);
		rc = kv_put(kv, key, val, sizeof(val), lease_ms);
	}
	return rc;
}

static void on_a_full_disk(void)
{
	struct kv *kv = open_kv(KV_TEST_TIMEOUT_MS), *late;
	int rc, fd = fill_disk();

	/* There is no room to begin. */
	EXPECT(put(kv, "k", "v") == -ENOSPC);
	EXPECT(strstr(kv_last_error(kv), path));
	EXPECT(put(kv, "k", "v") == -ENOSPC);
	free_disk(fd);
	EXPECT(put(kv, "steady", "value") == 0);
	EXPECT(put_big(kv, 50, 20) == 0);
	/* It fills up behind us: what is there can be read, by late comers, too. */
	fd = fill_disk();
	EXPECT(put_big(kv, KV_TEST_LEASE_MS, -1) == -ENOSPC);
	EXPECT(strstr(kv_last_error(kv), "No space") || strstr(kv_last_error(kv), "MAP_FULL"));
	EXPECT(get_rc(kv, "steady") == 0);
	late = open_kv(KV_TEST_TIMEOUT_MS);
	EXPECT(get_rc(late, "steady") == 0);
	kv_close(late);
	/* Room again, and all is well; then we fill it ourselves. */
	free_disk(fd);
	EXPECT(put(kv, "more", "value") == 0);
	rc = put_big(kv, 1, 1000);
	EXPECT(rc == 0 || rc == -ENOSPC);
	EXPECT(get_rc(kv, "steady") == 0);
	kv_close(kv);
}

/*
 * A tmpfs of one MiB in a mount namespace of a child's own. A child, as a page of a mapping that the
 * disk cannot give would end the process by SIGBUS.
 */
static void full_disk(void **state)
{
	char options[32];
	pid_t pid;

	snprintf(options, sizeof(options), "size=%u,mode=700", DISK_BYTES);
	pid = test_fork();
	assert_true(pid >= 0);
	if (!pid) {
		if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		    mount("none", dir, "tmpfs", 0, options)) {
			printf("skipped: no mount namespace for us: %s\n", strerror(errno));
			fflush(stdout);
			_exit(0);
		}
		on_a_full_disk();
		_exit(0);
	}
	kv_test_join(pid);
}

/* A process with a number that others have, too, as in a container: what its store says, over @ready; it ends when @end is closed. */
static void first_of_a_container(int ready, int end)
{
	struct kv *kv;
	int status;
	pid_t inner;
	char rc;

	if (unshare(CLONE_NEWPID))
		_exit(0);
	inner = fork();
	if (!inner) {
		rc = kv_open(url, KV_TEST_TIMEOUT_MS, &kv, NULL, 0) || get_rc(kv, "steady") ? 'n'
											    : 'y';
		if (rc == 'n')
			fprintf(stderr, "number %d: %s\n", (int)getpid(), kv_last_error(kv));
		if (write(ready, &rc, 1) != 1 || read(end, &rc, 1) < 0)
			_exit(1);
		_exit(0);
	}
	close(ready);
	_exit(inner < 0 || waitpid(inner, &status, 0) < 0 || status ? 1 : 0);
}

/* LMDB knows a process by its number; here two have the same one. */
static void two_of_one_number(void **state)
{
	struct kv *kv = open_kv(KV_TEST_TIMEOUT_MS);
	int ready[2], end[2];
	pid_t pid[2];
	char said[2] = { 0 };

	assert_int_equal(put(kv, "steady", "value"), 0);
	kv_close(kv);
	assert_int_equal(pipe(end), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pipe(ready), 0);
		pid[i] = test_fork();
		assert_true(pid[i] >= 0);
		if (!pid[i]) {
			close(ready[0]);
			close(end[1]);
			first_of_a_container(ready[1], end[0]);
		}
		close(ready[1]);
		if (read(ready[0], &said[i], 1) != 1)
			print_message("skipped: no namespace of process numbers for us\n");
		close(ready[0]);
	}
	close(end[0]);
	close(end[1]);
	for (int i = 0; i < 2; i++)
		kv_test_join(pid[i]);
	assert_int_not_equal(said[0], 'n');
	assert_int_not_equal(said[1], 'n');
}

static void remove_files(bool all)
{
	char name[160];

	unlink(path);
	if (!all)
		return;
	snprintf(name, sizeof(name), "%s-lock", path);
	unlink(name);
	snprintf(name, sizeof(name), "%s-gate", path);
	unlink(name);
}

/* As systemd does to /dev/shm when a user logs out: everybody moves to the new file. */
static void removed_files(void **state)
{
	struct kv *a = open_kv(KV_TEST_TIMEOUT_MS), *b = open_kv(KV_TEST_TIMEOUT_MS);

	for (int all = 0; all < 2; all++) {
		assert_int_equal(put(a, "k", "old"), 0);
		expect_text(b, "k", "old");
		remove_files(all);
		assert_int_equal(get_rc(b, "k"), -ENOENT);
		assert_int_equal(put(b, "k", "new"), 0);
		expect_text(a, "k", "new");
		kv_common_processes(url);
	}
	kv_close(a);
	kv_close(b);
}

/* The gate is a record lock, so another process must hold it; it says so through a pipe. */
static pid_t hold_gate(void)
{
	struct flock fl = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };
	char name[160], byte = 0;
	int ready[2], fd;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = test_fork();
	assert_true(pid >= 0);
	if (!pid) {
		snprintf(name, sizeof(name), "%s-gate", path);
		fd = open(name, O_RDWR);
		if (fd < 0 || fcntl(fd, F_SETLK, &fl) || write(ready[1], &byte, 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return pid;
}

static void stopped_holder(void **state)
{
	struct kv *kv = open_kv(50), *fresh = open_kv(50);
	pid_t pid;

	assert_int_equal(put(kv, "k", "v"), 0);
	pid = hold_gate();
	assert_int_equal(put(kv, "k", "w"), -ETIMEDOUT);
	assert_int_equal(get_rc(kv, "k"), -ETIMEDOUT);
	assert_int_equal(put(fresh, "k", "w"), -ETIMEDOUT);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	kv_close(fresh);
	kv_close(kv);
	kv = open_kv(KV_TEST_TIMEOUT_MS);
	expect_text(kv, "k", "v");
	assert_int_equal(put(kv, "k", "w"), 0);
	kv_close(kv);
}

static void batch_that_cannot_start(void **state)
{
	struct kv *kv = open_kv(50);
	struct kv_op ops[] = {
		{ .type = KV_OP_PUT, .key = "k", .val = "w", .len = 1, .lease_ms = 60000 },
		{ .type = KV_OP_PUT, .key = "k", .val = "w", .len = 1 },
		{ .type = KV_OP_DEL, .key = "k" },
	};
	pid_t pid;

	assert_int_equal(put(kv, "k", "v"), 0);
	pid = hold_gate();
	assert_int_equal(kv_run(kv, ops, 3), -ETIMEDOUT);
	assert_int_equal(ops[0].ret, -ETIMEDOUT);
	assert_int_equal(ops[1].ret, -EINVAL);
	assert_int_equal(ops[2].ret, -ETIMEDOUT);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	expect_text(kv, "k", "v");
	kv_close(kv);
}

/* Changes the boot id (or cuts the lease) of "k", by LMDB itself while no handle is open. */
static void spoil_lease(bool cut)
{
	MDB_val key = { .mv_size = 1, .mv_data = (void *)"k" }, val;
	char copy[256];
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;

	assert_int_equal(mdb_env_create(&env), 0);
	assert_int_equal(mdb_env_open(env, path, MDB_NOSUBDIR, 0600), 0);
	assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
	assert_int_equal(mdb_dbi_open(txn, NULL, 0, &dbi), 0);
	assert_int_equal(mdb_get(txn, dbi, &key, &val), 0);
	assert_true(val.mv_size > LEASE_HEAD && val.mv_size < sizeof(copy));
	memcpy(copy, val.mv_data, val.mv_size);
	copy[10] ^= 1;
	val.mv_data = copy;
	if (cut)
		val.mv_size = LEASE_HEAD - 1;
	assert_int_equal(mdb_put(txn, dbi, &key, &val, 0), 0);
	assert_int_equal(mdb_txn_commit(txn), 0);
	mdb_env_close(env);
}

static void expired_by_reboot(void **state)
{
	struct kv *kv;

	for (int cut = 0; cut < 2; cut++) {
		kv = open_kv(KV_TEST_TIMEOUT_MS);
		assert_int_equal(put(kv, "k", "v"), 0);
		kv_close(kv);
		spoil_lease(cut);
		kv = open_kv(KV_TEST_TIMEOUT_MS);
		assert_int_equal(get_rc(kv, "k"), -ENOENT);
		assert_int_equal(put(kv, "k", "again"), 0);
		expect_text(kv, "k", "again");
		kv_close(kv);
	}
}

static void expect_refused(const char *word)
{
	struct kv *kv = open_kv(KV_TEST_TIMEOUT_MS);

	assert_int_equal(put(kv, "k", "v"), -EACCES);
	assert_non_null(strstr(kv_last_error(kv), word));
	kv_close(kv);
}

static void symlinks_are_refused(void **state)
{
	char name[160], target[160];
	struct stat st;

	snprintf(target, sizeof(target), "%s/target", dir);
	assert_int_equal(symlink(target, path), 0);
	expect_refused("regular");
	unlink(path);
	snprintf(name, sizeof(name), "%s-lock", path);
	unlink(name);
	assert_int_equal(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600) >= 0, 1);
	assert_int_equal(symlink(target, name), 0);
	expect_refused("regular");
	unlink(name);
	snprintf(name, sizeof(name), "%s-gate", path);
	unlink(name);
	assert_int_equal(symlink(target, name), 0);
	expect_refused("regular");
	assert_int_equal(lstat(target, &st), -1);
}

static void unsafe_files_are_refused(void **state)
{
	struct kv *kv = open_kv(KV_TEST_TIMEOUT_MS);

	assert_int_equal(put(kv, "k", "v"), 0);
	kv_close(kv);
	assert_int_equal(chmod(path, 0666), 0);
	expect_refused("others");
	assert_int_equal(chmod(path, 0640), 0);
	expect_refused("others");
	assert_int_equal(chmod(path, 0600), 0);
	assert_int_equal(chmod(dir, 0777), 0);
	expect_refused("others");
	assert_int_equal(chmod(dir, 01777), 0);
	kv = open_kv(KV_TEST_TIMEOUT_MS);
	expect_text(kv, "k", "v");
	kv_close(kv);
	assert_int_equal(chmod(dir, 0700), 0);
}

/* Only root can give a file away, so the foreign owner is seen only where tests run as root. */
static void foreign_files_are_refused(void **state)
{
	struct kv *kv = open_kv(KV_TEST_TIMEOUT_MS);

	assert_int_equal(put(kv, "k", "v"), 0);
	kv_close(kv);
	if (geteuid() != 0)
		skip();
	assert_int_equal(chown(path, 65534, 65534), 0);
	expect_refused("65534");
	assert_int_equal(chown(path, 0, 0), 0);
	assert_int_equal(chown(dir, 65534, 65534), 0);
	expect_refused("65534");
	assert_int_equal(chown(dir, 0, 0), 0);
}

static void wrong_paths(void **state)
{
	struct kv *kv;

	assert_int_equal(mkdir(path, 0700), 0);
	expect_refused("name a file in it");
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(kv_open("lmdb:/nonexistent/dir/kv", 100, &kv, NULL, 0), 0);
	assert_int_equal(put(kv, "k", "v"), -ENOENT);
	kv_close(kv);
	assert_int_equal(kv_open("lmdb:/dev/null", 100, &kv, NULL, 0), 0);
	assert_int_not_equal(put(kv, "k", "v"), 0);
	kv_close(kv);
}

/* A file of something else is left as it is. */
static void other_file_is_left_alone(void **state)
{
	static const char text[] = "precious data of another program";
	char block[8192] = { 0 }, back[8192];
	struct kv *kv;
	int fd;

	memcpy(block, text, sizeof(text));
	fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, block, sizeof(block)), sizeof(block));
	kv = open_kv(KV_TEST_TIMEOUT_MS);
	assert_int_equal(put(kv, "k", "v"), -EIO);
	assert_int_equal(put(kv, "k", "v"), -EIO);
	assert_non_null(strstr(kv_last_error(kv), path));
	kv_close(kv);
	assert_int_equal(pread(fd, back, sizeof(back), 0), sizeof(back));
	assert_memory_equal(back, block, sizeof(block));
	close(fd);
}

static void no_descriptor_for_children(void **state)
{
	struct kv *kv = open_kv(KV_TEST_TIMEOUT_MS);
	char name[64], target[256];
	ssize_t n;
	int found = 0;

	assert_int_equal(kv_ping(kv), 0);
	for (int fd = 0; fd < MAX_FD; fd++) {
		snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
		n = readlink(name, target, sizeof(target) - 1);
		if (n < 0)
			continue;
		target[n] = '\0';
		if (strncmp(target, path, strlen(path)))
			continue;
		assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
		found++;
	}
	assert_true(found >= 3);
	kv_close(kv);
}

static void default_file(void **state)
{
	char key[64], want[64];
	struct stat st;
	struct kv *kv;

	assert_int_equal(kv_open(NULL, KV_TEST_TIMEOUT_MS, &kv, NULL, 0), 0);
	snprintf(key, sizeof(key), "test/%u", (unsigned)getpid());
	assert_int_equal(put(kv, key, "here"), 0);
	expect_text(kv, key, "here");
	assert_int_equal(kv_del(kv, key), 0);
	kv_close(kv);
	snprintf(want, sizeof(want), "/dev/shm/shift-%u", (unsigned)geteuid());
	assert_int_equal(lstat(want, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
}

static int setup(void **state)
{
	dir = kv_test_dir();
	snprintf(path, sizeof(path), "%s/kv", dir);
	snprintf(url, sizeof(url), "lmdb:%s", path);
	return 0;
}

static int teardown(void **state)
{
	kv_test_dir_remove(dir);
	return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(basics),
		TEST(batch),
		TEST(lease),
		TEST(inherited),
		TEST(processes),
		TEST(killed_processes),
		TEST(all_killed),
		TEST(full_disk),
		TEST(full_by_entries),
		TEST(full_by_pages),
		TEST(batch_of_which_some_fits),
		TEST(batch_that_cannot_start),
		TEST(removed_files),
		TEST(stopped_holder),
		TEST(expired_by_reboot),
		TEST(symlinks_are_refused),
		TEST(unsafe_files_are_refused),
		TEST(foreign_files_are_refused),
		TEST(wrong_paths),
		TEST(other_file_is_left_alone),
		TEST(no_descriptor_for_children),
		TEST(default_file),
		TEST(two_of_one_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
