/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Messages that are longer than a packet, on a long cable: each packet of them may be lost. Which one is, is known
 * before, as it hangs on the fabric's seed alone. Two processes; the memory of the answering one is seen by both.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "simnic/device/testing.h"
#include "simnic/fabric/line.h"
#include "tests/lib/simnic_ring.h"

#define MTU	4096
#define BYTES	(64u * MTU)
#define PACKETS 64
#define SLOTS	8
#define SEEN	512 /* packets whose fate is looked at, each way */
#define ACCESS	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

#define must(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, case_name,          \
				#condition);                                                       \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* What the processes tell each other outside the fabric. */
struct meeting {
	_Atomic uint32_t type, qpn[2], round, ready; /* the round: both make a queue pair for it */
	_Atomic uint32_t receives, posted, completed, stop;
	_Atomic uint32_t imm[SEEN], rkey;
};

static const char *case_name = "setup";
static struct meeting *meet;
static struct sn_fabric *fabric;
static struct sn_dev *dev;
static struct ring_cq cq;
static struct ring_qp qp;
static uint8_t *mine, *theirs; /* theirs: where the answering process' keys lead */
static uint32_t lkey;

static void nap(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 50000 }, NULL);
}

static void await(_Atomic uint32_t *word, uint32_t value)
{
	while (atomic_load(word) != value)
		nap();
}

/* ---- both ends ------------------------------------------------------------------------------- */

static void side_up(const char *name, uint32_t host, uint8_t *mem, uint32_t *rkey)
{
	must(!sn_fabric_attach(name, &fabric));
	must(!sn_device_start(fabric, host));
	must(!sn_dev_open(0, &dev));
	must(!sn_mr_reg(dev, 1, (uint64_t)mem, SLOTS * BYTES, (uint64_t)mem, ACCESS, &lkey, rkey));
}

static void side_connect(uint32_t host, uint32_t round, uint8_t timeout)
{
	struct ring_qp_options options = { .type = (uint8_t)atomic_load(&meet->type),
					   .sig_all = true,
					   .timeout = timeout,
					   .retry_cnt = 7,
					   .rnr_retry = 7,
					   .min_rnr_timer = 5 };

	ring_cq_make(dev, &cq, 64, false);
	ring_qp_make(dev, &qp, &cq, &cq, &options);
	atomic_store(&meet->qpn[host], qp.qpn | round << 24);
	while (atomic_load(&meet->qpn[!host]) >> 24 != round)
		nap();
	ring_qp_connect(&qp, fabric->nic[!host][0].gid, atomic_load(&meet->qpn[!host]) & 0xffffff,
			&options);
}

static void side_down(void)
{
	ring_qp_free(&qp);
	ring_cq_free(&cq);
}

/* ---- the answering process ------------------------------------------------------------------- */

static void answer_round(uint32_t round)
{
	struct ring_wc wc;

	side_connect(1, round, 10);
	atomic_store(&meet->ready, round);
	while (atomic_load(&meet->round) == round) {
		for (; atomic_load(&meet->posted) < atomic_load(&meet->receives);
		     atomic_fetch_add(&meet->posted, 1))
			ring_post_recv(&qp, theirs + atomic_load(&meet->posted) % SLOTS * BYTES,
				       BYTES, lkey);
		while (ring_poll(&cq, &wc)) {
			must(wc.opcode != MLX5_CQE_RESP_ERR);
			atomic_store(&meet->imm[atomic_load(&meet->completed)], wc.imm);
			atomic_fetch_add(&meet->completed, 1);
		}
		nap();
	}
	side_down();
}

static void answer(const char *name)
{
	uint32_t round = 0, rkey;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	case_name = "answering";
	side_up(name, 1, theirs, &rkey);
	atomic_store(&meet->rkey, rkey);
	while (!atomic_load(&meet->stop)) {
		if (atomic_load(&meet->round) == round) {
			nap();
			continue;
		}
		round = atomic_load(&meet->round);
		answer_round(round);
	}
	must(!simnic_test_protocol_errors());
	_exit(0);
}

/* ---- the asking process ---------------------------------------------------------------------- */

static struct sn_line *way(uint32_t from)
{
	struct sn_pkt pkt = { .src_host = (uint8_t)from, .dst_host = !from };

	return sn_line_of(fabric, &pkt);
}

static bool lost_nth(uint32_t from, uint64_t n)
{
	return sn_fate_of(&way(from)->config.loss, n).lost;
}

static void lay_cable(double loss)
{
	struct sn_line_config c = { .rate_bps = 1000000000, .delay_ns = 1000000 };

	c.loss.loss = loss;
	must(!sn_line_set(fabric, 0, 0, &c));
}

/* A seed by which of all that is sent one packet is lost, this one. */
static void lose_only(uint64_t which)
{
	bool good = false;

	for (fabric->seed = 1; !good; fabric->seed++) {
		lay_cable(.003);
		good = lost_nth(0, which);
		for (uint64_t n = 0; good && n < SEEN; n++)
			good = !lost_nth(1, n) && (n == which || !lost_nth(0, n));
	}
}

static void begin(const char *what, uint8_t type, uint8_t timeout, uint32_t receives)
{
	uint32_t round = atomic_load(&meet->round) + 1;

	case_name = what;
	memset(theirs, 0, SLOTS * BYTES);
	for (uint32_t i = 0; i < SLOTS * BYTES; i++)
		mine[i] = (uint8_t)(i * 7 + i / MTU + round);
	atomic_store(&meet->type, type);
	atomic_store(&meet->posted, 0);
	atomic_store(&meet->completed, 0);
	atomic_store(&meet->receives, receives);
	atomic_store(&meet->round, round);
	side_connect(0, round, timeout);
	await(&meet->ready, round);
	await(&meet->posted, receives);
}

static void end(void)
{
	side_down();
	printf("%s: sent %llu, lost %llu, back %llu\n", case_name,
	       (unsigned long long)atomic_load(&way(0)->sent),
	       (unsigned long long)atomic_load(&way(0)->lost),
	       (unsigned long long)atomic_load(&way(1)->sent));
}

static void post(uint8_t opcode, uint32_t slot, uint32_t bytes, uint32_t imm)
{
	struct ring_wr wr = { .opcode = opcode,
			      .imm = imm,
			      .rkey = atomic_load(&meet->rkey),
			      .raddr = (uint64_t)theirs + (uint64_t)slot * BYTES,
			      .n_sge = 1,
			      .sge = { { mine + slot * BYTES, bytes, lkey } } };

	ring_post(&qp, &wr);
}

static void await_good(void)
{
	struct ring_wc wc;

	must(ring_wait(&cq, &wc));
	must(wc.opcode == MLX5_CQE_REQ);
}

static uint64_t retries(void)
{
	return atomic_load(&fabric->nic[0][0].count.retries);
}

static uint64_t resent(void)
{
	return atomic_load(&fabric->nic[0][0].count.rc_retransmits);
}

/* IBA 9.7.5.2.3, 9.7.8: a gap is told of once, and all from it on comes again. */
static void gap_is_told(void)
{
	uint64_t before = retries(), again = resent(), sent;

	lose_only(20);
	sent = atomic_load(&way(0)->sent);
	begin("a gap is told", IBV_QPT_RC, 18, 0);
	post(MLX5_OPCODE_RDMA_WRITE, 0, BYTES, 0);
	await_good();
	must(!memcmp(theirs, mine, BYTES));
	must(retries() == before); /* the timer, of one second, took no part */
	again = resent() - again;
	must(again >= 1 && again <= PACKETS - 21 + 1);
	must(atomic_load(&way(0)->sent) - sent == PACKETS + again);
	end();
}

/* Behind the last packet nothing can tell of it: the requester's timer does. */
static void end_is_timed(void)
{
	uint64_t before = retries(), again = resent();

	lose_only(PACKETS - 1);
	begin("the end is timed", IBV_QPT_RC, 14, 0);
	post(MLX5_OPCODE_RDMA_WRITE, 0, BYTES, 0);
	await_good();
	must(!memcmp(theirs, mine, BYTES));
	must(retries() > before);
	must(resent() > again);
	end();
}

static void receiver_not_ready(void)
{
	uint64_t before;

	lay_cable(0);
	before = atomic_load(&way(1)->sent);
	begin("receiver not ready", IBV_QPT_RC, 14, 0);
	post(MLX5_OPCODE_SEND_IMM, 0, BYTES, 7);
	while (atomic_load(&way(1)->sent) == before) /* told of it */
		nap();
	must(!atomic_load(&meet->completed));
	atomic_store(&meet->receives, 1);
	await_good();
	await(&meet->completed, 1);
	must(atomic_load(&meet->imm[0]) == 7);
	must(!memcmp(theirs, mine, BYTES));
	end();
}

static void read_comes_whole(void)
{
	fabric->seed = 3;
	lay_cable(.02);
	begin("READ", IBV_QPT_RC, 12, 0);
	for (uint32_t i = 0; i < BYTES; i++)
		theirs[i] = (uint8_t)(i * 3 + i / MTU);
	memset(mine, 0, BYTES);
	post(MLX5_OPCODE_RDMA_READ, 0, BYTES, 0);
	await_good();
	must(!memcmp(theirs, mine, BYTES));
	must(atomic_load(&way(1)->lost) >= 1);
	end();
}

/* Of UC a message arrives if all of its packets do, and else nobody hears of it (IBA 9.8.2.2). */
static void uc_whole_or_nothing(uint8_t opcode)
{
	uint32_t whole = 0, expected[SEEN], n = 40, each = 16;

	fabric->seed = 5;
	lay_cable(.02);
	begin(opcode == MLX5_OPCODE_SEND_IMM ? "UC SEND" : "UC WRITE", IBV_QPT_UC, 0, n);
	for (uint32_t i = 0; i < n; i++) {
		bool is_whole = true;

		for (uint32_t k = 0; k < each; k++)
			is_whole &= !lost_nth(0, i * each + k);
		if (is_whole)
			expected[whole++] = i;
		post(opcode, i % SLOTS, each * MTU - 5, i);
		await_good();
	}
	must(whole > 0 && whole < n);
	await(&meet->completed, whole);
	nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
	must(atomic_load(&meet->completed) == whole);
	for (uint32_t i = 0; i < whole; i++)
		must(atomic_load(&meet->imm[i]) == expected[i]);
	for (uint32_t i = 0; opcode == MLX5_OPCODE_RDMA_WRITE_IMM && i < whole; i++)
		must(!memcmp(theirs + expected[i] % SLOTS * BYTES,
			     mine + expected[i] % SLOTS * BYTES, each * MTU - 5));
	/* The last messages that came are in the buffers of the last receives; one of those a broken one has begun. */
	must(whole >= SLOTS);
	for (uint32_t i = whole - SLOTS + 1; opcode == MLX5_OPCODE_SEND_IMM && i < whole; i++)
		must(!memcmp(theirs + i % SLOTS * BYTES, mine + expected[i] % SLOTS * BYTES,
			     each * MTU - 5));
	end();
}

static void ask(const char *name)
{
	uint32_t rkey;

	side_up(name, 0, mine, &rkey);
	while (!atomic_load(&meet->rkey))
		nap();
	gap_is_told();
	end_is_timed();
	receiver_not_ready();
	read_comes_whole();
	uc_whole_or_nothing(MLX5_OPCODE_RDMA_WRITE_IMM);
	uc_whole_or_nothing(MLX5_OPCODE_SEND_IMM);
	must(!simnic_test_protocol_errors());
	atomic_store(&meet->stop, 1);
	atomic_fetch_add(&meet->round, 1);
}

static void *shared(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	must(p != MAP_FAILED);
	return p;
}

static char name[32];

static void destroy_fabric(void)
{
	sn_fabric_destroy(name);
}

int main(void)
{
	struct sn_fabric_config config = { .n_hosts = 2, .n_nics = 1, .link_layer = SN_LINK_ETH };
	int status;
	pid_t child;

	meet = shared(sizeof(*meet));
	mine = shared(SLOTS * BYTES);
	theirs = shared(SLOTS * BYTES);
	snprintf(name, sizeof(name), "unit-long-%d", getpid());
	sn_fabric_destroy(name);
	must(!sn_fabric_create(name, &config));
	child = fork();
	must(child >= 0);
	if (!child)
		answer(name);
	atexit(destroy_fabric);
	ask(name);
	must(waitpid(child, &status, 0) == child);
	return status ? 1 : 0;
}
