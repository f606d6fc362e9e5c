/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The checks, their verdicts, and what they share. check.c has the table. */
#ifndef PROBE_CHECK_H
#define PROBE_CHECK_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "tools/probe/dev.h"
#include "tools/probe/end.h"
#include "tools/probe/peer.h"
#include "tools/probe/probe.h"

enum pr_verdict { PR_HOLDS, PR_FAILS, PR_CANNOT_TELL };
const char *pr_verdict_name(enum pr_verdict verdict);

struct pr_result {
	const struct pr_check *check;
	enum pr_verdict verdict;
	char reason[PR_WHY_MAX];
	json_t *evidence;
	double seconds;
};

/* The link of the NIC under test, which some checks take down. */
struct pr_link {
	const char *down_command, *up_command;
	bool by_hand, prepared, is_down;
	uint64_t down_ns; /* when it was seen to be, or the command was begun */
	struct pr_end self;
	struct ibv_cq *ud_cq;
	struct ibv_qp *ud;
	struct ibv_ah *ud_ah;
};

/* The means of every check. */
struct probe {
	struct pr_dev dev;
	struct pr_peer peer;
	struct pr_link link;
	bool loopback; /* the peer is on the same NIC */
};

struct pr_check {
	const char *name;
	const char *assumption; /* one sentence */
	const char *otherwise;	/* consequence for SHIFT, or SDR, if it fails */
	enum pr_verdict (*run)(struct probe *p, struct pr_result *r);
	bool link;    /* the check takes the link down, or finds it down */
	bool any_nic; /* the check needs no rings, so no mlx5 */
};

extern const struct pr_check pr_checks[];
extern const unsigned pr_n_checks;

void pr_note(struct pr_result *r, const char *name, long long value);
void pr_note_real(struct pr_result *r, const char *name, double value);
void pr_note_text(struct pr_result *r, const char *name, const char *value);
/* Says why, and gives the verdict. */
enum pr_verdict pr_fails(struct pr_result *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
enum pr_verdict pr_cannot_tell(struct pr_result *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

enum pr_verdict check_nop_order(struct probe *p, struct pr_result *r);
enum pr_verdict check_fence(struct probe *p, struct pr_result *r);
enum pr_verdict check_cqe_order(struct probe *p, struct pr_result *r);
enum pr_verdict check_write_send(struct probe *p, struct pr_result *r);
enum pr_verdict check_self_read(struct probe *p, struct pr_result *r);
enum pr_verdict check_withheld(struct probe *p, struct pr_result *r);
enum pr_verdict check_blueflame(struct probe *p, struct pr_result *r);
enum pr_verdict check_cqe_format(struct probe *p, struct pr_result *r);
enum pr_verdict check_scatter(struct probe *p, struct pr_result *r);
enum pr_verdict check_atomics(struct probe *p, struct pr_result *r);
enum pr_verdict check_flush_sends(struct probe *p, struct pr_result *r);
enum pr_verdict check_flush_recvs(struct probe *p, struct pr_result *r);
enum pr_verdict check_flush_late(struct probe *p, struct pr_result *r);
enum pr_verdict check_error_index(struct probe *p, struct pr_result *r);
enum pr_verdict check_retry_time(struct probe *p, struct pr_result *r);
enum pr_verdict check_late_write(struct probe *p, struct pr_result *r);
enum pr_verdict check_err_psn(struct probe *p, struct pr_result *r);
enum pr_verdict check_cut_psn(struct probe *p, struct pr_result *r);
enum pr_verdict check_psn_cost(struct probe *p, struct pr_result *r);
enum pr_verdict check_log_order(struct probe *p, struct pr_result *r);
enum pr_verdict check_atomic_scope(struct probe *p, struct pr_result *r);
enum pr_verdict check_reset_reuse(struct probe *p, struct pr_result *r);
enum pr_verdict check_srq_last(struct probe *p, struct pr_result *r);
enum pr_verdict check_srq_taker(struct probe *p, struct pr_result *r);
enum pr_verdict check_qpn_reuse(struct probe *p, struct pr_result *r);
enum pr_verdict check_cmd_cost(struct probe *p, struct pr_result *r);
enum pr_verdict check_netdev(struct probe *p, struct pr_result *r);
enum pr_verdict check_bus_master(struct probe *p, struct pr_result *r);
enum pr_verdict check_pkey_drops(struct probe *p, struct pr_result *r);
enum pr_verdict check_port_event(struct probe *p, struct pr_result *r);
enum pr_verdict check_loopback_down(struct probe *p, struct pr_result *r);
enum pr_verdict check_ud_survives(struct probe *p, struct pr_result *r);
enum pr_verdict check_verbs_flush(struct probe *p, struct pr_result *r);
enum pr_verdict check_verbs_acked(struct probe *p, struct pr_result *r);
enum pr_verdict check_verbs_post_err(struct probe *p, struct pr_result *r);
enum pr_verdict check_verbs_send_limit(struct probe *p, struct pr_result *r);
enum pr_verdict check_verbs_srq_last(struct probe *p, struct pr_result *r);
enum pr_verdict check_verbs_empty_write(struct probe *p, struct pr_result *r);
enum pr_verdict check_verbs_mixed(struct probe *p, struct pr_result *r);
enum pr_verdict check_verbs_state_word(struct probe *p, struct pr_result *r);
enum pr_verdict check_verbs_extended(struct probe *p, struct pr_result *r);
enum pr_verdict check_uc_order(struct probe *p, struct pr_result *r);
enum pr_verdict check_uc_dup(struct probe *p, struct pr_result *r);
enum pr_verdict check_uc_dry(struct probe *p, struct pr_result *r);
enum pr_verdict check_uc_key(struct probe *p, struct pr_result *r);
enum pr_verdict check_uc_rate(struct probe *p, struct pr_result *r);
enum pr_verdict check_window_all_qps(struct probe *p, struct pr_result *r);
enum pr_verdict check_unbind_late(struct probe *p, struct pr_result *r);
enum pr_verdict check_bind_cost(struct probe *p, struct pr_result *r);
enum pr_verdict check_null_key(struct probe *p, struct pr_result *r);
enum pr_verdict check_umr_offset(struct probe *p, struct pr_result *r);

/* check_link.c: 0, or -1 with a sentence: it could not be done, or may not. */
int pr_link_down(struct probe *p);
int pr_link_up(struct probe *p);
/* Brings it up again where a check left it down. */
void pr_link_restore(struct probe *p);
void pr_link_free(struct probe *p);

#endif
