// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * srq: queue pairs to several processes that share one receive queue. Numbered messages go both ways
 * on each; receives are given back late and out of order. Every message must arrive once, in the
 * order of its queue pair, in a buffer that was posted and not used since; nothing may be written
 * to a buffer that is the program's own. Before every third message stands a READ of what the peer has, or with -a a
 * fetch-and-add of a word of its queue pair's, which must tell how many there were before. Words of the runner: "more" makes one queue pair more to
 * each peer, after "hush" it sends nothing until "talk" and says "HUSHED" when nothing of its own is under
 * way, "count" says how many messages have come from each peer and the least of a queue pair, "end"
 * ends it. With -d its queue pairs are in a parent
 * domain with allocators. With -u one more queue pair, for datagrams, takes receives of the queue, and nobody sends to it.
 */
#include "tests/lib/pair.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	PEERS = 2,
	QPS = 3, /* to each peer, and one more later */
	LANES = PEERS * (QPS + 1),
	WINDOW = 6, /* messages of a queue pair under way */
	SLOTS = 96, /* receives: more than all that can be under way */
	KEEP = 20,  /* of them, in the program's hands */
	LEN = 1024,
	POISON = 0xa5,
	HEAD = 16,
	ASKED_EVERY = 3,
};

#define ANSWER (1ULL << 32) /* in a wr_id: of what asked for it */

struct options opt = { .port = 18515, .timeout = 18, .dev = "mlx5_0" };

struct lane {
	struct ibv_qp *qp;
	int peer;
	struct address own, other;
	uint64_t asked, answered;
	uint64_t sent, done, got, heard; /* heard: what the peer has got, as it says in messages */
};

static struct nic nic;
static int async_fd; /* as programs do, looked at once */
static struct ibv_cq *cq;
static struct ibv_srq *srq;
static struct ibv_mr *mr;
/* SLOTS to receive into, WINDOW to send from for each lane, WINDOW to read into likewise, one to be read of each. */
static uint8_t *mem;
static bool posted[SLOTS];
static int kept[KEEP + 1], n_kept;
static struct lane lanes[LANES];
static int n_lanes, n_peers, lines[PEERS];
static bool quiet, hushed, adds;
/* Queue pairs are made in a parent domain with allocators: SHIFT does not drive those. */
static bool in_domain;
static struct ibv_pd *qp_pd;
static bool with_datagrams;
static struct ibv_qp *datagrams;
static uint32_t rng = 1;

static uint32_t random_below(uint32_t n)
{
	rng = rng * 1664525 + 1013904223;
	return (rng >> 8) % n;
}

/* ---- receives ------------------------------------------------------------------------------- */

static uint8_t *slot_of(int slot)
{
	return mem + (size_t)slot * LEN;
}

static bool all_are(const uint8_t *bytes, size_t n, uint8_t value)
{
	while (n && bytes[n - 1] == value)
		n--;
	return !n;
}

static void give(int slot)
{
	struct ibv_sge sge = { (uintptr_t)slot_of(slot), LEN, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = (uint64_t)slot, .sg_list = &sge, .num_sge = 1 }, *bad;

	memset(slot_of(slot), POISON, LEN);
	posted[slot] = true;
	must_zero(ibv_post_srq_recv(srq, &wr, &bad), "ibv_post_srq_recv");
}

/* What the program holds is poisoned anew, so that whoever writes to it is found. */
static void keep(int slot)
{
	int i;

	memset(slot_of(slot), POISON, LEN);
	kept[n_kept++] = slot;
	while (n_kept > KEEP) {
		i = (int)random_below((uint32_t)n_kept);
		slot = kept[i];
		kept[i] = kept[--n_kept];
		must(all_are(slot_of(slot), LEN, POISON), "nobody writes to a buffer not posted");
		give(slot);
	}
}

static struct lane *lane_of(uint32_t qpn)
{
	int i;

	for (i = 0; i < n_lanes; i++)
		if (lanes[i].qp->qp_num == qpn)
			return &lanes[i];
	must(false, "a completion of a queue pair that there is");
	return NULL;
}

static uint32_t length_of(uint64_t number)
{
	return HEAD + (uint32_t)(number * 2654435761u >> 7) % (LEN - HEAD + 1);
}

static uint8_t filling(uint64_t number)
{
	return (uint8_t)(number * 31 + 7);
}

static void arrived(const struct ibv_wc *wc)
{
	struct lane *lane = lane_of(wc->qp_num);
	int slot = (int)wc->wr_id;
	uint32_t length = length_of(lane->got);
	const uint8_t *bytes;
	uint64_t head[2];

	must(slot >= 0 && slot < SLOTS && posted[slot], "a receive that was posted, once");
	posted[slot] = false;
	bytes = slot_of(slot);
	memcpy(head, bytes, sizeof(head));
	if (head[0] != lane->got)
		say("FAILED number %llu, should be %llu", (unsigned long long)head[0],
		    (unsigned long long)lane->got);
	must(head[0] == lane->got, "the next message of its queue pair");
	must(wc->byte_len == length, "its length");
	must(all_are(bytes + HEAD, length - HEAD, filling(lane->got)), "its bytes");
	must(all_are(bytes + length, LEN - length, POISON), "nothing behind them");
	lane->heard = head[1];
	lane->got++;
	keep(slot);
}

/* ---- sends ---------------------------------------------------------------------------------- */

static uint8_t *answer_of(const struct lane *lane, uint64_t number)
{
	return mem +
	       (SLOTS + LANES * WINDOW + (size_t)(lane - lanes) * WINDOW + number % WINDOW) * LEN;
}

/* What its peer reads; the first word is what it adds to. */
static uint8_t *question_of(const struct lane *lane)
{
	return mem + (SLOTS + 2 * LANES * WINDOW + (size_t)(lane - lanes)) * LEN;
}

static void ask(struct lane *lane)
{
	uint64_t number = lane->asked++;
	struct ibv_sge sge = { (uintptr_t)answer_of(lane, number), adds ? 8 : LEN, mr->lkey };
	struct ibv_send_wr wr = { .wr_id = ANSWER | number,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_READ,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.rdma = { lane->other.addr, lane->other.rkey } },
			   *bad;

	if (adds) {
		wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
		wr.wr.atomic.remote_addr = lane->other.addr;
		wr.wr.atomic.rkey = lane->other.rkey;
		wr.wr.atomic.compare_add = 1;
	}
	memset(answer_of(lane, number), POISON, LEN);
	must_zero(ibv_post_send(lane->qp, &wr, &bad), "ibv_post_send of what asks");
}

static void answered(struct lane *lane, uint64_t number)
{
	const uint8_t *bytes = answer_of(lane, number);
	uint64_t word;

	must(number == lane->answered++, "answers in order");
	memcpy(&word, bytes, sizeof(word));
	must(word == (adds ? number : 0), "the word of its queue pair");
	must(adds || all_are(bytes + 8, LEN - 8, filling(1)), "what its peer has");
}

static void send_one(struct lane *lane)
{
	uint64_t number = lane->sent++;
	size_t at = SLOTS + (size_t)(lane - lanes) * WINDOW + number % WINDOW;
	uint64_t head[2] = { number, lane->got };
	struct ibv_sge sge = { (uintptr_t)(mem + at * LEN), length_of(number), mr->lkey };
	struct ibv_send_wr wr = { .wr_id = number,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	if (number % ASKED_EVERY == 0)
		ask(lane);
	memset(mem + at * LEN, filling(number), LEN);
	memcpy(mem + at * LEN, head, sizeof(head));
	must_zero(ibv_post_send(lane->qp, &wr, &bad), "ibv_post_send");
}

static void take(const struct ibv_wc *wc)
{
	struct lane *lane;

	if (wc->status)
		say("FAILED status %d of QP 0x%06x", wc->status, wc->qp_num);
	must(!wc->status, "a good completion");
	if (wc->opcode & IBV_WC_RECV) {
		arrived(wc);
		return;
	}
	lane = lane_of(wc->qp_num);
	if (wc->wr_id & ANSWER) {
		answered(lane, wc->wr_id & ~ANSWER);
		return;
	}
	must(wc->wr_id == lane->done && lane->answered == lane->done / ASKED_EVERY + 1,
	     "send completions in order");
	lane->done++;
}

static bool poll_all(void)
{
	struct ibv_wc wc[8];
	int n = ibv_poll_cq(cq, 8, wc), i;

	must(n >= 0, "ibv_poll_cq");
	for (i = 0; i < n; i++)
		take(&wc[i]);
	return n;
}

/* ---- setting up ----------------------------------------------------------------------------- */

static void lane_make(int peer)
{
	struct lane *lane = &lanes[n_lanes];
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .send_cq = cq,
					 .recv_cq = cq,
					 .srq = srq,
					 .cap = { .max_send_wr = 2 * WINDOW, .max_send_sge = 1 } };
	struct conn c = { .nic = &nic, .mr = mr, .mem = mem };

	lane->peer = peer;
	lane->qp = ibv_create_qp(qp_pd, &init);
	must(lane->qp && lane->qp->srq == srq, "ibv_create_qp on the shared receive queue");
	c.qp = lane->qp;
	conn_set_own(&c);
	c.own.addr = (uintptr_t)question_of(lane);
	memset(question_of(lane), filling(1), LEN);
	memset(question_of(lane), 0, 8);
	sock = lines[peer];
	swap(&c.own, &c.peer, sizeof(c.own));
	lane->other = c.peer;
	conn_to_init(&c);
	n_lanes++; /* messages may come from here on */
	conn_to_rts_alone(&c);
	meet();
}

static void *no_memory_of_ours(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment,
			       uint64_t resource_type)
{
	return IBV_ALLOCATOR_USE_DEFAULT;
}

static void nothing_to_free(struct ibv_pd *pd, void *pd_context, void *ptr, uint64_t resource_type)
{
}

static void set_up(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = SLOTS, .max_sge = 1 } };
	struct ibv_parent_domain_init_attr domain = {
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS,
		.alloc = no_memory_of_ours,
		.free = nothing_to_free,
	};
	size_t bytes = (size_t)(SLOTS + 2 * LANES * WINDOW + LANES) * LEN;
	int i;

	nic_open(&nic, opt.dev);
	async_fd = nic.ctx->async_fd;
	must_zero(posix_memalign((void **)&mem, 4096, bytes), "memory");
	mr = ibv_reg_mr(nic.pd, mem, bytes,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
				IBV_ACCESS_REMOTE_ATOMIC);
	must(mr, "ibv_reg_mr");
	cq = ibv_create_cq(nic.ctx, SLOTS + 2 * LANES * WINDOW, NULL, NULL, 0);
	must(cq, "ibv_create_cq");
	srq = ibv_create_srq(nic.pd, &init);
	must(srq, "ibv_create_srq");
	for (i = 0; i < SLOTS; i++)
		give(i);
	domain.pd = qp_pd = nic.pd;
	if (in_domain)
		qp_pd = ibv_alloc_parent_domain(nic.ctx, &domain);
	must(qp_pd, "ibv_alloc_parent_domain");
}

static void datagrams_make(void)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UD,
					 .send_cq = cq,
					 .recv_cq = cq,
					 .srq = srq,
					 .cap = { .max_send_wr = 1, .max_send_sge = 1 } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 1 };

	datagrams = ibv_create_qp(nic.pd, &init);
	must(datagrams, "ibv_create_qp for datagrams");
	must_zero(ibv_modify_qp(datagrams, &attr,
				IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
		  "ibv_modify_qp to INIT for datagrams");
	attr.qp_state = IBV_QPS_RTR;
	must_zero(ibv_modify_qp(datagrams, &attr, IBV_QP_STATE),
		  "ibv_modify_qp to RTR for datagrams");
}

static void lanes_to_each(int n)
{
	int i, peer;

	for (peer = 0; peer < n_peers; peer++)
		for (i = 0; i < n; i++)
			lane_make(peer);
}

/* ---- the end -------------------------------------------------------------------------------- */

/* How far each end has sent, by lanes in the order in which both have made them. */
static void await_sent(void)
{
	uint64_t mine[LANES], theirs[LANES], want[LANES];
	double end = now_s() + 30;
	bool all;
	int i, peer, n;

	for (peer = 0; peer < n_peers; peer++) {
		memset(mine, 0, sizeof(mine));
		for (i = n = 0; i < n_lanes; i++)
			if (lanes[i].peer == peer)
				mine[n++] = lanes[i].sent;
		sock = lines[peer];
		swap(mine, theirs, sizeof(mine));
		for (i = n = 0; i < n_lanes; i++)
			if (lanes[i].peer == peer)
				want[i] = theirs[n++];
	}
	do {
		poll_all();
		for (all = true, i = 0; i < n_lanes; i++)
			all &= lanes[i].got == want[i] && lanes[i].done == lanes[i].sent;
		must(all || now_s() < end, "all messages within 30 s");
	} while (!all);
}

/* Each is told once, of each queue pair, that it takes no more. */
static void await_last_receives(void)
{
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	struct pollfd fd = { .fd = async_fd, .events = POLLIN };
	struct ibv_async_event event;
	int i, n = 0;

	for (i = 0; i < n_lanes; i++)
		must_zero(ibv_modify_qp(lanes[i].qp, &error, IBV_QP_STATE), "ibv_modify_qp to ERR");
	while (n < n_lanes) {
		must(poll(&fd, 1, 20000) == 1, "an event of each queue pair within 20 s");
		must_zero(ibv_get_async_event(nic.ctx, &event), "ibv_get_async_event");
		n += event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED;
		ibv_ack_async_event(&event);
	}
}

static void tear_down(void)
{
	int i;

	for (i = 0; i < n_lanes; i++)
		must_zero(ibv_destroy_qp(lanes[i].qp), "ibv_destroy_qp");
	if (datagrams)
		must_zero(ibv_destroy_qp(datagrams), "ibv_destroy_qp for datagrams");
	if (in_domain)
		must_zero(ibv_dealloc_pd(qp_pd), "ibv_dealloc_pd of the parent domain");
	must_zero(ibv_destroy_srq(srq), "ibv_destroy_srq");
	must_zero(ibv_destroy_cq(cq), "ibv_destroy_cq");
	must_zero(ibv_dereg_mr(mr), "ibv_dereg_mr");
	for (i = 0; i < SLOTS; i++)
		must(!posted[i] || all_are(slot_of(i), LEN, POISON), "unused receives untouched");
	nic_close(&nic);
	free(mem);
}

static bool told(void)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };

	return poll(&in, 1, 0) == 1;
}

static bool all_done(void)
{
	int i;

	for (i = 0; i < n_lanes; i++)
		if (lanes[i].done != lanes[i].sent)
			return false;
	return true;
}

static void say_hushed(void)
{
	if (!quiet || hushed || !all_done())
		return;
	hushed = true;
	say("HUSHED");
}

/* Until a word comes. */
static void talk(void)
{
	struct lane *lane;

	while (!told()) {
		say_hushed();
		for (lane = lanes; lane < lanes + n_lanes; lane++)
			while (!quiet && lane->sent < lane->done + WINDOW &&
			       lane->sent < lane->heard + 2 * WINDOW)
				send_one(lane);
		if (!poll_all())
			usleep(50);
	}
}

static void count(void)
{
	uint64_t got[PEERS] = { 0 }, least = UINT64_MAX;
	int i;

	for (i = 0; i < n_lanes; i++) {
		got[lanes[i].peer] += lanes[i].got;
		least = lanes[i].got < least ? lanes[i].got : least;
	}
	say("COUNT %llu %llu LEAST %llu", (unsigned long long)got[0], (unsigned long long)got[1],
	    (unsigned long long)least);
}

static void options(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "sp:n:dau")) != -1) {
		if (c == 's')
			opt.server = true;
		else if (c == 'p')
			opt.port = atoi(optarg);
		else if (c == 'd')
			in_domain = true;
		else if (c == 'a')
			adds = true;
		else if (c == 'u')
			with_datagrams = true;
		else if (c == 'n')
			n_peers = atoi(optarg);
		else
			exit(2);
	}
	must(n_peers > 0 && n_peers <= PEERS, "-n PEERS");
}

int main(int argc, char **argv)
{
	char word[16] = "";
	int i;

	options(argc, argv);
	setvbuf(stdin, NULL, _IONBF, 0); /* poll() must know of words that came together */
	set_up();
	for (i = 0; i < n_peers; i++) {
		line_open();
		lines[i] = sock;
	}
	lanes_to_each(QPS);
	if (with_datagrams)
		datagrams_make();
	say("CONNECTED %d", n_lanes);
	while (strcmp(word, "end\n")) {
		talk();
		must(fgets(word, sizeof(word), stdin), "a word of the runner");
		if (!strcmp(word, "hush\n") || !strcmp(word, "talk\n")) {
			quiet = *word == 'h';
			hushed = false;
		}
		if (!strcmp(word, "count\n"))
			count();
		if (strcmp(word, "more\n"))
			continue;
		lanes_to_each(1);
		say("CONNECTED %d", n_lanes);
	}
	await_sent();
	await_last_receives();
	count();
	for (i = 0; i < n_lanes; i++)
		say("LANE %d got %llu", i, (unsigned long long)lanes[i].got);
	say("OK");
	tear_down();
	return 0;
}
