/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * An application changes the access rights of a connected queue pair. What it took away must stay away,
 * and what it gave must be there, on every NIC that the connection comes to. Both ends are in this
 * process.
 *
 *   rights before|after|both|given
 */
#include <string.h>
#include <unistd.h>

#include "tests/lib/pair.h"

enum { ENDS = 2, READ_ONLY = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ };

struct options opt = { .timeout = 14, .dev = "mlx5_0" };
static struct nic nic;
static struct conn ends[ENDS];

static void set_rights(struct conn *c, int rights)
{
	struct ibv_qp_attr attr = { .qp_access_flags = (unsigned int)rights };

	must_zero(ibv_modify_qp(c->qp, &attr, IBV_QP_ACCESS_FLAGS), "new access rights");
}

static enum ibv_wc_status try_write(uint8_t value)
{
	struct ibv_sge sge = { (uintptr_t)ends[0].mem, 1, ends[0].mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .wr.rdma = { (uintptr_t)ends[1].mem + AREA, ends[1].mr->rkey } },
			   *bad;
	struct ibv_wc wc;

	ends[0].mem[0] = value;
	must_zero(ibv_post_send(ends[0].qp, &wr, &bad), "ibv_post_send");
	(void)conn_poll(&ends[0], &wc);
	return wc.status;
}

static void expect(bool allowed, uint8_t value)
{
	const uint8_t *target = ends[1].mem + AREA;
	uint8_t before = *target;
	enum ibv_wc_status status = try_write(value);

	say("WRITE %s: %s", allowed ? "allowed" : "refused", ibv_wc_status_str(status));
	must(status == (allowed ? IBV_WC_SUCCESS : IBV_WC_REM_INV_REQ_ERR), "its right status");
	must(*target == (allowed ? value : before), "its right effect");
}

static void connect_ends(const char *how)
{
	for (int i = 0; i < ENDS; i++) {
		conn_make(&ends[i], &nic);
		conn_set_own(&ends[i]);
	}
	for (int i = 0; i < ENDS; i++) {
		ends[i].peer = ends[1 - i].own;
		conn_to_init(&ends[i]);
		if (!strcmp(how, "given"))
			set_rights(&ends[i], READ_ONLY);
	}
	for (int i = 0; i < ENDS; i++)
		conn_to_rts_alone(&ends[i]);
}

int main(int argc, char **argv)
{
	const char *how = argc == 2 ? argv[1] : "";
	const int all = READ_ONLY | IBV_ACCESS_REMOTE_WRITE;

	must(!strcmp(how, "before") || !strcmp(how, "after") || !strcmp(how, "both") ||
		     !strcmp(how, "given"),
	     "usage: rights before|after|both|given");
	nic_open(&nic, opt.dev);
	connect_ends(how);
	say("CONNECTED");
	hear("go"); /* protected */
	if (!strcmp(how, "given"))
		set_rights(&ends[1], all);
	expect(true, 1);
	if (!strcmp(how, "before"))
		set_rights(&ends[1], READ_ONLY);
	say("READY");
	hear("moved");
	if (strcmp(how, "before")) {
		expect(true, 2);
		if (!strcmp(how, "after"))
			set_rights(&ends[1], READ_ONLY);
	}
	say("THERE");
	hear("back");
	if (strcmp(how, "before") && strcmp(how, "after"))
		expect(true, 3);
	if (!strcmp(how, "both"))
		set_rights(&ends[1], READ_ONLY);
	if (strcmp(how, "given"))
		expect(false, 4);
	say("OK");
	for (int i = 0; i < ENDS; i++)
		conn_free(&ends[i]);
	nic_close(&nic);
	return 0;
}
