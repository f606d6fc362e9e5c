// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Posting: batches of requests, and receives up to a number. */
#include "bystanders.h"

#include <endian.h>
#include <string.h>

/* How many WRITEs stand directly before: what a message that completes a receive vouches for. */
static uint32_t writes_before(const char *ops, size_t i)
{
	uint32_t n = 0;

	while (i-- && ops[i] == 'w')
		n++;
	return n;
}

static uint64_t remote(const struct end *e, enum zone zone, uint32_t seq)
{
	return e->peer.addr + (uint64_t)zone * ZONE + (uint64_t)(seq % SLOTS) * SLOT;
}

static void aim(struct end *e, struct ibv_send_wr *wr, char what, uint32_t seq)
{
	wr->imm_data = htobe32(seq);
	wr->wr.rdma.rkey = e->peer.rkey;
	switch (what) {
	case 's': wr->opcode = IBV_WR_SEND; break;
	case 'i': wr->opcode = IBV_WR_SEND_WITH_IMM; break;
	case 'w':
	case 'W':
		wr->opcode = what == 'w' ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_WRITE_WITH_IMM;
		wr->wr.rdma.remote_addr = remote(e, ZONE_TARGET, seq);
		break;
	case 'r':
		wr->opcode = IBV_WR_RDMA_READ;
		wr->wr.rdma.remote_addr = remote(e, ZONE_SOURCE, seq);
		break;
	default:
		wr->opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
		wr->wr.atomic.remote_addr = remote(e, ZONE_COUNTER, 0);
		wr->wr.atomic.compare_add = 1;
		wr->wr.atomic.rkey = e->peer.rkey;
	}
	if (e->type == IBV_QPT_UD) {
		wr->wr.ud.ah = e->ah;
		wr->wr.ud.remote_qpn = e->peer.qpn;
		wr->wr.ud.remote_qkey = QKEY;
	}
}

static int end_post(struct end *e, char what, bool signaled, uint32_t len, uint32_t before)
{
	uint32_t seq = e->posted;
	bool local = what == 'r' || what == 'a';
	uint8_t *at = zone_slot(e->mem, local ? ZONE_LOCAL : ZONE_SEND, seq);
	struct ibv_sge sge = { (uintptr_t)at, what == 'a' ? 8 : len, e->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = seq, .sg_list = &sge, .num_sge = 1 }, *bad;
	int rc;

	if (local)
		memset(at, 0, SLOT);
	else
		payload_fill(at, e, seq, len, before);
	wr.send_flags =
		(signaled ? (unsigned int)IBV_SEND_SIGNALED : 0) |
		(what == 's' || what == 'i' || what == 'W' ? (unsigned int)IBV_SEND_SOLICITED : 0);
	aim(e, &wr, what, seq);
	rc = ibv_post_send(e->qp, &wr, &bad);
	if (rc)
		return rc;
	e->request[seq % SLOTS].what = what;
	e->request[seq % SLOTS].signaled = signaled || e->all_signaled;
	e->request[seq % SLOTS].len = sge.length;
	e->posted++;
	return 0;
}

/* send ID OPS EVERY LEN: one of EVERY is signaled, and the last one */
void end_send(char **word)
{
	struct end *e = end_at(word[0]);
	const char *ops = word[1];
	size_t n = strlen(ops);
	int every = number(word[2]), rc = 0;

	if (!e->qp || (e->type == IBV_QPT_UD && !e->ah)) {
		reply("= %s", e->qp ? "no way" : "no queue pair");
		return;
	}
	for (size_t i = 0; i < n && !rc; i++) {
		bool signaled = i + 1 == n || (i + 1) % (size_t)every == 0;

		rc = end_post(e, ops[i], signaled, (uint32_t)number(word[3]),
			      writes_before(ops, i));
	}
	reply("= %d", rc);
}

static int post_one_recv(struct receives *r, struct ibv_qp *qp)
{
	struct ibv_sge sge = { .length = SLOT };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	int rc, slot;

	if (!r->n_free || !r->mr)
		return -1;
	slot = r->free[--r->n_free];
	wr.wr_id = RECEIVE | (uint64_t)slot;
	sge.addr = (uintptr_t)(r->mem + (size_t)slot * SLOT);
	sge.lkey = r->mr->lkey;
	rc = r->srq ? ibv_post_srq_recv(r->srq, &wr, &bad) : ibv_post_recv(qp, &wr, &bad);
	if (rc)
		r->free[r->n_free++] = slot;
	return rc;
}

/* recv ID N: so many are outstanding then; of a shared queue, so many more */
void end_recv(char **word)
{
	struct end *e = end_at(word[0]);
	int rc = 0, n = e->qp ? number(word[1]) : 0;

	for (int i = e->srq < 0 ? (int)e->receives_out : 0; i < n && !rc; i++) {
		rc = post_one_recv(end_receives(e), e->qp);
		if (!rc && e->srq < 0)
			e->receives_out++;
	}
	reply("= %d", rc);
}

/* reserve SRQ N: so many more receives than messages are awaited */
void srq_reserve(char **word)
{
	struct receives *r = &shared[number(word[0])];
	int rc = 0;

	for (int i = number(word[1]); i > 0 && !rc; i--)
		rc = post_one_recv(r, NULL);
	reply("= %d", rc);
}
