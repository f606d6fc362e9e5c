/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The paths of connections, as the core is told of them. */
#ifndef SHIFTLIB_CONN_PATHS_H
#define SHIFTLIB_CONN_PATHS_H

#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/conn/turn.h"
#include "shiftlib/core/core.h"
#include "shiftlib/peer/peer.h"

struct sh_nic;
struct sh_qp;

/*
 * The paths of a connection, in struct sh_qp: by path, the peer's NIC and the control path to
 * it. Both arrays are written before qp->peer.
 */
struct sh_qp_paths {
	uint8_t peer_nics[SC_MAX_PATHS];
	struct sh_peer_path *routes[SC_MAX_PATHS];
	uint32_t n;		     /* number of paths that both ends have */
	uint8_t up, steady, drained; /* masks of paths that the core was told */
	uint32_t order;		     /* order of preference, as spread.c counted it */
	bool carried;		     /* counted for its default NIC */
	struct sh_turn turn;	     /* the connection's turn among many that move in order */
	bool fits; /* there is room for a flush, or nothing that could be flushed: it may move */
	uint8_t homed;	 /* paths that a part wants left, which count as drained for the core */
	uint32_t cannot; /* ... and what the peer is told of that */
};

void sh_paths_use_peer(struct sh_qp *qp,
		       struct sh_peer *peer) SH_LOCKED; /* sets qp->peer; NULL: none any more */
void sh_paths_changed(struct sh_qp *qp) SH_LOCKED;
void sh_paths_changed_nic(const struct sh_nic *nic) SH_LOCKED;
void sh_paths_changed_peer(const struct sh_peer *peer) SH_LOCKED;

/* A better path than the one in use that answers, and waits out its hold-down. */
struct sh_held_path {
	const struct sh_nic *nic;
	uint32_t falls;	  /* falls that are not forgotten: each one doubles the hold-down */
	uint64_t left_ns; /* rest of the hold-down; 0: the peer's, which this end does not know */
};

/*
 * False: there is no such path, a drain or a fault keeps the connection where it is, or nothing
 * moves any more.
 */
bool sh_paths_held(const struct sh_qp *qp, struct sh_held_path *held) SH_LOCKED;

#endif
