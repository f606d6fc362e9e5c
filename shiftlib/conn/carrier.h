/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The real QPs of a connection. */
#ifndef SHIFTLIB_CONN_CARRIER_H
#define SHIFTLIB_CONN_CARRIER_H

#include "shiftlib/base/locked.h"
#include "shiftlib/conn/wqelog/state.h"
#include "shiftlib/core/core.h"
#include "shiftlib/nic/link.h"
#include "shiftlib/replica/cq.h"
#include "shiftlib/replica/srq.h"

struct sh_qp;

#define SH_MAX_CARRIERS 8 /* carriers of a connection at a time: in use, to come, given up */

/*
 * IBV_EVENT_QP_LAST_WQE_REACHED of a carrier: its NIC raised it, and it waits; the application
 * has had it.
 */
enum sh_last_receive {
	SH_LAST_RECEIVE_NONE,
	SH_LAST_RECEIVE_KEPT,
	SH_LAST_RECEIVE_TOLD,
};

/*
 * A real QP that carries a connection's traffic, did, or may. Slot 0 is the application's own. The
 * QP is made after its slot was taken; a slot that was given up meanwhile tells its maker so.
 */
struct sh_carrier {
	struct sh_nic *nic; /* NULL: the slot is free */
	uint32_t epoch;
	uint8_t path;
	uint32_t incarnation;	/* the NIC's incarnation when the QP was made */
	struct ibv_qp *qp;	/* real; NULL: being made */
	struct ibv_qp_cap caps; /* capabilities of a standby, as returned */
	struct sp_carrier *sp;
	struct sh_shadow_cq *scq, *rcq; /* NULL: the application's own */
	struct sh_shadow_srq *srq;	/* NULL: the application's own, or there is none */
	uint32_t psn;
	bool rts;    /* else RTR: the application's own QP is no further, and cannot send either */
	bool to_rts; /* the command to RTS is under way: no doorbell may be rung yet */
	bool keys_wait;	      /* made, but the peer has not heard all keys of its replica */
	uint32_t keys;	      /* journal number that it must have heard */
	uint32_t rights_jobs; /* commands under way that change its rights */
	struct sc_address address;
	uint8_t reads_told;  /* number of READs that the peer's end takes at once */
	uint16_t pkey_index; /* of its partition */
	struct sh_link_mark link;
	enum sh_last_receive last_receive;
	bool prompt;  /* connected: the NIC's prompt worker has the commands from now on */
	bool in_line; /* the other one has some: they stay together */
	bool reached; /* the peer may have sent to it: counted in the context */
	/*
	 * quiesce: the command to ERR was given, has returned; the file has no commands any
	 * more; the QP is no more
	 */
	bool to_error, in_error, lost, over;
	struct sh_carrier_log log;
};

/* In struct sh_qp. */
struct sh_carriers {
	struct sh_carrier own;	 /* slot 0: the application's own */
	struct sh_carrier *more; /* the other slots, from the first standby on; NULL: none */
	_Atomic uint64_t path[SH_MAX_CARRIERS]; /* see sh_carrier_path: on the data path */
	const char *standby_why;		/* the last one failed */
	const char *_Atomic
		refused; /* why standbys are refused; NULL: they are not. Workers read it */
};

/*
 * Returns the carrier of that slot, below SH_MAX_CARRIERS; of a free slot, a carrier without a
 * NIC.
 */
struct sh_carrier *sh_carrier_at(const struct sh_qp *qp, uint32_t slot);
/* Returns the worker for the carrier's jobs; NULL: there is none yet. */
struct sh_worker *sh_carrier_worker(struct sh_carrier *carrier);
void sh_carriers_init(struct sh_qp *qp, struct ibv_qp *real);
void sh_carriers_uninit(struct sh_qp *qp); /* all but the first are dropped */
/* The path of the carrier of that epoch, or -ENOENT; on the data path, lock-free. */
int sh_carrier_path(struct sh_qp *qp, uint32_t epoch);
struct sh_carrier *sh_carrier_find(struct sh_qp *qp, uint32_t epoch);
struct sh_carrier *sh_carrier_new(struct sh_qp *qp, uint32_t epoch, uint8_t path) SH_LOCKED;
/* True if the NIC's interface is down, or is known to have been since the carrier was made. */
bool sh_carrier_link_was_lost(const struct sh_carrier *carrier);
/* Losses of the link count from the first call on. */
void sh_carrier_link_mark(struct sh_carrier *carrier) SH_LOCKED;
bool sh_carrier_dead(const struct sh_carrier *carrier); /* nothing it says or does can be trusted */
/* A completion queue of it overran: of what completes there nobody will ever know. */
bool sh_carrier_unseen(const struct sh_qp *qp, const struct sh_carrier *carrier);
/* The same of those in use. Flushes may have come there, too: not the NIC's fault. */
bool sh_carriers_unseen(const struct sh_qp *qp);
/* True if the program has let more completions lie than its own queue holds: its error. */
bool sh_carriers_outran(const struct sh_qp *qp) SH_LOCKED;
/*
 * Counts a carrier that the peer may send to: while it is there, memory is not deregistered
 * behind it (replica/late.h).
 */
void sh_carrier_reached(struct sh_qp *qp, struct sh_carrier *carrier);
/* Collects completions, as nobody else may poll; 0 or -ENOMEM. */
int sh_carriers_collect(struct sh_qp *qp) SH_LOCKED;
void sh_carrier_drop(struct sh_qp *qp, uint32_t epoch) SH_LOCKED; /* in the background */
/* Drops carriers before that epoch, but never the first. */
void sh_carriers_drop_old(struct sh_qp *qp, uint32_t epoch) SH_LOCKED;
/* A QP of a slot that was given up while it was made. */
void sh_carrier_destroy(struct sh_qp *qp, struct sh_nic *nic, struct ibv_qp *real) SH_LOCKED;
/* Destroys the QP of a carrier, and gives back what it holds. */
void sh_carrier_destroy_held(struct sh_qp *qp, const struct sh_carrier *gone) SH_LOCKED;
/* The application went to RTS, maybe after its carriers were connected: they follow. */
void sh_carriers_to_rts(struct sh_qp *qp) SH_LOCKED;
void sh_carriers_wait_rts(struct sh_qp *qp) SH_DROPS;
/*
 * Destroys all carriers but the application's own QP. driven: the engine still knows them (after
 * a RESET); else it has forgotten the QP.
 */
void sh_carriers_drop(struct sh_qp *qp, bool driven) SH_DROPS;
/* Drops all carriers but the first, without the engine, and without waiting. */
void sh_carriers_drop_later(struct sh_qp *qp) SH_LOCKED;

#endif
