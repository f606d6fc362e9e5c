/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The actions of a move behind its quiesce. */
#ifndef SHIFTLIB_CONN_MOVE_H
#define SHIFTLIB_CONN_MOVE_H

#include <infiniband/verbs.h>
#include <stdint.h>
#include "shiftlib/base/locked.h"
#include "shiftlib/core/core.h"

struct sh_conn_part;
struct sh_qp;
struct sp_request;

/* The application gets errors: when no NIC executes anything of the connection any more. */
struct sh_qp_ending {
	bool on, over;
	enum ibv_wc_status first;
	uint32_t vendor_err, delivered;
	uint64_t at; /* a NIC that has not obeyed by then is not waited for; 0: it is over */
};

struct sh_qp_error {
	enum ibv_wc_status status;
	uint32_t vendor_err;
	/* number of requests that settling completed before it forbade the rest */
	uint32_t delivered;
	bool peer_overran; /* the peer leaves as a completion queue of its overran */
	bool peer_outran;  /* and that is its program's error */
	bool fails;	   /* sh_move_fail() comes, whatever the core says */
	bool erred;	   /* the move failed by the program's own error */
	struct sh_qp_ending ending;
};

/* Withheld for a key that is not known yet. */
struct sh_qp_publish {
	uint64_t at, since;
};

/* All that is published and has not completed, *n requests, in posting order; free() it. NULL: no
 * memory. */
struct sp_request *sh_move_outstanding(struct sh_qp *qp, uint32_t *n) SH_LOCKED;
void sh_move_lay(struct sh_qp *qp, uint32_t epoch) SH_LOCKED;
void sh_move_settle(struct sh_qp *qp, const struct sc_action *action) SH_LOCKED;
/* Withholds sends from now on; collects complete ones before. */
void sh_move_withhold(struct sh_qp *qp) SH_LOCKED;
void sh_move_fail(struct sh_qp *qp, enum sc_reason reason) SH_LOCKED;
void sh_move_key_missing(struct sh_qp *qp) SH_LOCKED;
void sh_move_publish(struct sh_qp *qp, uint64_t now) SH_LOCKED;

extern const struct sh_conn_part sh_publish_part;

#endif
