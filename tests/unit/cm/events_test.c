/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What a program gets of librdmacm's events, over a librdmacm that is made up. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "shiftlib/base/util.h"
#include "shiftlib/cm/events.h"
#include "tests/lib/random.h"
#include "tests/unit/cm/fake_rdmacm.h"

#define PATIENCE_NS (250 * SH_NS_PER_MS)
#define LATER	    (sh_now_ns() + 10 * PATIENCE_NS)
#define QPS	    8

/* ---- the rest of the shell ------------------------------------------------------------------ */

static pthread_mutex_t shell = PTHREAD_MUTEX_INITIALIZER;
static struct ibv_qp qps[QPS];
static enum sh_cm_standing standings[QPS];
static bool faults[QPS]; /* of the path that the kernel knows */
static uint64_t heard_at, asked_until, woken_at;

static void shell_lock(void)
{
	pthread_mutex_lock(&shell);
}

static void shell_unlock(void)
{
	pthread_mutex_unlock(&shell);
}

static bool shell_knows(const struct ibv_qp *qp)
{
	return qp >= qps && qp < qps + QPS;
}

static enum sh_cm_standing shell_standing(const struct ibv_qp *qp)
{
	return standings[qp - qps];
}

static void shell_doubt(const struct ibv_qp *qp, uint64_t until)
{
	asked_until = until;
}

static uint64_t shell_heard_at(const struct ibv_qp *qp)
{
	return heard_at;
}

static void shell_wake_at(uint64_t at)
{
	woken_at = at;
}

static bool shell_fault(const struct ibv_qp *qp)
{
	return faults[qp - qps];
}

static bool shell_readable(const struct rdma_event_channel *c)
{
	return fake_readable((struct rdma_event_channel *)c);
}

static atomic_bool pokes_wait;

/* In the thread that wakes channels. */
static void shell_thread_inside(void)
{
	while (atomic_load(&pokes_wait))
		usleep(100);
}

static void shell_run(uint64_t now)
{
	shell_lock();
	sh_cm_events_run(now);
	shell_unlock();
}

/* The peer has said CLOSED. */
static void shell_ended(int i)
{
	shell_lock();
	standings[i] = SH_CM_ENDED;
	sh_cm_events_ended(&qps[i]);
	shell_unlock();
}

/* ---- the program ---------------------------------------------------------------------------- */

static struct rdma_event_channel *channel;
static struct rdma_cm_id *ids[QPS];

/* The type of the next event, acknowledged; -1: there is none. */
static int next_event(struct rdma_cm_id **id)
{
	struct rdma_cm_event *event;
	int type;

	if (sh_cm_events_get(&fake_real, channel, &event))
		return errno == EAGAIN ? -1 : -2;
	type = event->event;
	if (id)
		*id = event->id;
	assert_int_equal(event->status, 0);
	assert_int_equal(sh_cm_events_ack(&fake_real, event), 0);
	return type;
}

/* A made-up event comes when the channel wakes; and it does. */
static int awaited_event(void)
{
	while (!fake_readable(channel))
		sched_yield();
	return next_event(NULL);
}

static void connect_id(int i)
{
	ids[i] = fake_id_make(channel, &qps[i]);
	standings[i] = SH_CM_ALIVE;
	fake_raise(ids[i], RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(next_event(NULL), RDMA_CM_EVENT_ESTABLISHED);
}

static void destroy_id(int i)
{
	assert_int_equal(sh_cm_events_destroy(&fake_real, ids[i]), 0);
	ids[i] = NULL;
}

static int start(void **state)
{
	static const struct sh_cm_oracle oracle = {
		.lock = shell_lock,
		.unlock = shell_unlock,
		.knows = shell_knows,
		.standing = shell_standing,
		.doubt = shell_doubt,
		.heard_at = shell_heard_at,
		.fault = shell_fault,
		.wake_at = shell_wake_at,
		.thread_inside = shell_thread_inside,
		.readable = shell_readable,
		.patience_ns = PATIENCE_NS,
	};
	static bool begun;

	if (!begun)
		sh_cm_events_reset(&oracle);
	begun = true;
	heard_at = asked_until = woken_at = 0;
	memset(faults, true, sizeof(faults));
	channel = fake_channel_make(false);
	connect_id(0);
	return 0;
}

static int stop(void **state)
{
	for (int i = 0; i < QPS; i++)
		if (ids[i])
			destroy_id(i);
	/* pokes that nobody needs any more */
	while (next_event(NULL) != -1)
		;
	assert_int_equal(atomic_load(&fake_ids), 0);
	fake_channel_free(channel);
	return 0;
}

/* ---- one at a time -------------------------------------------------------------------------- */

static void masked_faults_are_not_told(void **state)
{
	fake_raise(ids[0], RDMA_CM_EVENT_ADDR_CHANGE);
	fake_raise(ids[0], RDMA_CM_EVENT_UNREACHABLE);
	fake_raise(ids[0], RDMA_CM_EVENT_DEVICE_REMOVAL);
	assert_int_equal(next_event(NULL), -1);
}

static void those_that_are_not_masked_are(void **state)
{
	standings[0] = SH_CM_FOREIGN;
	fake_raise(ids[0], RDMA_CM_EVENT_ADDR_CHANGE);
	fake_raise(ids[0], RDMA_CM_EVENT_DISCONNECTED);
	fake_raise(ids[0], RDMA_CM_EVENT_TIMEWAIT_EXIT);
	assert_int_equal(next_event(NULL), RDMA_CM_EVENT_ADDR_CHANGE);
	assert_int_equal(next_event(NULL), RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(next_event(NULL), RDMA_CM_EVENT_TIMEWAIT_EXIT);
}

/* An event that passes behind one that is taken is there at once. */
static void what_is_behind_comes(void **state)
{
	struct rdma_cm_id *listening = fake_id_make(channel, NULL), *got;

	fake_raise(ids[0], RDMA_CM_EVENT_ADDR_CHANGE);
	fake_raise(listening, RDMA_CM_EVENT_DEVICE_REMOVAL);
	assert_int_equal(next_event(&got), RDMA_CM_EVENT_DEVICE_REMOVAL);
	assert_ptr_equal(got, listening);
	assert_int_equal(sh_cm_events_destroy(&fake_real, listening), 0);
}

static void the_peer_closes(void **state)
{
	shell_ended(0);
	assert_int_equal(awaited_event(), RDMA_CM_EVENT_DISCONNECTED);
	/* and the kernel's word of it is old news */
	fake_raise(ids[0], RDMA_CM_EVENT_DISCONNECTED);
	fake_raise(ids[0], RDMA_CM_EVENT_TIMEWAIT_EXIT);
	assert_int_equal(next_event(NULL), -1);
}

static void the_peer_closes_first(void **state)
{
	struct rdma_cm_id *id = ids[1] = fake_id_make(channel, &qps[1]);

	fake_raise(id, RDMA_CM_EVENT_ESTABLISHED);
	shell_ended(1);
	assert_int_equal(next_event(NULL), RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(awaited_event(), RDMA_CM_EVENT_DISCONNECTED);
}

/* The peer's kernel says goodbye for a NIC that went: nothing is told, though the id is none any more. */
static void the_peer_has_lost_a_nic(void **state)
{
	fake_raise(ids[0], RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(next_event(NULL), -1);
	assert_true(asked_until > sh_now_ns());
	assert_true(woken_at == asked_until);
	heard_at = LATER;
	shell_run(woken_at);
	fake_raise(ids[0], RDMA_CM_EVENT_TIMEWAIT_EXIT);
	assert_int_equal(next_event(NULL), -1);
	/* later it ends after all */
	shell_ended(0);
	assert_int_equal(awaited_event(), RDMA_CM_EVENT_DISCONNECTED);
}

static void not_before_its_time(void **state)
{
	fake_raise(ids[0], RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(next_event(NULL), -1);
	shell_run(woken_at - 1);
	assert_int_equal(next_event(NULL), -1);
	shell_run(woken_at);
	assert_int_equal(awaited_event(), RDMA_CM_EVENT_DISCONNECTED);
}

/* What was heard before, or in the moment of the goodbye, shows nothing. */
static void the_peer_has_died(void **state)
{
	fake_raise(ids[0], RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(next_event(NULL), -1);
	heard_at = sh_now_ns();
	shell_run(LATER);
	assert_int_equal(awaited_event(), RDMA_CM_EVENT_DISCONNECTED);
	shell_run(LATER);
	assert_int_equal(next_event(NULL), -1);
}

static void the_peer_says_so_while_it_is_asked(void **state)
{
	fake_raise(ids[0], RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(next_event(NULL), -1);
	shell_ended(0);
	assert_int_equal(awaited_event(), RDMA_CM_EVENT_DISCONNECTED);
	shell_run(LATER);
	assert_int_equal(next_event(NULL), -1);
}

static void leaving_by_a_path_that_works(void **state)
{
	assert_false(sh_cm_events_disconnect(ids[0]));
	standings[0] = SH_CM_ENDED;
	fake_raise(ids[0], RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(next_event(NULL), RDMA_CM_EVENT_DISCONNECTED);
	shell_run(LATER);
	fake_raise(ids[0], RDMA_CM_EVENT_TIMEWAIT_EXIT);
	assert_int_equal(next_event(NULL), RDMA_CM_EVENT_TIMEWAIT_EXIT);
}

static void leaving_by_a_dead_path(void **state)
{
	assert_false(sh_cm_events_disconnect(ids[0]));
	standings[0] = SH_CM_ENDED;
	assert_int_equal(next_event(NULL), -1);
	shell_run(LATER);
	assert_int_equal(awaited_event(), RDMA_CM_EVENT_DISCONNECTED);
	fake_raise(ids[0], RDMA_CM_EVENT_DISCONNECTED); /* a minute later */
	assert_int_equal(next_event(NULL), -1);
}

static void leaving_behind_a_removal(void **state)
{
	fake_raise(ids[0], RDMA_CM_EVENT_DEVICE_REMOVAL);
	assert_int_equal(next_event(NULL), -1);
	assert_true(sh_cm_events_disconnect(ids[0]));
	shell_run(sh_now_ns());
	assert_int_equal(awaited_event(), RDMA_CM_EVENT_DISCONNECTED);
}

static void leaving_behind_the_peer(void **state)
{
	shell_ended(0);
	assert_int_equal(awaited_event(), RDMA_CM_EVENT_DISCONNECTED);
	assert_false(sh_cm_events_disconnect(ids[0])); /* the kernel answers its peer */
	shell_run(LATER);
	assert_int_equal(next_event(NULL), -1);
}

/* ---- one at a time, without a fault ---------------------------------------------------------- */

/* The kernel says it by itself: nothing is made up, and nothing is kept. */
static void well_the_peer_closes(void **state)
{
	faults[0] = false;
	shell_ended(0);
	assert_int_equal(next_event(NULL), -1);
	fake_raise(ids[0], RDMA_CM_EVENT_DISCONNECTED);
	fake_raise(ids[0], RDMA_CM_EVENT_TIMEWAIT_EXIT);
	assert_int_equal(next_event(NULL), RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(next_event(NULL), RDMA_CM_EVENT_TIMEWAIT_EXIT);
	shell_run(LATER);
	assert_int_equal(next_event(NULL), -1);
}

/* The kernel is quicker than SHIFT: its word is kept until the peer's is there. */
static void well_the_kernel_is_first(void **state)
{
	faults[0] = false;
	fake_raise(ids[0], RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(next_event(NULL), -1);
	shell_ended(0);
	assert_int_equal(awaited_event(), RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(next_event(NULL), -1);
}

/* A peer that lives has said goodbye, and nothing has failed: it meant it. */
static void well_the_peer_says_goodbye(void **state)
{
	faults[0] = false;
	fake_raise(ids[0], RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(next_event(NULL), -1);
	heard_at = LATER;
	shell_run(woken_at);
	assert_int_equal(awaited_event(), RDMA_CM_EVENT_DISCONNECTED);
}

/* The kernel's word is on its way when the path dies. */
static void well_and_then_not(void **state)
{
	faults[0] = false;
	shell_ended(0);
	shell_run(woken_at);
	assert_int_equal(next_event(NULL), -1);
	faults[0] = true;
	shell_run(woken_at);
	assert_int_equal(awaited_event(), RDMA_CM_EVENT_DISCONNECTED);
}

/* A peer that destroys its queue pair, and no more: on stock nothing is told. */
static void well_and_nothing_comes(void **state)
{
	uint64_t next = 1;
	int n;

	faults[0] = false;
	shell_ended(0);
	for (n = 0; next && n < 100; n++) {
		shell_lock();
		next = sh_cm_events_run(woken_at);
		shell_unlock();
	}
	assert_in_range(n, 2, 99);
	assert_int_equal(next_event(NULL), -1);
}

static void well_it_leaves(void **state)
{
	faults[0] = false;
	assert_false(sh_cm_events_disconnect(ids[0]));
	standings[0] = SH_CM_ENDED;
	for (int n = 0; n < 100; n++)
		shell_run(woken_at);
	assert_int_equal(next_event(NULL), -1);
	fake_raise(ids[0], RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(next_event(NULL), RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(next_event(NULL), -1);
}

/* It has not failed when the kernel says it; whether it does in the time of patience, counts. */
static void a_path_is_told_of(void **state)
{
	static const enum rdma_cm_event_type types[] = { RDMA_CM_EVENT_ADDR_CHANGE,
							 RDMA_CM_EVENT_UNREACHABLE };

	for (int i = 0; i < 4; i++) {
		faults[0] = false;
		fake_raise(ids[0], types[i / 2]);
		assert_int_equal(next_event(NULL), -1);
		heard_at = LATER;
		faults[0] = i % 2;
		shell_run(woken_at);
		if (i % 2)
			assert_int_equal(next_event(NULL), -1);
		else
			assert_int_equal(awaited_event(), types[i / 2]);
	}
	faults[0] = true; /* and it goes on */
	shell_ended(0);
	assert_int_equal(awaited_event(), RDMA_CM_EVENT_DISCONNECTED);
}

/* Its event goes with an id, fetched or not. */
static void an_id_goes_first(void **state)
{
	shell_ended(0);
	destroy_id(0);
	assert_int_equal(next_event(NULL), -1);
}

/* The kernel's word of an end that was told comes while the id is destroyed by another thread. */
static int destroy_behind_an_event(struct rdma_cm_id *id)
{
	fake_raise(id, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(next_event(NULL), -1);
	return fake_real.destroy_id(id);
}

static void an_end_is_told_once(void **state)
{
	struct shift_cm_real late = fake_real;

	late.destroy_id = destroy_behind_an_event;
	shell_ended(0);
	assert_int_equal(awaited_event(), RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(sh_cm_events_destroy(&late, ids[0]), 0);
	connect_id(0);
	fake_raise(ids[0], RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(next_event(NULL), -1); /* a new one, maybe at its address */
	shell_ended(0);
	assert_int_equal(awaited_event(), RDMA_CM_EVENT_DISCONNECTED);
}

/* What is kept behind an end that was told brings no second one as its program leaves. */
static void an_end_is_told_once_to_who_leaves(void **state)
{
	fake_raise(ids[0], RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(next_event(NULL), -1);
	faults[0] = false;
	shell_run(LATER);
	assert_int_equal(awaited_event(), RDMA_CM_EVENT_DISCONNECTED);
	fake_raise(ids[0], RDMA_CM_EVENT_ADDR_CHANGE);
	assert_int_equal(next_event(NULL), -1);
	assert_false(sh_cm_events_disconnect(ids[0]));
	shell_run(LATER);
	assert_int_equal(awaited_event(), RDMA_CM_EVENT_ADDR_CHANGE);
	shell_ended(0);
	connect_id(1);
	shell_ended(1); /* its event is made up last */
	assert_int_equal(awaited_event(), RDMA_CM_EVENT_DISCONNECTED);
	destroy_id(1);
	assert_int_equal(next_event(NULL), -1);
}

static void a_queue_pair_goes_first(void **state)
{
	fake_raise(ids[0], RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(next_event(NULL), -1);
	shell_lock();
	sh_cm_events_qp_gone(&qps[0]);
	shell_unlock();
	heard_at = LATER;
	shell_run(LATER); /* nobody carries it any more */
	assert_int_equal(awaited_event(), RDMA_CM_EVENT_DISCONNECTED);
	fake_raise(ids[0], RDMA_CM_EVENT_DEVICE_REMOVAL);
	assert_int_equal(next_event(NULL), RDMA_CM_EVENT_DEVICE_REMOVAL);
}

/* No RDMA device is left: nothing wakes the channel, and the event waits for who looks. */
static void nothing_can_wake(void **state)
{
	int type;

	atomic_store(&fake_no_device, true);
	shell_ended(0);
	while ((type = next_event(NULL)) == -1)
		sched_yield();
	assert_int_equal(type, RDMA_CM_EVENT_DISCONNECTED);
	atomic_store(&fake_no_device, false);
}

/* An event that nobody has fetched goes along with its id; the old channel has woken for nothing. */
static void an_id_migrates(void **state)
{
	struct rdma_event_channel *old = channel, *new = fake_channel_make(false);

	shell_ended(0);
	assert_int_equal(sh_cm_events_migrate(&fake_real, ids[0], new), 0);
	assert_int_equal(next_event(NULL), -1);
	channel = new;
	assert_int_equal(awaited_event(), RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(next_event(NULL), -1);
	assert_int_equal(sh_cm_events_migrate(&fake_real, ids[0], old), 0);
	channel = old;
	assert_int_equal(next_event(NULL), -1);
	fake_channel_free(new);
}

/* ---- several threads ------------------------------------------------------------------------ */

static void *getter(void *arg)
{
	struct rdma_cm_event *event;
	int *type = arg;

	*type = -1;
	if (!sh_cm_events_get(&fake_real, channel, &event)) {
		*type = event->event;
		sh_cm_events_ack(&fake_real, event);
	}
	return NULL;
}

/* It sleeps in the kernel, and wakes for an event that the kernel knows nothing of. */
static void who_waits_is_woken(void **state)
{
	struct rdma_event_channel *polled = channel;
	pthread_t thread;
	int type;

	connect_id(1);
	channel = fake_channel_make(true);
	ids[1]->channel = channel; /* migrated */
	assert_int_equal(pthread_create(&thread, NULL, getter, &type), 0);
	while (!fake_waited(channel))
		sched_yield();
	fake_raise(ids[1], RDMA_CM_EVENT_ADDR_CHANGE);
	while (!fake_settled(ids[1], 2)) /* taken: now it sleeps, or is about to */
		sched_yield();
	shell_ended(1);
	pthread_join(thread, NULL);
	assert_int_equal(type, RDMA_CM_EVENT_DISCONNECTED);
	destroy_id(1);
	fake_channel_free(channel);
	channel = polled;
}

static void *polling_getter(void *arg)
{
	struct rdma_cm_event *event;

	while (!fake_readable(channel))
		sched_yield();
	*(int *)arg = sh_cm_events_get(&fake_real, channel, &event) ? errno : 0;
	return NULL;
}

/* It has asked whether there is something, as librsocket's thread does: it must not sleep for what was taken. */
static void who_polls_comes_back(void **state)
{
	struct rdma_event_channel *polled = channel;
	pthread_t thread;
	int error = 0;

	connect_id(1);
	channel = fake_channel_make(true);
	ids[1]->channel = channel; /* migrated */
	assert_int_equal(pthread_create(&thread, NULL, polling_getter, &error), 0);
	fake_raise(ids[1], RDMA_CM_EVENT_ADDR_CHANGE);
	pthread_join(thread, NULL);
	assert_int_equal(error, EAGAIN);
	destroy_id(1);
	fake_channel_free(channel);
	channel = polled;
}

static void *doomed_destroyer(void *arg)
{
	pthread_cancel(pthread_self());
	destroy_id(0);
	return arg;
}

/* It waits for the thread that wakes the channel, and must not end there, with the lock. */
static void who_is_cancelled_comes_out(void **state)
{
	void *result = NULL;
	pthread_t thread;
	bool ended = false;

	atomic_store(&pokes_wait, true);
	shell_ended(0);
	assert_int_equal(pthread_create(&thread, NULL, doomed_destroyer, NULL), 0);
	for (int i = 0; i < 100 && !ended; i++) { /* as it would here */
		usleep(1000);
		ended = !pthread_tryjoin_np(thread, &result);
	}
	atomic_store(&pokes_wait, false);
	if (!ended)
		pthread_join(thread, &result);
	assert_ptr_not_equal(result, PTHREAD_CANCELED);
}

static uint64_t random_state;
static pthread_mutex_t random_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool over;

static uint32_t pick(uint32_t n)
{
	uint32_t value;

	pthread_mutex_lock(&random_lock);
	value = (uint32_t)(random_next(&random_state) % n);
	pthread_mutex_unlock(&random_lock);
	return value;
}

/* The kernel and the shell, against whatever ids there are; those that go wait for this lock. */
static pthread_rwlock_t alive = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

static void *troubles(void *arg)
{
	static const enum rdma_cm_event_type types[] = {
		RDMA_CM_EVENT_ADDR_CHANGE,  RDMA_CM_EVENT_UNREACHABLE,
		RDMA_CM_EVENT_DISCONNECTED, RDMA_CM_EVENT_DEVICE_REMOVAL,
		RDMA_CM_EVENT_DISCONNECTED, RDMA_CM_EVENT_TIMEWAIT_EXIT,
	};

	while (!atomic_load(&over)) {
		int i = (int)pick(QPS);

		pthread_rwlock_rdlock(&alive);
		if (ids[i] && pick(2))
			fake_raise(ids[i], types[pick(6)]);
		else if (ids[i])
			shell_ended(i);
		pthread_rwlock_unlock(&alive);
		shell_run(pick(2) ? LATER : sh_now_ns());
	}
	return NULL;
}

static bool renew(int i)
{
	bool masked = pick(4);

	pthread_rwlock_wrlock(&alive);
	if (ids[i])
		destroy_id(i);
	ids[i] = fake_id_make(channel, &qps[i]);
	shell_lock();
	standings[i] = masked ? SH_CM_ALIVE : SH_CM_FOREIGN;
	faults[i] = pick(2);
	shell_unlock();
	fake_raise(ids[i], RDMA_CM_EVENT_ESTABLISHED);
	pthread_rwlock_unlock(&alive);
	return masked;
}

/* Only connections that SHIFT masks are told of their ends once; the kernel may repeat itself of others. */
static void take_one(unsigned *told, const bool *masked)
{
	struct rdma_cm_event *event;
	int i;

	if (sh_cm_events_get(&fake_real, channel, &event))
		return;
	for (i = 0; i < QPS && ids[i] != event->id; i++)
		;
	assert_in_range(i, 0, QPS - 1);
	assert_ptr_equal(event->id->channel, channel);
	if (event->event == RDMA_CM_EVENT_DISCONNECTED && masked[i])
		assert_int_equal(++told[i], 1);
	assert_int_equal(sh_cm_events_ack(&fake_real, event), 0);
}

static void migrate(int i, struct rdma_event_channel *to)
{
	pthread_rwlock_wrlock(&alive);
	assert_int_equal(sh_cm_events_migrate(&fake_real, ids[i], to), 0);
	pthread_rwlock_unlock(&alive);
}

/* Behind it, no job and no event has anything to do with the second channel. */
static void leave_channel(struct rdma_event_channel **both)
{
	for (int i = 0; i < QPS; i++)
		if (ids[i])
			destroy_id(i);
	channel = both[1];
	while (next_event(NULL) != -1)
		;
	fake_channel_free(both[1]);
	channel = both[0];
}

static void at_random(void **state)
{
	struct rdma_event_channel *both[2] = { channel, fake_channel_make(false) };
	unsigned told[QPS] = { 0 };
	bool masked[QPS] = { false };
	pthread_t threads[2];

	random_state = random_seed("events_test");
	atomic_store(&over, false);
	for (int t = 0; t < 2; t++)
		assert_int_equal(pthread_create(&threads[t], NULL, troubles, NULL), 0);
	for (int n = 0; n < 20000; n++) {
		int i = (int)pick(QPS);

		channel = both[pick(2)];
		if (!pick(8)) {
			masked[i] = renew(i);
			told[i] = 0;
		} else if (ids[i] && !pick(16)) {
			sh_cm_events_disconnect(ids[i]);
		} else if (ids[i] && !pick(8)) {
			migrate(i, channel);
		} else {
			take_one(told, masked);
		}
	}
	atomic_store(&over, true);
	for (int t = 0; t < 2; t++)
		pthread_join(threads[t], NULL);
	leave_channel(both);
}

#define T(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(masked_faults_are_not_told),
		T(those_that_are_not_masked_are),
		T(what_is_behind_comes),
		T(the_peer_closes),
		T(the_peer_closes_first),
		T(the_peer_has_lost_a_nic),
		T(not_before_its_time),
		T(the_peer_has_died),
		T(the_peer_says_so_while_it_is_asked),
		T(leaving_by_a_path_that_works),
		T(leaving_by_a_dead_path),
		T(leaving_behind_a_removal),
		T(leaving_behind_the_peer),
		T(well_the_peer_closes),
		T(well_the_kernel_is_first),
		T(well_the_peer_says_goodbye),
		T(well_and_then_not),
		T(well_and_nothing_comes),
		T(well_it_leaves),
		T(a_path_is_told_of),
		T(an_id_goes_first),
		T(an_end_is_told_once),
		T(an_end_is_told_once_to_who_leaves),
		T(a_queue_pair_goes_first),
		T(nothing_can_wake),
		T(an_id_migrates),
		T(who_waits_is_woken),
		T(who_polls_comes_back),
		T(who_is_cancelled_comes_out),
		T(at_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
