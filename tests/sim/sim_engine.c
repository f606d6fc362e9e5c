/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The engine as the core believes it to be (providers/provider.h): the rings are the log, error
 * completions are withheld while guarded, sends are withheld behind a fence and in a move, settle
 * lays the rest.
 */
#include "shiftlib/core/internal.h"
#include "sim_app.h"
#include "sim_check.h"
#include "sim_command.h"
#include "sim_end.h"
#include "sim_engine.h"
#include "sim_exact.h"
#include "sim_label.h"
#include "sim_event.h"
#include "sim_limits.h"
#include "sim_log.h"
#include "sim_mutants.h"
#include "sim_nic.h"
#include "sim_owner.h"
#include "sim_shell.h"
#include "sim_uid.h"
#include "sim_world.h"

static void give(struct sim_world *w, uint32_t end, struct sim_completion c)
{
	struct sim_end *e = &w->end[end];

	if (e->n_backlog == SIM_BACKLOG) {
		sim_violation(w, "P1: more completions than requests");
		return;
	}
	e->backlog[e->n_backlog++] = c;
	if (c.recv)
		e->receives_given = c.index + 1U;
	sim_app_wake(w, end);
}

/* Everything up to and with this request is complete; its signaled ones are handed on. */
static void retire_to(struct sim_world *w, uint32_t end, uint32_t request)
{
	struct sim_end *e = &w->end[end];

	for (; e->retired <= request; e->retired++) {
		struct sim_request *r = &e->requests[e->retired];

		r->retired = true;
		sim_label(end, "ack %u", e->retired);
		if (r->signaled)
			give(w, end, (struct sim_completion){ .index = (uint8_t)e->retired });
	}
}

static void retire_with_error(struct sim_world *w, uint32_t end, uint32_t request)
{
	struct sim_end *e = &w->end[end];

	if (request < e->retired)
		return;
	if (request)
		retire_to(w, end, request - 1);
	e->requests[request].retired = true;
	e->retired = request + 1;
	give(w, end, (struct sim_completion){ .error = true, .index = (uint8_t)request });
}

struct sim_qp *sim_engine_carrier(struct sim_world *w, uint32_t end, uint32_t epoch)
{
	struct sim_end *e = &w->end[end];

	for (uint32_t i = e->n_carriers; i-- > 0;) {
		struct sim_qp *qp = &w->qp[e->carriers[i]];

		if (qp->epoch == epoch && !qp->destroyed)
			return qp;
	}
	return NULL;
}

/* ---- the fence ------------------------------------------------------------------------------ */

static uint32_t published_end(const struct sim_end *e)
{
	uint32_t i = e->retired;

	while (i < e->app.n_posted && e->requests[i].published)
		i++;
	return i;
}

bool sim_engine_busy(const struct sim_world *w, uint32_t end)
{
	const struct sim_end *e = &w->end[end];

	return published_end(e) > e->retired;
}

/* One hidden NOP at a time: each takes a place in the completion queue. */
static bool fence_is_out(const struct sim_qp *qp)
{
	for (uint32_t i = qp->una; i < qp->n_sq; i++)
		if (qp->sq[i].fence)
			return true;
	for (uint32_t i = qp->cq_head; i < qp->n_cq; i++)
		if (qp->cq[i].hidden)
			return true;
	return false;
}

static bool fence_in(struct sim_world *w, uint32_t end)
{
	struct sim_end *e = &w->end[end];
	uint32_t last = published_end(e);

	if (last == e->retired || e->requests[last - 1].signaled)
		return true;
	return !fence_is_out(&w->qp[e->active]) && e->app.n_posted - e->retired < e->room &&
	       sim_nic_lay_fence(w, &w->qp[e->active], last - 1);
}

/* Of unknown fate, these would end the connection. */
static bool unrepeatable(const struct sim_end *e)
{
	bool read = false;

	for (uint32_t i = e->retired; i < published_end(e); i++) {
		const struct sim_request *r = &e->requests[i];

		if (r->kind == SP_REQ_ATOMIC || (read && r->send_fence))
			return true;
		read |= r->kind == SP_REQ_READ;
	}
	return false;
}

static void fence_step(struct sim_world *w, uint32_t end)
{
	struct sim_end *e = &w->end[end];
	struct sc_event laid = { .type = SC_EV_FENCE_LAID, .epoch = e->fence.number };
	struct sc_event done = { .type = SC_EV_FENCED, .epoch = e->fence.number };

	if (!e->fence.wanted || e->failed)
		return;
	if (!e->fence.laid) {
		if (!fence_in(w, end))
			return;
		e->fence.laid = true;
		laid.atomics = unrepeatable(e);
		sim_shell_later(w, end, laid);
	}
	if (e->fence.told || (sim_engine_busy(w, end) && sim_mutant != SIM_MUTANT_FENCE_EARLY))
		return;
	e->fence.told = true;
	/* never before FENCE_LAID */
	sim_at_payload(w, 60 * SIM_US + sim_delay(w), SIM_EV_CORE, end)->core = done;
}

void sim_engine_fence(struct sim_world *w, uint32_t end, uint32_t number)
{
	struct sim_end *e = &w->end[end];

	e->fence.wanted = true;
	e->fence.laid = e->fence.told = false;
	e->fence.number = number;
	sim_at(w, SIM_US + sim_pick(w, 100 * SIM_US), SIM_EV_WATCH, end, 0);
}

/* ---- completions of the hardware ------------------------------------------------------------ */

static void tell_app_error(struct sim_world *w, uint32_t end, enum sc_reason reason)
{
	struct sim_end *e = &w->end[end];
	struct sc_event *event;

	if (e->app_error_told)
		return;
	e->app_error_told = true;
	/* before anything else that a drain finds out */
	event = &sim_at_payload(w, 0, SIM_EV_CORE, end)->core;
	event->type = SC_EV_APP_ERROR;
	event->reason = reason;
}

static void tell_fault(struct sim_world *w, struct sim_qp *qp)
{
	if (qp->fault_told)
		return;
	qp->fault_told = true;
	sim_shell_later(w, qp->end,
			(struct sc_event){ .type = SC_EV_FAULT,
					   .reason = SC_REASON_TRANSPORT,
					   .epoch = qp->epoch });
}

static bool withhold(const struct sim_end *e, const struct sim_cqe *cqe)
{
	bool application = cqe->application && sim_mutant != SIM_MUTANT_RETRY_ERROR;

	return e->withheld || (e->guarded && !application);
}

/* Where flushing begins, all before it is acknowledged. */
static void first_flushed(struct sim_world *w, struct sim_qp *qp, const struct sim_cqe *cqe)
{
	struct sim_end *e = &w->end[qp->end];
	uint32_t done = cqe->index + (cqe->hidden ? 1U : 0U);

	if (sim_mutant == SIM_MUTANT_FLUSH_GOOD && !cqe->application)
		done = cqe->index + 1U;
	if (cqe->recv || (qp->send_error_seen && sim_mutant != SIM_MUTANT_FLUSH_GOOD))
		return;
	qp->send_error_seen = true;
	if (done > e->retired)
		retire_to(w, qp->end, done - 1);
}

/* The first error decides for all that follow on this carrier. */
static void consume_error(struct sim_world *w, struct sim_qp *qp, const struct sim_cqe *cqe)
{
	struct sim_end *e = &w->end[qp->end];
	bool first = !qp->error_seen;

	if (first) {
		qp->error_seen = true;
		qp->errors_withheld = withhold(e, cqe);
	}
	first_flushed(w, qp, cqe);
	if (cqe->application)
		sim_label(qp->end, "own");
	if (cqe->application && sim_mutant != SIM_MUTANT_RETRY_ERROR)
		tell_app_error(w, qp->end, SC_REASON_APPLICATION);
	if (qp->errors_withheld) {
		sim_reach(w, 1);
		if (first)
			tell_fault(w, qp);
		return;
	}
	tell_app_error(w, qp->end, SC_REASON_TRANSPORT);
	if (cqe->recv)
		give(w, qp->end,
		     (struct sim_completion){ .recv = true, .error = true, .index = cqe->index });
	else if (!cqe->hidden)
		retire_with_error(w, qp->end, cqe->index);
}

static void consume(struct sim_world *w, struct sim_qp *qp, struct sim_cqe cqe)
{
	struct sim_end *e = &w->end[qp->end];

	if (e->failed || qp->sealed)
		return;
	if (cqe.error) {
		consume_error(w, qp, &cqe);
		return;
	}
	if (!cqe.recv) {
		if (cqe.index >= e->retired)
			retire_to(w, qp->end, cqe.index);
		return;
	}
	e->recv_count++;
	sim_label(qp->end ^ 1U, "comp %u %u %u", qp->epoch, cqe.index, cqe.message);
	if (sim_mutant == SIM_MUTANT_DROP && e->conn.move != SC_MOVE_NONE)
		return;
	give(w, qp->end,
	     (struct sim_completion){ .recv = true, .index = cqe.index, .message = cqe.message });
}

void sim_engine_collect(struct sim_world *w, uint32_t end)
{
	struct sim_end *e = &w->end[end];
	uint32_t kept = 0;

	for (uint32_t i = 0; i < e->n_carriers; i++) {
		struct sim_qp *qp = &w->qp[e->carriers[i]];

		while (qp->cq_head < qp->n_cq)
			consume(w, qp, qp->cq[qp->cq_head++]);
		/* one that its NIC forgot is still there to its owner */
		if (qp->state != SIM_QP_GONE || !qp->sealed)
			e->carriers[kept++] = qp->qpn;
	}
	e->n_carriers = kept;
	fence_step(w, end);
}

static bool qp_flushed(struct sim_world *w, const struct sim_qp *qp)
{
	/* it said that it obeys, and has nothing to show for it */
	if (sim_mutant == SIM_MUTANT_IDLE_FLUSHED && sim_nic_of(w, qp)->health == SIM_ZOMBIE &&
	    qp->una == qp->n_sq && qp->rq_head == qp->n_rq)
		return true;
	return qp->state == SIM_QP_GONE ||
	       (qp->state == SIM_QP_ERR && !sim_nic_of(w, qp)->cqes_lost) ||
	       sim_nic_of(w, qp)->health == SIM_DISASSOCIATED;
}

/* Can no carrier older than this one count any more? */
bool sim_engine_flushed(struct sim_world *w, uint32_t end, uint32_t epoch)
{
	struct sim_end *e = &w->end[end];

	sim_engine_collect(w, end);
	for (uint32_t i = 0; i < e->n_carriers; i++) {
		const struct sim_qp *qp = &w->qp[e->carriers[i]];

		if (sc_epoch_cmp(qp->epoch, epoch) < 0 && !qp->sealed && qp->state != SIM_QP_MADE &&
		    !qp_flushed(w, qp))
			return false;
		/* what shows it, is the completion of a hidden request if there is no other */
		if (qp->state == SIM_QP_ERR && sim_nic_of(w, qp)->health != SIM_DISASSOCIATED)
			sim_nic_of(w, qp)->n_posted = 0;
	}
	return true;
}

/* Is the NIC of one of them gone, so that it flushed nothing? */
bool sim_engine_died(struct sim_world *w, uint32_t end, uint32_t epoch)
{
	struct sim_end *e = &w->end[end];

	for (uint32_t i = 0; i < e->n_carriers; i++) {
		const struct sim_qp *qp = &w->qp[e->carriers[i]];

		if (sc_epoch_cmp(qp->epoch, epoch) < 0 && !qp->sealed &&
		    (qp->state == SIM_QP_GONE || sim_nic_of(w, qp)->health == SIM_DISASSOCIATED))
			return true;
	}
	return false;
}

/* Has the NIC of one of them lost its way to memory? */
bool sim_engine_cut(struct sim_world *w, uint32_t end, uint32_t epoch)
{
	struct sim_end *e = &w->end[end];

	for (uint32_t i = 0; i < e->n_carriers; i++) {
		const struct sim_qp *qp = &w->qp[e->carriers[i]];

		if (sc_epoch_cmp(qp->epoch, epoch) < 0 && !qp->sealed &&
		    sim_nic_of(w, qp)->writes_lost)
			return true;
	}
	return false;
}

void sim_engine_seal(struct sim_world *w, uint32_t end, uint32_t epoch)
{
	struct sim_end *e = &w->end[end];

	for (uint32_t i = 0; i < e->n_carriers; i++) {
		struct sim_qp *qp = &w->qp[e->carriers[i]];

		qp->sealed |= sc_epoch_cmp(qp->epoch, epoch) < 0;
	}
}

/* The application polls: what was taken out earlier comes first. */
bool sim_engine_next(struct sim_world *w, uint32_t end, struct sim_completion *out)
{
	struct sim_end *e = &w->end[end];

	if (e->backlog_head == e->n_backlog)
		sim_engine_collect(w, end);
	if (e->backlog_head == e->n_backlog)
		return false;
	*out = e->backlog[e->backlog_head++];
	return true;
}

void sim_engine_cqe(struct sim_world *w, uint32_t end, bool error)
{
	sim_app_wake(w, end);
	if ((w->end[end].guarded && error) || w->end[end].fence.wanted)
		sim_at(w, sim_delay(w), SIM_EV_WATCH, end, 0);
}

/* ---- posting -------------------------------------------------------------------------------- */

static void refuse(struct sim_world *w, uint32_t end)
{
	sim_trace(w, end, "refuses what is no WRITE");
	w->excuse[end >> 1] |= SIM_EXCUSE_MISCOUNT;
	sim_engine_fail(w, end);
	tell_app_error(w, end, SC_REASON_MISCOUNT);
}

static bool tells_of_writes(const struct sim_request *r)
{
	return r->kind != SP_REQ_WRITE && r->kind != SP_REQ_LOCAL;
}

/* again: a move lays it. */
static void lay_log(struct sim_world *w, struct sim_qp *qp, uint32_t request, bool again)
{
	if (again && sim_mutant == SIM_MUTANT_LOG_NOT_RELAID)
		return;
	if (!sim_log_due(w, qp, &w->end[qp->end].requests[request]))
		return;
	sim_exact_logged(qp);
	sim_nic_lay_log(w, qp, request);
}

static void publish(struct sim_world *w, uint32_t end, uint32_t request, bool nop)
{
	struct sim_end *e = &w->end[end];
	bool again = e->requests[request].published;

	if (e->failed)
		return;
	if (e->laid.writes_only && tells_of_writes(&e->requests[request])) {
		refuse(w, end);
		return;
	}
	sim_check_publish(w, end, &w->qp[e->active]);
	e->requests[request].nop = nop;
	e->requests[request].published = true;
	sim_label(end, "ring %u %d", request, nop);
	sim_exact_posted(w, &w->qp[e->active], &e->requests[request]);
	sim_nic_lay(w, &w->qp[e->active], request, nop);
	lay_log(w, &w->qp[e->active], request, again);
}

void sim_engine_post(struct sim_world *w, uint32_t end, uint32_t request)
{
	struct sim_end *e = &w->end[end];
	bool fenced = e->fence.laid || (e->fence.wanted && e->fence_early);

	fenced &= sim_mutant != SIM_MUTANT_FENCE_OPEN;

	sim_label(end, "post");
	if (e->failed)
		retire_with_error(w, end, request);
	else if (sim_mutant == SIM_MUTANT_PUBLISH_EARLY && e->withheld && e->recv_to != e->active)
		sim_nic_lay(w, &w->qp[e->recv_to], request, false);
	else if (!e->withheld && !fenced)
		publish(w, end, request, false);
}

void sim_engine_post_receive(struct sim_world *w, uint32_t end, uint32_t receive)
{
	struct sim_end *e = &w->end[end];
	struct sim_qp *to = &w->qp[e->recv_to];

	if (SC_MUTANT(RECEIVES_LATE) && e->withheld)
		to = sim_engine_carrier(w, end, e->conn.epoch);
	if (e->failed)
		give(w, end,
		     (struct sim_completion){
			     .recv = true, .error = true, .index = (uint8_t)receive });
	else if (to)
		sim_nic_lay_receive(w, to, receive);
}

void sim_engine_withhold(struct sim_world *w, uint32_t end)
{
	struct sim_end *e = &w->end[end];

	e->withheld = true;
	e->fence.wanted = e->fence.laid = false;
}

void sim_engine_unfence(struct sim_world *w, uint32_t end)
{
	struct sim_end *e = &w->end[end];

	e->fence.wanted = e->fence.laid = false;
	if (e->withheld || e->failed)
		return;
	for (uint32_t i = published_end(e); i < e->app.n_posted; i++)
		publish(w, end, i, false);
}

/* Sends are withheld on the carrier in use. Receives, which the shell withholds as well, are not here. */
bool sim_engine_stay(struct sim_world *w, uint32_t end)
{
	w->end[end].withheld = true;
	sim_engine_collect(w, end);
	return unrepeatable(&w->end[end]);
}

void sim_engine_unstay(struct sim_world *w, uint32_t end)
{
	w->end[end].withheld = false;
	sim_engine_unfence(w, end);
}

/* ---- the move ------------------------------------------------------------------------------- */

static bool already_laid(const struct sim_qp *qp, uint32_t receive)
{
	for (uint32_t i = 0; i < qp->n_rq; i++)
		if (qp->rq[i] == receive)
			return true;
	return false;
}

bool sim_engine_lay_receives(struct sim_world *w, uint32_t end, uint32_t epoch)
{
	struct sim_end *e = &w->end[end];
	struct sim_qp *qp = sim_engine_carrier(w, end, epoch);
	uint32_t first = e->recv_count - w->base_count, n = e->app.n_receives_posted;

	if (!qp)
		return false;
	if (sim_mutant == SIM_MUTANT_NOT_RELAID && e->recv_to != e->active)
		first = n;
	if (sim_mutant == SIM_MUTANT_REORDER && first + 1 < n && !qp->n_rq) {
		sim_nic_lay_receive(w, qp, first + 1);
		sim_nic_lay_receive(w, qp, first);
		first += 2;
	}
	for (uint32_t i = first; i < n; i++)
		if (!already_laid(qp, i))
			sim_nic_lay_receive(w, qp, i);
	e->recv_to = qp->qpn;
	return true;
}

static uint32_t two_sided(const struct sim_end *e, uint32_t end)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < end; i++)
		n += e->requests[i].kind == SP_REQ_TWO_SIDED;
	return n;
}

static void reach(struct sim_world *w, const struct sim_request *r)
{
	if (r->kind == SP_REQ_TWO_SIDED)
		sim_reach(w, 2);
	if (r->kind == SP_REQ_WRITE || r->with_write)
		sim_reach(w, 3);
	if (r->kind == SP_REQ_ATOMIC)
		sim_reach(w, 4);
}

/* Delivered as NOPs: they count as done. */
static uint32_t nops(const struct sim_end *e, uint32_t end)
{
	uint32_t n = 0;

	for (uint32_t i = e->retired; i < end; i++)
		n += e->requests[i].kind == SP_REQ_TWO_SIDED && e->requests[i].nop;
	return n;
}

static void recall_completions(struct sim_end *e)
{
	uint32_t kept = e->backlog_head;

	for (uint32_t i = e->backlog_head; i < e->n_backlog; i++)
		if (e->backlog[i].recv || e->backlog[i].error || e->backlog[i].index < e->laid.from)
			e->backlog[kept++] = e->backlog[i];
	e->n_backlog = kept;
}

/* What the application has not seen complete is outstanding again. */
static enum sp_last_seen recall(struct sim_end *e)
{
	uint32_t seen = e->app.send_next > e->laid.from ? e->app.send_next : e->laid.from;

	recall_completions(e);
	while (e->retired > seen)
		e->requests[--e->retired].retired = false;
	for (; seen > e->laid.from; seen--) {
		const struct sim_request *r = &e->requests[seen - 1];

		if (r->kind == SP_REQ_LOCAL || r->nop)
			continue;
		return r->kind == SP_REQ_WRITE || r->kind == SP_REQ_ATOMIC ? SP_SEEN_UNPLACED
									   : SP_SEEN_SAFE;
	}
	return SP_SEEN_SAFE;
}

static void carry_out(struct sim_world *w, uint32_t end, const enum sp_fate *fates, uint32_t n)
{
	uint32_t first = w->end[end].retired;
	bool laid = false;

	w->end[end].laid.from = first + n;
	w->end[end].laid.acked = 0;

	for (uint32_t i = 0; i < n; i++) {
		bool done = fates[i] == SP_FATE_DELIVERED || fates[i] == SP_FATE_WON;

		if (done && !laid) {
			w->figures.settled++;
			retire_to(w, end, first + i);
			continue;
		}
		if (!done)
			sim_check_resubmit(w, end);
		w->figures.resent += !done;
		if (!laid)
			w->end[end].laid.from = first + i;
		laid = true;
		publish(w, end, first + i, done || w->end[end].requests[first + i].nop);
	}
}

static uint32_t list(struct sim_world *w, const struct sim_end *e, uint32_t acked, uint32_t last,
		     struct sp_request *requests)
{
	uint32_t n = 0;

	for (uint32_t i = e->retired; i < last; i++) {
		const struct sim_request *r = &e->requests[i];

		reach(w, r);
		requests[n++] = (struct sp_request){ .kind = r->nop ? SP_REQ_LOCAL : r->kind,
						     .signaled = r->signaled,
						     .send_fence = r->send_fence,
						     .published = 1,
						     .answered = i < acked && r->answered };
		sim_uid_tell(r, &requests[n - 1]);
	}
	sim_exact_number(w, &w->qp[e->active], last - n, requests, n);
	return n;
}

bool sim_engine_exact_wanted(struct sim_world *w, uint32_t end)
{
	const struct sim_end *e = &w->end[end];
	struct sp_request requests[SIM_REQUESTS];

	return sc_exact_wanted(requests, list(w, e, 0, published_end(e), requests));
}

/* The number that the other end of this carrier bears there. */
static uint32_t other_end(const struct sim_world *w, const struct sim_qp *qp)
{
	const struct sim_qp *other = &w->qp[qp->dst];

	return other->dst == qp->qpn ? other->epoch : UINT32_MAX;
}

enum sc_reason sim_engine_settle(struct sim_world *w, uint32_t end, const struct sc_action *a)
{
	struct sim_end *e = &w->end[end];
	struct sim_qp *qp = sim_engine_carrier(w, end, a->epoch);
	struct sc_counts counts = { .peer = a->recv_count };
	struct sp_request requests[SIM_REQUESTS];
	enum sp_fate fates[SIM_REQUESTS];
	uint32_t n, last = published_end(e);
	struct sim_settled settled;
	struct sc_verdict verdict;
	enum sc_reason reason;

	if (!qp)
		return SC_REASON_RESOURCE;
	if (e->retired > e->laid.acked)
		e->laid.acked = e->retired;
	if (a->dead && sc_epoch_cmp(w->qp[e->active].epoch, a->dead) < 0) {
		counts.recalled = true;
		counts.seen = recall(e);
		counts.cut = a->cut && sc_epoch_cmp(w->qp[e->active].epoch, a->cut) < 0;
	}
	n = list(w, e, e->laid.acked, last, requests);
	counts.done = w->base_count + two_sided(e, e->retired) + nops(e, last);
	counts.posted = w->base_count + two_sided(e, last);
	sim_exact_counts(w, end, a, &counts);
	if (!sim_log_settle(w, end, requests, n, &counts))
		return SC_REASON_KEY; /* asked again soon */
	sim_owner_tell(w, end, requests, e->retired, n);
	reason = sc_settle(requests, n, &counts, fates, &verdict);
	settled = (struct sim_settled){ &counts, requests, n, fates, &verdict, reason };
	sim_label_settle(end, &settled);
	sim_exact_settled(w, end, &settled);
	sim_owner_settled(w, end, &settled);
	sim_log_settled(w, end, &settled);
	if (reason != SC_REASON_NONE)
		return reason;
	e->laid.writes_only |= verdict.unplaced;
	sim_label(end, "settle %u %u %u %d %u %u", counts.peer - w->base_count, a->dead, a->cut,
		  counts.recalled, a->epoch, other_end(w, qp));
	e->active = qp->qpn;
	carry_out(w, end, fates, n);
	e->withheld = e->fence.wanted = e->fence.laid = false;
	for (; last < e->app.n_posted; last++)
		publish(w, end, last, false);
	return SC_REASON_NONE;
}

/* What completed before completes well; then errors, in order. */
void sim_engine_fail(struct sim_world *w, uint32_t end)
{
	struct sim_end *e = &w->end[end];

	e->withheld = true; /* errors are made here, once, not taken from the rings */
	sim_engine_collect(w, end);
	e->withheld = false;
	e->failed = true;
	for (uint32_t i = e->retired; i < e->app.n_posted; i++)
		retire_with_error(w, end, i);
	for (uint32_t i = e->receives_given; i < e->app.n_receives_posted; i++)
		give(w, end,
		     (struct sim_completion){ .recv = true, .error = true, .index = (uint8_t)i });
	for (uint32_t i = 0; i < e->n_carriers; i++)
		sim_command_destroy(w, &w->qp[e->carriers[i]]);
}
