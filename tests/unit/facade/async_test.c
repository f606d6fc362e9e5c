/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Facades of asynchronous events: shiftlib/facade/async.h. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "shiftlib/facade/async.h"
#include "tests/lib/pipe_context.h"

struct fixture {
	struct pipe_context context;
	struct sh_async *async;
	int real_fd;
	struct ibv_qp qp, other;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	sh_async_setup(&pipe_verbs);
	pipe_context_init(&f->context);
	f->qp.context = &f->context.ibv;
	f->other.context = &f->context.ibv;
	f->real_fd = f->context.ibv.async_fd;
	f->async = sh_async_init(&f->context.ibv);
	assert_non_null(f->async);
	assert_int_not_equal(f->context.ibv.async_fd, f->real_fd);
	assert_int_equal(sh_async_real_fd(f->async), f->real_fd);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	sh_async_uninit(f->async);
	assert_int_equal(f->context.ibv.async_fd, f->real_fd);
	assert_null(sh_async_of(&f->context.ibv));
	pipe_context_uninit(&f->context);
	free(f);
	return 0;
}

static struct ibv_async_event qp_event(struct ibv_qp *qp)
{
	struct ibv_async_event event;

	memset(&event, 0, sizeof(event));
	event.element.qp = qp;
	event.event_type = IBV_EVENT_COMM_EST;
	return event;
}

/* What the background thread does with an event that the application shall see. */
static void hand_on(struct fixture *f, struct ibv_qp *qp)
{
	struct ibv_async_event event = qp_event(qp);

	pipe_async(&f->context, &event);
	memset(&event, 0, sizeof(event));
	assert_int_equal(sh_async_read_real(f->async, &event), 0);
	assert_ptr_equal(event.element.qp, qp);
	assert_int_equal(sh_async_push(f->async, &event, true), 0);
}

static bool readable(struct fixture *f)
{
	return fd_readable(f->context.ibv.async_fd);
}

static void expect_event(struct fixture *f, struct ibv_qp *qp)
{
	struct ibv_async_event event;

	assert_true(readable(f));
	assert_int_equal(shift_get_async_event(&f->context.ibv, &event), 0);
	assert_ptr_equal(event.element.qp, qp);
	shift_ack_async_event(&event);
}

static void expect_nothing(struct fixture *f)
{
	struct ibv_async_event event;

	assert_false(readable(f));
	fd_nonblock(f->context.ibv.async_fd);
	assert_int_equal(shift_get_async_event(&f->context.ibv, &event), -1);
	assert_int_equal(errno, EAGAIN);
}

static void real_fd_is_ours_alone(void **state)
{
	struct fixture *f = *state;
	struct ibv_async_event event = qp_event(&f->qp);

	assert_int_equal(sh_async_read_real(f->async, &event), -EAGAIN);
	pipe_async(&f->context, &event);
	assert_false(readable(f));
	assert_int_equal(sh_async_read_real(f->async, &event), 0);
	sh_async_drop(f->async, &event);
	assert_int_equal(f->context.asyncs_acked, 1);
	expect_nothing(f);
}

static void handed_on_events_are_acked_for_real(void **state)
{
	struct fixture *f = *state;

	hand_on(f, &f->qp);
	hand_on(f, &f->other);
	expect_event(f, &f->qp);
	assert_int_equal(f->context.asyncs_acked, 1);
	expect_event(f, &f->other);
	assert_int_equal(f->context.asyncs_acked, 2);
	expect_nothing(f);
}

static void made_events_are_not(void **state)
{
	struct fixture *f = *state;
	struct ibv_async_event event = qp_event(&f->qp);

	assert_int_equal(sh_async_push(f->async, &event, false), 0);
	expect_event(f, &f->qp);
	assert_int_equal(f->context.asyncs_acked, 0);
	hand_on(f, &f->qp);
	expect_event(f, &f->qp);
	assert_int_equal(f->context.asyncs_acked, 1);
}

static void swap_nests(void **state)
{
	struct fixture *f = *state;
	int facade = f->context.ibv.async_fd;

	shift_async_real_begin(&f->context.ibv);
	assert_int_equal(f->context.ibv.async_fd, f->real_fd);
	shift_async_real_begin(&f->context.ibv);
	shift_async_real_end(&f->context.ibv);
	assert_int_equal(f->context.ibv.async_fd, f->real_fd);
	shift_async_real_end(&f->context.ibv);
	assert_int_equal(f->context.ibv.async_fd, facade);
}

/* An application that reads the field while an event is taken waits at what it found there. */
static void what_is_at_the_field_meanwhile_tells_too(void **state)
{
	struct fixture *f = *state;
	int seen;

	hand_on(f, &f->qp);
	seen = f->context.async_fd_seen;
	assert_int_not_equal(seen, f->real_fd);
	assert_true(fd_readable(seen));
	hand_on(f, &f->other);
	expect_event(f, &f->qp);
	assert_true(fd_readable(seen));
	expect_event(f, &f->other);
	assert_false(fd_readable(seen));
	hand_on(f, &f->qp);
	assert_true(fd_readable(seen));
	sh_async_forget_begin(f->async, &f->qp);
	assert_false(fd_readable(seen));
	sh_async_forget_end(f->async, &f->qp, true);
}

static void unknown_context_is_forwarded(void **state)
{
	struct pipe_context stock;
	struct ibv_qp qp = { .context = &stock.ibv };
	struct ibv_async_event event = qp_event(&qp);

	pipe_context_init(&stock);
	assert_null(sh_async_of(&stock.ibv));
	shift_async_real_begin(&stock.ibv);
	shift_async_real_end(&stock.ibv);
	pipe_async(&stock, &event);
	assert_int_equal(shift_get_async_event(&stock.ibv, &event), 0);
	shift_ack_async_event(&event);
	assert_int_equal(stock.asyncs_acked, 1);
	sh_async_forget_begin(NULL, &qp);
	sh_async_forget_end(NULL, &qp, false);
	pipe_context_uninit(&stock);
}

/* A job's queue pairs end all at once, and its reader is at something else. */
static void hundreds_wait_for_a_reader(void **state)
{
	enum { MANY = 500, EARLY = 40 };
	static struct ibv_qp qps[MANY];
	struct fixture *f = *state;
	struct ibv_async_event event;

	for (int i = 0; i < MANY; i++) {
		qps[i].context = &f->context.ibv;
		event = qp_event(&qps[i]);
		assert_int_equal(sh_async_push(f->async, &event, false), 0);
		if (i < EARLY)
			expect_event(f, &qps[i]);
	}
	for (int i = EARLY; i < MANY; i++)
		expect_event(f, &qps[i]);
	expect_nothing(f);
	assert_int_equal(f->context.asyncs_acked, 0);
}

static void full_queue_drops_and_acks(void **state)
{
	struct fixture *f = *state;
	struct ibv_async_event event = qp_event(&f->qp);

	for (int i = 0; i < SH_ASYNC_QUEUE_MAX; i++)
		hand_on(f, &f->qp);
	assert_int_equal(sh_async_push(f->async, &event, true), -ENOSPC);
	assert_int_equal(f->context.asyncs_acked, 1);
	for (int i = 0; i < SH_ASYNC_QUEUE_MAX; i++)
		expect_event(f, &f->qp);
	expect_nothing(f);
}

static void fini_acks_what_was_not_read(void **state)
{
	struct fixture *f = *state;

	hand_on(f, &f->qp);
	hand_on(f, &f->other);
	sh_async_uninit(f->async);
	assert_int_equal(f->context.asyncs_acked, 2);
	f->async = sh_async_init(&f->context.ibv);
	assert_non_null(f->async);
}

static void forget_takes_back_unread_and_coming(void **state)
{
	struct fixture *f = *state;
	struct ibv_async_event made = qp_event(&f->qp);

	hand_on(f, &f->qp);
	hand_on(f, &f->other);
	hand_on(f, &f->qp);
	assert_int_equal(sh_async_push(f->async, &made, false), 0);
	sh_async_forget_begin(f->async, &f->qp);
	assert_int_equal(f->context.asyncs_acked, 2);
	hand_on(f, &f->qp);
	assert_int_equal(f->context.asyncs_acked, 3);
	sh_async_forget_end(f->async, &f->qp, false);
	expect_event(f, &f->other);
	expect_nothing(f);
	hand_on(f, &f->qp);
	expect_event(f, &f->qp);
	assert_int_equal(f->context.asyncs_acked, 5);
}

/* The public count is the application's, until libibverbs waits for its own. */
static void what_is_hidden_is_told_at_the_end(void **state)
{
	struct fixture *f = *state;
	struct ibv_async_event event = qp_event(&f->qp);

	sh_async_hide(f->async, &event);
	sh_async_hide(f->async, &event);
	assert_int_equal(f->qp.events_completed, 0);
	assert_int_equal(sh_async_push(f->async, &event, false), 0);
	expect_event(f, &f->qp);
	assert_int_equal(f->qp.events_completed, 1);
	sh_async_forget_begin(f->async, &f->qp);
	assert_int_equal(f->qp.events_completed, 2);
	assert_int_equal(f->context.asyncs_acked, 0);
	sh_async_hide(f->async, &event); /* while libibverbs waits */
	assert_int_equal(f->context.asyncs_acked, 1);
	sh_async_forget_end(f->async, &f->qp, true);
	assert_int_equal(f->qp.events_completed, 1);
	sh_async_forget_begin(f->async, &f->qp);
	assert_int_equal(f->qp.events_completed, 2);
	sh_async_forget_end(f->async, &f->qp, false);
	sh_async_forget_begin(f->async, &f->qp); /* another one at this address */
	assert_int_equal(f->qp.events_completed, 2);
	sh_async_forget_end(f->async, &f->qp, false);
}

static void forget_of_the_last_makes_unreadable(void **state)
{
	struct fixture *f = *state;

	hand_on(f, &f->qp);
	assert_true(readable(f));
	sh_async_forget_begin(f->async, &f->qp);
	assert_false(readable(f));
	sh_async_forget_end(f->async, &f->qp, false);
	hand_on(f, &f->qp);
	expect_event(f, &f->qp);
}

static void *waiting_reader(void *arg)
{
	struct fixture *f = arg;
	struct ibv_async_event event;

	if (shift_get_async_event(&f->context.ibv, &event))
		abort();
	shift_ack_async_event(&event);
	return NULL;
}

static void blocking_readers_wake(void **state)
{
	struct fixture *f = *state;
	pthread_t threads[3];

	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, waiting_reader, f), 0);
	for (int i = 0; i < 3; i++)
		hand_on(f, &f->qp);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(f->context.asyncs_acked, 3);
	hand_on(f, &f->qp);
	expect_event(f, &f->qp);
}

static void cancelled_reader_leaves_no_lock(void **state)
{
	struct fixture *f = *state;
	pthread_t thread;
	void *result;

	if (CANCEL_UNTESTABLE)
		skip();
	assert_int_equal(pthread_create(&thread, NULL, waiting_reader, f), 0);
	pthread_cancel(thread);
	pthread_join(thread, &result);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	hand_on(f, &f->qp);
	expect_event(f, &f->qp);
}

#define LOAD_ROUNDS 2000

static void *load_swapper(void *arg)
{
	struct fixture *f = arg;

	for (int i = 0; i < LOAD_ROUNDS; i++) {
		shift_async_real_begin(&f->context.ibv);
		sched_yield();
		shift_async_real_end(&f->context.ibv);
		sh_async_forget_begin(f->async, &f->other);
		sh_async_forget_end(f->async, &f->other, false);
	}
	return NULL;
}

static void *load_reader(void *arg)
{
	for (int i = 0; i < LOAD_ROUNDS; i++)
		waiting_reader(arg);
	return NULL;
}

/* One background thread, an application that reads, and one that creates and destroys. */
static void every_event_acked_under_load(void **state)
{
	struct fixture *f = *state;
	pthread_t swapper, reader;
	struct ibv_async_event event = qp_event(&f->qp);

	assert_int_equal(pthread_create(&swapper, NULL, load_swapper, f), 0);
	assert_int_equal(pthread_create(&reader, NULL, load_reader, f), 0);
	for (int i = 0; i < LOAD_ROUNDS; i++) {
		/* A full queue would drop: it holds what the reader has not taken yet. */
		while (i - (int)__atomic_load_n(&f->context.asyncs_acked, __ATOMIC_RELAXED) >=
		       SH_ASYNC_QUEUE_MAX)
			sched_yield();
		pipe_async(&f->context, &event);
		while (sh_async_read_real(f->async, &event))
			sched_yield();
		assert_int_equal(sh_async_push(f->async, &event, true), 0);
	}
	pthread_join(swapper, NULL);
	pthread_join(reader, NULL);
	assert_int_equal(f->context.asyncs_acked, LOAD_ROUNDS);
	expect_nothing(f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(real_fd_is_ours_alone),
		TEST(handed_on_events_are_acked_for_real),
		TEST(made_events_are_not),
		TEST(swap_nests),
		TEST(what_is_at_the_field_meanwhile_tells_too),
		TEST(unknown_context_is_forwarded),
		TEST(hundreds_wait_for_a_reader),
		TEST(full_queue_drops_and_acks),
		TEST(fini_acks_what_was_not_read),
		TEST(forget_takes_back_unread_and_coming),
		TEST(what_is_hidden_is_told_at_the_end),
		TEST(forget_of_the_last_makes_unreadable),
		TEST(blocking_readers_wake),
		TEST(cancelled_reader_leaves_no_lock),
		TEST(every_event_acked_under_load),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
