/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Which rings of a CQ are polled and armed, and whose slots are given back, before and after moves.
 * engine_poll_test [rounds]: of the races of arming; a missing fence shows in most runs of 200000.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "providers/mlx5/cq.h"
#include "tests/lib/mlx5_rig.h"

static const struct fake_geometry geometry = { 16, 16, 4, 16, 4, false };
static struct rig *rig;
/* A second QP of the same CQs. */
static struct fake_qp other;
static struct sp_qp *other_sp;

static int setup_with(bool ex)
{
	const char *why;

	rig = rig_new(&geometry, 64, ex);
	fake_qp_make(&rig->dev, &other, &rig->scq, &rig->rcq, &geometry);
	return ENGINE->qp.drive(rig->dev.sp, fake_ibv(&other), &other.attr, rig->sp_scq,
				rig->sp_rcq, rig, &other_sp, &why);
}

static int setup(void **state)
{
	return setup_with(false);
}

static int setup_ex(void **state)
{
	return setup_with(true);
}

static void other_goes(void)
{
	if (other_sp)
		ENGINE->qp.undrive(other_sp);
	other_sp = NULL;
}

static int teardown(void **state)
{
	other_goes();
	fake_qp_free(&other);
	rig_delete(rig);
	return 0;
}

static void move(void)
{
	uint32_t old = rig->active;

	assert_int_equal(rig_move(rig, &geometry), 0);
	if (old)
		rig_drop(rig, old);
}

static void send_n(uint64_t first, int n)
{
	for (int i = 0; i < n; i++)
		assert_int_equal(
			rig_send(rig, IBV_WR_RDMA_WRITE, first + (uint64_t)i, IBV_SEND_SIGNALED, 1),
			0);
	assert_int_equal(fake_run(rig_active(rig), 64), n);
}

static void send_other(uint64_t id)
{
	struct ibv_sge sge = { id, 8, fake_lkey(id) };
	struct ibv_send_wr wr = { .wr_id = id,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED,
				  .sg_list = &sge,
				  .num_sge = 1 },
			   *bad;

	assert_int_equal(ibv_post_send(fake_ibv(&other), &wr, &bad), 0);
	assert_int_equal(fake_run(&other, 1), 1);
}

static void expect(uint64_t first, int n)
{
	struct ibv_wc wc[64];

	assert_int_equal(rig_poll(rig, true, wc, 64), n);
	for (int i = 0; i < n; i++) {
		assert_int_equal(wc[i].wr_id, first + (uint64_t)i);
		assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
	}
}

static uint32_t given_back(const struct fake_cq *cq)
{
	return be32toh(cq->db[0]);
}

static void only_the_ring_in_use_is_polled(void **state)
{
	struct sp_cq *cq = rig->sp_scq;

	other_goes();
	assert_ptr_equal(cq->active, &cq->ring);
	assert_false(cq->more);
	send_n(1, 3);
	expect(1, 3);
	assert_int_equal(given_back(&rig->scq), 3);
	for (int i = 0; i < 4; i++) {
		move();
		assert_ptr_equal(cq->active, rig->nics[0].ring_s);
		assert_ptr_equal(rig->sp_rcq->active, rig->nics[0].ring_r);
		assert_false(cq->more);
		send_n(10, 5);
		expect(10, 5);
		assert_int_equal(given_back(&rig->nics[0].shadow_s), 5 * (i + 1));
	}
}

/* One QP moved, the other did not. */
static void both_rings_are_polled(void **state)
{
	struct ibv_wc wc[4];

	move();
	assert_true(rig->sp_scq->more);
	send_n(1, 1);
	send_other(2);
	assert_int_equal(rig_poll(rig, true, wc, 4), 2);
	assert_int_equal(wc[0].wr_id + wc[1].wr_id, 3);
	assert_int_equal(given_back(&rig->scq), 1);
	assert_int_equal(given_back(&rig->nics[0].shadow_s), 1);
	other_goes();
	assert_false(rig->sp_scq->more);
	assert_ptr_equal(rig->sp_scq->active, rig->nics[0].ring_s);
	send_n(5, 2);
	expect(5, 2);
}

/* What a left carrier still says lies in a ring that nobody polls, until it is needed again. */
static void leavings_are_cleared_away(void **state)
{
	const char *why;

	other_goes();
	send_n(1, 2);
	expect(1, 2);
	assert_int_equal(rig_send(rig, IBV_WR_RDMA_WRITE, 3, IBV_SEND_SIGNALED, 1), 0);
	assert_int_equal(fake_run(rig->app, 1), 1); /* seen by nobody when it is left */
	ENGINE->move.withhold(rig->sp);
	ENGINE->move.seal(rig->sp);
	{
		enum sp_fate fate = SP_FATE_RESEND;
		struct sp_settled settled;
		uint32_t to = rig_standby(rig, &geometry);

		assert_int_equal(ENGINE->move.lay_receives(rig->sp, rig->carriers[to].sp), 0);
		assert_int_equal(
			ENGINE->move.settle(rig->sp, rig->carriers[to].sp, &fate, 1, &settled), 0);
		rig->active = to;
	}
	assert_int_equal(given_back(&rig->scq), 3);
	fake_flush(rig->app, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	assert_int_equal(fake_run(rig_active(rig), 4), 1);
	expect(3, 1);
	/* a new QP brings the ring back to life */
	fake_qp_free(&other);
	fake_qp_make(&rig->dev, &other, &rig->scq, &rig->rcq, &geometry);
	assert_int_equal(ENGINE->qp.drive(rig->dev.sp, fake_ibv(&other), &other.attr, rig->sp_scq,
					  rig->sp_rcq, rig, &other_sp, &why),
			 0);
	assert_true(rig->sp_scq->more);
	send_other(7);
	expect(7, 1);
}

/* A completion that is looked at while its ring stops being the one that is polled. */
static void slots_of_a_left_ring_are_given_back(void **state)
{
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_cq_ex *cq = &rig->scq.ex;

	other_goes();
	send_n(1, 2);
	assert_int_equal(ibv_start_poll(cq, &attr), 0);
	assert_int_equal(cq->wr_id, 1);
	assert_int_equal(ibv_next_poll(cq), 0);
	move();
	assert_int_equal(given_back(&rig->scq), 0);
	assert_int_equal(ibv_wc_read_opcode(cq), IBV_WC_RDMA_WRITE);
	assert_int_equal(ibv_wc_read_qp_num(cq), fake_ibv(rig->app)->qp_num);
	send_n(3, 1);
	assert_int_equal(ibv_next_poll(cq), 0);
	assert_int_equal(cq->wr_id, 3);
	ibv_end_poll(cq);
	assert_int_equal(given_back(&rig->scq), 2);
	assert_int_equal(given_back(&rig->nics[0].shadow_s), 1);
}

/* The shadow's ring is written again, and gone, while its completion is looked at. */
static void completions_of_shadows_are_copies(void **state)
{
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_cq_ex *cq = &rig->scq.ex;

	other_goes();
	move();
	send_n(1, 1);
	assert_int_equal(ibv_start_poll(cq, &attr), 0);
	memset(rig->nics[0].shadow_s.buf, 0xee, 64);
	assert_int_equal(ibv_wc_read_opcode(cq), IBV_WC_RDMA_WRITE);
	assert_int_equal(ibv_wc_read_qp_num(cq), fake_ibv(rig->app)->qp_num);
	ibv_end_poll(cq);
}

/* Drained from under somebody who holds a completion: all slots come back with end_poll. */
static void drain_under_a_held_completion_owes(void **state)
{
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_cq_ex *cq = &rig->scq.ex;

	move();
	send_n(1, 1);
	send_other(2);
	assert_int_equal(ibv_start_poll(cq, &attr), 0);
	assert_int_equal(ENGINE->cq.collect(rig->sp_scq), 0);
	assert_int_equal(given_back(&rig->scq), 0);
	ibv_end_poll(cq);
	assert_int_equal(given_back(&rig->scq), 1);
	assert_int_equal(given_back(&rig->nics[0].shadow_s), 1);
	assert_int_equal(ibv_start_poll(cq, &attr), 0);
	ibv_end_poll(cq);
}

/*
 * UCX makes its CQs by ibv_create_cq_ex and polls them by ibv_poll_cq: they take the short way,
 * unless a completion is held.
 */
static void extended_queues_are_polled_the_short_way(void **state)
{
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_cq_ex *cq = &rig->scq.ex;
	struct ibv_wc wc[4];

	other_goes();
	assert_false(rig->sp_scq->long_way);
	send_n(1, 3);
	assert_int_equal(ibv_start_poll(cq, &attr), 0);
	assert_true(rig->sp_scq->long_way);
	assert_int_equal(ibv_poll_cq(ibv_cq_ex_to_cq(cq), 4, wc), 2);
	assert_int_equal(wc[0].wr_id, 2);
	assert_int_equal(wc[1].wr_id, 3);
	assert_int_equal(given_back(&rig->scq), 0);
	assert_int_equal(cq->wr_id, 1);
	assert_int_equal(ibv_wc_read_opcode(cq), IBV_WC_RDMA_WRITE);
	ibv_end_poll(cq);
	assert_int_equal(given_back(&rig->scq), 3);
	assert_false(rig->sp_scq->long_way);
	send_n(4, 2);
	assert_int_equal(ibv_poll_cq(ibv_cq_ex_to_cq(cq), 4, wc), 2);
	assert_int_equal(wc[0].wr_id, 4);
	assert_int_equal(given_back(&rig->scq), 5);
}

/* -- errors that go to the application while another thread posts ----------------------------- */

enum {
	ERRORS = 2000,
};

static void *post_into_each_place(void *arg)
{
	for (uint64_t id = 1; id <= ERRORS;)
		if (rig_send(rig, IBV_WR_RDMA_WRITE, id, IBV_SEND_SIGNALED, 1))
			sched_yield();
		else
			id++;
	return NULL;
}

/*
 * Once the tail has moved, the place is another request's: what it held must have been read before.
 * ThreadSanitizer sees it if not.
 */
static void errors_pass_while_somebody_posts(void **state)
{
	struct ibv_wc wc[16];
	uint64_t last = 0;
	pthread_t poster;
	int n;

	assert_int_equal(pthread_create(&poster, NULL, post_into_each_place, NULL), 0);
	while (last < ERRORS) {
		fake_flush(rig->app, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
		n = rig_poll(rig, true, wc, 16);
		for (int i = 0; i < n; i++) {
			assert_int_equal(wc[i].status, IBV_WC_WR_FLUSH_ERR);
			assert_int_equal(wc[i].wr_id, ++last);
		}
		if (!n)
			sched_yield();
	}
	pthread_join(poster, NULL);
}

/* -- arming ----------------------------------------------------------------------------------- */

/* What was last written to the arm register: the arm word, or ~0 since the last call. */
static uint32_t armed(struct fake_cq *cq)
{
	uint64_t *reg = &cq->uar[MLX5_CQ_DOORBELL / 8];
	uint64_t value = __atomic_exchange_n(reg, UINT64_MAX, __ATOMIC_RELAXED);

	return be64toh(value) >> 32;
}

static void arm(int solicited_only)
{
	assert_int_equal(ibv_req_notify_cq(fake_ibv_cq(&rig->scq), solicited_only), 0);
}

static void the_ring_in_use_is_armed(void **state)
{
	struct fake_cq *shadow = &rig->nics[0].shadow_s;

	other_goes();
	arm(0);
	assert_int_equal(armed(&rig->scq), 0);
	/* who waits goes on waiting, on the new ring */
	(void)armed(shadow);
	move();
	assert_int_equal(armed(shadow), 0);
	assert_int_equal(armed(&rig->scq), UINT32_MAX);
	send_n(1, 1);
	expect(1, 1);
	arm(1);
	assert_int_equal(armed(shadow), 1 | MLX5_CQ_DB_REQ_NOT_SOL);
	assert_int_equal(armed(&rig->scq), UINT32_MAX);
	ENGINE->cq.event_read(rig->nics[0].ring_s);
	arm(0);
	assert_int_equal(armed(shadow), 1 | 1u << 28);
}

static void both_rings_are_armed(void **state)
{
	(void)armed(&rig->nics[0].shadow_s);
	move();
	assert_int_equal(armed(&rig->nics[0].shadow_s), UINT32_MAX); /* nobody waits */
	arm(1);
	assert_int_equal(armed(&rig->scq), MLX5_CQ_DB_REQ_NOT_SOL);
	assert_int_equal(armed(&rig->nics[0].shadow_s), MLX5_CQ_DB_REQ_NOT_SOL);
	for (uint32_t i = 1; i < 6; i++) {
		ENGINE->cq.event_read(ENGINE->cq.own_ring(rig->sp_scq));
		arm(0);
		assert_int_equal(armed(&rig->scq), (i & 3) << 28);
		assert_int_equal(armed(&rig->nics[0].shadow_s), 0);
	}
}

/*
 * Two threads meet, again and again, and act at once. They spin, or one would be awake long before
 * the other; where there is one CPU for both they give it away.
 */
static _Atomic uint32_t begun, done;
static uint32_t rounds = 20000;

static void await(_Atomic uint32_t *count, uint32_t value)
{
	for (uint32_t spins = 1; atomic_load(count) != value; spins++)
		if (spins % 4096 == 0)
			sched_yield();
}

static void *arm_when_begun(void *times)
{
	for (uint32_t i = 1; i <= (uintptr_t)times; i++) {
		await(&begun, i);
		ibv_req_notify_cq(fake_ibv_cq(&rig->scq), 0);
		atomic_store(&done, i);
	}
	return NULL;
}

static void race_arming(uint32_t times, void (*before)(void), void (*against)(void),
			void (*after)(void))
{
	pthread_t thread;

	begun = done = 0;
	assert_int_equal(pthread_create(&thread, NULL, arm_when_begun, (void *)(uintptr_t)times),
			 0);
	for (uint32_t i = 1; i <= times; i++) {
		before();
		atomic_store(&begun, i);
		/* which of both is quicker differs */
		for (volatile uint32_t wait = 0; wait < i % 256; wait++)
			;
		against();
		await(&done, i);
		after();
	}
	pthread_join(thread, NULL);
}

static void one_lies_in_the_ring(void)
{
	send_n(1, 1);
	ENGINE->cq.event_read(ENGINE->cq.own_ring(rig->sp_scq)); /* not armed */
	fake_events.events = 0;
	fake_log.n = 0;
}

static void drain_it(void)
{
	assert_int_equal(ENGINE->cq.collect(rig->sp_scq), 0);
}

static void somebody_is_woken(void)
{
	assert_true(fake_events.events); /* twice, if it came in between */
	expect(1, 1);
}

/* The NIC tells nobody of a completion that a drain took: who arms at that moment must be woken. */
static void arming_races_with_a_drain(void **state)
{
	other_goes();
	race_arming(rounds, one_lies_in_the_ring, drain_it, somebody_is_woken);
}

static uint32_t next;

static void a_standby_is_ready(void)
{
	ENGINE->cq.event_read(ENGINE->cq.own_ring(rig->sp_scq)); /* not armed */
	next = rig_standby(rig, &geometry);
	ENGINE->move.withhold(rig->sp);
	ENGINE->move.seal(rig->sp);
	assert_int_equal(ENGINE->move.lay_receives(rig->sp, rig->carriers[next].sp), 0);
	(void)armed(&rig->nics[0].shadow_s);
}

static void go_there(void)
{
	struct sp_settled settled;

	assert_int_equal(ENGINE->move.settle(rig->sp, rig->carriers[next].sp, NULL, 0, &settled),
			 0);
}

/* And back to its own ring, as the application can do it. */
static void the_new_ring_is_armed(void)
{
	assert_int_equal(armed(&rig->nics[0].shadow_s), 0);
	ENGINE->qp.modified(rig->sp, IBV_QPS_RESET);
	rig_drop(rig, next);
	assert_ptr_equal(rig->sp_scq->active, &rig->sp_scq->ring);
	assert_false(rig->sp_scq->more);
}

static void arming_races_with_a_move(void **state)
{
	other_goes();
	race_arming(RIG_CARRIERS - 2, a_standby_is_ready, go_there, the_new_ring_is_armed);
}

static uint32_t events_read;

static void nothing(void)
{
}

/* The NIC obeys the record it finds when the register is written, and no number that it has told of. */
static void an_event_is_read_and_armed_again(void)
{
	ENGINE->cq.event_read(ENGINE->cq.own_ring(rig->sp_scq));
	events_read++;
	arm(0);
}

static void the_last_number_is_armed(void)
{
	uint32_t word = be32toh(__atomic_load_n(&rig->scq.db[1], __ATOMIC_ACQUIRE));

	assert_int_equal(word >> 28 & 3, events_read & 3);
}

/*
 * A thread that another event of the same CQ has woken (another ring's, or one of the backlog) arms at that
 * moment: with the number from before, it would undo what the reader of this one arms.
 */
static void race_with_events(void)
{
	events_read = 0;
	arm(0);
	race_arming(rounds, nothing, an_event_is_read_and_armed_again, the_last_number_is_armed);
}

static void arming_races_with_an_event(void **state)
{
	other_goes();
	race_with_events();
}

static void arming_of_both_rings_races_with_an_event(void **state)
{
	move();
	assert_true(rig->sp_scq->more);
	race_with_events();
}

static _Atomic bool arming, arm_on;

static void *arm_all_the_time(void *arg)
{
	arming = true;
	for (int i = 0; arm_on; i++) {
		arm(i % 2);
		ENGINE->cq.event_read(ENGINE->cq.own_ring(rig->sp_scq));
	}
	return NULL;
}

/* The shadow CQ of an incarnation, from the move there to the end of it. */
static void a_ring_comes_and_goes(void)
{
	struct fake_cq *shadow = calloc(1, sizeof(*shadow));
	struct rig_nic *nic = &rig->nics[0];
	struct sp_cq_ring *before = nic->ring_s;

	assert_non_null(shadow);
	fake_cq_make(&nic->dev, shadow, 4096, 64);
	assert_int_equal(
		ENGINE->cq.ring_add(rig->sp_scq, nic->dev.sp, fake_ibv_cq(shadow), &nic->ring_s),
		0);
	a_standby_is_ready();
	(void)armed(shadow);
	go_there();
	assert_ptr_equal(rig->sp_scq->active, nic->ring_s);
	while (armed(shadow) == UINT32_MAX)
		sched_yield();
	ENGINE->qp.modified(rig->sp, IBV_QPS_RESET);
	rig_drop(rig, next);
	ENGINE->cq.ring_del(rig->sp_scq, nic->ring_s);
	nic->ring_s = before;
	/* the record and the register go with it */
	fake_cq_free(shadow);
	memset(shadow, 0, sizeof(*shadow));
	free(shadow);
}

static void a_ring_goes_while_others_arm(void **state)
{
	pthread_t threads[3];

	other_goes();
	arm_on = true;
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, arm_all_the_time, NULL), 0);
	while (!arming)
		sched_yield();
	for (int i = 0; i < 100; i++)
		a_ring_comes_and_goes();
	arm_on = false;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
#define TEST_EX(f) cmocka_unit_test_setup_teardown(f, setup_ex, teardown)
#define TEST(f)	   cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(only_the_ring_in_use_is_polled),
		TEST_EX(only_the_ring_in_use_is_polled),
		TEST(both_rings_are_polled),
		TEST_EX(both_rings_are_polled),
		TEST(leavings_are_cleared_away),
		TEST_EX(leavings_are_cleared_away),
		TEST_EX(slots_of_a_left_ring_are_given_back),
		TEST_EX(completions_of_shadows_are_copies),
		TEST_EX(drain_under_a_held_completion_owes),
		TEST_EX(extended_queues_are_polled_the_short_way),
		TEST(errors_pass_while_somebody_posts),
		TEST_EX(errors_pass_while_somebody_posts),
		TEST(the_ring_in_use_is_armed),
		TEST_EX(the_ring_in_use_is_armed),
		TEST(both_rings_are_armed),
		TEST(arming_races_with_a_drain),
		TEST(arming_races_with_a_move),
		TEST(arming_races_with_an_event),
		TEST(arming_of_both_rings_races_with_an_event),
		TEST(a_ring_goes_while_others_arm),
	};

	if (argc > 1)
		rounds = (uint32_t)strtoul(argv[1], NULL, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
