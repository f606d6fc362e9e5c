// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Batches: one doorbell for each server, whose last request is signaled, as FORD does it. */
#include "bench/txn/txn.h"

#include <unistd.h>

enum { NAP_US = 20 };

static struct ibv_send_wr *batch_add(struct worker *w, int server, const void *local, uint32_t len,
				     enum ibv_wr_opcode opcode)
{
	struct link *link = &w->link[server];
	struct batch *batch = &link->batch;
	int i = batch->n++;

	must(i < BATCH_MAX, "room in the batch");
	batch->sge[i] = (struct ibv_sge){ (uintptr_t)local, len, link->conn.mr->lkey };
	batch->wr[i] =
		(struct ibv_send_wr){ .sg_list = &batch->sge[i], .num_sge = 1, .opcode = opcode };
	if (i)
		batch->wr[i - 1].next = &batch->wr[i];
	return &batch->wr[i];
}

void batch_cas(struct worker *w, int server, void *old, uint64_t at, uint64_t expect,
	       uint64_t value)
{
	struct ibv_send_wr *wr =
		batch_add(w, server, old, sizeof(uint64_t), IBV_WR_ATOMIC_CMP_AND_SWP);

	wr->wr.atomic.remote_addr = w->link[server].there.addr + at;
	wr->wr.atomic.rkey = w->link[server].there.rkey;
	wr->wr.atomic.compare_add = expect;
	wr->wr.atomic.swap = value;
	w->link[server].batch.atomics = true;
}

static void batch_move(struct worker *w, int server, const void *local, uint64_t at, uint32_t len,
		       enum ibv_wr_opcode opcode)
{
	struct ibv_send_wr *wr = batch_add(w, server, local, len, opcode);

	wr->wr.rdma.remote_addr = w->link[server].there.addr + at;
	wr->wr.rdma.rkey = w->link[server].there.rkey;
}

void batch_read(struct worker *w, int server, void *into, uint64_t at, uint32_t len)
{
	batch_move(w, server, into, at, len, IBV_WR_RDMA_READ);
}

void batch_write(struct worker *w, int server, const void *from, uint64_t at, uint32_t len)
{
	batch_move(w, server, from, at, len, IBV_WR_RDMA_WRITE);
}

static void batch_post(struct link *link)
{
	struct ibv_send_wr *bad;

	if (!link->batch.n)
		return;
	link->batch.wr[link->batch.n - 1].send_flags = IBV_SEND_SIGNALED;
	must_zero(ibv_post_send(link->conn.qp, link->batch.wr, &bad), "ibv_post_send");
}

static enum ibv_wc_status batch_wait(struct link *link)
{
	double end = now_s() + opt.wait_s;
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(link->conn.cq, 1, &wc))) {
		must(now_s() < end, "a completion in time");
		usleep(NAP_US);
	}
	must(n == 1, "ibv_poll_cq");
	return wc.status;
}

/* All are waited for, also behind a failure: nobody is to write into the buffers later. */
bool batches_run(struct worker *w)
{
	bool good = true;

	for (uint32_t s = 0; s < w->shape.servers; s++)
		batch_post(&w->link[s]);
	for (uint32_t s = 0; s < w->shape.servers; s++) {
		struct batch *batch = &w->link[s].batch;
		enum ibv_wc_status status = batch->n ? batch_wait(&w->link[s]) : IBV_WC_SUCCESS;

		if (status != IBV_WC_SUCCESS) {
			w->ended_atomics += batch->atomics;
			w->status = status;
			good = false;
		}
		batch->n = 0;
		batch->atomics = false;
	}
	return good;
}
