/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Which NICs' files another process holds, and until when. No process is made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shiftlib/base/holder.h"
#include "shiftlib/base/util.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/hold.h"

#define HELD_FD	 77
#define LIMIT_NS (200 * SH_NS_PER_MS)

static struct sh_nic *const nic = &sh_nics.nic[0];
static struct ibv_context context = { .cmd_fd = HELD_FD };
static uint64_t busy_since;
static int started, ended;

int __wrap_sh_holder_start(struct sh_holder *holder, const int *fds, uint32_t n);
int __wrap_sh_holder_start(struct sh_holder *holder, const int *fds, uint32_t n)
{
	assert_int_equal(n, 1);
	assert_int_equal(fds[0], HELD_FD);
	*holder = (struct sh_holder){ .fd = HELD_FD + 1, .pid = 1 };
	started++;
	return 0;
}

void __wrap_sh_holder_end(struct sh_holder *holder);
void __wrap_sh_holder_end(struct sh_holder *holder)
{
	ended += holder->fd >= 0;
	holder->fd = -1;
}

uint64_t __wrap_sh_worker_busy_since_ns(const struct sh_worker *worker);
uint64_t __wrap_sh_worker_busy_since_ns(const struct sh_worker *worker)
{
	assert_ptr_equal(worker, nic->prompt);
	return busy_since;
}

static int setup(void **state)
{
	(void)state;
	sh_hold_module.reset();
	list_init(&sh_objects.ctxs);
	sh.config.hold_hung = true;
	sh.config.hang.send_ns = LIMIT_NS;
	sh.stopping = false;
	sh_nics.n = 1;
	*nic = (struct sh_nic){ .state = SH_NIC_OPEN,
				.ctx = &context,
				.prompt = (struct sh_worker *)&context };
	busy_since = 0;
	started = ended = 0;
	return 0;
}

static void round_goes(void)
{
	sh_lock();
	sh_hold_module.run(sh_now_ns());
	sh_unlock();
}

static void program_ends(void)
{
	sh_lock();
	sh.stopping = true;
	sh_hold_end();
	sh_unlock();
}

static void one_that_hangs_until_it_obeys(void **state)
{
	(void)state;
	round_goes();
	assert_int_equal(started, 0);
	nic->sick = true;
	round_goes();
	round_goes();
	assert_int_equal(started, 1);
	assert_int_equal(ended, 0);
	nic->sick = false;
	round_goes();
	assert_int_equal(ended, 1);
}

/* The thread that closes the file may not have come to that when the program ends. */
static void one_that_is_closed_meanwhile(void **state)
{
	(void)state;
	nic->sick = true;
	round_goes();
	nic->ctx = NULL;
	round_goes();
	assert_int_equal(started, 1);
	assert_int_equal(ended, 0);
	nic->sick = false;
	round_goes();
	assert_int_equal(ended, 1);
}

static void none_that_is_well(void **state)
{
	(void)state;
	busy_since = sh_now_ns();
	program_ends();
	assert_int_equal(started, 0);
}

/* The background thread may go a round after the end has begun. */
static void one_that_a_command_waits_for_at_the_end(void **state)
{
	(void)state;
	busy_since = sh_now_ns() - 2 * LIMIT_NS;
	program_ends();
	assert_int_equal(started, 1);
	round_goes();
	assert_int_equal(ended, 0);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup(test, setup)
	const struct CMUnitTest tests[] = {
		CASE(one_that_hangs_until_it_obeys),
		CASE(one_that_is_closed_meanwhile),
		CASE(none_that_is_well),
		CASE(one_that_a_command_waits_for_at_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
