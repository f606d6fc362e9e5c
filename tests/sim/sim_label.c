/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "sim_label.h"

#include <stdarg.h>

#include "shiftlib/core/internal.h"
#include "sim_end.h"
#include "sim_nic.h"
#include "sim_world.h"

FILE *sim_labels;

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
	static const char kinds[] = { [SP_REQ_WRITE] = 'W',
				      [SP_REQ_READ] = 'R',
				      [SP_REQ_TWO_SIDED] = 'S',
				      [SP_REQ_ATOMIC] = 'A',
				      [SP_REQ_LOCAL] = 'L' };

	if (!sim_labels)
		return;
	fprintf(sim_labels, "schedule %llu\n", (unsigned long long)w->seed);
	for (uint32_t i = 0; i < w->n_ends; i++) {
		fprintf(sim_labels, "%u run ", i);
		for (uint32_t r = 0; r < SIM_REQUESTS; r++)
			putc(r < w->end[i].app.n_requests ? kinds[w->end[i].requests[r].kind] : 'L',
			     sim_labels);
		putc(' ', sim_labels);
		for (uint32_t r = 0; r < SIM_REQUESTS; r++)
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
		sim_label(end ^ 1, "final");
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

void sim_label_step(const struct sim_world *w, uint32_t end, const struct sc_conn *before,
		    const struct sc_actions *out)
{
	const struct sc_conn *c = &w->end[end].conn;

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
	if (c->epoch != before->epoch) {
		sim_label(end, "leave %u", c->epoch);
		sim_label(end ^ 1, "rleave %u", c->epoch);
	}
}
