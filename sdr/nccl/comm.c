/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "comm.h"
#include "log.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOK_NS	 1000000ull    /* time between two looks at the link */
#define TEND_NS	 300000ull     /* a connection that nobody moved for so long is tended */
#define GRACE_NS 2000000000ull /* time for what has come before the other end was gone */
#define STEP_NS	 20000000ull   /* the most that a round counts: a late program had no more of it */
#define BUSY_NS	 1000000000ull /* time for which a connection that moved last is tended often */

/* A receive's word: its tag, the number of its buffers, and which of them it is. */
enum { WORD_N = 32, WORD_INDEX = 40, WORD_EMPTY = 48 };

/* Connections of this process that send now: they share the rate. */
static _Atomic uint32_t n_busy;

uint64_t plug_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static uint64_t word_make(int tag, uint32_t n, uint32_t index, bool empty)
{
	return (uint32_t)tag | (uint64_t)n << WORD_N | (uint64_t)index << WORD_INDEX |
	       (uint64_t)empty << WORD_EMPTY;
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* The first error of a connection stays its error. */
static enum nccl_result fail(struct plug_comm *c, enum nccl_result error, const char *what,
			     int status)
{
	const char *why = c->stopped ? "" : c->ops->why(c->path);

	if (c->error)
		return c->error;
	c->error = error;
	plug_link_close(&c->link); /* the other end hears of it */
	PLUG_WARN("%s %s: %s%s%s%s%s", c->sends ? "to" : "from", c->peer, what, status ? ": " : "",
		  status ? strerror(-status) : "", *why ? ": " : "", why);
	return error;
}

static enum nccl_result result_of(int status)
{
	return status == -ETIMEDOUT || status == -ECANCELED || status == -ECONNRESET
		       ? NCCL_REMOTE_ERROR
		       : NCCL_SYSTEM_ERROR;
}

/* ---- messages -------------------------------------------------------------------------------- */

static void count_busy(struct plug_comm *c)
{
	bool busy = c->sends && c->n_open;

	if (busy == c->counted)
		return;
	c->counted = busy;
	atomic_fetch_add(&n_busy, busy ? 1u : -1u);
}

static void share_rate(struct plug_comm *c)
{
	uint32_t n = atomic_load(&n_busy);
	uint64_t share = c->rate_bps == SDR_RATE_AUTO ? SDR_RATE_AUTO : c->rate_bps / (n ? n : 1);

	if (!c->sends || share == c->rate_now)
		return;
	c->rate_now = share;
	c->ops->rate_set(c->path, share);
}

static void entry_over(struct plug_comm *c, struct plug_entry *e, uint64_t done)
{
	e->entry_state = PLUG_ENTRY_OVER;
	e->done = done;
	c->counts.messages++;
	c->counts.bytes += done;
}

/* Gives a message to the path. */
static int entry_open(struct plug_comm *c, struct plug_entry *e)
{
	int err = c->sends ? c->ops->send(c->path, e->mr, e->addr, e->size, &e->op)
			   : c->ops->recv(c->path, e->mr, e->addr, e->size ? e->size : 1, e->word,
					  &e->op);

	if (err)
		return err;
	e->entry_state = PLUG_ENTRY_OPEN;
	e->number = c->next_number++;
	c->open[c->n_open++] = e;
	count_busy(c);
	return 0;
}

static void queue(struct plug_comm *c, struct plug_entry *e)
{
	c->waiting[(c->first_waiting + c->n_waiting++) % PLUG_ENTRIES_MAX] = e;
}

/* Gives the messages that wait to the path, as far as it has room. */
static void queue_go_on(struct plug_comm *c)
{
	int err = 0;

	while (c->n_waiting && !err) {
		err = entry_open(c, c->waiting[c->first_waiting]);
		if (err)
			break;
		c->first_waiting = (c->first_waiting + 1) % PLUG_ENTRIES_MAX;
		c->n_waiting--;
	}
	if (err && err != -EAGAIN)
		fail(c, result_of(err), "a message cannot go", err);
}

/* False: the entry is still open. */
static bool entry_look(struct plug_comm *c, struct plug_entry *e)
{
	uint64_t done = 0;
	int status = 0;

	if (!c->ops->test(c->path, e->op, &status, &done)) {
		/* The receiver's word, by another way, that it has this message. */
		if (!c->sends || e->number >= c->peer_done)
			return false;
		done = e->size;
	}
	if (status) {
		fail(c, result_of(status), "a message has failed", status);
		return true;
	}
	entry_over(c, e, done);
	return true;
}

static void look_at_entries(struct plug_comm *c)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < c->n_open; i++)
		if (!entry_look(c, c->open[i]))
			c->open[left++] = c->open[i];
	if (left != c->n_open)
		c->moved_at = c->polled_at;
	c->n_open = left;
	c->done_below = c->next_number;
	for (uint32_t i = 0; i < left; i++)
		if (c->open[i]->number < c->done_below)
			c->done_below = c->open[i]->number;
	count_busy(c);
}

/* ---- the other end --------------------------------------------------------------------------- */

static void hear(struct plug_comm *c)
{
	static _Thread_local struct plug_frame frame;
	int err = plug_link_get(&c->link, &frame);

	if (err == -EAGAIN)
		return;
	if (err) {
		c->gone = true;
		plug_link_close(&c->link);
		return;
	}
	if (frame.type != PLUG_BYE || frame.length != 8)
		return;
	plug_words_get(frame.bytes, &c->peer_done, 1);
	c->ops->peer_over(c->path);
}

/*
 * True if a receive is open that the sender knows to be whole. Its memory is waited for, which a
 * NIC that failed may still reach: that takes a packet's lifetime and more, and no other end.
 */
static bool ends_alone(const struct plug_comm *c)
{
	for (uint32_t i = 0; i < c->n_open; i++)
		if (c->open[i]->number < c->peer_done)
			return true;
	return false;
}

/* True if the other end is gone, and whatever it had to do with has had its time. */
static bool waits_in_vain(const struct plug_comm *c)
{
	return c->gone_ns >= GRACE_NS && !ends_alone(c);
}

/* What has come before the end may still be worked on, for a while. */
static void look_at_peer(struct plug_comm *c)
{
	if (!c->gone && c->polled_at >= c->looked_at + LOOK_NS) {
		c->looked_at = c->polled_at;
		hear(c);
	}
	if (waits_in_vain(c) && (c->n_open || c->n_waiting || c->group.filled))
		fail(c, NCCL_REMOTE_ERROR, "the other end is gone", 0);
}

/* Takes the time; a program that was late has not let the path work all the while. */
static void take_time(struct plug_comm *c)
{
	uint64_t now = plug_now(), step = now - c->polled_at;

	if (c->gone)
		c->gone_ns += step < STEP_NS ? step : STEP_NS;
	c->polled_at = now;
}

static void move(struct plug_comm *c)
{
	take_time(c);
	if (c->error)
		return;
	share_rate(c);
	c->ops->poll(c->path);
	look_at_entries(c);
	if (!c->error)
		queue_go_on(c);
	if (!c->error)
		look_at_peer(c);
}

bool plug_comm_tend(struct plug_comm *c, uint64_t now)
{
	bool busy;

	if (pthread_mutex_trylock(&c->lock))
		return true;
	if (!c->error && now > c->polled_at + TEND_NS)
		move(c);
	busy = !c->error && (c->n_open || c->polled_at < c->moved_at + BUSY_NS);
	pthread_mutex_unlock(&c->lock);
	return busy;
}

/* ---- requests -------------------------------------------------------------------------------- */

static struct plug_request *request_take(struct plug_comm *c, int n)
{
	for (int i = 0; i < PLUG_REQUESTS; i++) {
		struct plug_request *r = &c->requests[i];

		if (r->used)
			continue;
		memset(r, 0, sizeof(*r));
		r->comm = c;
		r->used = true;
		r->n = n;
		return r;
	}
	return NULL;
}

/* An address may lie behind a region of no bytes only if nothing is sent from it. */
static bool covers(const struct plug_region *region, const uint8_t *addr, uint64_t size)
{
	return !size || (region && region->mr && addr >= region->addr && size <= region->size &&
			 (uint64_t)(addr - region->addr) <= region->size - size);
}

/*
 * Learns the next receive of the other end: 0; -EAGAIN: not all of its buffers are known yet. A
 * message of no bytes needs no place, and its receive's one byte is none.
 */
static int group_learn(struct plug_comm *c)
{
	struct plug_group *g = &c->group, got = { .n = 1 };
	uint64_t word;
	int err;

	for (uint32_t i = 0; i < got.n; i++) {
		err = c->ops->posted(c->path, c->n_waiting + i, &got.sizes[i], &word);
		if (err)
			return err;
		got.n = (word >> WORD_N) & 0xff;
		if (!got.n || got.n > PLUG_RECVS_MAX || ((word >> WORD_INDEX) & 0xff) != i)
			return -EPROTO;
		got.tags[i] = (int)(uint32_t)word;
		if (word >> WORD_EMPTY & 1)
			got.sizes[i] = 0;
	}
	*g = got;
	return 0;
}

/* The buffer of this tag that no send has taken yet; n: there is none. */
static uint32_t group_find(const struct plug_group *g, int tag)
{
	uint32_t i = 0;

	while (i < g->n && (g->entries[i] || g->tags[i] != tag))
		i++;
	return i;
}

/* All buffers of the receive have their sends: they go in the order of its buffers. */
static void group_over(struct plug_comm *c)
{
	for (uint32_t i = 0; i < c->group.n; i++)
		queue(c, c->group.entries[i]);
	memset(&c->group, 0, sizeof(c->group));
	queue_go_on(c);
}

static enum nccl_result take_send(struct plug_comm *c, uint8_t *data, size_t size, int tag,
				  struct plug_region *region, struct plug_request **request)
{
	struct plug_group *g = &c->group;
	struct plug_request *r;
	int err = g->n ? 0 : group_learn(c);
	uint32_t i;

	if (err == -EAGAIN)
		return NCCL_SUCCESS;
	if (err)
		return fail(c, result_of(err), "the receiver's word", err);
	i = group_find(g, tag);
	if (i == g->n)
		return NCCL_SUCCESS; /* it is for a later receive */
	if (size > g->sizes[i])
		return fail(c, NCCL_INVALID_USAGE, "a send is longer than its receive", 0);
	r = request_take(c, 1);
	if (!r)
		return NCCL_SUCCESS;
	r->entries[0].mr = size ? region->mr : c->empty.mr;
	r->entries[0].addr = size ? data : c->scratch;
	r->entries[0].size = size;
	g->entries[i] = &r->entries[0];
	if (++g->filled == g->n)
		group_over(c);
	*request = r;
	return NCCL_SUCCESS;
}

/* True if nothing can be begun: the other end is gone. */
static bool is_past(struct plug_comm *c)
{
	if (waits_in_vain(c))
		fail(c, NCCL_REMOTE_ERROR, "the other end is gone", 0);
	return c->gone_ns >= GRACE_NS || c->error;
}

enum nccl_result plug_comm_send(struct plug_comm *c, void *data, size_t size, int tag,
				struct plug_region *region, struct plug_request **request)
{
	enum nccl_result result;

	*request = NULL;
	if (size > c->max_message || !covers(region, data, size)) {
		PLUG_WARN("a send of %zu bytes is not in its region, or longer than %llu bytes",
			  size, (unsigned long long)c->max_message);
		return NCCL_INVALID_ARGUMENT;
	}
	pthread_mutex_lock(&c->lock);
	if (!c->group.n)
		move(c); /* until the receiver's word has come nobody tests a request */
	result = is_past(c) ? c->error : take_send(c, data, size, tag, region, request);
	pthread_mutex_unlock(&c->lock);
	return result;
}

static enum nccl_result take_recv(struct plug_comm *c, int n, void **data, const size_t *sizes,
				  const int *tags, struct plug_region **regions,
				  struct plug_request **request)
{
	struct plug_request *r = request_take(c, n);

	if (!r)
		return NCCL_SUCCESS;
	for (int i = 0; i < n; i++) {
		struct plug_entry *e = &r->entries[i];

		e->mr = sizes[i] ? regions[i]->mr : c->empty.mr;
		e->addr = sizes[i] ? data[i] : c->scratch;
		e->size = sizes[i];
		e->word = word_make(tags[i], (uint32_t)n, (uint32_t)i, !sizes[i]);
		queue(c, e);
	}
	queue_go_on(c);
	*request = r;
	return NCCL_SUCCESS;
}

enum nccl_result plug_comm_recv(struct plug_comm *c, int n, void **data, const size_t *sizes,
				const int *tags, struct plug_region **regions,
				struct plug_request **request)
{
	enum nccl_result result;

	*request = NULL;
	if (n < 1 || n > PLUG_RECVS_MAX)
		return NCCL_INVALID_ARGUMENT;
	for (int i = 0; i < n; i++)
		if (sizes[i] > c->max_message || !covers(regions[i], data[i], sizes[i])) {
			PLUG_WARN("a receive of %zu bytes is not in its region, or longer than "
				  "%llu bytes (NCCL_SDR_MAX_MESSAGE)",
				  sizes[i], (unsigned long long)c->max_message);
			return NCCL_INVALID_ARGUMENT;
		}
	pthread_mutex_lock(&c->lock);
	if (c->n_waiting)
		move(c);
	result = is_past(c) ? c->error : take_recv(c, n, data, sizes, tags, regions, request);
	pthread_mutex_unlock(&c->lock);
	return result;
}

static bool is_over(const struct plug_request *r)
{
	for (int i = 0; i < r->n; i++)
		if (r->entries[i].entry_state != PLUG_ENTRY_OVER)
			return false;
	return true;
}

enum nccl_result plug_comm_test(struct plug_request *r, int *done, int *sizes)
{
	struct plug_comm *c = r->comm;
	enum nccl_result result = NCCL_SUCCESS;

	*done = 0;
	pthread_mutex_lock(&c->lock);
	if (!is_over(r))
		move(c);
	if (is_over(r)) {
		for (int i = 0; sizes && i < r->n; i++)
			sizes[i] = (int)r->entries[i].done;
		*done = 1;
		r->used = false;
	} else {
		result = c->error;
	}
	pthread_mutex_unlock(&c->lock);
	return result;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* The receiver says how much it has: an answer to the last messages may have been lost. */
static void say_bye(struct plug_comm *c)
{
	uint8_t bytes[8];

	if (c->link.fd < 0)
		return;
	plug_words_put(bytes, &c->done_below, 1);
	if (!c->error)
		plug_link_put(&c->link, PLUG_BYE, bytes, sizeof(bytes));
	plug_link_close(&c->link);
}

void plug_comm_stop(struct plug_comm *c)
{
	if (c->stopped)
		return;
	if (!c->error)
		look_at_entries(c);
	say_bye(c);
	c->ops->counts(c->path, &c->counts);
	c->stopped = true;
	c->n_open = c->n_waiting = 0;
	count_busy(c);
	c->ops->stop(c->path);
	if (!c->error)
		c->error = NCCL_INVALID_USAGE;
}

bool plug_comm_uses(const struct plug_comm *c, const struct plug_mr *mr)
{
	for (uint32_t i = 0; i < c->n_open; i++)
		if (c->open[i]->mr == mr)
			return true;
	for (uint32_t i = 0; i < c->n_waiting; i++)
		if (c->waiting[(c->first_waiting + i) % PLUG_ENTRIES_MAX]->mr == mr)
			return true;
	for (uint32_t i = 0; i < c->group.n; i++)
		if (c->group.entries[i] && c->group.entries[i]->mr == mr)
			return true;
	return false;
}

static void name_peer(struct plug_comm *c, const struct plug_path_ops *ops, uint32_t channels)
{
	static _Atomic uint32_t n;

	snprintf(c->peer, sizeof(c->peer), "%u (%s, %u channels)", atomic_fetch_add(&n, 1),
		 ops->name, channels);
}

struct plug_comm *plug_comm_new(bool sends, const struct plug_path_ops *ops, struct plug_path *path,
				struct plug_link *link, const struct plug_settings *s,
				const struct plug_terms *terms)
{
	struct plug_comm *c = calloc(1, sizeof(*c));

	if (!c)
		goto close_path;
	pthread_mutex_init(&c->lock, NULL);
	c->sends = sends;
	c->ops = ops;
	c->path = path;
	c->link = *link;
	c->max_message = terms->max_message;
	c->rate_bps = s->rate_bps;
	c->polled_at = plug_now();
	name_peer(c, ops, terms->channels);
	if (ops->reg(path, c->scratch, sizeof(c->scratch), &c->empty.mr))
		goto free_comm;
	if (plug_progress_add(c))
		goto free_region;
	PLUG_INFO("connected %s peer %s", sends ? "to" : "from", c->peer);
	return c;
free_region:
	ops->dereg(path, c->empty.mr);
free_comm:
	pthread_mutex_destroy(&c->lock);
	free(c);
close_path:
	ops->close(path);
	plug_link_close(link);
	return NULL;
}

static void tell_counts(const struct plug_comm *c)
{
	const struct plug_counts *n = &c->counts;

	PLUG_INFO("closed %s peer %s: %llu messages, %llu bytes, %llu packets, %llu chunks sent "
		  "again, %llu restored, %llu NICs lost, round trip %llu us, loss %.2g",
		  c->sends ? "to" : "from", c->peer, (unsigned long long)n->messages,
		  (unsigned long long)n->bytes, (unsigned long long)n->packets,
		  (unsigned long long)n->resent, (unsigned long long)n->restored,
		  (unsigned long long)n->nics_lost, (unsigned long long)n->rtt_ns / 1000, n->loss);
}

void plug_comm_close(struct plug_comm *c)
{
	struct plug_region *r, *next;

	plug_progress_remove(c);
	pthread_mutex_lock(&c->lock);
	plug_comm_stop(c);
	tell_counts(c);
	for (r = c->regions; r; r = next) {
		next = r->next;
		if (r->mr)
			c->ops->dereg(c->path, r->mr);
		free(r);
	}
	c->ops->dereg(c->path, c->empty.mr);
	c->ops->close(c->path);
	pthread_mutex_unlock(&c->lock);
	pthread_mutex_destroy(&c->lock);
	free(c);
}
