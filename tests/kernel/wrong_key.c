// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Two ends exchange messages until a word comes; then the client writes from memory with a local key that names
 * none. Says with which status that ends.
 *
 * usage: wrong_key --server|--client PORT DEVICE GID_INDEX
 */
#include <stdlib.h>
#include <string.h>

#include "tests/lib/pair.h"

struct options opt = { .timeout = 18, .wait_s = 50 };

enum { AT_ONCE = 8 };

/* Behind one that is right, which must end well: errors come in their order. */
static void go_wrong(struct conn *c)
{
	struct ibv_sge sge = { (uintptr_t)c->mem, 64, c->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 1,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	struct ibv_wc wc;

	wr.wr.rdma.remote_addr = c->peer.addr;
	wr.wr.rdma.rkey = c->peer.rkey;
	must_zero(ibv_post_send(c->qp, &wr, &bad), "ibv_post_send of a good request");
	wr.wr_id = 2;
	sge.lkey ^= 0x5a5a00;
	must_zero(ibv_post_send(c->qp, &wr, &bad), "ibv_post_send of a bad request");
	conn_poll(c, &wc);
	must(wc.wr_id == 1 && wc.status == IBV_WC_SUCCESS, "the good request ends well");
	conn_poll(c, &wc);
	must(wc.wr_id == 2, "the bad request is the next");
	say("STATUS %d", (int)wc.status);
}

int main(int argc, char **argv)
{
	struct conn c = { 0 };
	struct nic nic;
	char word;

	must(argc == 5, "four arguments");
	opt.server = !strcmp(argv[1], "--server");
	opt.port = atoi(argv[2]);
	opt.gid_index = atoi(argv[4]);
	line_open();
	nic_open(&nic, argv[3]);
	conn_make(&c, &nic);
	conn_connect(&c);
	say("STARTED");
	while (!both_told())
		conn_talk(&c, AT_ONCE);
	if (!opt.server)
		go_wrong(&c);
	swap("x", &word, 1);
	return 0;
}
