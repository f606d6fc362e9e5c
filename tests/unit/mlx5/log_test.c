/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Log WQEs behind the application's requests in the ring: which of these they count, and that nobody sees anything of
 * them. What lies in the ring as a whole is random_test.c's matter too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/mlx5_rig.h"

enum { RING = 64, MAX = 64, LIST = 16 };

static struct rig *rig;
static uint32_t every;
static uint64_t next;

static struct fake_geometry geometry(uint32_t ring, bool sig_all)
{
	struct fake_geometry g = { ring, 16, 4, rig_log_depth(ring, 1, every), 1, sig_all };

	return g;
}

static void make_in(uint32_t ring, uint32_t n, bool sig_all)
{
	struct fake_geometry g;

	every = n;
	g = geometry(ring, sig_all);
	rig = rig_new(&g, 64, false);
	ENGINE->qp.guard(rig->sp, true);
	next = 1;
}

/* And it is logged. */
static void make(uint32_t n)
{
	make_in(RING, n, false);
	assert_null(rig_log(rig, 0, n));
}

static int teardown(void **state)
{
	rig_delete(rig);
	return 0;
}

/* ---- the application ------------------------------------------------------------------------- */

static void request(char letter, uint64_t id, struct ibv_send_wr *wr, struct ibv_sge *sge)
{
	static const char letters[] = "wsra";
	static const enum ibv_wr_opcode ops[] = { IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_RDMA_READ,
						  IBV_WR_ATOMIC_FETCH_AND_ADD };
	char lower = letter | 0x20;

	*sge = (struct ibv_sge){ id, 8, fake_lkey(id) };
	*wr = (struct ibv_send_wr){ .wr_id = id,
				    .opcode = ops[strchr(letters, lower) - letters],
				    .send_flags = lower == letter ? 0 : IBV_SEND_SIGNALED,
				    .sg_list = sge,
				    .num_sge = 1 };
	if (lower == 'a') {
		wr->wr.atomic.remote_addr = id;
		wr->wr.atomic.rkey = fake_rkey(id);
	} else {
		wr->wr.rdma.remote_addr = id;
		wr->wr.rdma.rkey = fake_rkey(id);
	}
}

static void call(struct ibv_qp_ex *qp, const struct ibv_send_wr *wr)
{
	qp->wr_id = wr->wr_id;
	qp->wr_flags = wr->send_flags;
	switch ((int)wr->opcode) {
	case IBV_WR_SEND: ibv_wr_send(qp); break;
	case IBV_WR_RDMA_WRITE: ibv_wr_rdma_write(qp, fake_rkey(wr->wr_id), wr->wr_id); break;
	case IBV_WR_RDMA_READ: ibv_wr_rdma_read(qp, fake_rkey(wr->wr_id), wr->wr_id); break;
	default: ibv_wr_atomic_fetch_add(qp, fake_rkey(wr->wr_id), wr->wr_id, 1); break;
	}
	ibv_wr_set_sge(qp, wr->sg_list->lkey, wr->sg_list->addr, wr->sg_list->length);
}

/* w WRITE, s SEND, r READ, a atomic; capitals are signaled. A list; by ibv_wr_*, if so said. How many were taken. */
static uint32_t post(const char *requests, bool by_calls)
{
	struct ibv_send_wr wr[LIST], *bad = NULL;
	struct ibv_sge sge[LIST];
	uint32_t n;
	int err;

	for (n = 0; requests[n]; n++) {
		request(requests[n], next + n, &wr[n], &sge[n]);
		wr[n].next = requests[n + 1] ? &wr[n + 1] : NULL;
	}
	if (by_calls) {
		ibv_wr_start(&rig->app->ex);
		for (uint32_t i = 0; i < n; i++)
			call(&rig->app->ex, &wr[i]);
		n = ibv_wr_complete(&rig->app->ex) ? 0 : n;
	} else {
		err = ibv_post_send(fake_ibv(rig->app), wr, &bad);
		n = err ? (uint32_t)(bad - wr) : n;
	}
	next += n;
	return n;
}

static void see(int n, uint64_t first)
{
	struct ibv_wc wc[MAX];

	assert_int_equal(rig_poll(rig, true, wc, MAX), n);
	for (int i = 0; i < n; i++)
		assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
	if (n)
		assert_int_equal(wc[0].wr_id, first);
}

/* What the peer's NIC has executed, in order: a dot each; of a log WQE the letter of its number, from a = 0 on. */
static void expect_log(uint32_t carrier, uint32_t from, const char *want)
{
	char got[MAX] = "";
	uint32_t n = 0, number;

	for (uint32_t i = from; i < fake_log.n; i++)
		got[n++] = rig_logged(&fake_log.done[i], carrier, &number) ? (char)('a' + number)
									   : '.';
	assert_string_equal(got, want);
}

/* ---- the shell ------------------------------------------------------------------------------- */

static void drain(void)
{
	assert_int_equal(ENGINE->cq.collect(rig->sp_scq), 0);
	assert_int_equal(ENGINE->cq.collect(rig->sp_rcq), 0);
}

static struct sp_flushed quiesce(void)
{
	struct sp_flushed flushed = { 0 };

	ENGINE->move.withhold(rig->sp);
	for (int i = 0; i < 2; i++) { /* the second time the hidden NOP that is posted on the way */
		fake_flush(rig_active(rig), MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
		drain();
		ENGINE->move.flushed(rig->sp, true, &flushed);
	}
	return flushed;
}

static void move_logged(const enum sp_fate *fates, uint32_t n, bool logged)
{
	struct fake_geometry g = geometry(rig->geometry.sq_cnt, false);
	uint32_t to = rig_standby(rig, &g);
	struct sp_settled settled;

	assert_int_not_equal(to, 0);
	if (logged)
		assert_null(rig_log(rig, to, every));
	ENGINE->move.seal(rig->sp);
	assert_int_equal(ENGINE->move.lay_receives(rig->sp, rig->carriers[to].sp), 0);
	assert_int_equal(ENGINE->move.settle(rig->sp, rig->carriers[to].sp, fates, n, &settled), 0);
	rig->active = to;
}

static void move(const enum sp_fate *fates, uint32_t n)
{
	move_logged(fates, n, true);
}

static void move_idle(bool logged)
{
	(void)quiesce();
	move_logged(NULL, 0, logged);
}

/* ---- what is counted ------------------------------------------------------------------------- */

static void it_is_behind_each_nth_that_changes_memory(void **state)
{
	make_in(RING, 2, false);
	assert_int_equal(post("ww", false), 2);
	fake_run(rig->app, MAX);
	assert_null(rig_log(rig, 0, every));
	assert_int_equal(post("w", false), 1);
	assert_int_equal(post("ssWrrA", false), 6);
	assert_int_equal(post("waW", true), 3);
	fake_run(rig->app, MAX);
	expect_log(0, 0, "......g....k..m");
	see(3, 6);
}

/* Straight into the ring of the next carrier, with its keys, as before the move. */
static void behind_a_move_too(void **state)
{
	uint32_t from;

	make(2);
	for (int turn = 0; turn < 3; turn++) {
		move_idle(true);
		from = fake_log.n;
		assert_int_equal(post("www", false), 3);
		assert_int_equal(post("wsw", true), 3);
		assert_int_equal(post("w", false), 1);
		assert_int_equal(post("wS", true), 2);
		fake_run(rig_active(rig), MAX);
		expect_log(rig->active, from, "..c..e...h..");
		see(1, next - 1);
	}
}

/* The pointers of ibv_wr_* are exchanged with each of them. */
static void carriers_with_and_without(void **state)
{
	uint32_t from;

	make(1);
	for (int turn = 0; turn < 6; turn++) {
		move_idle(turn % 2);
		from = fake_log.n;
		assert_int_equal(post("w", true), 1);
		assert_int_equal(post("Wr", true), 2);
		fake_run(rig_active(rig), MAX);
		expect_log(rig->active, from, turn % 2 ? ".b.c." : "...");
		see(1, next - 2);
	}
}

/* They keep their order through the hold, and their log is laid when they are. */
static void what_waited(void **state)
{
	make(2);
	ENGINE->move.withhold(rig->sp);
	assert_int_equal(post("www", false), 3);
	assert_int_equal(post("ww", true), 2);
	assert_int_equal(fake_run(rig->app, MAX), 0);
	assert_int_equal(ENGINE->move.resume(rig->sp), 0);
	assert_int_equal(post("W", false), 1);
	fake_run(rig->app, MAX);
	expect_log(0, 0, "..c..e..g");
	see(1, 6);
}

/* A list goes back to the hold, with the log WQEs between its requests; the count goes on as if it had not been. */
static void a_key_is_missing(void **state)
{
	uint32_t from;

	make(2);
	move_idle(true);
	from = fake_log.n;
	assert_int_equal(post("w", false), 1);
	for (int turn = 0; turn < 2; turn++) {
		atomic_store(&fake_keys_missing, true);
		ENGINE->keys_changed();
		assert_int_equal(post("wwww", turn), 4);
		assert_int_equal(post("w", turn), 1);
		assert_int_equal(fake_run(rig_active(rig), MAX), turn ? 0 : 1);
		atomic_store(&fake_keys_missing, false);
		assert_int_equal(ENGINE->move.publish(rig->sp), 0);
		fake_run(rig_active(rig), MAX);
	}
	assert_int_equal(post("W", false), 1);
	fake_run(rig_active(rig), MAX);
	expect_log(1, from, "..c..e..g..i..k..m");
	see(1, next - 1);
}

static void what_is_given_up_is_not_counted(void **state)
{
	make(3);
	for (int turn = 0; turn < 5; turn++) {
		ibv_wr_start(&rig->app->ex);
		for (uint64_t id = 1; id <= 2; id++) {
			struct ibv_send_wr wr;
			struct ibv_sge sge;

			request('w', id, &wr, &sge);
			call(&rig->app->ex, &wr);
		}
		ibv_wr_abort(&rig->app->ex);
		assert_int_equal(post("w", turn % 2), 1);
	}
	fake_run(rig->app, MAX);
	expect_log(0, 0, "...d..");
}

/* Lists with log WQEs among them, of whatever the log counts and does not, some longer than a WQEBB. */
static void a_list_is_given_up(uint32_t n, const char *requests)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge[4];
	uint32_t counted = 0;
	char want[MAX] = "";

	make(n);
	for (int turn = 0; turn < 3 * RING; turn++) {
		ibv_wr_start(&rig->app->ex);
		for (uint32_t i = 0; requests[i]; i++) {
			request(requests[i], i + 1, &wr, sge);
			for (int k = 1; k < 4; k++)
				sge[k] = sge[0];
			if (requests[i] == 'r') {
				rig->app->ex.wr_id = i;
				rig->app->ex.wr_flags = 0;
				ibv_wr_rdma_read(&rig->app->ex, fake_rkey(1), 1);
				ibv_wr_set_sge_list(&rig->app->ex, 4, sge);
			} else {
				call(&rig->app->ex, &wr);
			}
		}
		if (turn % 2) /* one that is not yet whole */
			ibv_wr_rdma_write(&rig->app->ex, fake_rkey(1), 1);
		ibv_wr_abort(&rig->app->ex);
		if (turn % 8)
			continue;
		assert_int_equal(post("W", turn % 16), 1);
		fake_log.n = 0;
		fake_run(rig->app, MAX);
		counted++;
		want[0] = '.';
		want[1] = counted % n ? 0 : (char)('a' + counted);
		want[2] = 0;
		expect_log(0, 0, want);
		see(1, counted);
	}
	rig_delete(rig);
}

static void lists_that_are_given_up(void **state)
{
	for (uint32_t n = 1; n <= 5; n++) {
		a_list_is_given_up(n, "w");
		a_list_is_given_up(n, "wrasw");
		a_list_is_given_up(n, "rsrwwaw");
		a_list_is_given_up(n, "sr");
		a_list_is_given_up(n, "");
	}
}

/* Was more than a doorbell written to the register? */
static bool copied(bool by_calls)
{
	const uint8_t *bf = rig->app->bf;
	bool more = false;

	memset(rig->app->bf, 0, sizeof(rig->app->bf));
	assert_int_equal(post("w", by_calls), 1);
	for (uint32_t i = 0; i < sizeof(rig->app->bf); i++)
		more |= i % 256 >= 8 && bf[i];
	return more;
}

/* What is copied into the register is one request as a whole. */
static void no_copy_of_it_alone(void **state)
{
	make_in(RING, 2, false);
	for (int by_calls = 0; by_calls < 2; by_calls++)
		assert_true(copied(by_calls));
	assert_null(rig_log(rig, 0, every));
	for (int by_calls = 0; by_calls < 2; by_calls++) {
		assert_true(copied(by_calls));
		assert_false(copied(by_calls));
	}
}

/* ---- room ------------------------------------------------------------------------------------ */

/* The queue is as long as the application asked for, however its requests are signaled; and never longer. */
static void a_full_queue(uint32_t ring, uint32_t n, uint32_t signaled)
{
	struct ibv_wc wc[MAX];
	uint64_t seen = 0, run = 0;

	make_in(ring, n, false);
	assert_null(rig_log(rig, 0, n));
	for (uint32_t i = 0; i < 10 * ring; i++) {
		while (post((next % signaled) ? "w" : "W", i % 2))
			;
		assert_int_equal(next - 1 - seen, rig->geometry.send_wr);
		/* one WQE at a time where it matters: the log WQE behind what is complete waits */
		run += fake_run(rig->app, 1 + i % 5);
		for (int got = rig_poll(rig, true, wc, MAX); got; got--)
			seen += signaled;
	}
	assert_true(run > 10 * ring);
	rig_delete(rig);
}

static void full_queues(void **state)
{
	for (uint32_t n = 1; n <= 5; n++)
		for (uint32_t signaled = 1; signaled <= 4; signaled++)
			a_full_queue(16, n, signaled);
	a_full_queue(32, 2, 7);
}

/* ---- a fault --------------------------------------------------------------------------------- */

/* It executes so many, log WQEs too, of eight WRITEs; none is acknowledged. What the word says lies before those. */
static void a_word(uint32_t executed, uint32_t number, const char *behind)
{
	enum sp_fate fates[8];
	struct sp_request info[MAX];
	uint32_t from;

	make(3);
	assert_int_equal(post("wwwwwwww", false), 8);
	assert_true(fake_run_silently(rig->app, executed));
	(void)quiesce();
	assert_int_equal(ENGINE->move.outstanding(rig->sp, info, MAX), 8);
	assert_int_equal(ENGINE->qp.logged(rig->sp, number), number);
	for (uint32_t i = 0; i < 8; i++)
		fates[i] = i < number ? SP_FATE_DELIVERED : SP_FATE_RESEND;
	from = fake_log.n;
	move(fates, 8);
	assert_int_equal(post("W", false), 1);
	fake_run(rig_active(rig), MAX);
	expect_log(1, from, behind);
	see(1, 9);
	rig_delete(rig);
}

/* www d www g ww: each carrier's ring numbers its own */
static void numbers_are_the_rings(void **state)
{
	a_word(3, 0, "...d...g...j");
	a_word(4, 3, "...d...g");
	a_word(7, 3, "...d...g");
	a_word(8, 6, "...d");
	a_word(10, 6, "...d");
}

/* Between two requests lies a packet that is neither's; a PSN there says that the first one ran. */
static void packets_of_the_log(void **state)
{
	static const uint32_t psn[] = { 0xfffff0, 0xfffff1, 0xfffff3, 0xfffff4 };
	struct sp_request info[MAX];

	make(2);
	assert_int_equal(post("wwss", false), 4);
	assert_int_equal(ENGINE->move.outstanding(rig->sp, info, MAX), 4);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(info[i].psn, psn[i]);
		assert_int_equal(info[i].packets, 1);
		assert_int_equal(info[i].behind, i == 1);
	}
	assert_true(fake_run_silently(rig->app, 5));
	assert_int_equal(rig->app->silent_psn & 0xffffff, 0xfffff5);
}

/* What is complete is not told of; but its log WQE's packet may be the next that the peer expects. */
static void a_packet_before_the_oldest(void **state)
{
	struct sp_request info[MAX];

	make(2);
	assert_int_equal(post("wWw", false), 3);
	assert_int_equal(ENGINE->move.outstanding(rig->sp, info, MAX), 3);
	assert_int_equal(info[0].before, 0);
	fake_run(rig->app, 2);
	see(1, 2);
	assert_int_equal(ENGINE->move.outstanding(rig->sp, info, MAX), 1);
	assert_int_equal(info[0].before, 1);
	assert_int_equal(info[0].psn, (rig->app->psn + 1) & 0xffffff);
}

/* The ring has numbers for them. */
static void hidden_nops_are_not_counted(void **state)
{
	struct sp_request info[MAX];
	bool unrepeatable;

	make(1);
	assert_int_equal(post("w", false), 1);
	assert_int_equal(ENGINE->move.fence(rig->sp, &unrepeatable), 0);
	assert_int_equal(ENGINE->move.resume(rig->sp), -EAGAIN);
	assert_int_equal(post("ww", false), 2);
	assert_true(fake_run_silently(rig->app, 5));
	expect_log(0, 0, ".b.d");
	(void)quiesce();
	assert_int_equal(ENGINE->move.outstanding(rig->sp, info, MAX), 3);
	assert_int_equal(ENGINE->qp.logged(rig->sp, 1), 1);
	assert_int_equal(ENGINE->qp.logged(rig->sp, 3), 2);
	assert_int_equal(ENGINE->qp.logged(rig->sp, 4), 3);
	assert_true(ENGINE->qp.logged(rig->sp, 40) > 3); /* a lie, and seen to be one */
}

static void what_was_recalled_counts_from_its_number(void **state)
{
	struct sp_request info[MAX];
	enum sp_last_seen seen;

	make(1);
	assert_int_equal(post("WwW", false), 3);
	fake_run(rig->app, 2);
	see(1, 1);
	fake_run(rig->app, 4);
	(void)quiesce();
	ENGINE->move.seal(rig->sp);
	assert_int_equal(ENGINE->move.recall(rig->sp, &seen), 0);
	assert_int_equal(ENGINE->move.outstanding(rig->sp, info, MAX), 2);
	assert_int_equal(ENGINE->qp.logged(rig->sp, 3), 2);
	assert_int_equal(ENGINE->qp.logged(rig->sp, 1), 0); /* what was seen is in memory */
	assert_int_equal(ENGINE->qp.logged(rig->sp, 0), -1);
}

/* Many times round the ring, whose slots are then of anything. */
static void recalled_after_a_while(void **state)
{
	struct sp_request info[MAX];
	enum sp_last_seen seen;

	make(2);
	for (int lap = 0; lap < 100; lap++) {
		assert_int_equal(post(lap % 3 ? "wsW" : "wW", lap % 2), lap % 3 ? 3 : 2);
		fake_run(rig->app, MAX);
		see(1, next - 1);
	}
	assert_int_equal(post("wWww", false), 4);
	fake_run(rig->app, 4);
	(void)quiesce();
	ENGINE->move.seal(rig->sp);
	assert_int_equal(ENGINE->move.recall(rig->sp, &seen), 0);
	assert_int_equal(ENGINE->move.outstanding(rig->sp, info, MAX), 4);
}

/* The error of a log WQE is the queue pair's, and says that what lies before it was acknowledged. */
static void its_error(const char *requests, uint32_t run, uint32_t left)
{
	struct sp_request info[MAX];

	make(1);
	assert_int_equal(post(requests, false), strlen(requests));
	assert_int_equal(fake_run(rig->app, run), run);
	fake_flush(rig->app, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	see(0, 0);
	assert_int_equal(fake_events.errors, 1);
	assert_int_equal(fake_events.withheld, 1);
	assert_int_equal(fake_events.status, IBV_WC_RETRY_EXC_ERR);
	assert_true(quiesce().sq);
	assert_int_equal(ENGINE->move.outstanding(rig->sp, info, MAX), left);
	rig_delete(rig);
}

static void its_error_is_the_queue_pairs(void **state)
{
	its_error("w", 1, 0);
	its_error("ww", 1, 1);
	its_error("ww", 3, 0);
}

/* Its request is complete, and its slot free, when it fails. */
static void an_error_behind_what_was_seen(void **state)
{
	struct sp_request info[MAX];

	make(1);
	for (uint64_t id = 1; id <= 5 * RING; id++) {
		assert_int_equal(post("W", false), 1);
		fake_run(rig->app, 2);
		see(1, id);
	}
	assert_int_equal(post("W", false), 1);
	fake_run(rig->app, 1);
	see(1, 5 * RING + 1);
	fake_flush(rig->app, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	see(0, 0);
	(void)quiesce();
	assert_int_equal(ENGINE->move.outstanding(rig->sp, info, MAX), 0);
}

/* Where nothing is withheld, the application gets the errors of its own requests, and no other. */
static void an_unguarded_flush(void **state)
{
	struct ibv_wc wc[MAX];

	make(1);
	ENGINE->qp.guard(rig->sp, false);
	assert_int_equal(post("wWw", false), 3);
	fake_run(rig->app, 1);
	fake_flush(rig->app, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	assert_int_equal(rig_poll(rig, true, wc, MAX), 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(wc[i].wr_id, 2 + i);
		assert_int_equal(wc[i].status, IBV_WC_WR_FLUSH_ERR);
	}
}

/* It completes them out of the ring. */
static void a_queue_that_fails(void **state)
{
	struct ibv_wc wc[MAX];

	make(1);
	assert_int_equal(post("wWsw", false), 4);
	ENGINE->move.withhold(rig->sp);
	assert_int_equal(post("wr", false), 2);
	ENGINE->move.fail_all(rig->sp, IBV_WC_RETRY_EXC_ERR, 0, 2);
	assert_int_equal(rig_poll(rig, true, wc, MAX), 5);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(wc[i].wr_id, 2 + i);
		assert_int_equal(wc[i].status, i == 0	? IBV_WC_SUCCESS
					       : i == 1 ? IBV_WC_RETRY_EXC_ERR
							: IBV_WC_WR_FLUSH_ERR);
	}
}

/* An ordered switch waits for the requests; what the log says of them may still be under way. */
static void a_fence_waits_for_requests(void **state)
{
	bool unrepeatable;

	make(1);
	assert_int_equal(post("wW", false), 2);
	assert_int_equal(ENGINE->move.fence(rig->sp, &unrepeatable), 0);
	fake_run(rig->app, 2);
	drain();
	assert_false(ENGINE->move.fenced(rig->sp));
	fake_run(rig->app, 1);
	drain();
	assert_true(ENGINE->move.fenced(rig->sp));
	assert_int_equal(fake_published(rig->app), 1);
	assert_true(quiesce().sq);
	move(NULL, 0);
	assert_int_equal(post("W", false), 1);
	fake_run(rig_active(rig), MAX);
	see(2, 2);
}

/* ---- where it is, and where not -------------------------------------------------------------- */

/* A NIC that knows of it completes each WQE. */
static void not_where_all_is_signaled(void **state)
{
	make_in(RING, 1, true);
	assert_non_null(rig_log(rig, 0, 1));
	assert_int_equal(post("www", false), 3);
	fake_run(rig->app, MAX);
	expect_log(0, 0, "...");
	see(3, 1);
}

static void asking_lays_none(void **state)
{
	make_in(RING, 1, false);
	assert_null(ENGINE->qp.log(rig->sp, 0, NULL));
	assert_int_equal(post("W", false), 1);
	assert_int_equal(fake_run(rig->app, MAX), 1);
}

static void no_queue_no_log(void **state)
{
	static const struct fake_geometry receives = { 1, 16, 4, 0, 1, false };

	rig = rig_new(&receives, 64, false);
	assert_non_null(rig_log(rig, 0, 1));
}

/* Another connection begins without. */
static void a_reset_ends_it(void **state)
{
	make(1);
	assert_int_equal(post("wW", true), 2);
	fake_run(rig->app, MAX);
	see(1, 2);
	ENGINE->qp.modified(rig->sp, IBV_QPS_RESET);
	ENGINE->qp.modified(rig->sp, IBV_QPS_INIT);
	ENGINE->qp.modified(rig->sp, IBV_QPS_RTR);
	ENGINE->qp.modified(rig->sp, IBV_QPS_RTS);
	rig->app->sq_ci = 0;
	rig->app->db[MLX5_SND_DBR] = 0;
	assert_int_equal(post("w", false), 1);
	assert_int_equal(post("wW", true), 2);
	assert_int_equal(fake_run(rig->app, MAX), 3);
	see(1, next - 1);
	ENGINE->move.withhold(rig->sp);
	assert_int_equal(post("W", false), 1);
	assert_int_equal(ENGINE->move.resume(rig->sp), 0);
	assert_int_equal(fake_run(rig->app, MAX), 1);
	see(1, next - 1);
	assert_null(rig_log(rig, 0, 1));
	assert_int_equal(post("W", true), 1);
	assert_int_equal(fake_run(rig->app, MAX), 2);
}

int main(void)
{
#define TEST(f)	 cmocka_unit_test_teardown(f, teardown)
#define ALONE(f) cmocka_unit_test(f)
	const struct CMUnitTest tests[] = {
		TEST(it_is_behind_each_nth_that_changes_memory),
		TEST(behind_a_move_too),
		TEST(carriers_with_and_without),
		TEST(what_waited),
		TEST(a_key_is_missing),
		TEST(what_is_given_up_is_not_counted),
		ALONE(lists_that_are_given_up),
		TEST(no_copy_of_it_alone),
		ALONE(full_queues),
		ALONE(numbers_are_the_rings),
		TEST(packets_of_the_log),
		TEST(a_packet_before_the_oldest),
		TEST(hidden_nops_are_not_counted),
		TEST(what_was_recalled_counts_from_its_number),
		TEST(recalled_after_a_while),
		ALONE(its_error_is_the_queue_pairs),
		TEST(an_error_behind_what_was_seen),
		TEST(an_unguarded_flush),
		TEST(a_queue_that_fails),
		TEST(a_fence_waits_for_requests),
		TEST(not_where_all_is_signaled),
		TEST(asking_lays_none),
		TEST(no_queue_no_log),
		TEST(a_reset_ends_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
