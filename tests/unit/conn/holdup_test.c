/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the counters of a port say of requests that are held up: which kind, since when, and when
 * they say nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "shiftlib/base/apart.h"
#include "shiftlib/base/lock.h"
#include "shiftlib/base/worker.h"
#include "shiftlib/conn/watch/holdup.h"
#include "shiftlib/nic/counters.h"
#include "shiftlib/nic/nic.h"

#define MS 1000000ull

static struct ibv_context context = { .cmd_fd = 7 };
static struct sh_nic nic;
static struct sh_counters_held counts;
static bool some;
static struct sh_job *submitted;
static uint64_t now;
static int readings, apart_of;

int __wrap_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
	(void)clock;
	*out = (struct timespec){ .tv_sec = (time_t)(now / (1000 * MS)),
				  .tv_nsec = (long)(now % (1000 * MS)) };
	return 0;
}

bool __wrap_sh_counters_read_held(const char *sysfs, const char *device,
				  struct sh_counters_held *out);
bool __wrap_sh_counters_read_held(const char *sysfs, const char *device,
				  struct sh_counters_held *out)
{
	(void)sysfs;
	assert_string_equal(device, "mlx5_0");
	assert_int_equal(apart_of, context.cmd_fd); /* a thread would wait for a NIC that hangs */
	readings++;
	*out = counts;
	return some;
}

int __wrap_sh_worker_submit(struct sh_worker *worker, struct sh_job *job);
int __wrap_sh_worker_submit(struct sh_worker *worker, struct sh_job *job)
{
	(void)worker;
	assert_null(submitted);
	submitted = job;
	return 0;
}

void __wrap_sh_apart(int device, void (*fn)(void *arg), void *arg);
void __wrap_sh_apart(int device, void (*fn)(void *arg), void *arg)
{
	apart_of = device;
	fn(arg);
	apart_of = 0;
}

static void run(void)
{
	struct sh_job *job = submitted;

	submitted = NULL;
	if (!job)
		return;
	job->fn(job);
	job->done(job);
}

static void ask(void)
{
	sh_lock();
	sh_holdup_ask(&nic, now);
	sh_unlock();
	run();
}

/* Looks for so long, three times a second, as the look at connections does. */
static void look_for(uint64_t ns)
{
	for (uint64_t end = now + ns; now < end; now += 330 * MS)
		ask();
}

static bool told(unsigned *kinds)
{
	bool is;

	sh_lock();
	is = sh_holdup_told(&nic, now, kinds);
	sh_unlock();
	return is;
}

static void tells(unsigned wanted)
{
	unsigned kinds;

	assert_true(told(&kinds));
	assert_int_equal(kinds, wanted);
}

static int begin(void **state)
{
	(void)state;
	sh_holdups_module.reset();
	nic = (struct sh_nic){
		.name = "mlx5_0", .ctx = &context, .state = SH_NIC_OPEN, .incarnation = 1
	};
	counts = (struct sh_counters_held){ .has_waits = true, .has_rnr_naks = true };
	some = true;
	readings = 0;
	now = 1000000 * MS;
	return 0;
}

static void nothing_before_a_window(void **state)
{
	unsigned kinds;

	(void)state;
	assert_false(told(&kinds));
	ask();
	counts.waits++;
	now += 300 * MS;
	ask();
	assert_false(told(&kinds));
	now += 500 * MS;
	ask();
	tells(SH_HOLDUP_PAUSED);
}

static void each_kind(void **state)
{
	(void)state;
	ask();
	look_for(1500 * MS);
	tells(0);
	counts.waits++;
	look_for(1500 * MS);
	look_for(1500 * MS);
	tells(0); /* it stood still in the last window */
	counts.rnr_naks++;
	look_for(700 * MS);
	tells(SH_HOLDUP_UNREADY);
	counts.rnr_naks++;
	counts.waits++;
	look_for(700 * MS);
	tells(SH_HOLDUP_PAUSED | SH_HOLDUP_UNREADY);
}

/* What rose between two stalls says nothing of the second. */
static void an_old_reading_is_not_compared(void **state)
{
	unsigned kinds;

	(void)state;
	look_for(1500 * MS);
	counts.waits += 1000;
	now += 5000 * MS;
	assert_false(told(&kinds));
	look_for(1500 * MS);
	tells(0);
}

static void another_device_begins_anew(void **state)
{
	unsigned kinds;

	(void)state;
	look_for(1500 * MS);
	nic.incarnation++;
	counts.waits = 5;
	assert_false(told(&kinds));
	ask();
	assert_false(told(&kinds));
}

static void a_port_without_counters_says_so(void **state)
{
	(void)state;
	counts = (struct sh_counters_held){ 0 };
	some = false;
	ask();
	tells(0);
}

/* A counter that begins anew, or comes and goes, has not risen. */
static void a_counter_that_falls_has_not_risen(void **state)
{
	(void)state;
	counts.waits = 100;
	ask();
	counts.waits = 3;
	look_for(1500 * MS);
	tells(0);
	counts.has_waits = false;
	look_for(1500 * MS);
	counts.has_waits = true;
	counts.waits = 50;
	look_for(800 * MS);
	tells(0);
}

static void a_sick_nic_is_not_asked(void **state)
{
	(void)state;
	nic.sick = true;
	look_for(1000 * MS);
	assert_int_equal(readings, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(nothing_before_a_window, begin),
		cmocka_unit_test_setup(each_kind, begin),
		cmocka_unit_test_setup(an_old_reading_is_not_compared, begin),
		cmocka_unit_test_setup(another_device_begins_anew, begin),
		cmocka_unit_test_setup(a_port_without_counters_says_so, begin),
		cmocka_unit_test_setup(a_counter_that_falls_has_not_risen, begin),
		cmocka_unit_test_setup(a_sick_nic_is_not_asked, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
