/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The actions of a move. */
#ifndef SHIFTLIB_MOVE_H
#define SHIFTLIB_MOVE_H

#include "shiftlib/nic/nic.h"

struct sh_qp;

enum sh_quiesce {
	SH_QUIESCE_NONE,
	SH_QUIESCE_COMMAND,  /* the command to ERR is under way */
	SH_QUIESCE_FLUSHING, /* it returned; flush completions are awaited */
	SH_QUIESCE_SICK,     /* they do not come: said so, and looked at now and then */
	SH_QUIESCE_DONE,
};

/* In struct sh_qp. */
struct sh_qp_quiesce {
	enum sh_quiesce phase;
	uint32_t epoch; /* carriers before it */
	uint32_t keys;	/* the last of our journal when it began */
	uint64_t since, next_at, interval;
};

struct sh_qp_error {
	enum ibv_wc_status status;
	uint32_t vendor_err;
	uint32_t delivered; /* by settle(), when it forbade the rest */
};

/* Withheld for a key that is not known yet. */
struct sh_qp_publish {
	uint64_t at, since;
};

void sh_move_quiesce(struct sh_qp *qp, uint32_t epoch);
void sh_move_recount(struct sh_qp *qp);
void sh_move_seal(struct sh_qp *qp);
void sh_move_nic_reopened(const struct sh_nic *nic);
void sh_move_collect(struct sh_qp *qp, uint64_t now);
void sh_move_lay(struct sh_qp *qp, uint32_t epoch);
void sh_move_settle(struct sh_qp *qp, uint32_t epoch, uint32_t peer_count);
void sh_move_fail(struct sh_qp *qp, enum sc_reason reason);
void sh_move_key_missing(struct sh_qp *qp);
void sh_move_publish(struct sh_qp *qp, uint64_t now);
uint64_t sh_move_next_timer(const struct sh_qp *qp);
void sh_move_timer(struct sh_qp *qp, uint64_t now);

#endif
