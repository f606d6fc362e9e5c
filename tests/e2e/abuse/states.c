// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The states of a connected queue pair, as ibv_modify_qp() and ibv_query_qp() tell of them: says what it saw,
 * and the runner compares that with what it says on stock.
 */
#include "abuse.h"

static int state_of(struct conn *c)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	must_zero(ibv_query_qp(c->qp, &attr, IBV_QP_STATE, &init), "ibv_query_qp");
	return (int)attr.qp_state;
}

static void to_state(struct conn *c, enum ibv_qp_state state, int more, const char *name)
{
	struct ibv_qp_attr attr = { .qp_state = state,
				    .cur_qp_state = IBV_QPS_RTR,
				    .max_rd_atomic = 2,
				    .qp_access_flags = IBV_ACCESS_LOCAL_WRITE,
				    .port_num = PORT,
				    .min_rnr_timer = 12 };
	int ret = ibv_modify_qp(c->qp, &attr, IBV_QP_STATE | more);

	say("STATES %s: %d, then %d", name, ret, state_of(c));
}

/* What no specification allows changes nothing. */
static void refused(struct conn *c)
{
	to_state(c, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "to INIT");
	to_state(c, IBV_QPS_RTR, 0, "to RTR");
	to_state(c, IBV_QPS_SQE, 0, "to SQE");
	to_state(c, IBV_QPS_SQD, 0, "to SQD"); /* no ConnectX has it */
	to_state(c, IBV_QPS_RTS, IBV_QP_MAX_QP_RD_ATOMIC, "to RTS with what RTS does not take");
	to_state(c, IBV_QPS_RTS, IBV_QP_CUR_STATE, "to RTS from where it is not");
}

static void taken(struct conn *c)
{
	to_state(c, IBV_QPS_RTS, 0, "to RTS");
	to_state(c, IBV_QPS_RTS, IBV_QP_MIN_RNR_TIMER, "to RTS with a timer");
}

void run_states(void)
{
	struct nic nic;
	struct conn c;

	abuse_begin(&nic, &c);
	conn_talk(&c, 20);
	refused(&c);
	meet();
	conn_talk(&c, 20);
	taken(&c);
	conn_talk(&c, 20);
	meet();
	to_state(&c, IBV_QPS_ERR, 0, "to ERR");
	to_state(&c, IBV_QPS_RTS, 0, "from ERR to RTS");
	to_state(&c, IBV_QPS_SQD, 0, "from ERR to SQD");
	to_state(&c, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
		 "from ERR to INIT");
	meet();
	conn_free(&c);
	nic_close(&nic);
}
