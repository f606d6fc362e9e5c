/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A completion queue that the program has destroyed: its shadows go behind the program's back, the
 * last one with the last carrier.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

#include "shiftlib/loop/loop.h"
#include "shiftlib/replica/cq.h"
#include "shiftlib/replica/late.h"
#include "tests/unit/replica/rig.h"

enum { ONE = 1, TWO = 2 };

static atomic_uint destroyed;
static struct ibv_context devices[RIG_PATHS];

static int destroy_cq(struct ibv_cq *real)
{
	free(real);
	atomic_fetch_add(&destroyed, 1);
	return 0;
}

static struct sh_shadow_cq *shadow_new(struct sh_cq *cq, uint8_t path, uint32_t refs)
{
	struct sh_shadow_cq *shadow = calloc(1, sizeof(*shadow));

	assert_non_null(shadow);
	shadow->cq = calloc(1, sizeof(*shadow->cq));
	assert_non_null(shadow->cq);
	shadow->cq->context = &devices[path];
	shadow->refs = refs;
	shadow->nic = rig_ctx.path[path];
	shadow->incarnation = 1;
	shadow->holds = true;
	sh_nic_hold(shadow->nic, 1);
	sh_cq_feed_init(&shadow->feed, &cq->events);
	return shadow;
}

static struct sh_cq *cq_new(void)
{
	struct sh_cq *cq = calloc(1, sizeof(*cq));

	assert_non_null(cq);
	cq->ctx = &rig_ctx;
	return cq;
}

/* Lock held, given up meanwhile: nothing is left behind anybody's back. */
static void await_end(void)
{
	while (sh_late_hurry())
		sh_wait_some(SH_NS_PER_MS);
	assert_int_equal(sh_objects.deregs.jobs, 0);
}

static void nobody_waits_for_a_busy_nic(void **state)
{
	struct sh_shadow_cq *shadow[SC_MAX_PATHS] = { 0 };
	struct sh_cq *cq = cq_new();

	(void)state;
	rig_worker_hold(ONE);
	sh_lock();
	assert_true(sh_cq_may_end_late(cq));
	shadow[ONE] = shadow_new(cq, ONE, 1);
	shadow[TWO] = shadow_new(cq, TWO, 1);
	sh_cq_end_late(cq, shadow);
	while (atomic_load(&destroyed) < 1)
		sh_wait_some(SH_NS_PER_MS);
	sh_wait_some(5 * SH_NS_PER_MS);
	assert_int_equal(atomic_load(&destroyed), 1);
	assert_true(sh_late_hurry()); /* callers that find no room wait */
	sh_unlock();
	rig_worker_let_go(ONE);
	sh_lock();
	await_end();
	sh_unlock();
	assert_int_equal(atomic_load(&destroyed), 2);
	assert_int_equal(rig_ctx.path[ONE]->holds, 1);
	assert_int_equal(rig_ctx.path[TWO]->holds, 1);
}

/* The test does what the job does that destroys a carrier. */
static void a_carrier_takes_its_shadow_along(void **state)
{
	struct sh_shadow_cq *shadow[SC_MAX_PATHS] = { 0 };
	struct sh_cq *cq = cq_new();

	(void)state;
	sh_lock();
	sh_cq_hold(cq);
	shadow[ONE] = shadow_new(cq, ONE, 2);
	sh_cq_end_late(cq, shadow);
	sh_wait_some(5 * SH_NS_PER_MS);
	assert_int_equal(atomic_load(&destroyed), 0);
	assert_true(sh_late_hurry());
	sh_cq_shadow_put(cq, shadow[ONE]);
	assert_int_equal(atomic_load(&destroyed), 1);
	assert_true(sh_late_hurry());
	sh_cq_let_go(cq);
	await_end();
	sh_unlock();
	assert_int_equal(rig_ctx.path[ONE]->holds, 1);
}

static void one_without_shadows_is_gone_at_once(void **state)
{
	struct sh_shadow_cq *none[SC_MAX_PATHS] = { 0 };

	(void)state;
	sh_lock();
	sh_cq_end_late(cq_new(), none);
	assert_false(sh_late_hurry());
	sh_unlock();
}

/* Readers of a channel may have events of a shadow; an old shadow's ring is the engine's still. */
static void some_are_waited_for(void **state)
{
	struct ibv_comp_channel channel;
	struct sh_cq *cq = cq_new();

	(void)state;
	sh_lock();
	cq->facade = &channel;
	assert_false(sh_cq_may_end_late(cq));
	cq->facade = NULL;
	cq->displaced = 1;
	assert_false(sh_cq_may_end_late(cq));
	sh_unlock();
	free(cq);
}

static int setup(void **state)
{
	int ret = rig_setup(state);

	rig_real.destroy_cq = destroy_cq;
	atomic_store(&destroyed, 0);
	return ret;
}

#define IN_RIG(test) cmocka_unit_test_setup_teardown(test, setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_RIG(nobody_waits_for_a_busy_nic),
		IN_RIG(a_carrier_takes_its_shadow_along),
		IN_RIG(one_without_shadows_is_gone_at_once),
		IN_RIG(some_are_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
