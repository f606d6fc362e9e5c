/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Which GID of a port is taken. The table is played: this program's _ibv_query_gid_ex() answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "sdr/gid/gid.h"

#include <arpa/inet.h>
#include <errno.h>

enum { ENTRIES = 6, PORT = 2 };

struct row {
	const char *address; /* NULL: an empty entry */
	int type;
};

static const struct row *table;

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
	assert_int_equal(port, PORT);
	assert_in_range(index, 0, ENTRIES - 1);
	if (!table[index].address)
		return ENODATA;
	memset(entry, 0, size);
	entry->gid_index = index;
	entry->gid_type = (uint32_t)table[index].type;
	assert_int_equal(inet_pton(AF_INET6, table[index].address, entry->gid.raw), 1);
	return 0;
}

static void check(const struct row rows[ENTRIES], int wanted)
{
	table = rows;
	assert_int_equal(sdr_gid_choose(NULL, PORT, ENTRIES), wanted);
}

enum { V1 = IBV_GID_TYPE_ROCE_V1, V2 = IBV_GID_TYPE_ROCE_V2 };

static void test_version_2_over_ip4_is_first(void **state)
{
	const struct row rows[ENTRIES] = { { "fe80::1", V1 },	      { "fe80::1", V2 },
					   { "::ffff:10.0.0.1", V1 }, { "::ffff:10.0.0.1", V2 },
					   { "2001:db8::1", V2 },     { "::ffff:10.0.0.2", V2 } };

	check(rows, 3);
}

static void test_version_2_without_ip4(void **state)
{
	const struct row rows[ENTRIES] = { { "fe80::1", V1 }, { "fe80::1", V2 }, { NULL, 0 } };
	const struct row routed[ENTRIES] = {
		{ "fe80::1", V1 }, { "fe80::1", V2 }, { "2001:db8::1", V1 }, { "2001:db8::1", V2 }
	};

	check(rows, 1);
	check(routed, 3);
}

static void test_version_1_alone(void **state)
{
	const struct row rows[ENTRIES] = { { NULL, 0 },
					   { "fe80::1", V1 },
					   { "::ffff:10.0.0.1", V1 } };

	check(rows, 2);
}

static void test_no_entry(void **state)
{
	const struct row rows[ENTRIES] = { { NULL, 0 } };

	check(rows, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_version_2_over_ip4_is_first),
		cmocka_unit_test(test_version_2_without_ip4),
		cmocka_unit_test(test_version_1_alone),
		cmocka_unit_test(test_no_entry),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
