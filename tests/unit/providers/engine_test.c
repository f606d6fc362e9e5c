/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Which engine a NIC gets: by SHIFT_ENGINE, by what it is, and by what its backups are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "providers/engine.h"

/* None of them is libmlx5's, which looks at what a provider has behind its device. */
struct nic {
	struct ibv_device device;
	char behind[1024];
};
static struct nic roce, other_roce, iwarp, without_rc;

static struct ibv_device *device(struct nic *nic)
{
	return &nic->device;
}

static int setup(void **state)
{
	roce.device.transport_type = other_roce.device.transport_type = IBV_TRANSPORT_IB;
	roce.device.node_type = other_roce.device.node_type = IBV_NODE_CA;
	iwarp.device.transport_type = IBV_TRANSPORT_IWARP;
	iwarp.device.node_type = IBV_NODE_RNIC;
	without_rc.device.transport_type = IBV_TRANSPORT_UNSPECIFIED;
	without_rc.device.node_type = IBV_NODE_UNSPECIFIED;
	return 0;
}

static const char *choose(const char *choice, struct nic *nic, struct nic *backup)
{
	struct ibv_device *devices[2] = { device(nic), backup ? device(backup) : NULL };
	const struct shift_provider *engine = sp_engine_choose(choice, devices, backup ? 2 : 1);

	return engine ? engine->name : "none";
}

static void by_what_it_is(void **state)
{
	assert_string_equal(choose(NULL, &roce, NULL), "none"); /* the ledger is on trial */
	assert_string_equal(choose("auto", &roce, NULL), "none");
	assert_string_equal(choose("ledger", &roce, NULL), "ledger");
	assert_string_equal(choose("mlx5", &roce, NULL), "none");
	assert_string_equal(choose("ledger", &iwarp, NULL), "none");
	assert_string_equal(choose("ledger", &without_rc, NULL), "none");
}

static void by_its_backups(void **state)
{
	assert_string_equal(choose("ledger", &roce, &other_roce), "ledger");
	assert_string_equal(choose("ledger", &roce, &iwarp), "none");
	assert_string_equal(choose("ledger", &iwarp, &roce), "none");
	assert_string_equal(choose("auto", &roce, &other_roce), "none");
}

static void by_name(void **state)
{
	assert_true(sp_engine_named(NULL));
	assert_true(sp_engine_named("auto"));
	assert_true(sp_engine_named("mlx5"));
	assert_true(sp_engine_named("ledger"));
	assert_false(sp_engine_named("ledgers"));
	assert_false(sp_engine_serves("ledgers", device(&roce)));
	assert_false(sp_engine_serves("auto", device(&roce)));
	assert_true(sp_engine_serves("ledger", device(&roce)));
}

static void by_number(void **state)
{
	for (uint32_t i = 0; i < SP_ENGINES; i++)
		assert_int_equal(sp_engine_number(sp_engine_at(i)), i);
	assert_string_equal(sp_engine_at(0)->name, "mlx5"); /* the first choice */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_what_it_is),
		cmocka_unit_test(by_its_backups),
		cmocka_unit_test(by_name),
		cmocka_unit_test(by_number),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
