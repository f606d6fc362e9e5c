/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Two processes, two hosts, one connection, random work and short faults of every kind that retries
 * can mend: nothing may be lost, doubled, reordered or torn. Prints its seed; argv[1] replays one (0: a new
 * one), argv[2] is the number of requests; argv[3], "link": over a long cable that loses, doubles and reorders packets.
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

#define REGIONS 8
#define REGION	(256 * 1024)
#define DEPTH	8
#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define RECV_BYTES 70000
#define RECVS	   16
#define FAULT_NS   2000000

#define must(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

/* What the two processes tell each other outside the fabric. */
struct meeting {
	_Atomic uint32_t qpn[2], ready[2], stop;
	_Atomic uint64_t target, counter;
	_Atomic uint64_t sends; /* in all, when stop is said */
	_Atomic uint32_t rkey;
};

struct op {
	uint8_t opcode;
	uint16_t index;
	uint32_t slot, region, len;
	uint64_t stamp; /* READ: which WRITE it has to see */
};

struct side {
	struct sn_fabric *fabric;
	struct sn_dev *dev;
	struct ring_cq cq;
	struct ring_qp qp;
	struct meeting *meet;
	uint32_t host, lkey, rkey;
	uint8_t *mem;
};

struct driver {
	struct side *side;
	struct op op[DEPTH];
	uint32_t head, tail;
	uint64_t region_stamp[REGIONS]; /* the last WRITE posted there */
	uint32_t region_len[REGIONS];
	uint64_t stamps, adds, sends, reads_out;
};

static uint64_t rng;

static uint32_t dice(uint32_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)((rng >> 16) % n);
}

static void fill(uint8_t *at, uint64_t stamp, uint32_t len)
{
	uint32_t i;

	for (i = 0; i < len; i++)
		at[i] = (uint8_t)(stamp * 31 + i * 7 + (i >> 8));
}

static bool filled(const uint8_t *at, uint64_t stamp, uint32_t len)
{
	uint32_t i;

	for (i = 0; i < len; i++)
		if (at[i] != (uint8_t)(stamp * 31 + i * 7 + (i >> 8)))
			return false;
	return true;
}

static void side_up(struct side *s, const char *name, const struct ring_qp_options *options)
{
	must(!sn_fabric_attach(name, &s->fabric));
	must(!sn_device_start(s->fabric, s->host));
	must(!sn_dev_open(0, &s->dev));
	ring_cq_make(s->dev, &s->cq, 64, false);
	ring_qp_make(s->dev, &s->qp, &s->cq, &s->cq, options);
	s->mem = mmap(NULL, (REGIONS + DEPTH + 8) * REGION, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(s->mem != MAP_FAILED);
	must(!sn_mr_reg(s->dev, 1, (uint64_t)s->mem, (REGIONS + DEPTH + 8) * REGION,
			(uint64_t)s->mem, ACCESS, &s->lkey, &s->rkey));
}

static void side_meet(struct side *s, const struct ring_qp_options *options)
{
	uint32_t other = !s->host;
	struct timespec nap = { .tv_nsec = 1000000 };

	if (s->host) {
		atomic_store(&s->meet->target, (uint64_t)s->mem);
		atomic_store(&s->meet->counter, (uint64_t)s->mem + REGIONS * REGION);
		atomic_store(&s->meet->rkey, s->rkey);
	}
	atomic_store(&s->meet->qpn[s->host], s->qp.qpn);
	while (!atomic_load(&s->meet->qpn[other]))
		nanosleep(&nap, NULL);
	ring_qp_connect(&s->qp, s->fabric->nic[other][0].gid, atomic_load(&s->meet->qpn[other]),
			options);
	atomic_store(&s->meet->ready[s->host], 1);
	while (!atomic_load(&s->meet->ready[other]))
		nanosleep(&nap, NULL);
}

/* ---- the answering process ------------------------------------------------------------------ */

static void answer_receive(struct side *s, uint64_t seq, const struct ring_wc *wc)
{
	uint8_t *at = s->mem + REGIONS * REGION + 64 + (seq % RECVS) * RECV_BYTES;

	if (wc->opcode != MLX5_CQE_RESP_SEND_IMM)
		fprintf(stderr, "opcode %u syndrome 0x%x at receive %llu\n", wc->opcode,
			wc->syndrome, (unsigned long long)seq);
	must(wc->opcode == MLX5_CQE_RESP_SEND_IMM);
	must(wc->imm == (uint32_t)seq);
	must(wc->index == (uint16_t)seq);
	must(filled(at, seq, wc->bytes));
	memset(at, 0, wc->bytes);
}

static void answer(struct side *s)
{
	uint64_t posted = 0, seen = 0;
	struct timespec nap = { .tv_nsec = 100000 };
	struct ring_wc wc;

	/* The last ones are acknowledged before they are polled here. */
	while (!atomic_load(&s->meet->stop) || seen < atomic_load(&s->meet->sends)) {
		while (posted - seen < RECVS && dice(3)) {
			ring_post_recv(&s->qp,
				       s->mem + REGIONS * REGION + 64 +
					       (posted % RECVS) * RECV_BYTES,
				       RECV_BYTES, s->lkey);
			posted++;
		}
		while (ring_poll(&s->cq, &wc))
			answer_receive(s, seen++, &wc);
		nanosleep(&nap, NULL);
	}
	must(seen == atomic_load(&s->meet->sends));
	must(!simnic_test_protocol_errors());
}

/* ---- the asking process --------------------------------------------------------------------- */

static void random_fault(struct side *s)
{
	static const enum sn_fault_kind kinds[] = { SN_FAULT_LOSE_TX,	    SN_FAULT_LOSE_RX,
						    SN_FAULT_LOSE_ACKS,	    SN_FAULT_PORT_DOWN,
						    SN_FAULT_CUT_MESSAGE,   SN_FAULT_NIC_HANG,
						    SN_FAULT_HOLD_REQUESTS, SN_FAULT_HOLD_ACKS,
						    SN_FAULT_PAUSE };
	enum sn_fault_kind kind = kinds[dice(sizeof(kinds) / sizeof(kinds[0]))];

	sn_fault_apply(s->fabric, kind, dice(2), 0, FAULT_NS);
}

static uint32_t random_len(void)
{
	static const uint32_t top[] = { 8, 40, 320, 400, 5000, RECV_BYTES };

	return 1 + dice(top[dice(6)]);
}

static uint8_t *slot_mem(struct driver *d, uint32_t slot)
{
	return d->side->mem + (size_t)slot * REGION;
}

static void set_sge(struct driver *d, struct ring_wr *wr, const struct op *op)
{
	uint32_t part = op->len / 3;

	wr->n_sge = 1;
	wr->sge[0].addr = slot_mem(d, op->slot);
	wr->sge[0].len = op->len;
	wr->sge[0].lkey = d->side->lkey;
	if (!part || dice(2) || op->len == 8)
		return;
	wr->n_sge = 2;
	wr->sge[0].len = part;
	wr->sge[1].addr = slot_mem(d, op->slot) + part;
	wr->sge[1].len = op->len - part;
	wr->sge[1].lkey = d->side->lkey;
}

static void prepare(struct driver *d, struct op *op, struct ring_wr *wr)
{
	struct meeting *meet = d->side->meet;

	wr->raddr = atomic_load(&meet->target) + (uint64_t)op->region * REGION;
	switch (op->opcode) {
	case MLX5_OPCODE_RDMA_WRITE:
		/* A later WRITE may overtake the answer to a READ, unless fenced. */
		wr->fence = d->reads_out > 0;
		op->stamp = d->region_stamp[op->region] = ++d->stamps;
		d->region_len[op->region] = op->len;
		fill(slot_mem(d, op->slot), op->stamp, op->len);
		break;
	case MLX5_OPCODE_RDMA_READ:
		op->len = d->region_len[op->region] ? d->region_len[op->region] : 1;
		op->stamp = d->region_stamp[op->region];
		memset(slot_mem(d, op->slot), 0xcc, op->len);
		d->reads_out++;
		break;
	case MLX5_OPCODE_ATOMIC_FA:
		op->len = 8;
		op->stamp = d->adds++;
		wr->raddr = atomic_load(&meet->counter);
		wr->swap_add = 1;
		break;
	case MLX5_OPCODE_SEND_IMM:
		op->stamp = d->sends++;
		wr->imm = (uint32_t)op->stamp;
		fill(slot_mem(d, op->slot), op->stamp, op->len);
		break;
	}
}

static void post_random(struct driver *d)
{
	static const uint8_t opcodes[] = { MLX5_OPCODE_RDMA_WRITE, MLX5_OPCODE_RDMA_READ,
					   MLX5_OPCODE_ATOMIC_FA, MLX5_OPCODE_SEND_IMM };
	struct op *op = &d->op[d->tail % DEPTH];
	struct ring_wr wr = { .signaled = true };

	*op = (struct op){ .opcode = opcodes[dice(4)],
			   .slot = d->tail % DEPTH,
			   .region = dice(REGIONS),
			   .len = random_len() };
	wr.opcode = op->opcode;
	wr.rkey = atomic_load(&d->side->meet->rkey);
	wr.blueflame = dice(2);
	prepare(d, op, &wr);
	set_sge(d, &wr, op);
	op->index = ring_post(&d->side->qp, &wr);
	d->tail++;
}

static void check_done(struct driver *d, const struct ring_wc *wc)
{
	struct op *op = &d->op[d->head % DEPTH];
	uint64_t old;

	must(d->head != d->tail);
	if (wc->opcode != MLX5_CQE_REQ)
		fprintf(stderr, "syndrome 0x%x for opcode 0x%x\n", wc->syndrome, op->opcode);
	must(wc->opcode == MLX5_CQE_REQ);
	must(wc->index == op->index);
	if (op->opcode == MLX5_OPCODE_RDMA_READ) {
		d->reads_out--;
		must(!op->stamp || filled(slot_mem(d, op->slot), op->stamp, op->len));
	}
	if (op->opcode == MLX5_OPCODE_ATOMIC_FA) {
		memcpy(&old, slot_mem(d, op->slot), 8);
		must(old == op->stamp);
	}
	/* Done: the buffer is the application's, whatever may still be on the wire. */
	memset(slot_mem(d, op->slot), 0xdd, op->len);
	d->head++;
}

static void ask(struct side *s, uint32_t requests, uint32_t fault_every)
{
	struct driver d = { .side = s };
	struct ring_wc wc;

	while (d.head < requests) {
		while (d.tail < requests && d.tail - d.head < DEPTH && dice(8))
			post_random(&d);
		if (fault_every && !dice(fault_every))
			random_fault(s);
		if (d.tail == d.head)
			continue;
		must(ring_wait(&s->cq, &wc));
		check_done(&d, &wc);
	}
	must(!simnic_test_protocol_errors());
	atomic_store(&s->meet->sends, d.sends);
	atomic_store(&s->meet->stop, 1);
	printf("%u requests, %llu sends, %llu atomics\n", requests, (unsigned long long)d.sends,
	       (unsigned long long)d.adds);
}

static int run(const char *name, struct meeting *meet, uint32_t requests)
{
	/* Eight periods of 67 ms outlast every fault by far, on a busy machine too. */
	const struct ring_qp_options options = { .type = IBV_QPT_RC,
						 .timeout = 14,
						 .retry_cnt = 7,
						 .rnr_retry = 7,
						 .min_rnr_timer = 5 };
	struct side side = { .meet = meet };
	pid_t child = fork();
	int status;

	must(child >= 0);
	side.host = child ? 0 : 1;
	if (!child)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	side_up(&side, name, &options);
	side_meet(&side, &options);
	if (!child) {
		answer(&side);
		_exit(0);
	}
	ask(&side, requests, 40);
	must(waitpid(child, &status, 0) == child);
	ring_qp_free(&side.qp);
	ring_cq_free(&side.cq);
	sn_dev_close(side.dev);
	return status;
}

static void lay_cable(const char *name)
{
	struct sn_line_config line = { .rate_bps = 1000000000,
				       .delay_ns = 100000,
				       .reorder_ns = 150000,
				       .loss = { .loss = .005, .reorder = .01, .duplicate = .01 } };
	struct sn_fabric *fabric;

	must(!sn_fabric_attach(name, &fabric));
	must(!sn_line_set(fabric, 0, 0, &line));
	sn_fabric_detach(fabric);
}

int main(int argc, char **argv)
{
	struct sn_fabric_config config = {
		.n_hosts = 2, .n_nics = 1, .seed = 1, .link_layer = SN_LINK_ETH
	};
	uint64_t given = argc > 1 ? strtoull(argv[1], NULL, 0) : 0;
	uint64_t seed = given ? given : (uint64_t)time(NULL);
	uint32_t requests = argc > 2 ? (uint32_t)atoi(argv[2]) : 3000;
	struct meeting *meet = mmap(NULL, sizeof(*meet), PROT_READ | PROT_WRITE,
				    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char name[32];
	int status;

	printf("seed %llu\n", (unsigned long long)seed);
	fflush(stdout);
	rng = seed * 2654435761u + 88172645463325252ULL;
	config.seed = (uint32_t)seed;
	snprintf(name, sizeof(name), "unit-pair-%d", getpid());
	must(meet != MAP_FAILED && !sn_fabric_create(name, &config));
	if (argc > 3 && !strcmp(argv[3], "link"))
		lay_cable(name);
	status = run(name, meet, requests);
	sn_fabric_destroy(name);
	return status ? 1 : 0;
}
