/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* How a Write is sent: by the user's word, or by the model and what is known of the link. */
#include "sdr/shell/rel.h"

#include <string.h>

#define RATE_GUESS_BPS 1e9	  /* where no rate is told: only timers hang on it */
#define SLACK_NS       5000000ull /* delay by two programs on busy cores */
#define SHORT_TAIL     0.9999
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

static int choose(struct sdr_rel *rel, uint64_t bytes, struct sdr_plan *plan)
{
	struct sdr_estimate e = rel->qp->estimate;
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
	e.srtt_ns = rtt_of(rel);
	if (e.loss <= 0)
		e.loss = 1e-3; /* nothing is known: parity is cheap */
	err = sdr_choose(&e, rate_of(rel), sdr_chunk_bytes(rel->qp), bytes, rel->attr.code,
			 most < room ? most : room, tail, &choice);
	if (err)
		return err;
	plan->kind = choice.scheme.kind;
	plan->k = choice.scheme.k;
	plan->m = choice.scheme.m;
	return 0;
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
