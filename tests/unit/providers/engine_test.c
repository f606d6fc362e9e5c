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
	bool tried;
};
static struct nic roce, other_roce, iwarp, without_rc;

static struct sp_candidate candidate(struct nic *nic)
{
	return (struct sp_candidate){ .device = &nic->device, .tried = nic->tried };
}

static bool serves(const char *choice, struct nic *nic)
{
	struct sp_candidate it = candidate(nic);

	return sp_engine_serves(choice, &it);
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
	struct sp_candidate nics[2] = { candidate(nic) };
	const struct shift_provider *engine;

	if (backup)
		nics[1] = candidate(backup);
	engine = sp_engine_choose(choice, nics, backup ? 2 : 1);
	return engine ? engine->name : "none";
}

static void by_what_it_is(void **state)
{
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
}

/* Of NICs that the ledger is for, auto takes those that were tried; their backups too. */
static void by_what_was_tried(void **state)
{
	assert_string_equal(choose(NULL, &roce, NULL), "none");
	assert_string_equal(choose("auto", &roce, &other_roce), "none");
	roce.tried = true;
	assert_string_equal(choose(NULL, &roce, NULL), "ledger");
	assert_string_equal(choose("auto", &roce, NULL), "ledger");
	assert_string_equal(choose("auto", &roce, &other_roce), "none");
	assert_string_equal(choose("auto", &other_roce, &roce), "none");
	assert_string_equal(choose("ledger", &roce, &other_roce), "ledger");
	assert_string_equal(choose("mlx5", &roce, NULL), "none");
	other_roce.tried = iwarp.tried = true;
	assert_string_equal(choose("auto", &roce, &other_roce), "ledger");
	assert_string_equal(choose("auto", &roce, &iwarp), "none");
	roce.tried = other_roce.tried = iwarp.tried = false;
}

static void by_name(void **state)
{
	assert_true(sp_engine_named(NULL));
	assert_true(sp_engine_named("auto"));
	assert_true(sp_engine_named("mlx5"));
	assert_true(sp_engine_named("ledger"));
	assert_false(sp_engine_named("ledgers"));
	assert_false(serves("ledgers", &roce));
	assert_false(serves("auto", &roce));
	assert_true(serves("ledger", &roce));
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
		cmocka_unit_test(by_what_it_is),     cmocka_unit_test(by_its_backups),
		cmocka_unit_test(by_what_was_tried), cmocka_unit_test(by_name),
		cmocka_unit_test(by_number),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
