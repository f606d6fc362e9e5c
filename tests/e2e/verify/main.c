// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "bytes.h"
#include "complete.h"
#include "device.h"
#include "lane.h"
#include "oob.h"
#include "options.h"
#include "pattern.h"
#include "qp.h"
#include "report.h"
#include "verify.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define WATCH_MS     20
#define QUIET_MS     100
#define ERR_AFTER_NS 1000000000ull

struct verify *verify_instance;

/* What the watch remembers between two looks. */
struct watch {
	uint64_t progress[MAX_LANES];
	uint64_t since_ns[MAX_LANES];
	uint64_t moved_ns;
	uint64_t failed_ns;
	bool pause_reported;
	bool gave_up;
	bool stdin_closed;
	char line[64];
	size_t line_len;
};

static void async_report(struct verify *v, const struct ibv_async_event *ev)
{
	enum ibv_event_type type = ev->event_type;

	printf("EVENT %s\n", ibv_event_type_str(type));
	fflush(stdout);
	atomic_fetch_add(&v->async_events, 1);
	if (!v->opt.allow_events && !v->opt.expect_error && type != IBV_EVENT_COMM_EST)
		verify_fail(NULL, FAIL_UNEXPECTED_EVENT, "asynchronous event: %s",
			    ibv_event_type_str(type));
}

/* The client reads asynchronous events in a thread that blocks, the server by poll and read. */
static void *async_thread(void *arg)
{
	struct verify *v = arg;
	struct ibv_async_event ev;

	while (!ibv_get_async_event(v->ctx, &ev)) {
		async_report(v, &ev);
		ibv_ack_async_event(&ev);
	}
	return NULL;
}

static void async_collect(struct verify *v)
{
	struct ibv_async_event ev;

	while (!ibv_get_async_event(v->ctx, &ev)) {
		async_report(v, &ev);
		ibv_ack_async_event(&ev);
	}
}

static void set_stop(struct verify *v)
{
	atomic_store(&v->stopping, true);
	atomic_store(&v->paused, false);
}

static void lane_describe(const struct lane *l, char *to, size_t len)
{
	size_t at = 0;

	for (int i = 0; i < l->nqps && at < len; i++) {
		const struct vqp *q = l->qps[i];

		at += (size_t)snprintf(to + at, len - at,
				       " [qp %d %s sent %" PRIu64 "/%" PRIu64 " received %" PRIu64
				       " outstanding %" PRIu64 "+%" PRIu64
				       " last %d%d%d failed %d]",
				       q->index, q->ops->name, q->tx_done, q->tx_next, q->rx_next,
				       q->sq.tail - q->sq.head, q->rq.tail - q->rq.head,
				       q->last_sent, q->last_done, q->last_seen, q->failed);
	}
}

static void lanes_describe(const struct verify *v)
{
	char text[1024];

	for (int i = 0; i < MAX_LANES; i++) {
		if (!v->lanes[i].nqps)
			continue;
		text[0] = 0;
		lane_describe(&v->lanes[i], text, sizeof(text));
		printf("LANE %d %s:%s\n", i, atomic_load(&v->lanes[i].where), text);
	}
	fflush(stdout);
}

static void command(struct verify *v, struct watch *w, const char *word)
{
	if (!strcmp(word, "pause")) {
		w->pause_reported = false;
		w->moved_ns = now_ns();
		atomic_store(&v->paused, true);
	} else if (!strcmp(word, "resume")) {
		atomic_store(&v->paused, false);
	} else if (!strcmp(word, "stop")) {
		set_stop(v);
	} else if (!strcmp(word, "describe")) {
		lanes_describe(v);
	} else if (!strcmp(word, "progress")) {
		verify_progress(v);
	} else if (!strcmp(word, "memory")) {
		verify_memory();
	}
}

static void read_commands(struct verify *v, struct watch *w)
{
	char buf[64];
	ssize_t n = read(STDIN_FILENO, buf, sizeof(buf));

	if (n <= 0) {
		w->stdin_closed = true;
		set_stop(v);
		return;
	}
	for (ssize_t i = 0; i < n; i++) {
		if (buf[i] != '\n' && w->line_len + 1 < sizeof(w->line)) {
			w->line[w->line_len++] = buf[i];
			continue;
		}
		w->line[w->line_len] = 0;
		w->line_len = 0;
		command(v, w, w->line);
	}
}

/* Nothing of its own under way, and the peer has no reason yet to end. */
static bool lane_only_serves(struct verify *v, const struct lane *l)
{
	for (int i = 0; i < l->nqps; i++)
		if (l->qps[i]->initiator || l->qps[i]->sq.signaled || l->qps[i]->failed)
			return false;
	return !atomic_load(&v->stopping);
}

static void watch_lanes(struct verify *v, struct watch *w, uint64_t now)
{
	for (int i = 0; i < MAX_LANES; i++) {
		struct lane *l = &v->lanes[i];
		uint64_t p = atomic_load(&l->progress);
		char text[400] = "";

		if (!l->nqps || atomic_load(&l->done))
			continue;
		if (p != w->progress[i] || atomic_load(&v->paused) || lane_only_serves(v, l)) {
			w->moved_ns = p != w->progress[i] ? now : w->moved_ns;
			w->progress[i] = p;
			w->since_ns[i] = now;
			continue;
		}
		lane_describe(l, text, sizeof(text));
		if ((double)(now - w->since_ns[i]) > v->opt.stuck_s * 1e9)
			verify_fail(NULL, FAIL_STUCK, "lane %d, %s:%s", i, atomic_load(&l->where),
				    text);
	}
}

static void watch_pause(struct verify *v, struct watch *w, uint64_t now)
{
	if (!v->opt.control && v->idle_to_ns && !atomic_load(&v->stopping))
		atomic_store(&v->paused, now >= v->idle_from_ns && now < v->idle_to_ns);
	if (!atomic_load(&v->paused)) {
		w->pause_reported = false;
	} else if (!w->pause_reported && now - w->moved_ns > QUIET_MS * 1000000ull) {
		w->pause_reported = true;
		printf("PAUSED\n");
		fflush(stdout);
	}
}

/* Where errors are expected, an application ends all its QPs once one of them has failed. */
static void watch_failed(struct verify *v, struct watch *w, uint64_t now, bool peer_finished)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };

	for (int i = 0; i < v->opt.qps; i++)
		if (v->qps[i].failed && !w->failed_ns)
			w->failed_ns = now;
	if (!v->opt.expect_error || w->gave_up)
		return;
	if (!peer_finished && (!w->failed_ns || now - w->failed_ns < ERR_AFTER_NS))
		return;
	w->gave_up = true;
	for (int i = 0; i < v->opt.qps; i++)
		if (!vqp_done(&v->qps[i]))
			ibv_modify_qp(v->qps[i].qp, &a, IBV_QP_STATE);
}

/* Bytes from the peer before we are done are its final counts; end of file means that it died. */
static bool peer_has_finished(struct verify *v)
{
	char c;
	ssize_t n = recv(v->sock, &c, 1, MSG_PEEK | MSG_DONTWAIT);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		verify_fail(NULL, FAIL_PEER_GONE, "the peer ended early");
	return n > 0;
}

static bool all_done(struct verify *v)
{
	for (int i = 0; i < MAX_LANES; i++)
		if (v->lanes[i].nqps && !atomic_load(&v->lanes[i].done))
			return false;
	return true;
}

static void watch_until_done(struct verify *v)
{
	struct watch w = { .moved_ns = now_ns() };

	for (int i = 0; i < MAX_LANES; i++)
		w.since_ns[i] = w.moved_ns;
	while (!all_done(v)) {
		struct pollfd pfd[2] = {
			{ .fd = v->opt.server ? v->ctx->async_fd : -1, .events = POLLIN },
			{ .fd = v->opt.control && !w.stdin_closed ? STDIN_FILENO : -1,
			  .events = POLLIN }
		};
		uint64_t now;

		poll(pfd, 2, WATCH_MS);
		now = now_ns();
		if (pfd[0].revents & POLLIN)
			async_collect(v);
		if (pfd[1].revents)
			read_commands(v, &w);
		if (!v->opt.control && !v->opt.rounds && now >= v->stop_ns)
			set_stop(v);
		watch_pause(v, &w, now);
		watch_lanes(v, &w, now);
		watch_failed(v, &w, now, peer_has_finished(v));
	}
}

static void compare(struct vqp *q, const struct final_info *peer)
{
	if (q->failed != !!peer->failed && !verify_instance->opt.expect_error)
		verify_fail(q, FAIL_ONE_SIDED_ERROR, "this end %s, the other %s",
			    q->failed ? "failed" : "did not", peer->failed ? "failed" : "did not");
	if (!q->failed && !peer->failed && q->rx_next != peer->sent && peer->last_sent &&
	    q->pattern != PATTERN_READ && q->pattern != PATTERN_ATOMIC)
		verify_fail(q, FAIL_LOST, "received %" PRIu64 ", the peer sent %" PRIu64,
			    q->rx_next, peer->sent);
	if (peer->received > q->tx_next)
		verify_fail(q, FAIL_INVENTED, "the peer received %" PRIu64 ", sent were %" PRIu64,
			    peer->received, q->tx_next);
	q->ops->finish(q, peer);
}

static void final_compare(struct verify *v)
{
	struct final_info mine[MAX_QPS] = { 0 }, theirs[MAX_QPS];

	for (int i = 0; i < v->opt.qps; i++) {
		const struct vqp *q = &v->qps[i];

		mine[i] = (struct final_info){ .sent = q->tx_next,
					       .received = q->rx_next,
					       .failed = q->failed,
					       .last_sent = q->last_sent };
		memcpy(mine[i].counters, q->mem + area_ctrl(q) + CTRL_COUNTERS,
		       sizeof(mine[i].counters));
	}
	if (oob_exchange(v->sock, mine, theirs, sizeof(mine)))
		verify_fail(NULL, FAIL_PEER_GONE, "no final counts from the peer");
	for (int i = 0; i < MAX_LANES; i++)
		while (v->lanes[i].nqps && lane_poll(&v->lanes[i]))
			;
	for (int i = 0; i < v->opt.qps; i++)
		compare(&v->qps[i], &theirs[i]);
}

static void barrier(struct verify *v)
{
	char mine = 'b', theirs = 0;

	if (oob_exchange(v->sock, &mine, &theirs, 1) || theirs != 'b')
		verify_fail(NULL, FAIL_PEER_GONE, "the peer did not come to the barrier");
}

static void run_lanes(struct verify *v)
{
	v->start_ns = now_ns();
	v->stop_ns = v->start_ns + (uint64_t)(v->opt.duration_s * 1e9);
	if (v->opt.idle_for_s > 0) {
		v->idle_from_ns = v->start_ns + (uint64_t)(v->opt.idle_after_s * 1e9);
		v->idle_to_ns = v->idle_from_ns + (uint64_t)(v->opt.idle_for_s * 1e9);
	}
	printf("STARTED\n");
	fflush(stdout);
	for (int i = 0; i < MAX_LANES; i++) {
		struct lane *l = &v->lanes[i];

		if (l->nqps && pthread_create(&l->thread, NULL, lane_run, l))
			verify_fail(NULL, FAIL_SETUP, "pthread_create");
	}
	watch_until_done(v);
	for (int i = 0; i < MAX_LANES; i++)
		if (v->lanes[i].nqps)
			pthread_join(v->lanes[i].thread, NULL);
}

static void expect_failed(struct verify *v)
{
	bool any = false;

	for (int i = 0; i < v->opt.qps; i++)
		any |= v->qps[i].failed;
	if (v->opt.expect_error && !any)
		verify_fail(NULL, FAIL_MISSING_ERROR, "no QP failed");
}

static void async_start(struct verify *v, pthread_t *thread)
{
	if (v->opt.server)
		fcntl(v->ctx->async_fd, F_SETFL, fcntl(v->ctx->async_fd, F_GETFL) | O_NONBLOCK);
	else if (pthread_create(thread, NULL, async_thread, v))
		verify_fail(NULL, FAIL_SETUP, "pthread_create");
}

static void async_stop(struct verify *v, pthread_t thread)
{
	if (v->opt.server) {
		async_collect(v);
		return;
	}
	pthread_cancel(thread);
	pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
	static struct verify v;
	pthread_t async;
	int rc;

	verify_instance = &v;
	if (options_parse(&v.opt, argc, argv))
		return 2;
	device_open(&v);
	rc = oob_open(&v);
	if (rc)
		verify_fail(NULL, FAIL_SETUP, "port %d: %s", v.opt.port, strerror(-rc));
	device_connect(&v);
	async_start(&v, &async);
	barrier(&v);
	run_lanes(&v);
	final_compare(&v);
	expect_failed(&v);
	device_check_states(&v);
	barrier(&v);
	async_stop(&v, async);
	alarm((unsigned int)v.opt.stuck_s + 10);
	device_close(&v);
	verify_summary(&v, FAIL_NONE, "");
	return 0;
}
