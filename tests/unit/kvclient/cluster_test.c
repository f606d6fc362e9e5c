/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A real Redis Cluster: three masters, and a replica of the second. Keys live on all of them, a
 * slot moves, masters die, and the only server that the address names is one of the dead.
 */
#include "tests/lib/kv_support.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kvclient/backend.h"
#include "kvclient/kv.h"
#include "tests/unit/kvclient/common.h"

#define WAIT_TRIES 12000

#define SERVERS	 4u /* the last one is a replica */
#define MASTERS	 3u
#define KEYS	 200u
#define SAID_MAX 4096

static struct redis_server server[SERVERS];
static char id[SERVERS][41];
static char *dir;

static void expect_said(unsigned i, const char *command, const char *want)
{
	char said[SAID_MAX];

	redis_server_say(&server[i], command, said, sizeof(said));
	if (!strstr(said, want))
		fail_msg("%s: %s", command, said);
}

/* ---- a cluster ------------------------------------------------------------------------------ */

static int bus_port[SERVERS];

static void server_start(unsigned i)
{
	char nodes[32], bus[16];
	const char *const more[] = { "--cluster-enabled",
				     "yes",
				     "--cluster-config-file",
				     nodes,
				     "--cluster-port",
				     bus,
				     "--cluster-node-timeout",
				     "1000",
				     "--cluster-require-full-coverage",
				     "no",
				     "--repl-diskless-sync-delay",
				     "0",
				     NULL };
	char said[SAID_MAX];

	bus_port[i] = kv_test_free_port();
	snprintf(nodes, sizeof(nodes), "nodes-%u.conf", i);
	snprintf(bus, sizeof(bus), "%d", bus_port[i]);
	redis_server_start_with(&server[i], dir, 0, more);
	redis_server_say(&server[i], "CLUSTER MYID", said, sizeof(said));
	assert_int_equal(sscanf(said, "$40\r\n%40s", id[i]), 1);
}

static void cluster_start(void)
{
	static const char *const slots[MASTERS] = { "0 5460", "5461 10922", "10923 16383" };
	char command[128];

	for (unsigned i = 0; i < SERVERS; i++)
		server_start(i);
	for (unsigned i = 0; i < MASTERS; i++) {
		snprintf(command, sizeof(command), "CLUSTER ADDSLOTSRANGE %s", slots[i]);
		expect_said(i, command, "OK");
		snprintf(command, sizeof(command), "CLUSTER SET-CONFIG-EPOCH %u", i + 1);
		expect_said(i, command, "OK");
	}
	for (unsigned i = 1; i < SERVERS; i++) {
		snprintf(command, sizeof(command), "CLUSTER MEET 127.0.0.1 %d %d", server[i].port,
			 bus_port[i]);
		expect_said(0, command, "OK");
	}
	for (unsigned i = 0; i < SERVERS; i++) {
		redis_server_await(&server[i], "CLUSTER INFO", "cluster_known_nodes:4");
		redis_server_await(&server[i], "CLUSTER INFO", "cluster_slots_ok:16384");
		redis_server_await(&server[i], "CLUSTER INFO", "cluster_state:ok");
	}
	snprintf(command, sizeof(command), "CLUSTER REPLICATE %s", id[1]);
	expect_said(3, command, "OK");
	redis_server_await(&server[3], "INFO replication", "master_link_status:up");
}

/* ---- batches over all of it ----------------------------------------------------------------- */

struct many {
	char key[KEYS][24], value[KEYS][8];
	struct kv_op ops[KEYS];
};

static void many_set(struct many *m, enum kv_op_type type)
{
	for (unsigned i = 0; i < KEYS; i++) {
		snprintf(m->key[i], sizeof(m->key[i]), "cluster/%u", i);
		m->ops[i] = (struct kv_op){ .type = type,
					    .key = m->key[i],
					    .val = m->key[i],
					    .len = 4 + i % 4,
					    .lease_ms = KV_TEST_LEASE_MS,
					    .buf = m->value[i],
					    .cap = sizeof(m->value[i]) };
	}
}

/* Runs a batch; each operation must come to @want. */
static void expect_many(struct kv *kv, enum kv_op_type type, int want)
{
	static struct many m;

	many_set(&m, type);
	assert_int_equal(kv_run(kv, m.ops, KEYS), 0);
	for (unsigned i = 0; i < KEYS; i++) {
		if (m.ops[i].ret != want)
			fail_msg("%s: %d, %s", m.key[i], m.ops[i].ret, kv_last_error(kv));
		if (type == KV_OP_GET && !want)
			assert_memory_equal(m.value[i], m.key[i], 4 + i % 4);
	}
}

static unsigned keys_at(unsigned i)
{
	char said[SAID_MAX];
	unsigned n;

	redis_server_say(&server[i], "DBSIZE", said, sizeof(said));
	assert_int_equal(sscanf(said, ":%u", &n), 1);
	return n;
}

static void keys_on_all_servers(void **state)
{
	struct kv *kv = kv_common_open(server[0].url), *other = kv_common_open(server[2].url);

	expect_many(kv, KV_OP_PUT, 0);
	for (unsigned i = 0; i < MASTERS; i++)
		assert_in_range(keys_at(i), 1, KEYS - 2);
	assert_int_equal(keys_at(0) + keys_at(1) + keys_at(2), KEYS);
	expect_many(other, KV_OP_GET, 0);
	assert_int_equal(kv_contacts(kv), MASTERS); /* one connection each */
	expect_many(kv, KV_OP_DEL, 0);
	expect_many(other, KV_OP_GET, -ENOENT);
	kv_close(other);
	kv_close(kv);
}

/* All that a store must do, whoever has the keys; also of a replica, which has none itself. */
static void as_any_store(void **state)
{
	kv_common_basics(server[0].url);
	kv_common_batch(server[2].url);
	kv_common_inherited(server[1].url);
	kv_common_basics(server[3].url);
}

/* {a} is in slot 15495, of the third server. */
#define SLOT	  "15495"
#define SLOT_KEYS "{a}"

static void slot_says(unsigned i, const char *what)
{
	char command[128];

	snprintf(command, sizeof(command), "CLUSTER SETSLOT " SLOT " %s", what);
	expect_said(i, command, "OK");
}

static void slot_moves(void **state)
{
	struct kv *kv = kv_common_open(server[0].url);
	char what[64], buf[8];
	size_t len;

	assert_int_equal(kv_put(kv, SLOT_KEYS "/old", "old", 3, KV_TEST_LEASE_MS), 0);
	snprintf(what, sizeof(what), "IMPORTING %s", id[2]);
	slot_says(0, what);
	snprintf(what, sizeof(what), "MIGRATING %s", id[0]);
	slot_says(2, what);
	/* What is not there any more, or not yet, is asked for at the new server. */
	assert_int_equal(kv_put(kv, SLOT_KEYS "/new", "new", 3, KV_TEST_LEASE_MS), 0);
	assert_int_equal(kv_get(kv, SLOT_KEYS "/new", buf, sizeof(buf), &len), 0);
	assert_memory_equal(buf, "new", 3);
	assert_int_equal(kv_get(kv, SLOT_KEYS "/old", buf, sizeof(buf), &len), 0);
	assert_int_equal(kv_del(kv, SLOT_KEYS "/old"), 0);
	snprintf(what, sizeof(what), "NODE %s", id[0]);
	slot_says(0, what);
	slot_says(2, what);
	assert_int_equal(kv_get(kv, SLOT_KEYS "/new", buf, sizeof(buf), &len), 0);
	assert_int_equal(kv_del(kv, SLOT_KEYS "/new"), 0);
	kv_close(kv);
}

/* "b" is in slot 3300, of the first server; "c" in 7365, of the second. */
static void a_master_dies(void **state)
{
	struct kv *kv = kv_common_open(server[0].url);
	int rc = -EIO;

	assert_int_equal(kv_put(kv, "b", "1", 1, KV_TEST_LEASE_MS), 0);
	assert_int_equal(kv_put(kv, "c", "1", 1, KV_TEST_LEASE_MS), 0);
	redis_server_kill(&server[1]);
	for (int i = 0; rc && i < WAIT_TRIES; i++) {
		/* Keys of others are served all the time. */
		assert_int_equal(kv_put(kv, "b", "2", 1, KV_TEST_LEASE_MS), 0);
		rc = kv_put(kv, "c", "2", 1, KV_TEST_LEASE_MS);
		if (rc)
			usleep(5000);
	}
	if (rc)
		fail_msg("%s", kv_last_error(kv));
	redis_server_await(&server[3], "ROLE", "master");
	expect_many(kv, KV_OP_PUT, 0);
	expect_many(kv, KV_OP_GET, 0);
	kv_close(kv);
}

/*
 * The one server that the address names dies: another one that is known by then stands in for it.
 * "foo" is in slot 12182, of the third server, which this handle was never asked for.
 */
static void the_named_one_dies(void **state)
{
	struct kv *kv = kv_common_open(server[0].url);
	int rc = -EIO;

	assert_int_equal(kv_put(kv, "c", "3", 1, KV_TEST_LEASE_MS), 0);
	redis_server_kill(&server[0]);
	for (int i = 0; rc && i < WAIT_TRIES; i++) {
		rc = kv_put(kv, "foo", "3", 1, KV_TEST_LEASE_MS);
		if (rc)
			usleep(5000);
	}
	if (rc)
		fail_msg("%s", kv_last_error(kv));
	/* Nobody has taken over its slots. */
	assert_int_not_equal(kv_put(kv, "b", "3", 1, KV_TEST_LEASE_MS), 0);
	kv_close(kv);
}

static int setup(void **state)
{
	dir = kv_test_dir();
	cluster_start();
	return 0;
}

static int teardown(void **state)
{
	for (unsigned i = 0; i < SERVERS; i++)
		if (server[i].pid)
			redis_server_kill(&server[i]);
	kv_test_dir_remove(dir);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_on_all_servers), cmocka_unit_test(as_any_store),
		cmocka_unit_test(slot_moves),	       cmocka_unit_test(a_master_dies),
		cmocka_unit_test(the_named_one_dies),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
