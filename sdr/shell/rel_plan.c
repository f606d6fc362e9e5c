/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* How a Write is sent: by the user's word, or by the model and what is known of the link. */
#include "sdr/shell/rel.h"

#include <math.h>
#include <string.h>

#define RATE_GUESS_BPS 1e9	  /* where no rate is told: only timers hang on it */
#define SLACK_NS       5000000ull /* delay by two programs on busy cores */
#define SHORT_TAIL     0.9999
#define NEAR	       0.1 /* a link that has changed by less is the same */
#define TAIL_RTTS      1.25
#define SHORT_RTTS     16 /* a Write that leaves in a 16th of a round trip is short */

static uint64_t rtt_of(const struct sdr_rel *rel)
{
	uint64_t rtt = rel->qp->estimate.srtt_ns;

	return rtt ? rtt : rel->attr.rtt_ns;
}

static double rate_of(const struct sdr_rel *rel)
{
	double rate = sdr_rate_share(rel->qp);

	return rate > 0 ? rate : RATE_GUESS_BPS;
}

static bool is_near(double a, double b)
{
	return fabs(a - b) <= NEAR * b;
}

/* The place of a size's choice. */
static struct sdr_chosen *chosen_of(struct sdr_rel *rel, uint64_t bytes)
{
	return &rel->chosen[(bytes * 0x9e3779b97f4a7c15ull) >> 61];
}

static bool still_holds(const struct sdr_chosen *c, const struct sdr_chosen *now)
{
	return c->bytes == now->bytes && is_near(c->loss, now->loss) &&
	       is_near(c->rtt_ns, now->rtt_ns) && is_near(c->rate_bps, now->rate_bps) &&
	       fabs(c->repeats - now->repeats) <= NEAR * (1 - SHORT_TAIL);
}

/* Asks the model, which takes as long as some packets do. */
static int ask_model(struct sdr_rel *rel, uint64_t bytes, const struct sdr_estimate *e,
		     const struct sdr_plan *plan, struct sdr_chosen *c)
{
	/* The receiver has room for so much parity. */
	double room = 1 + (double)rel->parity_max / plan->chunks, most = rel->attr.max_sent;
	double tail = rel->attr.tail;
	struct sdr_choice choice;
	int err;

	/* A chunk more costs a short Write no time, and a lost one a round trip. */
	if (plan->chunks * plan->inject_ns < plan->rtt_ns / SHORT_RTTS) {
		most = most < 2 ? 2 : most;
		tail = tail < SHORT_TAIL ? SHORT_TAIL : tail;
	}
	err = sdr_choose(e, c->rate_bps, sdr_chunk_bytes(rel->qp), bytes, rel->attr.code,
			 most < room ? most : room, tail, &choice);
	if (err)
		return err;
	c->kind = choice.scheme.kind;
	c->k = choice.scheme.k;
	c->m = choice.scheme.m;
	*chosen_of(rel, bytes) = *c;
	return 0;
}

static int choose(struct sdr_rel *rel, uint64_t bytes, struct sdr_plan *plan)
{
	struct sdr_estimate e = rel->qp->estimate;
	const struct sdr_chosen *before = chosen_of(rel, bytes);
	struct sdr_chosen now = { .bytes = bytes, .rate_bps = rate_of(rel), .repeats = e.repeats };
	int err = 0;

	e.srtt_ns = rtt_of(rel);
	if (e.loss <= 0)
		e.loss = 1e-3; /* nothing is known: parity is cheap */
	now.loss = e.loss;
	now.rtt_ns = (double)e.srtt_ns;
	if (still_holds(before, &now))
		now = *before;
	else
		err = ask_model(rel, bytes, &e, plan, &now);
	plan->kind = now.kind;
	plan->k = now.k;
	plan->m = now.m;
	return err;
}

int sdr_rel_plan(struct sdr_rel *rel, uint64_t bytes, uint32_t imm, struct sdr_plan *p)
{
	uint64_t chunk = sdr_chunk_bytes(rel->qp);
	int err = 0;

	memset(p, 0, sizeof(*p));
	p->code = rel->attr.code;
	p->k = rel->attr.k;
	p->m = rel->attr.m;
	p->bytes = bytes;
	p->imm = imm;
	p->chunks = (uint32_t)((bytes + chunk - 1) / chunk);
	p->inject_ns = (uint64_t)((double)chunk * 8e9 / rate_of(rel)) + 1;
	p->rtt_ns = rtt_of(rel);
	p->reorder_ns = rel->attr.reorder_ns ? rel->attr.reorder_ns : p->rtt_ns / 8 + SLACK_NS / 10;
	if (!bytes)
		p->kind = SDR_SCHEME_NACK; /* an offer alone */
	else if (rel->attr.scheme == SDR_SCHEME_AUTO)
		err = choose(rel, bytes, p);
	else
		p->kind = (enum sdr_scheme_kind)rel->attr.scheme;
	p->rto_ns = (p->kind == SDR_SCHEME_SR ? 3 : 2) * p->rtt_ns + SLACK_NS;
	p->fto_ns = p->rtt_ns / 2 + p->reorder_ns;
	sdr_plan_lay(p, TAIL_RTTS);
	if (p->parity <= rel->parity_max ||
	    (rel->attr.scheme != SDR_SCHEME_AUTO && !rel->attr.max_parity))
		return err;
	/* The model's tail was a chunk shorter, or the receiver has no room for so much. */
	p->kind = SDR_SCHEME_NACK;
	sdr_plan_lay(p, TAIL_RTTS);
	return err;
}
