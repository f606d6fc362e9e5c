/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Reliable connections: requester with go-back-N, responder with an expected PSN, completions in
 * order (IBA 9.7). Requests of several packets can be cut in their middle; a READ takes as many numbers
 * as its answer has packets. All QPs start with the same PSN, so that only their numbers keep an old
 * packet out of a new carrier.
 */
#include "sim_app.h"
#include "sim_check.h"
#include "sim_end.h"
#include "sim_engine.h"
#include "sim_event.h"
#include "sim_exact.h"
#include "sim_label.h"
#include "sim_limits.h"
#include "sim_log.h"
#include "sim_mutants.h"
#include "sim_nic.h"
#include "sim_owner.h"
#include "sim_room.h"
#include "sim_uid.h"
#include "sim_world.h"

#include <stddef.h>
#include <string.h>

struct sim_nic *sim_nic_of(struct sim_world *w, const struct sim_qp *qp)
{
	return &w->host[qp->end & 1].nic[qp->path];
}

static bool frozen(const struct sim_world *w, const struct sim_qp *qp)
{
	const struct sim_host *h = &w->host[qp->end & 1];
	enum sim_health health = h->nic[qp->path].health;

	return h->dead || (health != SIM_WELL && health != SIM_ZOMBIE);
}

static uint32_t psn_add(uint32_t psn, uint32_t packets)
{
	return (psn + packets) & SC_PSN_MASK;
}

/* At most half the range lies between the two. */
static int32_t psn_cmp(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

/* Does this QP still execute? Whatever its owner was told. */
bool sim_nic_works(const struct sim_world *w, const struct sim_qp *qp)
{
	return qp->state == SIM_QP_RTS && !frozen(w, qp);
}

bool sim_nic_may_send(const struct sim_world *w, const struct sim_qp *qp)
{
	return sim_nic_works(w, qp) && qp->una < qp->n_sq;
}

struct sim_qp *sim_nic_make(struct sim_world *w, uint32_t end, uint32_t path, uint32_t epoch)
{
	struct sim_end *e = &w->end[end];
	struct sim_qp *qp;

	if (w->n_qps + 1 == SIM_QPS) {
		sim_out_of_room(w, "P7: carriers");
		return &w->qp[0];
	}
	qp = &w->qp[++w->n_qps];
	memset(qp, 0, offsetof(struct sim_qp, sq));
	qp->end = (uint8_t)end;
	qp->path = (uint8_t)path;
	qp->epoch = epoch;
	qp->qpn = (uint16_t)w->n_qps;
	qp->next_psn = qp->epsn = w->first_psn;
	qp->mtu = w->mtu[path];
	qp->suspect = sim_nic_of(w, qp)->health != SIM_WELL;
	e->carriers[e->n_carriers++] = qp->qpn;
	return qp;
}

/* ---- what is written, and in memory somewhat later ------------------------------------------ */

struct sim_posted *sim_nic_posted(struct sim_world *w, struct sim_nic *nic)
{
	struct sim_posted *p;

	if (nic->n_posted == SIM_POSTED) {
		nic->n_posted--;
		memmove(nic->posted, nic->posted + 1, nic->n_posted * sizeof(*nic->posted));
	}
	p = &nic->posted[nic->n_posted++];
	*p = (struct sim_posted){ .at = w->now };
	return p;
}

/* Who has seen a completion, has seen all that was written before it. */
static bool landed(const struct sim_world *w, const struct sim_posted *p)
{
	return w->now - p->at > SIM_POSTED_NS || (p->qpn && p->cqe < w->qp[p->qpn].cq_head);
}

static void unwrite(struct sim_world *w, const struct sim_posted *p)
{
	struct sim_end *e = &w->end[p->end];
	const struct sim_cqe *cqe;

	if (p->log) {
		sim_log_unwrite(w, p);
	} else if (p->uid) {
		sim_uid_unwrite(w, p);
	} else if (p->qpn) {
		sim_trace(w, p->end, "qp%u completion lost with the NIC", p->qpn);
		cqe = &w->qp[p->qpn].cq[--w->qp[p->qpn].n_cq];
		if (cqe->application)
			e->requests[cqe->index].refused = false; /* nobody knows of it */
		e->cqes_were_lost = true;
	} else if (e->cell[p->cell].half[p->half] == p->now) {
		sim_trace(w, p->end, "write %u lost with the NIC", p->now - 1);
		e->cell[p->cell].half[p->half] = p->old;
		e->writes_were_lost = true;
	}
}

/* The NIC dies: the last of what it wrote, and had acknowledged, is not in memory. */
void sim_nic_lose_posted(struct sim_world *w, uint32_t host, uint32_t path)
{
	struct sim_nic *nic = &w->host[host].nic[path];
	uint32_t n = sim_pick(w, SIM_POSTED + 1);

	for (; n && nic->n_posted && !landed(w, &nic->posted[nic->n_posted - 1]); n--)
		unwrite(w, &nic->posted[--nic->n_posted]);
	nic->n_posted = 0;
}

static void put_cqe(struct sim_world *w, struct sim_qp *qp, struct sim_cqe cqe)
{
	struct sim_posted *posted;

	if (sim_nic_of(w, qp)->cqes_lost) {
		sim_trace(w, qp->end, "qp%u completion lost", qp->qpn);
		w->end[qp->end].cqes_were_lost = true;
		return;
	}
	if (qp->n_cq == SIM_CQ) {
		sim_violation(w, "the model's completion queue is too small");
		return;
	}
	posted = sim_nic_posted(w, sim_nic_of(w, qp));
	posted->end = qp->end;
	posted->qpn = qp->qpn;
	posted->cqe = qp->n_cq;
	qp->cq[qp->n_cq++] = cqe;
	sim_room_look(w, qp);
	sim_engine_cqe(w, qp->end, cqe.error);
}

/* ---- packets -------------------------------------------------------------------------------- */

static bool passes(const struct sim_world *w, const struct sim_packet *p)
{
	const struct sim_nic *nic = &w->host[p->from & 1].nic[p->path];
	const struct sim_nic *to = &w->host[1 - (p->from & 1)].nic[p->path];

	if (!w->rail_up[p->path] || !nic->port_up || !to->port_up || nic->lose_tx)
		return false;
	return p->type == SIM_PK_REQUEST || !nic->lose_acks;
}

static void send(struct sim_world *w, struct sim_packet p)
{
	uint64_t delay = sim_delay(w);

	if (!passes(w, &p))
		return;
	p.held = w->weather.held_percent && sim_chance(w, w->weather.held_percent);
	if (p.held)
		delay = SIM_LIFETIME_NS + sim_random(w) % SIM_HELD_NS;
	else
		w->qp[p.src].in_flight++;
	sim_at_payload(w, delay, SIM_EV_PACKET, p.from ^ 1U)->packet = p;
}

static void answer(struct sim_world *w, const struct sim_qp *qp, const struct sim_packet *to,
		   enum sim_packet_type type, uint32_t psn)
{
	struct sim_packet p = *to;

	p.from = qp->end;
	p.src = qp->qpn;
	p.dst = to->src;
	p.type = (uint8_t)type;
	p.psn = psn;
	send(w, p);
}

/* ---- requester ------------------------------------------------------------------------------ */

static struct sim_request *request_of(struct sim_world *w, const struct sim_qp *qp,
				      const struct sim_entry *e)
{
	return &w->end[qp->end].requests[e->request];
}

/* No request of the application's. */
static bool is_hidden(const struct sim_entry *e)
{
	return e->fence || e->log;
}

static bool wants_data(struct sim_world *w, const struct sim_qp *qp, const struct sim_entry *e)
{
	uint8_t kind = request_of(w, qp, e)->kind;

	return !e->nop && !is_hidden(e) && !e->answered &&
	       (kind == SP_REQ_READ || kind == SP_REQ_ATOMIC);
}

static void schedule_transmit(struct sim_world *w, struct sim_qp *qp)
{
	if (qp->tx_scheduled || qp->state != SIM_QP_RTS)
		return;
	qp->tx_scheduled = true;
	sim_at(w, SIM_US + sim_pick(w, 5 * SIM_US), SIM_EV_TRANSMIT, qp->end, qp->qpn);
}

static void arm_retry(struct sim_world *w, struct sim_qp *qp, bool anew)
{
	if (anew)
		qp->retry_scheduled = false;
	if (qp->retry_scheduled || qp->una == qp->n_sq)
		return;
	qp->retry_scheduled = true;
	sim_at_generation(w, w->now + SIM_RETRY_NS, SIM_EV_RETRY, qp->end, qp->qpn,
			  ++qp->retry_generation);
}

static void flush(struct sim_world *w, struct sim_qp *qp, bool application)
{
	qp->state = SIM_QP_ERR;
	for (uint32_t i = qp->una; i < qp->n_sq; i++)
		put_cqe(w, qp,
			(struct sim_cqe){ .error = true,
					  .application = application && i == qp->una,
					  .hidden = is_hidden(&qp->sq[i]),
					  .uncounted = is_hidden(&qp->sq[i]) ||
						       !request_of(w, qp, &qp->sq[i])->signaled,
					  .index = qp->sq[i].request });
	for (uint32_t i = qp->rq_head; i < qp->n_rq; i++)
		put_cqe(w, qp, (struct sim_cqe){ .recv = true, .error = true, .index = qp->rq[i] });
	qp->una = qp->n_sq;
	qp->rq_head = qp->n_rq;
}

void sim_nic_modify_err(struct sim_world *w, struct sim_qp *qp)
{
	if (qp->state == SIM_QP_RTS)
		flush(w, qp, false);
	else if (qp->state == SIM_QP_MADE)
		qp->state = SIM_QP_ERR;
}

/* Completes, in order, what needs no answer any more. */
static void complete(struct sim_world *w, struct sim_qp *qp, uint32_t acked)
{
	uint32_t before = qp->una;

	while (qp->una < qp->n_sq) {
		struct sim_entry *e = &qp->sq[qp->una];

		if (e->packets && psn_cmp(psn_add(e->psn, e->packets), acked) > 0)
			break;
		if (wants_data(w, qp, e))
			break;
		if (e->fence || (!e->log && request_of(w, qp, e)->signaled))
			put_cqe(w, qp,
				(struct sim_cqe){ .index = e->request,
						  .hidden = e->fence,
						  .uncounted = e->fence });
		if (!is_hidden(e))
			sim_label(qp->end, "answered %u %u", qp->epoch, e->request);
		qp->una++;
	}
	if (qp->una == before)
		return;
	if (qp->tx < qp->una) {
		qp->tx = qp->una;
		qp->tx_part = 0;
	}
	qp->retries = 0;
	arm_retry(w, qp, true);
	schedule_transmit(w, qp);
}

/* Everything up to una is acknowledged: its first unacknowledged PSN. */
static uint32_t acked_psn(const struct sim_qp *qp)
{
	return qp->una < qp->n_sq ? qp->sq[qp->una].psn : qp->next_psn;
}

static void lay_entry(struct sim_world *w, struct sim_qp *qp, struct sim_entry e)
{
	if (qp->n_sq == SIM_SQ) {
		sim_violation(w, "the model's send ring is too small");
		return;
	}
	e.psn = qp->next_psn;
	qp->numbers += !e.log;
	qp->sq[qp->n_sq++] = e;
	qp->next_psn = psn_add(qp->next_psn, e.packets);
	if (qp->state != SIM_QP_RTS) {
		if (qp->state == SIM_QP_ERR)
			flush(w, qp, false);
		return;
	}
	schedule_transmit(w, qp);
	arm_retry(w, qp, false);
}

uint32_t sim_nic_packets(const struct sim_qp *qp, const struct sim_request *r)
{
	return r->kind == SP_REQ_LOCAL ? 0 : (r->size + qp->mtu - 1) / qp->mtu;
}

void sim_nic_lay(struct sim_world *w, struct sim_qp *qp, uint32_t request, bool nop)
{
	struct sim_request *r = &w->end[qp->end].requests[request];

	if (r->refused)
		sim_violation(w, "P6: request %u was refused and runs again", request);
	lay_entry(w, qp,
		  (struct sim_entry){ .request = (uint8_t)request,
				      .packets = nop ? 0 : (uint8_t)sim_nic_packets(qp, r),
				      .nop = nop });
}

/* Behind that request, which was laid last: a hidden unsignaled WRITE of the number that it bears. */
void sim_nic_lay_log(struct sim_world *w, struct sim_qp *qp, uint32_t request)
{
	uint32_t says = sim_mutant == SIM_MUTANT_LOG_HIDDEN ? qp->n_sq : qp->numbers;

	lay_entry(w, qp,
		  (struct sim_entry){
			  .request = (uint8_t)request, .packets = 1, .log = true, .says = says });
}

/* A hidden signaled NOP behind that request. Keeps room for the requests themselves, and what may lie behind each. */
bool sim_nic_lay_fence(struct sim_world *w, struct sim_qp *qp, uint32_t request)
{
	if (qp->n_sq + 2 * SIM_REQUESTS >= SIM_SQ)
		return false;
	lay_entry(w, qp,
		  (struct sim_entry){ .request = (uint8_t)request, .nop = true, .fence = true });
	return true;
}

static bool data_missing_before(struct sim_world *w, const struct sim_qp *qp, uint32_t end)
{
	for (uint32_t i = qp->una; i < end; i++)
		if (wants_data(w, qp, &qp->sq[i]))
			return true;
	return false;
}

/* IBA 10.8.3.3: a request with the fence flag waits for the data of all READs and atomics before it. */
static bool fence_holds(struct sim_world *w, const struct sim_qp *qp)
{
	const struct sim_entry *e = &qp->sq[qp->tx];

	return !is_hidden(e) && request_of(w, qp, e)->send_fence &&
	       data_missing_before(w, qp, qp->tx);
}

static void transmit_part(struct sim_world *w, struct sim_qp *qp)
{
	struct sim_entry *e = &qp->sq[qp->tx];

	if (e->packets) {
		sim_trace(w, qp->end, "qp%u sends request %u%s part %u psn %u", qp->qpn, e->request,
			  e->log ? "'s log" : "", qp->tx_part, psn_add(e->psn, qp->tx_part));
		send(w, (struct sim_packet){ .type = SIM_PK_REQUEST,
					     .from = qp->end,
					     .path = qp->path,
					     .src = qp->qpn,
					     .dst = qp->dst,
					     .entry = (uint8_t)qp->tx,
					     .part = (uint8_t)qp->tx_part,
					     .psn = psn_add(e->psn, qp->tx_part) });
	}
	if (++qp->tx_part >= e->packets || request_of(w, qp, e)->kind == SP_REQ_READ) {
		qp->tx++;
		qp->tx_part = 0;
	}
}

void sim_nic_transmit(struct sim_world *w, struct sim_qp *qp)
{
	qp->tx_scheduled = false;
	if (!sim_nic_works(w, qp))
		return;
	complete(w, qp, acked_psn(qp));
	if (qp->tx == qp->n_sq || fence_holds(w, qp))
		return;
	transmit_part(w, qp);
	complete(w, qp, acked_psn(qp));
	if (qp->tx < qp->n_sq)
		schedule_transmit(w, qp);
}

static void go_back(struct sim_world *w, struct sim_qp *qp)
{
	qp->tx = qp->una;
	qp->tx_part = 0;
	schedule_transmit(w, qp);
}

void sim_nic_retry(struct sim_world *w, struct sim_qp *qp, uint32_t generation)
{
	if (generation != qp->retry_generation || !qp->retry_scheduled)
		return;
	qp->retry_scheduled = false;
	if (!sim_nic_may_send(w, qp))
		return;
	if (++qp->retries > SIM_RETRIES) {
		w->stock.sick |= !qp->path; /* these retries are shorter than the config says */
		sim_trace(w, qp->end, "qp%u retry exceeded at request %u", qp->qpn,
			  qp->sq[qp->una].request);
		flush(w, qp, false);
		return;
	}
	go_back(w, qp);
	arm_retry(w, qp, true);
}

static void got_response(struct sim_world *w, struct sim_qp *qp, const struct sim_packet *p)
{
	struct sim_entry *e = &qp->sq[p->entry];
	struct sim_request *r = request_of(w, qp, e);

	/* answers come in order: one that skips another is asked for again */
	if (p->entry < qp->una || e->nop || e->log || data_missing_before(w, qp, p->entry))
		return;
	sim_check_response(w, qp->end, e->request);
	e->answered = true;
	r->answered = true;
	r->low = p->low;
	r->high = p->high;
	memcpy(r->uid.data, p->data, sizeof(r->uid.data));
}

static void refused(struct sim_world *w, struct sim_qp *qp)
{
	struct sim_request *r = request_of(w, qp, &qp->sq[qp->una]);

	r->refused = !sim_nic_of(w, qp)->cqes_lost;
	sim_trace(w, qp->end, "qp%u request %u refused", qp->qpn, qp->sq[qp->una].request);
	sim_reach(w, 6);
	flush(w, qp, true);
}

static void requester(struct sim_world *w, struct sim_qp *qp, const struct sim_packet *p)
{
	if (p->entry >= qp->n_sq)
		return;
	if (p->type == SIM_PK_RESPONSE)
		got_response(w, qp, p);
	if (p->type == SIM_PK_RNR) {
		qp->retries = 0;
		arm_retry(w, qp, true);
		return;
	}
	complete(w, qp, p->psn);
	if (p->type == SIM_PK_NAK && p->entry == qp->una && qp->una < qp->n_sq)
		refused(w, qp);
}

/* ---- responder ------------------------------------------------------------------------------ */

static uint32_t parts_of(const struct sim_world *w, const struct sim_packet *p)
{
	return w->qp[p->src].sq[p->entry].packets;
}

void sim_nic_lay_receive(struct sim_world *w, struct sim_qp *qp, uint32_t receive)
{
	if (qp->n_rq == SIM_REQUESTS) {
		sim_violation(w, "P2: more receives are laid than were posted");
		return;
	}
	qp->rq[qp->n_rq++] = (uint8_t)receive;
	if (qp->state == SIM_QP_ERR)
		flush(w, qp, false);
}

static void write_half(struct sim_world *w, struct sim_qp *qp, uint32_t cell, uint32_t half,
		       uint32_t request)
{
	uint32_t *at = &w->end[qp->end].cell[cell].half[half];
	struct sim_posted *posted = sim_nic_posted(w, sim_nic_of(w, qp));

	sim_check_write(w, qp->end, request);
	sim_exact_written(w, qp->end, cell, request);
	posted->end = qp->end;
	posted->cell = (uint8_t)cell;
	posted->half = (uint8_t)half;
	posted->old = *at;
	posted->now = *at = request + 1;
}

/* The first half of the packets writes the first half, the others the other; a single one both. */
static void write_memory(struct sim_world *w, struct sim_qp *qp, const struct sim_packet *p,
			 const struct sim_request *r, uint32_t request)
{
	uint32_t parts = parts_of(w, p);

	if (r->uid.on) {
		sim_uid_write(w, qp, request);
		return;
	}
	if (sim_nic_of(w, qp)->writes_lost) {
		w->end[qp->end].writes_were_lost = true;
		return;
	}
	for (uint32_t half = 0; half < 2; half++)
		if (parts == 1 || half == 2U * p->part / parts)
			write_half(w, qp, r->cell, half, request);
}

static void respond(struct sim_world *w, struct sim_qp *qp, const struct sim_packet *p,
		    struct sim_request *r, uint32_t request, bool again)
{
	struct sim_end *e = &w->end[qp->end];
	struct sim_packet answer_packet = *p;
	uint32_t a = e->cell[r->cell].half[0], b = e->cell[r->cell].half[1];

	if (r->uid.on) {
		sim_uid_respond(w, qp->end, request, again, &answer_packet);
	} else if (r->kind == SP_REQ_ATOMIC) {
		if (!again) {
			if (!w->owned && ++r->executed > 1 && !w->end[p->from].laid.misled)
				sim_violation(w, "P4: an atomic executed twice");
			r->old_value =
				w->owned ? sim_owner_execute(w, qp->end, request) : e->counter++;
		}
		a = b = r->old_value;
	}
	sim_nic_of(w, qp)->n_posted = 0; /* what is read comes behind what was written */
	answer_packet.low = a < b ? a : b;
	answer_packet.high = a < b ? b : a;
	answer(w, qp, &answer_packet, SIM_PK_RESPONSE, psn_add(p->psn, parts_of(w, p)));
}

static void consume_receive(struct sim_world *w, struct sim_qp *qp, const struct sim_packet *p,
			    const struct sim_request *r)
{
	uint8_t receive = qp->rq[qp->rq_head];

	if (!sim_nic_of(w, qp)->writes_lost) {
		sim_check_receive(w, qp->end, receive);
		w->end[qp->end].receive_message[receive] = r->message;
	}
	if (p->part + 1U < parts_of(w, p))
		return;
	qp->rq_head++;
	sim_trace(w, qp->end, "qp%u executes message %u into receive %u", qp->qpn, r->message,
		  receive);
	put_cqe(w, qp, (struct sim_cqe){ .recv = true, .index = receive, .message = r->message });
}

static void execute(struct sim_world *w, struct sim_qp *qp, const struct sim_packet *p,
		    struct sim_request *r, uint32_t request)
{
	switch ((enum sp_request_kind)r->kind) {
	case SP_REQ_WRITE: write_memory(w, qp, p, r, request); break;
	case SP_REQ_TWO_SIDED:
		if (r->with_write)
			write_memory(w, qp, p, r, request);
		consume_receive(w, qp, p, r);
		break;
	case SP_REQ_READ:
	case SP_REQ_ATOMIC: respond(w, qp, p, r, request, false); break;
	case SP_REQ_LOCAL: break;
	}
}

static void refuse(struct sim_world *w, struct sim_qp *qp, const struct sim_packet *p)
{
	w->excuse[qp->end >> 1] |= SIM_EXCUSE_BAD;
	answer(w, qp, p, SIM_PK_NAK, p->psn);
	flush(w, qp, false);
}

static struct sim_entry *entry_of(struct sim_world *w, const struct sim_packet *p)
{
	return &w->qp[p->src].sq[p->entry];
}

/* Is its answer more than an acknowledgement? */
static bool brings_data(struct sim_world *w, const struct sim_packet *p,
			const struct sim_request *r)
{
	return !entry_of(w, p)->log && (r->kind == SP_REQ_READ || r->kind == SP_REQ_ATOMIC);
}

/* It cannot look at memory any more, nor at what to put where. */
static bool blind(struct sim_world *w, const struct sim_qp *qp, const struct sim_packet *p,
		  const struct sim_request *r)
{
	return sim_nic_of(w, qp)->writes_lost && brings_data(w, p, r);
}

static void duplicate(struct sim_world *w, struct sim_qp *qp, const struct sim_packet *p,
		      struct sim_request *r, uint32_t request)
{
	if (brings_data(w, p, r))
		respond(w, qp, p, r, request, true);
	else
		answer(w, qp, p, SIM_PK_ACK, qp->epsn);
}

static void take_log(struct sim_world *w, struct sim_qp *qp, const struct sim_packet *p)
{
	sim_log_execute(w, qp, &w->qp[p->src], entry_of(w, p));
	entry_of(w, p)->taken = 1;
	qp->epsn = psn_add(qp->epsn, 1);
	answer(w, qp, p, SIM_PK_ACK, qp->epsn);
}

/* A READ takes the numbers of its whole answer. */
static void take(struct sim_world *w, struct sim_qp *qp, const struct sim_packet *p,
		 struct sim_request *r, uint32_t request)
{
	struct sim_entry *entry = entry_of(w, p);
	uint32_t packets = r->kind == SP_REQ_READ ? parts_of(w, p) : 1;
	bool last = p->part + packets == parts_of(w, p);

	if (last)
		sim_label(qp->end ^ 1U, "exec %u %u", qp->epoch, request);
	execute(w, qp, p, r, request);
	entry->taken += (uint8_t)packets;
	r->ran += last;
	qp->epsn = psn_add(qp->epsn, packets);
	if (last && !brings_data(w, p, r))
		answer(w, qp, p, SIM_PK_ACK, qp->epsn);
}

static void responder(struct sim_world *w, struct sim_qp *qp, const struct sim_packet *p,
		      uint32_t request)
{
	struct sim_request *r = &w->end[p->from].requests[request];

	if (psn_cmp(p->psn, qp->epsn) > 0 || blind(w, qp, p, r))
		return;
	if (psn_cmp(p->psn, qp->epsn) < 0) {
		duplicate(w, qp, p, r, request);
		return;
	}
	if (entry_of(w, p)->log) {
		take_log(w, qp, p);
		return;
	}
	if (r->bad) {
		refuse(w, qp, p);
		return;
	}
	if (r->kind == SP_REQ_TWO_SIDED && qp->rq_head == qp->n_rq) {
		answer(w, qp, p, SIM_PK_RNR, p->psn);
		return;
	}
	take(w, qp, p, r, request);
}

void sim_nic_packet(struct sim_world *w, const struct sim_packet *packet)
{
	struct sim_packet p = *packet;
	struct sim_qp *qp;

	if (!p.held)
		w->qp[p.src].in_flight--;
	if (!passes(w, &p))
		return;
	if (sim_mutant == SIM_MUTANT_SAME_QPN && p.type == SIM_PK_REQUEST)
		p.dst = w->end[p.from ^ 1U].recv_to;
	qp = &w->qp[p.dst];
	/* the longest lifetime of a packet is what a sick NIC's count relies on */
	if (!p.dst || !sim_nic_works(w, qp) || (p.held && qp->suspect))
		return;
	if (p.type == SIM_PK_REQUEST)
		responder(w, qp, &p, w->qp[p.src].sq[p.entry].request);
	else
		requester(w, qp, &p);
}

/* ---- sickness and health -------------------------------------------------------------------- */

/* It goes on as if nothing had been. */
void sim_nic_thaw(struct sim_world *w, uint32_t host, uint32_t path)
{
	for (uint32_t i = 1; i <= w->n_qps; i++) {
		struct sim_qp *qp = &w->qp[i];

		if ((qp->end & 1) != host || qp->path != path || qp->state != SIM_QP_RTS)
			continue;
		sim_label(qp->end ^ 1U, "heal %u", qp->epoch);
		schedule_transmit(w, qp);
		arm_retry(w, qp, true);
	}
}

/* Everything on it is gone; new QPs have other numbers. */
void sim_nic_reprobe(struct sim_world *w, uint32_t host, uint32_t path)
{
	for (uint32_t i = 1; i <= w->n_qps; i++)
		if ((w->qp[i].end & 1) == host && w->qp[i].path == path) {
			sim_label(w->qp[i].end ^ 1U, "lose %u", w->qp[i].epoch);
			w->qp[i].state = SIM_QP_GONE;
		}
}
