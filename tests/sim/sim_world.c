/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Virtual time, the queue of events, chance. */
#include "shiftlib/core/core.h"
#include "sim_app.h"
#include "sim_check.h"
#include "sim_command.h"
#include "sim_engine.h"
#include "sim_event.h"
#include "sim_exact.h"
#include "sim_fault.h"
#include "sim_limits.h"
#include "sim_nic.h"
#include "sim_log.h"
#include "sim_owner.h"
#include "sim_path.h"
#include "sim_report.h"
#include "sim_shell.h"
#include "sim_uid.h"
#include "sim_world.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* ---- chance --------------------------------------------------------------------------------- */

/* splitmix64: any seed is as good as any other */
static uint64_t draw(struct sim_world *w)
{
	uint64_t z = (w->random += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/* A schedule is the list of its decisions; 0 is always the dullest one, which shrinking uses. */
uint64_t sim_random(struct sim_world *w)
{
	uint64_t value = draw(w);

	if (!w->decisions.list)
		return value;
	if (w->decisions.replay && w->decisions.next < w->decisions.n)
		return w->decisions.list[w->decisions.next++];
	if (!w->decisions.replay && w->decisions.n < w->decisions.max)
		w->decisions.list[w->decisions.n++] = value;
	return value;
}

uint32_t sim_pick(struct sim_world *w, uint32_t n)
{
	return (uint32_t)(((sim_random(w) >> 32) * n) >> 32);
}

bool sim_chance(struct sim_world *w, uint32_t percent)
{
	return sim_pick(w, 100) >= 100 - percent;
}

/* Mostly quick, sometimes slow, now and then as slow as a packet can be. */
uint64_t sim_delay(struct sim_world *w)
{
	uint32_t luck = sim_pick(w, 100);

	if (luck >= 100 - w->weather.slow_percent)
		return 1 + sim_random(w) % (SIM_LIFETIME_NS - 1);
	if (luck >= 70)
		return 20 * SIM_US + sim_pick(w, 180 * SIM_US);
	return SIM_US + sim_pick(w, 20 * SIM_US);
}

/* ---- what is said of it --------------------------------------------------------------------- */

void sim_violation(struct sim_world *w, const char *format, ...)
{
	va_list args;

	if (w->violation[0])
		return;
	va_start(args, format);
	vsnprintf(w->violation, sizeof(w->violation), format, args);
	va_end(args);
	if (w->trace)
		printf("%14.3f     VIOLATION %s\n", (double)w->now / 1000, w->violation);
}

void sim_out_of_room(struct sim_world *w, const char *what)
{
	if (w->violation[0])
		return;
	w->out_of_room = true;
	sim_violation(w, "%s: more than the model has room for", what);
}

void sim_trace(struct sim_world *w, uint32_t who, const char *format, ...)
{
	va_list args;

	if (!w->trace)
		return;
	printf("%14.3f ", (double)w->now / 1000);
	if (who == SIM_NOBODY)
		printf("     ");
	else
		printf("%c%u   ", 'A' + (int)(who & 1), who >> 1);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

void sim_reach(struct sim_world *w, uint32_t promise)
{
	w->figures.reached |= 1U << promise;
}

/* ---- the queue ------------------------------------------------------------------------------ */

static bool earlier(const struct sim_event *a, const struct sim_event *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void push(struct sim_world *w, struct sim_event event)
{
	uint32_t i = w->queue.n;

	if (i == SIM_EVENTS) {
		sim_violation(w, "the model's queue is too small");
		return;
	}
	event.order = w->queue.order++;
	w->queue.n++;
	for (; i && earlier(&event, &w->queue.heap[(i - 1) / 2]); i = (i - 1) / 2)
		w->queue.heap[i] = w->queue.heap[(i - 1) / 2];
	w->queue.heap[i] = event;
}

static struct sim_event pop(struct sim_world *w)
{
	struct sim_event first = w->queue.heap[0], last = w->queue.heap[--w->queue.n];
	uint32_t i = 0, child;

	while ((child = 2 * i + 1) < w->queue.n) {
		if (child + 1 < w->queue.n &&
		    earlier(&w->queue.heap[child + 1], &w->queue.heap[child]))
			child++;
		if (!earlier(&w->queue.heap[child], &last))
			break;
		w->queue.heap[i] = w->queue.heap[child];
		i = child;
	}
	w->queue.heap[i] = last;
	return first;
}

void sim_at_generation(struct sim_world *w, uint64_t at, enum sim_event_type type, uint32_t who,
		       uint32_t arg, uint32_t generation)
{
	push(w, (struct sim_event){ .at = at,
				    .type = (uint8_t)type,
				    .who = (uint8_t)who,
				    .arg = (uint16_t)arg,
				    .generation = generation });
}

void sim_at(struct sim_world *w, uint64_t delay_ns, enum sim_event_type type, uint32_t who,
	    uint32_t arg)
{
	sim_at_generation(w, w->now + delay_ns, type, who, arg, 0);
}

union sim_payload *sim_at_payload(struct sim_world *w, uint64_t delay_ns, enum sim_event_type type,
				  uint32_t who)
{
	uint16_t slot = 0;

	if (w->payloads.n_free)
		slot = w->payloads.free[--w->payloads.n_free];
	else
		sim_violation(w, "the model's payloads are used up");
	push(w, (struct sim_event){ .at = w->now + delay_ns,
				    .type = (uint8_t)type,
				    .who = (uint8_t)who,
				    .payload = slot });
	memset(&w->payloads.payload[slot], 0, sizeof(w->payloads.payload[slot]));
	return &w->payloads.payload[slot];
}

/* ---- one schedule --------------------------------------------------------------------------- */

static bool has_payload(enum sim_event_type type)
{
	return type == SIM_EV_PACKET || type == SIM_EV_MESSAGE || type == SIM_EV_CORE ||
	       type == SIM_EV_COMMAND;
}

/* A process that was killed does nothing more; its host, the fabric and its peer go on. */
static bool of_the_dead(const struct sim_world *w, const struct sim_event *e)
{
	switch ((enum sim_event_type)e->type) {
	case SIM_EV_PACKET:
	case SIM_EV_MESSAGE:
	case SIM_EV_COMMAND:
	case SIM_EV_VIEW:
	case SIM_EV_STEADY:
	case SIM_EV_FAULT:
	case SIM_EV_HEAL:
	case SIM_EV_HEAL_ALL: return false;
	case SIM_EV_POST:
	case SIM_EV_POST_RECV:
	case SIM_EV_POLL:
	case SIM_EV_TRANSMIT:
	case SIM_EV_RETRY:
	case SIM_EV_CORE:
	case SIM_EV_TIMER:
	case SIM_EV_FLUSH:
	case SIM_EV_UID:
	case SIM_EV_THIRD:
	case SIM_EV_WATCH: return w->host[e->who & 1].dead;
	}
	return false;
}

static bool of_the_process(enum sim_event_type type)
{
	switch (type) {
	case SIM_EV_PACKET:
	case SIM_EV_TRANSMIT:
	case SIM_EV_RETRY:
	case SIM_EV_FAULT:
	case SIM_EV_HEAL:
	case SIM_EV_HEAL_ALL: return false;
	case SIM_EV_POST:
	case SIM_EV_POST_RECV:
	case SIM_EV_POLL:
	case SIM_EV_MESSAGE:
	case SIM_EV_CORE:
	case SIM_EV_TIMER:
	case SIM_EV_COMMAND:
	case SIM_EV_FLUSH:
	case SIM_EV_VIEW:
	case SIM_EV_STEADY:
	case SIM_EV_UID:
	case SIM_EV_THIRD:
	case SIM_EV_WATCH: return true;
	}
	return false;
}

/* What comes to a process that is halted waits for it, in order; its NICs go on. */
static bool waits_for_process(struct sim_world *w, const struct sim_event *e)
{
	struct sim_host *h = &w->host[e->who & 1];
	struct sim_event later = *e;

	if (!of_the_process(e->type) || !sim_fault_halted(w, e->who & 1))
		return false;
	if (e->type == SIM_EV_MESSAGE && h->halted_messages++ >= SIM_UNREAD) {
		w->payloads.free[w->payloads.n_free++] = e->payload;
		return true;
	}
	later.at = h->halted_until;
	push(w, later);
	return true;
}

static void run(struct sim_world *w, const struct sim_event *e)
{
	union sim_payload p;

	if (waits_for_process(w, e))
		return;
	if (has_payload(e->type)) {
		p = w->payloads.payload[e->payload];
		w->payloads.free[w->payloads.n_free++] = e->payload;
	}
	if (of_the_dead(w, e))
		return;
	switch ((enum sim_event_type)e->type) {
	case SIM_EV_POST:
		w->end[e->who].app.n_due++;
		sim_app_post(w, e->who);
		break;
	case SIM_EV_POST_RECV:
		w->end[e->who].app.receives_due++;
		sim_app_post_receive(w, e->who);
		break;
	case SIM_EV_POLL: sim_app_poll(w, e->who); break;
	case SIM_EV_TRANSMIT: sim_nic_transmit(w, &w->qp[e->arg]); break;
	case SIM_EV_RETRY: sim_nic_retry(w, &w->qp[e->arg], e->generation); break;
	case SIM_EV_PACKET: sim_nic_packet(w, &p.packet); break;
	case SIM_EV_MESSAGE: sim_shell_message(w, e->who, &p.message); break;
	case SIM_EV_CORE: sim_shell_event(w, e->who, &p.core); break;
	case SIM_EV_TIMER: sim_shell_timer(w, e->who, e->generation); break;
	case SIM_EV_COMMAND: sim_command_run(w, &p.command); break;
	case SIM_EV_FLUSH: sim_command_flush_over(w, e->who, e->generation); break;
	case SIM_EV_WATCH: sim_engine_collect(w, e->who); break;
	case SIM_EV_VIEW: sim_path_view(w, e->who, e->arg); break;
	case SIM_EV_STEADY: sim_path_steady(w, e->who, e->arg, e->generation); break;
	case SIM_EV_UID: sim_uid_due(w, e->who, e->arg); break;
	case SIM_EV_THIRD:
		sim_exact_third(w, e->who, e->arg);
		sim_owner_third(w, e->who, e->arg);
		break;
	case SIM_EV_FAULT: sim_fault_apply(w, e->arg); break;
	case SIM_EV_HEAL: sim_fault_heal(w, e->arg); break;
	case SIM_EV_HEAL_ALL: sim_fault_heal_all(w); break;
	}
}

static void clear(struct sim_world *w)
{
	memset(w, 0, offsetof(struct sim_world, decisions));
	w->decisions.next = 0;
	if (!w->decisions.replay)
		w->decisions.n = 0;
	w->queue.n = w->queue.order = 0;
}

void sim_init(struct sim_world *w, uint64_t seed, bool trace)
{
	static const uint32_t slow[] = { 0, 2, 10, 25 }, loss[] = { 0, 0, 10, 40 };

	clear(w);
	w->seed = w->random = seed;
	w->trace = trace;
	w->payloads.n_free = SIM_PAYLOADS;
	for (uint32_t i = 0; i < SIM_PAYLOADS; i++)
		w->payloads.free[i] = (uint16_t)i;
	w->now = SIM_MS;
	w->n_paths = 2 + sim_chance(w, 50) + sim_chance(w, 25);
	w->n_conns = 2 + sim_chance(w, 30);
	w->n_ends = SIM_HOSTS * w->n_conns;
	w->weather.slow_percent = slow[sim_pick(w, 4)];
	w->weather.loss_percent = loss[sim_pick(w, 4)];
	w->weather.held_percent = sim_chance(w, 50) ? 2 : 0;
	w->base_count = sim_pick(w, 50) - 25;
	sim_fault_init(w);
	sim_exact_init(w);
	sim_owner_init(w);
	sim_log_init(w);
	sim_uid_init(w);
	sim_app_init(w);
	sim_shell_init(w);
}

static void count(const struct sim_world *w)
{
	struct sim_totals *t = w->totals;

	t->schedules++;
	t->steps += w->steps;
	t->connections += w->n_conns;
	t->carriers += w->n_qps;
	t->faults += w->figures.faults;
	t->faults_in_move += w->figures.faults_in_move;
	t->with_fault_in_move += w->figures.faults_in_move > 0;
	t->long_enough += w->steps >= SIM_STEPS_MIN;
	t->resent += w->figures.resent;
	t->settled += w->figures.settled;
	t->exact += w->figures.exact;
	t->inexact += w->figures.inexact;
	t->doubted += w->figures.doubted;
	t->misled += w->figures.misled;
	t->spared += w->figures.spared;
	t->atomics += w->figures.atomics;
	t->thirds += w->figures.thirds;
	t->won += w->figures.won;
	t->lost += w->figures.lost;
	t->logged += w->figures.logged;
	t->log_recalled += w->figures.log_recalled;
	t->log_spared += w->figures.log_spared;
	t->uids += w->figures.uids;
	t->uid_calls += w->figures.uid_calls;
	t->uid_resumed += w->figures.uid_resumed;
	t->uid_unanswered += w->figures.uid_unanswered;
	for (uint32_t i = 0; i < SIM_ROWS; i++)
		for (uint32_t e = 0; e < SC_EVENT_TYPES; e++)
			t->pairs[i][e] += w->figures.pair[i][e];
	for (uint32_t i = 1; i < SIM_PROMISES; i++)
		t->reached[i] += w->figures.reached >> i & 1;
	for (uint32_t c = 0; c < w->n_conns; c++) {
		if (!w->end[2 * c].app.failed && !w->end[2 * c + 1].app.failed)
			continue;
		t->ended++;
		for (uint32_t i = 0; i < SIM_EXCUSES; i++)
			t->excused[i] += w->excuse[c] >> i & 1;
	}
}

void sim_run(struct sim_world *w)
{
	while (w->queue.n && !w->violation[0]) {
		struct sim_event e = pop(w);

		if (e.at > w->now)
			w->now = e.at;
		w->restless = w->now > w->faults_until + SIM_HORIZON_NS;
		if (w->restless)
			break;
		if (++w->steps > SIM_STEPS)
			sim_violation(w, "P7: does not come to rest");
		run(w, &e);
	}
	if (!w->violation[0])
		sim_check_end(w);
	count(w);
}
