/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A completion queue that is resized while its connection moves: the background thread collects, and the NIC goes on,
 * while the kernel is at it and nobody polls.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "providers/mlx5/cq.h"
#include "tests/lib/mlx5_rig.h"

enum {
	BURST = 16,
	MOST = 300, /* bursts: more than there is ever room for before more is made */
	SMALL = 64,
	LARGE = 128,
};

static const struct fake_geometry geometry = { BURST, BURST, 4, BURST, 4, false };
static struct rig *rig;
static uint64_t posted, seen;

static int setup_with(uint32_t cqe_size, bool cq_ex)
{
	posted = seen = 0;
	rig = rig_new(&geometry, cqe_size, cq_ex);
	return 0;
}

static int setup(void **state)
{
	return setup_with(64, false);
}

static int setup_ex(void **state)
{
	return setup_with(128, true);
}

static int teardown(void **state)
{
	rig_delete(rig);
	return 0;
}

static void work(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(rig_send(rig, IBV_WR_RDMA_WRITE, posted++, IBV_SEND_SIGNALED, 1),
				 0);
	assert_int_equal(fake_run(rig->app, n), n);
	fake_log.n = 0;
}

/* All that was posted, each once and in order. */
static void all_is_seen(void)
{
	struct ibv_wc wc[BURST];
	int n;

	while ((n = rig_poll(rig, true, wc, BURST)) > 0)
		for (int i = 0; i < n; i++, seen++) {
			assert_int_equal(wc[i].wr_id, seen);
			assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
		}
	assert_int_equal(seen, posted);
}

/* So many bursts are collected while the kernel is at it. */
static void resize(uint32_t to, int collected)
{
	struct ibv_cq *real = fake_ibv_cq(&rig->scq);
	uint8_t *old;
	int begun, ended;

	assert_int_equal(ENGINE->cq.resize_reserve(rig->sp_scq, real), 0);
	for (int i = 0; i < collected; i++) {
		work(BURST);
		assert_int_equal(ENGINE->cq.collect(rig->sp_scq), 0);
	}
	work(BURST / 2);
	old = fake_cq_resize(&rig->scq, to);
	work(BURST / 2);
	begun = ENGINE->cq.resize_begin(rig->sp_scq, real);
	ended = ENGINE->cq.resize_end(rig->sp_scq,
				      real); /* pollers may poll again, whatever it was */
	ENGINE->cq.resize_release(rig->sp_scq);
	free(old);
	assert_int_equal(begun, 0);
	assert_int_equal(ended, 0);
}

static void what_is_left_is_taken_along(void **state)
{
	for (int i = 0; i < 10; i++) {
		resize(i % 2 ? LARGE : SMALL, 0);
		if (i % 3)
			work(BURST / 4);
		all_is_seen();
	}
}

/* For one of these numbers the last collect has filled all of the room, so that what is left in the ring has none. */
static void collects_meanwhile_take_nothing_away(void **state)
{
	for (int i = 0; i < MOST; i++) {
		resize(i % 2 ? LARGE : SMALL, i);
		work(BURST / 4);
		all_is_seen();
	}
}

static uint32_t entries_of_backlog(void)
{
	const struct ring_chunk *chunk;
	uint32_t n = 0;

	for (chunk = rig->sp_scq->chunks; chunk; chunk = chunk->next)
		n += RING_CHUNK;
	return n;
}

/* Room for a whole ring is made before a resize: many queues that grow would keep as much memory as they are large. */
static void room_for_the_old_ring_is_given_back(void **state)
{
	resize(LARGE, 0);
	all_is_seen();
	resize(SMALL, 0);
	assert_int_equal(entries_of_backlog(),
			 RING_CHUNK); /* what the last one took along lies in it */
	all_is_seen();
	assert_int_equal(ENGINE->cq.resize_reserve(rig->sp_scq, fake_ibv_cq(&rig->scq)), 0);
	ENGINE->cq.resize_release(rig->sp_scq); /* the device refused */
	assert_int_equal(entries_of_backlog(), 0);
}

/* A chunk stays as long as anything lies in it, and what lies there is not touched. */
static void what_was_collected_keeps_its_room(void **state)
{
	int used = RING_CHUNK / BURST + 1; /* one burst lies in a second chunk */

	resize(LARGE, used);
	assert_int_equal(entries_of_backlog(), 2 * RING_CHUNK);
	all_is_seen();
	resize(LARGE, 0);
	assert_int_equal(entries_of_backlog(), RING_CHUNK);
	all_is_seen();
}

/* The application holds a completion, and may be in a verb that waits for whoever resizes. */
static void who_holds_a_completion_keeps_it_out(void **state)
{
	struct ibv_cq *real = fake_ibv_cq(&rig->scq);
	struct ibv_poll_cq_attr attr = { 0 };
	uint8_t *old;

	assert_false(ENGINE->cq.polled(rig->sp_scq));
	work(2);
	assert_int_equal(ibv_start_poll(&rig->scq.ex, &attr), 0);
	assert_int_equal(ENGINE->cq.resize_keep_out(rig->sp_scq), -EBUSY);
	assert_int_equal(rig->scq.ex.wr_id, seen++);
	ibv_end_poll(&rig->scq.ex);
	assert_true(ENGINE->cq.polled(rig->sp_scq));
	assert_int_equal(ENGINE->cq.resize_keep_out(rig->sp_scq), 0);
	assert_int_equal(ENGINE->cq.resize_reserve(rig->sp_scq, real), 0);
	old = fake_cq_resize(&rig->scq, LARGE);
	assert_int_equal(ENGINE->cq.resize_begin(rig->sp_scq, real), 0);
	assert_int_equal(ENGINE->cq.resize_end(rig->sp_scq, real), 0);
	ENGINE->cq.resize_let_poll(rig->sp_scq);
	free(old);
	work(BURST / 2);
	all_is_seen();
}

/* The engine knows its ring's size: ibv_cq.cqe is what the application is to see. */
static void the_size_that_is_told_is_not_read(void **state)
{
	for (int i = 0; i < 4; i++) {
		fake_ibv_cq(&rig->scq)->cqe = 3;
		work(BURST);
		all_is_seen();
		resize(i % 2 ? LARGE : SMALL, 1);
		all_is_seen();
	}
}

int main(void)
{
#define TEST(f)	   cmocka_unit_test_setup_teardown(f, setup, teardown)
#define TEST_EX(f) cmocka_unit_test_setup_teardown(f, setup_ex, teardown)
	const struct CMUnitTest tests[] = {
		TEST(what_is_left_is_taken_along),
		TEST_EX(what_is_left_is_taken_along),
		TEST(collects_meanwhile_take_nothing_away),
		TEST_EX(collects_meanwhile_take_nothing_away),
		TEST(room_for_the_old_ring_is_given_back),
		TEST(what_was_collected_keeps_its_room),
		TEST_EX(who_holds_a_completion_keeps_it_out),
		TEST(the_size_that_is_told_is_not_read),
		TEST_EX(the_size_that_is_told_is_not_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
