/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tests/diff/diff.h"

enum {
	SENTINEL = 0xa5,
};

/* The engine's stores to its register since diff_before. */
static struct {
	const uint8_t *at;
	uint8_t bytes[16];
	unsigned len;
} stores[256];
static unsigned store_count;

void (*ring_store_trace)(const void *reg, const void *bytes, unsigned len);

static void record_store(const void *reg, const void *bytes, unsigned len)
{
	if (store_count < 256) {
		stores[store_count].at = reg;
		stores[store_count].len = len;
		memcpy(stores[store_count].bytes, bytes, len <= 16 ? len : 16);
	}
	store_count++;
}

bool diff_fail(struct diff_rig *rig, const char *fmt, ...)
{
	va_list args;

	rig->failures++;
	fprintf(stderr, "difference [%s, request %llu]: ", rig->cfg->name,
		(unsigned long long)rig->requests);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	return false;
}

/* Mark both register pages, so that every store shows. The CQ doorbell's words are on them too. */
void diff_before(struct diff_rig *rig)
{
	ring_store_trace = record_store;
	store_count = 0;
	memset(rig->l.uar, SENTINEL, 4096);
	memset(rig->e.uar, SENTINEL, 4096);
}

static bool same(struct diff_rig *rig, const char *what, const uint8_t *l, const uint8_t *e,
		 size_t n)
{
	if (!memcmp(l, e, n))
		return true;
	for (size_t i = 0; i < n; i++)
		if (l[i] != e[i])
			return diff_fail(rig,
					 "%s, byte %zu (of its 64: %zu): libmlx5 %02x, engine "
					 "%02x",
					 what, i, i % 64, l[i], e[i]);
	return true;
}

static bool same_record(struct diff_rig *rig, const char *what, const __be32 *l, const __be32 *e)
{
	if (l[0] == e[0] && l[1] == e[1])
		return true;
	return diff_fail(rig, "%s: libmlx5 %08x %08x, engine %08x %08x", what, be32toh(l[0]),
			 be32toh(l[1]), be32toh(e[0]), be32toh(e[1]));
}

/* One 8-byte store, or ascending 16-byte stores, without a gap. */
static bool stores_in_order(struct diff_rig *rig)
{
	rig->stores += store_count;
	for (unsigned i = 0; i < store_count && i < 256; i++) {
		if (stores[i].len != (store_count == 1 ? 8 : 16) ||
		    (uintptr_t)stores[i].at & (stores[i].len - 1))
			return diff_fail(rig, "store %u: %u bytes", i, stores[i].len);
		if (i && stores[i].at != stores[i - 1].at + 16)
			return diff_fail(rig, "store %u does not follow store %u", i, i - 1);
	}
	return true;
}

static bool same_srq(struct diff_rig *rig)
{
	const struct mlx5dv_srq *l = &rig->l.dv_srq, *e = &rig->e.dv_srq;

	if (*l->dbrec != *e->dbrec)
		return diff_fail(rig, "shared queue's record: libmlx5 %08x, engine %08x",
				 be32toh(*l->dbrec), be32toh(*e->dbrec));
	return same(rig, "shared receive queue", l->buf, e->buf, rig->l.srq_bytes);
}

bool diff_after(struct diff_rig *rig, bool register_too)
{
	const struct mlx5dv_qp *l = &rig->l.dv, *e = &rig->e.dv;

	if (rig->spoil && rig->sent_head != rig->sent_tail) {
		rig->spoil = false;
		((uint8_t *)e->sq.buf)[(rig->sent[rig->sent_tail % DIFF_QUEUE].index &
					(e->sq.wqe_cnt - 1)) *
					       64 +
				       11] ^= 0x40;
	}
	return same(rig, "send ring", l->sq.buf, e->sq.buf, (size_t)l->sq.wqe_cnt * 64) &&
	       same(rig, "receive ring", l->rq.buf, e->rq.buf,
		    (size_t)l->rq.wqe_cnt * l->rq.stride) &&
	       same_record(rig, "doorbell record", l->dbrec, e->dbrec) &&
	       (!rig->l.srq || same_srq(rig)) &&
	       (!register_too || same(rig, "doorbell registers", rig->l.uar, rig->e.uar, 4096)) &&
	       stores_in_order(rig) && diff_trace_same(rig, register_too);
}

/*
 * Behind cur_post a refused request may have left anything. Take libmlx5's bytes, so that later
 * BlueFlame copies and stale immediates compare; not those of requests under way, which nobody may
 * have touched.
 */
void diff_forget_leavings(struct diff_rig *rig)
{
	uint32_t n = rig->l.dv.sq.wqe_cnt, taken = 0;
	uint8_t *l = rig->l.dv.sq.buf, *e = rig->e.dv.sq.buf;

	if (rig->polled_tail != rig->sent_head)
		taken = (uint16_t)(rig->cur_post - rig->sent[rig->polled_tail % DIFF_QUEUE].index);
	for (uint32_t i = taken; i < n; i++) {
		uint32_t at = (rig->cur_post - taken + i) & (n - 1);

		memcpy(e + at * 64, l + at * 64, 64);
	}
}

/*
 * When a later request of a list fails behind its control segment, libmlx5 rings with that
 * segment's stale bytes; the engine must ring with the last good request.
 */
bool diff_engine_rang(struct diff_rig *rig)
{
	uint32_t last, n = rig->e.dv.sq.wqe_cnt;

	if (rig->sent_head == rig->sent_tail)
		return true;
	last = rig->sent[(rig->sent_head - 1) % DIFF_QUEUE].index & (n - 1);
	if (!store_count || memcmp(stores[0].bytes, (uint8_t *)rig->e.dv.sq.buf + last * 64, 8))
		return diff_fail(rig, "the doorbell is not that of the last good request");
	return true;
}
