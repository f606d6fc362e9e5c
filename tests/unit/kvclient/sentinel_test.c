/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A real Redis Sentinel: asked for the master before it dies, and after. */
#include "tests/lib/kv_support.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kvclient/backend.h"
#include "kvclient/kv.h"
#include "tests/unit/kvclient/common.h"

#define WAIT_TRIES 12000

static struct redis_server master, replica, sentinel;
static char *dir;

static void sentinel_url(char url[128], const char *name)
{
	snprintf(url, 128, "redis+sentinel://127.0.0.1:%d/%s", sentinel.port, name);
}

static void as_any_store(void **state)
{
	char url[128];

	sentinel_url(url, "jobs");
	kv_common_basics(url);
	kv_common_batch(url);
	kv_common_inherited(url);
}

static void the_master_is_named(void **state)
{
	char url[128], port[16];
	struct kv *kv;

	sentinel_url(url, "jobs");
	kv = kv_common_open(url);
	assert_int_equal(kv_ping(kv), 0);
	snprintf(port, sizeof(port), ":%d", master.port);
	assert_non_null(strstr(kv_where(kv), port));
	kv_close(kv);
}

static void a_master_that_is_none(void **state)
{
	char url[256];
	struct kv *kv;

	sentinel_url(url, "others");
	kv = kv_common_open(url);
	assert_int_equal(kv_ping(kv), -ENOENT);
	assert_non_null(strstr(kv_last_error(kv), "\"others\""));
	kv_close(kv);
	/* An ordinary server is no Sentinel. */
	snprintf(url, sizeof(url), "redis+sentinel://127.0.0.1:%d/jobs", master.port);
	kv = kv_common_open(url);
	assert_int_not_equal(kv_ping(kv), 0);
	assert_non_null(strstr(kv_last_error(kv), "unknown command"));
	kv_close(kv);
}

/* The first of two does not answer. */
static void another_sentinel(void **state)
{
	char url[256];
	struct kv *kv;

	snprintf(url, sizeof(url),
		 "redis+sentinel://127.0.0.1:%d/jobs,redis+sentinel://127.0.0.1:%d/jobs",
		 kv_test_free_port(), sentinel.port);
	kv = kv_common_open(url);
	kv->home_ms = 1;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(kv_put(kv, "k", "v", 1, KV_TEST_LEASE_MS), 0);
		usleep(2000);
	}
	assert_int_equal(kv_contacts(kv), 1); /* the other one is not looked for */
	kv_close(kv);
}

static void the_master_dies(void **state)
{
	char url[128], port[16];
	struct kv *kv;
	int rc = -EIO;

	sentinel_url(url, "jobs");
	kv = kv_common_open(url);
	assert_int_equal(kv_put(kv, "k", "1", 1, KV_TEST_LEASE_MS), 0);
	redis_server_kill(&master);
	assert_int_equal(kv_put(kv, "k", "2", 1, KV_TEST_LEASE_MS), -ECONNREFUSED);
	for (int i = 0; rc && i < WAIT_TRIES; i++) {
		rc = kv_put(kv, "k", "3", 1, KV_TEST_LEASE_MS);
		if (rc)
			usleep(5000);
	}
	if (rc)
		fail_msg("%s", kv_last_error(kv));
	snprintf(port, sizeof(port), ":%d", replica.port);
	assert_non_null(strstr(kv_where(kv), port));
	kv_close(kv);
}

static const char *write_conf(void)
{
	static char name[128];
	FILE *conf;

	snprintf(name, sizeof(name), "%s/sentinel.conf", dir);
	conf = fopen(name, "w");
	assert_non_null(conf);
	fprintf(conf,
		"sentinel monitor jobs 127.0.0.1 %d 1\n"
		"sentinel down-after-milliseconds jobs 1000\n"
		"sentinel failover-timeout jobs 5000\n",
		master.port);
	assert_int_equal(fclose(conf), 0);
	return name;
}

static int setup(void **state)
{
	char text[16];
	const char *const more[] = { "--replicaof", "127.0.0.1", text, "--repl-diskless-sync-delay",
				     "0",	    NULL };

	dir = kv_test_dir();
	redis_server_start(&master, dir, 0, NULL);
	snprintf(text, sizeof(text), "%d", master.port);
	redis_server_start_with(&replica, dir, 0, more);
	redis_server_await(&replica, "INFO replication", "master_link_status:up");
	redis_sentinel_start(&sentinel, dir, write_conf());
	redis_server_await(&sentinel, "SENTINEL MASTER jobs", "num-slaves\r\n$1\r\n1\r\n");
	return 0;
}

static int teardown(void **state)
{
	redis_server_kill(&sentinel);
	redis_server_kill(&replica);
	if (master.pid)
		redis_server_kill(&master);
	kv_test_dir_remove(dir);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_any_store),		 cmocka_unit_test(the_master_is_named),
		cmocka_unit_test(a_master_that_is_none), cmocka_unit_test(another_sentinel),
		cmocka_unit_test(the_master_dies),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
