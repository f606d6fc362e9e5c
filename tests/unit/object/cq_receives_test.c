/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A completion queue that an XRC or tag-matching queue, or a work queue, has named is never driven; one that is driven is refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "providers/engine.h"
#include "shiftlib/base/table.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/object/object.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/cq.h"

/* Of an engine's object the shell knows where its engine is. */
struct driven {
	uint8_t own[SP_ENGINE_AT];
	const struct shift_provider *engine;
};

static struct shift_provider engine;
static struct driven dev, driven;
static struct ibv_cq real_cq;
static struct ibv_srq real_srq;
static struct ibv_wq real_wq;
static struct sh_ctx ctx;
static struct sh_cq cq;
static bool fails;
static int made;

static int drive(struct sp_dev *of, struct ibv_cq *what, bool cq_ex, uint64_t wc_flags,
		 void *cookie, struct sp_cq **out)
{
	(void)of;
	(void)what;
	(void)cq_ex;
	(void)wc_flags;
	(void)cookie;
	*out = (struct sp_cq *)&driven;
	return 0;
}

static struct sp_cq_ring *own_ring(struct sp_cq *of)
{
	(void)of;
	return NULL;
}

static void take_over(struct sp_cq *of, const struct sp_cq_past *past)
{
	(void)of;
	(void)past;
}

static struct ibv_srq *create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	(void)context;
	(void)attr;
	made++;
	errno = ENOMEM;
	return fails ? NULL : &real_srq;
}

static struct ibv_wq *create_wq(struct ibv_context *context, struct ibv_wq_init_attr *attr)
{
	(void)context;
	(void)attr;
	made++;
	errno = ENOMEM;
	return fails ? NULL : &real_wq;
}

static int setup(void **state)
{
	(void)state;
	sh_objects_module.reset();
	memset(&engine, 0, sizeof(engine));
	engine.cq.drive = drive;
	engine.cq.own_ring = own_ring;
	engine.cq.take_over = take_over;
	dev.engine = driven.engine = &engine;
	ctx = (struct sh_ctx){ .dev = (struct sp_dev *)&dev };
	cq = (struct sh_cq){ .cq = &real_cq, .ctx = &ctx };
	assert_int_equal(sh_cq_events_init(&cq.events, &real_cq, NULL), 0);
	assert_int_equal(sh_table_put(&sh_objects.by_cq, &real_cq, &cq), 0);
	fails = false;
	made = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(sh_objects.by_cq.slots); /* a process keeps them to its end */
	return 0;
}

static struct ibv_srq *srq_of(enum ibv_srq_type type, struct ibv_cq *on)
{
	struct ibv_srq_init_attr_ex attr = { .comp_mask =
						     IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_CQ,
					     .srq_type = type,
					     .cq = on };

	return shift_create_srq_ex(NULL, &attr, create_srq_ex);
}

static struct ibv_wq *wq_on(struct ibv_cq *on)
{
	struct ibv_wq_init_attr attr = { .cq = on };

	return shift_create_wq(NULL, &attr, create_wq);
}

static int driven_now(void)
{
	int ret;

	sh_lock();
	ret = sh_cq_drive(&cq);
	sh_unlock();
	return ret;
}

static void not_driven_with_xrc(void **state)
{
	(void)state;
	assert_ptr_equal(srq_of(IBV_SRQT_XRC, &real_cq), &real_srq);
	assert_int_equal(driven_now(), -EBUSY);
	assert_null(cq.sp);
}

static void not_driven_with_tag_matching(void **state)
{
	(void)state;
	assert_ptr_equal(srq_of(IBV_SRQT_TM, &real_cq), &real_srq);
	assert_int_equal(driven_now(), -EBUSY);
}

static void not_driven_with_a_work_queue(void **state)
{
	(void)state;
	assert_ptr_equal(wq_on(&real_cq), &real_wq);
	assert_int_equal(driven_now(), -EBUSY);
}

/* A basic one has none, whatever is said; one that SHIFT does not know is nothing to it. */
static void driven_with_others(void **state)
{
	struct ibv_cq unknown = { 0 };

	(void)state;
	assert_ptr_equal(srq_of(IBV_SRQT_BASIC, &real_cq), &real_srq);
	assert_ptr_equal(srq_of(IBV_SRQT_XRC, &unknown), &real_srq);
	assert_ptr_equal(wq_on(&unknown), &real_wq);
	assert_int_equal(driven_now(), 0);
	assert_ptr_equal(srq_of(IBV_SRQT_BASIC, &real_cq), &real_srq);
}

static void driven_when_none_could_be_made(void **state)
{
	(void)state;
	fails = true;
	assert_null(srq_of(IBV_SRQT_XRC, &real_cq));
	assert_int_equal(errno, ENOMEM);
	assert_null(wq_on(&real_cq));
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(made, 2);
	assert_int_equal(driven_now(), 0);
}

static void refused_where_it_is_driven(void **state)
{
	(void)state;
	assert_int_equal(driven_now(), 0);
	errno = 0;
	assert_null(srq_of(IBV_SRQT_XRC, &real_cq));
	assert_int_equal(errno, EOPNOTSUPP);
	errno = 0;
	assert_null(wq_on(&real_cq));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(made, 0);
}

/* An engine over plain verbs polls as the application would. */
static void shared_where_the_engine_can(void **state)
{
	(void)state;
	engine.traits = SP_SHARES_CQ;
	assert_ptr_equal(srq_of(IBV_SRQT_XRC, &real_cq), &real_srq);
	assert_int_equal(driven_now(), 0);
	assert_ptr_equal(wq_on(&real_cq), &real_wq);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(not_driven_with_xrc),
		CASE(not_driven_with_tag_matching),
		CASE(not_driven_with_a_work_queue),
		CASE(driven_with_others),
		CASE(driven_when_none_could_be_made),
		CASE(refused_where_it_is_driven),
		CASE(shared_where_the_engine_can),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
