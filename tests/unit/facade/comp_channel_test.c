/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Facades of completion channels: shiftlib/facade/comp_channel.h. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>
#include <cmocka.h>
#include "shiftlib/facade/comp_channel.h"
#include "shiftlib/news.h"
#include "tests/lib/pipe_context.h"

/* One channel with one CQ; tests that need more make it. */
struct fixture {
	struct pipe_context context, other_nic;
	struct ibv_comp_channel *facade, *real, *shadow_channel;
	struct ibv_cq cq, shadow;
	struct sh_cq_events events;
	struct sh_cq_feed feed; /* of the shadow */
	int app_context;
};

/* The engine's rings, for which a CQ stands. */
static struct sp_cq_ring *ring_of(struct ibv_cq *cq)
{
	return (struct sp_cq_ring *)cq;
}

static _Atomic(struct sp_cq_ring *) last_read;
static _Atomic bool several; /* rings may have told of a queue */

bool sh_news_cq_event_read(struct sp_cq_ring *ring)
{
	atomic_store(&last_read, ring);
	return atomic_load(&several);
}

static _Atomic bool death_masked;

bool sh_news_death_masked(const struct ibv_comp_channel *facade)
{
	(void)facade;
	return atomic_load(&death_masked);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	sh_comp_channel_setup(&pipe_verbs);
	pipe_context_init(&f->context);
	pipe_context_init(&f->other_nic);
	f->facade = sh_comp_channel_create(&f->context.ibv);
	assert_non_null(f->facade);
	f->real = sh_comp_channel_real(f->facade);
	pipe_cq_init(&f->cq, &f->context.ibv, f->real, &f->app_context);
	assert_int_equal(sh_cq_events_init(&f->events, &f->cq, f->facade), 0);
	sh_cq_feed_drive(&f->events.own, ring_of(&f->cq));
	atomic_store(&last_read, NULL);
	atomic_store(&death_masked, false);
	*state = f;
	return 0;
}

/* What the shell does when it makes a shadow CQ, and when it destroys it. */
static struct ibv_comp_channel *shadow_cq_make(struct fixture *f, struct ibv_cq *shadow,
					       struct sh_cq_feed *feed, struct sh_cq_events *events)
{
	struct ibv_comp_channel *channel = sh_comp_channel_shadow_get(f->facade, &f->other_nic.ibv);

	assert_non_null(channel);
	sh_cq_feed_init(feed, events);
	pipe_cq_init(shadow, &f->other_nic.ibv, channel, feed);
	sh_cq_feed_add(feed, shadow);
	sh_cq_feed_drive(feed, ring_of(shadow));
	return channel;
}

/* n: how many events it had in all; those that nobody has read are read meanwhile, or are gone. */
static void shadow_cq_destroy(struct fixture *f, struct ibv_comp_channel *channel,
			      struct ibv_cq *shadow, struct sh_cq_feed *feed, unsigned int n)
{
	sh_cq_feed_close(feed);
	sh_cq_feed_settle(feed);
	pipe_cq_wait(shadow, n);
	pipe_cq_uninit(shadow);
	sh_cq_feed_uninit(feed);
	sh_comp_channel_shadow_put(f->facade, channel);
}

static void shadow_make(struct fixture *f)
{
	f->shadow_channel = shadow_cq_make(f, &f->shadow, &f->feed, &f->events);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	sh_cq_events_quiesce(&f->events);
	assert_ptr_equal(f->cq.channel, f->real);
	if (f->shadow_channel)
		shadow_cq_destroy(f, f->shadow_channel, &f->shadow, &f->feed,
				  pipe_cq_acked(&f->shadow) + atomic_load(&f->feed.delivered));
	pipe_cq_uninit(&f->cq);
	assert_int_equal(sh_comp_channel_destroy(f->facade), EBUSY);
	sh_cq_events_uninit(&f->events);
	assert_int_equal(sh_comp_channel_destroy(f->facade), 0);
	pipe_context_uninit(&f->context);
	pipe_context_uninit(&f->other_nic);
	free(f);
	return 0;
}

static void expect_event(struct fixture *f)
{
	struct ibv_cq *cq = NULL;
	void *context = NULL;

	assert_true(fd_readable(f->facade->fd));
	assert_int_equal(shift_get_cq_event(f->facade, &cq, &context), 0);
	assert_ptr_equal(cq, &f->cq);
	assert_ptr_equal(context, &f->app_context);
	shift_ack_cq_events(cq, 1);
}

static void expect_nothing(struct fixture *f)
{
	struct ibv_cq *cq;
	void *context;

	assert_false(fd_readable(f->facade->fd));
	fd_nonblock(f->facade->fd);
	assert_int_equal(shift_get_cq_event(f->facade, &cq, &context), -1);
	assert_int_equal(errno, EAGAIN);
}

static void facade_is_told_apart(void **state)
{
	struct fixture *f = *state;

	assert_true(sh_comp_channel_is_facade(f->facade));
	assert_false(sh_comp_channel_is_facade(f->real));
	assert_false(sh_comp_channel_is_facade(NULL));
	assert_ptr_equal(sh_comp_channel_real(f->real), f->real);
	assert_ptr_equal(f->cq.channel, f->facade);
	assert_ptr_equal(f->facade->context, &f->context.ibv);
	expect_nothing(f);
}

static void libibverbs_is_told_of_all_at_once(void **state)
{
	struct fixture *f = *state;
	unsigned int read = pipe_events_read();

	for (int i = 1; i <= 3; i++) {
		pipe_complete(f->real, &f->cq);
		expect_event(f);
		assert_int_equal(f->cq.comp_events_completed, i); /* the application's */
		assert_ptr_equal(atomic_load(&last_read), ring_of(&f->cq));
	}
	expect_nothing(f);
	sh_cq_events_quiesce(&f->events);
	assert_int_equal(pipe_cq_acked(&f->cq), 3);
	assert_int_equal(pipe_events_read(), read);
	/* destroying it failed: it goes on, and is counted from there */
	sh_cq_events_resume(&f->events);
	pipe_complete(f->real, &f->cq);
	expect_event(f);
	sh_cq_events_quiesce(&f->events);
	assert_int_equal(pipe_cq_acked(&f->cq), 4);
}

/* libmlx5 arms it, and must know which arming comes next. */
static void provider_hears_of_a_cq_that_it_drives(void **state)
{
	struct fixture *f = *state;
	unsigned int read = pipe_events_read();

	sh_cq_feed_drive(&f->events.own, NULL);
	for (int i = 1; i <= 3; i++) {
		pipe_complete(f->real, &f->cq);
		expect_event(f);
		assert_int_equal(pipe_events_read(), read + i);
	}
	assert_null(atomic_load(&last_read));
	expect_nothing(f);
}

/* However many events one NIC makes, those of another are heard. */
static void no_nic_is_kept_waiting(void **state)
{
	struct fixture *f = *state;

	shadow_make(f);
	for (int i = 0; i < 100; i++) {
		pipe_complete(f->real, &f->cq);
		pipe_complete(f->shadow_channel, &f->shadow);
	}
	for (int i = 0; i < 64; i++)
		expect_event(f);
	assert_in_range(atomic_load(&f->events.own.delivered), 16, 48);
	assert_in_range(atomic_load(&f->feed.delivered), 16, 48);
	for (int i = 64; i < 200; i++)
		expect_event(f);
	expect_nothing(f);
}

static void shadow_event_is_the_applications(void **state)
{
	struct fixture *f = *state;

	shadow_make(f);
	pipe_complete(f->shadow_channel, &f->shadow);
	expect_event(f);
	assert_ptr_equal(atomic_load(&last_read), ring_of(&f->shadow));
	assert_int_equal(atomic_load(&f->feed.delivered), 1);
	assert_int_equal(atomic_load(&f->events.own.delivered), 0);
	pipe_complete(f->real, &f->cq);
	pipe_complete(f->shadow_channel, &f->shadow);
	expect_event(f);
	expect_event(f);
	expect_nothing(f);
}

/* The shadow goes, on a NIC that died, before the application acknowledges. */
static void debt_outlives_the_shadow(void **state)
{
	struct fixture *f = *state;
	struct ibv_cq *cq;
	void *context;

	shadow_make(f);
	pipe_complete(f->shadow_channel, &f->shadow);
	assert_int_equal(shift_get_cq_event(f->facade, &cq, &context), 0);
	shadow_cq_destroy(f, f->shadow_channel, &f->shadow, &f->feed, 1);
	shadow_make(f);
	pipe_complete(f->shadow_channel, &f->shadow);
	expect_event(f);
	assert_int_equal(f->cq.comp_events_completed, 1);
	assert_int_equal(f->events.gone, 1);
	shift_ack_cq_events(cq, 1);
	sh_cq_events_quiesce(&f->events);
}

/* However many CQs a channel has, they have one channel on each other NIC. */
static void shadows_share_a_channel(void **state)
{
	enum { CQS = 40 };
	struct fixture *f = *state;
	struct ibv_comp_channel *channel = NULL;
	struct ibv_cq cqs[CQS], shadows[CQS], *cq;
	struct sh_cq_events events[CQS];
	struct sh_cq_feed feeds[CQS];
	void *context;

	for (int i = 0; i < CQS; i++) {
		pipe_cq_init(&cqs[i], &f->context.ibv, f->real, &cqs[i]);
		assert_int_equal(sh_cq_events_init(&events[i], &cqs[i], f->facade), 0);
		channel = shadow_cq_make(f, &shadows[i], &feeds[i], &events[i]);
		assert_int_equal(channel->refcnt, i + 1);
	}
	for (int i = 0; i < CQS; i++)
		pipe_complete(channel, &shadows[i]);
	for (int i = 0; i < CQS; i++) {
		assert_int_equal(shift_get_cq_event(f->facade, &cq, &context), 0);
		assert_ptr_equal(cq, &cqs[i]);
		assert_ptr_equal(context, &cqs[i]);
		shift_ack_cq_events(cq, 1);
	}
	for (int i = 0; i < CQS; i++) {
		sh_cq_events_quiesce(&events[i]);
		shadow_cq_destroy(f, channel, &shadows[i], &feeds[i], 1);
		pipe_cq_uninit(&cqs[i]);
		sh_cq_events_uninit(&events[i]);
	}
	expect_nothing(f);
}

/* Each incarnation of a NIC has a channel; those that died give their places back. */
static void sources_are_limited_and_used_again(void **state)
{
	struct ibv_comp_channel *channels[SH_COMP_CHANNEL_SOURCES_MAX];
	struct pipe_context nics[SH_COMP_CHANNEL_SOURCES_MAX];
	struct fixture *f = *state;
	int n = SH_COMP_CHANNEL_SOURCES_MAX - 1;

	for (int i = 0; i <= n; i++)
		pipe_context_init(&nics[i]);
	for (int i = 0; i < n; i++) {
		channels[i] = sh_comp_channel_shadow_get(f->facade, &nics[i].ibv);
		assert_non_null(channels[i]);
	}
	assert_null(sh_comp_channel_shadow_get(f->facade, &nics[n].ibv));
	assert_int_equal(errno, ENOSPC);
	sh_comp_channel_shadow_put(f->facade, channels[3]);
	channels[3] = sh_comp_channel_shadow_get(f->facade, &nics[n].ibv);
	assert_non_null(channels[3]);
	for (int i = 0; i < n; i++)
		sh_comp_channel_shadow_put(f->facade, channels[i]);
	for (int i = 0; i <= n; i++)
		pipe_context_uninit(&nics[i]);
}

static void raised_is_one_event(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 3; i++) {
		sh_comp_channel_raise(&f->events);
		sh_comp_channel_raise(&f->events);
		expect_event(f);
		expect_nothing(f);
	}
	/* as the application sees it, and as libibverbs waits for it */
	assert_int_equal(f->cq.comp_events_completed, 3);
	sh_cq_events_quiesce(&f->events);
	assert_int_equal(pipe_cq_acked(&f->cq), 0);
	sh_cq_events_resume(&f->events);
	assert_int_equal(f->cq.comp_events_completed, 3);
}

static void raised_come_in_order(void **state)
{
	struct fixture *f = *state;
	struct ibv_cq cqs[5], *cq;
	struct sh_cq_events events[5];
	void *context;

	for (int i = 0; i < 5; i++) {
		pipe_cq_init(&cqs[i], &f->context.ibv, f->real, NULL);
		assert_int_equal(sh_cq_events_init(&events[i], &cqs[i], f->facade), 0);
		sh_comp_channel_raise(&events[i]);
	}
	for (int i = 0; i < 5; i++) {
		assert_int_equal(shift_get_cq_event(f->facade, &cq, &context), 0);
		assert_ptr_equal(cq, &cqs[i]);
		shift_ack_cq_events(cq, 1);
		sh_cq_events_quiesce(&events[i]);
		pipe_cq_uninit(&cqs[i]);
		sh_cq_events_uninit(&events[i]);
	}
	expect_nothing(f);
}

/* mlx5dv_create_cq: the shell never saw it made; libibverbs itself set cq->channel and refcnt. */
static void unknown_cq_works(void **state)
{
	struct fixture *f = *state;
	struct ibv_cq unknown, *cq;
	void *context;
	int mine;

	pipe_cq_init(&unknown, &f->context.ibv, f->facade, &mine);
	pipe_complete(f->real, &unknown);
	assert_int_equal(shift_get_cq_event(f->facade, &cq, &context), 0);
	assert_ptr_equal(cq, &unknown);
	assert_ptr_equal(context, &mine);
	assert_int_equal(pipe_cq_acked(&unknown), 0);
	shift_ack_cq_events(cq, 1);
	assert_int_equal(pipe_cq_acked(&unknown), 1);
	assert_int_equal(sh_comp_channel_destroy(f->facade), EBUSY);
	pipe_cq_uninit(&unknown);
}

static void quiesce_takes_raised_back(void **state)
{
	struct fixture *f = *state;

	sh_comp_channel_raise(&f->events);
	sh_cq_events_quiesce(&f->events);
	expect_nothing(f);
	sh_cq_events_resume(&f->events);
	assert_ptr_equal(f->cq.channel, f->facade);
	sh_comp_channel_raise(&f->events);
	expect_event(f);
}

static void quiesced_events_are_acked_and_dropped(void **state)
{
	struct fixture *f = *state;
	struct ibv_cq *cq;
	void *context;

	shadow_make(f);
	sh_cq_events_quiesce(&f->events);
	pipe_complete(f->real, &f->cq);
	pipe_complete(f->shadow_channel, &f->shadow);
	fd_nonblock(f->facade->fd);
	assert_int_equal(shift_get_cq_event(f->facade, &cq, &context), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(pipe_cq_acked(&f->cq), 1);
	assert_int_equal(pipe_cq_acked(&f->shadow), 1);
}

static void *quiesce_thread(void *arg)
{
	struct fixture *f = arg;

	sh_cq_events_quiesce(&f->events);
	return NULL;
}

static void quiesce_waits_for_the_application(void **state)
{
	struct fixture *f = *state;
	struct ibv_cq *cq;
	pthread_t thread;
	void *context;

	pipe_complete(f->real, &f->cq);
	assert_int_equal(shift_get_cq_event(f->facade, &cq, &context), 0);
	sh_comp_channel_raise(&f->events);
	assert_int_equal(shift_get_cq_event(f->facade, &cq, &context), 0);
	assert_int_equal(pthread_create(&thread, NULL, quiesce_thread, f), 0);
	shift_ack_cq_events(cq, 1);
	assert_int_equal(pthread_tryjoin_np(thread, NULL), EBUSY);
	shift_ack_cq_events(cq, 1);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static void stock_channel_is_forwarded(void **state)
{
	struct fixture *f = *state;
	struct ibv_comp_channel *stock = pipe_verbs.create_comp_channel(&f->context.ibv);
	struct sh_cq_events events;
	struct ibv_cq made, *cq;
	void *context;

	pipe_cq_init(&made, &f->context.ibv, stock, &f->app_context);
	assert_int_equal(sh_cq_events_init(&events, &made, stock), 0);
	assert_null(events.channel);
	sh_comp_channel_raise(&events);
	pipe_complete(stock, &made);
	assert_int_equal(shift_get_cq_event(stock, &cq, &context), 0);
	assert_ptr_equal(cq, &made);
	shift_ack_cq_events(cq, 1);
	assert_int_equal(pipe_cq_acked(&made), 1);
	sh_cq_events_quiesce(&events);
	sh_cq_events_uninit(&events);
	pipe_cq_uninit(&made);
	assert_int_equal(pipe_verbs.destroy_comp_channel(stock), 0);
}

/* -- devices that go away --------------------------------------------------------------------- */

static void dead_device_without_shadow_is_an_error(void **state)
{
	struct fixture *f = *state;
	struct ibv_cq *cq;
	void *context;

	pipe_device_gone(f->real);
	assert_int_equal(shift_get_cq_event(f->facade, &cq, &context), -1);
	assert_int_equal(errno, EIO);
}

static void dead_device_with_shadow_is_silent(void **state)
{
	struct fixture *f = *state;
	struct ibv_cq *cq;
	void *context;

	shadow_make(f);
	pipe_device_gone(f->real);
	fd_nonblock(f->facade->fd);
	assert_int_equal(shift_get_cq_event(f->facade, &cq, &context), -1);
	assert_int_equal(errno, EAGAIN);
	expect_nothing(f);
	pipe_complete(f->shadow_channel, &f->shadow);
	expect_event(f);
}

/* Its connection waits for a NIC: there is no other source, for now. */
static void dead_device_of_what_waits_is_silent(void **state)
{
	struct fixture *f = *state;
	struct ibv_cq *cq;
	void *context;

	atomic_store(&death_masked, true);
	pipe_device_gone(f->real);
	fd_nonblock(f->facade->fd);
	assert_int_equal(shift_get_cq_event(f->facade, &cq, &context), -1);
	assert_int_equal(errno, EAGAIN);
	expect_nothing(f);
	sh_comp_channel_raise(&f->events);
	expect_event(f);
	shadow_make(f);
	pipe_complete(f->shadow_channel, &f->shadow);
	expect_event(f);
	pipe_device_gone(f->shadow_channel);
	assert_int_equal(shift_get_cq_event(f->facade, &cq, &context), -1);
	assert_int_equal(errno, EAGAIN);
	expect_nothing(f);
	sh_comp_channel_raise(&f->events);
	expect_event(f);
}

/* -- how the fd behaves ----------------------------------------------------------------------- */

static void nested_epoll_sees_it(void **state)
{
	struct fixture *f = *state;
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, f->facade->fd, &event), 0);
	assert_int_equal(epoll_wait(epoll, &event, 1, 0), 0);
	for (int i = 0; i < 3; i++) {
		if (i % 2)
			sh_comp_channel_raise(&f->events);
		else
			pipe_complete(f->real, &f->cq);
		assert_int_equal(epoll_wait(epoll, &event, 1, -1), 1);
		assert_int_equal(epoll_wait(epoll, &event, 1, 0), 0);
		expect_event(f);
	}
	close(epoll);
}

/* Who waits for edges reads one event at each, as a queue tells once on stock. Here two may come before who waits runs. */
static void what_came_together_has_an_edge_each(void **state)
{
	struct fixture *f = *state;
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	shadow_make(f);
	assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, f->facade->fd, &event), 0);
	atomic_store(&several, true);
	for (int i = 0; i < 8; i++) {
		int n = !!(i & 1) + !!(i & 2) + !!(i & 4);

		if (i & 1)
			sh_comp_channel_raise(&f->events);
		if (i & 2)
			pipe_complete(f->real, &f->cq);
		if (i & 4)
			pipe_complete(f->shadow_channel, &f->shadow);
		for (; n; n--) {
			assert_int_equal(epoll_wait(epoll, &event, 1, 10000), 1);
			expect_event(f);
		}
		assert_int_equal(epoll_wait(epoll, &event, 1, 0), 0);
	}
	/* Software's comes first, and what is behind it shows, whatever is known of rings. */
	atomic_store(&several, false);
	sh_comp_channel_raise(&f->events);
	pipe_complete(f->real, &f->cq);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(epoll_wait(epoll, &event, 1, 10000), 1);
		expect_event(f);
	}
	close(epoll);
}

struct reader {
	struct fixture *f;
	int ret, error;
	atomic_bool started, done;
};

static void *reader_thread(void *arg)
{
	struct reader *r = arg;
	struct ibv_cq *cq;
	void *context;

	atomic_store(&r->started, true);
	r->ret = shift_get_cq_event(r->f->facade, &cq, &context);
	r->error = errno;
	if (!r->ret)
		shift_ack_cq_events(cq, 1);
	atomic_store(&r->done, true);
	return NULL;
}

static pthread_t reader_start(struct reader *r)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, reader_thread, r), 0);
	while (!atomic_load(&r->started))
		sched_yield();
	return thread;
}

static void signal_ends_the_wait(void **state)
{
	struct reader r = { .f = *state };
	pthread_t thread;

	signal_count_install(0);
	thread = reader_start(&r);
	while (!atomic_load(&r.done)) {
		pthread_kill(thread, SIGUSR1);
		usleep(1000);
	}
	pthread_join(thread, NULL);
	assert_int_equal(r.ret, -1);
	assert_int_equal(r.error, EINTR);
	signal(SIGUSR1, SIG_DFL);
}

static void restarting_signal_does_not(void **state)
{
	struct reader r = { .f = *state };
	unsigned int before = signal_count();
	pthread_t thread;

	signal_count_install(SA_RESTART);
	thread = reader_start(&r);
	while (signal_count() < before + 5) {
		pthread_kill(thread, SIGUSR1);
		usleep(1000);
	}
	sh_comp_channel_raise(&r.f->events);
	pthread_join(thread, NULL);
	assert_int_equal(r.ret, 0);
	signal(SIGUSR1, SIG_DFL);
}

static void cancelled_reader_leaves_no_lock(void **state)
{
	struct reader r = { .f = *state };
	pthread_t thread;
	void *result;

	if (CANCEL_UNTESTABLE)
		skip();
	thread = reader_start(&r);
	pthread_cancel(thread);
	pthread_join(thread, &result);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	sh_comp_channel_raise(&r.f->events);
	expect_event(r.f);
}

/* -- many threads ----------------------------------------------------------------------------- */

#define LOAD_CQS     4
#define LOAD_READERS 4
#define LOAD_ROUNDS  2000

/* The last of cqs[] ends the readers. */
struct load {
	struct fixture *f;
	struct ibv_cq cqs[LOAD_CQS + 1];
	struct sh_cq_events events[LOAD_CQS + 1];
	atomic_uint seen[LOAD_CQS + 1];
};

static void *load_reader(void *arg)
{
	struct load *load = arg;
	struct ibv_cq *cq;
	void *context;

	for (;;) {
		if (shift_get_cq_event(load->f->facade, &cq, &context))
			abort();
		atomic_fetch_add(&load->seen[cq - load->cqs], 1);
		shift_ack_cq_events(cq, 1);
		if (cq == &load->cqs[LOAD_CQS]) {
			sh_comp_channel_raise(&load->events[LOAD_CQS]);
			return NULL;
		}
	}
}

struct load_writer {
	struct load *load;
	int index;
};

/* The even CQs get events of software, each when the one before was seen; the odd, real ones. */
static void *load_writer(void *arg)
{
	struct load_writer *w = arg;
	struct load *load = w->load;

	for (unsigned int i = 0; i < LOAD_ROUNDS; i++) {
		if (w->index % 2)
			pipe_complete(load->f->real, &load->cqs[w->index]);
		else
			sh_comp_channel_raise(&load->events[w->index]);
		while (!(w->index % 2) && atomic_load(&load->seen[w->index]) <= i)
			sched_yield();
	}
	return NULL;
}

static void load_cqs_make(struct load *load)
{
	for (int i = 0; i <= LOAD_CQS; i++) {
		pipe_cq_init(&load->cqs[i], &load->f->context.ibv, load->f->real, NULL);
		assert_int_equal(
			sh_cq_events_init(&load->events[i], &load->cqs[i], load->f->facade), 0);
	}
}

static void load_cqs_check(struct load *load)
{
	for (int i = 0; i <= LOAD_CQS; i++) {
		sh_cq_events_quiesce(&load->events[i]);
		if (i < LOAD_CQS)
			assert_int_equal(atomic_load(&load->seen[i]), LOAD_ROUNDS);
		assert_int_equal(pipe_cq_acked(&load->cqs[i]), i % 2 ? LOAD_ROUNDS : 0);
		pipe_cq_uninit(&load->cqs[i]);
		sh_cq_events_uninit(&load->events[i]);
	}
}

static void every_event_once_under_load(void **state)
{
	static struct load load;
	struct load_writer writers[LOAD_CQS];
	pthread_t readers[LOAD_READERS], threads[LOAD_CQS];

	load.f = *state;
	load_cqs_make(&load);
	for (int i = 0; i < LOAD_READERS; i++)
		assert_int_equal(pthread_create(&readers[i], NULL, load_reader, &load), 0);
	for (int i = 0; i < LOAD_CQS; i++) {
		writers[i] = (struct load_writer){ &load, i };
		assert_int_equal(pthread_create(&threads[i], NULL, load_writer, &writers[i]), 0);
	}
	for (int i = 0; i < LOAD_CQS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < LOAD_CQS; i++)
		while (atomic_load(&load.seen[i]) < LOAD_ROUNDS)
			sched_yield();
	sh_comp_channel_raise(&load.events[LOAD_CQS]);
	for (int i = 0; i < LOAD_READERS; i++)
		pthread_join(readers[i], NULL);
	load_cqs_check(&load);
	expect_nothing(load.f);
}

/* -- while others read ------------------------------------------------------------------------ */

enum {
	CHURN_ROUNDS = 300,
	CHURN_EVENTS = 20,
};

/* The fixture's CQ ends the readers; events of others are counted. */
struct churn {
	struct fixture *f;
	struct ibv_cq cq;
	struct sh_cq_events events;
	atomic_uint seen;
	unsigned int handed_out; /* of the CQ, in the end */
};

static void *churn_reader(void *arg)
{
	struct churn *churn = arg;
	struct ibv_cq *cq;
	void *context;

	for (;;) {
		if (shift_get_cq_event(churn->f->facade, &cq, &context))
			abort();
		if (cq == &churn->f->cq) {
			shift_ack_cq_events(cq, 1);
			sh_comp_channel_raise(&churn->f->events);
			return NULL;
		}
		atomic_fetch_add(&churn->seen, 1);
		shift_ack_cq_events(cq, 1);
	}
}

static void churn_run(struct churn *churn, void (*round)(struct churn *churn))
{
	struct fixture *f = churn->f;
	pthread_t readers[LOAD_READERS];

	pipe_cq_init(&churn->cq, &f->context.ibv, f->real, NULL);
	assert_int_equal(sh_cq_events_init(&churn->events, &churn->cq, f->facade), 0);
	for (int i = 0; i < LOAD_READERS; i++)
		assert_int_equal(pthread_create(&readers[i], NULL, churn_reader, churn), 0);
	for (int i = 0; i < CHURN_ROUNDS; i++)
		round(churn);
	sh_comp_channel_raise(&f->events);
	for (int i = 0; i < LOAD_READERS; i++)
		pthread_join(readers[i], NULL);
	sh_cq_events_quiesce(&churn->events);
	churn->handed_out = churn->events.gone + churn->events.soft;
	pipe_cq_uninit(&churn->cq);
	sh_cq_events_uninit(&churn->events);
}

static void round_of_a_shadow(struct churn *churn)
{
	struct ibv_comp_channel *channel;
	struct sh_cq_feed feed;
	struct ibv_cq shadow;

	channel = shadow_cq_make(churn->f, &shadow, &feed, &churn->events);
	for (int i = 0; i < CHURN_EVENTS; i++)
		pipe_complete(channel, &shadow);
	sh_comp_channel_raise(&churn->events);
	shadow_cq_destroy(churn->f, channel, &shadow, &feed, CHURN_EVENTS);
}

/* Moves: shadows come, make events, and go, before all of those are read. */
static void shadows_come_and_go_while_others_read(void **state)
{
	struct churn churn = { .f = *state };

	churn_run(&churn, round_of_a_shadow);
	assert_int_equal(atomic_load(&churn.seen), churn.handed_out);
}

/* Driven or not, and with events that nobody has read when it goes. */
static void round_of_a_cq(struct churn *churn)
{
	struct sh_cq_events *events = malloc(sizeof(*events));
	struct ibv_cq *cq = malloc(sizeof(*cq));

	assert_true(events && cq);
	pipe_cq_init(cq, &churn->f->context.ibv, churn->f->real, NULL);
	assert_int_equal(sh_cq_events_init(events, cq, churn->f->facade), 0);
	if (cq->handle % 4)
		sh_cq_feed_drive(&events->own, ring_of(cq));
	for (int i = 0; i < CHURN_EVENTS; i++)
		pipe_complete(churn->f->real, cq);
	sh_cq_events_quiesce(events);
	pipe_cq_wait(cq, CHURN_EVENTS);
	pipe_cq_uninit(cq);
	sh_cq_events_uninit(events);
	free(events);
	free(cq);
}

static void cqs_come_and_go_while_others_read(void **state)
{
	struct churn churn = { .f = *state };

	churn_run(&churn, round_of_a_cq);
	assert_in_range(atomic_load(&churn.seen), 0, CHURN_ROUNDS * CHURN_EVENTS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(facade_is_told_apart),
		TEST(libibverbs_is_told_of_all_at_once),
		TEST(provider_hears_of_a_cq_that_it_drives),
		TEST(no_nic_is_kept_waiting),
		TEST(shadow_event_is_the_applications),
		TEST(debt_outlives_the_shadow),
		TEST(shadows_share_a_channel),
		TEST(sources_are_limited_and_used_again),
		TEST(raised_is_one_event),
		TEST(raised_come_in_order),
		TEST(unknown_cq_works),
		TEST(quiesce_takes_raised_back),
		TEST(quiesced_events_are_acked_and_dropped),
		TEST(quiesce_waits_for_the_application),
		TEST(stock_channel_is_forwarded),
		TEST(dead_device_without_shadow_is_an_error),
		TEST(dead_device_with_shadow_is_silent),
		TEST(dead_device_of_what_waits_is_silent),
		TEST(nested_epoll_sees_it),
		TEST(what_came_together_has_an_edge_each),
		TEST(signal_ends_the_wait),
		TEST(restarting_signal_does_not),
		TEST(cancelled_reader_leaves_no_lock),
		TEST(every_event_once_under_load),
		TEST(shadows_come_and_go_while_others_read),
		TEST(cqs_come_and_go_while_others_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
