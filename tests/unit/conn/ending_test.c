/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* When is the flush of a connection that SHIFT ends shown? Not before its NICs execute nothing of it any more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "providers/engine.h"
#include "shiftlib/conn/clock.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/move.h"
#include "shiftlib/conn/ending.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/cq.h"

#define AT (1000 * SH_NS_PER_MS) /* when a NIC is not waited for any more */

static int collect(struct sp_cq *cq);
static void fail_all(struct sp_qp *qp, enum ibv_wc_status first, uint32_t vendor_err,
		     uint32_t n_delivered);

static const struct shift_provider engine = { .cq.collect = collect, .move.fail_all = fail_all };
/* An object of it knows its engine. */
static const struct shift_provider *object[SP_ENGINE_AT / sizeof(void *) + 1] = {
	[SP_ENGINE_AT / sizeof(void *)] = &engine
};

static struct sh_nic nics[2];
static struct sh_ctx ctx;
static struct sh_cq cq;
static struct sh_qp qp;
static struct sh_carrier to;
static int shown;

/* Parts hear of it when the errors have been shown. */
static void ended(struct sh_qp *of, bool failed)
{
	assert_ptr_equal(of, &qp);
	assert_true(failed);
	assert_int_equal(shown, 1);
}

static const struct sh_conn_part part = { .name = "end", .move.ended = ended };
static const struct sh_conn_part *const parts[] = { &part, &sh_ending_part, NULL };

static int collect(struct sp_cq *sp)
{
	(void)sp;
	return 0;
}

static void fail_all(struct sp_qp *sp, enum ibv_wc_status first, uint32_t vendor_err,
		     uint32_t n_delivered)
{
	(void)sp;
	assert_int_equal(first, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(vendor_err, 7);
	assert_int_equal(n_delivered, 3);
	shown++;
}

static struct sh_carrier carrier_on(struct sh_nic *nic, uint32_t epoch)
{
	*nic = (struct sh_nic){ .incarnation = 1 };
	return (struct sh_carrier){ .nic = nic,
				    .incarnation = 1,
				    .epoch = epoch,
				    .qp = (struct ibv_qp *)&qp,
				    .to_error = true };
}

/* In the middle of a move: sends lie in one, receives in the other. */
static int setup(void **state)
{
	(void)state;
	sh_parts_register(parts);
	list_init(&sh_conns.touched);
	ctx = (struct sh_ctx){ .nic = &nics[0] };
	cq = (struct sh_cq){ .ctx = &ctx, .sp = (struct sp_cq *)object };
	qp = (struct sh_qp){ .ctx = &ctx, .scq = &cq, .rcq = &cq, .sp = (struct sp_qp *)object };
	qp.conn_id = 1;
	qp.carriers.own = carrier_on(&nics[0], 0);
	to = carrier_on(&nics[1], 1);
	qp.active = &qp.carriers.own;
	qp.receiving = &to;
	qp.error.ending = (struct sh_qp_ending){
		.on = true, .first = IBV_WC_RETRY_EXC_ERR, .vendor_err = 7, .delivered = 3, .at = AT
	};
	shown = 0;
	return 0;
}

static void is_shown(int times)
{
	sh_ending_poll(&qp);
	assert_int_equal(shown, times);
	assert_int_equal(sh_clock_next(&qp), times || !qp.conn_id ? 0 : AT);
}

static void both_are_waited_for(void **state)
{
	(void)state;
	is_shown(0);
	qp.carriers.own.in_error = true;
	is_shown(0);
	sh_clock_run(&qp, AT - 1);
	is_shown(0);
	to.in_error = true;
	is_shown(1);
	is_shown(1);
	sh_clock_run(&qp, AT);
	is_shown(1);
}

/* A worker shows it, which has no other reason to look at the clock. */
static void its_clock_is_set_anew(void **state)
{
	(void)state;
	qp.carriers.own.in_error = to.in_error = true;
	assert_false(qp.clock.touched);
	is_shown(1);
	assert_true(qp.clock.touched);
}

static void one_that_hangs_is_not(void **state)
{
	(void)state;
	qp.carriers.own.in_error = true;
	sh_clock_run(&qp, AT);
	is_shown(1);
	to.in_error = true; /* late */
	is_shown(1);
}

static void nor_one_that_is_sick_or_was_not_told(void **state)
{
	(void)state;
	nics[1].sick = true;
	qp.carriers.own.to_error = false; /* its command could not be given */
	is_shown(1);
}

/* The application has reset it: nobody is shown anything. */
static void not_when_the_connection_is_no_more(void **state)
{
	(void)state;
	qp.conn_id = 0;
	qp.carriers.own.in_error = to.in_error = true;
	is_shown(0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, setup)
	const struct CMUnitTest tests[] = {
		TEST(both_are_waited_for),
		TEST(its_clock_is_set_anew),
		TEST(one_that_hangs_is_not),
		TEST(nor_one_that_is_sick_or_was_not_told),
		TEST(not_when_the_connection_is_no_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
