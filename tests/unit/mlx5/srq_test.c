/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Shared receive queues whose receives go from ring to ring. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "providers/mlx5/carrier.h"
#include "providers/mlx5/libmlx5.h"
#include "providers/mlx5/post.h"
#include "providers/mlx5/qp.h"
#include "providers/mlx5/srq.h"
#include "tests/lib/mlx5_fake.h"

enum { SLOTS = 64, SGES = 3, STRIDE = 16 * (SGES + 1), PATIENCE = 1000 };

#define ENGINE	 (&shift_provider_mlx5)
#define BAD_LKEY 0x12345

struct fake_srq {
	struct ibv_srq ibv;
	uint8_t buf[SLOTS * STRIDE];
	__be32 db;
};

static struct fake_dev app_dev, other_dev;
static struct fake_srq app_srq, other_srq;
static struct sp_srq *srq;
static struct sp_srq_ring *other;
static struct sp_carrier user; /* as far as a ring sees one */

static int init_obj(struct mlx5dv_obj *obj, uint64_t type)
{
	struct fake_srq *in = (struct fake_srq *)obj->srq.in;

	assert_int_equal(type, MLX5DV_OBJ_SRQ);
	for (uint16_t i = 0; i < SLOTS; i++)
		((struct mlx5_wqe_srq_next_seg *)(in->buf + i * STRIDE))->next_wqe_index =
			htobe16(i + 1);
	*obj->srq.out = (struct mlx5dv_srq){
		.buf = in->buf, .dbrec = &in->db, .stride = STRIDE, .head = 0, .tail = SLOTS - 1
	};
	return 0;
}

static void srq_make(struct fake_dev *dev, struct fake_srq *fake)
{
	memset(fake, 0, sizeof(*fake));
	fake->ibv.context = &dev->verbs.context;
	fake->ibv.handle = 7;
}

static int setup(void **state)
{
	fake_reset();
	memset(&user, 0, sizeof(user));
	fake_dev_make(&app_dev, true);
	fake_dev_make(&other_dev, false);
	ring_init_obj_override(init_obj);
	srq_make(&app_dev, &app_srq);
	srq_make(&other_dev, &other_srq);
	if (ENGINE->srq.drive(app_dev.sp, &app_srq.ibv, NULL, NULL, &srq) ||
	    ENGINE->srq.ring_add(srq, other_dev.sp, &other_srq.ibv, NULL, 1, &other))
		return -1;
	return 0;
}

static int teardown(void **state)
{
	ENGINE->srq.undrive(srq);
	fake_dev_free(&other_dev);
	fake_dev_free(&app_dev);
	return 0;
}

static void post(uint64_t id, uint32_t lkey)
{
	struct ibv_sge sge = { id, 8, lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	assert_int_equal(ring_post_srq_recv(&app_srq.ibv, &wr, &bad), 0);
}

/* A queue pair takes from the other ring, and nobody from the application's own. */
static void join_other(void)
{
	user.srq = other;
	ring_srq_join(&user);
}

static const struct mlx5_wqe_data_seg *seg_of(const struct fake_srq *fake, uint32_t slot)
{
	return (const struct mlx5_wqe_data_seg *)(fake->buf + slot * STRIDE + 16);
}

/* What the n receives of the other ring are, as its NIC sees them. */
static void expect(uint32_t slot, uint64_t id, uint32_t lkey)
{
	assert_int_equal(be64toh(seg_of(&other_srq, slot)->addr), id);
	assert_int_equal(be32toh(seg_of(&other_srq, slot)->lkey), lkey);
}

static uint32_t published(void)
{
	return be32toh(other_srq.db);
}

static void complete(uint32_t slot)
{
	struct mlx5_cqe64 cqe = { .op_own = MLX5_CQE_RESP_SEND << 4,
				  .wqe_counter = htobe16((uint16_t)slot) };
	uint64_t id;

	user.srq = &srq->own;
	assert_int_equal(ring_srq_take(&user, &cqe, &id), IBV_WC_SUCCESS);
}

/* Whatever was completed in between, the oldest comes first in the other ring. */
static void recovered_in_the_order_of_posting(void **state)
{
	uint64_t id = 1000;
	uint32_t i;

	for (i = 0; i < SLOTS - 1; i++)
		post(id++, FAKE_LKEY);
	for (i = 0; i < SLOTS - 1; i += 3)
		complete(i);
	for (i = 0; i < SLOTS - 1; i += 3)
		post(id++, FAKE_LKEY);
	assert_int_equal(ENGINE->srq.recover(ENGINE->srq.own(srq)), SLOTS - 1);
	join_other();
	assert_int_equal(published(), SLOTS - 1);
	for (i = 1, id = 1000; i < SLOTS - 1; i++)
		assert_true(be64toh(seg_of(&other_srq, i)->addr) >
			    be64toh(seg_of(&other_srq, i - 1)->addr));
}

static bool in_use(uint32_t key)
{
	static struct sp_qp qp;
	struct sp_key keys[SLOTS];
	uint32_t n, turn;

	qp.srq = srq;
	for (turn = 0; turn < SLOTS; turn++) {
		n = ENGINE->qp.keys(&qp, false, turn, keys, SLOTS);
		while (n--)
			if (keys[n].key == key && !keys[n].remote)
				return true;
	}
	return false;
}

/* The application's keys, in whatever ring the receives are; not of those that are done. */
static void keys_that_are_in_use(void **state)
{
	post(1000, FAKE_LKEY);
	post(1001, BAD_LKEY);
	assert_true(in_use(BAD_LKEY));
	complete(1);
	assert_false(in_use(BAD_LKEY));
	assert_int_equal(ENGINE->srq.recover(ENGINE->srq.own(srq)), 1);
	join_other();
	assert_int_equal(published(), 1);
	assert_true(in_use(FAKE_LKEY));
}

/* One whose key is missing keeps nobody behind it from the ring. */
static void missing_key_holds_up_its_own_receive_only(void **state)
{
	join_other();
	post(16, BAD_LKEY);
	post(32, FAKE_LKEY);
	post(48, FAKE_LKEY);
	assert_int_equal(published(), 2);
	expect(0, 32, FAKE_LKEY + FAKE_KEY_STEP);
	expect(1, 48, FAKE_LKEY + FAKE_KEY_STEP);
	assert_int_equal(fake_events.keys, 1); /* the shell is told once */
	assert_int_equal(ENGINE->srq.feed(srq, 1, PATIENCE), -ENOENT);
	assert_int_equal(published(), 2);
}

/* A key that never comes names no memory: neither may one that is another's there. */
static void key_that_never_comes_is_none(void **state)
{
	join_other();
	post(16, BAD_LKEY);
	assert_int_equal(ENGINE->srq.feed(srq, 1, PATIENCE), -ENOENT);
	post(32, BAD_LKEY);
	assert_int_equal(ENGINE->srq.feed(srq, PATIENCE, PATIENCE), -ENOENT);
	assert_int_equal(published(), 0);
	assert_int_equal(ENGINE->srq.feed(srq, PATIENCE + 1, PATIENCE), -ENOENT);
	assert_int_equal(published(), 1);
	expect(0, 16, UINT32_MAX);
	assert_int_equal(ENGINE->srq.feed(srq, 2 * PATIENCE, PATIENCE), 0);
	assert_int_equal(published(), 2);
	expect(1, 32, UINT32_MAX);
}

static void key_that_comes_late_is_used(void **state)
{
	join_other();
	fake_keys_missing = true;
	post(16, FAKE_LKEY);
	assert_int_equal(ENGINE->srq.feed(srq, 1, PATIENCE), -ENOENT);
	fake_keys_missing = false;
	assert_int_equal(ENGINE->srq.feed(srq, 10 * PATIENCE, PATIENCE), 0);
	assert_int_equal(published(), 1);
	expect(0, 16, FAKE_LKEY + FAKE_KEY_STEP);
	fake_keys_missing = true;
	post(32, FAKE_LKEY);
	assert_int_equal(fake_events.keys, 2); /* told again */
}

/* The NIC's own word may still be on its way, and is not passed on from then on. */
static void limit_reached_before_the_move_is_told_once(void **state)
{
	struct sp_srq_state now;

	for (uint64_t id = 0; id < 4; id++)
		post(id, FAKE_LKEY);
	ENGINE->srq.limit(srq, 3);
	complete(0);
	complete(1);
	assert_int_equal(fake_events.events, 0); /* so far it is the NIC's to tell */
	join_other();
	assert_int_equal(fake_events.events, 1);
	complete(2);
	assert_int_equal(fake_events.events, 1);
	ENGINE->srq.query(ENGINE->srq.own(srq), &now);
	assert_int_equal(now.limit, 0);
}

static uint32_t in_own(void)
{
	struct sp_srq_state now;

	ENGINE->srq.query(ENGINE->srq.own(srq), &now);
	return now.receives;
}

/* A queue pair that nobody moves stays on the application's own ring, and another is on the other one. */
static void a_ring_that_rests_gets_no_receives(void **state)
{
	static struct sp_carrier stays;
	uint32_t n;

	memset(&stays, 0, sizeof(stays));
	stays.srq = &srq->own;
	ring_srq_join(&stays);
	join_other();
	ENGINE->srq.rest(ENGINE->srq.own(srq), true);
	for (uint64_t id = 16; id < 20; id++)
		post(id, FAKE_LKEY);
	assert_int_equal(published(), 4);
	assert_int_equal(in_own(), 0);
	assert_null(ENGINE->srq.share(srq, &n));
	ENGINE->srq.rest(ENGINE->srq.own(srq), false);
	post(20, FAKE_LKEY);
	assert_int_equal(in_own(), 1);
	ENGINE->srq.rest(ENGINE->srq.own(srq), true);
	ENGINE->srq.rest(other, true); /* nothing comes anywhere: both as before */
	post(21, FAKE_LKEY);
	assert_int_equal(in_own(), 2);
	assert_int_equal(ENGINE->srq.recover(ENGINE->srq.own(srq)),
			 2); /* its NIC is dead: its user does not hinder */
	assert_int_equal(published(), 6);
	ring_srq_leave(&stays);
}

/* ---- fewer receives than rings -------------------------------------------------------------- */

static struct sp_carrier stays; /* on the application's own ring */

static void join_both(void)
{
	memset(&stays, 0, sizeof(stays));
	stays.srq = &srq->own;
	ring_srq_join(&stays);
	join_other();
}

static uint32_t in_ring(struct sp_srq_ring *ring)
{
	struct sp_srq_state now;

	ENGINE->srq.query(ring, &now);
	return now.receives;
}

/* As a reclaim QP does with what it took; as the last posted one is the only one, its slot is the one before the head. */
static void taken_back(struct sp_carrier *c, uint32_t slot)
{
	struct mlx5_cqe64 cqe = { .op_own = MLX5_CQE_RESP_SEND << 4,
				  .wqe_counter = htobe16((uint16_t)slot) };

	ring_srq_give_back(c, &cqe);
}

static void one_receive_visits_each_ring(void **state)
{
	struct sp_srq_ring *own = &srq->own;
	uint32_t taken;

	join_both();
	assert_null(ENGINE->srq.starving(srq, &taken)); /* nobody has anything */
	post(16, FAKE_LKEY);
	assert_int_equal(fake_events.keys, 1); /* the shell is told, once */
	for (uint32_t turn = 0; turn < 3; turn++) {
		assert_int_equal(in_ring(own), 1);
		assert_ptr_equal(ENGINE->srq.starving(srq, &taken), own);
		taken_back(&stays, turn);
		assert_int_equal(in_ring(own), 0);
		assert_int_equal(in_ring(other), 1);
		assert_ptr_equal(ENGINE->srq.starving(srq, &taken), other);
		taken_back(&user, turn);
	}
	assert_int_equal(taken, 0);
	assert_int_equal(fake_events.keys, 1);
	ring_srq_leave(&stays);
}

/* What is posted goes where the program got the last one. */
static void one_receive_stays_with_its_traffic(void **state)
{
	uint32_t taken;

	join_both();
	post(16, FAKE_LKEY);
	taken_back(&stays, 0);
	assert_int_equal(in_ring(other), 1);
	taken_back(&user, 0);
	for (uint32_t turn = 1; turn < 4; turn++) {
		assert_int_equal(in_ring(&srq->own), 1);
		complete(turn);
		post(16, FAKE_LKEY);
	}
	assert_ptr_equal(ENGINE->srq.starving(srq, &taken), &srq->own);
	assert_int_equal(taken, 3);
	complete(4);
	assert_null(ENGINE->srq.starving(srq, &taken)); /* the program has it */
	post(16, FAKE_LKEY);
	assert_int_equal(fake_events.keys, 2); /* told again */
	ring_srq_leave(&stays);
}

/* Two for two rings: each has one. Of six where one user is among twenty others, one stays. */
static void the_last_receive_is_no_surplus(void **state)
{
	uint32_t taken, n;

	join_both();
	other->users = 20;
	for (uint64_t id = 0; id < 2; id++)
		post(id, FAKE_LKEY);
	assert_int_equal(in_ring(&srq->own), 1);
	assert_int_equal(in_ring(other), 1);
	assert_null(ENGINE->srq.share(srq, &n));
	assert_null(ENGINE->srq.starving(srq, &taken));
	other->users = 0;
	for (uint64_t id = 2; id < 7; id++)
		post(id, FAKE_LKEY);
	other->users = 20;
	assert_ptr_equal(ENGINE->srq.share(srq, &n), &srq->own);
	assert_int_equal(n, 5);
	ring_srq_leave(&stays);
}

/* ---- a ring that was given up --------------------------------------------------------------- */

static void left_ring_is_used_again_when_its_nic_has_nothing(void **state)
{
	struct sp_srq_ring *own = &srq->own;
	struct sp_srq_state now;
	uint32_t i;

	for (uint64_t id = 16; id < 19; id++)
		post(id, FAKE_LKEY);
	complete(0);
	assert_int_equal(ENGINE->srq.recover(own), 2);
	ENGINE->srq.query(own, &now);
	assert_int_equal(now.stale, 2);
	memset(&stays, 0, sizeof(stays));
	stays.srq = own;
	taken_back(&stays, 1);
	taken_back(&stays, 1); /* of no slot that is stale */
	assert_int_equal(ENGINE->srq.renew(own), -EBUSY);
	taken_back(&stays, 2);
	assert_int_equal(ENGINE->srq.renew(own), 0);
	ring_srq_join(&stays);
	for (i = 2; i < SLOTS - 1; i++) /* the two wait in the pool until now */
		post(i, FAKE_LKEY);
	assert_int_equal(in_ring(own), SLOTS - 1);
	assert_int_equal(be32toh(app_srq.db), 3 + SLOTS - 1);
	ring_srq_leave(&stays);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(recovered_in_the_order_of_posting),
		TEST(keys_that_are_in_use),
		TEST(missing_key_holds_up_its_own_receive_only),
		TEST(key_that_never_comes_is_none),
		TEST(key_that_comes_late_is_used),
		TEST(a_ring_that_rests_gets_no_receives),
		TEST(limit_reached_before_the_move_is_told_once),
		TEST(one_receive_visits_each_ring),
		TEST(one_receive_stays_with_its_traffic),
		TEST(the_last_receive_is_no_surplus),
		TEST(left_ring_is_used_again_when_its_nic_has_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
