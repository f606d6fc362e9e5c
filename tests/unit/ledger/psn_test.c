/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Packet numbers that the engine tells of what is outstanding, against those that a NIC gives to what it was posted: over
 * random posts by every call, refusals, withholding, fences, logs and moves to carriers of other MTUs.
 */
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

enum {
	DEPTH = 16,
	MAX = 128,
	WORD_AT = 1 << 24, /* no request has this address */
	TAG = 0x70,
	MASK = 0xffffff,
	ROUNDS = 1500,
	STEPS = 80,
	IDS = 4096,
	NEVER = UINT32_MAX,
};

static struct vrig *rig;
static uint64_t rng;

/* What the NIC of the active carrier gave numbers to. */
static struct {
	uint32_t psn, mtu; /* psn: of its next packet that runs */
	uint32_t end;	   /* of its next packet that is posted; as of mark_pending() */
	uint32_t log_at;   /* of vf_log */
	uint32_t mtus[VR_CARRIERS];
	uint64_t next;	  /* request */
	uint32_t on[IDS]; /* which carrier had it */
	uint32_t at[IDS]; /* its PSN there */
	uint32_t packets[IDS];
	uint8_t op[IDS], ran[IDS]; /* so often, on any carrier */
	bool delivered[IDS];	   /* a move said so */
	bool logged;
} m;

static struct {
	uint32_t moves, told, untold, ran, not_run, before, long_ones, atomics_long, refused;
} reached;

static uint32_t below(uint32_t n)
{
	return random_below(&rng, n);
}

/* ---- the truth ------------------------------------------------------------------------------ */

/* IBA 9.7.2: the PSN of a READ's successor lies behind those of its answer. */
static uint32_t packets_of(uint8_t op, uint32_t bytes)
{
	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD || op == IBV_WR_ATOMIC_CMP_AND_SWP || !bytes)
		return 1;
	return (bytes + m.mtu - 1) / m.mtu;
}

/* Fences have no address, log WQEs that of the word. */
static bool is_hidden(const struct vf_done *done)
{
	return done->opcode != IBV_WR_SEND && done->opcode != IBV_WR_SEND_WITH_IMM &&
	       (!done->id || done->id == WORD_AT);
}

static void number(uint64_t id, uint32_t psn, uint32_t packets)
{
	assert_true(id && id < m.next);
	m.on[id] = rig->active;
	m.at[id] = psn & MASK;
	m.packets[id] = packets;
}

static void look(void)
{
	for (; m.log_at < vf_log.n; m.log_at++) {
		const struct vf_done *done = &vf_log.done[m.log_at];
		uint32_t packets = packets_of(done->opcode, done->length);

		if (!is_hidden(done)) {
			number(vrig_id(done), m.psn, packets);
			m.ran[vrig_id(done)]++;
		}
		m.psn += packets;
	}
}

/* Of a request that its NIC holds. */
static struct vf_done as_done(const struct vf_send *send)
{
	struct vf_done done = { .opcode = send->opcode,
				.id = send->remote_addr,
				.imm = send->imm,
				.length = send->length };

	if (send->opcode == IBV_WR_SEND || send->opcode == IBV_WR_SEND_WITH_IMM)
		done.id = send->flags & IBV_SEND_INLINE ? 0 : send->sge[0].addr;
	memcpy(done.data, send->data, sizeof(done.data));
	return done;
}

static void mark_pending(void)
{
	const struct vf_qp *qp = vrig_active(rig);
	uint32_t psn = m.psn;

	for (uint32_t i = qp->executed; i != qp->head; i++) {
		struct vf_done done = as_done(&qp->sends[i & (qp->send_room - 1)]);
		uint32_t packets = packets_of(done.opcode, done.length);

		if (!is_hidden(&done))
			number(vrig_id(&done), psn, packets);
		psn += packets;
	}
	m.end = psn & MASK;
}

/* ---- the application ------------------------------------------------------------------------ */

static uint32_t random_bytes(void)
{
	uint32_t around = m.mtu * below(5) + below(3);

	switch (below(4)) {
	case 0: return 8;
	case 1: return around ? around - 1 : 0;
	case 2: return below(3 * m.mtu);
	default: return below(16);
	}
}

static void random_request(struct vr_request *r, uint64_t id)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_SEND,
		IBV_WR_SEND_WITH_IMM,
		IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_CMP_AND_SWP,
		IBV_WR_ATOMIC_FETCH_AND_ADD,
	};
	bool answers, atomic;

	*r = (struct vr_request){ .id = id, .op = ops[below(8)], .bytes = random_bytes() };
	atomic = r->op >= IBV_WR_ATOMIC_CMP_AND_SWP;
	answers = atomic || r->op == IBV_WR_RDMA_READ;
	r->flags = below(2) || id % 3 == 0 ? IBV_SEND_SIGNALED : 0;
	r->sges = below(3) ? 1 : 1 + below(rig->setup.app.send_sge);
	if (!answers && !below(3)) {
		r->flags |= IBV_SEND_INLINE;
		r->bytes = 8 + below(rig->setup.app.max_inline - 7);
	} else if (r->op == IBV_WR_RDMA_WRITE && !below(8)) {
		r->sges = 0;
	}
	r->sges = atomic ? 1 : r->sges;
}

static void post(void)
{
	struct vr_request list[VR_LIST];
	uint32_t n = 1 + below(below(2) ? 1 : 6), taken;
	struct vf_qp *qp = vrig_active(rig);
	int err;

	for (uint32_t i = 0; i < n; i++) {
		random_request(&list[i], m.next + i);
		m.op[m.next + i] = (uint8_t)list[i].op;
	}
	if (!below(20))
		list[below(n)].sges = 2 * VF_SGES; /* too many */
	qp->refuse_send = below(12) ? 0 : 1 + below(6);
	m.next += n;
	err = vrig_post(rig, list, n, below(2), &taken);
	qp->refuse_send = 0;
	m.next -= n - taken;
	reached.refused += err != 0;
	for (uint32_t i = 0; i < taken; i++) {
		reached.long_ones += list[i].bytes > m.mtu;
		reached.atomics_long +=
			list[i].bytes > m.mtu && list[i].op >= IBV_WR_ATOMIC_CMP_AND_SWP;
	}
}

static void poll(void)
{
	struct ibv_wc wc[MAX];

	(void)vrig_poll(rig, true, false, wc, below(4) ? MAX : (int)below(4));
}

/* ---- the shell ------------------------------------------------------------------------------ */

static void publish(void)
{
	for (int i = 0; i < MAX; i++)
		if (!ENGINE->move.publish(rig->sp))
			return;
	/* a full queue takes more when some have run, and were polled */
}

static void begin(uint32_t epoch)
{
	uint32_t psn = below(2) ? below(MASK + 1) : MASK - below(100);

	m.psn = psn;
	m.mtu = 64u << below(7);
	m.mtus[epoch] = m.mtu;
	ENGINE->qp.number(rig->sp, epoch, psn, m.mtu);
}

static void log_on(uint32_t epoch)
{
	const struct sp_log log = { .addr = WORD_AT,
				    .rkey = vf_key_on(vf_rkey(WORD_AT), epoch),
				    .tag = TAG + epoch,
				    .every = rig->setup.log_every };

	m.logged = true;
	assert_null(ENGINE->qp.log(rig->sp, epoch, &log));
}

static void quiesce(void)
{
	struct sp_flushed flushed;

	look();
	mark_pending();
	ENGINE->move.withhold(rig->sp);
	vf_modify(vrig_active(rig), IBV_QPS_ERR);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ENGINE->cq.collect(rig->sp_scq), 0);
		assert_int_equal(ENGINE->cq.collect(rig->sp_rcq), 0);
		ENGINE->move.flushed(rig->sp, true, &flushed);
	}
	ENGINE->move.seal(rig->sp);
}

/* A request that is complete ran; one of its own before the oldest may not have. */
static void check_first(const struct sp_request *first)
{
	uint32_t missing = (first->psn - m.psn) & MASK;

	if (!missing || missing > MASK / 2)
		return;
	assert_true(missing <= first->before);
	reached.before++;
}

static bool all_are_there(const struct sp_request *info, uint32_t n)
{
	for (uint32_t i = 0; i < n && info[i].published; i++) {
		uint64_t id = m.next - n + i;

		if (m.on[id] != rig->active && !m.delivered[id])
			return false;
	}
	return true;
}

static void check_told(const struct sp_request *info, uint32_t n)
{
	uint64_t first = m.next - n;
	uint32_t behind = NEVER;

	for (uint32_t i = 0; i < n && info[i].published; i++) {
		bool here = m.on[first + i] == rig->active;

		assert_true(info[i].numbered);
		assert_int_equal(info[i].packets, here ? m.packets[first + i] : 0);
		if (here)
			assert_int_equal(info[i].psn, m.at[first + i]);
		if (i)
			assert_int_equal(info[i].before, 0);
		assert_true(behind == NEVER || info[i].psn == behind);
		behind = (info[i].psn + info[i].packets + info[i].behind) & MASK;
		reached.ran += here && m.ran[first + i];
		reached.not_run += here && !m.ran[first + i];
		reached.told++;
	}
	if (behind != NEVER)
		assert_int_equal(behind, m.end);
}

static void check(const struct sp_request *info, uint32_t n)
{
	if (!n || !info[0].published)
		return;
	if (!info[0].numbered) {
		/* what was handed over in part only, behind a move, is not told of */
		assert_false(all_are_there(info, n));
		reached.untold++;
		return;
	}
	check_told(info, n);
	check_first(info);
}

/* By the truth; but of what an earlier move found to have run nothing is known: it has no numbers here. */
static uint32_t decide(enum sp_fate *fates, const struct sp_request *info, uint32_t n)
{
	uint64_t first = m.next - n;
	uint32_t i;

	for (i = 0; i < n && info[i].published; i++) {
		bool *delivered = &m.delivered[first + i];

		fates[i] = SP_FATE_RESEND;
		if (!m.ran[first + i] || (*delivered && below(2)))
			continue;
		*delivered = info[i].kind != SP_REQ_READ;
		fates[i] = *delivered ? SP_FATE_DELIVERED : SP_FATE_READ_AGAIN;
	}
	return i;
}

static void move(void)
{
	struct sp_request info[MAX];
	enum sp_fate fates[MAX];
	struct sp_settled settled;
	uint32_t n, to;

	quiesce();
	n = ENGINE->move.outstanding(rig->sp, info, MAX);
	assert_true(n <= MAX);
	check(info, n);
	n = decide(fates, info, n);
	to = vrig_standby(rig, rig->active % 2, &rig->setup.app);
	assert_int_not_equal(to, 0);
	begin(to);
	if (rig->setup.log_every && below(2))
		log_on(to);
	assert_int_equal(ENGINE->move.lay_receives(rig->sp, rig->carriers[to].sp), 0);
	rig->carriers[to].qp.refuse_send = below(4) ? 0 : 1 + below(6);
	assert_int_equal(ENGINE->move.settle(rig->sp, rig->carriers[to].sp, fates, n, &settled), 0);
	rig->carriers[to].qp.refuse_send = 0;
	rig->active = to;
	reached.moves++;
	if (below(4))
		publish();
}

/* ---- rounds --------------------------------------------------------------------------------- */

static void withhold_a_while(void)
{
	ENGINE->move.withhold(rig->sp);
	post();
	(void)ENGINE->move.resume(rig->sp);
}

static void fence_a_while(void)
{
	bool unrepeatable;

	(void)ENGINE->move.fence(rig->sp, &unrepeatable);
	post();
	if (below(2)) {
		vf_run(vrig_active(rig), below(8));
		look();
		poll();
	}
	if (below(3)) /* else a move finds it there */
		(void)ENGINE->move.resume(rig->sp);
}

static void atomics_wait_a_while(void)
{
	bool used;

	(void)ENGINE->qp.atomics(rig->sp, false, &used);
	post();
	(void)ENGINE->qp.atomics(rig->sp, true, &used);
}

static void keys_are_missing_a_while(void)
{
	rig->keys_missing = true;
	post();
	rig->keys_missing = false;
	publish();
}

static void step(void)
{
	switch (below(30)) {
	case 0:
		if (rig->made + 2 < VR_CARRIERS)
			move();
		break;
	case 1: withhold_a_while(); break;
	case 2: fence_a_while(); break;
	case 3: atomics_wait_a_while(); break;
	case 4: keys_are_missing_a_while(); break;
	case 5:
		if (rig->setup.log_every && !m.logged && rig->active == 0)
			log_on(0);
		break;
	case 6:
	case 7:
	case 8: vf_run_silently(vrig_active(rig), below(6)); break;
	case 9:
	case 10:
	case 11:
	case 12: vf_run(vrig_active(rig), below(2 * DEPTH)); break;
	case 13:
	case 14:
	case 15: poll(); break;
	case 16: publish(); break;
	default: post(); break;
	}
	look();
	assert_true(m.next + 2 * VR_LIST < IDS);
}

static void make(void)
{
	struct vr_setup setup = { .engine = ENGINE,
				  .app = { .send_wr = DEPTH,
					   .recv_wr = DEPTH,
					   .send_sge = 1 + below(6),
					   .recv_sge = 1,
					   .max_inline = 64 + below(160),
					   .plain = !below(4) } };

	if (!below(3))
		setup.log_every = 1 + below(4);
	if (!below(4)) /* a provider whose ibv_wr_* are not used */
		setup.knobs[VR_NICS] |= VF_DOWN_IS_OP;
	rig = calloc(1, sizeof(*rig));
	assert_non_null(rig);
	vrig_make(rig, &setup);
	ENGINE->qp.guard(rig->sp, true);
	memset(&m, 0, sizeof(m));
	m.next = 1;
	begin(0);
}

static int teardown(void **state)
{
	vrig_free(rig);
	free(rig);
	return 0;
}

/* What ran, but for READs, ran once. */
static void check_once(void)
{
	for (uint64_t id = 1; id < m.next; id++)
		assert_true(m.ran[id] <= 1 || m.op[id] == IBV_WR_RDMA_READ);
}

static void at_random(void **state)
{
	for (uint32_t round = 0; round < ROUNDS; round++) {
		make();
		for (uint32_t i = 0; i < STEPS; i++)
			step();
		if (rig->made + 2 < VR_CARRIERS)
			move();
		check_once();
		(void)teardown(NULL);
	}
	printf("%u moves: %u requests told of, %u of them ran, %u did not; %u not told of; %u "
	       "times one of the engine's "
	       "own was missing; %u of many packets, %u atomics with long buffers; %u posts "
	       "refused\n",
	       reached.moves, reached.told, reached.ran, reached.not_run, reached.untold,
	       reached.before, reached.long_ones, reached.atomics_long, reached.refused);
	assert_true(reached.ran && reached.not_run && reached.before && reached.atomics_long &&
		    reached.refused);
}

/* ---- where numbers are not known ------------------------------------------------------------ */

static void expect_numbered(bool numbered)
{
	struct sp_request info[MAX];

	assert_int_not_equal(ENGINE->move.outstanding(rig->sp, info, MAX), 0);
	assert_int_equal(info[0].numbered, numbered);
}

static void post_one(enum ibv_wr_opcode op)
{
	struct vr_request request = { .id = m.next++, .op = op, .sges = 1, .bytes = 8 };
	uint32_t taken;

	(void)vrig_post(rig, &request, 1, false, &taken);
}

/* Nobody said with which one it begins. */
static void a_reset_forgets(void **state)
{
	make();
	post_one(IBV_WR_RDMA_WRITE);
	expect_numbered(true);
	vf_modify(rig->app, IBV_QPS_RESET);
	ENGINE->qp.modified(rig->sp, IBV_QPS_RESET);
	vf_modify(rig->app, IBV_QPS_RTS);
	ENGINE->qp.modified(rig->sp, IBV_QPS_RTS);
	post_one(IBV_WR_RDMA_WRITE);
	expect_numbered(false);
	ENGINE->qp.number(rig->sp, 0, 5, 64);
	(void)teardown(NULL);
}

/* Requests of windows, and those that verbs have got since, are not counted; nor is what comes behind. */
static void a_window_ends_it(void **state)
{
	make();
	post_one(IBV_WR_RDMA_WRITE);
	expect_numbered(true);
	post_one(IBV_WR_LOCAL_INV);
	post_one(IBV_WR_RDMA_WRITE);
	expect_numbered(false);
	(void)teardown(NULL);
}

/* What is recalled may lie before fences that nobody remembers. */
static void what_is_recalled_has_none(void **state)
{
	enum sp_last_seen seen;

	make();
	post_one(IBV_WR_RDMA_WRITE);
	vf_run(rig->app, 1);
	quiesce();
	assert_int_equal(ENGINE->move.recall(rig->sp, &seen), 0);
	expect_numbered(false);
	(void)teardown(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(at_random),
		cmocka_unit_test(a_reset_forgets),
		cmocka_unit_test(a_window_ends_it),
		cmocka_unit_test(what_is_recalled_has_none),
	};

	rng = random_seed("psn_test");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
