/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A dead NIC is looked at while its own worker waits in the driver: does it still reach memory? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "shiftlib/nic/internal.h"
#include "tests/unit/replica/rig.h"

#define HEADER	   64 /* bytes of a config space */
#define COMMAND	   4
#define BUS_MASTER 0x04
#define LONG_NS	   (10 * SH_NS_PER_S)

static struct sh_nic *const nic = &sh_nics.nic[0];
static uint8_t header[HEADER];

static int setup(void **state)
{
	int fd = memfd_create("config", MFD_CLOEXEC);

	rig_setup(state);
	assert_int_equal(write(fd, header, sizeof(header)), sizeof(header));
	nic->fatal = true;
	nic->cut.fd = fd;
	rig_worker_hold(0);
	return 0;
}

static int teardown(void **state)
{
	rig_worker_let_go(0);
	if (nic->cut.eyes)
		assert_int_equal(sh_worker_stop(nic->cut.eyes, LONG_NS), 0);
	close(nic->cut.fd);
	nic->cut.fd = -1;
	nic->cut.eyes = NULL;
	return rig_teardown(state);
}

static bool seen_in_time(void)
{
	uint64_t end = sh_now_ns() + LONG_NS;
	bool seen;

	do {
		sched_yield();
		sh_lock();
		seen = nic->cut.seen;
		sh_unlock();
	} while (!seen && sh_now_ns() < end);
	return seen;
}

static void look(void)
{
	sh_lock();
	sh_nic_cut_begin(nic);
	sh_unlock();
	assert_true(seen_in_time());
}

static void one_that_reaches_memory(void **state)
{
	header[COMMAND] = BUS_MASTER;
	assert_int_equal(pwrite(nic->cut.fd, header, sizeof(header), 0), sizeof(header));
	look();
	assert_true(nic->cut.on_at);
	header[COMMAND] = 0;
}

static void one_that_does_not(void **state)
{
	look();
	assert_false(nic->cut.on_at);
	assert_false(nic->cut.gone);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_that_reaches_memory, setup, teardown),
		cmocka_unit_test_setup_teardown(one_that_does_not, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
