/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The ledger engine through the seam alone, under random posts, executions, polls, fences and moves,
 * between fake NICs of every make, with carriers that die in the middle of a move. Every completion
 * must come once and in posting order (P1), every two-sided request and atomic must run once (P2,
 * P4) and with what was posted, every receive must keep its place and its buffers, and no post may
 * fail that a plain queue would take.
 *
 * The low bits of a seed are the knobs of the application's NIC: consecutive seeds go through all.
 *
 * ledger_random_test [rounds [seed]]
 */
#include <errno.h>
#include <string.h>

#include "providers/ledger/ledger.h"
#include "tests/lib/random_model.h"
#include "tests/lib/verbs_rig.h"

#define ENGINE (&shift_provider_ledger)
#define MUST   MODEL_MUST

enum {
	STEPS = 300,
	OUTSTANDING = 512,
	LOOKS = 40, /* at a flush that is late */
	NEVER = UINT32_MAX,
};

static struct vrig *rig;

/* Beside the model: what was posted, and what the NICs made of it. */
static struct {
	struct vr_request request[MODEL_IDS];
	uint8_t fresh[MODEL_IDS]; /* of READs: the data came behind the last move */
	uint8_t recv_sges[MODEL_IDS], filled[MODEL_IDS];
	uint64_t order[MODEL_IDS];    /* of receives of a shared queue: in which they were filled */
	uint64_t executed;	      /* the highest number */
	uint64_t two_sided, two_ran;  /* posted, executed */
	uint64_t acked;		      /* by the active carrier's NIC: the highest */
	bool fenced, armed, recalled; /* fenced: sends are withheld, for an ordered switch */
	bool freed;		      /* the engine may have freed places that were not polled */
	bool sealed_off;	      /* nothing may be posted to the NIC behind the fence */
	bool lost;		      /* completions of the active carrier are: it ends now */
	uint32_t fence_head, armed_at; /* armed_at: events so far */
	uint64_t carrier_first;	       /* the first one that the active carrier got */
	uint64_t scribbled; /* behind the last refused one, written where one seen may have been */
} m;

/* How often the interesting was reached, over all rounds. */
static struct {
	uint64_t sends, refused, spoiled, receives, moves, ordered, resent, delivered, again, died,
		gone, fences, put_off, fenced, unfit, resumed, late, keyless, hidden, events,
		failed, inlined, lost, haunted, recalled;
} reached;

static const enum ibv_wr_opcode ops[] = { IBV_WR_SEND,
					  IBV_WR_RDMA_READ,
					  IBV_WR_ATOMIC_FETCH_AND_ADD,
					  IBV_WR_ATOMIC_CMP_AND_SWP,
					  IBV_WR_SEND_WITH_IMM,
					  IBV_WR_RDMA_WRITE,
					  IBV_WR_RDMA_WRITE_WITH_IMM };

static enum sp_request_kind kind_of(enum ibv_wr_opcode op)
{
	switch ((int)op) {
	case IBV_WR_RDMA_READ: return SP_REQ_READ;
	case IBV_WR_RDMA_WRITE: return SP_REQ_WRITE;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
	case IBV_WR_ATOMIC_CMP_AND_SWP: return SP_REQ_ATOMIC;
	default: return SP_REQ_TWO_SIDED;
	}
}

/* -- the application: posts ------------------------------------------------------------------- */

static enum ibv_wr_opcode random_op(void)
{
	enum ibv_wr_opcode op;

	do
		op = ops[model_below(7)];
	while ((rig->setup.no_read && op == IBV_WR_RDMA_READ) ||
	       (rig->setup.no_write &&
		(op == IBV_WR_RDMA_WRITE || op == IBV_WR_RDMA_WRITE_WITH_IMM)));
	return op;
}

static void random_request(struct vr_request *r, uint64_t id)
{
	const struct vf_geometry *g = &rig->setup.app;
	enum sp_request_kind kind;

	*r = (struct vr_request){ .id = id, .op = random_op(), .bytes = 8 };
	kind = kind_of(r->op);
	/* a ring full of unsignaled requests could never be used again */
	r->flags = model_below(2) || id % 3 == 0 ? IBV_SEND_SIGNALED : 0;
	r->flags |= model_below(8) ? 0 : IBV_SEND_FENCE;
	r->flags |= kind != SP_REQ_TWO_SIDED || model_below(4) ? 0 : IBV_SEND_SOLICITED;
	r->sges = kind == SP_REQ_ATOMIC ? 1 : 1 + model_below(g->send_sge);
	if (r->op == IBV_WR_SEND_WITH_IMM && !model_below(4))
		r->sges = 0;
	if (r->sges && g->max_inline >= 8 && (kind == SP_REQ_TWO_SIDED || kind == SP_REQ_WRITE) &&
	    !model_below(3)) {
		r->flags |= IBV_SEND_INLINE;
		r->bytes = 8 + model_below(g->max_inline - 7);
	}
}

static void spoil(struct vr_request *r)
{
	const struct vf_geometry *g = &rig->setup.app;

	if (r->flags & IBV_SEND_INLINE) /* how many pieces it has may not matter */
		r->bytes = g->max_inline + 1;
	else
		r->sges = g->send_sge + 1;
	reached.spoiled++;
}

static void took(const struct vr_request *r)
{
	enum sp_request_kind kind = kind_of(r->op);

	m.request[r->id] = *r;
	m.two_sided += kind == SP_REQ_TWO_SIDED;
	reached.inlined += !!(r->flags & IBV_SEND_INLINE);
	model_posted(kind, rig->setup.app.sig_all || r->flags & IBV_SEND_SIGNALED);
}

/* The engine may have freed places of what was not polled: then more are used than there are. */
static uint32_t left(uint32_t places, uint64_t used)
{
	return used < places ? places - (uint32_t)used : 0;
}

static void post_sends(void)
{
	struct vr_request list[VR_LIST];
	uint32_t n = 1 + model_below(6), bad = NEVER, which, room, taken, i;
	uint64_t used = model_used(), behind = model.next_send + n;
	bool by_calls = model_below(2) && rig->app->ex.wr_start, full;
	int err;

	for (i = 0; i < n; i++)
		random_request(&list[i], model.next_send + i);
	if (!model_below(12))
		spoil(&list[bad = model_below(n)]);
	which = vrig_active(rig)->refuse_send = model_below(12) ? 0 : 1 + model_below(n);
	err = vrig_post(rig, list, n, by_calls, &taken);
	full = which && !vrig_active(rig)->refuse_send; /* not taken, this one or an older one */
	vrig_active(rig)->refuse_send = 0;
	room = left(rig->setup.app.send_wr, used);
	MUST(!err || bad < n || n > room || (full && err == ENOSPC));
	MUST(!err || by_calls || taken == bad || taken >= room || (full && taken < which));
	MUST(taken <= bad);
	/* and what a plain queue would refuse is refused; what has not run has its place in any case */
	MUST(err || (bad == NEVER && (n <= room || m.freed)));
	MUST(err || n <= left(rig->setup.app.send_wr, model.next_send - 1 - m.executed));
	MUST(err == 0 || err == ENOMEM || bad < n || full);
	for (i = 0; i < taken; i++)
		took(&list[i]);
	reached.refused += !!err;
	m.scribbled = err ? behind : m.scribbled;
}

static void post_recvs(void)
{
	uint32_t n = 1 + model_below(8), sges[VR_LIST], bad = NEVER, which, taken, i;
	uint64_t used = model.next_recv - 1 - model.polled_recv;
	uint32_t room = left(rig->setup.app.recv_wr, used);
	int err;

	for (i = 0; i < n; i++)
		/* of a shared queue, the SGE tells which one it is */
		sges[i] = rig->setup.srq	 ? 1 + model_below(rig->setup.app.recv_sge)
			  : model.next_recv & 32 ? 1
						 : model_below(rig->setup.app.recv_sge + 1);
	if (!model_below(16))
		sges[bad = model_below(n)] = rig->setup.app.recv_sge + 1;
	which = vrig_active(rig)->refuse_recv = model_below(12) ? 0 : 1 + model_below(n);
	err = vrig_post_recv(rig, model.next_recv, n, sges, &taken);
	MUST(!err || taken == bad || taken >= room ||
	     (!vrig_active(rig)->refuse_recv && taken < which));
	vrig_active(rig)->refuse_recv = 0;
	MUST(taken <= bad && (err || bad == NEVER));
	for (i = 0; i < taken; i++)
		m.recv_sges[model.next_recv++] = (uint8_t)sges[i];
}

/* -- the application: polls ------------------------------------------------------------------- */

/* Events that the application's channel would have had, for its send CQ. */
static uint32_t events(void)
{
	uint32_t n = rig->scq.events + rig->events.events;

	for (int i = 0; i < VR_NICS; i++)
		n += rig->nics[i].shadow_s.events;
	return n;
}

static void read_events(void)
{
	ENGINE->cq.event_read(ENGINE->cq.own_ring(rig->sp_scq));
	for (int i = 0; i < VR_NICS; i++)
		ENGINE->cq.event_read(rig->nics[i].ring_s);
}

static void one_send(const struct ibv_wc *wc)
{
	uint64_t id = wc->wr_id & 0xffffffff;

	MUST(wc->wr_id == VR_WR_ID(id));
	MUST(wc->status == IBV_WC_SUCCESS);
	MUST(wc->qp_num == vf_ibv(rig->app)->qp_num);
	model_completed(id);
	MUST(wc->opcode == vf_completes_as(m.request[id].op));
	MUST(model.kind[id] != SP_REQ_READ || m.fresh[id]);
}

static void one_recv(const struct ibv_wc *wc)
{
	uint64_t id = wc->wr_id & 0xffffffff;

	MUST(wc->wr_id == VR_RECV_ID(id));
	MUST(wc->status == IBV_WC_SUCCESS);
	MUST(wc->qp_num == vf_ibv(rig->app)->qp_num);
	model_received(model.polled_recv + 1);
	MUST(id == m.order[model.polled_recv]);
	MUST(wc->byte_len == 8 + model.polled_recv % 50);
	MUST(wc->wc_flags & IBV_WC_WITH_IMM && wc->imm_data == (uint32_t)model.polled_recv);
}

/* Of an error nothing but the number tells which queue it is of. */
static bool is_recv(const struct ibv_wc *wc)
{
	return wc->wr_id >> 48 == VR_RECV_ID(0) >> 48;
}

static void one(const struct ibv_wc *wc)
{
	if (is_recv(wc))
		one_recv(wc);
	else
		one_send(wc);
}

static int poll_sends(int max)
{
	struct ibv_wc wc[32];
	int n = vrig_poll(rig, true, model_below(2), wc, max);

	MUST(n >= 0 && n <= max);
	for (int i = 0; i < n; i++)
		one(&wc[i]);
	if (n && m.armed) {
		MUST(events() != m.armed_at);
		m.armed = false;
		read_events();
		reached.events++;
	}
	return n;
}

static void poll_some(void)
{
	struct ibv_wc wc[32];
	int n;

	/* an error that is withheld tells what is complete, and the application sees no completion */
	m.freed |= vrig_active(rig)->hw == IBV_QPS_ERR;
	poll_sends(1 + (int)model_below(31));
	n = vrig_poll(rig, false, model_below(2), wc, 1 + (int)model_below(31));
	for (int i = 0; i < n; i++)
		one(&wc[i]);
}

/* Ask for an event. It may be one for what had come before, which is taken then. */
static void arm(void)
{
	uint32_t before = events();

	m.armed = false;
	MUST(!ibv_req_notify_cq(vf_ibv_cq(&rig->scq), 0));
	while (poll_sends(16))
		;
	m.armed_at = events();
	m.armed = m.armed_at == before;
}

/* -- the NICs --------------------------------------------------------------------------------- */

/* The application posts none without data: the engine's own. */
static bool hidden(const struct vf_done *done)
{
	return !done->length &&
	       (done->opcode == IBV_WR_RDMA_WRITE || done->opcode == IBV_WR_RDMA_READ);
}

static void account_one(const struct vf_done *done)
{
	uint64_t id = vrig_id(done);
	struct vf_done want;

	if (hidden(done)) {
		reached.hidden++;
		return;
	}
	MUST(id && id < model.next_send);
	vrig_expect(&m.request[id], &want);
	MUST(done->opcode == want.opcode && done->length == want.length && done->imm == want.imm);
	MUST(done->mark == want.mark && !memcmp(done->data, want.data, VF_DATA));
	if (!model.ran[id]) {
		MUST(id == m.executed + 1); /* in posting order */
		m.executed = id;
		m.two_ran += model.kind[id] == SP_REQ_TWO_SIDED;
	} else {
		MUST(model.again[id]);
		MUST(model.kind[id] == SP_REQ_WRITE || model.kind[id] == SP_REQ_READ);
	}
	model.ran[id] += model.ran[id] < UINT8_MAX;
	m.fresh[id] = 1;
}

static void account_log(void)
{
	for (uint32_t i = 0; i < vf_log.n; i++)
		account_one(&vf_log.done[i]);
	for (uint32_t i = 0; i < vf_acks.n; i++)
		if (!hidden(&vf_acks.done[i]))
			m.acked = vrig_id(&vf_acks.done[i]);
	vf_log.n = vf_acks.n = 0;
}

static void run_some(void)
{
	vf_run(vrig_active(rig), model_below(8));
	account_log();
}

/* Which one will the NIC take? Of a shared queue that is not known. */
static uint64_t next_filled(const struct vf_recv *got)
{
	if (!rig->setup.srq)
		return model.received + 1;
	MUST(got->n_sge);
	return (got->sge[0].addr - vrig_recv_addr(0, 0)) / 16 / VF_SGES;
}

static void filled(const struct vf_recv *got)
{
	uint64_t id = next_filled(got);

	MUST(id && id < model.next_recv && !m.filled[id]);
	MUST(got->n_sge == m.recv_sges[id]);
	for (uint32_t i = 0; i < got->n_sge; i++)
		MUST(got->sge[i].addr == vrig_recv_addr(id, i) && got->sge[i].length == 64);
	m.filled[id] = 1;
	m.order[++model.received] = id;
}

static void receive_some(struct vf_qp *qp)
{
	uint32_t n = model_below(4);
	struct vf_recv got;

	for (; n && model.received + 1 < model.next_recv; n--) {
		/* the application tells messages by their number, which comes with them */
		MUST(vf_receive(qp, IBV_WC_RECV, (uint32_t)model.received + 1,
				8 + (uint32_t)(model.received + 1) % 50, &got));
		filled(&got);
	}
}

static bool receive_late(struct vf_qp *qp)
{
	struct vf_recv got;

	if (model.received + 1 == model.next_recv || !model_below(3) ||
	    !vf_receive(qp, IBV_WC_RECV, (uint32_t)model.received + 1,
			8 + (uint32_t)(model.received + 1) % 50, &got))
		return false;
	filled(&got);
	return true;
}

/* -- the shell: before a move ----------------------------------------------------------------- */

static void drain(void)
{
	bool receives_first = model_below(2);

	MUST(!ENGINE->cq.collect(receives_first ? rig->sp_rcq : rig->sp_scq));
	MUST(!ENGINE->cq.collect(receives_first ? rig->sp_scq : rig->sp_rcq));
	m.freed = true;
}

static void random_geometry(struct vf_geometry *g, const struct vf_geometry *least)
{
	g->send_wr = 4u + model_below(60);
	g->recv_wr = 4u + model_below(28);
	g->send_sge = 1 + model_below(VF_SGES);
	g->recv_sge = 1 + model_below(VF_SGES);
	g->max_inline = model_below(4) ? 16u << model_below(4) : 0;
	g->plain = model_below(2);
	g->sig_all = least ? least->sig_all : !model_below(4);
	if (!least)
		return;
	g->send_wr += least->send_wr;
	g->recv_wr += least->recv_wr;
	g->send_sge = g->send_sge < least->send_sge ? least->send_sge : g->send_sge;
	g->recv_sge = g->recv_sge < least->recv_sge ? least->recv_sge : g->recv_sge;
	g->max_inline = g->max_inline < least->max_inline ? least->max_inline : g->max_inline;
	if (model_below(2)) { /* not one place more than the application's */
		g->send_wr = least->send_wr;
		g->recv_wr = least->recv_wr;
	}
}

static uint32_t standby(void)
{
	struct vf_geometry g;
	uint32_t to;

	random_geometry(&g, &rig->setup.app);
	to = vrig_standby(rig, model_below(VR_NICS), &g);
	MUST(to);
	return to;
}

/*
 * Will no flush ever be seen? Nobody flushes what is not there, where no marker can be posted; and
 * if the last completion was lost, all is done and nothing tells.
 */
static bool mute(const struct vf_qp *qp)
{
	return m.lost ||
	       (qp->dev->knobs & VF_REFUSES_IN_ERR && !qp->send_errors && !qp->recv_errors);
}

/* A NIC that reports only what was not acknowledged tells the position exactly. */
static void check_position(const struct vf_qp *qp, uint64_t first)
{
	uint32_t vague = VF_ACKED_FLUSHED | VF_REFUSES_IN_ERR;

	if (!qp->gone && !m.lost && !m.recalled && !(qp->dev->knobs & vague))
		MUST(first > m.acked);
}

/* What the application sees, or the shell: it need not be both queues. */
static void drain_some(void)
{
	if (model_below(2))
		drain();
	else
		MUST(!ENGINE->cq.collect(model_below(2) ? rig->sp_scq : rig->sp_rcq));
	m.freed = true;
}

static void check_flushed(const struct vr_carrier *c)
{
	if (c == &rig->carriers[rig->active])
		check_position(&c->qp,
			       model.next_send - ENGINE->move.outstanding(rig->sp, NULL, 0));
}

static void await_flush(struct vr_carrier *c)
{
	struct sp_flushed flushed = { 0 };

	for (int i = 0; i < LOOKS && !(flushed.sq && flushed.rq && flushed.error_seen); i++) {
		if (vf_last_wqe(&c->qp))
			ENGINE->move.last_receive(rig->sp, c->qp.path);
		drain_some();
		ENGINE->move.flushed(rig->sp, true, &flushed);
		if (!model_below(8))
			vf_tick(c->dev);
		/* what had come before, and nobody had seen */
		if (!flushed.sq && !m.lost)
			vf_ack(&c->qp, model_below(3));
		account_log();
		MUST(!receive_late(&c->qp) || !flushed.rq);
	}
	MUST((flushed.sq && flushed.rq) || mute(&c->qp));
	check_flushed(c);
	MUST(!receive_late(&c->qp));
	MUST(flushed.error_seen || mute(&c->qp));
	MUST(flushed.recv_count == model.received);
	MUST(!flushed.status || flushed.status == IBV_WC_RETRY_EXC_ERR);
}

/* Nothing counts on that carrier any more: its flush is seen, or its NIC is gone for good. */
static void quiesce(struct vr_carrier *c)
{
	struct sp_flushed flushed;
	bool gone = !model_below(6);

	reached.gone += gone;
	if (gone)
		vf_vanish(&c->qp);
	else if (model_below(2))
		vf_die(&c->qp, IBV_WC_RETRY_EXC_ERR);
	if (model_below(2))
		poll_some();
	ENGINE->move.withhold(rig->sp);
	post_sends();
	post_recvs();
	vf_modify(&c->qp, IBV_QPS_ERR);
	if (!gone)
		await_flush(c);
	/* the application's own reads as the application left it */
	if (c == rig->carriers)
		vf_ibv(&c->qp)->state = IBV_QPS_RTS;
	drain();
	ENGINE->move.seal(rig->sp);
	ENGINE->move.flushed(rig->sp, true, &flushed);
	MUST(flushed.sq && flushed.rq && flushed.recv_count == model.received);
}

/* -- the shell: a move ------------------------------------------------------------------------ */

static void check_counts(void)
{
	uint32_t posted, done;

	ENGINE->qp.send_counts(rig->sp, &posted, &done);
	MUST(posted == (uint32_t)m.two_sided);
	MUST(done <= m.two_ran);
	MUST(ENGINE->qp.recv_count(rig->sp) <= model.received);
}

static void check_outstanding(const struct sp_request *info, uint32_t n)
{
	uint64_t first = model.next_send - n;
	uint32_t posted, done, two_sided = 0, i;

	MUST(n <= OUTSTANDING);
	/* what is not outstanding has run, and what was polled is not */
	MUST(first > model.polled_send && first <= m.executed + 1);
	for (i = 0; i < n; i++) {
		MUST(info[i].kind == model.kind[first + i]);
		MUST(!!info[i].signaled == model.signaled[first + i]);
		MUST(!info[i].send_fence == !(m.request[first + i].flags & IBV_SEND_FENCE));
		MUST(!info[i].published || !i || info[i - 1].published);
		MUST(info[i].published || first + i > m.executed);
		two_sided += info[i].kind == SP_REQ_TWO_SIDED;
	}
	ENGINE->qp.send_counts(rig->sp, &posted, &done);
	MUST(posted - done == two_sided);
}

/* Up to which request will the core take them for delivered? It knows of those that the peer counts,
 * and of atomics; WRITEs and READs behind them it may not know of. */
static uint64_t boundary(uint64_t first)
{
	uint64_t known = first - 1;

	for (uint64_t id = first; id <= m.executed; id++)
		if (model.kind[id] == SP_REQ_TWO_SIDED || model.kind[id] == SP_REQ_ATOMIC)
			known = id;
	return m.executed > known ? known + model_below((uint32_t)(m.executed - known) + 1) : known;
}

static enum sp_fate fate_of(uint64_t id, uint64_t delivered)
{
	if (model.kind[id] == SP_REQ_READ) {
		m.fresh[id] = 0;
		model.again[id] = 1;
	}
	if (id > delivered) {
		model.again[id] |= model.kind[id] == SP_REQ_WRITE;
		return SP_FATE_RESEND;
	}
	return model.kind[id] == SP_REQ_READ ? SP_FATE_READ_AGAIN : SP_FATE_DELIVERED;
}

/* What the application has seen last went the same way as a WRITE before it, or is one itself. */
static enum sp_last_seen last_seen(uint64_t first)
{
	enum sp_request_kind kind = model.kind[first - 1];

	return first == m.carrier_first || kind == SP_REQ_TWO_SIDED || kind == SP_REQ_READ
		       ? SP_SEEN_SAFE
		       : SP_SEEN_UNPLACED;
}

/* The peer's NIC died, and with it what it had acknowledged: all that the application has not seen. */
static void recall(void)
{
	bool has_all = model_used() <= rig->setup.app.send_wr; /* else slots were used again */
	enum sp_last_seen seen;
	int err = ENGINE->move.recall(rig->sp, &seen);
	uint64_t first = model.next_send - ENGINE->move.outstanding(rig->sp, NULL, 0);

	MUST(!err || (err == -EIO && !has_all));
	if (err)
		return;
	MUST(!has_all || first == model.polled_send + 1 || first == m.carrier_first);
	MUST(!has_all || seen == last_seen(first) ||
	     (seen == SP_SEEN_UNPLACED && m.scribbled > model.next_send));
	m.recalled = true;
	reached.recalled++;
}

static uint32_t decide(enum sp_fate *fates)
{
	struct sp_request info[OUTSTANDING];
	uint32_t n = ENGINE->move.outstanding(rig->sp, info, OUTSTANDING), i;
	uint64_t first = model.next_send - n, delivered;

	check_outstanding(info, n);
	check_position(vrig_active(rig), first);
	delivered = boundary(first);
	for (i = 0; i < n && info[i].published; i++) {
		fates[i] = fate_of(first + i, delivered);
		reached.delivered += fates[i] == SP_FATE_DELIVERED;
		reached.again += fates[i] == SP_FATE_READ_AGAIN;
	}
	for (m.carrier_first = first; i && fates[m.carrier_first - first] == SP_FATE_DELIVERED;)
		if (++m.carrier_first - first == i)
			break;
	return i;
}

static void haunt(struct vf_qp *qp)
{
	if (!qp->gone || model_below(2))
		return;
	vf_haunt(qp);
	vf_acks.n = 0; /* nobody is to hear of it */
	poll_some();
	drain();
	reached.haunted++;
}

/* Lay the receives; the carrier-to-be may die, again and again. Returns the one that lives. */
static uint32_t lay(void)
{
	uint32_t to, died = 0;

	for (;;) {
		to = standby();
		MUST(!ENGINE->move.lay_receives(rig->sp, rig->carriers[to].sp));
		MUST(ENGINE->qp.recv_count(rig->sp) == model.received);
		vrig_recover(rig);
		if (died) {
			haunt(&rig->carriers[died].qp);
			vrig_drop(rig, died);
		}
		post_recvs();
		post_sends();
		receive_some(&rig->carriers[to].qp);
		if (model_below(3) || rig->made + 8 > VR_CARRIERS)
			return to;
		quiesce(&rig->carriers[to]);
		died = to;
		reached.died++;
	}
}

static void move(uint32_t lost, bool ordered)
{
	enum sp_fate fates[OUTSTANDING];
	struct sp_settled settled;
	uint32_t to, n, old = rig->active;

	if (rig->made + 16 > VR_CARRIERS)
		return;
	if (!ordered && !model_below(6))
		m.lost = vf_lose(vrig_active(rig), 1 + model_below(3));
	reached.lost += m.lost;
	vf_run_silently(vrig_active(rig), lost);
	account_log();
	quiesce(&rig->carriers[old]);
	to = lay();
	if (!ordered && !model_below(4))
		recall();
	n = decide(fates);
	/* it takes some of them only: the others wait, with what was said of them */
	rig->carriers[to].qp.refuse_send = model_below(8) ? 0 : 1 + model_below(8);
	MUST(!ENGINE->move.settle(rig->sp, rig->carriers[to].sp, fates, n, &settled));
	rig->carriers[to].qp.refuse_send = 0;
	MUST(!ordered || (!settled.resent && !settled.delivered));
	rig->active = to;
	m.fenced = m.sealed_off = m.lost = m.recalled = false;
	m.acked = 0;
	reached.moves++;
	reached.ordered += ordered;
	reached.resent += settled.resent;
	haunt(&rig->carriers[old].qp);
	if (old)
		vrig_drop(rig, old);
	if (!model_below(4)) /* it dies at once */
		move(model_below(3), false);
}

/* -- the shell: ordered switches, keys -------------------------------------------------------- */

static void resume(void)
{
	int err = ENGINE->move.resume(rig->sp);

	MUST(!err || err == -EAGAIN);
	reached.resumed++;
	reached.late += err == -EAGAIN;
	m.fenced = m.sealed_off = false;
}

/* A step of an ordered switch: begin it, ask for its end, or go back. */
static void ordered(void)
{
	bool atomics, fenced;
	int err;

	if (m.fenced && !model_below(4)) {
		resume();
		return;
	}
	err = ENGINE->move.fence(rig->sp, &atomics);
	MUST(!err || err == -EAGAIN || err == -EOPNOTSUPP);
	reached.fences++;
	reached.put_off += err == -EAGAIN;
	if (err == -EOPNOTSUPP) {
		/* nothing can be the fence: left as if it had failed, or stayed with */
		reached.unfit++;
		resume();
		if (model_below(2))
			move(model_below(3), false);
		return;
	}
	m.fenced = true;
	if (!err && !m.sealed_off) {
		m.sealed_off = true;
		m.fence_head = vrig_active(rig)->head;
	}
	if (model_below(2)) {
		vf_run(vrig_active(rig), OUTSTANDING);
		account_log();
	}
	drain();
	fenced = ENGINE->move.fenced(rig->sp);
	MUST(!m.sealed_off || vrig_active(rig)->head - m.fence_head <= 1);
	m.fence_head = vrig_active(rig)->head; /* what tells may have been laid just now */
	if (!fenced)
		return;
	MUST(!vf_waiting(vrig_active(rig)));
	reached.fenced++;
	if (model_below(2))
		move(0, true);
}

/* Keys go, and with them what the engine remembers of them; posts wait until they are back. */
static void lose_keys(void)
{
	uint64_t before = model.next_send;
	int err;

	rig->keys_missing = model_below(4);
	ENGINE->keys_changed();
	post_sends();
	post_recvs();
	if (model_below(2))
		run_some();
	if (model_below(2))
		poll_some();
	post_sends();
	reached.keyless += rig->keys_missing ? model.next_send - before : 0;
	rig->keys_missing = false;
	err = ENGINE->move.publish(rig->sp);
	MUST(!err || err == -EAGAIN);
	if (rig->setup.srq)
		MUST(!ENGINE->srq.feed(rig->sp_srq, 0, 0));
}

static void withhold_a_while(void)
{
	ENGINE->move.withhold(rig->sp);
	post_sends();
	post_recvs();
	resume();
}

static void look(void)
{
	uint32_t number;

	check_counts();
	MUST(ENGINE->qp.sending(rig->sp, &number) != SP_SENDING_NONE ||
	     m.executed == model.next_send - 1);
}

/* -- the end ---------------------------------------------------------------------------------- */

/* All that is left in the CQs, each queue's in its order. */
static struct {
	struct ibv_wc send[OUTSTANDING], recv[OUTSTANDING];
	uint32_t n_send, n_recv;
} rest;

static void take_rest(void)
{
	struct ibv_wc wc;

	rest.n_send = rest.n_recv = 0;
	for (int send = 0; send < 2; send++)
		while (vrig_poll(rig, send, model_below(2), &wc, 1) == 1) {
			MUST(wc.qp_num == vf_ibv(rig->app)->qp_num);
			MUST(rest.n_send < OUTSTANDING && rest.n_recv < OUTSTANDING);
			if (is_recv(&wc))
				rest.recv[rest.n_recv++] = wc;
			else
				rest.send[rest.n_send++] = wc;
		}
}

/* All that is outstanding completes with an error, in order, behind what had completed well. */
static void expect_failed_sends(uint64_t first, uint32_t delivered)
{
	enum ibv_wc_status want;
	uint32_t n = 0;

	for (uint64_t id = model.polled_send + 1; id < model.next_send; id++) {
		want = IBV_WC_SUCCESS;
		if (id >= first + delivered)
			want = id == first + delivered ? IBV_WC_RETRY_EXC_ERR : IBV_WC_WR_FLUSH_ERR;
		if (!want && !model.signaled[id])
			continue;
		MUST(n < rest.n_send && rest.send[n].wr_id == VR_WR_ID(id));
		MUST(rest.send[n++].status == want);
	}
	MUST(n == rest.n_send);
}

static void expect_failed_recvs(void)
{
	uint32_t n = 0;

	while (model.polled_recv < model.received) {
		MUST(n < rest.n_recv);
		one_recv(&rest.recv[n++]);
	}
	/* those of a shared queue are its, and stay */
	for (uint64_t id = model.received + 1; id < model.next_recv && !rig->setup.srq; id++) {
		MUST(n < rest.n_recv && rest.recv[n].wr_id == VR_RECV_ID(id));
		MUST(rest.recv[n++].status == IBV_WC_WR_FLUSH_ERR);
	}
	MUST(n == rest.n_recv);
}

static void fail(void)
{
	struct sp_request info[OUTSTANDING];
	uint32_t n, delivered = 0;

	quiesce(&rig->carriers[rig->active]);
	n = ENGINE->move.outstanding(rig->sp, info, OUTSTANDING);
	check_outstanding(info, n);
	while (delivered < n && info[delivered].published && model_below(8))
		delivered++;
	ENGINE->move.fail_all(rig->sp, IBV_WC_RETRY_EXC_ERR, 0x81, delivered);
	post_recvs();
	take_rest();
	expect_failed_sends(model.next_send - n, delivered);
	expect_failed_recvs();
	reached.failed++;
}

/* Let everything finish, then look whether anything is missing. */
static void finish(void)
{
	int err = -EAGAIN;

	if (m.fenced)
		resume();
	for (int i = 0; i < 100; i++) {
		vf_run(vrig_active(rig), 64);
		account_log();
		poll_some();
		if (err == -EAGAIN)
			err = ENGINE->move.publish(rig->sp);
	}
	MUST(!err);
	MUST(!vf_waiting(vrig_active(rig)));
	model_finish();
	check_counts();
	reached.sends += model.next_send - 1;
	reached.receives += model.received;
}

static void print_reached(void)
{
	const uint64_t *r = (const uint64_t *)&reached;
	static const char *const names[] = {
		"sends",	  "refused",	     "of them spoiled",	 "receives",
		"moves",	  "ordered",	     "resent",		 "delivered",
		"READ again",	  "died on the way", "gone unseen",	 "fences",
		"put off",	  "complete",	     "without a fence",	 "taken back",
		"of them late",	  "without keys",    "hidden",		 "events",
		"ended in error", "inline",	     "lost completions", "back from the dead",
		"recalled",
	};

	_Static_assert(sizeof(names) / sizeof(names[0]) == sizeof(reached) / sizeof(uint64_t),
		       "a name for each");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		printf("%s%ju %s", i ? ", " : "", (uintmax_t)r[i], names[i]);
	puts("");
}

/* -- rounds ----------------------------------------------------------------------------------- */

static void step(bool no_move)
{
	switch (no_move ? 3 + model_below(23) : model_below(26)) {
	case 0: move(model_below(5), false); break;
	case 1:
	case 2: ordered(); break;
	case 3: withhold_a_while(); break;
	case 4:
	case 5:
	case 6: post_recvs(); break;
	case 7:
	case 8: receive_some(vrig_active(rig)); break;
	case 9:
	case 10:
	case 11:
	case 12: run_some(); break;
	case 13:
	case 14:
	case 15: poll_some(); break;
	case 16:
	case 17: drain(); break;
	case 18: lose_keys(); break;
	case 19: look(); break;
	case 20: arm(); break;
	default: post_sends(); break;
	}
	MUST(!m.sealed_off || vrig_active(rig)->head == m.fence_head);
}

static void random_setup(struct vr_setup *setup, uint64_t seed)
{
	memset(setup, 0, sizeof(*setup));
	setup->engine = ENGINE;
	random_geometry(&setup->app, NULL);
	setup->app.plain = !model_below(3);
	for (int i = 0; i < VR_NICS; i++)
		setup->knobs[i] = model_below(1 << VF_KNOBS);
	setup->knobs[VR_NICS] = seed % (1 << VF_KNOBS);
	/* what such a NIC took from a shared queue is not known at a move: the shell makes none */
	setup->srq = !model_below(3);
	/* a provider whose ibv_wr_* are not used */
	if (!setup->srq && !model_below(4))
		setup->knobs[VR_NICS] |= VF_DOWN_IS_OP;
	for (int i = 0; i <= VR_NICS && setup->srq; i++)
		setup->knobs[i] &= ~(uint32_t)VF_NO_LAST_WQE;
	setup->no_write = !model_below(6);
	setup->no_read = !model_below(6);
	m.freed = setup->cq_ex = model_below(2); /* it reads ahead */
	setup->one_cq = !model_below(3);
}

static void round_of(uint64_t seed)
{
	struct vr_setup setup;
	uint32_t still;

	model_begin(seed);
	memset(&m, 0, sizeof(m));
	m.carrier_first = 1;
	random_setup(&setup, seed);
	rig = calloc(1, sizeof(*rig));
	vrig_make(rig, &setup);
	ENGINE->qp.guard(rig->sp, true);
	still = model_below(2) ? model_below(STEPS) : 0;
	for (uint32_t i = 0; i < STEPS; i++)
		step(i < still);
	if (model_below(4))
		finish();
	else
		fail();
	vrig_free(rig);
	free(rig);
}

int main(int argc, char **argv)
{
	int ret = model_main(argc, argv, 1 << VF_KNOBS, round_of);

	print_reached();
	return ret;
}
