// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * crossed: in each of two processes THREADS threads make protection domains, completion queues,
 * memory regions and queue pairs and connect them to the other process', all in orders of their own:
 * which thread has which pair, which object comes first, when an address is told, and whose is
 * waited for. Some threads do whatever can be done next and wait for the peer when nothing can; the
 * others make all that is theirs, then wait for one peer after the other. A message passes each way,
 * all is taken down, in another order again, and the next round begins. No order of this program
 * waits for itself: whoever waits, waits for what the peer does without waiting.
 *
 * Round N draws from the seed and N alone. Words of the runner: "up" begins a round, "down" ends it,
 * "end" ends the program.
 *
 *   crossed [-s] -p PORT -S SEED [-f FIRST_ROUND]
 */
#include "tests/lib/pair.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 8, PAIRS = 24, PDS = 2, PATIENCE_S = 60, SEND_CQE = 4 * DEPTH };

/* What is done to a pair, once each. */
enum step { PD, CQ, MR, QP, INIT, TELL, RTR, RTS, LAY, READY, SEND, NO_QP, NO_CQ, NO_MR, STEPS };

#define BIT(step) (1u << (step))

enum {
	MAKE = BIT(PD) | BIT(CQ) | BIT(MR) | BIT(QP) | BIT(INIT) | BIT(TELL),
	CONNECT = MAKE | BIT(RTR) | BIT(RTS) | BIT(LAY) | BIT(READY),
	UP = CONNECT | BIT(SEND),
	DOWN = BIT(NO_QP) | BIT(NO_CQ) | BIT(NO_MR),
};

enum word { ADDRESS, IS_READY, WORDS };

struct message {
	uint32_t round, pair, word;
	struct address address;
};

struct pair {
	struct conn conn;
	struct nic nic; /* of the PD that it is in */
	struct ibv_pd **pd;
	uint32_t done;
	atomic_bool heard[WORDS];
};

struct worker {
	pthread_t id;
	uint64_t rng;
	uint32_t n;
	struct pair *mine[PAIRS];
	struct ibv_pd *pds[PDS];
};

struct options opt = { .port = 18515, .timeout = 18, .dev = "mlx5_0" };

static uint64_t seed;
static uint32_t round_number;
static struct nic device;
static struct pair pairs[PAIRS];
static struct worker workers[THREADS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the line, and around waiting */
static pthread_cond_t news;

/* ---- orders --------------------------------------------------------------------------------- */

static uint32_t random_below(uint64_t *rng, uint32_t n)
{
	*rng = *rng * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(*rng >> 33) % n;
}

/* Both hosts draw from the same seed, and not the same. */
static uint64_t random_from(uint32_t of)
{
	uint64_t rng = seed * 0x9e3779b97f4a7c15ULL + round_number * 0xbf58476d1ce4e5b9ULL +
		       of * 2 + opt.server;

	for (int i = 0; i < 4; i++)
		random_below(&rng, 1);
	return rng;
}

static void shuffle(uint64_t *rng, struct pair **list, uint32_t n)
{
	for (uint32_t i = n; i > 1; i--) {
		uint32_t k = random_below(rng, i);
		struct pair *other = list[k];

		list[k] = list[i - 1];
		list[i - 1] = other;
	}
}

/* ---- the other process ---------------------------------------------------------------------- */

static void tell(struct pair *p, enum word word)
{
	struct message message = { round_number, (uint32_t)(p - pairs), word, p->conn.own };

	pthread_mutex_lock(&lock);
	must(send(sock, &message, sizeof(message), MSG_NOSIGNAL) == sizeof(message),
	     "send on the line");
	pthread_mutex_unlock(&lock);
}

static void told(const struct message *message)
{
	struct pair *p = &pairs[message->pair];

	must(message->pair < PAIRS && message->word < WORDS, "a message on the line");
	pthread_mutex_lock(&lock);
	must(message->round == round_number, "a message of this round");
	if (message->word == ADDRESS)
		p->conn.peer = message->address;
	atomic_store(&p->heard[message->word], true);
	pthread_cond_broadcast(&news);
	pthread_mutex_unlock(&lock);
}

static void *listen_on_line(void *arg)
{
	struct message message;

	(void)arg;
	while (recv(sock, &message, sizeof(message), MSG_WAITALL) == sizeof(message))
		told(&message);
	return NULL;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static const uint32_t needs[STEPS] = {
	[MR] = BIT(PD),
	[QP] = BIT(PD) | BIT(CQ),
	[INIT] = BIT(QP),
	[TELL] = BIT(QP),
	[RTR] = BIT(INIT),
	[RTS] = BIT(RTR),
	[LAY] = BIT(MR) | BIT(INIT),
	[READY] = BIT(TELL) | BIT(RTS) | BIT(LAY),
	[SEND] = BIT(READY),
	[NO_CQ] = BIT(NO_QP),
};

static bool possible(struct pair *p, uint32_t steps, enum step step)
{
	if (~steps & BIT(step) || p->done & BIT(step) || ~p->done & needs[step])
		return false;
	if (step == RTR)
		return atomic_load(&p->heard[ADDRESS]);
	return step != SEND || atomic_load(&p->heard[IS_READY]);
}

static void make_pd(struct pair *p)
{
	if (!*p->pd)
		*p->pd = ibv_alloc_pd(device.ctx);
	must(*p->pd, "ibv_alloc_pd");
	p->nic = device;
	p->nic.pd = *p->pd;
}

static void make_cq(struct pair *p)
{
	p->conn.cq = ibv_create_cq(device.ctx, SEND_CQE, NULL, NULL, 0);
	must(p->conn.cq, "ibv_create_cq");
}

static void make_mr(struct pair *p)
{
	must_zero(posix_memalign((void **)&p->conn.mem, 4096, 2 * AREA), "memory");
	p->conn.mr = ibv_reg_mr(p->nic.pd, p->conn.mem, 2 * AREA, IBV_ACCESS_LOCAL_WRITE);
	must(p->conn.mr, "ibv_reg_mr");
}

static void make_qp(struct pair *p)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1,
					 .send_cq = p->conn.cq,
					 .recv_cq = p->conn.cq,
					 .cap = { .max_send_wr = DEPTH,
						  .max_recv_wr = DEPTH,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 } };

	p->conn.nic = &p->nic;
	p->conn.qp = ibv_create_qp(p->nic.pd, &init);
	must(p->conn.qp, "ibv_create_qp");
	p->conn.own = (struct address){ .qpn = p->conn.qp->qp_num,
					.psn = 0x1000,
					.lid = device.port.lid };
	memcpy(p->conn.own.gid, device.gid.raw, 16);
}

static void drop_mr(struct pair *p)
{
	must_zero(ibv_dereg_mr(p->conn.mr), "ibv_dereg_mr");
	free(p->conn.mem);
}

static void take(struct pair *p, enum step step)
{
	switch (step) {
	case PD: make_pd(p); break;
	case CQ: make_cq(p); break;
	case MR: make_mr(p); break;
	case QP: make_qp(p); break;
	case INIT: conn_to_init(&p->conn); break;
	case TELL: tell(p, ADDRESS); break;
	case RTR: conn_to_rtr(&p->conn); break;
	case RTS: conn_to_rts(&p->conn); break;
	case LAY: conn_lay(&p->conn); break;
	case READY: tell(p, IS_READY); break;
	case SEND: conn_post_send(&p->conn, p->conn.sent++); break;
	case NO_QP: must_zero(ibv_destroy_qp(p->conn.qp), "ibv_destroy_qp"); break;
	case NO_CQ: must_zero(ibv_destroy_cq(p->conn.cq), "ibv_destroy_cq"); break;
	case NO_MR: drop_mr(p); break;
	case STEPS: break;
	}
	p->done |= BIT(step);
}

/* ---- threads -------------------------------------------------------------------------------- */

/* One of all steps that are possible now, and of this list; false: there is none. */
static bool take_any(struct worker *w, struct pair **list, uint32_t n, uint32_t steps)
{
	struct pair *chosen = NULL;
	enum step which = PD, step;
	uint32_t found = 0;

	for (uint32_t i = 0; i < n; i++)
		for (step = PD; step < STEPS; step++)
			if (possible(list[i], steps, step) && !random_below(&w->rng, ++found)) {
				chosen = list[i];
				which = step;
			}
	if (chosen)
		take(chosen, which);
	return chosen;
}

static bool all_done(struct pair **list, uint32_t n, uint32_t steps)
{
	while (n && !(~list[n - 1]->done & steps))
		n--;
	return !n;
}

static bool any_possible(struct pair **list, uint32_t n, uint32_t steps)
{
	enum step step;

	for (uint32_t i = 0; i < n; i++)
		for (step = PD; step < STEPS; step++)
			if (possible(list[i], steps, step))
				return true;
	return false;
}

static void wait_for_peer(struct pair **list, uint32_t n, uint32_t steps)
{
	struct timespec until;
	int ret = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += PATIENCE_S;
	pthread_mutex_lock(&lock);
	while (!ret && !any_possible(list, n, steps))
		ret = pthread_cond_timedwait(&news, &lock, &until);
	pthread_mutex_unlock(&lock);
	if (ret)
		say("FAILED round %u: pair %u has done 0x%x", round_number,
		    (uint32_t)(list[0] - pairs), list[0]->done);
	must_zero(ret, "a word of the peer");
}

static void work(struct worker *w, struct pair **list, uint32_t n, uint32_t steps)
{
	while (!all_done(list, n, steps))
		if (!take_any(w, list, n, steps))
			wait_for_peer(list, n, steps);
}

static void work_one_by_one(struct worker *w, uint32_t steps)
{
	shuffle(&w->rng, w->mine, w->n);
	for (uint32_t i = 0; i < w->n; i++)
		work(w, &w->mine[i], 1, steps);
}

static void hear_message(struct pair *p)
{
	struct ibv_wc wc;

	for (int i = 0; i < 2; i++) {
		must(!conn_poll(&p->conn, &wc), "a good completion");
		if (wc.opcode & IBV_WC_RECV)
			conn_arrived(&p->conn, &wc);
	}
}

static void *come_up(void *arg)
{
	struct worker *w = arg;

	if (random_below(&w->rng, 2)) {
		work(w, w->mine, w->n, MAKE);
		work_one_by_one(w, CONNECT);
		work_one_by_one(w, UP);
	} else {
		work(w, w->mine, w->n, UP);
	}
	for (uint32_t i = 0; i < w->n; i++)
		hear_message(w->mine[i]);
	return NULL;
}

static void *go_down(void *arg)
{
	struct worker *w = arg;

	work(w, w->mine, w->n, DOWN);
	for (int i = 0; i < PDS; i++)
		if (w->pds[i])
			must_zero(ibv_dealloc_pd(w->pds[i]), "ibv_dealloc_pd");
	return NULL;
}

static void all_threads(void *(*fn)(void *))
{
	for (int i = 0; i < THREADS; i++)
		must_zero(pthread_create(&workers[i].id, NULL, fn, &workers[i]), "a thread");
	for (int i = 0; i < THREADS; i++)
		must_zero(pthread_join(workers[i].id, NULL), "pthread_join");
}

/* ---- rounds --------------------------------------------------------------------------------- */

/* Nothing of this round is heard before the runner has let both begin it. */
static void prepare(uint32_t number)
{
	struct pair *order[PAIRS];
	uint64_t rng;

	pthread_mutex_lock(&lock);
	round_number = number;
	memset(pairs, 0, sizeof(pairs));
	memset(workers, 0, sizeof(workers));
	rng = random_from(THREADS);
	for (int i = 0; i < PAIRS; i++)
		order[i] = &pairs[i];
	shuffle(&rng, order, PAIRS);
	for (int i = 0; i < THREADS; i++)
		workers[i].rng = random_from((uint32_t)i);
	for (int i = 0; i < PAIRS; i++) {
		struct worker *w = &workers[i % THREADS];

		order[i]->pd = &w->pds[random_below(&rng, PDS)];
		w->mine[w->n++] = order[i];
	}
	pthread_mutex_unlock(&lock);
}

static void run(uint32_t number)
{
	all_threads(come_up);
	say("UP %u", number);
	hear("down");
	all_threads(go_down);
	prepare(number + 1);
	say("GONE %u", number);
}

static void news_init(void)
{
	pthread_condattr_t attr;

	must_zero(pthread_condattr_init(&attr), "pthread_condattr_init");
	must_zero(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC), "pthread_condattr_setclock");
	must_zero(pthread_cond_init(&news, &attr), "pthread_cond_init");
	pthread_condattr_destroy(&attr);
}

int main(int argc, char **argv)
{
	uint32_t number = 0;
	pthread_t listener;
	char word[16];
	int c;

	while ((c = getopt(argc, argv, "sp:S:f:")) != -1) {
		must(c != '?', "an option");
		if (c == 's')
			opt.server = true;
		else if (c == 'p')
			opt.port = atoi(optarg);
		else if (c == 'S')
			seed = strtoull(optarg, NULL, 0);
		else
			number = (uint32_t)strtoul(optarg, NULL, 0);
	}
	news_init();
	line_open();
	nic_open(&device, opt.dev);
	prepare(number);
	must_zero(pthread_create(&listener, NULL, listen_on_line, NULL), "a thread");
	say("BEGUN");
	while (fgets(word, sizeof(word), stdin) && !strcmp(word, "up\n"))
		run(number++);
	shutdown(sock, SHUT_RDWR);
	must_zero(pthread_join(listener, NULL), "pthread_join");
	nic_close(&device);
	say("OK %u", number);
	return 0;
}
