// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * threads: in each of two processes THREADS threads post to a queue pair of their own and to shared
 * ones, by ibv_post_send and by ibv_wr_*, and each polls all completion queues, which all queue
 * pairs share: one has their sends and receives, one the sends of some and the receives of others,
 * one is a cq_ex. What a thread sends on a queue pair is a stream of numbered messages. Each must
 * arrive once, whole, in a receive that was posted, and in the order of its stream as far as a
 * thread that polls can tell: by itself on a plain queue, exactly on the cq_ex, which is locked
 * while it is read. The same holds for completions of sends. Words of the runner: "count" says how
 * many messages have come, "end" ends it.
 */
#include "tests/lib/pair.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	THREADS = 8,
	SHARED = 4, /* queue pairs that every thread posts to */
	QPS = THREADS + SHARED,
	ON_SRQ = 2, /* of those that are shared: the last ones have a shared receive queue */
	WINDOW = 8, /* messages of a stream under way */
	SEND_WRS = THREADS * WINDOW,
	RECVS = 48, /* of a queue pair: fewer than can be under way, so that some must wait */
	SLOTS = QPS * RECVS,
	LEN = 512,
	BATCH = 4, /* requests of one call */
	BURST = 8, /* completions of one call */
	INLINE = 64,
	POISON = 0xa5,
	LIMIT = 1 << 21, /* messages of a stream, all of which are remembered */
	ASLEEP_US = 100,
};

#define RECEIVE (1ULL << 63) /* in a wr_id; the rest is the slot */
#define NUMBERS ((1ULL << 40) - 1)
#define NEVER	UINT64_MAX /* the wr_id of what does not complete */

struct options opt = { .port = 18515, .timeout = 18, .dev = "mlx5_0" };

enum phase { TALK, FINISH, STOP };

struct head {
	uint32_t lane, thread;
	uint64_t number;
};

/* What one thread sends on one queue pair, and what came of the peer's stream of that place. */
struct stream {
	uint64_t sent; /* by its thread alone */
	_Atomic uint64_t done, got;
	atomic_bool under_way[WINDOW];
	_Atomic uint64_t *came; /* a bit for each message */
};

struct lane {
	struct ibv_qp *qp;
	struct address own, other;
	bool exact; /* its receives complete on the cq_ex */
	struct stream streams[THREADS];
};

/* What a thread has seen last: never less may come to it. */
struct view {
	uint64_t got[QPS][THREADS], done[QPS][THREADS];
};

struct worker {
	pthread_t id;
	uint32_t number;
	uint64_t rng;
	bool quiet;
	struct view view;
};

struct message {
	uint64_t number;
	uint32_t length;
	uint8_t *bytes;
	bool imm, in_line;
};

static struct nic nic;
static struct ibv_cq *both, *half;
static struct ibv_cq_ex *exact;
static struct view in_order; /* of the cq_ex, by whoever holds it */
static struct ibv_srq *srq;
static struct ibv_mr *mr;
static uint8_t *mem; /* SLOTS to receive into, then a window to send from for each stream */
static atomic_bool posted[SLOTS];
static struct lane lanes[QPS];
static struct worker workers[THREADS];
static _Atomic enum phase phase;
static _Atomic int posters = THREADS;

static uint32_t random_below(struct worker *w, uint32_t n)
{
	w->rng = w->rng * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(w->rng >> 33) % n;
}

/* ---- what messages are ---------------------------------------------------------------------- */

static uint8_t *slot_of(uint32_t slot)
{
	return mem + (size_t)slot * LEN;
}

static uint8_t *bytes_of(const struct lane *lane, uint32_t thread, uint64_t number)
{
	size_t stream = (size_t)(lane - lanes) * THREADS + thread;

	return mem + (SLOTS + stream * WINDOW + number % WINDOW) * LEN;
}

static uint32_t length_of(const struct head *head)
{
	uint64_t x = head->number * 40503 + head->lane * 7 + head->thread;

	return (uint32_t)sizeof(*head) + (uint32_t)(x % (LEN - sizeof(*head) + 1));
}

static uint8_t filling(const struct head *head)
{
	return (uint8_t)(head->number * 31 + head->lane * 5 + head->thread + 7);
}

static bool all_are(const uint8_t *bytes, size_t n, uint8_t value)
{
	while (n && bytes[n - 1] == value)
		n--;
	return !n;
}

static uint64_t wr_id_of(const struct lane *lane, uint32_t thread, uint64_t first, uint32_t n)
{
	return ((uint64_t)(lane - lanes) * THREADS + thread) << 48 | (uint64_t)n << 40 | first;
}

static struct lane *lane_of(uint32_t qpn)
{
	int i;

	for (i = 0; i < QPS; i++)
		if (lanes[i].qp->qp_num == qpn)
			return &lanes[i];
	must(false, "a completion of a queue pair that there is");
	return NULL;
}

/* ---- receives ------------------------------------------------------------------------------- */

static bool has_srq(uint32_t lane)
{
	return lane >= QPS - ON_SRQ;
}

static void give(uint32_t slot)
{
	struct ibv_sge sge = { (uintptr_t)slot_of(slot), LEN, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = RECEIVE | slot, .sg_list = &sge, .num_sge = 1 }, *bad;
	uint32_t lane = slot / RECVS;

	memset(slot_of(slot), POISON, LEN);
	must(!atomic_exchange(&posted[slot], true), "a receive that is the program's to post");
	if (has_srq(lane))
		must_zero(ibv_post_srq_recv(srq, &wr, &bad), "ibv_post_srq_recv");
	else
		must_zero(ibv_post_recv(lanes[lane].qp, &wr, &bad), "ibv_post_recv");
}

static void head_read(uint64_t wr_id, struct head *head)
{
	uint32_t slot = (uint32_t)wr_id;

	must(slot < SLOTS && atomic_load(&posted[slot]), "a receive that was posted");
	memcpy(head, slot_of(slot), sizeof(*head));
	must(head->lane < QPS && head->thread < THREADS && head->number < LIMIT,
	     "a message's head");
}

static void expect_later(uint64_t *next, uint64_t number, uint64_t n, const char *what)
{
	if (number < *next)
		say("FAILED %llu after %llu", (unsigned long long)number,
		    (unsigned long long)*next - 1);
	must(number >= *next, what);
	*next = number + n;
}

static void remember(struct stream *stream, uint64_t number)
{
	uint64_t bit = 1ULL << number % 64;

	must(!(atomic_fetch_or(&stream->came[number / 64], bit) & bit), "each message once");
	atomic_fetch_add(&stream->got, 1);
}

static void arrived(struct worker *w, const struct ibv_wc *wc)
{
	struct lane *lane = lane_of(wc->qp_num);
	uint32_t slot = (uint32_t)wc->wr_id;
	uint8_t *bytes = slot_of(slot);
	struct head head;

	head_read(wc->wr_id, &head);
	must(&lanes[head.lane] == lane, "a message on its own queue pair");
	must(wc->byte_len == length_of(&head), "its length");
	must(all_are(bytes + sizeof(head), wc->byte_len - sizeof(head), filling(&head)),
	     "its bytes");
	/* In a shared queue's, a message that was cut may have begun that took another one then. */
	must(has_srq(head.lane) || all_are(bytes + wc->byte_len, LEN - wc->byte_len, POISON),
	     "nothing behind them");
	must(!(wc->wc_flags & IBV_WC_WITH_IMM) || ntohl(wc->imm_data) == (uint32_t)head.number,
	     "its immediate data");
	expect_later(&w->view.got[head.lane][head.thread], head.number, 1, "messages in order");
	remember(&lane->streams[head.thread], head.number);
	must(atomic_exchange(&posted[slot], false), "a receive that completes once");
	give(slot);
}

/* ---- sends ---------------------------------------------------------------------------------- */

static struct stream *stream_of(uint64_t wr_id, uint32_t *lane, uint32_t *thread)
{
	*lane = (uint32_t)(wr_id >> 48) / THREADS;
	*thread = (uint32_t)(wr_id >> 48) % THREADS;
	must(*lane < QPS, "a send that asked for a completion");
	return &lanes[*lane].streams[*thread];
}

static void completed(struct worker *w, const struct ibv_wc *wc)
{
	uint32_t lane, thread, n = wc->wr_id >> 40 & 0xff;
	struct stream *stream = stream_of(wc->wr_id, &lane, &thread);
	uint64_t first = wc->wr_id & NUMBERS, i;

	must(lanes[lane].qp->qp_num == wc->qp_num, "a completion of its own queue pair");
	expect_later(&w->view.done[lane][thread], first, n, "send completions in order");
	for (i = first; i < first + n; i++)
		must(atomic_exchange(&stream->under_way[i % WINDOW], false),
		     "a send that completes once");
	atomic_fetch_add(&stream->done, n);
}

static void message_write(struct worker *w, struct lane *lane, uint64_t number,
			  struct message *message)
{
	struct head head = { (uint32_t)(lane - lanes), w->number, number };

	*message = (struct message){ .number = number,
				     .length = length_of(&head),
				     .bytes = bytes_of(lane, w->number, number),
				     .imm = random_below(w, 4) == 0 };
	message->in_line = message->length <= INLINE;
	memcpy(message->bytes, &head, sizeof(head));
	memset(message->bytes + sizeof(head), filling(&head), message->length - sizeof(head));
}

static unsigned int flags_of(const struct message *message, bool last)
{
	return (last ? (unsigned int)IBV_SEND_SIGNALED : 0) |
	       (message->in_line ? (unsigned int)IBV_SEND_INLINE : 0);
}

static void post_list(struct lane *lane, const struct message *messages, uint32_t n, uint64_t wr_id)
{
	struct ibv_send_wr wr[BATCH], *bad;
	struct ibv_sge sge[BATCH];
	uint32_t i;

	for (i = 0; i < n; i++) {
		sge[i] = (struct ibv_sge){ (uintptr_t)messages[i].bytes, messages[i].length,
					   mr->lkey };
		wr[i] = (struct ibv_send_wr){
			.wr_id = i + 1 == n ? wr_id : NEVER,
			.next = i + 1 == n ? NULL : &wr[i + 1],
			.sg_list = &sge[i],
			.num_sge = 1,
			.opcode = messages[i].imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
			.send_flags = flags_of(&messages[i], i + 1 == n),
			.imm_data = htonl((uint32_t)messages[i].number),
		};
	}
	must_zero(ibv_post_send(lane->qp, wr, &bad), "ibv_post_send");
}

static void build(struct ibv_qp_ex *qp, const struct message *message)
{
	if (message->imm)
		ibv_wr_send_imm(qp, htonl((uint32_t)message->number));
	else
		ibv_wr_send(qp);
	if (message->in_line)
		ibv_wr_set_inline_data(qp, message->bytes, message->length);
	else
		ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)message->bytes, message->length);
}

/* What is given up halfway was never posted. */
static void post_calls(struct lane *lane, const struct message *messages, uint32_t n,
		       uint64_t wr_id, bool give_up)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(lane->qp);
	uint32_t i;

	ibv_wr_start(qp);
	for (i = 0; i < n; i++) {
		qp->wr_id = i + 1 == n && !give_up ? wr_id : NEVER;
		qp->wr_flags = flags_of(&messages[i], i + 1 == n);
		build(qp, &messages[i]);
	}
	if (give_up)
		ibv_wr_abort(qp);
	else
		must_zero(ibv_wr_complete(qp), "ibv_wr_complete");
}

static void post_some(struct worker *w)
{
	uint32_t which = random_below(w, 2) ? w->number : THREADS + random_below(w, SHARED);
	uint32_t n = 0, want = 1 + random_below(w, BATCH), i;
	struct lane *lane = &lanes[which];
	struct stream *stream = &lane->streams[w->number];
	struct message messages[BATCH];
	uint64_t first = stream->sent, wr_id;

	while (n < want && !atomic_load(&stream->under_way[(first + n) % WINDOW])) {
		message_write(w, lane, first + n, &messages[n]);
		n++;
	}
	if (!n)
		return;
	must(first + n < LIMIT, "fewer messages than are remembered");
	for (i = 0; i < n; i++)
		atomic_store(&stream->under_way[(first + i) % WINDOW], true);
	stream->sent += n;
	wr_id = wr_id_of(lane, w->number, first, n);
	if (!random_below(w, 16))
		post_calls(lane, messages, n, wr_id, true);
	if (random_below(w, 2))
		post_list(lane, messages, n, wr_id);
	else
		post_calls(lane, messages, n, wr_id, false);
	for (i = 0; i < n; i++)
		if (messages[i].in_line) /* it was copied */
			memset(messages[i].bytes, POISON, messages[i].length);
}

/* ---- polling -------------------------------------------------------------------------------- */

static void take(struct worker *w, const struct ibv_wc *wc, int n)
{
	int i;

	for (i = 0; i < n; i++) {
		if (wc[i].status)
			say("FAILED status %d of QP 0x%06x", wc[i].status, wc[i].qp_num);
		must(!wc[i].status, "a good completion");
		if (wc[i].wr_id & RECEIVE && wc[i].wr_id != NEVER)
			arrived(w, &wc[i]);
		else
			completed(w, &wc[i]);
	}
}

static bool poll_plain(struct worker *w, struct ibv_cq *cq)
{
	struct ibv_wc wc[BURST];
	int n = ibv_poll_cq(cq, BURST, wc);

	must(n >= 0, "ibv_poll_cq");
	take(w, wc, n);
	return n;
}

/* Nobody else reads the queue now: what comes is exactly what is next. */
static void exact_check(uint64_t wr_id)
{
	uint32_t lane, thread;
	struct head head;

	if (wr_id & RECEIVE) {
		head_read(wr_id, &head);
		must(head.number == in_order.got[head.lane][head.thread]++, "the next message");
		return;
	}
	stream_of(wr_id, &lane, &thread);
	must((wr_id & NUMBERS) == in_order.done[lane][thread], "the next send completion");
	in_order.done[lane][thread] += wr_id >> 40 & 0xff;
}

static void exact_read(struct ibv_wc *wc)
{
	*wc = (struct ibv_wc){ .wr_id = exact->wr_id, .status = exact->status };
	wc->qp_num = ibv_wc_read_qp_num(exact);
	if (wc->status)
		return;
	exact_check(wc->wr_id);
	if (!(wc->wr_id & RECEIVE))
		return;
	wc->byte_len = ibv_wc_read_byte_len(exact);
	wc->wc_flags = ibv_wc_read_wc_flags(exact);
	if (wc->wc_flags & IBV_WC_WITH_IMM)
		wc->imm_data = ibv_wc_read_imm_data(exact);
}

static bool poll_exact(struct worker *w)
{
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_wc wc[BURST];
	int n = 0, rc = ibv_start_poll(exact, &attr);

	if (rc == ENOENT)
		return false;
	must_zero(rc, "ibv_start_poll");
	do {
		exact_read(&wc[n++]);
	} while (n < BURST && !(rc = ibv_next_poll(exact)));
	ibv_end_poll(exact);
	must(!rc || rc == ENOENT, "ibv_next_poll");
	take(w, wc, n);
	return true;
}

static bool poll_some(struct worker *w)
{
	uint32_t first = random_below(w, 3), i;
	bool any = false;

	for (i = first; i < first + 3; i++)
		any |= i % 3 == 0   ? poll_plain(w, both)
		       : i % 3 == 1 ? poll_plain(w, half)
				    : poll_exact(w);
	return any;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	enum phase now;
	bool any;

	while ((now = atomic_load(&phase)) != STOP) {
		if (now == TALK) {
			post_some(w);
			post_some(w);
		} else if (!w->quiet) {
			w->quiet = true;
			atomic_fetch_sub(&posters, 1);
		}
		any = poll_some(w);
		if (!any)
			usleep(ASLEEP_US);
	}
	return NULL;
}

/* ---- setting up ----------------------------------------------------------------------------- */

static void cqs_make(void)
{
	struct ibv_cq_init_attr_ex init = { .cqe = QPS * (SEND_WRS + RECVS),
					    .wc_flags = IBV_WC_EX_WITH_BYTE_LEN |
							IBV_WC_EX_WITH_IMM |
							IBV_WC_EX_WITH_QP_NUM };

	both = ibv_create_cq(nic.ctx, (int)init.cqe, NULL, NULL, 0);
	half = ibv_create_cq(nic.ctx, (int)init.cqe, NULL, NULL, 0);
	exact = ibv_create_cq_ex(nic.ctx, &init);
	must(both && half && exact, "completion queues");
}

/* By turns: both on one queue; sends on the plain one, receives on the cq_ex; the other way round. */
static void lane_create(uint32_t i)
{
	struct ibv_cq *ex = ibv_cq_ex_to_cq(exact);
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = nic.pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM,
		.send_cq = i % 3 == 0	? both
			   : i % 3 == 1 ? half
					: ex,
		.recv_cq = i % 3 == 0	? both
			   : i % 3 == 1 ? ex
					: half,
		.srq = has_srq(i) ? srq : NULL,
		.cap = { .max_send_wr = SEND_WRS,
			 .max_recv_wr = has_srq(i) ? 0 : RECVS,
			 .max_send_sge = 1,
			 .max_recv_sge = has_srq(i) ? 0 : 1,
			 .max_inline_data = INLINE },
	};

	lanes[i].qp = ibv_create_qp_ex(nic.ctx, &init);
	must(lanes[i].qp, "ibv_create_qp_ex");
}

static void lane_make(uint32_t i)
{
	struct lane *lane = &lanes[i];
	struct conn c = { .nic = &nic, .mr = mr, .mem = mem };
	uint32_t t, slot;

	lane_create(i);
	c.qp = lane->qp;
	conn_set_own(&c);
	swap(&c.own, &c.peer, sizeof(c.own));
	conn_to_init(&c);
	for (slot = i * RECVS; slot < (i + 1) * RECVS; slot++)
		give(slot);
	conn_to_rts_alone(&c);
	for (t = 0; t < THREADS; t++) {
		lane->streams[t].came = calloc(LIMIT / 64, sizeof(uint64_t));
		must(lane->streams[t].came, "memory");
	}
	meet();
}

static void set_up(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = ON_SRQ * RECVS, .max_sge = 1 } };
	size_t bytes = (size_t)(SLOTS + QPS * THREADS * WINDOW) * LEN;
	uint32_t i;

	nic_open(&nic, opt.dev);
	must_zero(posix_memalign((void **)&mem, 4096, bytes), "memory");
	memset(mem, POISON, bytes);
	mr = ibv_reg_mr(nic.pd, mem, bytes, IBV_ACCESS_LOCAL_WRITE);
	must(mr, "ibv_reg_mr");
	srq = ibv_create_srq(nic.pd, &init);
	must(srq, "ibv_create_srq");
	cqs_make();
	line_open();
	for (i = 0; i < QPS; i++)
		lane_make(i);
}

static void threads_start(uint64_t seed)
{
	uint32_t i;

	for (i = 0; i < THREADS; i++) {
		workers[i].number = i;
		workers[i].rng = seed * 1000003 + i + (opt.server ? THREADS : 0);
		must_zero(pthread_create(&workers[i].id, NULL, work, &workers[i]), "a thread");
	}
}

/* ---- the end -------------------------------------------------------------------------------- */

static uint64_t count(void)
{
	uint64_t sum = 0;
	int i, t;

	for (i = 0; i < QPS; i++)
		for (t = 0; t < THREADS; t++)
			sum += atomic_load(&lanes[i].streams[t].got);
	return sum;
}

static bool is_complete(struct stream *stream, uint64_t theirs)
{
	return atomic_load(&stream->got) == theirs && atomic_load(&stream->done) == stream->sent;
}

static void await_all(uint64_t theirs[QPS][THREADS])
{
	double end = now_s() + 60;
	struct stream *stream;
	int i, t;

	for (i = 0; i < QPS; i++)
		for (t = 0; t < THREADS; t++) {
			stream = &lanes[i].streams[t];
			while (!is_complete(stream, theirs[i][t]) && now_s() < end)
				usleep(1000);
			if (!is_complete(stream, theirs[i][t]))
				say("FAILED queue pair %d, thread %d: %llu of %llu came, "
				    "%llu of %llu completed",
				    i, t, (unsigned long long)stream->got,
				    (unsigned long long)theirs[i][t],
				    (unsigned long long)stream->done,
				    (unsigned long long)stream->sent);
			must(is_complete(stream, theirs[i][t]), "all messages within 60 s");
		}
}

/* The threads go on polling until everything that was sent has come. */
static void await_sent(void)
{
	uint64_t mine[QPS][THREADS], theirs[QPS][THREADS];
	int i, t;

	atomic_store(&phase, FINISH);
	while (atomic_load(&posters))
		usleep(1000);
	for (i = 0; i < QPS; i++)
		for (t = 0; t < THREADS; t++)
			mine[i][t] = lanes[i].streams[t].sent;
	swap(mine, theirs, sizeof(mine));
	await_all(theirs);
	meet();
	atomic_store(&phase, STOP);
	for (i = 0; i < THREADS; i++)
		must_zero(pthread_join(workers[i].id, NULL), "pthread_join");
}

static void tear_down(void)
{
	int i, t;

	for (i = 0; i < QPS; i++) {
		must_zero(ibv_destroy_qp(lanes[i].qp), "ibv_destroy_qp");
		for (t = 0; t < THREADS; t++)
			free(lanes[i].streams[t].came);
	}
	must_zero(ibv_destroy_srq(srq), "ibv_destroy_srq");
	must_zero(ibv_destroy_cq(both), "ibv_destroy_cq");
	must_zero(ibv_destroy_cq(half), "ibv_destroy_cq");
	must_zero(ibv_destroy_cq(ibv_cq_ex_to_cq(exact)), "ibv_destroy_cq of the cq_ex");
	must_zero(ibv_dereg_mr(mr), "ibv_dereg_mr");
	nic_close(&nic);
	free(mem);
}

int main(int argc, char **argv)
{
	uint64_t seed = options_seeded(argc, argv);
	char word[16] = "";

	set_up();
	say("CONNECTED %d", QPS);
	threads_start(seed);
	while (strcmp(word, "end\n")) {
		must(fgets(word, sizeof(word), stdin), "a word of the runner");
		if (!strcmp(word, "count\n"))
			say("COUNT %llu", (unsigned long long)count());
	}
	await_sent();
	say("OK %llu", (unsigned long long)count());
	tear_down();
	return 0;
}
