/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The plan of a Write: which chunk is coded with which. Chunks that leave early enough to be named
 * and resent go without a code. The rest (of EC: all) is cut into blocks of up to depth
 * submessages, and chunk i of a block belongs to its submessage i mod L, so that a burst takes one
 * chunk of each. Submessages of a block are as even as can be.
 */
#include "internal.h"

static uint32_t coded(const struct sdr_plan *p)
{
	return p->chunks - p->coded_from;
}

static uint32_t up(uint64_t a, uint64_t b)
{
	return (uint32_t)((a + b - 1) / b);
}

void sdr_plan_lay(struct sdr_plan *p, double tail_rtts)
{
	uint64_t tail = p->chunks;

	if (p->kind == SDR_SCHEME_HYBRID) {
		tail = (uint64_t)(tail_rtts * (double)p->rtt_ns / (double)p->inject_ns) + 1;
		if (tail > p->chunks)
			tail = p->chunks;
	} else if (p->kind != SDR_SCHEME_EC) {
		tail = 0;
	}
	p->coded_from = p->chunks - (uint32_t)tail;
	if (!tail) {
		p->k = p->m = p->depth = p->parity = 0;
		return;
	}
	p->depth = up(tail, p->k);
	if (p->depth > SDR_DEPTH_MAX)
		p->depth = SDR_DEPTH_MAX;
	p->parity = up(tail * p->m, p->k);
}

bool sdr_plan_valid(const struct sdr_plan *p)
{
	if (!p->chunks != !p->bytes || p->coded_from > p->chunks || p->kind > SDR_SCHEME_HYBRID ||
	    p->code > SDR_CODE_XOR || !p->inject_ns || !p->rtt_ns || !p->rto_ns)
		return false;
	/* An hour is more than any link has, and far from where sums wrap. */
	if ((p->inject_ns | p->rtt_ns | p->reorder_ns | p->rto_ns | p->fto_ns) >> 42)
		return false;
	if (!coded(p))
		return !p->parity;
	return p->k && p->m && p->k + p->m <= SDR_CODE_MAX && p->depth &&
	       p->depth <= SDR_DEPTH_MAX && p->parity == up((uint64_t)coded(p) * p->m, p->k);
}

uint32_t sdr_plan_submessages(const struct sdr_plan *p)
{
	return coded(p) ? up(coded(p), p->k) : 0;
}

/* The block that a coded chunk, or one of parity, lies in: all but the last are full. */
struct block {
	uint32_t first, chunks, parity_first, parity, subs;
};

static struct block block_at(const struct sdr_plan *p, uint32_t n)
{
	struct block b = { .first = n * p->depth * p->k, .parity_first = n * p->depth * p->m };

	b.chunks = coded(p) - b.first;
	if (b.chunks > p->depth * p->k)
		b.chunks = p->depth * p->k;
	b.subs = up(b.chunks, p->k);
	b.parity = up((uint64_t)b.chunks * p->m, p->k);
	return b;
}

uint32_t sdr_plan_of_data(const struct sdr_plan *p, uint32_t i)
{
	uint32_t n = i / (p->depth * p->k);
	struct block b = block_at(p, n);
	uint32_t sub = (i - b.first) % b.subs;

	if (SDR_MUTATED(INTERLEAVE_OFF))
		sub = (sub + 1) % b.subs;
	return n * p->depth + sub;
}

uint32_t sdr_plan_of_parity(const struct sdr_plan *p, uint32_t j)
{
	uint32_t n = j / (p->depth * p->m);
	struct block b = block_at(p, n);

	return n * p->depth + (j - b.parity_first) % b.subs;
}

struct sdr_submessage sdr_plan_submessage(const struct sdr_plan *p, uint32_t n)
{
	struct block b = block_at(p, n / p->depth);
	uint32_t s = n % p->depth;

	return (struct sdr_submessage){
		.data_first = b.first + s,
		.data = up(b.chunks - s, b.subs),
		.parity_first = b.parity_first + s,
		.parity = up(b.parity - s, b.subs),
		.stride = b.subs,
	};
}
