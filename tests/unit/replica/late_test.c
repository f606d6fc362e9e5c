/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Shadows that are deregistered behind the application's back: each once, none while a peer may send to its NIC, and whoever
 * lets it send there waits for those that are left.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <cmocka.h>

#include "shiftlib/loop/loop.h"
#include "shiftlib/replica/late.h"
#include "tests/lib/random.h"
#include "tests/unit/replica/rig.h"

enum { SOME = 200, FAR = 2, ROUNDS = 4000, MOVES = 400 };

static struct rig_mr *left[SOME];

/* As a verb that deregisters, lock held: it has taken the shadow from its region. */
static struct rig_mr *leave(struct sh_pd *pd, uint8_t path)
{
	struct rig_mr *mr = rig_mr_new(path);

	sh_nic_hold(rig_ctx.path[path], 1);
	assert_true(sh_late_defer(pd, path, &mr->mr, 1));
	return mr;
}

static void leave_some(uint8_t path)
{
	for (uint32_t i = 0; i < SOME; i++)
		left[i] = leave(&rig_pds[i % RIG_PDS], path);
}

static void each_is_gone_once(void)
{
	for (uint32_t i = 0; i < SOME; i++) {
		assert_int_equal(atomic_load(&left[i]->gone), 1);
		free(left[i]);
	}
}

/* Lock held; as the background thread does, at its alarm. */
static void alarm_rings(void)
{
	uint64_t at = sh_late_module.next_timer();

	if (at)
		sh_late_module.run(at);
}

static void wait_for_all(void)
{
	for (uint32_t i = 0; i < RIG_PDS; i++)
		sh_wait_idle(&rig_pds[i].busy);
}

/* Lock held, given up meanwhile: as a move does. */
static void wait_until_over(uint8_t path)
{
	while (!sh_late_over(&rig_ctx, path))
		sh_wait_some(SH_NS_PER_MS);
}

static void nothing_is_left(void)
{
	assert_int_equal(sh_late_left(), sh_late_gone());
	assert_int_equal(sh_objects.deregs.jobs, 0);
	for (uint32_t i = 0; i < RIG_PATHS; i++) {
		assert_int_equal(rig_ctx.late[i], 0);
		assert_int_equal(rig_ctx.path[i]->holds, 1);
	}
}

static void they_go_when_the_alarm_rings(void **state)
{
	(void)state;
	sh_lock();
	assert_true(sh_late_over(&rig_ctx, FAR));
	leave_some(FAR);
	assert_int_equal(atomic_load(&rig_gone[FAR]), 0);
	assert_int_equal(rig_ctx.late[FAR], SOME);
	alarm_rings();
	wait_for_all();
	nothing_is_left();
	sh_unlock();
	each_is_gone_once();
}

static void a_move_waits_for_its_own_nic_alone(void **state)
{
	(void)state;
	sh_lock();
	leave_some(FAR);
	assert_true(sh_late_over(&rig_ctx, 1));
	assert_false(sh_late_over(&rig_ctx, FAR));
	wait_until_over(FAR); /* without the alarm */
	assert_int_equal(atomic_load(&rig_gone[FAR]), SOME);
	nothing_is_left();
	sh_unlock();
	each_is_gone_once();
}

/* A registration there may take minutes: those that stand in line behind it already, and those that do not yet. */
static void a_move_does_not_wait_for_a_busy_worker(bool in_line)
{
	rig_worker_hold(FAR);
	sh_lock();
	leave_some(FAR);
	if (in_line)
		alarm_rings();
	wait_until_over(FAR);
	nothing_is_left();
	sh_unlock();
	rig_worker_let_go(FAR);
	each_is_gone_once();
}

static void a_busy_worker_is_not_waited_for(void **state)
{
	(void)state;
	a_move_does_not_wait_for_a_busy_worker(false);
	a_move_does_not_wait_for_a_busy_worker(true);
}

static void not_where_a_peer_may_send(void **state)
{
	(void)state;
	sh_lock();
	assert_true(sh_late_may(&rig_ctx, FAR));
	rig_ctx.reached[FAR] = 1;
	assert_false(sh_late_may(&rig_ctx, FAR));
	assert_true(sh_late_may(&rig_ctx, 1));
	rig_ctx.moving = 1; /* to whichever */
	assert_false(sh_late_may(&rig_ctx, 1));
	sh_unlock();
}

static void may_with(enum ibv_fork_status status, bool known, bool may)
{
	sh_late_module.reset();
	rig_fork = status;
	rig_real.is_fork_initialized = known ? rig_real.is_fork_initialized : NULL;
	sh_lock();
	assert_int_equal(sh_late_may(&rig_ctx, FAR), may);
	sh_unlock();
}

static void not_where_memory_is_marked_for_fork(void **state)
{
	(void)state;
	may_with(IBV_FORK_UNNEEDED, true, true);
	may_with(IBV_FORK_DISABLED, true, true);
	may_with(IBV_FORK_ENABLED, true, false);
	may_with(IBV_FORK_DISABLED, false, false);
}

/* It is told, and nobody waits for ever. */
static void a_nic_that_refuses(void **state)
{
	(void)state;
	atomic_store(&rig_error, EBUSY);
	sh_lock();
	leave_some(FAR);
	wait_until_over(FAR);
	nothing_is_left();
	sh_unlock();
	each_is_gone_once();
}

static void no_room_is_another_ones_while_some_are_left(void **state)
{
	(void)state;
	sh_lock();
	assert_false(sh_late_missed(ENOMEM));
	leave_some(FAR);
	assert_false(sh_late_missed(EINVAL));
	assert_true(sh_late_missed(ENOMEM));
	wait_for_all();
	assert_false(sh_late_missed(ENOMEM));
	sh_unlock();
	each_is_gone_once();
}

/* ---- all at once ---------------------------------------------------------------------------- */

static uint64_t seed;
static atomic_uint busy_threads;
static atomic_uint wrong;

/* sh_lock() */
static struct {
	uint32_t n;
	struct rig_mr *mr[ROUNDS];
	bool late[ROUNDS];
} kept[RIG_PDS];

/* Deregisters on a NIC of its choice, late where it may. */
static void *deregister(void *arg)
{
	uint32_t which = (uint32_t)(uintptr_t)arg, i;
	uint64_t random = seed + 1 + which;

	for (i = 0; i < ROUNDS; i++) {
		uint8_t path = (uint8_t)(1 + random_below(&random, RIG_PATHS - 1));
		struct rig_mr *mr;
		bool late;

		sh_lock();
		late = sh_late_may(&rig_ctx, path);
		mr = late ? leave(&rig_pds[which], path) : rig_mr_new(path);
		kept[which].late[i] = late;
		kept[which].mr[i] = mr;
		kept[which].n++;
		sh_unlock();
		if (!late)
			rig_real.dereg_mr(&mr->mr);
		if (!random_below(&random, 8))
			sched_yield();
	}
	atomic_fetch_sub(&busy_threads, 1);
	return NULL;
}

/* Lock held: all that was left there is gone. */
static void all_is_gone(uint8_t path)
{
	for (uint32_t which = 0; which < RIG_PDS; which++)
		for (uint32_t i = 0; i < kept[which].n; i++)
			if (kept[which].late[i] && kept[which].mr[i]->path == path &&
			    atomic_load(&kept[which].mr[i]->gone) != 1)
				atomic_fetch_add(&wrong, 1);
}

/* Connections that come to a NIC and leave it; who is there must not find what was left before, nor anything that comes. */
static void *move(void *arg)
{
	uint64_t random = seed;
	uint32_t i;

	(void)arg;
	for (i = 0; i < MOVES || atomic_load(&busy_threads); i++) {
		uint8_t path = (uint8_t)(1 + random_below(&random, RIG_PATHS - 1));

		sh_lock();
		if (random_below(&random, 2))
			alarm_rings();
		rig_ctx.moving++;
		wait_until_over(path);
		rig_ctx.reached[path]++;
		rig_ctx.moving--;
		all_is_gone(path);
		sh_unlock();
		sched_yield();
		sh_lock();
		if (rig_ctx.late[path])
			atomic_fetch_add(&wrong, 1);
		rig_ctx.reached[path]--;
		sh_unlock();
	}
	return NULL;
}

static void at_random(void **state)
{
	pthread_t threads[RIG_PDS + 1];
	uint32_t i, k;

	(void)state;
	seed = random_seed("replica_late_test");
	atomic_store(&busy_threads, RIG_PDS);
	for (i = 0; i < RIG_PDS; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, deregister, (void *)(uintptr_t)i), 0);
	assert_int_equal(pthread_create(&threads[RIG_PDS], NULL, move, NULL), 0);
	for (i = 0; i <= RIG_PDS; i++)
		pthread_join(threads[i], NULL);
	sh_lock();
	alarm_rings();
	wait_for_all();
	nothing_is_left();
	sh_unlock();
	assert_int_equal(atomic_load(&wrong), 0);
	for (i = 0; i < RIG_PDS; i++)
		for (k = 0; k < ROUNDS; k++) {
			assert_int_equal(atomic_load(&kept[i].mr[k]->gone), 1);
			free(kept[i].mr[k]);
		}
}

#define IN_RIG(test) cmocka_unit_test_setup_teardown(test, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_RIG(they_go_when_the_alarm_rings),
		IN_RIG(a_move_waits_for_its_own_nic_alone),
		IN_RIG(a_busy_worker_is_not_waited_for),
		IN_RIG(not_where_a_peer_may_send),
		IN_RIG(not_where_memory_is_marked_for_fork),
		IN_RIG(a_nic_that_refuses),
		IN_RIG(no_room_is_another_ones_while_some_are_left),
		IN_RIG(at_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
