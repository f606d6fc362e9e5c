/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The events of librdmacm on their way to the program: some are taken away, some are made up. A
 * made-up event comes when the kernel has woken its channel: by an id of ours on that channel (a
 * poke), which resolves an address of this host and is gone again.
 */
#ifndef SHIFTLIB_CM_EVENTS_H
#define SHIFTLIB_CM_EVENTS_H

#include <stdint.h>

#include "shiftlib/cm/rules.h"
#include "shiftlib/shift.h"

struct ibv_qp;

/*
 * The questions to the rest of SHIFT. The oracle's lock is taken before ours, and never over a
 * call to librdmacm.
 */
struct sh_cm_oracle {
	void (*lock)(void);
	void (*unlock)(void);
	/* called with the oracle's lock held: */
	bool (*knows)(const struct ibv_qp *qp); /* and tells when it goes */
	enum sh_cm_standing (*standing)(const struct ibv_qp *qp);
	/* Asks soon whether its peer lives. */
	void (*doubt)(const struct ibv_qp *qp, uint64_t until);
	/* Time at which the peer's instance was last heard of; 0: never. */
	uint64_t (*heard_at)(const struct ibv_qp *qp);
	/*
	 * True if its default path has a fault, or it has left that path: the kernel's word may
	 * not come.
	 */
	bool (*fault)(const struct ibv_qp *qp);
	void (*wake_at)(uint64_t at); /* sh_cm_events_run() is due then */
	void (*thread_inside)(void);
	/* Called without any lock: would a thread that polls the channel find something? */
	bool (*readable)(const struct rdma_event_channel *channel);
	uint64_t patience_ns; /* a peer that lives is heard of in this time */
};

/* Once; and in the child of a fork, where nothing of the parent counts. */
void sh_cm_events_reset(const struct sh_cm_oracle *oracle);
/* The connection of that QP is over, and the peer has said so. Oracle's lock held. */
void sh_cm_events_ended(const struct ibv_qp *qp);
/* The QP is destroyed. Oracle's lock held. */
void sh_cm_events_qp_gone(const struct ibv_qp *qp);
/* Does what is due. Returns when it is due next; 0: never. Oracle's lock held. */
uint64_t sh_cm_events_run(uint64_t now);

int sh_cm_events_get(const struct shift_cm_real *real, struct rdma_event_channel *channel,
		     struct rdma_cm_event **event);
int sh_cm_events_ack(const struct shift_cm_real *real, struct rdma_cm_event *event);
/* The program disconnects. True: the kernel knows that id no more, and its QP has to go to ERR. */
bool sh_cm_events_disconnect(struct rdma_cm_id *id);
int sh_cm_events_destroy(const struct shift_cm_real *real, struct rdma_cm_id *id);
/* @channel: NULL for one of the id's own. */
int sh_cm_events_migrate(const struct shift_cm_real *real, struct rdma_cm_id *id,
			 struct rdma_event_channel *channel);

#endif
