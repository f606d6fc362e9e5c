/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* When a control queue pair gets room for more datagrams, and when it has to do with what it has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdlib.h>
#include <cmocka.h>

#include "shiftlib/base/lock.h"
#include "shiftlib/base/worker.h"
#include "shiftlib/control/control_qp.h"
#include "shiftlib/nic/internal.h"
#include "shiftlib/nic/nic.h"

#define NOW  (1000 * SH_NS_PER_S)
#define LONG (60 * SH_NS_PER_S) /* longer than any pause */

static struct sh_nic *const nic = &sh_nics.nic[0];
static struct shift_real real;
static struct sh_job *submitted;
static bool wide, tight;
static int answer, widened;

static void inside(void)
{
}

bool __wrap_sh_control_wide(const struct sh_control *control);
bool __wrap_sh_control_wide(const struct sh_control *control)
{
	assert_ptr_equal(control, &wide);
	return wide;
}

bool __wrap_sh_control_tight(const struct sh_control *control);
bool __wrap_sh_control_tight(const struct sh_control *control)
{
	assert_ptr_equal(control, &wide);
	return tight;
}

bool __wrap_sh_control_dead(const struct sh_control *control);
bool __wrap_sh_control_dead(const struct sh_control *control)
{
	assert_ptr_equal(control, &wide);
	return false;
}

int __wrap_sh_control_widen(struct sh_control *control);
int __wrap_sh_control_widen(struct sh_control *control)
{
	assert_ptr_equal(control, &wide);
	widened++;
	wide = !answer;
	return answer;
}

int __wrap_sh_worker_submit(struct sh_worker *worker, struct sh_job *job);
int __wrap_sh_worker_submit(struct sh_worker *worker, struct sh_job *job)
{
	assert_ptr_equal(worker, &submitted);
	assert_null(submitted);
	submitted = job;
	return 0;
}

void __wrap_sh_kick(void);
void __wrap_sh_kick(void)
{
}

static int setup(void **state)
{
	(void)state;
	real = (struct shift_real){ .thread_inside = inside };
	sh.real = &real;
	sh_nics.n = 1;
	nic->state = SH_NIC_OPEN;
	nic->control = (void *)&wide;
	nic->worker = (void *)&submitted;
	nic->fatal = nic->sick = false;
	sh_nics.cramped = sh_nics.many = false;
	sh_nics.widen[0].asked = false;
	sh_nics.widen[0].not_before = 0;
	submitted = NULL;
	wide = tight = false;
	answer = widened = 0;
	return 0;
}

/* The thread looks; true if the worker has a job now. */
static bool looks_at(uint64_t now)
{
	sh_lock();
	sh_nic_widen_poll(nic, now);
	sh_unlock();
	return submitted;
}

static void worker_works(void)
{
	struct sh_job *job = submitted;

	submitted = NULL;
	job->fn(job);
	job->done(job);
}

static void expect_datagrams(uint32_t n)
{
	sh_lock();
	sh_nics_expect(n);
	sh_unlock();
}

static void few_need_no_more(void **state)
{
	(void)state;
	expect_datagrams(SH_CONTROL_RECEIVES_FIRST);
	assert_false(looks_at(NOW));
}

static void many_get_room_once(void **state)
{
	(void)state;
	expect_datagrams(SH_CONTROL_RECEIVES_FIRST + 1);
	assert_true(looks_at(NOW));
	assert_true(looks_at(NOW)); /* no second job: submit would complain */
	worker_works();
	assert_int_equal(widened, 1);
	assert_false(looks_at(NOW));
}

static void a_burst_gets_room(void **state)
{
	(void)state;
	assert_false(looks_at(NOW));
	tight = true;
	assert_true(looks_at(NOW));
	worker_works();
	assert_int_equal(widened, 1);
}

static void where_memory_is_short_it_stays(void **state)
{
	(void)state;
	tight = sh_nics.cramped = true;
	assert_false(looks_at(NOW));
}

static void a_nic_that_hangs_gets_no_job(void **state)
{
	(void)state;
	tight = nic->sick = true;
	assert_false(looks_at(NOW));
}

static void what_fails_is_tried_again_behind_a_pause(void **state)
{
	uint64_t now;

	(void)state;
	tight = true;
	answer = -ENOMEM;
	now = sh_now_ns();
	assert_true(looks_at(now));
	worker_works();
	assert_false(looks_at(now + SH_NS_PER_S));
	assert_true(looks_at(now + LONG));
	answer = 0;
	worker_works();
	assert_int_equal(widened, 2);
	assert_false(looks_at(now + 2 * LONG));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(few_need_no_more, setup),
		cmocka_unit_test_setup(many_get_room_once, setup),
		cmocka_unit_test_setup(a_burst_gets_room, setup),
		cmocka_unit_test_setup(where_memory_is_short_it_stays, setup),
		cmocka_unit_test_setup(a_nic_that_hangs_gets_no_job, setup),
		cmocka_unit_test_setup(what_fails_is_tried_again_behind_a_pause, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
