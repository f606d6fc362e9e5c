/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "sim_uid.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "shiftlib/core/internal.h"
#include "sim_app.h"
#include "sim_end.h"
#include "sim_event.h"
#include "sim_fault.h"
#include "sim_label.h"
#include "sim_nic.h"
#include "sim_world.h"

enum { CALLS = 4, AFTER = 2, TRIES = 400, REGION = 0x1000, CALL_IS_DUE = 0, TRY_AGAIN = 1 };

#define SWAPPED (1ULL << 32) /* a compare-and-swap adds that, and an addition 1 */
#define TRY_NS	(2 * SIM_MS)

static struct sim_uid_client *client_of(struct sim_world *w, uint32_t end)
{
	return &w->uid.client[end];
}

static struct sim_uid_memory *memory_of(struct sim_world *w, uint32_t end)
{
	return &w->uid.memory[end & 1];
}

bool sim_uid_is(const struct sim_world *w, uint32_t end)
{
	return w->uid.client[end].phase != SIM_UID_NONE;
}

bool sim_uid_keeps(const struct sim_world *w, uint32_t end)
{
	return w->uid.on && (end & 1) == w->uid.host;
}

/* ---- memory --------------------------------------------------------------------------------- */

static uint64_t *place(struct sim_uid_memory *m, uint64_t addr)
{
	if (addr < sizeof(m->word))
		return &m->word[addr / sizeof(uint64_t)];
	return (uint64_t *)m->record + (addr - REGION) / sizeof(uint64_t);
}

static struct uid_record *record_of(struct sim_uid_memory *m, uint64_t uid)
{
	return &m->record[uid_place(uid)];
}

static uint64_t committed(uint64_t uid)
{
	return uid | 1ULL << 56;
}

static int find(const struct sim_uid_memory *m, uint64_t uid)
{
	for (uint32_t i = m->n_came; i-- > 0;)
		if (m->came[i].uid == uid)
			return (int)i;
	return -1;
}

static void note(struct sim_uid_memory *m, uint64_t uid, uint64_t swap)
{
	if (m->n_came == SIM_UID_CAME)
		return;
	m->came[m->n_came].uid = uid;
	m->came[m->n_came++].swap = swap;
}

/* Of the client whose UID that is, and who waits for it. */
static void comes(struct sim_world *w, uint32_t client, uint64_t before, uint64_t uid)
{
	struct sim_uid_memory *m = memory_of(w, client ^ 1);
	struct sim_uid_client *c = client_of(w, client);
	const struct uid_op *op = &c->now.op;

	if (find(m, uid) >= 0)
		sim_violation(w, "U1: a UID of end %u comes twice", client);
	if (op->uid != uid)
		sim_violation(w, "U1: a UID of end %u comes, which has gone on", client);
	if (record_of(m, uid)->state != uid || record_of(m, uid)->swap != op->swap)
		sim_violation(w, "U1: a UID of end %u comes without its record", client);
	note(m, uid, op->swap);
	c->swapped++;
	c->before = before;
	m->added[c->word] += op->faa;
	w->figures.uids++;
}

static void goes(struct sim_world *w, struct sim_uid_memory *m, uint64_t uid, uint64_t value)
{
	int i = find(m, uid);

	if (record_of(m, uid)->state != committed(uid))
		sim_violation(w, "U1: a UID goes before its record is committed");
	if (i < 0 || m->came[i].swap != value)
		sim_violation(w, "U1: a UID goes for another's value");
}

static bool is_word(const struct sim_uid_memory *m, const uint64_t *at)
{
	return at >= m->word && at < m->word + SIM_UID_WORDS;
}

/* Of the record of a UID that is in a word only the state may change, and only so. */
static void check_record(struct sim_world *w, struct sim_uid_memory *m, const uint64_t *at,
			 uint64_t value)
{
	for (uint32_t i = 0; i < SIM_UID_WORDS; i++) {
		uint64_t uid = m->word[i];
		const struct uid_record *r = uid_is_uid(uid) ? record_of(m, uid) : NULL;

		if (!r || at < &r->state || at > &r->rkey || *at == value)
			continue;
		if (at != &r->state || value != committed(uid))
			sim_violation(w, "U1: a slot is used while its UID is in a word");
	}
}

static void change(struct sim_world *w, uint32_t client, uint64_t *at, uint64_t value)
{
	struct sim_uid_memory *m = memory_of(w, client ^ 1);

	if (!is_word(m, at)) {
		check_record(w, m, at, value);
		*at = value;
		return;
	}
	if (uid_is_uid(*at))
		goes(w, m, *at, value);
	if (uid_is_uid(value))
		comes(w, client, *at, value);
	*at = value;
}

/* ---- the receiver --------------------------------------------------------------------------- */

void sim_uid_write(struct sim_world *w, const struct sim_qp *qp, uint32_t request)
{
	const struct sim_uid_request *r = &w->end[qp->end ^ 1].requests[request].uid;
	struct sim_nic *nic = sim_nic_of(w, qp);
	struct sim_posted *posted;

	if (nic->writes_lost) {
		w->end[qp->end].writes_were_lost = true;
		return;
	}
	for (uint32_t i = 0; i < r->words; i++) {
		uint64_t *at = place(memory_of(w, qp->end), r->addr + i * sizeof(*at));

		posted = sim_nic_posted(w, nic);
		posted->end = qp->end;
		posted->uid = at;
		posted->word_old = *at;
		posted->word_now = r->data[i];
		change(w, qp->end ^ 1U, at, r->data[i]);
	}
}

/* Nobody has seen it: who reads, reads behind what was written. */
void sim_uid_unwrite(struct sim_world *w, const struct sim_posted *posted)
{
	if (*posted->uid != posted->word_now)
		return;
	sim_trace(w, posted->end, "a record lost with the NIC");
	*posted->uid = posted->word_old;
	w->end[posted->end].writes_were_lost = true;
}

static void swap(struct sim_world *w, uint32_t client, uint32_t request)
{
	struct sim_request *r = &w->end[client].requests[request];
	uint64_t *at = place(memory_of(w, client ^ 1), r->uid.addr);

	if (++r->executed > 1 && sim_uid_decides(r))
		sim_violation(w, "P4: the swap that decides, %u of end %u, runs twice", request,
			      client);
	r->uid.ran_old = *at;
	sim_trace(w, client ^ 1, "at %llx, where %llx is: %llx for %llx",
		  (unsigned long long)r->uid.addr, (unsigned long long)*at,
		  (unsigned long long)r->uid.swap, (unsigned long long)r->uid.compare);
	if (*at == r->uid.compare)
		change(w, client, at, r->uid.swap);
}

void sim_uid_respond(struct sim_world *w, uint32_t end, uint32_t request, bool again,
		     struct sim_packet *p)
{
	const struct sim_uid_request *r = &w->end[end ^ 1].requests[request].uid;

	if (r->verb == UID_CAS && !again)
		swap(w, end ^ 1, request);
	if (r->verb == UID_CAS)
		p->data[0] = r->ran_old;
	for (uint32_t i = 0; r->verb == UID_READ && i < r->words; i++)
		p->data[i] = *place(memory_of(w, end), r->addr + i * sizeof(uint64_t));
}

/* ---- the engine ----------------------------------------------------------------------------- */

bool sim_uid_decides(const struct sim_request *r)
{
	return r->uid.on && r->uid.verb == UID_CAS && uid_is_uid(r->uid.swap) &&
	       uid_is_value(r->uid.compare);
}

bool sim_uid_repeats(const struct sim_request *r)
{
	return r->uid.on && r->uid.verb == UID_CAS && !sim_uid_decides(r);
}

void sim_uid_tell(const struct sim_request *r, struct sp_request *request)
{
	if (!r->uid.on)
		return;
	request->uid = 1;
	request->cas = r->uid.verb == UID_CAS;
	request->compare = r->uid.compare;
	request->swap = r->uid.swap;
}

/* An answer had come from a NIC that is dead, and its effect may be lost. */
bool sim_uid_may_end(const struct sim_world *w, uint32_t end)
{
	const struct sim_end *e = &w->end[end];

	for (uint32_t i = e->retired; i < e->app.n_posted; i++)
		if (e->requests[i].kind == SP_REQ_ATOMIC && e->requests[i].answered)
			return true;
	return false;
}

void sim_uid_completed(struct sim_world *w, uint32_t end, uint32_t request)
{
	const struct sim_request *r = &w->end[end].requests[request];

	if (r->uid.verb != UID_WRITE && !r->answered && !sim_uid_decides(r))
		sim_violation(w, "P1: request %u of end %u completed without its data", request,
			      end);
	if (r->uid.verb == UID_CAS && r->answered && r->uid.data[0] != r->uid.ran_old)
		sim_violation(w, "X3: swap %u of end %u completed with another's value", request,
			      end);
	w->figures.uid_unanswered += r->uid.verb == UID_CAS && !r->answered;
}

/* ---- a call --------------------------------------------------------------------------------- */

/* The library's requests go there while it calls; first. */
struct call {
	struct uid_line line;
	struct sim_world *w;
	uint32_t end, next; /* next: batch */
};

static void take_answers(const struct sim_end *e, uint32_t first, struct uid_request *requests,
			 uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct sim_uid_request *r = &e->requests[first + i].uid;

		if (r->verb == UID_CAS && e->requests[first + i].answered)
			requests[i].old = r->data[0];
		else if (r->verb == UID_READ)
			memcpy((char *)requests[i].data + requests[i].from, r->data,
			       requests[i].bytes);
	}
}

static void fill(struct sim_request *to, const struct uid_request *r)
{
	static const uint8_t kinds[] = {
		[UID_READ] = SP_REQ_READ, [UID_WRITE] = SP_REQ_WRITE, [UID_CAS] = SP_REQ_ATOMIC
	};

	*to = (struct sim_request){ .kind = kinds[r->verb], .size = 1, .signaled = true };
	to->uid = (struct sim_uid_request){ .on = true,
					    .verb = (uint8_t)r->verb,
					    .words = (uint8_t)(r->bytes / sizeof(uint64_t)),
					    .addr = r->addr,
					    .compare = r->compare,
					    .swap = r->swap };
	if (r->verb == UID_WRITE)
		memcpy(to->uid.data, (const char *)r->data + r->from, r->bytes);
}

static bool is_over(const struct sim_world *w, uint32_t end)
{
	return w->end[end].app.failed || w->end[end].app.closed || w->host[end & 1].dead;
}

/* Posts them, and comes back when they have completed. */
static int post(struct call *call, const struct uid_request *requests, uint32_t n)
{
	struct sim_uid_client *c = client_of(call->w, call->end);
	struct sim_end *e = &call->w->end[call->end];

	if (is_over(call->w, call->end))
		return ECONNRESET;
	if (e->app.n_requests + n > SIM_REQUESTS || c->n_batches == SIM_UID_BATCHES)
		return ENOBUFS;
	for (uint32_t i = 0; i < n; i++)
		fill(&e->requests[e->app.n_requests + i], &requests[i]);
	c->batch[c->n_batches++] = e->app.n_requests;
	c->behind = e->app.n_requests += n;
	return EAGAIN;
}

static int run(struct uid_line *line, struct uid_request *requests, uint32_t n)
{
	struct call *call = (struct call *)line;
	const struct sim_uid_client *c = client_of(call->w, call->end);
	uint32_t i = call->next++;

	if (i == c->n_batches)
		return post(call, requests, n);
	if (!call->w->end[call->end].requests[c->batch[i] + n - 1].seen)
		return ECONNRESET; /* it has ended before */
	take_answers(&call->w->end[call->end], c->batch[i], requests, n);
	return 0;
}

static void begin_phase(struct sim_uid_client *c, enum sim_uid_phase phase)
{
	c->phase = (uint8_t)phase;
	c->n_batches = 0;
	c->base = c->now;
}

static uint64_t addr_of(const struct sim_uid_client *c)
{
	return c->word * sizeof(uint64_t);
}

static void looked(struct sim_world *w, uint32_t end)
{
	struct sim_uid_client *c = client_of(w, end);
	int ret;

	if (c->adds)
		ret = uid_begin_faa(&c->now, addr_of(c), 0, 1);
	else
		ret = uid_begin_cas(&c->now, addr_of(c), 0, c->seen, c->seen + SWAPPED);
	if (ret)
		sim_violation(w, "U1: a call of end %u does not begin", end);
	c->swapped = 0;
	begin_phase(c, SIM_UID_CALLS);
}

static void check_call(struct sim_world *w, uint32_t end, uint64_t old)
{
	const struct sim_uid_client *c = client_of(w, end);
	bool won = c->adds || old == c->seen;

	if (c->swapped != won)
		sim_violation(w, "U1: end %u says that it %s, and it has swapped %u times", end,
			      won ? "swapped" : "did not swap", c->swapped);
	if (won && c->before != old)
		sim_violation(w, "U1: end %u says another value than there was", end);
	if (!uid_is_value(old))
		sim_violation(w, "U1: end %u says a value that is none", end);
}

static void called(struct sim_world *w, uint32_t end, uint64_t old)
{
	struct sim_uid_client *c = client_of(w, end);

	check_call(w, end, old);
	w->figures.uid_calls++;
	c->due--;
	begin_phase(c, SIM_UID_LOOKS);
}

/* Makes the phase anew. 0: it is over. */
static int make(struct sim_world *w, uint32_t end)
{
	struct sim_uid_client *c = client_of(w, end);
	struct call call = { .line = { run }, .w = w, .end = end };
	uint64_t old = 0;
	int ret = 0;

	c->now = c->base;
	c->now.line = &call.line;
	if (c->phase == SIM_UID_LOOKS)
		ret = uid_read(&c->now, addr_of(c), 0, &c->seen);
	else if (c->phase == SIM_UID_TAKES_OVER)
		ret = uid_open(&c->now);
	else
		ret = uid_finish(&c->now, &old);
	c->now.line = NULL;
	if (ret)
		return ret;
	if (c->phase == SIM_UID_LOOKS)
		looked(w, end);
	else if (c->phase == SIM_UID_TAKES_OVER)
		begin_phase(c, SIM_UID_LOOKS);
	else
		called(w, end, old);
	return 0;
}

static void choose(struct sim_world *w, struct sim_uid_client *c)
{
	c->word = (uint8_t)sim_pick(w, w->uid.words);
	c->adds = sim_chance(w, 50);
}

/* What was not finished is left as it is by who has no room for more requests. */
static void broke(struct sim_world *w, uint32_t end, int ret)
{
	struct sim_uid_client *c = client_of(w, end);

	if (ret == ENOBUFS) {
		c->phase = SIM_UID_STOPPED;
		return;
	}
	c->then = c->phase;
	begin_phase(c, SIM_UID_BROKEN);
	sim_at(w, TRY_NS, SIM_EV_UID, end, TRY_AGAIN);
}

static void advance(struct sim_world *w, uint32_t end)
{
	struct sim_uid_client *c = client_of(w, end);
	int ret = 0;

	while (!ret && !w->violation[0]) {
		if (c->phase == SIM_UID_LOOKS && !c->n_batches) {
			if (!c->due)
				return;
			choose(w, c);
		}
		ret = make(w, end);
	}
	if (ret == EAGAIN) {
		w->end[end].app.n_due = w->end[end].app.n_requests;
		sim_app_post(w, end);
	} else if (ret) {
		broke(w, end, ret);
	}
}

static bool works(const struct sim_uid_client *c)
{
	return c->phase == SIM_UID_LOOKS || c->phase == SIM_UID_CALLS ||
	       c->phase == SIM_UID_TAKES_OVER;
}

void sim_uid_polled(struct sim_world *w, uint32_t end)
{
	struct sim_uid_client *c = client_of(w, end);

	if (!works(c) || !c->n_batches)
		return;
	if (is_over(w, end) || w->end[end].app.send_next >= c->behind)
		advance(w, end);
}

/* ---- another connection --------------------------------------------------------------------- */

/* As shift_uid_resume() wants it: destroyed, or in ERR, at both ends, to which the application sees. */
static bool is_gone(const struct sim_world *w, uint32_t end)
{
	for (uint32_t i = 1; i <= w->n_qps; i++)
		if (w->qp[i].end >> 1 == end >> 1 &&
		    (w->qp[i].state == SIM_QP_RTS || w->qp[i].state == SIM_QP_MADE))
			return false;
	return true;
}

/* One of the same host that lives and that nobody uses; its own: there is none. */
static uint32_t spare_for(const struct sim_world *w, uint32_t end)
{
	for (uint32_t i = end & 1; i < w->n_ends; i += 2)
		if (!sim_uid_is(w, i) && !w->end[i].app.n_requests && !is_over(w, i) &&
		    !is_over(w, i ^ 1))
			return i;
	return end;
}

/* Himself; or another who takes his instance over, as he is dead: his call is over. */
static void move_to(struct sim_world *w, uint32_t end, uint32_t spare)
{
	struct sim_uid_client *c = client_of(w, spare);

	*c = *client_of(w, end);
	client_of(w, end)->phase = SIM_UID_STOPPED;
	if (c->then == SIM_UID_CALLS && sim_chance(w, 50)) {
		c->then = SIM_UID_TAKES_OVER;
		c->due += AFTER;
	}
	sim_trace(w, spare, "goes on for end %u%s", end,
		  c->then == SIM_UID_TAKES_OVER ? ", which is dead" : "");
	if (c->then == SIM_UID_TAKES_OVER)
		c->now = (struct uid_machine){ .region = REGION, .instance = c->base.instance };
	begin_phase(c, (enum sim_uid_phase)c->then);
	w->figures.uid_resumed++;
	advance(w, spare);
}

static void try_another(struct sim_world *w, uint32_t end)
{
	struct sim_uid_client *c = client_of(w, end);
	uint32_t spare = spare_for(w, end);

	if (w->host[end & 1].dead || spare == end || c->tries++ == TRIES) {
		c->phase = SIM_UID_STOPPED;
		return;
	}
	if (is_gone(w, end)) {
		move_to(w, end, spare);
		return;
	}
	sim_fault_close(w, end);
	sim_fault_close(w, end ^ 1);
	sim_at(w, TRY_NS, SIM_EV_UID, end, TRY_AGAIN);
}

void sim_uid_due(struct sim_world *w, uint32_t end, uint32_t what)
{
	struct sim_uid_client *c = client_of(w, end);

	if (what == TRY_AGAIN) {
		try_another(w, end);
		return;
	}
	c->due++;
	if (c->phase == SIM_UID_LOOKS && !c->n_batches)
		advance(w, end);
}

/* ---- a schedule ----------------------------------------------------------------------------- */

static void init_client(struct sim_world *w, uint32_t end, uint64_t span)
{
	struct sim_uid_client *c = client_of(w, end);

	c->phase = SIM_UID_LOOKS;
	c->base = (struct uid_machine){ .region = REGION, .instance = (uint8_t)(end >> 1) };
	for (uint32_t i = 0; i < UID_SLOTS; i++)
		c->base.states[i] = uid_first_state(c->base.instance);
	for (uint32_t n = 1 + sim_pick(w, CALLS); n; n--)
		sim_at(w, sim_random(w) % span, SIM_EV_UID, end, CALL_IS_DUE);
}

/* A PSN that is not true makes swaps run twice, these too. */
static void believe_no_liar(struct sim_world *w)
{
	for (uint32_t h = 0; h < SIM_HOSTS; h++)
		for (uint32_t p = 0; p < SIM_PATHS; p++)
			w->host[h].nic[p].stale = false;
}

/* One of three connections is kept for who loses his. The proof knows no such requests. */
void sim_uid_init(struct sim_world *w)
{
	uint32_t host = sim_pick(w, SIM_HOSTS), n = w->n_conns - (w->n_conns > 2);
	uint64_t span =
		sim_chance(w, 60) ? (1 + sim_pick(w, 6)) * SIM_MS : w->faults_until + 10 * SIM_MS;

	w->uid.host = (uint8_t)host;
	w->uid.words = (uint8_t)(1 + sim_chance(w, 60));
	w->uid.on = sim_chance(w, uid_mutant ? 100 : 20) && !sim_labels;
	if (!w->uid.on)
		return;
	w->owned = false;
	believe_no_liar(w);
	for (uint32_t i = 0; i < SIM_CONNS * UID_SLOTS; i++)
		w->uid.memory[host ^ 1].record[i].state = uid_first_state((uint8_t)(i / UID_SLOTS));
	for (uint32_t i = 0; i < n; i++)
		init_client(w, 2 * i + host, span);
}

/* A word that nobody has met since its owner stopped still has a UID: whose value is that of its record. */
static void check_sums(struct sim_world *w, struct sim_uid_memory *m)
{
	for (uint32_t i = 0; i < SIM_UID_WORDS; i++) {
		uint64_t word = m->word[i];

		if (uid_is_uid(word))
			word = record_of(m, word)->swap;
		if ((uint32_t)word != m->added[i])
			sim_violation(w, "U1: %u were added to word %u, which has %u", m->added[i],
				      i, (uint32_t)word);
	}
}

void sim_uid_check_done(struct sim_world *w, uint32_t end)
{
	const struct sim_uid_client *c = client_of(w, end);

	if (works(c) && c->due)
		sim_violation(w, "P7: a call of end %u never comes back", end);
}

void sim_uid_check_end(struct sim_world *w)
{
	if (!w->uid.on)
		return;
	for (uint32_t i = 0; i < SIM_HOSTS; i++)
		check_sums(w, &w->uid.memory[i]);
}
