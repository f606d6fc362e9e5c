/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "tests/lib/fork.h"
#include "tests/unit/kvclient/common.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kvclient/kv.h"
#include "tests/lib/kv_support.h"

#define PROCESSES  4
#define ROUNDS	   200
#define WAIT_TRIES 2000

struct kv *kv_common_open(const char *url)
{
	struct kv *kv;

	assert_int_equal(kv_open(url, KV_TEST_TIMEOUT_MS, &kv, NULL, 0), 0);
	return kv;
}

static int put_text(struct kv *kv, const char *key, const char *text)
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

void kv_common_basics(const char *url)
{
	static const char binary[] = "a\0b\r\n$5\xff";
	struct kv *kv = kv_common_open(url), *other = kv_common_open(url);
	char buf[16];
	size_t len;

	assert_int_equal(kv_ping(kv), 0);
	assert_int_equal(kv_get(kv, "basics", buf, sizeof(buf), &len), -ENOENT);
	assert_int_equal(put_text(kv, "basics", "one"), 0);
	expect_text(other, "basics", "one");
	assert_int_equal(put_text(other, "basics", "two, longer"), 0);
	expect_text(kv, "basics", "two, longer");
	assert_int_equal(kv_get(kv, "basics", buf, 4, &len), -EMSGSIZE);
	assert_int_equal(len, 11);
	assert_int_equal(kv_put(kv, "basics", binary, sizeof(binary), KV_TEST_LEASE_MS), 0);
	assert_int_equal(kv_get(other, "basics", buf, sizeof(buf), &len), 0);
	assert_int_equal(len, sizeof(binary));
	assert_memory_equal(buf, binary, len);
	assert_int_equal(kv_del(other, "basics"), 0);
	assert_int_equal(kv_del(other, "basics"), 0);
	assert_int_equal(kv_get(kv, "basics", buf, sizeof(buf), &len), -ENOENT);
	kv_close(other);
	kv_close(kv);
	kv_close(NULL);
}

void kv_common_arguments(const char *url)
{
	char key[KV_KEY_MAX + 2], val[KV_VALUE_MAX + 1], buf[KV_VALUE_MAX];
	struct kv *kv = kv_common_open(url);
	size_t len;

	memset(val, 'v', sizeof(val));
	memset(key, 'k', sizeof(key));
	key[KV_KEY_MAX + 1] = '\0';
	assert_int_equal(put_text(kv, key, "x"), -EINVAL);
	assert_int_equal(kv_get(kv, key, buf, 1, &len), -EINVAL);
	assert_int_equal(kv_del(kv, key), -EINVAL);
	assert_int_equal(put_text(kv, "", "x"), -EINVAL);
	assert_int_equal(put_text(kv, "k", ""), -EINVAL);
	assert_int_equal(kv_put(kv, "k", val, sizeof(val), KV_TEST_LEASE_MS), -EINVAL);
	assert_int_equal(kv_put(kv, "k", val, 1, 0), -EINVAL);
	assert_non_null(strstr(kv_last_error(kv), "lease"));
	key[KV_KEY_MAX] = '\0';
	assert_int_equal(kv_put(kv, key, val, KV_VALUE_MAX, KV_TEST_LEASE_MS), 0);
	assert_int_equal(kv_get(kv, key, buf, sizeof(buf), &len), 0);
	assert_int_equal(len, KV_VALUE_MAX);
	assert_memory_equal(buf, val, len);
	assert_int_equal(kv_del(kv, key), 0);
	kv_close(kv);
}

static void batch_each_its_own(struct kv *kv)
{
	char one[8] = "", none[8] = "", small[2], gone[8] = "";
	struct kv_op ops[] = {
		{ .type = KV_OP_PUT, .key = "b/1", .val = "one", .len = 3, .lease_ms = 60000 },
		{ .type = KV_OP_GET, .key = "b/1", .buf = one, .cap = sizeof(one) },
		{ .type = KV_OP_GET, .key = "b/2", .buf = none, .cap = sizeof(none) },
		{ .type = KV_OP_PUT, .key = "b/3", .val = "x", .len = 1 },
		{ .type = KV_OP_GET, .key = "b/1", .buf = small, .cap = sizeof(small) },
		{ .type = KV_OP_DEL, .key = "b/1" },
		{ .type = KV_OP_GET, .key = "b/1", .buf = gone, .cap = sizeof(gone) },
		{ .type = KV_OP_DEL, .key = "b/2" },
		{ .type = KV_OP_GET, .key = "", .buf = gone, .cap = sizeof(gone) },
	};
	static const int want[] = { 0, 0, -ENOENT, -EINVAL, -EMSGSIZE, 0, -ENOENT, 0, -EINVAL };

	assert_int_equal(kv_run(kv, ops, sizeof(ops) / sizeof(ops[0])), 0);
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		assert_int_equal(ops[i].ret, want[i]);
	assert_memory_equal(one, "one", 3);
	assert_int_equal(ops[1].got, 3);
	assert_int_equal(ops[4].got, 3);
	assert_non_null(strstr(kv_last_error(kv), "lease"));
	assert_int_equal(kv_run(kv, ops, 0), 0);
}

/* More than is in flight at once, and values that no socket buffer holds together. */
static void batch_of_many(struct kv *kv)
{
	const uint32_t n = 2 * KV_RUN_MAX + 3;
	struct kv_op *ops = calloc(n, sizeof(*ops));
	char(*keys)[16] = calloc(n, sizeof(*keys));
	uint8_t(*vals)[KV_VALUE_MAX] = calloc(n, sizeof(*vals));
	uint8_t(*back)[KV_VALUE_MAX] = calloc(n, sizeof(*back));

	for (uint32_t i = 0; i < n; i++) {
		snprintf(keys[i], sizeof(keys[i]), "many/%u", i);
		memset(vals[i], (int)i, KV_VALUE_MAX);
		ops[i] = (struct kv_op){ .type = KV_OP_PUT,
					 .key = keys[i],
					 .val = vals[i],
					 .len = KV_VALUE_MAX,
					 .lease_ms = KV_TEST_LEASE_MS };
	}
	assert_int_equal(kv_run(kv, ops, n), 0);
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(ops[i].ret, 0);
		ops[i] = (struct kv_op){
			.type = KV_OP_GET, .key = keys[i], .buf = back[i], .cap = KV_VALUE_MAX
		};
	}
	assert_int_equal(kv_run(kv, ops, n), 0);
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(ops[i].ret, 0);
		assert_int_equal(ops[i].got, KV_VALUE_MAX);
		ops[i].type = KV_OP_DEL;
	}
	assert_memory_equal(back, vals, n * KV_VALUE_MAX);
	assert_int_equal(kv_run(kv, ops, n), 0);
	free(back);
	free(vals);
	free(keys);
	free(ops);
}

void kv_common_batch(const char *url)
{
	struct kv *kv = kv_common_open(url);

	batch_each_its_own(kv);
	batch_of_many(kv);
	kv_close(kv);
}

static int wait_gone(struct kv *kv, const char *key)
{
	char buf[16];
	size_t len;
	int rc = 0;

	for (int i = 0; !rc && i < WAIT_TRIES; i++) {
		usleep(5000);
		rc = kv_get(kv, key, buf, sizeof(buf), &len);
	}
	return rc;
}

void kv_common_lease(const char *url)
{
	struct kv *kv = kv_common_open(url);

	assert_int_equal(put_text(kv, "long", "stays"), 0);
	assert_int_equal(kv_put(kv, "short", "goes", 4, 30), 0);
	assert_int_equal(wait_gone(kv, "short"), -ENOENT);
	expect_text(kv, "long", "stays");
	/* A renewed lease counts from its renewal, longer or shorter. */
	assert_int_equal(put_text(kv, "short", "back"), 0);
	expect_text(kv, "short", "back");
	assert_int_equal(kv_put(kv, "long", "goes", 4, 30), 0);
	assert_int_equal(wait_gone(kv, "long"), -ENOENT);
	assert_int_equal(kv_del(kv, "short"), 0);
	kv_close(kv);
}

/* Children must not assert: cmocka would return from there into the parent's test run. */
static int write_and_check(struct kv *kv, unsigned who)
{
	char key[32], val[32], buf[32];
	size_t len;
	int n;

	for (unsigned i = 0; i < ROUNDS; i++) {
		snprintf(key, sizeof(key), "p/%u/%u", who, i % 16);
		n = snprintf(val, sizeof(val), "value %u of %u", i, who);
		if (kv_put(kv, key, val, (size_t)n, KV_TEST_LEASE_MS) ||
		    kv_put(kv, "p/shared", val, (size_t)n, KV_TEST_LEASE_MS))
			return 1;
		if (kv_get(kv, key, buf, sizeof(buf), &len))
			return 2;
		if (len != (size_t)n || memcmp(buf, val, len))
			return 3;
		if (kv_get(kv, "p/shared", buf, sizeof(buf), &len) || memcmp(buf, "value ", 6))
			return 4;
	}
	return 0;
}

/* The child uses the parent's handle, while the parent goes on with it. */
void kv_common_inherited(const char *url)
{
	struct kv *kv = kv_common_open(url);
	pid_t pid;

	assert_int_equal(put_text(kv, "p/parent", "before"), 0);
	pid = test_fork();
	assert_true(pid >= 0);
	if (!pid) {
		int rc = write_and_check(kv, 1000);

		kv_close(kv);
		_exit(rc);
	}
	assert_int_equal(write_and_check(kv, 1001), 0);
	kv_test_join(pid);
	assert_int_equal(write_and_check(kv, 1001), 0);
	expect_text(kv, "p/parent", "before");
	kv_close(kv);
}

void kv_common_processes(const char *url)
{
	pid_t pid[PROCESSES];
	struct kv *kv;

	for (unsigned i = 0; i < PROCESSES; i++) {
		pid[i] = test_fork();
		assert_true(pid[i] >= 0);
		if (!pid[i]) {
			if (kv_open(url, 4 * KV_TEST_TIMEOUT_MS, &kv, NULL, 0))
				_exit(10);
			_exit(write_and_check(kv, i));
		}
	}
	for (unsigned i = 0; i < PROCESSES; i++)
		kv_test_join(pid[i]);
	kv = kv_common_open(url);
	/* Round 199 was the last to write slot 199 % 16. */
	expect_text(kv, "p/0/7", "value 199 of 0");
	kv_close(kv);
}

struct worker {
	pthread_t thread;
	const char *url;
	unsigned who;
	int rc;
};

/* Threads with a handle each: LMDB's share one open file underneath. */
static void *worker_run(void *arg)
{
	struct worker *w = arg;
	struct kv *kv;

	w->rc = kv_open(w->url, 4 * KV_TEST_TIMEOUT_MS, &kv, NULL, 0);
	if (!w->rc) {
		w->rc = write_and_check(kv, w->who);
		kv_close(kv);
	}
	return NULL;
}

void kv_common_threads(const char *url)
{
	struct worker w[PROCESSES];

	for (unsigned i = 0; i < PROCESSES; i++) {
		w[i] = (struct worker){ .url = url, .who = 100 + i };
		assert_int_equal(pthread_create(&w[i].thread, NULL, worker_run, &w[i]), 0);
	}
	for (unsigned i = 0; i < PROCESSES; i++) {
		assert_int_equal(pthread_join(w[i].thread, NULL), 0);
		assert_int_equal(w[i].rc, 0);
	}
}
