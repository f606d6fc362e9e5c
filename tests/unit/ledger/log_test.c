/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Log WQEs behind the application's requests: which of these they count, and that nobody sees anything of them. */
#include <endian.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "providers/ledger/ledger.h"
#include "tests/lib/random.h"
#include "tests/lib/verbs_rig.h"

#define ENGINE (&shift_provider_ledger)

enum { DEPTH = 16, MAX = 64, WORD_AT = 1 << 24, TAG = 0xfffffff0 };

static struct vrig *rig;
static uint64_t next;

static void make(uint32_t every, bool sig_all, uint32_t max_inline)
{
	struct vr_setup setup = { .engine = ENGINE,
				  .app = { .send_wr = DEPTH,
					   .recv_wr = DEPTH,
					   .send_sge = 2,
					   .recv_sge = 1,
					   .max_inline = max_inline,
					   .sig_all = sig_all },
				  .log_every = every };

	rig = calloc(1, sizeof(*rig));
	assert_non_null(rig);
	vrig_make(rig, &setup);
	ENGINE->qp.guard(rig->sp, true);
	next = 1;
}

static int teardown(void **state)
{
	vrig_free(rig);
	free(rig);
	return 0;
}

static const char *log_on(uint32_t epoch)
{
	const struct sp_log log = { .addr = WORD_AT,
				    .rkey = vf_key_on(vf_rkey(WORD_AT), epoch),
				    .tag = TAG + epoch,
				    .every = rig->setup.log_every };

	return ENGINE->qp.log(rig->sp, epoch, &log);
}

/* w WRITE, s SEND, r READ, a atomic; capitals are signaled. By ibv_wr_*, if so said. How many were taken. */
static uint32_t post(const char *requests, bool by_calls)
{
	static const char letters[] = "wsra";
	static const enum ibv_wr_opcode ops[] = { IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_RDMA_READ,
						  IBV_WR_ATOMIC_FETCH_AND_ADD };
	struct vr_request list[VR_LIST];
	uint32_t n = 0, taken;

	for (; *requests; requests++, n++) {
		char lower = *requests | 0x20;

		list[n] = (struct vr_request){ .id = next + n,
					       .op = ops[strchr(letters, lower) - letters],
					       .flags = lower == *requests ? 0 : IBV_SEND_SIGNALED,
					       .sges = 1,
					       .bytes = 8 };
	}
	(void)vrig_post(rig, list, n, by_calls, &taken);
	next += taken;
	return taken;
}

static void see(uint32_t n, const uint64_t *ids)
{
	struct ibv_wc wc[MAX];

	assert_int_equal(vrig_poll(rig, true, false, wc, MAX), n);
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
		assert_true(wc[i].wr_id == VR_WR_ID(ids[i]));
	}
}

/* What the peer's NIC has executed, in order: a dot each; for a log WQE the letter of its number, from a = 0 on. */
static void expect_log(uint32_t epoch, uint32_t from, const char *want)
{
	char got[MAX] = "";
	uint32_t n = 0;

	for (uint32_t i = from; i < vf_log.n; i++) {
		const struct vf_done *done = &vf_log.done[i];
		uint64_t word;

		if (done->opcode != IBV_WR_RDMA_WRITE || done->id != WORD_AT) {
			got[n++] = '.';
			continue;
		}
		memcpy(&word, done->data, sizeof(word));
		word = le64toh(word);
		assert_int_equal(done->length, sizeof(word));
		assert_int_equal(word >> 32, TAG + epoch);
		got[n++] = (char)('a' + (uint32_t)word);
	}
	assert_string_equal(got, want);
}

static struct sp_flushed quiesce(void)
{
	struct sp_flushed flushed = { 0 };

	ENGINE->move.withhold(rig->sp);
	vf_modify(vrig_active(rig), IBV_QPS_ERR);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ENGINE->cq.collect(rig->sp_scq), 0);
		assert_int_equal(ENGINE->cq.collect(rig->sp_rcq), 0);
		ENGINE->move.flushed(rig->sp, true, &flushed);
	}
	return flushed;
}

static void move(const enum sp_fate *fates, uint32_t n)
{
	uint32_t to = vrig_standby(rig, 0, &rig->setup.app);
	struct sp_settled settled;

	assert_int_not_equal(to, 0);
	assert_null(log_on(to));
	ENGINE->move.seal(rig->sp);
	assert_int_equal(ENGINE->move.lay_receives(rig->sp, rig->carriers[to].sp), 0);
	assert_int_equal(ENGINE->move.settle(rig->sp, rig->carriers[to].sp, fates, n, &settled), 0);
	rig->active = to;
}

/* ---- what is counted ------------------------------------------------------------------------- */

static void it_is_behind_each_nth_that_changes_memory(void **state)
{
	make(2, false, 64);
	assert_int_equal(post("ww", false), 2);
	vf_run(rig->app, MAX);
	assert_null(log_on(0));
	assert_int_equal(post("w", false), 1);
	assert_int_equal(post("ssWrrA", false), 6);
	assert_int_equal(post("waW", true), 3);
	vf_run(rig->app, MAX);
	expect_log(0, 0, "......g....k..m");
	see(3, (uint64_t[]){ 6, 9, 12 });
	see(0, NULL);
}

/* The queue is as long as the application asked for, however its requests are signaled; and never longer. */
static void a_full_queue(uint32_t every, uint32_t signaled)
{
	make(every, false, 64);
	assert_null(log_on(0));
	for (uint32_t i = 0; i < 20 * DEPTH; i++) {
		while (post((next % signaled) ? "w" : "W", i % 2))
			;
		vf_run(rig->app, 1 + i % (2 * DEPTH));
		(void)vrig_poll(rig, true, false, (struct ibv_wc[MAX]){ 0 }, MAX);
		assert_int_equal(vf_stats.refused_room, 0);
	}
	assert_true(next > 20 * DEPTH);
	(void)teardown(NULL);
}

static void full_queues(void **state)
{
	for (uint32_t every = 1; every <= 5; every++)
		for (uint32_t signaled = 1; signaled <= DEPTH; signaled++)
			a_full_queue(every, signaled);
}

/* ---- a fault --------------------------------------------------------------------------------- */

/* It executes so many, log WQEs too, of eight WRITEs; none is acknowledged. What the word says lies before those. */
static void a_word(uint32_t executed, uint32_t number, const char *behind)
{
	enum sp_fate fates[8];
	struct sp_request info[MAX];
	uint32_t from;

	make(3, false, 64);
	assert_null(log_on(0));
	assert_int_equal(post("wwwwwwww", false), 8);
	assert_int_equal(vf_run_silently(rig->app, executed), executed);
	(void)quiesce();
	assert_int_equal(ENGINE->move.outstanding(rig->sp, info, MAX), 8);
	assert_int_equal(ENGINE->qp.logged(rig->sp, number), number);
	for (uint32_t i = 0; i < 8; i++)
		fates[i] = i < number ? SP_FATE_DELIVERED : SP_FATE_RESEND;
	from = vf_log.n;
	move(fates, 8);
	assert_int_equal(post("W", false), 1);
	vf_run(vrig_active(rig), MAX);
	expect_log(1, from, behind);
	see(1, (uint64_t[]){ 9 });
	(void)teardown(NULL);
}

/* www d www g ww: numbers go on over the move, under the next carrier's tag */
static void numbers_go_on(void **state)
{
	a_word(3, 0, "...d...g...j");
	a_word(4, 3, "...g...j");
	a_word(7, 3, "...g...j");
	a_word(8, 6, "...j");
	a_word(10, 6, "...j");
}

static void what_was_recalled_counts_from_its_number(void **state)
{
	struct sp_request info[MAX];
	enum sp_last_seen seen;

	make(1, false, 64);
	assert_null(log_on(0));
	assert_int_equal(post("WwW", false), 3);
	vf_run(rig->app, 2);
	see(1, (uint64_t[]){ 1 });
	vf_run(rig->app, 4);
	(void)quiesce();
	ENGINE->move.seal(rig->sp);
	assert_int_equal(ENGINE->move.recall(rig->sp, &seen), 0);
	assert_int_equal(ENGINE->move.outstanding(rig->sp, info, MAX), 2);
	assert_int_equal(ENGINE->qp.logged(rig->sp, 3), 2);
	assert_int_equal(ENGINE->qp.logged(rig->sp, 1), 0); /* what was seen is in memory */
	assert_int_equal(ENGINE->qp.logged(rig->sp, 0), -1);
	(void)teardown(NULL);
}

/* The error of a log WQE is the queue pair's, and says that what lies before it was acknowledged. */
static void its_error(const char *requests, uint32_t run, uint32_t left)
{
	struct sp_request info[MAX];

	make(1, false, 64);
	assert_null(log_on(0));
	assert_int_equal(post(requests, false), strlen(requests));
	assert_int_equal(vf_run(rig->app, run), run);
	vf_die(rig->app, IBV_WC_RETRY_EXC_ERR);
	see(0, NULL);
	assert_int_equal(rig->events.errors, 1);
	assert_int_equal(rig->events.withheld, 1);
	assert_int_equal(rig->events.status, IBV_WC_RETRY_EXC_ERR);
	assert_true(quiesce().sq);
	assert_int_equal(ENGINE->move.outstanding(rig->sp, info, MAX), left);
	(void)teardown(NULL);
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

	make(1, false, 64);
	assert_null(log_on(0));
	for (uint64_t id = 1; id <= 5 * DEPTH; id++) {
		assert_int_equal(post("W", false), 1);
		vf_run(rig->app, 2);
		see(1, &id);
	}
	assert_int_equal(post("W", false), 1);
	vf_run(rig->app, 1);
	see(1, (uint64_t[]){ 5 * DEPTH + 1 });
	vf_die(rig->app, IBV_WC_RETRY_EXC_ERR);
	see(0, NULL);
	(void)quiesce();
	assert_int_equal(ENGINE->move.outstanding(rig->sp, info, MAX), 0);
	(void)teardown(NULL);
}

/* ---- whatever happens ------------------------------------------------------------------------ */

enum { ROUNDS = 200, STEPS = 60, IDS = 2048 };

static uint64_t rng;

static struct {
	bool changes[IDS], signaled[IDS];
	uint64_t ran, seen; /* the highest that ran, and whose completion was polled */
	uint64_t last;	    /* that ran */
	uint32_t word;	    /* in memory; 0: none of this carrier */
	uint32_t rest;	    /* that change memory and ran behind it */
	uint32_t at;	    /* of vf_log */
} m;

static void post_some(void)
{
	static const char letters[] = "wWwWaAsSrR";
	char requests[5] = "";
	uint64_t first = next;
	uint32_t n = 1 + random_below(&rng, 4);

	for (uint32_t i = 0; i < n; i++)
		requests[i] = letters[random_below(&rng, sizeof(letters) - 1)];
	n = post(requests, random_below(&rng, 2));
	for (uint32_t i = 0; i < n; i++) {
		m.changes[first + i] = strchr("wWaA", requests[i]);
		m.signaled[first + i] = strchr("WASR", requests[i]);
	}
}

/* A word counts what ran right before it, and comes in its time. */
static void look(uint32_t epoch)
{
	for (; m.at < vf_log.n; m.at++) {
		const struct vf_done *done = &vf_log.done[m.at];
		uint64_t word;

		if (!done->length)
			continue; /* the engine's marker */
		if (done->opcode != IBV_WR_RDMA_WRITE || done->id != WORD_AT) {
			m.last = vrig_id(done);
			m.ran = m.last > m.ran ? m.last : m.ran; /* READs come again */
			m.rest += m.changes[m.last];
			assert_true(m.rest <= rig->setup.log_every);
			continue;
		}
		memcpy(&word, done->data, sizeof(word));
		word = le64toh(word);
		assert_int_equal(word >> 32, TAG + epoch);
		assert_int_equal((uint32_t)word, m.last);
		assert_true(m.changes[m.last] && m.last == m.ran);
		m.word = (uint32_t)word;
		m.rest = 0;
	}
}

/* Signaled ones, in order. */
static void poll_some(void)
{
	struct ibv_wc wc[MAX];
	int n = vrig_poll(rig, true, false, wc, (int)random_below(&rng, MAX));

	for (int i = 0; i < n; i++) {
		assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
		for (m.seen++; !m.signaled[m.seen]; m.seen++)
			;
		assert_true(wc[i].wr_id == VR_WR_ID(m.seen));
	}
}

static void move_some(void)
{
	struct sp_request info[MAX];
	enum sp_fate fates[MAX] = { 0 };
	uint32_t n, published = 0;
	uint64_t first;
	int32_t ran;

	(void)quiesce();
	look(rig->active);
	n = ENGINE->move.outstanding(rig->sp, info, MAX);
	ran = ENGINE->qp.logged(rig->sp, m.word);
	first = next - n;
	assert_true(ran <= (int32_t)(m.ran - first + 1));
	for (; published < n && info[published].published; published++)
		fates[published] = first + published > m.ran		 ? SP_FATE_RESEND
				   : info[published].kind == SP_REQ_READ ? SP_FATE_READ_AGAIN
									 : SP_FATE_DELIVERED;
	move(fates, published);
	m.word = m.rest = 0;
}

static void a_random_round(void)
{
	memset(&m, 0, sizeof(m));
	make(1 + random_below(&rng, 5), false, 64);
	assert_null(log_on(0));
	for (uint32_t step = 0; step < STEPS; step++) {
		post_some();
		if (random_below(&rng, 2))
			vf_run(vrig_active(rig), random_below(&rng, 12));
		else
			vf_run_silently(vrig_active(rig), random_below(&rng, 12));
		look(rig->active);
		poll_some();
		if (!random_below(&rng, 15))
			move_some();
		assert_int_equal(vf_stats.refused_room, 0);
	}
	(void)teardown(NULL);
}

static void at_random(void **state)
{
	for (uint32_t round = 0; round < ROUNDS; round++)
		a_random_round();
}

/* ---- where it cannot be ---------------------------------------------------------------------- */

static void refusals(void **state)
{
	make(1, true, 64);
	assert_non_null(log_on(0));
	assert_int_equal(post("W", false), 1);
	assert_int_equal(vf_run(rig->app, MAX), 1);
	(void)teardown(NULL);
	make(1, false, 4);
	assert_non_null(log_on(0));
	(void)teardown(NULL);
	make(1, false, 64);
	assert_null(ENGINE->qp.log(rig->sp, 0, NULL)); /* it could be */
	assert_int_equal(post("W", false), 1);
	assert_int_equal(vf_run(rig->app, MAX), 1);
	(void)teardown(NULL);
}

/* Another connection begins without. */
static void a_reset_ends_it(void **state)
{
	make(1, false, 64);
	assert_null(log_on(0));
	vf_modify(rig->app, IBV_QPS_RESET);
	ENGINE->qp.modified(rig->sp, IBV_QPS_RESET);
	vf_modify(rig->app, IBV_QPS_RTS);
	ENGINE->qp.modified(rig->sp, IBV_QPS_RTS);
	assert_int_equal(post("WwW", false), 3);
	assert_int_equal(vf_run(rig->app, MAX), 3);
	(void)teardown(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(it_is_behind_each_nth_that_changes_memory, teardown),
		cmocka_unit_test(full_queues),
		cmocka_unit_test(numbers_go_on),
		cmocka_unit_test(what_was_recalled_counts_from_its_number),
		cmocka_unit_test(its_error_is_the_queue_pairs),
		cmocka_unit_test(an_error_behind_what_was_seen),
		cmocka_unit_test(at_random),
		cmocka_unit_test(refusals),
		cmocka_unit_test(a_reset_ends_it),
	};

	rng = random_seed("log_test");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
