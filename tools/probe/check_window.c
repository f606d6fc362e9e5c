/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Checks of memory windows of type 1. SDR opens a buffer to packets of UC, and closes it, by such
 * windows.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/probe/check.h"
#include "tools/probe/uc.h"

#define BYTES  64u
#define WINDOW (16u << 10)
#define MARK   (64u << 10) /* place in the arena for the packet behind all others */

/*
 * A window and its queue pairs. In SDR the binding one is connected to itself; here its B has
 * nothing to do.
 */
struct window {
	struct pr_uc binder, pair;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
};

/* ---- made, bound ----------------------------------------------------------------------------- */

static int window_make(struct window *w, struct probe *p)
{
	const struct ibv_device_attr *attr = &p->dev.attr;

	if (pr_uc_open(&w->binder, &p->dev) || pr_uc_open(&w->pair, &p->dev))
		return -1;
	if (!(attr->device_cap_flags & IBV_DEVICE_MEM_WINDOW) || attr->max_mw <= 0)
		return pr_fail("this NIC says that it has no memory windows");
	w->mr = ibv_reg_mr(p->dev.pd, p->dev.mem, WINDOW,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	if (!w->mr)
		return pr_fail("this NIC has no memory for windows (%s)", strerror(errno));
	w->mw = ibv_alloc_mw(p->dev.pd, IBV_MW_TYPE_1);
	return w->mw ? 0 : pr_fail("this NIC has no memory windows (%s)", strerror(errno));
}

static void window_close(struct window *w)
{
	pr_uc_close(&w->pair);
	pr_uc_close(&w->binder);
	if (w->mw)
		ibv_dealloc_mw(w->mw);
	if (w->mr)
		ibv_dereg_mr(w->mr);
}

static int window_open(struct window *w, struct probe *p)
{
	memset(w, 0, sizeof(*w));
	if (!window_make(w, p))
		return 0;
	window_close(w);
	return -1;
}

/* @len 0: unbound. Until it is done. */
static int window_bind(struct window *w, uint32_t len)
{
	struct ibv_mw_bind bind = {
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = { .mr = w->mr,
			       .addr = (uintptr_t)w->mr->addr,
			       .length = len,
			       .mw_access_flags = len ? IBV_ACCESS_REMOTE_WRITE : 0 },
	};
	int err = ibv_bind_mw(w->binder.a, w->mw, &bind);

	if (err)
		return pr_fail("a window cannot be bound: %s", strerror(err));
	return pr_uc_await(&w->binder, 1);
}

/* A packet by the window's key as it was then. */
static struct pr_uc_write packet_by(const struct pr_uc *pair, uint32_t imm, uint32_t key)
{
	struct pr_uc_write write = pr_uc_packet(pair, imm, imm * BYTES, BYTES);

	write.rkey = key;
	return write;
}

/* ---- window-all-qps -------------------------------------------------------------------------- */

/*
 * Sends two packets over this pair, by the window's key and by the arena's behind it. True if both
 * came.
 */
static int came_by(struct probe *p, struct window *w, struct pr_uc *pair, uint32_t imm)
{
	struct pr_uc_write write = packet_by(pair, imm, w->mw->rkey);
	struct pr_uc_write mark = pr_uc_packet(pair, UC_MARK, MARK, BYTES);
	struct pr_uc_seen seen;

	if (pr_uc_recv(pair, 2) || pr_uc_write(pair, &write) || pr_uc_write(pair, &mark))
		return -1;
	pr_uc_look(pair, UC_MARK, &seen);
	return seen.last && seen.n == 2 && pr_pattern_is(p->dev.mem + imm * BYTES, BYTES, imm);
}

static enum pr_verdict all_qps_tried(struct probe *p, struct window *w, struct pr_uc *other,
				     struct pr_result *r)
{
	int one, two;

	if (window_bind(w, WINDOW))
		return PR_CANNOT_TELL;
	one = came_by(p, w, &w->pair, 1);
	two = one < 0 ? -1 : came_by(p, w, other, 2);
	if (two < 0)
		return PR_CANNOT_TELL;
	pr_note(r, "queue_pairs", 2);
	pr_note(r, "served", one + two);
	return one && two ? PR_HOLDS
			  : pr_fails(r,
				     "of two queue pairs, neither of which bound the window, %d "
				     "can write by it",
				     one + two);
}

enum pr_verdict check_window_all_qps(struct probe *p, struct pr_result *r)
{
	enum pr_verdict verdict = PR_CANNOT_TELL;
	struct pr_uc other;
	struct window w;

	if (window_open(&w, p))
		return PR_CANNOT_TELL;
	if (!pr_uc_open(&other, &p->dev)) {
		verdict = all_qps_tried(p, &w, &other, r);
		pr_uc_close(&other);
	}
	window_close(&w);
	return verdict;
}

/* ---- unbind-late ----------------------------------------------------------------------------- */

enum { LATE_ROUNDS = 40, LATE_BEFORE = 24, LATE_AFTER = 8, LATE_ALL = LATE_BEFORE + LATE_AFTER };

struct late {
	unsigned rounds, taken, changed;
	bool stopped; /* the packet behind all others did not arrive */
};

static int late_send(struct window *w, uint32_t first, uint32_t n, uint32_t key)
{
	for (uint32_t i = first; i < first + n; i++) {
		struct pr_uc_write write = packet_by(&w->pair, i, key);

		if (pr_uc_post(&w->pair, &write))
			return -1;
	}
	return 0;
}

/*
 * Unbinds the window while packets are under way, and sends others. When the unbind is complete
 * the buffer is somebody else's.
 */
static int late_round(struct probe *p, struct window *w, struct late *l)
{
	struct pr_uc_write mark = pr_uc_packet(&w->pair, UC_MARK, MARK, BYTES);
	struct pr_uc_seen seen;
	uint32_t key;

	if (window_bind(w, WINDOW))
		return -1;
	key = w->mw->rkey;
	if (late_send(w, 0, LATE_BEFORE, key) || window_bind(w, 0))
		return -1;
	memset(p->dev.mem, 0xee, LATE_ALL * BYTES);
	if (late_send(w, LATE_BEFORE, LATE_AFTER, key) || pr_uc_post(&w->pair, &mark) ||
	    pr_uc_await(&w->pair, LATE_ALL + 1))
		return -1;
	pr_uc_look(&w->pair, UC_MARK, &seen);
	l->rounds++;
	l->taken += seen.n - seen.last;
	l->stopped = !seen.last || seen.failed;
	for (uint32_t i = 0; i < LATE_ALL * BYTES; i++)
		if (((volatile uint8_t *)p->dev.mem)[i] != 0xee) {
			l->changed++;
			break;
		}
	return pr_uc_recv(&w->pair, seen.n);
}

static enum pr_verdict late_tried(struct probe *p, struct window *w, struct pr_result *r)
{
	struct late l = { .rounds = 0 };

	if (pr_uc_recv(&w->pair, LATE_ALL + 1))
		return PR_CANNOT_TELL;
	while (l.rounds < LATE_ROUNDS && !l.changed && !l.stopped)
		if (late_round(p, w, &l))
			return PR_CANNOT_TELL;
	pr_note(r, "rounds", l.rounds);
	pr_note(r, "packets", l.rounds * LATE_ALL);
	pr_note(r, "dropped", l.rounds * LATE_ALL - l.taken);
	pr_note(r, "rounds_that_changed", l.changed);
	if (l.changed)
		return pr_fails(r, "memory has changed after its window was unbound");
	return !l.stopped && pr_uc_is_well(&w->pair)
		       ? PR_HOLDS
		       : pr_fails(r, "packets by the key of a window that was unbound end the "
				     "queue pair, or take receives");
}

enum pr_verdict check_unbind_late(struct probe *p, struct pr_result *r)
{
	enum pr_verdict verdict;
	struct window w;

	if (window_open(&w, p))
		return PR_CANNOT_TELL;
	verdict = late_tried(p, &w, r);
	window_close(&w);
	return verdict;
}

/* ---- bind-cost ------------------------------------------------------------------------------- */

#define COST_BINDS   65u
#define COST_MOST_US 10e3

static int by_size(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static int cost_of(struct window *w, uint32_t len, double *us)
{
	uint64_t began = pr_now_ns();

	if (window_bind(w, len))
		return -1;
	*us = (double)(pr_now_ns() - began) / 1e3;
	return 0;
}

static enum pr_verdict cost_tried(struct window *w, struct pr_result *r)
{
	double bind[COST_BINDS], unbind[COST_BINDS], worse;

	for (unsigned i = 0; i < COST_BINDS; i++)
		if (cost_of(w, WINDOW, &bind[i]) || cost_of(w, 0, &unbind[i]))
			return PR_CANNOT_TELL;
	qsort(bind, COST_BINDS, sizeof(bind[0]), by_size);
	qsort(unbind, COST_BINDS, sizeof(unbind[0]), by_size);
	pr_note_real(r, "bind_us", bind[COST_BINDS / 2]);
	pr_note_real(r, "unbind_us", unbind[COST_BINDS / 2]);
	pr_note_real(r, "longest_us",
		     bind[COST_BINDS - 1] > unbind[COST_BINDS - 1] ? bind[COST_BINDS - 1]
								   : unbind[COST_BINDS - 1]);
	worse = bind[COST_BINDS / 2] > unbind[COST_BINDS / 2] ? bind[COST_BINDS / 2]
							      : unbind[COST_BINDS / 2];
	return worse <= COST_MOST_US
		       ? PR_HOLDS
		       : pr_fails(r,
				  "to bind or unbind a window takes %.1f ms, as the median of %u",
				  worse / 1e3, COST_BINDS);
}

enum pr_verdict check_bind_cost(struct probe *p, struct pr_result *r)
{
	enum pr_verdict verdict;
	struct window w;

	if (window_open(&w, p))
		return PR_CANNOT_TELL;
	verdict = cost_tried(&w, r);
	window_close(&w);
	return verdict;
}
