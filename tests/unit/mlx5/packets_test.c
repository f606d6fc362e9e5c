/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Packets of a request are those that the NIC sends, whichever call wrote it, before and behind a move. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/lib/mlx5_rig.h"

enum { SGES = 4, ID_STEP = 256, MAX = 16 };

static const struct fake_geometry geometry = { 64, 16, 4, 32, SGES, false };
static struct rig *rig;

static int teardown(void **state)
{
	rig_delete(rig);
	return 0;
}

/* Of an atomic the length is that of a buffer, which may be larger than what it brings. */
static const struct request {
	enum ibv_wr_opcode opcode;
	uint32_t sges, bytes; /* of each */
} requests[] = {
	{ IBV_WR_RDMA_WRITE, 1, 8 },	       { IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 4096 },
	{ IBV_WR_RDMA_READ, 3, 24 },	       { IBV_WR_ATOMIC_FETCH_AND_ADD, 2, 4096 },
	{ IBV_WR_RDMA_WRITE, 0, 0 },	       { IBV_WR_RDMA_READ, 1, 65 },
	{ IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 8 }, { IBV_WR_RDMA_WRITE, 1, 64 },
};

enum { REQUESTS = sizeof(requests) / sizeof(requests[0]) };

static void fill(const struct request *r, uint64_t id, struct ibv_sge *sge)
{
	for (uint32_t i = 0; i < r->sges; i++)
		sge[i] = (struct ibv_sge){ id + 16 * i, r->bytes, fake_lkey(id + 16 * i) };
}

static void call(const struct request *r, uint64_t id)
{
	struct ibv_qp_ex *qp = &rig->app->ex;
	struct ibv_sge sge[SGES];

	fill(r, id, sge);
	qp->wr_id = id;
	qp->wr_flags = IBV_SEND_SIGNALED;
	switch ((int)r->opcode) {
	case IBV_WR_RDMA_WRITE: ibv_wr_rdma_write(qp, fake_rkey(id), id); break;
	case IBV_WR_RDMA_READ: ibv_wr_rdma_read(qp, fake_rkey(id), id); break;
	default: ibv_wr_atomic_fetch_add(qp, fake_rkey(id), id, 1); break;
	}
	if (r->sges == 1)
		ibv_wr_set_sge(qp, sge->lkey, sge->addr, sge->length);
	else
		ibv_wr_set_sge_list(qp, r->sges, sge);
}

static void post_by_calls(void)
{
	ibv_wr_start(&rig->app->ex);
	for (uint32_t i = 0; i < REQUESTS; i++)
		call(&requests[i], ID_STEP * (i + 1));
	assert_int_equal(ibv_wr_complete(&rig->app->ex), 0);
}

static void post_list(void)
{
	struct ibv_sge sge[REQUESTS][SGES];
	struct ibv_send_wr wr[REQUESTS], *bad;

	for (uint32_t i = 0; i < REQUESTS; i++) {
		uint64_t id = ID_STEP * (i + 1);

		fill(&requests[i], id, sge[i]);
		wr[i] = (struct ibv_send_wr){ .wr_id = id,
					      .next = i + 1 < REQUESTS ? &wr[i + 1] : NULL,
					      .sg_list = sge[i],
					      .num_sge = (int)requests[i].sges,
					      .opcode = requests[i].opcode,
					      .send_flags = IBV_SEND_SIGNALED,
					      .wr.rdma = { id, fake_rkey(id) } };
		if (requests[i].opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
			wr[i].wr.atomic.remote_addr = id;
			wr[i].wr.atomic.rkey = fake_rkey(id);
		}
	}
	assert_int_equal(ibv_post_send(fake_ibv(rig->app), wr, &bad), 0);
}

/* The NIC runs them one by one, and has numbered each packet itself. */
static void check(void)
{
	struct sp_request info[MAX];
	struct ibv_wc wc[MAX];

	assert_int_equal(ENGINE->move.outstanding(rig->sp, info, MAX), REQUESTS);
	for (uint32_t i = 0; i < REQUESTS; i++) {
		assert_true(info[i].numbered);
		assert_int_equal(info[i].psn, rig_active(rig)->psn & 0xffffff);
		assert_int_equal(fake_run(rig_active(rig), 1), 1);
		assert_int_equal((info[i].psn + info[i].packets) & 0xffffff,
				 rig_active(rig)->psn & 0xffffff);
	}
	assert_int_equal(rig_poll(rig, true, wc, MAX), REQUESTS);
}

static void packets_of(void (*post)(void))
{
	rig = rig_new(&geometry, 64, true);
	for (int turn = 0; turn < 3; turn++) {
		if (turn)
			assert_int_equal(rig_move(rig, &geometry), 0);
		post();
		check();
	}
}

static void lists(void **state)
{
	packets_of(post_list);
}

static void calls(void **state)
{
	packets_of(post_by_calls);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(lists, teardown),
		cmocka_unit_test_teardown(calls, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
