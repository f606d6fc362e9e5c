// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * set: settings that the queue pairs and completion queues on another NIC must have, too. A completion vector follows. The source
 * port of UDP (mlx5dv_modify_qp_udp_sport(), here by the same command of the driver) does not: then there is no protection.
 *
 *   set -p PORT [-s]
 */
#include <dlfcn.h>
#include <endian.h>
#include <infiniband/mlx5dv.h>
#include <string.h>

#include "tests/lib/pair.h"

enum {
	RTS2RTS_QP = 0x505,
	COMMAND_BYTES = 256,
	QPN_AT = 8,
	VECTOR = 3,
};

struct options opt = { .timeout = 14, .dev = "mlx5_0" };

static void set_something(struct ibv_qp *qp)
{
	uint8_t in[COMMAND_BYTES] = { 0 }, out[COMMAND_BYTES] = { 0 };
	uint32_t opcode = htobe32(RTS2RTS_QP << 16), number = htobe32(qp->qp_num);

	memcpy(in, &opcode, sizeof(opcode));
	memcpy(in + QPN_AT, &number, sizeof(number));
	must_zero(mlx5dv_devx_qp_modify(qp, in, sizeof(in), out, sizeof(out)),
		  "mlx5dv_devx_qp_modify");
}

static void remake_with_vector(struct conn *c)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1,
					 .cap = { .max_send_wr = DEPTH,
						  .max_recv_wr = DEPTH,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 } };

	must_zero(ibv_destroy_qp(c->qp), "ibv_destroy_qp");
	must_zero(ibv_destroy_cq(c->cq), "ibv_destroy_cq");
	c->cq = ibv_create_cq(c->nic->ctx, 4 * DEPTH, NULL, NULL, VECTOR);
	must(c->cq, "ibv_create_cq");
	init.send_cq = init.recv_cq = c->cq;
	c->qp = ibv_create_qp(c->nic->pd, &init);
	must(c->qp, "ibv_create_qp");
}

static void vector_followed(void)
{
	unsigned int (*ask)(const char *) =
		(unsigned int (*)(const char *))dlsym(RTLD_DEFAULT, "simnic_test_cq_vectors");

	must(ask, "the software ConnectX");
	must(ask("mlx5_1") & 1u << VECTOR,
	     "a completion queue on the backup NIC with the program's vector");
}

int main(int argc, char **argv)
{
	struct conn conn;
	struct nic nic;

	options_seeded(argc, argv);
	line_open();
	nic_open(&nic, opt.dev);
	conn_make(&conn, &nic);
	remake_with_vector(&conn);
	conn_connect(&conn);
	conn_talk(&conn, 100);
	say("TALKED");
	hear("go");
	vector_followed();
	if (!opt.server)
		set_something(conn.qp);
	meet();
	conn_talk(&conn, 100);
	say("AGAIN");
	hear("end");
	conn_talk(&conn, 100);
	meet();
	conn_free(&conn);
	nic_close(&nic);
	say("OK");
	return 0;
}
