/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * When a region gets its shadows: on the nearest backup when it is not fresh any more, or at once
 * where peers have not heard of its key lately; on the others when it is not young any more, or a
 * connection moves.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "shiftlib/loop/loop.h"
#include "shiftlib/replica/late.h"
#include "shiftlib/replica/young.h"
#include "tests/lib/random.h"
#include "tests/unit/replica/rig.h"

enum { NEAREST = 1, FAR = 2, SOME = 40, ROUNDS = 3000 };

static struct sh_mr *mrs[SOME];
static uint8_t memory[4096];

/* As the verb does, lock held. rkey 0: a new one. */
static struct sh_mr *add_with(struct sh_pd *pd, unsigned int access, uint32_t rkey)
{
	struct sh_mr *mr = calloc(1, sizeof(*mr));
	uint8_t path;

	assert_non_null(mr);
	mr->mr = &rig_mr_new(0)->mr;
	mr->mr->rkey = rkey ? rkey : mr->mr->rkey;
	mr->access = access;
	mr->pd = pd;
	mr->plain = true;
	mr->addr = memory;
	mr->length = sizeof(memory);
	for (path = 0; path < SC_MAX_PATHS; path++)
		list_init(&mr->shadow[path].link);
	list_add_tail(&pd->mrs, &mr->link);
	sh_young_add(mr);
	return mr;
}

static struct sh_mr *add(struct sh_pd *pd)
{
	return add_with(pd, IBV_ACCESS_REMOTE_WRITE, 0);
}

/* Lock held, given up meanwhile: no job is at it, and none will be. */
static void settle(struct sh_pd *pd)
{
	sh_wait_idle(&pd->busy);
}

static void take_away(struct sh_mr *mr)
{
	struct ibv_mr *shadow;
	uint8_t path;

	mr->leaving = true;
	sh_mr_replay_never(mr);
	sh_wait_idle(&mr->busy);
	for (path = 0; path < RIG_PATHS; path++) {
		shadow = sh_mr_take_shadow(mr, path);
		if (!shadow)
			continue;
		rig_real.dereg_mr(shadow);
		sh_nic_release(rig_ctx.path[path], 1);
		free(shadow);
	}
	list_del(&mr->link);
	free(mr->mr);
	free(mr);
}

static bool has(const struct sh_mr *mr, uint8_t path)
{
	return mr->shadow[path].mr;
}

static void grow_old(void)
{
	uint64_t at = sh_young_module.next_timer();

	if (at)
		sh_young_module.run(at);
}

static void the_nearest_at_once_the_others_later(void **state)
{
	struct sh_mr *mr;

	(void)state;
	sh_lock();
	mr = add(&rig_pds[0]);
	settle(&rig_pds[0]);
	assert_true(has(mr, NEAREST) && !has(mr, FAR) && sh_young_is(mr));
	sh_young_module.run(sh_young_module.next_timer() - 1);
	assert_true(sh_young_is(mr));
	grow_old();
	settle(&rig_pds[0]);
	assert_true(has(mr, FAR) && has(mr, FAR + 1) && !sh_young_is(mr));
	assert_int_equal(sh_young_module.next_timer(), 0);
	take_away(mr);
	sh_unlock();
}

/* Nobody else names its key. */
static void a_fresh_one_of_this_end_is_nowhere(void **state)
{
	struct sh_mr *mr;

	(void)state;
	sh_lock();
	mr = add_with(&rig_pds[0], IBV_ACCESS_LOCAL_WRITE, 0);
	settle(&rig_pds[0]);
	assert_true(!has(mr, NEAREST) && !has(mr, FAR) && sh_young_is(mr));
	grow_old();
	settle(&rig_pds[0]);
	assert_true(has(mr, NEAREST) && !has(mr, FAR) && sh_young_is(mr));
	grow_old();
	settle(&rig_pds[0]);
	assert_true(has(mr, FAR) && has(mr, FAR + 1) && !sh_young_is(mr));
	take_away(mr);
	take_away(add_with(&rig_pds[0], IBV_ACCESS_LOCAL_WRITE, 0));
	settle(&rig_pds[0]);
	assert_int_equal(sh_young_module.next_timer(), 0);
	assert_int_equal(atomic_load(&rig_made[NEAREST]), 1);
	sh_unlock();
}

/* The driver gives a key again: peers have heard of it, as long as they have heard of it lately. */
static void a_key_that_peers_know_may_wait(void **state)
{
	struct sh_mr *mr = NULL;
	uint32_t i, rkey;

	(void)state;
	sh_lock();
	mr = add(&rig_pds[0]);
	rkey = mr->mr->rkey;
	settle(&rig_pds[0]);
	assert_true(has(mr, NEAREST));
	for (i = 0; i < 100; i++) {
		take_away(mr);
		mr = add_with(&rig_pds[0], IBV_ACCESS_REMOTE_WRITE, rkey);
		settle(&rig_pds[0]);
		assert_false(has(mr, NEAREST));
	}
	take_away(mr);
	mr = add_with(&rig_pds[0], IBV_ACCESS_REMOTE_WRITE, rkey + 1);
	settle(&rig_pds[0]);
	assert_true(has(mr, NEAREST));
	take_away(mr);
	sh_unlock();
	usleep(600000);
	sh_lock();
	mr = add_with(&rig_pds[0], IBV_ACCESS_REMOTE_WRITE, rkey);
	settle(&rig_pds[0]);
	assert_true(has(mr, NEAREST));
	take_away(mr);
	sh_unlock();
}

static void who_goes_young_was_never_there(void **state)
{
	(void)state;
	sh_lock();
	take_away(add(&rig_pds[0]));
	assert_int_equal(sh_young_module.next_timer(), 0);
	settle(&rig_pds[0]);
	assert_int_equal(atomic_load(&rig_made[FAR]), 0);
	sh_unlock();
}

static void all_at_once_for_a_move(void **state)
{
	struct sh_mr *before, *fresh, *meanwhile;

	(void)state;
	sh_lock();
	before = add(&rig_pds[0]);
	fresh = add_with(&rig_pds[1], IBV_ACCESS_LOCAL_WRITE, 0);
	rig_ctx.moving++;
	sh_young_move(&rig_ctx);
	meanwhile = add(&rig_pds[1]);
	settle(&rig_pds[0]);
	settle(&rig_pds[1]);
	assert_true(has(before, FAR) && has(before, FAR + 1));
	assert_true(has(meanwhile, FAR) && has(meanwhile, FAR + 1));
	assert_true(has(fresh, NEAREST) && has(fresh, FAR) && has(fresh, FAR + 1));
	take_away(fresh);
	take_away(before);
	take_away(meanwhile);
	sh_unlock();
}

static void at_once_where_connections_are(void **state)
{
	struct sh_mr *mr;

	(void)state;
	sh_lock();
	rig_ctx.reached[FAR] = 1;
	mr = add(&rig_pds[0]);
	settle(&rig_pds[0]);
	assert_true(has(mr, FAR) && !has(mr, FAR + 1) && sh_young_is(mr));
	take_away(mr);
	sh_unlock();
}

static void not_where_nobody_wants_any(void **state)
{
	struct sh_mr *mr;

	(void)state;
	sh_lock();
	rig_ctx.replica[FAR] = rig_ctx.replica[FAR + 1] = false;
	mr = add(&rig_pds[0]);
	assert_false(sh_young_is(mr));
	take_away(mr);
	sh_unlock();
}

/* Whatever comes when: behind a move each region is everywhere, and none is
 * registered twice or left behind. */
static void at_random(void **state)
{
	uint64_t random = random_seed("replica_young_test");
	uint32_t i;
	uint8_t path;

	(void)state;
	sh_lock();
	for (i = 0; i < ROUNDS; i++) {
		uint32_t at = random_below(&random, SOME);

		if (mrs[at])
			take_away(mrs[at]);
		mrs[at] = NULL;
		if (random_below(&random, 3))
			mrs[at] = add_with(&rig_pds[at % RIG_PDS],
					   random_below(&random, 2) ? IBV_ACCESS_REMOTE_READ : 0,
					   0x100 * random_below(&random, 64));
		if (!random_below(&random, 16))
			grow_old();
		if (random_below(&random, 64))
			continue;
		rig_ctx.moving++;
		sh_young_move(&rig_ctx);
		settle(&rig_pds[0]);
		settle(&rig_pds[1]);
		for (at = 0; at < SOME; at++)
			for (path = 1; mrs[at] && path < RIG_PATHS; path++)
				assert_true(has(mrs[at], path));
		rig_ctx.moving--;
	}
	for (i = 0; i < SOME; i++)
		if (mrs[i])
			take_away(mrs[i]);
	settle(&rig_pds[0]);
	settle(&rig_pds[1]);
	for (path = 1; path < RIG_PATHS; path++) {
		assert_int_equal(atomic_load(&rig_made[path]), atomic_load(&rig_gone[path]));
		assert_int_equal(rig_ctx.path[path]->holds, 1);
	}
	assert_int_equal(sh_young_module.next_timer(), 0);
	sh_unlock();
}

#define IN_RIG(test) cmocka_unit_test_setup_teardown(test, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_RIG(the_nearest_at_once_the_others_later),
		IN_RIG(a_fresh_one_of_this_end_is_nowhere),
		IN_RIG(a_key_that_peers_know_may_wait),
		IN_RIG(who_goes_young_was_never_there),
		IN_RIG(all_at_once_for_a_move),
		IN_RIG(at_once_where_connections_are),
		IN_RIG(not_where_nobody_wants_any),
		IN_RIG(at_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
