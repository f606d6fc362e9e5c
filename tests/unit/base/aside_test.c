/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Descriptors above the soft limit: the program keeps all of its numbers, and sees nothing of how they came there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "shiftlib/base/aside.h"

#define SOFT  200
#define ROUND 200 /* of calls, while another thread looks */

static struct rlimit first; /* what the test was given */

static void limit_set(rlim_t soft, rlim_t hard)
{
	assert_return_code(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ soft, hard }), errno);
}

/* How many descriptors a program can open now. */
static int room(void)
{
	static int fds[SOFT];
	int n = 0;

	while (n < SOFT && (fds[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		n++;
	assert_int_equal(errno, EMFILE);
	for (int i = 0; i < n; i++)
		close(fds[i]);
	return n;
}

static int make(void)
{
	int fd = eventfd(7, EFD_NONBLOCK);

	assert_true(fd >= 0);
	return fd;
}

static void moved_beside_the_programs(void **state)
{
	int before, one, two, none = -1, old;
	uint64_t value;

	(void)state;
	limit_set(SOFT, first.rlim_max);
	before = room();
	one = old = make();
	two = make();
	errno = EXDEV;
	sh_aside((int *[]){ &one, &none, &two }, 3);
	assert_int_equal(errno, EXDEV);
	assert_true(one >= SOFT && two >= SOFT && one != two);
	assert_int_equal(none, -1);
	assert_int_equal(fcntl(old, F_GETFD), -1);
	assert_int_equal(fcntl(one, F_GETFD), FD_CLOEXEC);
	assert_int_equal(read(one, &value, sizeof(value)), sizeof(value));
	assert_int_equal(value, 7); /* the same open file */
	assert_int_equal(room(), before);
	assert_false(sh_aside_takes_any());
	old = one;
	sh_aside_one(&one); /* where it is already */
	assert_int_equal(one, old);
	limit_set(SOFT + 100, first.rlim_max);
	assert_true(sh_aside_takes_any());
	close(one);
	close(two);
}

static void not_where_the_hard_limit_is_no_higher(void **state)
{
	int fd, old;

	(void)state;
	fd = fork();
	if (fd) {
		assert_int_equal(waitpid(fd, &old, 0), fd);
		assert_int_equal(old, 0);
		return;
	}
	limit_set(SOFT, SOFT);
	fd = old = make();
	sh_aside_one(&fd);
	_exit(fd != old || sh_aside_works() || !sh_aside_takes_any());
}

static void not_above_very_many(void **state)
{
	int fd, old;

	(void)state;
	if (first.rlim_max <= SH_ASIDE_LIMIT + 1)
		skip();
	limit_set(SH_ASIDE_LIMIT + 1, first.rlim_max);
	fd = old = make();
	sh_aside_one(&fd);
	assert_int_equal(fd, old);
	close(fd);
}

static atomic_bool stop;

static void *watch(void *arg)
{
	struct rlimit limit;
	intptr_t other = 0;

	while (!atomic_load(&stop) && !getrlimit(RLIMIT_NOFILE, &limit))
		other += limit.rlim_cur != SOFT;
	(void)arg;
	return (void *)other;
}

static atomic_int signals;

static void count(int number)
{
	(void)number;
	atomic_fetch_add(&signals, 1);
}

/* No other limit at any moment, no SIGCHLD, and no child for a wait(). */
static void nothing_is_seen_of_it(void **state)
{
	struct sigaction action = { .sa_handler = count }, before;
	pthread_t thread;
	void *other;

	(void)state;
	limit_set(SOFT, first.rlim_max);
	sigaction(SIGCHLD, &action, &before);
	assert_int_equal(pthread_create(&thread, NULL, watch, NULL), 0);
	for (int i = 0; i < ROUND; i++) {
		int fd = make();

		sh_aside_one(&fd);
		assert_true(fd >= SOFT);
		assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
		assert_int_equal(errno, ECHILD);
		close(fd);
	}
	atomic_store(&stop, true);
	pthread_join(thread, &other);
	sigaction(SIGCHLD, &before, NULL);
	assert_null(other);
	assert_int_equal(atomic_load(&signals), 0);
}

static void works(void **state)
{
	int before;

	(void)state;
	limit_set(SOFT, first.rlim_max);
	before = room();
	assert_true(sh_aside_works());
	assert_int_equal(room(), before);
}

static int restore(void **state)
{
	(void)state;
	return setrlimit(RLIMIT_NOFILE, &first);
}

/* If the program could give the new number to FD_SET(), the set would be written past its end. */
static void what_is_shown_has_room_in_a_set(void **state)
{
	int fd = make(), old = fd;

	(void)state;
	limit_set(FD_SETSIZE, first.rlim_max);
	sh_aside_shown((int *[]){ &fd }, 1);
	assert_int_equal(fd, old);
	assert_return_code(fcntl(fd, F_GETFD), errno);
	limit_set(SOFT, first.rlim_max);
	sh_aside_shown((int *[]){ &fd }, 1);
	assert_in_range(fd, SOFT, FD_SETSIZE - 1);
	assert_int_equal(fcntl(old, F_GETFD), -1);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(moved_beside_the_programs, restore),
		cmocka_unit_test_teardown(not_where_the_hard_limit_is_no_higher, restore),
		cmocka_unit_test_teardown(not_above_very_many, restore),
		cmocka_unit_test_teardown(nothing_is_seen_of_it, restore),
		cmocka_unit_test_teardown(what_is_shown_has_room_in_a_set, restore),
		cmocka_unit_test_teardown(works, restore),
	};

	getrlimit(RLIMIT_NOFILE, &first);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
