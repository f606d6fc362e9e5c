/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The applications: what they post, and when. */
#include "sim_app.h"
#include "sim_check.h"
#include "sim_command.h"
#include "sim_end.h"
#include "sim_engine.h"
#include "sim_event.h"
#include "sim_label.h"
#include "sim_limits.h"
#include "sim_nic.h"
#include "sim_uid.h"
#include "sim_world.h"

static uint8_t pick_kind(struct sim_world *w, uint32_t flavour)
{
	static const uint8_t kinds[4][8] = {
		/* NCCL: WRITEs closed by WRITE_WITH_IMM */
		{ SP_REQ_WRITE, SP_REQ_WRITE, SP_REQ_WRITE, SP_REQ_WRITE, SP_REQ_TWO_SIDED,
		  SP_REQ_TWO_SIDED, SP_REQ_WRITE, SP_REQ_TWO_SIDED },
		/* messages */
		{ SP_REQ_TWO_SIDED, SP_REQ_TWO_SIDED, SP_REQ_TWO_SIDED, SP_REQ_TWO_SIDED,
		  SP_REQ_TWO_SIDED, SP_REQ_TWO_SIDED, SP_REQ_WRITE, SP_REQ_LOCAL },
		/* READs among others */
		{ SP_REQ_READ, SP_REQ_READ, SP_REQ_READ, SP_REQ_WRITE, SP_REQ_WRITE,
		  SP_REQ_TWO_SIDED, SP_REQ_TWO_SIDED, SP_REQ_LOCAL },
		/* everything */
		{ SP_REQ_READ, SP_REQ_ATOMIC, SP_REQ_WRITE, SP_REQ_WRITE, SP_REQ_TWO_SIDED,
		  SP_REQ_TWO_SIDED, SP_REQ_TWO_SIDED, SP_REQ_LOCAL },
	};

	return kinds[flavour][sim_pick(w, 8)];
}

static void draw_request(struct sim_world *w, struct sim_request *r, uint32_t flavour,
			 uint32_t *messages)
{
	*r = (struct sim_request){
		.kind = pick_kind(w, flavour),
		.cell = (uint8_t)sim_pick(w, SIM_CELLS),
		.size = 1,
		.signaled = sim_chance(w, 60),
		.send_fence = sim_chance(w, flavour >= 2 ? 20 : 3),
	};
	if (r->kind == SP_REQ_WRITE || r->kind == SP_REQ_TWO_SIDED)
		r->size += sim_chance(w, 40) ? 1 + sim_pick(w, 3) : 0;
	if (r->kind == SP_REQ_READ)
		r->size += sim_pick(w, 4);
	if (r->kind == SP_REQ_TWO_SIDED) {
		r->with_write = sim_chance(w, flavour == 0 ? 70 : 20);
		r->message = (*messages)++;
	}
}

/* A ring that is full of unsignaled requests would never have room again, on stock. */
static void draw_signals(struct sim_world *w, struct sim_app *app, struct sim_request *r)
{
	bool never = sim_chance(w, 15);

	app->depth = sim_chance(w, 40) ? 1 + sim_pick(w, 5) : SIM_REQUESTS;
	for (uint32_t i = 0; i < app->n_requests; i++) {
		if (never)
			r[i].signaled = false;
		if ((i + 1) % app->depth == 0 && (!never || app->depth < SIM_REQUESTS))
			r[i].signaled = true;
	}
	if (app->n_requests && !never)
		r[app->n_requests - 1].signaled = true;
}

static void draw_work(struct sim_world *w, uint32_t end, uint32_t flavour)
{
	struct sim_end *e = &w->end[end];
	uint32_t n = sim_chance(w, 20) ? 0 : 1 + sim_pick(w, SIM_WORK), messages = 0;

	if (sim_uid_keeps(w, end))
		n = 0;
	for (uint32_t r = 0; r < n; r++)
		draw_request(w, &e->requests[r], flavour, &messages);
	e->app.n_requests = n;
	draw_signals(w, &e->app, e->requests);
	if (n && sim_chance(w, 3)) {
		uint32_t bad = sim_pick(w, n);

		e->requests[bad].bad = e->requests[bad].kind != SP_REQ_LOCAL;
	}
	w->end[end ^ 1].app.n_receives = messages;
}

/* In bursts or over the time in which faults strike, and somewhat longer. */
static void draw_times(struct sim_world *w, uint32_t end, bool follow)
{
	struct sim_app *app = &w->end[end].app;
	uint64_t span =
		sim_chance(w, 50) ? (1 + sim_pick(w, 6)) * SIM_MS : w->faults_until + 10 * SIM_MS;

	for (uint32_t r = 0; r < app->n_requests; r++)
		sim_at(w, sim_random(w) % span, SIM_EV_POST, end, 0);
	app->receives_follow =
		follow && app->n_requests && w->end[end].requests[app->n_requests - 1].signaled;
	for (uint32_t r = 0; r < app->n_receives; r++)
		sim_at(w, sim_chance(w, 40) && !follow ? sim_random(w) % span : 0, SIM_EV_POST_RECV,
		       end, 0);
}

void sim_app_init(struct sim_world *w)
{
	for (uint32_t i = 0; i < w->n_ends; i += 2) {
		uint32_t flavour = sim_pick(w, 4);
		bool follow = sim_chance(w, 10);

		draw_work(w, i, flavour);
		draw_work(w, i + 1, flavour);
		draw_times(w, i, follow);
		draw_times(w, i + 1, false);
	}
}

static bool over(const struct sim_app *app)
{
	return app->failed || app->closed;
}

static bool ring_full(const struct sim_app *app)
{
	return app->n_posted - app->send_next >= app->depth;
}

void sim_app_post(struct sim_world *w, uint32_t end)
{
	struct sim_app *app = &w->end[end].app;
	const struct sim_request *r;

	while (!over(app) && app->n_posted < app->n_requests && app->n_posted < app->n_due &&
	       !ring_full(app)) {
		r = &w->end[end].requests[app->n_posted];
		sim_trace(w, end, "app posts request %u kind %u%s%s%s", app->n_posted, r->kind,
			  r->signaled ? " signaled" : "", r->send_fence ? " fenced" : "",
			  r->bad ? " BAD" : "");
		sim_engine_post(w, end, app->n_posted++);
	}
}

static bool may_receive(const struct sim_app *app)
{
	if (over(app) || app->n_receives_posted == app->n_receives ||
	    app->n_receives_posted >= app->receives_due)
		return false;
	return !app->receives_follow || app->n_receives_posted < app->send_next ||
	       app->send_next == app->n_requests;
}

void sim_app_post_receive(struct sim_world *w, uint32_t end)
{
	struct sim_app *app = &w->end[end].app;

	while (may_receive(app))
		sim_engine_post_receive(w, end, app->n_receives_posted++);
}

void sim_app_wake(struct sim_world *w, uint32_t end)
{
	struct sim_app *app = &w->end[end].app;

	if (app->poll_scheduled || app->closed)
		return;
	app->poll_scheduled = true;
	sim_at(w, sim_delay(w), SIM_EV_POLL, end, 0);
}

void sim_app_close(struct sim_world *w, uint32_t end)
{
	struct sim_end *e = &w->end[end];

	sim_label(end, "end");
	sim_label(end ^ 1U, "end");
	e->app.closed = true;
	for (uint32_t i = 0; i < e->n_carriers; i++) {
		struct sim_qp *qp = &w->qp[e->carriers[i]];

		if (sim_nic_of(w, qp)->health == SIM_WELL)
			qp->state = SIM_QP_GONE;
		else
			sim_command_destroy(w, qp);
	}
	sim_uid_polled(w, end);
}

void sim_app_poll(struct sim_world *w, uint32_t end)
{
	struct sim_end *e = &w->end[end];
	struct sim_completion c;

	while (!e->app.closed && sim_engine_next(w, end, &c)) {
		sim_trace(w, end, "app polls %s %u%s", c.recv ? "receive" : "request", c.index,
			  c.error ? " ERROR" : "");
		if (c.recv)
			sim_check_completed_receive(w, end, &c);
		else
			sim_check_completed_send(w, end, &c);
		if (!c.error)
			continue;
		e->app.failed = true;
		sim_check_app_error(w, end);
	}
	e->app.poll_scheduled = false;
	sim_app_post(w, end);
	sim_app_post_receive(w, end);
	sim_uid_polled(w, end);
}
