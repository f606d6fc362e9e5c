/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What a move of the ledger's asks of plain verbs, one case each: recall, fences, flushes that nothing shows. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "providers/ledger/ledger.h"
#include "tests/lib/verbs_rig.h"

#define ENGINE (&shift_provider_ledger)

enum { SIG = IBV_SEND_SIGNALED, MAX = 64, DEPTH = 16 };

static struct vrig *rig;
static uint64_t next;

static void make_with(uint32_t knobs, bool one_cq, bool cq_ex)
{
	struct vr_setup setup = { .engine = ENGINE,
				  .app = { .send_wr = DEPTH,
					   .recv_wr = DEPTH,
					   .send_sge = 2,
					   .recv_sge = 1,
					   .max_inline = 64 },
				  .one_cq = one_cq,
				  .cq_ex = cq_ex };

	for (uint32_t i = 0; i <= VR_NICS; i++)
		setup.knobs[i] = knobs;
	vf_reset();
	rig = calloc(1, sizeof(*rig));
	assert_non_null(rig);
	vrig_make(rig, &setup);
	ENGINE->qp.guard(rig->sp, true);
	next = 1;
}

static void make(uint32_t knobs, bool one_cq)
{
	make_with(knobs, one_cq, false);
}

static int setup_cq_ex(void **state)
{
	make_with(0, false, true);
	return 0;
}

static int setup(void **state)
{
	make(0, false);
	return 0;
}

static int setup_one_cq(void **state)
{
	make(0, true);
	return 0;
}

static int setup_refusing(void **state)
{
	make(VF_REFUSES_IN_ERR, false);
	return 0;
}

/* A driver whose status of a link that is down is also that of a request that is wrong. */
static int setup_doubtful(void **state)
{
	make(VF_DOWN_IS_OP, false);
	return 0;
}

static int setup_taking_more(void **state)
{
	make(VF_TAKES_MORE, false);
	return 0;
}

static int teardown(void **state)
{
	vrig_free(rig);
	free(rig);
	return 0;
}

/* w WRITE, s SEND, r READ; capitals are signaled. How many were taken. */
static uint32_t post(const char *requests)
{
	static const char letters[] = "wsr";
	static const enum ibv_wr_opcode ops[] = { IBV_WR_RDMA_WRITE, IBV_WR_SEND,
						  IBV_WR_RDMA_READ };
	struct vr_request request = { .sges = 1, .bytes = 8 };
	uint32_t n = 0, taken;

	for (; *requests; requests++) {
		char lower = *requests | 0x20;

		request.id = next;
		request.op = ops[strchr(letters, lower) - letters];
		request.flags = lower == *requests ? 0 : SIG;
		if (vrig_post(rig, &request, 1, false, &taken))
			break;
		next++;
		n++;
	}
	return n;
}

static void acknowledge(uint32_t n)
{
	assert_int_equal(vf_run(vrig_active(rig), n), n);
}

/* The application polls: the requests of these numbers complete well, in this order, and no others. */
static void see(uint32_t n, const uint64_t *ids)
{
	struct ibv_wc wc[MAX];

	assert_int_equal(vrig_poll(rig, true, false, wc, MAX), n);
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
		assert_true(wc[i].wr_id == VR_WR_ID(ids[i]));
	}
}

static void drain(void)
{
	assert_int_equal(ENGINE->cq.collect(rig->sp_scq), 0);
	assert_int_equal(ENGINE->cq.collect(rig->sp_rcq), 0);
}

/* Its QP goes to ERR: is that seen? */
static struct sp_flushed quiesce(void)
{
	struct sp_flushed flushed = { 0 };

	ENGINE->move.withhold(rig->sp);
	vf_modify(vrig_active(rig), IBV_QPS_ERR);
	for (int i = 0; i < 2; i++) {
		drain();
		ENGINE->move.flushed(rig->sp, true, &flushed);
	}
	return flushed;
}

static uint32_t lay(void)
{
	uint32_t to = vrig_standby(rig, 0, &rig->setup.app);

	assert_int_not_equal(to, 0);
	ENGINE->move.seal(rig->sp);
	assert_int_equal(ENGINE->move.lay_receives(rig->sp, rig->carriers[to].sp), 0);
	return to;
}

static void settle(uint32_t to, const enum sp_fate *fates, uint32_t n, struct sp_settled *settled)
{
	assert_int_equal(ENGINE->move.settle(rig->sp, rig->carriers[to].sp, fates, n, settled), 0);
	rig->active = to;
}

/* ---- recall ---------------------------------------------------------------------------------- */

static void unseen_ones_come_back(void **state)
{
	struct sp_request info[MAX];
	enum sp_last_seen seen;

	assert_int_equal(post("wSwwWwS"), 7);
	acknowledge(7);
	drain(); /* 2, 5 and 7 lie in the backlog: the application has seen none */
	(void)quiesce();
	ENGINE->move.seal(rig->sp);
	assert_int_equal(ENGINE->move.recall(rig->sp, &seen), 0);
	assert_int_equal(ENGINE->move.outstanding(rig->sp, info, MAX), 7);
	assert_int_equal(seen, SP_SEEN_SAFE);
	see(0, NULL);
}

static void what_was_seen_stays(void **state)
{
	struct sp_request info[MAX];
	enum sp_last_seen seen;

	assert_int_equal(post("wWw"), 3);
	acknowledge(3);
	see(1, (uint64_t[]){ 2 });
	assert_int_equal(post("W"), 1);
	acknowledge(1);
	drain();
	(void)quiesce();
	ENGINE->move.seal(rig->sp);
	assert_int_equal(ENGINE->move.recall(rig->sp, &seen), 0);
	assert_int_equal(ENGINE->move.outstanding(rig->sp, info, MAX), 2);
	assert_int_equal(seen, SP_SEEN_UNPLACED);
}

/* By ibv_start_poll, no more than so many. */
static void see_by_calls(uint32_t n)
{
	struct ibv_wc wc[MAX];

	assert_int_equal(vrig_poll(rig, true, true, wc, (int)n), n);
}

/* Of six completions, five were polled from the NIC with the first, and nobody has asked for them. */
static void what_was_read_ahead_comes_back(void **state)
{
	struct sp_request info[MAX];
	enum sp_last_seen seen;

	assert_int_equal(post("WSWSWS"), 6);
	acknowledge(6);
	see_by_calls(1);
	(void)quiesce();
	ENGINE->move.seal(rig->sp);
	assert_int_equal(ENGINE->move.recall(rig->sp, &seen), 0);
	assert_int_equal(ENGINE->move.outstanding(rig->sp, info, MAX), 5);
	see(0, NULL);
}

static void others_see_what_was_read_ahead(void **state)
{
	uint32_t before;

	assert_int_equal(post("WSWS"), 4);
	acknowledge(4);
	see_by_calls(1);
	before = rig->events.events;
	assert_int_equal(ibv_req_notify_cq(vf_ibv_cq(&rig->scq), 0), 0);
	assert_int_equal(rig->events.events,
			 before + 1); /* they lie in the queue, as far as it knows */
	see_by_calls(1);
	drain();
	see(2, (uint64_t[]){ 3, 4 });
	see(0, NULL);
}

static void what_was_read_ahead_goes_with_its_queue_pair(void **state)
{
	assert_int_equal(post("WSWS"), 4);
	acknowledge(4);
	see_by_calls(1);
	vf_modify(vrig_active(rig), IBV_QPS_RESET);
	ENGINE->qp.modified(rig->sp, IBV_QPS_RESET);
	see(0, NULL);
}

/* Withheld requests take no slot of what may be recalled; and then the queue is more than full. */
static void a_full_queue_is_recalled(void **state)
{
	struct sp_request info[MAX];
	enum sp_fate fates[DEPTH];
	struct sp_settled settled;
	enum sp_last_seen seen;
	uint32_t to, i;

	for (i = 0; i < DEPTH; i++)
		assert_int_equal(post("W"), 1);
	acknowledge(DEPTH);
	drain();
	(void)quiesce();
	for (i = 0; i < DEPTH; i++)
		assert_int_equal(post("W"), 1);
	assert_int_equal(post("W"), 0);
	to = lay();
	assert_int_equal(ENGINE->move.recall(rig->sp, &seen), 0);
	assert_int_equal(ENGINE->move.outstanding(rig->sp, info, MAX), 2 * DEPTH);
	assert_int_equal(post("W"), 0);
	for (i = 0; i < DEPTH; i++) {
		assert_true(info[i].published && !info[DEPTH + i].published);
		fates[i] = SP_FATE_RESEND;
	}
	settle(to, fates, DEPTH, &settled);
	assert_int_equal(settled.resent, DEPTH);
	assert_int_equal(post("W"), 0); /* there is room for one of our own, no more */
	for (i = 1; i <= 2 * DEPTH; i++) {
		acknowledge(1);
		see(1, (uint64_t[]){ i });
		(void)ENGINE->move.publish(rig->sp);
	}
	assert_int_equal(post("W"), 1);
}

enum { RECALLED = DEPTH + 3 };

/* More comes back than the queue takes at once: READs that run again, and behind them a SEND that does not. */
static void recall_too_many(enum sp_fate fates[RECALLED])
{
	struct sp_settled settled;
	enum sp_last_seen seen;
	uint32_t to, i;

	for (i = 0; i < RECALLED; i++) {
		assert_int_equal(post(i < RECALLED - 1 ? "R" : "S"), 1);
		acknowledge(1);
		drain();
		fates[i] = i < RECALLED - 1 ? SP_FATE_READ_AGAIN : SP_FATE_DELIVERED;
	}
	(void)quiesce();
	to = lay();
	assert_int_equal(ENGINE->move.recall(rig->sp, &seen), 0);
	settle(to, fates, RECALLED, &settled);
	assert_int_equal(vf_waiting(vrig_active(rig)), DEPTH);
}

static void see_reads_again(uint64_t from)
{
	for (uint64_t i = from; i < RECALLED; i++) {
		acknowledge(1);
		if (i < RECALLED - 1)
			see(1, (uint64_t[]){ i });
		else
			see(2, (uint64_t[]){ i, i + 1 });
		(void)ENGINE->move.publish(rig->sp);
	}
	assert_int_equal(vf_waiting(vrig_active(rig)), 0);
}

/* The next carrier dies too, before all that had run was handed to it. */
static void what_waits_to_run_again_is_known_to_have_run(void **state)
{
	enum sp_fate fates[RECALLED];
	struct sp_request info[MAX];
	struct sp_settled settled;
	uint32_t to, i;

	recall_too_many(fates);
	(void)quiesce();
	assert_int_equal(post("S"), 0); /* the queue is full */
	to = lay();
	assert_int_equal(ENGINE->move.outstanding(rig->sp, info, MAX), RECALLED);
	for (i = 0; i < RECALLED; i++)
		assert_true(info[i].published);
	settle(to, fates, RECALLED, &settled);
	see_reads_again(1);
	assert_int_equal(post("S"), 1);
	assert_int_equal(vf_waiting(vrig_active(rig)), 1);
}

/* An ordered switch waits for it: behind the fence only what never ran may be left. */
static void no_fence_before_what_waits_to_run_again(void **state)
{
	enum sp_fate fates[RECALLED];
	uint64_t i;
	bool atomics;

	recall_too_many(fates);
	assert_int_equal(ENGINE->move.fence(rig->sp, &atomics), -EAGAIN);
	for (i = 1; i <= DEPTH; i++) {
		acknowledge(1);
		see(1, (uint64_t[]){ i });
		assert_false(ENGINE->move.fenced(rig->sp));
	}
	assert_int_equal(ENGINE->move.publish(rig->sp), 0);
	assert_int_equal(ENGINE->move.fence(rig->sp, &atomics), 0);
	assert_false(ENGINE->move.fenced(rig->sp));
	see_reads_again(i);
	assert_true(ENGINE->move.fenced(rig->sp));
}

/*
 * An application that posted more than it may, as a collect had freed places: nothing that another post has
 * written over comes back, not even one that was refused.
 */
static void what_was_written_over_stays_away(void **state)
{
	struct vr_request too_long = {
		.op = IBV_WR_SEND, .flags = SIG | IBV_SEND_INLINE, .sges = 1, .bytes = 65
	};
	enum sp_last_seen seen;
	uint32_t i, taken;

	for (i = 0; i < 2 * DEPTH; i++) {
		assert_int_equal(post("W"), 1);
		acknowledge(1);
		drain();
	}
	too_long.id = next;
	assert_int_equal(vrig_post(rig, &too_long, 1, false, &taken), ENOMEM);
	(void)quiesce();
	ENGINE->move.seal(rig->sp);
	assert_int_equal(ENGINE->move.recall(rig->sp, &seen), -EIO);
}

/* ---- order ----------------------------------------------------------------------------------- */

/* Delivered requests behind a READ that runs again complete in their turn, signaled or not. */
static void delivered_behind_a_read(void **state)
{
	static const enum sp_fate fates[] = { SP_FATE_DELIVERED, SP_FATE_READ_AGAIN,
					      SP_FATE_DELIVERED, SP_FATE_DELIVERED,
					      SP_FATE_RESEND };
	struct sp_settled settled;
	uint32_t to;

	assert_int_equal(post("WrSSW"), 5);
	(void)quiesce();
	to = lay();
	settle(to, fates, 5, &settled);
	assert_int_equal(settled.delivered, 3);
	assert_int_equal(settled.resent, 2);
	see(1, (uint64_t[]){ 1 });
	see(0, NULL);
	acknowledge(1); /* the READ, whose completion nobody asked for */
	see(2, (uint64_t[]){ 3, 4 });
	acknowledge(1);
	see(1, (uint64_t[]){ 5 });
}

/*
 * A withheld request whose key nobody knows on the next carrier: what is before it runs there, it waits there, and so does what is
 * behind it.
 */
static void a_move_does_not_wait_for_keys_of_what_is_withheld(void **state)
{
	static const enum sp_fate fates[] = { SP_FATE_RESEND };
	struct ibv_sge sge = { 0x1000, 8, VF_LKEY };
	struct ibv_send_wr gone = { .wr_id = VR_WR_ID(3),
				    .sg_list = &sge,
				    .num_sge = 1,
				    .opcode = IBV_WR_RDMA_WRITE,
				    .send_flags = SIG,
				    .wr.rdma = { 0x2000, VF_RKEY + VF_KEYS } },
			   *bad;
	struct sp_settled settled;

	assert_int_equal(post("W"), 1);
	(void)quiesce();
	assert_int_equal(post("W"), 1);
	assert_int_equal(ibv_post_send(vf_ibv(rig->app), &gone, &bad), 0);
	next++;
	assert_int_equal(post("W"), 1);
	settle(lay(), fates, 1, &settled);
	assert_int_equal(settled.resent, 1);
	assert_int_equal(settled.published, 1);
	assert_int_equal(rig->events.keys, 1);
	acknowledge(2);
	see(2, (uint64_t[]){ 1, 2 });
	assert_int_equal(ENGINE->move.publish(rig->sp), -ENOENT);
	assert_int_equal(vf_waiting(vrig_active(rig)), 0);
}

static void post_recv(uint64_t id, uint32_t lkey)
{
	struct ibv_sge sge = { 0x1000, 8, lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	assert_int_equal(ibv_post_recv(vf_ibv(rig->app), &wr, &bad), 0);
}

/* A receive whose region is gone: it fails if a message comes to it, and neither a move nor the receives behind it wait for it. */
static void a_receive_whose_region_is_gone_holds_up_nothing(void **state)
{
	struct sp_settled settled;
	const struct vf_qp *on;

	post_recv(1, VF_LKEY);
	post_recv(2, VF_LKEY + VF_KEYS);
	(void)quiesce();
	settle(lay(), NULL, 0, &settled);
	on = vrig_active(rig);
	assert_int_equal(on->recv_head, 2);
	assert_int_not_equal(on->recvs[0].sge[0].lkey, SP_NO_KEY);
	assert_int_equal(on->recvs[1].sge[0].lkey, SP_NO_KEY);
	post_recv(3, VF_LKEY + VF_KEYS);
	post_recv(4, VF_LKEY);
	assert_int_equal(rig->events.keys, 1);
	assert_int_equal(ENGINE->move.publish(rig->sp), 0);
	assert_int_equal(on->recv_head, 4);
	assert_int_equal(on->recvs[2].sge[0].lkey, SP_NO_KEY);
}

/* ---- compare-and-swaps that have swapped ------------------------------------------------------ */

enum { COMPARED = 0x1122334455667788, WORD = 4096 };

static void cas_into(struct ibv_sge *sge, int sges)
{
	struct ibv_send_wr wr = { .wr_id = VR_WR_ID(next),
				  .opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
				  .send_flags = IBV_SEND_SIGNALED,
				  .sg_list = sge,
				  .num_sge = sges,
				  .wr.atomic = { .remote_addr = WORD,
						 .compare_add = COMPARED,
						 .swap = next,
						 .rkey = 99 } },
			   *bad;

	next++;
	assert_int_equal(ibv_post_send(vf_ibv(rig->app), &wr, &bad), 0);
}

static void cas(void *first, uint32_t n, void *second)
{
	struct ibv_sge sge[2] = { { (uintptr_t)first, n, vf_lkey(0) },
				  { (uintptr_t)second, 8 - n, vf_lkey(0) } };

	cas_into(sge, 2);
}

static void their_answers_are_brought(void **state)
{
	static const enum sp_fate fates[] = { SP_FATE_WON, SP_FATE_RESEND, SP_FATE_WON,
					      SP_FATE_DELIVERED };
	uint8_t old[2][8] = { 0 };
	const uint64_t compared = COMPARED;
	struct sp_request info[MAX];
	struct sp_settled settled;
	uint32_t to;

	cas(old[0], 5, old[0] + 5);
	assert_int_equal(post("W"), 1);
	cas(old[1], 3, old[1] + 3);
	assert_int_equal(post("S"), 1);
	assert_int_equal(ENGINE->move.outstanding(rig->sp, info, MAX), 4);
	assert_true(info[2].cas && info[2].compare == COMPARED && info[2].swap == 3);
	assert_true(info[2].addr == WORD && info[2].bytes == 8 && info[2].rkey == 99);
	assert_true(!info[1].cas && info[1].bytes == 8 && !info[3].bytes);
	(void)quiesce();
	to = lay();
	settle(to, fates, 4, &settled);
	assert_memory_equal(old[0], &compared, 8);
	assert_memory_equal(old[1], &compared, 8);
	assert_int_equal(settled.resent, 1);
	see(1, (uint64_t[]){ 1 });
	acknowledge(1); /* the WRITE */
	see(3, (uint64_t[]){ 2, 3, 4 });
}

/* Its buffer may have room for more. */
static void what_they_bring_is_8_bytes(void **state)
{
	static const enum sp_fate fates[] = { SP_FATE_WON };
	uint8_t old[72] = { 0 };
	struct ibv_sge sge = { (uintptr_t)old, sizeof(old), vf_lkey(0) };
	const uint64_t compared = COMPARED;
	struct sp_settled settled;
	struct ibv_wc wc[MAX];

	cas_into(&sge, 1);
	(void)quiesce();
	settle(lay(), fates, 1, &settled);
	assert_memory_equal(old, &compared, 8);
	assert_int_equal(vrig_poll(rig, true, false, wc, MAX), 1);
	assert_int_equal(wc[0].opcode, IBV_WC_COMP_SWAP);
	assert_int_equal(wc[0].byte_len, 8);
}

/* ---- fences ---------------------------------------------------------------------------------- */

static void the_last_signaled_request_is_the_fence(void **state)
{
	bool atomics;

	assert_int_equal(post("wW"), 2);
	assert_int_equal(ENGINE->move.fence(rig->sp, &atomics), 0);
	assert_int_equal(post("W"), 1); /* withheld */
	assert_int_equal(vf_waiting(vrig_active(rig)), 2);
	acknowledge(2);
	drain();
	assert_true(ENGINE->move.fenced(rig->sp));
}

static void a_write_of_nothing_is_the_fence(void **state)
{
	bool atomics;

	assert_int_equal(post("w"), 1);
	assert_int_equal(ENGINE->move.fence(rig->sp, &atomics), 0);
	assert_int_equal(vf_waiting(vrig_active(rig)), 2);
	acknowledge(2);
	drain();
	assert_true(ENGINE->move.fenced(rig->sp));
}

/* It takes a place in the completion queue, and would tell nothing before that. */
static void none_while_a_completion_is_awaited(void **state)
{
	bool atomics;

	assert_int_equal(post("WWw"), 3);
	assert_int_equal(ENGINE->move.fence(rig->sp, &atomics), 0);
	assert_int_equal(vf_waiting(vrig_active(rig)), 3);
	acknowledge(1);
	drain();
	assert_false(ENGINE->move.fenced(rig->sp));
	assert_int_equal(vf_waiting(vrig_active(rig)), 2);
	acknowledge(1);
	drain();
	assert_false(ENGINE->move.fenced(rig->sp)); /* it is posted now */
	assert_false(ENGINE->move.fenced(rig->sp));
	assert_int_equal(vf_waiting(vrig_active(rig)), 2);
	acknowledge(2);
	drain();
	assert_true(ENGINE->move.fenced(rig->sp));
	see(2, (uint64_t[]){ 1, 2 });
}

/* A peer that was sent to only may allow neither WRITEs nor READs. */
static void the_next_signaled_request_is_the_fence(void **state)
{
	bool atomics;

	assert_int_equal(post("s"), 1);
	assert_int_equal(ENGINE->move.fence(rig->sp, &atomics), -EAGAIN);
	assert_int_equal(post("ss"), 2);
	assert_int_equal(vf_waiting(vrig_active(rig)), 3);
	assert_int_equal(post("Ss"), 2);
	assert_int_equal(vf_waiting(vrig_active(rig)), 4); /* the last one waits */
	assert_int_equal(ENGINE->move.fence(rig->sp, &atomics), 0);
	acknowledge(4);
	drain();
	assert_true(ENGINE->move.fenced(rig->sp));
	assert_int_equal(ENGINE->move.resume(rig->sp), 0);
	assert_int_equal(vf_waiting(vrig_active(rig)), 1);
}

/* ---- flushes --------------------------------------------------------------------------------- */

static void an_idle_queue_shows_its_flush(void **state)
{
	struct sp_flushed flushed = quiesce();

	assert_true(flushed.sq && flushed.rq && flushed.error_seen);
}

/* And one that takes nothing in ERR cannot: the shell has to ask whether the NIC is to be trusted. */
static void an_idle_queue_that_takes_no_marker(void **state)
{
	struct sp_flushed flushed = quiesce();

	assert_true(flushed.sq && flushed.rq && !flushed.error_seen);
}

static void acknowledged_ones_are_told_from_others(void **state)
{
	struct sp_request info[MAX];
	struct sp_flushed flushed;

	assert_int_equal(post("wwww"), 4);
	acknowledge(2);
	flushed = quiesce();
	assert_true(flushed.sq && flushed.error_seen);
	assert_int_equal(ENGINE->move.outstanding(rig->sp, info, MAX), 2);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static struct ibv_wc polled_meanwhile;

static void poll_meanwhile(void)
{
	assert_int_equal(vrig_poll(rig, true, false, &polled_meanwhile, 1), 1);
}

/* One queue for both directions, and a poller that is quicker than the post's return. */
static void an_error_of_a_post_that_is_under_way(void **state)
{
	ENGINE->qp.guard(rig->sp, false);
	vf_die(rig->app, IBV_WC_RETRY_EXC_ERR);
	rig->dev.posted = poll_meanwhile;
	assert_int_equal(post("W"), 1);
	assert_int_equal(polled_meanwhile.status, IBV_WC_WR_FLUSH_ERR);
	assert_true(polled_meanwhile.wr_id == VR_WR_ID(1));
	assert_int_equal(ENGINE->qp.recv_count(rig->sp), 0);
}

/* ---- errors that may be the link's or the application's ---------------------------------------- */

static void see_none(void)
{
	struct ibv_wc wc[MAX];

	assert_int_equal(vrig_poll(rig, true, false, wc, MAX), 0);
}

/* The shell found the link down: the application sees nothing of it, and all runs elsewhere. */
static void a_link_that_is_down_is_not_told(void **state)
{
	static const enum sp_fate again[] = { SP_FATE_RESEND, SP_FATE_RESEND };
	struct sp_settled settled;
	uint32_t to;

	assert_int_equal(post("WWW"), 3);
	acknowledge(1);
	vf_link_down(vrig_active(rig));
	see(1, (uint64_t[]){ 1 });
	see_none();
	assert_int_equal(rig->events.errors, 1);
	assert_int_equal(rig->events.doubts, 1);
	assert_int_equal(rig->events.withheld, 1);
	assert_int_equal(rig->events.status, IBV_WC_LOC_QP_OP_ERR);
	(void)quiesce();
	assert_int_equal(rig->events.doubts, 1);
	to = lay();
	settle(to, again, 2, &settled);
	assert_int_equal(settled.resent, 2);
	acknowledge(2);
	see(2, (uint64_t[]){ 2, 3 });
}

/* The shell found the link up: the request that is at fault has its status, what is behind it is flushed. */
static void an_error_of_the_application_is_told(void **state)
{
	struct ibv_wc wc[MAX];

	assert_int_equal(post("WWW"), 3);
	acknowledge(1);
	vf_die(vrig_active(rig), IBV_WC_LOC_QP_OP_ERR);
	see(1, (uint64_t[]){ 1 });
	see_none();
	assert_int_equal(rig->events.doubts, 1);
	ENGINE->move.fail_all(rig->sp, IBV_WC_LOC_QP_OP_ERR, 7, 0);
	assert_int_equal(vrig_poll(rig, true, false, wc, MAX), 2);
	assert_true(wc[0].wr_id == VR_WR_ID(2) && wc[1].wr_id == VR_WR_ID(3));
	assert_int_equal(wc[0].status, IBV_WC_LOC_QP_OP_ERR);
	assert_int_equal(wc[0].vendor_err, 7);
	assert_int_equal(wc[1].status, IBV_WC_WR_FLUSH_ERR);
}

/* A move had begun, and the flush of the receives was seen first: the shell must still be asked. */
static void a_doubt_behind_a_flush_is_asked_of(void **state)
{
	uint32_t sges = 1, taken;

	assert_int_equal(vrig_post_recv(rig, 1, 1, &sges, &taken), 0);
	assert_int_equal(post("W"), 1);
	vf_link_down(vrig_active(rig));
	assert_int_equal(ENGINE->cq.collect(rig->sp_rcq), 0);
	assert_int_equal(rig->events.errors, 1);
	assert_int_equal(rig->events.doubts, 0);
	see_none();
	assert_int_equal(rig->events.errors, 2);
	assert_int_equal(rig->events.doubts, 1);
	assert_int_equal(rig->events.app_errors, 0);
}

/* Where the driver never means a link by it, the program or a sick NIC is at fault. */
static void without_doubt_it_is_an_accusation(void **state)
{
	assert_int_equal(post("W"), 1);
	vf_die(vrig_active(rig), IBV_WC_LOC_QP_OP_ERR);
	see_none();
	assert_int_equal(rig->events.withheld, 1);
	assert_int_equal(rig->events.doubts, 0);
	assert_int_equal(rig->events.app_errors, 1);
}

/* Unguarded, it is passed on like any other. */
static void without_guard_it_is_told(void **state)
{
	struct ibv_wc wc[MAX];

	ENGINE->qp.guard(rig->sp, false);
	assert_int_equal(post("W"), 1);
	vf_die(vrig_active(rig), IBV_WC_LOC_QP_OP_ERR);
	assert_int_equal(vrig_poll(rig, true, false, wc, MAX), 1);
	assert_int_equal(wc[0].status, IBV_WC_LOC_QP_OP_ERR);
	assert_int_equal(rig->events.withheld, 0);
}

/* Of a receive it is the application's, whatever the driver. */
static void a_receive_leaves_no_doubt(void **state)
{
	uint32_t sges = 1, taken;
	struct ibv_wc wc[MAX];

	assert_int_equal(vrig_post_recv(rig, 1, 1, &sges, &taken), 0);
	vf_die_receiving(vrig_active(rig), IBV_WC_LOC_QP_OP_ERR);
	assert_int_equal(vrig_poll(rig, false, false, wc, MAX), 1);
	assert_int_equal(wc[0].status, IBV_WC_LOC_QP_OP_ERR);
	assert_int_equal(rig->events.app_errors, 1);
}

/* -- the first post that is told --------------------------------------------------------------- */

static void see_from(uint64_t first, uint32_t n)
{
	uint64_t ids[2] = { first, first + 1 };

	see(n, ids);
}

static bool told_next(void)
{
	uint32_t number = 0;

	ENGINE->qp.sending(rig->sp, &number);
	return ENGINE->qp.tell(rig->sp, number);
}

/* By lists, single requests, and calls; a receive is not meant. */
static void the_next_post_is_told_once(void **state)
{
	struct vr_request pair[2] = {
		{ .id = 100, .op = IBV_WR_SEND, .flags = SIG, .sges = 1, .bytes = 8 },
		{ .id = 101, .op = IBV_WR_SEND, .flags = SIG, .sges = 1, .bytes = 8 }
	};
	uint32_t taken, sges = 1;

	assert_true(told_next());
	assert_int_equal(vrig_post_recv(rig, 1, 1, &sges, &taken), 0);
	assert_int_equal(rig->events.posted, 0);
	assert_int_equal(post("W"), 1);
	assert_int_equal(rig->events.posted, 1);
	assert_false(told_next());
	assert_int_equal(post("W"), 1);
	acknowledge(2);
	see_from(1, 2);
	for (int calls = 0; calls < 2; calls++) {
		assert_true(told_next());
		assert_int_equal(vrig_post(rig, pair, 2, calls, &taken), 0);
		assert_int_equal(rig->events.posted, 2 + calls);
		acknowledge(2);
		see_from(100, 2);
	}
	assert_int_equal(post("W"), 1);
	assert_int_equal(rig->events.posted, 3);
}

static void work_under_way_is_not_told(void **state)
{
	uint32_t before = 0;

	ENGINE->qp.sending(rig->sp, &before);
	assert_int_equal(post("W"), 1);
	assert_false(told_next());
	acknowledge(1);
	see_from(1, 1);
	assert_false(ENGINE->qp.tell(rig->sp, before)); /* it was posted, and is complete */
	assert_int_equal(post("W"), 1);
	acknowledge(1);
	see_from(2, 1);
	assert_int_equal(post("w"), 1); /* nothing will tell of its end */
	assert_true(told_next());
	assert_int_equal(rig->events.posted, 0);
	ENGINE->move.withhold(rig->sp);
	assert_int_equal(post("w"), 1);
	assert_int_equal(rig->events.posted, 1);
	assert_false(told_next());
}

int main(void)
{
#define CASE(test)     cmocka_unit_test_setup_teardown(test, setup, teardown)
#define CQ_EX(test)    cmocka_unit_test_setup_teardown(test, setup_cq_ex, teardown)
#define DOUBTFUL(test) cmocka_unit_test_setup_teardown(test, setup_doubtful, teardown)
	const struct CMUnitTest tests[] = {
		CASE(the_next_post_is_told_once),
		CASE(work_under_way_is_not_told),
		CASE(unseen_ones_come_back),
		CASE(what_was_seen_stays),
		CQ_EX(what_was_read_ahead_comes_back),
		CQ_EX(others_see_what_was_read_ahead),
		CQ_EX(what_was_read_ahead_goes_with_its_queue_pair),
		CASE(a_full_queue_is_recalled),
		CASE(what_waits_to_run_again_is_known_to_have_run),
		CASE(no_fence_before_what_waits_to_run_again),
		cmocka_unit_test_setup_teardown(a_full_queue_is_recalled, setup_taking_more,
						teardown),
		CASE(what_was_written_over_stays_away),
		CASE(their_answers_are_brought),
		CASE(what_they_bring_is_8_bytes),
		CASE(delivered_behind_a_read),
		CASE(a_move_does_not_wait_for_keys_of_what_is_withheld),
		CASE(a_receive_whose_region_is_gone_holds_up_nothing),
		CASE(the_last_signaled_request_is_the_fence),
		CASE(a_write_of_nothing_is_the_fence),
		CASE(none_while_a_completion_is_awaited),
		CASE(the_next_signaled_request_is_the_fence),
		CASE(an_idle_queue_shows_its_flush),
		cmocka_unit_test_setup_teardown(an_idle_queue_that_takes_no_marker, setup_refusing,
						teardown),
		CASE(acknowledged_ones_are_told_from_others),
		cmocka_unit_test_setup_teardown(an_error_of_a_post_that_is_under_way, setup_one_cq,
						teardown),
		DOUBTFUL(a_link_that_is_down_is_not_told),
		DOUBTFUL(an_error_of_the_application_is_told),
		DOUBTFUL(a_doubt_behind_a_flush_is_asked_of),
		DOUBTFUL(without_guard_it_is_told),
		CASE(without_guard_it_is_told),
		CASE(without_doubt_it_is_an_accusation),
		DOUBTFUL(a_receive_leaves_no_doubt),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
