// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * midway: queue pairs that are stopped in the middle of a move, with work outstanding, and connected anew, round after
 * round; one beside them is never stopped. Each message is a WRITE and a SEND behind it, which are checked byte by byte
 * when the SEND arrives. Until a queue pair is stopped nothing of it may fail; completions come in order, each once, and
 * behind the first error all that is outstanding is flushed. When the verb that stops it has returned nothing is
 * written to its memory any more, and behind RESET or destruction it has no completion more. Its numbers begin at 0
 * in each round, with the round in them: nothing of an old connection may come to a new one.
 *
 * How round N ends draws from the seed and N alone. Words of the runner: "go", some time before the end of a round; "next";
 * "end", instead of "next".
 *
 *   midway [-s] -p PORT -S SEED
 */
#include "tests/lib/pair.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	STEADY, /* the queue pair that is never stopped */
	LANES = 5,
	WINDOW = DEPTH / 2, /* messages under way: two requests each fill the send queue */
	SIGNALED_EVERY = 4,
	POISON = 0xa5,
	QUIET_MS = 4,
	DELAYS_MS = 25, /* from "go" to the end, at most */
};

#define RECEIVE (1ULL << 63) /* in a wr_id: what failed does not tell otherwise what it was */

enum end { RESET, ERROR, DESTROY, ENDS };
enum first { BOTH, SERVER, CLIENT, FIRSTS };

struct head {
	uint32_t round, lane;
	uint64_t number;
};

struct place {
	uint64_t addr;
	uint32_t rkey;
};

struct lane {
	struct conn c;
	uint8_t *
		target; /* what the peer WRITEs to: a part for each message of a DEPTH, and as much beside them */
	struct ibv_mr *target_mr;
	struct place other;
	uint32_t round;
	uint64_t s_posted, s_done, r_posted, r_done; /* requests */
	uint64_t flushed;			     /* from that receive on */
	bool signaled[DEPTH];
	bool failed, ended, beside;
	enum end end;
	enum first first;
};

struct options opt = { .port = 18515, .timeout = 18, .dev = "mlx5_0", .unsignaled = true };

static struct nic nic;
static struct lane lanes[LANES];
static uint64_t seed;
static uint32_t round_number;
static bool told_peer; /* that this end is about to stop: from now on the other may */

static uint32_t drawn(uint32_t what, uint32_t n)
{
	uint64_t z = seed + round_number * 0x9e3779b97f4a7c15ull + what * 0xbf58476d1ce4e5b9ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return (uint32_t)((z ^ z >> 31) >> 32) % n;
}

static uint32_t index_of(const struct lane *l)
{
	return (uint32_t)(l - lanes);
}

/* ---- messages ------------------------------------------------------------------------------- */

static uint32_t length_of(const struct head *head)
{
	return (uint32_t)(sizeof(*head) +
			  (head->number * 40503 + head->lane * 977) % (PART - sizeof(*head) + 1));
}

static uint8_t filling(const struct head *head, bool written)
{
	return (uint8_t)(head->number * 31 + head->round * 7 + head->lane + (written ? 101 : 0));
}

static uint8_t *part(uint8_t *area, uint64_t number)
{
	return area + number % DEPTH * PART;
}

static bool all_are(const uint8_t *bytes, size_t n, uint8_t value)
{
	while (n && bytes[n - 1] == value)
		n--;
	return !n;
}

static void fail(const struct lane *l, const char *what)
{
	say("FAILED round %u, lane %u: %s; sent %llu got %llu, requests %llu of %llu, receives "
	    "%llu of %llu",
	    round_number, index_of(l), what, (unsigned long long)l->c.sent,
	    (unsigned long long)l->c.got, (unsigned long long)l->s_done,
	    (unsigned long long)l->s_posted, (unsigned long long)l->r_done,
	    (unsigned long long)l->r_posted);
	_exit(1);
}

static void check(const struct lane *l, bool ok, const char *what)
{
	if (!ok)
		fail(l, what);
}

static void check_bytes(const struct lane *l, const uint8_t *at, const struct head *head,
			bool written, const char *what)
{
	check(l, !memcmp(at, head, sizeof(*head)), what);
	check(l,
	      all_are(at + sizeof(*head), length_of(head) - sizeof(*head), filling(head, written)),
	      what);
}

static void give(struct lane *l)
{
	uint8_t *at = part(l->c.mem + AREA, l->r_posted);
	struct ibv_sge sge = { (uintptr_t)at, PART, l->c.mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = RECEIVE | l->r_posted++, .sg_list = &sge, .num_sge = 1 },
			   *bad;

	memset(at, POISON, PART);
	must_zero(ibv_post_recv(l->c.qp, &wr, &bad), "ibv_post_recv");
}

static struct ibv_send_wr request(struct lane *l, enum ibv_wr_opcode opcode, struct ibv_sge *sge,
				  bool signaled)
{
	l->signaled[l->s_posted % DEPTH] = signaled;
	return (struct ibv_send_wr){ .wr_id = l->s_posted++,
				     .sg_list = sge,
				     .num_sge = 1,
				     .opcode = opcode,
				     .send_flags = signaled ? (unsigned int)IBV_SEND_SIGNALED : 0 };
}

/* The bytes that are written lie beside those that are sent: in the same part, filled anew behind it. */
static void send_one(struct lane *l)
{
	struct head head = { l->round, index_of(l), l->c.sent };
	uint8_t *sent = part(l->c.mem, 2 * head.number), *written = sent + PART;
	struct ibv_sge sge[2] = {
		{ (uintptr_t)written, length_of(&head), l->c.mr->lkey },
		{ (uintptr_t)sent, length_of(&head), l->c.mr->lkey },
	};
	struct ibv_send_wr wr[2], *bad;

	memcpy(sent, &head, sizeof(head));
	memset(sent + sizeof(head), filling(&head, false), length_of(&head) - sizeof(head));
	memcpy(written, &head, sizeof(head));
	memset(written + sizeof(head), filling(&head, true), length_of(&head) - sizeof(head));
	wr[0] = request(l, IBV_WR_RDMA_WRITE, &sge[0], false);
	wr[0].wr.rdma.remote_addr = l->other.addr + head.number % DEPTH * PART;
	wr[0].wr.rdma.rkey = l->other.rkey;
	wr[1] = request(l, IBV_WR_SEND, &sge[1],
			head.number % SIGNALED_EVERY == SIGNALED_EVERY - 1);
	wr[0].next = &wr[1];
	must_zero(ibv_post_send(l->c.qp, wr, &bad), "ibv_post_send");
	l->c.sent++;
}

/* ---- completions ---------------------------------------------------------------------------- */

static void arrived(struct lane *l, const struct ibv_wc *wc)
{
	struct head head = { l->round, index_of(l), l->c.got };
	uint8_t *at = part(l->c.mem + AREA, wc->wr_id);

	check(l, wc->opcode == IBV_WC_RECV && wc->byte_len == length_of(&head),
	      "a message of its length");
	check_bytes(l, at, &head, false, "what was sent");
	check(l, all_are(at + wc->byte_len, PART - wc->byte_len, POISON), "nothing behind it");
	check_bytes(l, part(l->target, head.number), &head, true, "what was written before it");
	l->c.got++;
}

static void received(struct lane *l, const struct ibv_wc *wc)
{
	check(l, wc->wr_id == (RECEIVE | l->r_done), "receives in order");
	if (wc->status) {
		check(l, wc->status == IBV_WC_WR_FLUSH_ERR, "flushed receives");
		l->failed = true;
		l->flushed = l->flushed < l->r_done ? l->flushed : l->r_done;
		memset(part(l->c.mem + AREA, l->r_done++), POISON, PART);
		return;
	}
	check(l, l->flushed == UINT64_MAX, "no receive behind a flush");
	l->r_done++;
	arrived(l, wc);
	if (!l->failed && !l->ended)
		give(l);
}

static void completed(struct lane *l, const struct ibv_wc *wc)
{
	check(l, wc->wr_id >= l->s_done && wc->wr_id < l->s_posted, "completions in order");
	for (; l->s_done < wc->wr_id; l->s_done++)
		check(l, !l->failed && !l->signaled[l->s_done % DEPTH],
		      "a completion of what asked for one");
	l->s_done++;
	if (wc->status)
		l->failed = true;
	else
		check(l, !l->failed && l->signaled[wc->wr_id % DEPTH],
		      "a good completion of what asked for one");
}

static bool poll_lane(struct lane *l)
{
	struct ibv_wc wc[8];
	int n = ibv_poll_cq(l->c.cq, 8, wc), i;

	check(l, n >= 0, "ibv_poll_cq");
	for (i = 0; i < n; i++) {
		bool may_fail = index_of(l) != STEADY && told_peer;

		if (wc[i].status && !may_fail)
			say("FAILED status %d", wc[i].status);
		check(l, !wc[i].status || may_fail, "no error before the end");
		check(l, wc[i].qp_num == l->c.qp->qp_num, "a completion of its own queue pair");
		if (wc[i].wr_id & RECEIVE)
			received(l, &wc[i]);
		else
			completed(l, &wc[i]);
	}
	return n;
}

/* ---- traffic -------------------------------------------------------------------------------- */

static bool may_send(const struct lane *l)
{
	return !l->failed && l->s_posted + 2 <= l->s_done + DEPTH && l->c.sent < l->c.got + WINDOW;
}

/* Once the peer may have stopped nothing of it limits what is sent: it writes beside what is checked. */
static void write_beside(struct lane *l)
{
	struct ibv_sge sge = { (uintptr_t)l->c.mem + PART, PART, l->c.mr->lkey };
	struct ibv_send_wr wr = request(l, IBV_WR_RDMA_WRITE, &sge, l->s_posted % 2), *bad;

	wr.wr.rdma.remote_addr = l->other.addr + AREA + l->s_posted % DEPTH * PART;
	wr.wr.rdma.rkey = l->other.rkey;
	must_zero(ibv_post_send(l->c.qp, &wr, &bad), "ibv_post_send");
}

static bool may_write_beside(const struct lane *l)
{
	return told_peer && index_of(l) != STEADY && !l->failed && l->s_posted < l->s_done + DEPTH;
}

static void traffic(void)
{
	bool any = false;
	uint32_t i;

	for (i = 0; i < LANES; i++) {
		if (lanes[i].ended)
			continue;
		any |= poll_lane(&lanes[i]);
		while (may_send(&lanes[i]))
			send_one(&lanes[i]);
		while (may_write_beside(&lanes[i]))
			write_beside(&lanes[i]);
	}
	if (!any)
		usleep(20);
}

static void traffic_for(uint32_t ms)
{
	double until = now_s() + ms / 1e3;

	while (now_s() < until)
		traffic();
}

/* The runner's next word is there. */
static bool spoken(void)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };

	return poll(&in, 1, 0) == 1;
}

static void tell(void)
{
	must(send(sock, "s", 1, MSG_NOSIGNAL) == 1, "send on the line");
}

static bool has_told(void)
{
	char c;
	ssize_t n = recv(sock, &c, 1, MSG_DONTWAIT);

	must(n, "the other process");
	return n == 1;
}

/* ---- the end of a round --------------------------------------------------------------------- */

/* What ran well and was not to be told of leaves no trace. */
static bool all_flushed(const struct lane *l)
{
	for (uint64_t n = l->s_done; n < l->s_posted; n++)
		if (l->signaled[n % DEPTH])
			return false;
	return l->r_done == l->r_posted;
}

static void to_error(struct lane *l)
{
	double end = now_s() + 20;

	while (!all_flushed(l)) {
		check(l, now_s() < end, "a flush of all within 20 s");
		if (!poll_lane(l))
			usleep(20);
	}
	usleep(1000);
	(void)poll_lane(l);
}

/* The verb, and no more. */
static void stop_verb(struct lane *l)
{
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };

	switch (l->end) {
	case RESET: conn_reset(&l->c); break;
	case ERROR:
		must_zero(ibv_modify_qp(l->c.qp, &error, IBV_QP_STATE), "ibv_modify_qp to ERR");
		break;
	case DESTROY: must_zero(ibv_destroy_qp(l->c.qp), "ibv_destroy_qp"); break;
	case ENDS: break;
	}
}

struct poller {
	struct lane *lane;
	atomic_bool returned, over;
};

/* A poll that begins behind RESET or destruction finds nothing; one before may. */
static void *poll_beside(void *arg)
{
	struct poller *p = arg;
	bool behind, any;

	while (!atomic_load(&p->over)) {
		behind = atomic_load(&p->returned) && p->lane->end != ERROR;
		any = poll_lane(p->lane);
		check(p->lane, !any || !behind, "no completion behind the verb that stops");
	}
	return NULL;
}

/* Another thread polls meanwhile, and some time behind it. */
static void stop_beside(struct lane *l)
{
	struct poller p = { .lane = l };
	pthread_t thread;

	must_zero(pthread_create(&thread, NULL, poll_beside, &p), "a thread");
	usleep(drawn(2 * LANES + index_of(l), 100));
	stop_verb(l);
	atomic_store(&p.returned, true);
	usleep(1000);
	atomic_store(&p.over, true);
	must_zero(pthread_join(thread, NULL), "pthread_join");
}

static void stop(struct lane *l)
{
	struct ibv_wc wc;

	l->ended = true;
	if (l->beside)
		stop_beside(l);
	else
		stop_verb(l);
	if (l->end == ERROR)
		to_error(l);
	check(l, !ibv_poll_cq(l->c.cq, 1, &wc), "no completion behind the end");
	for (uint64_t n = l->flushed; n < l->r_done; n++)
		check(l, all_are(part(l->c.mem + AREA, n), PART, POISON),
		      "buffers that were given back");
	memset(l->c.mem + AREA, POISON, AREA);
	memset(l->target, POISON, 2 * AREA);
}

static bool stops_first(const struct lane *l)
{
	return l->first == BOTH || (l->first == SERVER) == opt.server;
}

static void stop_those(bool first)
{
	for (uint32_t i = STEADY + 1; i < LANES; i++)
		if (stops_first(&lanes[i]) == first)
			stop(&lanes[i]);
}

static void expect_quiet(void)
{
	for (uint32_t i = STEADY + 1; i < LANES; i++)
		if (lanes[i].ended)
			check(&lanes[i],
			      all_are(lanes[i].c.mem + AREA, AREA, POISON) &&
				      all_are(lanes[i].target, 2 * AREA, POISON),
			      "memory that nobody writes to any more");
}

/* Some are stopped while the peer still sends. */
static void end_round(void)
{
	told_peer = true;
	tell();
	while (!has_told())
		traffic();
	stop_those(true);
	traffic_for(QUIET_MS);
	expect_quiet();
	tell();
	while (!has_told())
		traffic();
	stop_those(false);
	traffic_for(QUIET_MS);
	expect_quiet();
	meet();
	told_peer = false;
}

/* ---- queue pairs ---------------------------------------------------------------------------- */

static void qp_make(struct lane *l)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .send_cq = l->c.cq,
					 .recv_cq = l->c.cq,
					 .cap = { .max_send_wr = DEPTH,
						  .max_recv_wr = DEPTH,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 } };

	l->c.qp = ibv_create_qp(nic.pd, &init);
	must(l->c.qp, "ibv_create_qp");
}

static void lane_make(struct lane *l)
{
	conn_make(&l->c, &nic);
	must_zero(posix_memalign((void **)&l->target, 4096, 2 * AREA), "memory");
	l->target_mr = ibv_reg_mr(nic.pd, l->target, 2 * AREA,
				  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	must(l->target_mr, "ibv_reg_mr");
}

static void lane_connect(struct lane *l)
{
	struct place own = { (uintptr_t)l->target, l->target_mr->rkey };

	l->round = round_number;
	l->c.sent = l->c.got = l->s_posted = l->s_done = l->r_posted = l->r_done = 0;
	l->flushed = UINT64_MAX;
	l->failed = l->ended = false;
	swap(&own, &l->other, sizeof(own));
	conn_swap(&l->c);
	while (l->r_posted < DEPTH)
		give(l);
	conn_to_rts_alone(&l->c);
}

static void lane_anew(struct lane *l)
{
	if (l->end == DESTROY)
		qp_make(l);
	else if (l->end == ERROR)
		conn_reset(&l->c);
	lane_connect(l);
}

static void lane_free(struct lane *l)
{
	if (l->end == DESTROY && l->ended)
		qp_make(l);
	must_zero(ibv_dereg_mr(l->target_mr), "ibv_dereg_mr");
	conn_free(&l->c);
	free(l->target);
}

/* ---- rounds --------------------------------------------------------------------------------- */

static void draw(void)
{
	for (uint32_t i = STEADY + 1; i < LANES; i++) {
		lanes[i].end = (enum end)drawn(2 * i, ENDS);
		lanes[i].first = (enum first)drawn(2 * i + 1, FIRSTS);
		/* no thread may poll for a queue pair that is being destroyed: it reads its number */
		lanes[i].beside = lanes[i].end != DESTROY && drawn(3 * LANES + i, 2);
	}
}

static void play(void)
{
	meet();
	say("CONNECTED %u", round_number);
	while (!spoken())
		traffic();
	hear("go");
	draw();
	traffic_for(drawn(opt.server, DELAYS_MS));
	end_round();
	say("STOPPED %u", round_number);
	while (!spoken())
		traffic();
}

/* What was sent over the queue pair that was never stopped has come. */
static void finish(void)
{
	struct lane *l = &lanes[STEADY];
	uint64_t theirs;
	double end = now_s() + 20;

	swap(&l->c.sent, &theirs, sizeof(theirs));
	while (l->c.got < theirs) {
		check(l, now_s() < end, "all messages within 20 s");
		if (!poll_lane(l))
			usleep(20);
	}
	meet();
}

int main(int argc, char **argv)
{
	char word[16] = "next\n";
	uint32_t i;

	seed = options_seeded(argc, argv);
	setvbuf(stdin, NULL, _IONBF, 0); /* poll() must know of words that came together */
	line_open();
	nic_open(&nic, opt.dev);
	for (i = 0; i < LANES; i++) {
		lane_make(&lanes[i]);
		lane_connect(&lanes[i]);
	}
	for (;;) {
		play();
		must(fgets(word, sizeof(word), stdin), "a word of the runner");
		if (strcmp(word, "next\n"))
			break;
		round_number++;
		for (i = STEADY + 1; i < LANES; i++)
			lane_anew(&lanes[i]);
	}
	finish();
	say("OK %llu", (unsigned long long)lanes[STEADY].c.got);
	for (i = 0; i < LANES; i++)
		lane_free(&lanes[i]);
	nic_close(&nic);
	return 0;
}
