/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Every store that a call makes to the pages which the NIC reads (doorbell registers, doorbell
 * records), with its width, and the fences between them: libmlx5's and the engine's, as the
 * processor sees them. The pages are write-protected. A store faults; it is then executed twice,
 * over zeros and over ones: the bytes that come out equal are those that it writes. From the first
 * one on the call is single-stepped, and fences are told by their instruction.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "tests/diff/diff.h"

bool diff_tracing;

#if defined(__x86_64__)

enum {
	PAGE = 4096,
	MAX_PAGES = 7,
	MAX_EVENTS = 128,
	TRAP_FLAG = 0x100,
};

enum where {
	WHERE_REGISTER,
	WHERE_CQ_REGISTER,
	WHERE_RECORD,
	WHERE_SCQ_RECORD,
	WHERE_RCQ_RECORD,
	WHERE_SRQ_RECORD,
	WHERE_ELSEWHERE,
};

static const char *const where_names[] = {
	[WHERE_REGISTER] = "register",
	[WHERE_CQ_REGISTER] = "CQ register",
	[WHERE_RECORD] = "record",
	[WHERE_SCQ_RECORD] = "send CQ's record",
	[WHERE_RCQ_RECORD] = "receive CQ's record",
	[WHERE_SRQ_RECORD] = "shared receive queue's record",
	[WHERE_ELSEWHERE] = "elsewhere",
};

struct event {
	enum where where;
	uint32_t offset, len;
	uint8_t bytes[64];
	bool barrier; /* a barrier since the store before */
};

struct trace {
	struct diff_side *side;
	struct event events[MAX_EVENTS];
	unsigned n;
	bool barrier;		/* since the last store */
	uint8_t *sq, *rq, *srq; /* rings as they were at the last store to a record of theirs */
	bool record;		/* there was one */
	uint64_t steps;
};

static struct trace traces[2], *cur;
static uint8_t *pages[MAX_PAGES];
static unsigned page_count;

/* The store that is being looked at. */
static struct {
	int pass; /* 0: none */
	uint8_t *page;
	gregset_t regs;
	uint8_t before[PAGE], zeros[PAGE];
} at;

static uint8_t *page_of(const void *p)
{
	return (uint8_t *)((uintptr_t)p & ~(uintptr_t)(PAGE - 1));
}

static void protect(int prot)
{
	for (unsigned i = 0; i < page_count; i++)
		if (mprotect(pages[i], PAGE, prot))
			abort();
}

static bool inside(const uint8_t *p, const void *base, size_t n, uint32_t *offset)
{
	*offset = p - (const uint8_t *)base;
	return p >= (const uint8_t *)base && p < (const uint8_t *)base + n;
}

static enum where find(const struct diff_side *s, const uint8_t *p, uint32_t *offset)
{
	if (inside(p, s->dv.dbrec, 8, offset))
		return WHERE_RECORD;
	if (inside(p, s->dv_scq.dbrec, 8, offset))
		return WHERE_SCQ_RECORD;
	if (inside(p, s->dv_rcq.dbrec, 8, offset))
		return WHERE_RCQ_RECORD;
	if (s->srq && inside(p, s->dv_srq.dbrec, 4, offset))
		return WHERE_SRQ_RECORD;
	if (s->dv_scq.cq_uar && inside(p, (uint8_t *)s->dv_scq.cq_uar + 0x20, 8, offset))
		return WHERE_CQ_REGISTER;
	if (inside(p, s->uar, PAGE, offset))
		return WHERE_REGISTER;
	*offset = (uintptr_t)p & (PAGE - 1);
	return WHERE_ELSEWHERE;
}

static void keep_rings(struct trace *t)
{
	const struct mlx5dv_qp *dv = &t->side->dv;

	t->record = true;
	memcpy(t->sq, dv->sq.buf, (size_t)dv->sq.wqe_cnt * 64);
	memcpy(t->rq, dv->rq.buf, (size_t)dv->rq.wqe_cnt * dv->rq.stride);
	if (t->side->srq)
		memcpy(t->srq, t->side->dv_srq.buf, t->side->srq_bytes);
}

/* Bytes that came out equal over zeros and over ones were written. */
static void add_event(struct trace *t, uint8_t *page)
{
	uint32_t first = 0, end = PAGE;
	struct event *ev = &t->events[t->n < MAX_EVENTS ? t->n : MAX_EVENTS - 1];

	while (first < PAGE && page[first] != at.zeros[first])
		first++;
	while (end > first && page[end - 1] != at.zeros[end - 1])
		end--;
	ev->len = end - first;
	ev->barrier = t->barrier;
	ev->where = find(t->side, page + first, &ev->offset);
	memcpy(ev->bytes, page + first, ev->len < 64 ? ev->len : 64);
	memcpy(at.before + first, page + first, ev->len);
	t->barrier = false;
	t->n++;
	if (ev->where == WHERE_RECORD || ev->where == WHERE_SRQ_RECORD)
		keep_rings(t);
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;
	uint8_t *page = page_of(info->si_addr);
	bool mine = false;

	for (unsigned i = 0; i < page_count; i++)
		mine |= pages[i] == page;
	if (!mine || !cur || at.pass) {
		signal(sig, SIG_DFL); /* a true fault: happens again, and ends us */
		return;
	}
	at.pass = 1;
	at.page = page;
	uc->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
	memcpy(at.regs, uc->uc_mcontext.gregs, sizeof(at.regs));
	memcpy(at.before, page, PAGE);
	if (mprotect(page, PAGE, PROT_READ | PROT_WRITE))
		abort();
	memset(page, 0, PAGE);
}

/* sfence, mfence, a lock prefix, or xchg with memory. */
static bool is_barrier(const uint8_t *ip)
{
	while (*ip == 0x66 || *ip == 0xf2 || *ip == 0xf3)
		ip++;
	if (*ip == 0xf0)
		return true;
	if ((*ip & 0xf0) == 0x40)
		ip++;
	if (ip[0] == 0x0f && ip[1] == 0xae)
		return ip[2] == 0xf8 || ip[2] == 0xf0;
	return (ip[0] == 0x86 || ip[0] == 0x87) && ip[1] >> 6 != 3;
}

static void on_step(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	if (!cur)
		return;
	cur->steps++;
	if (at.pass == 1) {
		memcpy(at.zeros, at.page, PAGE);
		memset(at.page, 0xff, PAGE);
		memcpy(uc->uc_mcontext.gregs, at.regs, sizeof(at.regs));
		at.pass = 2;
		return;
	}
	if (at.pass == 2) {
		add_event(cur, at.page);
		memcpy(at.page, at.before, PAGE);
		if (mprotect(at.page, PAGE, PROT_READ))
			abort();
		at.pass = 0;
	}
	if (is_barrier((const uint8_t *)uc->uc_mcontext.gregs[REG_RIP]))
		cur->barrier = true;
}

static void add_page(const void *p)
{
	for (unsigned i = 0; i < page_count; i++)
		if (pages[i] == page_of(p))
			return;
	if (page_count < MAX_PAGES)
		pages[page_count++] = page_of(p);
}

/* Around a call: diff_trace_off ends what diff_trace_on began. */
void diff_trace_on(struct diff_rig *rig, bool engine)
{
	struct diff_side *s = engine ? &rig->e : &rig->l;

	if (!diff_tracing)
		return;
	page_count = 0;
	add_page(s->uar);
	add_page(s->dv.dbrec);
	add_page(s->dv_scq.dbrec);
	add_page(s->dv_rcq.dbrec);
	if (s->srq)
		add_page(s->dv_srq.dbrec);
	add_page(s->dv_scq.cq_uar);
	add_page(s->dv_rcq.cq_uar);
	cur = &traces[engine];
	cur->side = s;
	cur->n = 0;
	cur->barrier = cur->record = false;
	protect(PROT_READ);
}

void diff_trace_off(void)
{
	if (!diff_tracing)
		return;
	/* beyond the red zone */
	__asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\tandq %0, (%%rsp)\n\tpopfq\n\t"
			 "lea 128(%%rsp), %%rsp" ::"i"(~TRAP_FLAG)
			 : "memory", "cc");
	cur = NULL;
	protect(PROT_READ | PROT_WRITE);
}

/*
 * A WQE is copied to its register by several stores, which write combining joins: 8 bytes each in
 * some versions of libmlx5, more in others. What counts is that they are ascending, without a gap,
 * a barrier between them, or one below 8 bytes. Single stores keep their width. With any_register all
 * that goes to the register at once counts as one: libmlx5 may ring with a WQE that it has refused
 * (see diff_engine_rang), whose size and flags then decide how much is copied.
 */
static void join(struct trace *t, bool any_register)
{
	unsigned n = 0;

	for (unsigned i = 0; i < t->n && i < MAX_EVENTS; i++) {
		struct event *ev = &t->events[i], *last = n ? &t->events[n - 1] : NULL;

		if (any_register && last && ev->where == WHERE_REGISTER &&
		    last->where == WHERE_REGISTER && !ev->barrier)
			continue;
		if (last && ev->where == WHERE_REGISTER && last->where == WHERE_REGISTER &&
		    ev->offset == last->offset + last->len && !ev->barrier && ev->len % 8 == 0 &&
		    last->len % 8 == 0 && ev->offset % ev->len == 0 && last->len + ev->len <= 64) {
			memcpy(last->bytes + last->len, ev->bytes, ev->len);
			last->len += ev->len;
		} else {
			t->events[n++] = *ev;
		}
	}
	t->n = t->n > MAX_EVENTS ? t->n : n;
}

static bool same_event(struct diff_rig *rig, unsigned i, bool register_too)
{
	const struct event *l = &traces[0].events[i], *e = &traces[1].events[i];
	uint32_t n = l->where == WHERE_CQ_REGISTER ? 4 : l->len;
	bool bytes = register_too || l->where != WHERE_REGISTER;

	if (l->where != e->where || (bytes && (l->offset != e->offset || l->len != e->len)))
		return diff_fail(rig, "store %u: libmlx5 %s+%#x, %u bytes; engine %s+%#x, %u bytes",
				 i, where_names[l->where], l->offset, l->len, where_names[e->where],
				 e->offset, e->len);
	/* behind the index stands the CQ's number, of which each has its own */
	if (bytes && memcmp(l->bytes, e->bytes, n))
		return diff_fail(rig, "store %u, to %s+%#x: other bytes", i, where_names[l->where],
				 l->offset);
	if (i && l->barrier && !e->barrier)
		return diff_fail(rig, "no barrier before store %u, to %s+%#x", i,
				 where_names[l->where], l->offset);
	return true;
}

/* When the record told of them, were the requests there? */
static bool rings_first(struct diff_rig *rig, const struct trace *t)
{
	const struct mlx5dv_qp *dv = &t->side->dv;

	if (t->record &&
	    (memcmp(t->sq, dv->sq.buf, (size_t)dv->sq.wqe_cnt * 64) ||
	     memcmp(t->rq, dv->rq.buf, (size_t)dv->rq.wqe_cnt * dv->rq.stride) ||
	     (t->side->srq && memcmp(t->srq, t->side->dv_srq.buf, t->side->srq_bytes))))
		return diff_fail(rig, "%s changed a ring behind the store to the record",
				 t == traces ? "libmlx5" : "the engine");
	return true;
}

static void list_events(const char *who, const struct trace *t)
{
	for (unsigned i = 0; i < t->n && i < MAX_EVENTS; i++)
		fprintf(stderr, "  %s, store %u: %u bytes to %s+%#x%s\n", who, i, t->events[i].len,
			where_names[t->events[i].where], t->events[i].offset,
			t->events[i].barrier ? ", behind a barrier" : "");
}

bool diff_trace_same(struct diff_rig *rig, bool register_too)
{
	struct trace *l = &traces[0], *e = &traces[1];

	if (!diff_tracing)
		return true;
	join(l, !register_too);
	join(e, !register_too);
	if (l->n != e->n || l->n > MAX_EVENTS) {
		list_events("libmlx5", l);
		list_events("engine", e);
		return diff_fail(rig, "libmlx5 made %u stores for the NIC, the engine %u", l->n,
				 e->n);
	}
	for (unsigned i = 0; i < l->n; i++)
		if (!same_event(rig, i, register_too))
			return false;
	if (l->n && l->barrier && !e->barrier)
		return diff_fail(rig, "no barrier behind the last store");
	rig->traced += l->n;
	return rings_first(rig, l) && rings_first(rig, e);
}

bool diff_trace_setup(struct diff_rig *rig)
{
	struct sigaction fault = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
	struct sigaction trap = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO };
	const struct mlx5dv_qp *dv = &rig->l.dv;

	if (!diff_tracing)
		return true;
	for (int i = 0; i < 2; i++) {
		free(traces[i].sq);
		free(traces[i].rq);
		free(traces[i].srq);
		traces[i].sq = malloc((size_t)dv->sq.wqe_cnt * 64 + 1);
		traces[i].rq = malloc((size_t)dv->rq.wqe_cnt * dv->rq.stride + 1);
		traces[i].srq = malloc(rig->l.srq_bytes + 1);
		if (!traces[i].sq || !traces[i].rq || !traces[i].srq)
			return false;
	}
	return !sigaction(SIGSEGV, &fault, NULL) && !sigaction(SIGTRAP, &trap, NULL);
}

bool diff_trace_possible(void)
{
	return true;
}

#else

bool diff_trace_possible(void)
{
	return false;
}

bool diff_trace_setup(struct diff_rig *rig)
{
	return true;
}

void diff_trace_on(struct diff_rig *rig, bool engine)
{
}

void diff_trace_off(void)
{
}

bool diff_trace_same(struct diff_rig *rig, bool register_too)
{
	return true;
}

#endif
