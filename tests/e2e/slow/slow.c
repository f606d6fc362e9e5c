/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Pairs of connected queue pairs, both ends in this process. Its runner says what it does next, and
 * makes NICs slow, or hang, between:
 *
 *   pairs N       so many more, connected
 *   shared N      the same, on one shared receive queue
 *   register MIB  memory, which stays registered
 *   rereg         that memory at half its length
 *   write         one WRITE over each pair, which must arrive
 *   reset N       all queue pairs, which stay so; 1: the NIC that they are on may refuse it
 *   abandon       the device is closed, with all that was made over it alive
 *   close         everything that was made, and the device
 *   open          the device again
 *   end
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/lib/pair.h"

enum { MOST = 256, ENDS = 2 };

struct options opt = { .timeout = 18, .dev = "mlx5_0" };
static struct nic nic;
static struct conn conns[MOST][ENDS];
static int n_conns;
static struct ibv_srq *srq;
static struct ibv_mr *large;

static void make_pairs(int n)
{
	for (; n--; n_conns++) {
		struct conn *pair = conns[n_conns];

		must(n_conns < MOST, "place for a pair");
		for (int i = 0; i < ENDS; i++) {
			conn_make(&pair[i], &nic);
			conn_set_own(&pair[i]);
		}
		for (int i = 0; i < ENDS; i++) {
			pair[i].peer = pair[1 - i].own;
			conn_to_init(&pair[i]);
			conn_to_rts_alone(&pair[i]);
		}
	}
}

static void make_shared(int n)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = DEPTH, .max_sge = 1 } };

	must(!srq, "one shared receive queue");
	nic.srq = srq = ibv_create_srq(nic.pd, &attr);
	must(srq, "ibv_create_srq");
	make_pairs(n);
	nic.srq = NULL;
}

/* No page of it is touched: a software NIC pins nothing. */
static void register_large(size_t mib)
{
	void *mem = mmap(NULL, mib << 20, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	must(mem != MAP_FAILED, "mmap");
	large = ibv_reg_mr(nic.pd, mem, mib << 20, IBV_ACCESS_LOCAL_WRITE);
	must(large, "ibv_reg_mr");
}

static void write_over(struct conn *pair, uint8_t value)
{
	struct ibv_sge sge = { (uintptr_t)pair[0].mem, 1, pair[0].mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .wr.rdma = { (uintptr_t)pair[1].mem + AREA, pair[1].mr->rkey } },
			   *bad;
	struct ibv_wc wc;

	pair[0].mem[0] = value;
	must_zero(ibv_post_send(pair[0].qp, &wr, &bad), "ibv_post_send");
	(void)conn_poll(&pair[0], &wc);
	must(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
	must(pair[1].mem[AREA] == value, "its bytes");
}

static void write_all(void)
{
	static uint8_t value;

	value++;
	for (int i = 0; i < n_conns; i++)
		write_over(conns[i], value);
}

static void rereg_large(void)
{
	must_zero(ibv_rereg_mr(large, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, large->addr,
			       large->length / 2, 0),
		  "ibv_rereg_mr");
}

static void reset_all(bool refused)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	for (int i = 0; i < n_conns * ENDS; i++) {
		int ret = ibv_modify_qp(conns[i / ENDS][i % ENDS].qp, &attr, IBV_QP_STATE);

		must(!ret || (refused && ret == EIO), "ibv_modify_qp to RESET");
	}
}

static void close_all(void)
{
	for (int i = 0; i < n_conns * ENDS; i++)
		conn_free(&conns[i / ENDS][i % ENDS]);
	if (large)
		must_zero(ibv_dereg_mr(large), "ibv_dereg_mr");
	if (srq)
		must_zero(ibv_destroy_srq(srq), "ibv_destroy_srq");
	nic_close(&nic);
	large = NULL;
	srq = NULL;
	n_conns = 0;
}

int main(void)
{
	char line[64], word[32];
	int n;

	nic_open(&nic, opt.dev);
	say("OPEN");
	while (fgets(line, sizeof(line), stdin)) {
		n = 0;
		must(sscanf(line, "%31s %d", word, &n) >= 1, "a word");
		if (!strcmp(word, "end"))
			return 0;
		if (!strcmp(word, "pairs"))
			make_pairs(n);
		else if (!strcmp(word, "shared"))
			make_shared(n);
		else if (!strcmp(word, "register"))
			register_large((size_t)n);
		else if (!strcmp(word, "rereg"))
			rereg_large();
		else if (!strcmp(word, "write"))
			write_all();
		else if (!strcmp(word, "reset"))
			reset_all(n);
		else if (!strcmp(word, "abandon"))
			must_zero(ibv_close_device(nic.ctx), "ibv_close_device");
		else if (!strcmp(word, "open"))
			nic_open(&nic, opt.dev);
		else if (!strcmp(word, "close"))
			close_all();
		say("DONE %s", word);
	}
	return 1;
}
