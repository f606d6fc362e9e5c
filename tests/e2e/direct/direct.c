/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Two processes that write to each other's memory through rings that mlx5dv_init_obj() gave them.
 *
 *   direct own|own_small|intrude --server|--client PORT
 *
 * own, own_small: the rings are the program's from the start: it posts, rings and polls by itself. intrude: it
 * talks through the verbs first, and then the client puts a request of its own into the same ring.
 * The runner's words: "go" after the rings were seen to be somebody else's, "fault" behind a fault.
 */
#include <infiniband/mlx5dv.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/pair.h"

enum {
	ROUNDS = 300,
};

struct options opt = { .timeout = 16, .dev = "mlx5_0" };

struct rings {
	struct mlx5dv_qp qp;
	struct mlx5dv_cq cq;
	uint32_t pi, ci; /* next WQEBB, next CQE */
	uint32_t offset; /* of the half of the register that is next */
};

static void rings_get(struct rings *r, struct conn *c)
{
	struct mlx5dv_obj obj = { .qp = { c->qp, &r->qp }, .cq = { c->cq, &r->cq } };

	memset(r, 0, sizeof(*r));
	must_zero(mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ), "mlx5dv_init_obj");
	r->pi = be32toh(r->qp.dbrec[MLX5_SND_DBR]);
}

/* WQE, barrier, record, barrier, register. */
static void rings_write(struct rings *r, struct conn *c, uint8_t flags)
{
	uint8_t *wqe = (uint8_t *)r->qp.sq.buf +
		       (size_t)(r->pi & (r->qp.sq.wqe_cnt - 1)) * r->qp.sq.stride;
	struct mlx5_wqe_raddr_seg *raddr = (void *)(wqe + 16);
	uint64_t bell;

	mlx5dv_set_ctrl_seg((void *)wqe, (uint16_t)r->pi, MLX5_OPCODE_RDMA_WRITE, 0, c->qp->qp_num,
			    flags, 3, 0, 0);
	*raddr = (struct mlx5_wqe_raddr_seg){ .raddr = htobe64(c->peer.addr + AREA),
					      .rkey = htobe32(c->peer.rkey) };
	mlx5dv_set_data_seg((void *)(wqe + 32), PART, c->mr->lkey, (uintptr_t)c->mem);
	atomic_thread_fence(memory_order_seq_cst);
	r->qp.dbrec[MLX5_SND_DBR] = htobe32(++r->pi & 0xffff);
	atomic_thread_fence(memory_order_seq_cst);
	memcpy(&bell, wqe, sizeof(bell));
	*(volatile uint64_t *)((uint8_t *)r->qp.bf.reg + r->offset) = bell;
	atomic_thread_fence(memory_order_seq_cst);
	r->offset ^= r->qp.bf.size;
}

/* The status byte of a completion: 0, or an error's syndrome. */
static uint8_t rings_poll(struct rings *r)
{
	struct mlx5_cqe64 *cqe = (void *)((uint8_t *)r->cq.buf +
					  (size_t)(r->ci & (r->cq.cqe_cnt - 1)) * r->cq.cqe_size +
					  r->cq.cqe_size - 64);
	double end = now_s() + 20;
	uint8_t own, lap = !!(r->ci & r->cq.cqe_cnt);

	for (;;) {
		own = *(volatile uint8_t *)&cqe->op_own;
		if (own >> 4 != MLX5_CQE_INVALID && (own & MLX5_CQE_OWNER_MASK) == lap)
			break;
		must(now_s() < end, "a completion in the ring within 20 s");
		usleep(20);
	}
	atomic_thread_fence(memory_order_acquire);
	r->cq.dbrec[0] = htobe32(++r->ci & 0xffffff);
	return own >> 4 == MLX5_CQE_REQ_ERR ? ((struct mlx5_err_cqe *)cqe)->syndrome : 0;
}

/* One WRITE each way, then both look at what came. */
static void rings_talk(struct rings *r, struct conn *c, int n)
{
	for (int i = 0; i < n; i++) {
		memset(c->mem, i % 255 + 1, PART);
		rings_write(r, c, MLX5_WQE_CTRL_CQ_UPDATE);
		must(!rings_poll(r), "a good completion");
		meet();
		must(c->mem[AREA] == i % 255 + 1 && c->mem[AREA + PART - 1] == c->mem[AREA],
		     "the peer's bytes");
		meet();
	}
}

static void run_own(struct conn *c)
{
	struct rings r;

	rings_get(&r, c);
	conn_connect_bare(c);
	rings_talk(&r, c, ROUNDS);
	say("TALKED");
	hear("go");
	rings_talk(&r, c, ROUNDS);
	say("AGAIN");
	hear("fault");
	rings_write(&r, c, MLX5_WQE_CTRL_CQ_UPDATE);
	say("SYNDROME 0x%02x", rings_poll(&r));
}

static void run_intrude(struct conn *c)
{
	struct rings r;

	conn_connect(c);
	conn_talk(c, 100);
	meet();
	say("TALKED");
	hear("go");
	if (!opt.server) {
		rings_get(&r, c);
		memset(c->mem, 0x5a, PART);
		rings_write(&r, c, 0);
	}
	meet();
	say("AGAIN");
	hear("fault");
}

/* A completion queue that SHIFT would make larger, if its ring were not the program's. */
static void small_make(struct conn *c, struct nic *nic)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1,
					 .cap = { .max_send_wr = 255, .max_send_sge = 1 } };

	conn_make(c, nic);
	must_zero(ibv_destroy_qp(c->qp), "ibv_destroy_qp");
	must_zero(ibv_destroy_cq(c->cq), "ibv_destroy_cq");
	c->cq = init.send_cq = init.recv_cq = ibv_create_cq(nic->ctx, 15, NULL, NULL, 0);
	must(c->cq, "ibv_create_cq");
	c->qp = ibv_create_qp(nic->pd, &init);
	must(c->qp, "ibv_create_qp");
}

int main(int argc, char **argv)
{
	struct nic nic;
	struct conn c;

	must(argc == 4, "usage: direct own|own_small|intrude --server|--client PORT");
	opt.server = !strcmp(argv[2], "--server");
	opt.port = atoi(argv[3]);
	line_open();
	nic_open(&nic, opt.dev);
	if (!strcmp(argv[1], "own_small"))
		small_make(&c, &nic);
	else
		conn_make(&c, &nic);
	if (strcmp(argv[1], "intrude"))
		run_own(&c);
	else
		run_intrude(&c);
	meet();
	conn_free(&c);
	nic_close(&nic);
	say("OK");
	return 0;
}
