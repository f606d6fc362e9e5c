/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The date is set back by an hour while somebody waits: waits end in time all the same. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "shiftlib/base/thread.h"
#include "shiftlib/base/util.h"

#define HOUR_S	 3600
#define SHORT_NS (5 * SH_NS_PER_MS)

/* What it tells of the date is an hour more than what the kernel goes by, as if the date had been set back behind it. */
int clock_gettime(clockid_t clock, struct timespec *ts)
{
	int ret = (int)syscall(SYS_clock_gettime, clock, ts);

	if (clock == CLOCK_REALTIME)
		ts->tv_sec += HOUR_S;
	return ret;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void a_condition(void **state)
{
	struct timespec until;
	pthread_cond_t cond;

	assert_int_equal(sh_cond_init(&cond), 0);
	pthread_mutex_lock(&lock);
	until = sh_until(SHORT_NS);
	while (!pthread_cond_timedwait(&cond, &lock, &until))
		;
	pthread_mutex_unlock(&lock);
	pthread_cond_destroy(&cond);
}

static void *hold(void *arg)
{
	pthread_barrier_t *met = arg;

	pthread_mutex_lock(&lock);
	pthread_barrier_wait(met); /* it has the lock */
	pthread_barrier_wait(met); /* the other one has waited */
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void a_lock_and_a_thread(void **state)
{
	pthread_barrier_t met;
	pthread_t thread;

	pthread_barrier_init(&met, NULL, 2);
	assert_int_equal(pthread_create(&thread, NULL, hold, &met), 0);
	pthread_barrier_wait(&met);
	assert_false(sh_lock_within(&lock, SHORT_NS));
	assert_false(sh_join_within(thread, SHORT_NS));
	pthread_barrier_wait(&met);
	assert_true(sh_lock_within(&lock, HOUR_S * SH_NS_PER_S));
	assert_true(sh_join_within(thread, HOUR_S * SH_NS_PER_S));
	pthread_mutex_unlock(&lock);
	pthread_barrier_destroy(&met);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_condition),
		cmocka_unit_test(a_lock_and_a_thread),
	};

	alarm(60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
