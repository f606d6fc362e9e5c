// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * alternate: what ibv_modify_qp() answers to settings that few programs make of a connection: a rate, the state of path
 * migration, an alternate path; and what ibv_query_qp() tells behind that. The runner says when.
 *
 *   alternate -p PORT [-s]
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/pair.h"

enum { ALT_TIMEOUT = 15, RATE_KBPS = 1000, RNR_TIMER = 5 };

struct options opt = { .timeout = 14, .dev = "mlx5_0" };
static struct nic nic;

static void asked(const char *what, struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	must_zero(ibv_query_qp(qp, &attr,
			       IBV_QP_STATE | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE |
				       IBV_QP_MIN_RNR_TIMER | IBV_QP_ACCESS_FLAGS,
			       &init),
		  "ibv_query_qp");
	say("ASKED %s state %d, migration %d, alternate: port %d, timeout %d, P_Key %d, global %d, "
	    "GID %d; RNR timer %d, rights 0x%x",
	    what, attr.qp_state, attr.path_mig_state, attr.alt_port_num, attr.alt_timeout,
	    attr.alt_pkey_index, attr.alt_ah_attr.is_global, attr.alt_ah_attr.grh.sgid_index,
	    attr.min_rnr_timer, attr.qp_access_flags);
}

static void set(const char *what, struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	say("SET %s %d", what, ibv_modify_qp(qp, attr, mask));
	asked(what, qp);
}

static void set_rate(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .rate_limit = RATE_KBPS };

	set("rate", qp, &attr, IBV_QP_STATE | IBV_QP_RATE_LIMIT);
	set("rate-alone", qp, &attr, IBV_QP_RATE_LIMIT);
}

static void set_migrated(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .path_mig_state = IBV_MIG_MIGRATED };

	set("migrated", qp, &attr, IBV_QP_STATE | IBV_QP_PATH_MIG_STATE);
}

static void set_usual(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
				    .min_rnr_timer = RNR_TIMER,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

	set("usual", qp, &attr, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER | IBV_QP_ACCESS_FLAGS);
}

static void set_alternate(struct conn *c)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
				    .path_mig_state = IBV_MIG_REARM,
				    .alt_port_num = PORT,
				    .alt_timeout = ALT_TIMEOUT,
				    .alt_ah_attr = { .port_num = PORT,
						     .is_global = 1,
						     .dlid = c->peer.lid,
						     .grh = { .sgid_index = (uint8_t)opt.gid_index,
							      .hop_limit = 4 } } };

	memcpy(attr.alt_ah_attr.grh.dgid.raw, c->peer.gid, sizeof(c->peer.gid));
	set("alternate", c->qp, &attr, IBV_QP_STATE | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE);
}

int main(int argc, char **argv)
{
	char word[32];
	struct conn conn;

	options_seeded(argc, argv);
	line_open();
	nic_open(&nic, opt.dev);
	conn_make(&conn, &nic);
	conn_connect(&conn);
	conn_talk(&conn, 100);
	say("TALKED");
	while (fgets(word, sizeof(word), stdin) && strcmp(word, "end\n")) {
		if (!strcmp(word, "rate\n"))
			set_rate(conn.qp);
		else if (!strcmp(word, "migrated\n"))
			set_migrated(conn.qp);
		else if (!strcmp(word, "usual\n"))
			set_usual(conn.qp);
		else if (!strcmp(word, "alternate\n"))
			set_alternate(&conn);
		else
			must(!strcmp(word, "talk\n"), "a word of the runner's that is known");
		meet();
		conn_talk(&conn, 100);
		say("TALKED");
	}
	asked("end", conn.qp);
	meet();
	conn_free(&conn);
	nic_close(&nic);
	say("OK");
	return 0;
}
