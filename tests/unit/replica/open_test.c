/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The NICs of a context are opened in an order where not all memory may be locked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "shiftlib/conn/conns.h"
#include "shiftlib/replica/context.h"
#include "tests/unit/replica/rig.h"

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER; /* held: no NIC gets any further */

/* No device is there: each opening fails, which is as good an end as another. */
static struct ibv_device **no_devices(int *n)
{
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
	*n = 0;
	return NULL;
}

static int setup(void **state)
{
	rig_setup(state);
	sh_conns_module.reset();
	rig_real.get_device_list = no_devices;
	rig_ctx.dev = (struct sp_dev *)&rig_ctx; /* not looked into */
	return 0;
}

static int teardown(void **state)
{
	for (uint8_t path = 0; path < RIG_PATHS; path++)
		assert_int_equal(sh_worker_stop(sh_nics.nic[path].prompt, 10 * SH_NS_PER_S), 0);
	return rig_teardown(state);
}

static void await_end(uint8_t path)
{
	while (sh_nics.nic[path].state == SH_NIC_OPENING) {
		sh_unlock();
		usleep(1000);
		sh_lock();
	}
}

static void others_wait_for_the_pair(void **state)
{
	struct sh_nic *nics = sh_nics.nic;

	sh_nics.limited = true;
	pthread_mutex_lock(&gate);
	sh_lock();
	sh_ctx_prepare(&rig_ctx);
	sh_objects_module.run(0);
	assert_int_equal(nics[0].state, SH_NIC_OPENING);
	assert_int_equal(nics[1].state, SH_NIC_OPENING);
	assert_int_equal(nics[2].state, SH_NIC_CLOSED);
	pthread_mutex_unlock(&gate);
	await_end(0);
	await_end(1);
	sh_objects_module.run(0);
	assert_int_not_equal(nics[2].state, SH_NIC_CLOSED);
	await_end(2);
	assert_false(rig_ctx.opens_more);
	sh_unlock();
}

static void all_at_once_without_a_limit(void **state)
{
	sh_nics.limited = false;
	pthread_mutex_lock(&gate);
	sh_lock();
	sh_ctx_prepare(&rig_ctx);
	for (uint8_t path = 0; path < RIG_PATHS; path++)
		assert_int_equal(sh_nics.nic[path].state, SH_NIC_OPENING);
	pthread_mutex_unlock(&gate);
	for (uint8_t path = 0; path < RIG_PATHS; path++)
		await_end(path);
	sh_unlock();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(all_at_once_without_a_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(others_wait_for_the_pair, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
