/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* For how long do requests wait that may not run yet? Not for what others of the same queue pair waited before its RESET. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdlib.h>

#include <cmocka.h>

#include "providers/engine.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/move.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/cq.h"

#define BEGUN	 (1000 * SH_NS_PER_MS)
#define PATIENCE (100 * SH_NS_PER_MS)

static int publish(struct sp_qp *sp);

static const struct shift_provider engine = { .move.publish = publish };
/* An object of it knows its engine. */
static const struct shift_provider *object[SP_ENGINE_AT / sizeof(void *) + 1] = {
	[SP_ENGINE_AT / sizeof(void *)] = &engine
};

static struct sh_nic nics[2];
static struct sh_ctx ctx;
static struct sh_cq cq;
static struct ibv_qp real;
static struct sh_qp qp;
static int waits_for;

static int publish(struct sp_qp *sp)
{
	assert_ptr_equal(sp, object);
	return waits_for;
}

static const char *barred(struct sh_qp *of, uint64_t now)
{
	(void)now;
	assert_ptr_equal(of, &qp);
	return "its turn";
}

static const struct sh_conn_part part = { .name = "bar", .news.barred = barred };
static const struct sh_conn_part *const parts[] = { &part, NULL };

static int setup(void **state)
{
	(void)state;
	sh_lock();
	sh_parts_register(parts);
	sh_objects_module.reset();
	sh_conns_module.reset();
	sh.config.core.deadline_ns = PATIENCE;
	ctx = (struct sh_ctx){ .nic = &nics[0], .path = { &nics[0], &nics[1] }, .n_paths = 2 };
	cq = (struct sh_cq){ .ctx = &ctx, .sp = (struct sp_cq *)object };
	real = (struct ibv_qp){ .qp_num = 7 };
	qp = (struct sh_qp){
		.qp = &real, .ctx = &ctx, .scq = &cq, .rcq = &cq, .sp = (struct sp_qp *)object
	};
	qp.carriers.own = (struct sh_carrier){ .nic = &nics[0] };
	qp.active = qp.receiving = &qp.carriers.own;
	assert_int_equal(sh_conn_new(&qp), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	sh_conns_remove(&qp);
	free(sh_conns.by_id); /* a process keeps them to its end */
	sh_unlock();
	return 0;
}

static void waits_at(uint64_t now)
{
	sh_move_publish(&qp, now);
	assert_true(qp.publish.at > now);
	assert_false(qp.error.ending.on);
}

/* RESET, and connected again. */
static void connected_anew(void)
{
	sh_conns_remove(&qp);
	assert_int_equal(sh_conn_new(&qp), 0);
	assert_true(qp.publish.since == 0 && qp.publish.at == 0);
}

static void until_its_patience_is_over(int what)
{
	waits_for = what;
	waits_at(BEGUN);
	waits_at(BEGUN + PATIENCE);
	connected_anew();
	waits_at(BEGUN + PATIENCE + 1);
	waits_at(BEGUN + 2 * PATIENCE + 1);
}

static void for_a_right_to_run(void **state)
{
	(void)state;
	until_its_patience_is_over(-EACCES);
}

static void for_a_key(void **state)
{
	(void)state;
	until_its_patience_is_over(-ENOENT);
}

/* What could run meanwhile, or waits for a place in the ring alone, has not waited for that. */
static void from_when_the_first_one_does(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		waits_for = -ENOENT;
		waits_at(BEGUN + i * PATIENCE);
		waits_for = i ? 0 : -EAGAIN;
		sh_move_publish(&qp, BEGUN + (i + 1) * PATIENCE);
		assert_true(qp.publish.since == 0);
	}
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(for_a_right_to_run),
		CASE(for_a_key),
		CASE(from_when_the_first_one_does),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
