/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The quiesce of a move: nothing runs on the carriers that are left. */
#ifndef SHIFTLIB_CONN_QUIESCE_H
#define SHIFTLIB_CONN_QUIESCE_H

#include <stdint.h>
#include "shiftlib/loop/loop.h"

struct ibv_context;
struct sh_carrier;
struct sh_conn_part;
struct sh_nic;
struct sh_qp;

enum sh_quiesce {
	SH_QUIESCE_NONE,
	SH_QUIESCE_COMMAND,  /* the command to ERR is under way */
	SH_QUIESCE_FLUSHING, /* the command returned; flush completions are awaited */
	SH_QUIESCE_SICK,     /* flush completions do not come: told, and looked at now and then */
	SH_QUIESCE_DONE,
};

/* In struct sh_qp. */
struct sh_qp_quiesce {
	enum sh_quiesce phase;
	uint32_t epoch; /* carriers before it */
	uint32_t keys;	/* the last of our journal when it began */
	uint64_t begun, since, next_at, interval;
	uint64_t recount_at; /* RECOUNT that has no answer yet; else 0 */
};

/* epoch: that of the carrier to come; all before it are left. */
void sh_quiesce_begin(struct sh_qp *qp, uint32_t epoch) SH_LOCKED;
void sh_quiesce_recount(struct sh_qp *qp) SH_LOCKED;
/* True if the move leaves the carrier; true if its driver destroyed it. */
bool sh_quiesce_left(const struct sh_qp *qp, const struct sh_carrier *carrier) SH_LOCKED;
bool sh_quiesce_removed(const struct sh_qp *qp, const struct sh_carrier *carrier) SH_LOCKED;
/* Does the carrier's QP execute nothing more? */
bool sh_quiesce_over(const struct sh_qp *qp, const struct sh_carrier *carrier) SH_LOCKED;
/* Is that so of all carriers that are left, or are they in ERR? */
bool sh_quiesce_stopped(const struct sh_qp *qp) SH_LOCKED;
/* Has what its NIC acknowledged reached memory? */
bool sh_quiesce_drained(const struct sh_qp *qp, const struct sh_carrier *carrier) SH_LOCKED;
/* True if that is not known yet of a carrier. */
bool sh_quiesce_drain_unknown(const struct sh_qp *qp) SH_LOCKED;
/* The peer has said that nothing of it is on its way to the carriers that are left. */
void sh_quiesce_peer_left(struct sh_qp *qp) SH_LOCKED;
void sh_quiesce_seal(struct sh_qp *qp) SH_LOCKED;
void sh_quiesce_poll(struct sh_qp *qp, uint64_t now) SH_LOCKED; /* how far is it flushed? */
/* Something new is known of a NIC. */
void sh_quiesce_poll_all(void) SH_LOCKED;
void sh_quiesce_poll_awaited(void) SH_LOCKED; /* a command takes too long, or its NIC is sick */
/* The kernel has destroyed all queue pairs of this context. */
void sh_quiesce_context_over(const struct ibv_context *context) SH_LOCKED;
void sh_quiesce_nic_reopened(const struct sh_nic *nic) SH_LOCKED;

extern const struct sh_module sh_quiesces_module;
extern const struct sh_conn_part sh_quiesce_part;

#endif
