/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Whether all NICs are calm, so that the looks may sleep. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "shiftlib/base/worker.h"
#include "shiftlib/conn/watch/nic_hangs.h"
#include "shiftlib/nic/nic.h"

enum { NICS = 2 };

static struct sh_worker *busy;
static struct sh_worker *const prompt[NICS] = { (struct sh_worker *)0x10,
						(struct sh_worker *)0x20 };

uint64_t __wrap_sh_worker_busy_since_ns(const struct sh_worker *worker);

uint64_t __wrap_sh_worker_busy_since_ns(const struct sh_worker *worker)
{
	return worker == busy;
}

/* NICs that were given up (nic/open.c): what is open there is NULL, and their workers stay. */
static int begin(void **state)
{
	(void)state;
	busy = NULL;
	memset(&sh_nics, 0, sizeof(sh_nics));
	sh_nics.n = NICS;
	for (uint32_t i = 0; i < NICS; i++) {
		sh_nics.nic[i].state = SH_NIC_OPEN;
		sh_nics.nic[i].prompt = sh_nics.nic[i].worker = prompt[i];
	}
	return 0;
}

static void a_nic_that_was_given_up_is_calm(void **state)
{
	(void)state;
	sh_nics.nic[1].fatal = true;
	assert_true(sh_nic_hangs_calm());
}

static void a_sick_nic_is_not_calm(void **state)
{
	(void)state;
	sh_nics.nic[1].sick = true;
	assert_false(sh_nic_hangs_calm());
	sh_nics.nic[1].state = SH_NIC_FAILED;
	assert_true(sh_nic_hangs_calm());
}

static void a_command_under_way_is_not_calm(void **state)
{
	(void)state;
	busy = prompt[1];
	assert_false(sh_nic_hangs_calm());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_nic_that_was_given_up_is_calm, begin),
		cmocka_unit_test_setup(a_sick_nic_is_not_calm, begin),
		cmocka_unit_test_setup(a_command_under_way_is_not_calm, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
