/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What a dead NIC of the peer's had acknowledged is outstanding again, unless it was seen complete. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/mlx5_rig.h"

enum { SIG = IBV_SEND_SIGNALED, MAX = 32 };

static const struct fake_geometry small = { 16, 16, 4, 16, 1, false };
/* with places to spare for NOPs */
static const struct fake_geometry spare = { 32, 16, 4, 16, 4, false };
static const struct fake_geometry *geometry;
static struct rig *rig;
static struct sp_request info[MAX];
static uint64_t next;

static void make(const struct fake_geometry *g, bool cq_ex)
{
	geometry = g;
	rig = rig_new(g, 64, cq_ex);
	ENGINE->qp.guard(rig->sp, true);
	next = 1;
}

static int setup(void **state)
{
	make(&small, false);
	return 0;
}

static int setup_ex(void **state)
{
	make(&small, true);
	return 0;
}

static int teardown(void **state)
{
	rig_delete(rig);
	return 0;
}

/* w WRITE, s SEND, r READ, z WRITE of nothing; capitals are signaled. */
static void post(const char *requests)
{
	static const char letters[] = "wsr";
	static const enum ibv_wr_opcode ops[] = { IBV_WR_RDMA_WRITE, IBV_WR_SEND,
						  IBV_WR_RDMA_READ };

	for (; *requests; requests++, next++) {
		char lower = *requests | 0x20;
		enum ibv_wr_opcode op =
			lower == 'z' ? IBV_WR_RDMA_WRITE : ops[strchr(letters, lower) - letters];

		assert_int_equal(
			rig_send(rig, op, next, lower == *requests ? 0 : SIG, lower != 'z'), 0);
	}
}

static void acknowledge(uint32_t n)
{
	assert_int_equal(fake_run(&rig->carriers[rig->active].qp, n), n);
}

static void see(int n, uint64_t first)
{
	struct ibv_wc wc[MAX];

	assert_int_equal(rig_poll(rig, true, wc, n), n);
	for (int i = 0; i < n; i++) {
		assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
		if (!i)
			assert_int_equal(wc[i].wr_id, first);
	}
}

static void nothing_to_see(void)
{
	struct ibv_wc wc[MAX];

	assert_int_equal(rig_poll(rig, true, wc, MAX), 0);
}

/* The peer's NIC is dead: ours flushes all that is left. */
static void leave(void)
{
	struct fake_qp *qp = &rig->carriers[rig->active].qp;
	struct sp_flushed flushed;

	ENGINE->move.withhold(rig->sp);
	for (int i = 0; i < 2; i++) { /* the second time the hidden NOP that is posted on the way */
		fake_flush(qp, i ? MLX5_CQE_SYNDROME_WR_FLUSH_ERR
				 : MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
		assert_int_equal(ENGINE->cq.collect(rig->sp_scq), 0);
		assert_int_equal(ENGINE->cq.collect(rig->sp_rcq), 0);
		ENGINE->move.flushed(rig->sp, true, &flushed);
	}
	assert_true(flushed.sq);
	ENGINE->move.seal(rig->sp);
}

static uint32_t recall(enum sp_last_seen expected)
{
	enum sp_last_seen seen = expected ^ 1;

	assert_int_equal(ENGINE->move.recall(rig->sp, &seen), 0);
	assert_int_equal(seen, expected);
	return ENGINE->move.outstanding(rig->sp, info, MAX);
}

static uint32_t settle(uint32_t n, uint32_t delivered)
{
	uint32_t to = rig_standby(rig, geometry);
	struct sp_settled settled;
	enum sp_fate fates[MAX];

	assert_int_not_equal(to, 0);
	assert_int_equal(ENGINE->move.lay_receives(rig->sp, rig->carriers[to].sp), 0);
	for (uint32_t i = 0; i < n; i++)
		fates[i] = i < delivered ? SP_FATE_DELIVERED : SP_FATE_RESEND;
	assert_int_equal(ENGINE->move.settle(rig->sp, rig->carriers[to].sp, fates, n, &settled), 0);
	rig->active = to;
	return settled.resent;
}

/* -- what was not seen ------------------------------------------------------------------------- */

static void unseen_completions_are_taken_back(void **state)
{
	uint32_t n;

	post("WWWWWW");
	acknowledge(5);
	see(2, 1);
	leave();
	n = recall(SP_SEEN_UNPLACED);
	assert_int_equal(n, 4);
	nothing_to_see();
	assert_int_equal(recall(SP_SEEN_UNPLACED), 4);
	assert_int_equal(settle(n, 0), 4);
	acknowledge(4);
	see(4, 3);
	nothing_to_see();
}

static void unsignaled_ones_too(void **state)
{
	uint32_t n;

	post("wWwwwW");
	acknowledge(5);
	see(1, 2);
	leave();
	n = recall(SP_SEEN_UNPLACED);
	assert_int_equal(n, 4);
	assert_int_equal(settle(n, 1), 3);
	acknowledge(3);
	see(1, 6);
	nothing_to_see();
}

static void of_the_first_nothing_was_seen(void **state)
{
	post("www");
	acknowledge(3);
	leave();
	assert_int_equal(recall(SP_SEEN_SAFE), 3);
}

static void all_were_seen(void **state)
{
	post("wSW");
	acknowledge(3);
	see(2, 2);
	leave();
	assert_int_equal(recall(SP_SEEN_UNPLACED), 0);
}

/* Many times round the ring. */
static void ring_was_used_before(void **state)
{
	for (int lap = 0; lap < 40; lap++) {
		uint64_t first = next;

		post("wwWwW");
		acknowledge(5);
		see(2, first + 2);
	}
	post("wWw");
	acknowledge(2);
	leave();
	assert_int_equal(recall(SP_SEEN_UNPLACED), 3);
}

/* The slot of what was seen last is written over: nobody knows what it was. */
static void ring_is_full_of_unseen(void **state)
{
	post("S");
	acknowledge(1);
	see(1, 1);
	post("WWWWWWWWWWWWWWWW");
	acknowledge(3);
	leave();
	assert_int_equal(recall(SP_SEEN_UNPLACED), 16);
}

/* All is complete and unseen: the marker that proves the flush is laid over the oldest request. */
static void marker_in_a_full_ring(void **state)
{
	uint32_t n;

	post("S");
	acknowledge(1);
	see(1, 1);
	post("WWWWWWWWWWWWWWWW");
	acknowledge(16);
	leave();
	n = recall(SP_SEEN_UNPLACED);
	assert_int_equal(n, 16);
	nothing_to_see();
	assert_int_equal(recall(SP_SEEN_UNPLACED), 16);
	assert_int_equal(settle(n, 0), 16);
	acknowledge(16);
	see(16, 2);
	nothing_to_see();
}

/* The oldest one that was not seen has no completion of its own. */
static void marker_over_an_unsignaled_one(void **state)
{
	uint32_t n;

	post("W");
	acknowledge(1);
	see(1, 1);
	post("wwwwwwwwwwwwwwwW");
	acknowledge(16);
	leave();
	n = recall(SP_SEEN_UNPLACED);
	assert_int_equal(n, 16);
	assert_int_equal(settle(n, 0), 16);
	acknowledge(16);
	see(1, 17);
	nothing_to_see();
}

/* While it is withheld, the NOP that asks what is complete lies over one whose completion the application has not seen. */
static void question_in_a_full_ring(void **state)
{
	uint32_t n;

	post("W");
	acknowledge(1);
	see(1, 1);
	post("Wwwwwwwwwwwwwwww");
	acknowledge(1);
	assert_int_equal(ENGINE->cq.collect(rig->sp_scq), 0);
	ENGINE->move.withhold(rig->sp);
	acknowledge(16);
	leave();
	n = recall(SP_SEEN_UNPLACED);
	assert_int_equal(n, 16);
	assert_int_equal(info[0].signaled, true);
	assert_int_equal(settle(n, 0), 16);
	acknowledge(16);
	see(1, 2);
	nothing_to_see();
}

/* So does the NOP of a fence, and a fault comes before the switch. */
static void fence_in_a_full_ring(void **state)
{
	bool unrepeatable;
	uint32_t n;

	post("W");
	acknowledge(1);
	see(1, 1);
	post("Wwwwwwwwwwwwwwww");
	acknowledge(1);
	assert_int_equal(ENGINE->cq.collect(rig->sp_scq), 0);
	(void)ENGINE->move.fence(rig->sp, &unrepeatable);
	acknowledge(16);
	assert_int_equal(ENGINE->cq.collect(rig->sp_scq), 0);
	leave();
	n = recall(SP_SEEN_UNPLACED);
	assert_int_equal(n, 16);
	assert_int_equal(settle(n, 0), 16);
	acknowledge(16);
	see(1, 2);
	nothing_to_see();
}

/*
 * The fence was taken back and the application goes on behind its NOP: the oldest request is written over for good,
 * so it counts as one that was seen.
 */
static void what_is_written_over_counts_as_seen(void **state)
{
	bool unrepeatable;
	uint32_t n;

	post("Wwwwwwwwwwwwwww");
	acknowledge(1);
	assert_int_equal(ENGINE->cq.collect(rig->sp_scq), 0);
	assert_int_equal(ENGINE->move.fence(rig->sp, &unrepeatable), 0);
	acknowledge(15);
	assert_int_equal(ENGINE->cq.collect(rig->sp_scq), 0);
	assert_true(ENGINE->move.fenced(rig->sp));
	assert_int_equal(ENGINE->move.resume(rig->sp), 0);
	post("W");
	acknowledge(1);
	leave();
	n = recall(SP_SEEN_UNPLACED);
	assert_int_equal(n, 15);
	assert_int_equal(recall(SP_SEEN_UNPLACED), 15);
	see(1, 1);
	nothing_to_see();
	assert_int_equal(recall(SP_SEEN_UNPLACED), 15);
	assert_int_equal(settle(n, 0), 15);
	acknowledge(15);
	see(1, 16);
	nothing_to_see();
}

/* All that was posted is complete, by the fence's NOP, and the application goes on. */
static void fence_and_resume(void)
{
	bool unrepeatable;

	(void)ENGINE->move.fence(rig->sp, &unrepeatable);
	fake_run(&rig->carriers[rig->active].qp, MAX);
	assert_int_equal(ENGINE->cq.collect(rig->sp_scq), 0);
	assert_true(ENGINE->move.fenced(rig->sp));
	assert_int_equal(ENGINE->move.resume(rig->sp), 0);
}

/* NOPs among what comes again take no room of the application's. */
static void older_nops_take_no_room(void **state)
{
	uint32_t n;

	rig_delete(rig);
	make(&spare, false);
	post("www");
	fence_and_resume();
	post("www");
	fence_and_resume();
	post("w");
	fence_and_resume();
	leave();
	n = recall(SP_SEEN_SAFE);
	post("wwwwwwwwW");
	assert_int_not_equal(rig_send(rig, IBV_WR_RDMA_WRITE, next, SIG, 1), 0);
	assert_int_equal(settle(n, 0), 7);
	acknowledge(16);
	see(1, 16);
	nothing_to_see();
}

/*
 * Completions that were collected make room for posts that a queue of stock's would refuse. The next carrier has no
 * more room than the queue, so the oldest requests count as seen.
 */
static void no_more_comes_again_than_has_room(void **state)
{
	uint32_t n;

	post("WWWWWWWWWWWWWWWW");
	acknowledge(16);
	assert_int_equal(ENGINE->cq.collect(rig->sp_scq), 0);
	ENGINE->move.withhold(rig->sp);
	post("WWWWWWWWWW");
	leave();
	n = recall(SP_SEEN_UNPLACED);
	assert_int_equal(n, 16);
	assert_true(info[5].published);
	assert_false(info[6].published);
	assert_int_equal(settle(6, 0), 6);
	acknowledge(16);
	see(26, 1);
	nothing_to_see();
}

/* What an earlier move completed in software was settled by another count. */
static void completions_of_an_earlier_move_stay(void **state)
{
	uint32_t n;

	post("WSW");
	acknowledge(2);
	leave();
	n = ENGINE->move.outstanding(rig->sp, info, MAX);
	assert_int_equal(n, 1);
	settle(n, 1); /* two in the backlog of the old ring, one made */
	post("WW");
	acknowledge(1);
	leave();
	assert_int_equal(recall(SP_SEEN_SAFE), 2);
	see(3, 1);
	nothing_to_see();
}

/* -- what was seen ----------------------------------------------------------------------------- */

static void counted_or_read_is_safe(void **state)
{
	post("WS");
	acknowledge(2);
	see(2, 1);
	leave();
	assert_int_equal(recall(SP_SEEN_SAFE), 0);
	settle(0, 0);
	post("WR");
	acknowledge(2);
	see(2, 3);
	leave();
	assert_int_equal(recall(SP_SEEN_SAFE), 0);
	settle(0, 0);
	post("RW");
	acknowledge(2);
	see(2, 5);
	leave();
	assert_int_equal(recall(SP_SEEN_UNPLACED), 0);
}

static void nothing_was_moved(void **state)
{
	post("SZ");
	acknowledge(2);
	see(2, 1);
	leave();
	assert_int_equal(recall(SP_SEEN_SAFE), 0);
}

static void answered_reads_are_known(void **state)
{
	post("wRr");
	acknowledge(2);
	leave();
	assert_int_equal(recall(SP_SEEN_SAFE), 3);
	assert_false(info[0].answered);
	assert_true(info[1].answered);
	assert_false(info[2].answered);
}

/* -- only WRITEs ------------------------------------------------------------------------------- */

static void first_other_request_is_refused(void **state)
{
	post("WW");
	acknowledge(2);
	see(1, 1);
	leave();
	assert_int_equal(recall(SP_SEEN_UNPLACED), 1);
	post("W"); /* in mid-move */
	ENGINE->move.writes_only(rig->sp);
	settle(1, 0);
	acknowledge(2);
	see(2, 2);
	post("wW");
	acknowledge(2);
	see(1, 5);
	assert_int_equal(fake_events.keys, 0);
	post("SW");
	assert_int_equal(fake_events.keys, 1);
	assert_int_equal(fake_published(&rig->carriers[rig->active].qp), 0);
	assert_int_equal(ENGINE->move.publish(rig->sp), -EPROTO);
	assert_int_equal(fake_published(&rig->carriers[rig->active].qp), 0);
}

static void withheld_other_request_is_refused(void **state)
{
	post("W");
	acknowledge(1);
	see(1, 1);
	leave();
	assert_int_equal(recall(SP_SEEN_UNPLACED), 0);
	post("WRW");
	ENGINE->move.writes_only(rig->sp);
	settle(0, 0);
	assert_int_equal(fake_published(&rig->carriers[rig->active].qp), 1);
	assert_int_equal(fake_events.keys, 1);
	assert_int_equal(ENGINE->move.publish(rig->sp), -EPROTO);
}

int main(void)
{
#define TEST(f)                                                                                    \
	cmocka_unit_test_setup_teardown(f, setup, teardown),                                       \
		cmocka_unit_test_setup_teardown(f, setup_ex, teardown)
	const struct CMUnitTest tests[] = {
		TEST(unseen_completions_are_taken_back),
		TEST(unsignaled_ones_too),
		TEST(of_the_first_nothing_was_seen),
		TEST(all_were_seen),
		TEST(ring_was_used_before),
		TEST(ring_is_full_of_unseen),
		TEST(marker_in_a_full_ring),
		TEST(marker_over_an_unsignaled_one),
		TEST(question_in_a_full_ring),
		TEST(fence_in_a_full_ring),
		TEST(what_is_written_over_counts_as_seen),
		TEST(no_more_comes_again_than_has_room),
		TEST(older_nops_take_no_room),
		TEST(completions_of_an_earlier_move_stay),
		TEST(counted_or_read_is_safe),
		TEST(nothing_was_moved),
		TEST(answered_reads_are_known),
		TEST(first_other_request_is_refused),
		TEST(withheld_other_request_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
