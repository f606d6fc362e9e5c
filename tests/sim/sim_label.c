/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "sim_label.h"

#include <stdarg.h>
#include <string.h>

#include "shiftlib/core/internal.h"
#include "sim_end.h"
#include "sim_nic.h"
#include "sim_world.h"

FILE *sim_labels;

static const char kinds[] = { [SP_REQ_WRITE] = 'W',
			      [SP_REQ_READ] = 'R',
			      [SP_REQ_TWO_SIDED] = 'S',
			      [SP_REQ_ATOMIC] = 'A',
			      [SP_REQ_LOCAL] = 'L' };

void sim_label(uint32_t direction, const char *format, ...)
{
	va_list args;

	if (!sim_labels)
		return;
	fprintf(sim_labels, "%u ", direction);
	va_start(args, format);
	vfprintf(sim_labels, format, args);
	va_end(args);
	putc('\n', sim_labels);
}

void sim_label_schedule(const struct sim_world *w)
{
	if (!sim_labels)
		return;
	fprintf(sim_labels, "schedule %llu\n", (unsigned long long)w->seed);
	for (uint32_t i = 0; i < w->n_ends; i++) {
		fprintf(sim_labels, "%u run ", i);
		for (uint32_t r = 0; r < SIM_WORK; r++)
			putc(r < w->end[i].app.n_requests ? kinds[w->end[i].requests[r].kind] : 'L',
			     sim_labels);
		putc(' ', sim_labels);
		for (uint32_t r = 0; r < SIM_WORK; r++)
			putc(w->end[i].requests[r].send_fence ? '1' : '0', sim_labels);
		putc('\n', sim_labels);
	}
}

void sim_label_event(const struct sim_world *w, uint32_t end, const struct sc_event *event)
{
	const struct sc_conn *c = &w->end[end].conn;

	if (!sim_labels || event->epoch != c->epoch)
		return;
	if (event->type == SC_EV_QUIESCED && c->move == SC_MOVE_QUIESCING)
		sim_label(end ^ 1, "rquiesce");
	else if (event->type == SC_EV_QUIESCED && c->move == SC_MOVE_COUNTING && event->final)
		sim_label(end ^ 1, "rquiesce");
	else if (event->type == SC_EV_RECEIVES_LAID && event->ok && c->move == SC_MOVE_LAYING)
		sim_label(end ^ 1, "final %u", event->recv_count - w->base_count);
}

/*
 * Is anything of the peer's older carriers on its way, or may it be, where it would be executed? That is what
 * the lifetime is waited for.
 */
static bool quiet(const struct sim_world *w, uint32_t end)
{
	for (uint32_t i = 1; i <= w->n_qps; i++) {
		const struct sim_qp *qp = &w->qp[i];

		if (qp->end == (end ^ 1) && sc_epoch_cmp(qp->epoch, w->end[end].conn.epoch) < 0 &&
		    sim_nic_works(w, &w->qp[qp->dst]) && (qp->in_flight || sim_nic_may_send(w, qp)))
			return false;
	}
	return true;
}

/* ---- what sc_settle() was asked, and said (docs/proof/Settle.v) ------------------------------ */

static void label_list(const struct sp_request *requests, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct sp_request *r = &requests[i];

		putc(kinds[r->kind], sim_labels);
		putc('0' + r->published + 2 * r->send_fence + 4 * r->answered, sim_labels);
	}
	if (!n)
		putc('-', sim_labels);
}

static void label_asked(uint32_t end, const char *label, const struct sim_settled *s)
{
	static const char letters[] = {
		[SP_FATE_DELIVERED] = 'D', [SP_FATE_READ_AGAIN] = 'A', [SP_FATE_RESEND] = 'R'
	};
	const struct sc_counts *counts = s->counts;

	fprintf(sim_labels, "%u %s %u %u %u %d %d %d ", end, label, counts->done, counts->posted,
		counts->peer, counts->recalled, counts->cut, counts->seen == SP_SEEN_UNPLACED);
	label_list(s->requests, s->n);
	fprintf(sim_labels, " %s ", sc_reason_name(s->reason));
	/* a count that cannot be leaves the fates alone */
	for (uint32_t i = 0; i < s->n && (s->reason != SC_REASON_MISCOUNT || s->verdict->unplaced);
	     i++)
		putc(letters[s->fates[i]], sim_labels);
	fprintf(sim_labels, "/%u%s", s->verdict->delivered, s->verdict->unplaced ? "u" : "");
}

/* Packets behind the first one that the expected one is, and of each request. */
static void label_packets(const struct sim_settled *s)
{
	fprintf(sim_labels, " %u ", (s->counts->expected_psn - s->requests[0].psn) & SC_PSN_MASK);
	for (uint32_t i = 0; i < s->n; i++)
		putc((int)('0' + s->requests[i].packets), sim_labels);
	fprintf(sim_labels, " %d\n", s->verdict->doubted);
}

/* Exact.v has no packets but those of requests. */
static bool has_log_packets(const struct sim_settled *s)
{
	for (uint32_t i = 0; i < s->n; i++)
		if (s->requests[i].behind || s->requests[i].before)
			return true;
	return false;
}

struct answer {
	struct sim_settled settled;
	enum sp_fate fates[SIM_REQUESTS];
	struct sc_verdict verdict;
};

static void settle_again(const struct sim_settled *s, const struct sp_request *requests,
			 const struct sc_counts *counts, struct answer *out)
{
	memset(out->fates, 0, sizeof(out->fates));
	out->settled = (struct sim_settled){ .counts = counts,
					     .requests = requests,
					     .n = s->n,
					     .fates = out->fates,
					     .verdict = &out->verdict };
	out->settled.reason = sc_settle(requests, s->n, counts, out->fates, &out->verdict);
}

/*
 * Settle.v is asked what the count alone says, Exact.v what an expected PSN says; neither knows of words
 * (sim_owner.h), nor of the log's (sim_log.h). A run of Dir.v settles by the count: where the number or a
 * word said something else, what the connection does from here on is no run of the proof.
 */
static bool settled_otherwise(const struct sim_settled *s, const struct sim_settled *by_count)
{
	return by_count->reason != s->reason ||
	       by_count->verdict->unplaced != s->verdict->unplaced ||
	       memcmp(by_count->fates, s->fates, s->n * sizeof(*s->fates));
}

void sim_label_settle(uint32_t end, const struct sim_settled *s)
{
	struct sp_request requests[SIM_REQUESTS];
	struct sc_counts counts = *s->counts;
	struct answer plain, exact;

	if (!sim_labels)
		return;
	memcpy(requests, s->requests, s->n * sizeof(*requests));
	for (uint32_t i = 0; i < s->n; i++)
		requests[i].told = 0;
	counts.logged = false;
	settle_again(s, requests, &counts, &exact);
	counts.exact = false;
	settle_again(s, requests, &counts, &plain);
	label_asked(end, "asked", &plain.settled);
	putc('\n', sim_labels);
	if (s->counts->exact && s->n && !has_log_packets(s)) {
		label_asked(end, "asked-exact", &exact.settled);
		label_packets(&exact.settled);
	}
	if (settled_otherwise(s, &plain.settled))
		sim_label(end, "exact other");
	else if (s->counts->exact && !s->verdict->doubted)
		sim_label(end, "exact same");
}

/* ---- the ordered switch (docs/proof/Switch.v) ----------------------------------------------- */

/* What one step of a core has done to its switch. */
struct turn {
	uint32_t end;
	const struct sc_conn *before, *after;
	const struct sc_event *event;
	bool left;	/* for the next epoch */
	bool told;	/* of the peer's switch, in the epoch that both are at */
	bool cancelled; /* what the fence held back runs */
	bool explained; /* why it is in another phase now */
};

static bool has(const struct sc_actions *out, enum sc_action_type type)
{
	for (uint32_t i = 0; i < out->n; i++)
		if (out->a[i].type == type)
			return true;
	return false;
}

static bool turn_is_ordered(const struct turn *t)
{
	return t->left && t->before->move == SC_MOVE_NONE && !sc_staying(t->before) &&
	       (t->event->type == SC_EV_FENCED || t->told);
}

static void label_fence(struct turn *t)
{
	const struct sc_conn *b = t->before;

	if (t->event->type == SC_EV_FENCED && b->sw.phase == SC_SWITCH_PREP &&
	    b->send == SC_SEND_WAIT_DRAINED && t->event->epoch == b->sw.no)
		sim_label(t->end, "fence");
}

static void label_lost(struct turn *t)
{
	const struct sc_conn *b = t->before;
	uint32_t lost = t->event->state.lost;

	if (t->cancelled && lost && sc_epoch_cmp(lost, b->sw.target) >= 0) {
		sim_label(t->end, "hlost %u", lost);
		t->explained = true;
	}
}

static void label_asks(struct turn *t)
{
	const struct sc_msg_state *m = &t->event->state;
	const struct sc_conn *b = t->before, *c = t->after;
	bool join = c->sw.phase == SC_SWITCH_PREP && c->sw.no == m->switch_no;

	if (sc_epoch_cmp(m->switch_no, b->sw.no) > 0 && c->sw.no == m->switch_no) {
		sim_label(t->end, "asks %u %u %d", m->switch_no, m->target, join);
		t->explained = true;
	}
	if (m->phase == SC_SWITCH_FENCED && !(b->sw.peer_fenced && b->sw.no == c->sw.no) &&
	    (c->sw.peer_fenced || t->left))
		sim_label(t->end, "hfenced");
}

static void label_cancels(struct turn *t)
{
	const struct sc_msg_state *m = &t->event->state;
	const struct sc_conn *b = t->before;
	int32_t age = sc_epoch_cmp(m->switch_no, b->sw.no);
	bool heard = t->after->sw.no == m->switch_no;

	if ((age > 0 && heard) || (age == 0 && sc_switching(b) && !t->explained)) {
		sim_label(t->end, "hcancel %u", m->switch_no);
		t->explained = true;
	}
}

static void label_told(struct turn *t)
{
	if (!t->told || (t->after->move != SC_MOVE_NONE && !t->left))
		return;
	label_lost(t);
	switch ((enum sc_switch_phase)t->event->state.phase) {
	case SC_SWITCH_PREP:
	case SC_SWITCH_FENCED: label_asks(t); break;
	case SC_SWITCH_CANCEL: label_cancels(t); break;
	case SC_SWITCH_NONE: break;
	}
}

static bool joined(const struct turn *t)
{
	return t->told && t->explained && t->after->sw.no == t->event->state.switch_no &&
	       t->event->state.phase != SC_SWITCH_CANCEL;
}

static void label_turn(struct turn *t)
{
	const struct sc_conn *b = t->before, *c = t->after;

	if (sc_epoch_cmp(c->lost, b->lost) > 0)
		sim_label(t->end, "lost %u", c->lost);
	label_fence(t);
	label_told(t);
	if (t->cancelled && !t->explained)
		sim_label(t->end, "back");
	if (c->sw.phase == SC_SWITCH_PREP && !joined(t) &&
	    (b->sw.phase != SC_SWITCH_PREP || c->sw.no != b->sw.no))
		sim_label(t->end, "begin %u %u", c->sw.no, c->sw.target);
	if (t->left)
		sim_label(t->end, "go %d %u", turn_is_ordered(t), c->epoch);
}

void sim_label_step(const struct sim_world *w, uint32_t end, const struct sc_event *event,
		    const struct sc_conn *before, const struct sc_actions *out)
{
	const struct sc_conn *c = &w->end[end].conn;
	struct turn t = { .end = end,
			  .before = before,
			  .after = c,
			  .event = event,
			  .left = c->epoch != before->epoch,
			  .told = event->type == SC_EV_MSG_STATE && before->move == SC_MOVE_NONE &&
				  event->state.epoch == before->epoch && !event->state.stranded,
			  .cancelled = sc_switching(before) && has(out, SC_ACT_UNFENCE) };

	if (!sim_labels)
		return;
	if (c->move == SC_MOVE_ENDED && before->move != SC_MOVE_ENDED) {
		sim_label(end, "end");
		sim_label(end ^ 1, "end");
		return;
	}
	for (uint32_t i = 0; i < out->n; i++)
		if (out->a[i].type == SC_ACT_SEAL)
			sim_label(end ^ 1, "seal %d %d", c->dead == out->a[i].epoch,
				  c->cut == out->a[i].epoch);
		else if (out->a[i].type == SC_ACT_RECOUNT)
			sim_label(end ^ 1, quiet(w, end) ? "lifetime" : "early");
	if (c->count_final && !before->count_final)
		sim_label(end, "quiesce");
	label_turn(&t);
}

void sim_label_acted(const struct sim_world *w, uint32_t end, const struct sc_conn *before)
{
	const struct sc_conn *c = &w->end[end].conn;

	if (c->move == SC_MOVE_STRANDED && before->move != SC_MOVE_STRANDED)
		sim_label(end, "strand");
}
