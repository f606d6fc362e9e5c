/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The ring engine under random posts, executions, polls, fences and moves, over random geometries
 * and NICs, with carriers that die in the middle of a move. Every completion must come once and in
 * posting order (P1), every two-sided request and atomic must run once (P2, P4), every receive must
 * keep its place and its buffers, and no post may fail that a plain queue would take. In some rounds
 * carriers are logged: then a word counts what had run, all but a few. In some moves the peer's NIC has died
 * with what it had acknowledged: then all that the application has not seen complete comes again.
 *
 * engine_random_test [rounds [seed]]
 */
#include <string.h>

#include "providers/mlx5/qp.h"
#include "providers/mlx5/wqe.h"
#include "tests/lib/mlx5_rig.h"
#include "tests/lib/random_model.h"

#define MUST  MODEL_MUST
#define below model_below

enum {
	STEPS = 400,
	OUTSTANDING = 256,
	HIDDEN =
		2, /* of the engine: shiftlib/conn/parts/room.c reserves places in completion queues for so many */
};

static struct rig *rig;
static uint32_t logged; /* of fake_log */
static bool fenced;	/* sends are withheld, for an ordered switch */
static uint32_t every;	/* of the log; 0: there is none in this round */
static bool counting;	/* the application posts no more than it has seen room for */
/* The active carrier: the oldest request that it got, and whether a hidden NOP has the place of one for good. */
static struct {
	uint64_t first;
	bool spoiled;
	uint8_t absent[MODEL_IDS]; /* requests that were delivered before it took over */
} held_by;
static struct {
	bool on, said;
	uint32_t number; /* of the last word */
	uint32_t since;	 /* requests that it should count, and does not */
} word;			 /* of the active carrier */

/* How often the interesting was reached, over all rounds. */
static struct reached {
	uint64_t sends, refused, receives, moves, ordered, resent, died, gone, fences, put_off,
		fenced, resumed, late, keyless, numbered, words, counted, recalls, recalled;
} reached;

static void random_geometry(struct fake_geometry *g, const struct fake_geometry *least)
{
	g->sq_cnt = 8u << below(4);
	g->rq_cnt = 4u << below(4);
	g->rq_sge = 1 + below(8);
	/* the largest request takes two WQEBBs, or one: then the ring has no place to spare */
	g->send_sge = !least && below(3) ? 4 : 1;
	g->sig_all = least ? least->sig_all : !below(4);
	if (least) {
		while (g->sq_cnt < least->sq_cnt)
			g->sq_cnt *= 2;
		while (g->rq_cnt < least->rq_cnt)
			g->rq_cnt *= 2;
		if (g->rq_sge < least->rq_sge)
			g->rq_sge = least->rq_sge;
	}
	g->send_wr = g->send_sge == 1 ? g->sq_cnt : g->sq_cnt / 2;
	if (every)
		g->send_wr = rig_log_depth(g->sq_cnt, g->send_sge == 1 ? 1 : 2, every);
}

/* -- the application -------------------------------------------------------------------------- */

static void post_sends(void)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						  IBV_WR_ATOMIC_FETCH_AND_ADD,
						  IBV_WR_RDMA_WRITE_WITH_IMM };
	static const enum sp_request_kind kinds[] = { SP_REQ_TWO_SIDED, SP_REQ_WRITE, SP_REQ_READ,
						      SP_REQ_ATOMIC, SP_REQ_TWO_SIDED };
	int n = 1 + below(6), kind;
	unsigned flags;
	uint32_t sges;

	while (n-- && !(counting && model_used() >= rig->geometry.send_wr)) {
		kind = below(5);
		/* a ring full of unsignaled requests could never be used again */
		flags = below(2) || model.next_send % 3 == 0 || rig->geometry.send_wr < 3
				? IBV_SEND_SIGNALED
				: 0;
		sges = kind == 3 ? 1 : 1 + below(rig->geometry.send_sge);
		if (kind == 1 && below(3) == 0)
			flags |= IBV_SEND_INLINE;
		if (rig_send(rig, ops[kind], model.next_send, flags, sges)) {
			/* what was not polled counts: NOPs of ours do not */
			MUST(model_used() >= rig->geometry.send_wr);
			reached.refused++;
			break;
		}
		model_posted(kinds[kind], rig->geometry.sig_all || flags & IBV_SEND_SIGNALED);
	}
}

static void post_recvs(void)
{
	int n = 1 + below(4);

	while (n--) {
		if (rig_recv(rig, model.next_recv * 16, 1 + below(rig->geometry.rq_sge))) {
			MUST(model.next_recv - 1 - model.polled_recv >= rig->geometry.rq_cnt);
			break;
		}
		model.next_recv++;
	}
}

static void poll_some(void)
{
	struct ibv_wc wc[32];
	int n = rig_poll(rig, true, wc, 1 + below(31));

	for (int i = 0; i < n; i++) {
		MUST(wc[i].status == IBV_WC_SUCCESS);
		MUST(wc[i].qp_num == fake_ibv(rig->app)->qp_num);
		model_completed(wc[i].wr_id);
	}
	n = rig_poll(rig, false, wc, 1 + below(31));
	for (int i = 0; i < n; i++) {
		MUST(wc[i].status == IBV_WC_SUCCESS);
		MUST(wc[i].wr_id % 16 == 0);
		model_received(wc[i].wr_id / 16);
	}
}

/* -- the NIC ---------------------------------------------------------------------------------- */

static void account_one(const struct fake_done *done)
{
	if (rig_logged(done, rig->active, &word.number)) {
		MUST(word.on && word.since == every);
		word.said = true;
		word.since = 0;
		reached.words++;
		return;
	}
	if (!done->id)
		return;
	model.ran[done->id]++;
	word.since += model.kind[done->id] == SP_REQ_WRITE || model.kind[done->id] == SP_REQ_ATOMIC;
	MUST(!word.on || word.since <= every);
}

static void account_log(void)
{
	for (; logged < fake_log.n; logged++)
		account_one(&fake_log.done[logged]);
	fake_log.n = logged = 0;
}

static void run_some(void)
{
	fake_run(rig_active(rig), below(8));
	account_log();
}

static void receive_some(struct fake_qp *qp)
{
	int n = below(4);

	while (n--) {
		uint64_t want = (model.received + 1) * 16;

		if (model.received + 1 >= model.next_recv)
			return;
		MUST(fake_recv_addr(qp, qp->rq_ci, 0) == want);
		MUST(fake_receive(qp, MLX5_CQE_RESP_SEND, NULL, 8));
		model.received++;
	}
}

/* -- the shell -------------------------------------------------------------------------------- */

static void drain(void)
{
	MUST(!ENGINE->cq.collect(rig->sp_scq));
	MUST(!ENGINE->cq.collect(rig->sp_rcq));
}

static uint32_t standby(void)
{
	struct fake_geometry g;
	uint32_t to;

	random_geometry(&g, &rig->geometry);
	to = rig_standby_on(rig, below(RIG_NICS), &g);
	MUST(to);
	return to;
}

/* The next WQEBB that the NIC would have executed, and the number of the next packet. */
struct executed {
	uint32_t post, psn;
};

/* Some more requests run whose answers are lost. How far has the NIC executed them? */
static struct executed run_silently(uint32_t lost)
{
	struct fake_qp *qp = rig_active(rig);
	struct executed to = { .post = qp->sq_ci, .psn = qp->psn };

	while (lost && !fake_run_silently(qp, lost)) {
		lost--;
		fake_log.n = logged; /* tried too many: none of them ran */
	}
	account_log();
	if (lost)
		to = (struct executed){ .post = qp->silent_ci, .psn = qp->silent_psn };
	return to;
}

/* The NIC has numbered its packets itself. Of what ran last the log WQE may not have run. */
static void check_numbers(const struct sp_request *info, uint32_t n, uint32_t sent, uint32_t psn)
{
	uint32_t next = n ? info[0].psn : 0, behind = n ? info[0].before : 0;

	for (uint32_t i = 0; i <= n; i++) {
		if (n && i == sent)
			MUST(((next - psn) & RING_PSN_MASK) <= behind);
		if (i == n)
			break;
		MUST(info[i].numbered);
		MUST(info[i].psn == next);
		behind = info[i].behind;
		next = (next + info[i].packets + behind) & RING_PSN_MASK;
	}
	reached.numbered += n;
}

/* What the word counts had run, and of what it does not no more than may be. */
static void check_word(const struct sp_request *info, uint32_t sent)
{
	uint32_t behind = 0;
	int32_t ran;

	if (!word.said)
		return;
	ran = ENGINE->qp.logged(rig->sp, word.number);
	MUST(ran <= (int32_t)sent);
	for (uint32_t i = ran < 0 ? 0 : (uint32_t)ran; i < sent; i++)
		behind += info[i].kind == SP_REQ_WRITE || info[i].kind == SP_REQ_ATOMIC;
	MUST(ran < 0 ? behind <= word.since : behind == word.since);
	reached.counted += ran > 0 ? (uint32_t)ran : 0;
}

/* Where the last request of the walk ends, without its log WQE. */
static uint32_t request_end(const struct ring_walk *w, uint32_t slot)
{
	uint32_t ds = be32toh(ring_sq_ctrl(w->sq, slot)->qpn_ds) & 0x3f, bbs = (ds + 3) / 4;

	return w->post - ring_wqe_logged(w->sq, slot, bbs);
}

/*
 * The peer's NIC died. The oldest request that the application has not seen complete must be there again. Where more
 * was posted than it has room for, or a NOP has a place for good, the oldest ones may count as seen.
 */
static void recall(void)
{
	uint64_t first = model.polled_send + 1;
	enum sp_last_seen seen;
	struct ring_walk w;
	int64_t slot;

	MUST(!ENGINE->move.recall(rig->sp, &seen));
	reached.recalls++;
	if (first < held_by.first)
		first = held_by.first;
	while (first < model.next_send && held_by.absent[first])
		first++;
	MUST(ring_walk_start(&w, &rig->sp->tx->sq));
	slot = ring_walk_next(&w);
	if (!counting || held_by.spoiled || slot < 0)
		return;
	MUST(rig->sp->tx->sq.wrid[slot] == first);
}

/* The next carrier takes over, with these fates. What has run and comes again had not run. */
static void take_over(const struct sp_request *info, const enum sp_fate *fates, uint32_t n,
		      uint32_t held, bool dead)
{
	struct ring_sq *sq = &rig->sp->tx->sq;
	bool laid = false;
	struct ring_walk w;

	held_by.first = model.next_send - held;
	held_by.spoiled = false;
	MUST(ring_walk_start(&w, sq));
	for (uint32_t i = 0; i < n; i++) {
		uint64_t id = sq->wrid[ring_walk_next(&w)];

		if (fates[i] != SP_FATE_DELIVERED && !laid)
			held_by.first = id;
		laid |= fates[i] != SP_FATE_DELIVERED;
		held_by.absent[id] = laid && fates[i] == SP_FATE_DELIVERED && !info[i].signaled;
		/* a NOP stands for a request that another NIC has executed */
		if (!dead || info[i].kind == SP_REQ_LOCAL)
			continue;
		reached.recalled += !!model.ran[id];
		model.ran[id] = 0;
	}
}

/*
 * Fates of what the engine holds for outstanding: delivered before that WQEBB, but if the peer's NIC is dead all of
 * it comes again.
 */
static uint32_t decide(enum sp_fate *fates, const struct executed *executed, bool dead)
{
	struct sp_request info[OUTSTANDING];
	uint32_t n = ENGINE->move.outstanding(rig->sp, info, OUTSTANDING), i;
	uint32_t sent = 0;
	struct ring_walk w;
	int64_t slot;
	bool ran;

	MUST(n <= OUTSTANDING);
	MUST(ring_walk_start(&w, &rig->sp->tx->sq));
	for (i = 0; (slot = ring_walk_next(&w)) >= 0; i++) {
		MUST(info[i].published);
		ran = (int32_t)(executed->post - request_end(&w, (uint32_t)slot)) >= 0;
		sent += ran;
		if (!ran || dead)
			fates[i] = SP_FATE_RESEND;
		else
			fates[i] = info[i].kind == SP_REQ_READ ? SP_FATE_READ_AGAIN
							       : SP_FATE_DELIVERED;
	}
	MUST(i == n || !info[i].published);
	check_numbers(info, i, sent, executed->psn);
	check_word(info, sent);
	take_over(info, fates, i, n - i, dead);
	return i;
}

/* Nothing counts on that carrier any more: its flush is seen, or its NIC is gone for good. */
static void quiesce(struct fake_qp *qp)
{
	struct sp_flushed flushed;
	bool gone = !below(5);

	reached.gone += gone;

	if (!gone && below(2))
		fake_flush(qp, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	if (below(2))
		poll_some();
	ENGINE->move.withhold(rig->sp);
	post_sends();
	post_recvs();
	for (int i = 0; i < 2 && !gone; i++) {
		fake_flush(qp, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
		drain();
		ENGINE->move.flushed(rig->sp, true, &flushed);
	}
	drain();
	MUST(gone || (flushed.sq && flushed.rq && flushed.error_seen));
	ENGINE->move.seal(rig->sp);
	ENGINE->move.flushed(rig->sp, true, &flushed);
	MUST(flushed.sq && flushed.rq && flushed.recv_count == model.received);
}

/* Lay the receives; the carrier-to-be may die, again and again. Returns the one that lives. */
static uint32_t lay(void)
{
	uint32_t to, died = 0;

	for (;;) {
		to = standby();
		MUST(!ENGINE->move.lay_receives(rig->sp, rig->carriers[to].sp));
		MUST(ENGINE->qp.recv_count(rig->sp) == model.received);
		if (died)
			rig_drop(rig, died);
		post_recvs();
		post_sends();
		receive_some(&rig->carriers[to].qp);
		if (below(3) || rig->made + 8 > RIG_CARRIERS)
			return to;
		quiesce(&rig->carriers[to].qp);
		died = to;
		reached.died++;
	}
}

/* Its peer has a word for it, or not. */
static void log_carrier(uint32_t carrier)
{
	memset(&word, 0, sizeof(word));
	word.on = every && !rig->geometry.sig_all && below(4);
	MUST(!word.on || !rig_log(rig, carrier, every));
}

static void move(uint32_t lost, bool ordered)
{
	enum sp_fate fates[OUTSTANDING];
	struct executed executed;
	uint32_t to, n, old = rig->active;
	bool dead = !ordered && !below(3);
	struct sp_settled settled;

	if (rig->made + 16 > RIG_CARRIERS)
		return;
	executed = run_silently(lost);
	quiesce(rig_active(rig));
	to = lay();
	if (dead) {
		recall();
		post_sends();
	}
	n = decide(fates, &executed, dead);
	log_carrier(to);
	MUST(!ENGINE->move.settle(rig->sp, rig->carriers[to].sp, fates, n, &settled));
	MUST(!ordered || (!settled.resent && !settled.delivered));
	rig->active = to;
	fenced = false;
	reached.moves++;
	reached.ordered += ordered;
	reached.resent += settled.resent;
	if (old)
		rig_drop(rig, old);
	if (!below(4)) /* it dies at once */
		move(below(3), false);
}

static void resume(void)
{
	int err = ENGINE->move.resume(rig->sp);

	held_by.spoiled |= rig->sp->tx->nops;
	MUST(!err || err == -EAGAIN);
	reached.resumed++;
	reached.late += err == -EAGAIN;
	fenced = false;
}

/* A step of an ordered switch: begin it, ask for its end, or go back. */
static void ordered(void)
{
	bool atomics;
	int err;

	if (fenced && !below(4)) {
		resume();
		return;
	}
	err = ENGINE->move.fence(rig->sp, &atomics);
	MUST(!err || err == -EAGAIN);
	fenced = true;
	reached.fences++;
	reached.put_off += err == -EAGAIN;
	if (below(2)) {
		fake_run(rig_active(rig), OUTSTANDING);
		account_log();
	}
	drain();
	/* what the log says of the last one may still be under way */
	MUST(!ENGINE->move.fenced(rig->sp) || fake_published(rig_active(rig)) <= word.on);
	if (!ENGINE->move.fenced(rig->sp))
		return;
	reached.fenced++;
	if (below(2))
		move(0, true);
}

/* Keys go, and with them what the engine remembers of them; posts wait until they are back. */
static void lose_keys(void)
{
	uint64_t before = model.next_send;
	int err;

	fake_keys_missing = below(4);
	ENGINE->keys_changed();
	post_sends();
	post_recvs();
	if (below(2))
		run_some();
	if (below(2))
		poll_some();
	post_sends();
	reached.keyless += fake_keys_missing ? model.next_send - before : 0;
	fake_keys_missing = false;
	err = ENGINE->move.publish(rig->sp);
	MUST(!err || err == -EAGAIN);
}

/* -- rounds ----------------------------------------------------------------------------------- */

/* The records say what the engine wrote, at every moment: no look at them may see another hand. */
static void alone(void)
{
	bool intruder;

	MUST(!ENGINE->qp.reason(rig->sp, &intruder) && !intruder);
}

static void step(void)
{
	switch (below(25)) {
	case 23:
	case 24: lose_keys(); break;
	case 0: move(below(5), false); break;
	case 1:
	case 2: drain(); break;
	case 3:
		ENGINE->move.withhold(rig->sp);
		post_sends();
		resume();
		break;
	case 4:
	case 5:
	case 6: post_recvs(); break;
	case 7:
	case 8: receive_some(rig_active(rig)); break;
	case 9:
	case 10:
	case 11:
	case 12: run_some(); break;
	case 13:
	case 14:
	case 15: poll_some(); break;
	case 16:
	case 17:
	case 18: ordered(); break;
	default: post_sends(); break;
	}
}

/* Let everything finish, then look whether anything is missing. */
static void finish(void)
{
	if (fenced)
		resume();
	for (int i = 0; i < 100; i++) {
		fake_run(rig_active(rig), 64);
		account_log();
		poll_some();
	}
	MUST(!fake_published(rig_active(rig)));
	model_finish();
	reached.sends += model.next_send - 1;
	reached.receives += model.received;
}

static void print_reached(void)
{
	const struct reached *r = &reached;

	printf("%ju sends, %ju refused, %ju receives; %ju moves (%ju ordered), %ju resent, "
	       "%ju died on the way, %ju gone unseen; %ju fences, %ju put off, %ju complete; "
	       "%ju taken back, %ju of them late; %ju posted without keys; %ju packet numbers; "
	       "%ju words of a log, %ju counted by one; %ju dead NICs of the peer's, %ju run "
	       "again\n",
	       (uintmax_t)r->sends, (uintmax_t)r->refused, (uintmax_t)r->receives,
	       (uintmax_t)r->moves, (uintmax_t)r->ordered, (uintmax_t)r->resent, (uintmax_t)r->died,
	       (uintmax_t)r->gone, (uintmax_t)r->fences, (uintmax_t)r->put_off,
	       (uintmax_t)r->fenced, (uintmax_t)r->resumed, (uintmax_t)r->late,
	       (uintmax_t)r->keyless, (uintmax_t)r->numbered, (uintmax_t)r->words,
	       (uintmax_t)r->counted, (uintmax_t)r->recalls, (uintmax_t)r->recalled);
}

/* As if so many requests and receives had gone before that all counters are about to wrap. */
static void age_carrier(struct sp_carrier *c, struct fake_qp *qp, uint32_t recv_base)
{
	uint32_t age = 0 - below(2 * STEPS);

	qp->sq_ci = qp->rq_ci = age;
	c->sq.head = age;
	c->sq.psn_ahead -= age;
	c->sq.cur_post = age;
	c->sq.tail = age;
	c->rq.head = age;
	c->rq.pub = age;
	c->rq.tail = age;
	if (ring_sq_fill(&c->sq))
		abort();
	for (uint32_t i = 0; i <= c->sq.mask; i++)
		c->sq.wqe_head[i] = age - OUTSTANDING;
	qp->db[MLX5_SND_DBR] = qp->db[MLX5_RCV_DBR] = htobe32(age & 0xffff);
	rig->sp->recv_base = recv_base - age;
}

static void round_of(uint64_t seed)
{
	struct fake_geometry g;

	model_begin(seed);
	logged = 0;
	fenced = false;
	memset(&held_by, 0, sizeof(held_by));
	counting = below(2);
	every = below(2) ? 1 + below(5) : 0;
	random_geometry(&g, NULL);
	rig = calloc(1, sizeof(*rig));
	rig_make(rig, &g, below(2) ? 64 : 128, below(2));
	rig->scq.places = g.send_wr + HIDDEN + (every ? sp_log_room(g.send_wr, every) : 0);
	rig->rcq.places = g.rq_cnt;
	ENGINE->qp.guard(rig->sp, true);
	if (below(2))
		age_carrier(rig->sp->tx, rig->app, 0);
	log_carrier(0);
	for (int i = 0; i < STEPS; i++) {
		step();
		alone();
	}
	finish();
	rig_delete(rig);
}

int main(int argc, char **argv)
{
	int ret = model_main(argc, argv, 300, round_of);

	print_reached();
	return ret;
}
