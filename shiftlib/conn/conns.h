/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The table of all connections. */
#ifndef SHIFTLIB_CONN_CONNS_H
#define SHIFTLIB_CONN_CONNS_H

#include <stdatomic.h>
#include <stdint.h>
#include "shiftlib/base/list.h"
#include "shiftlib/base/timers.h"
#include "shiftlib/conn/pace.h"
#include "shiftlib/conn/parts/state.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"

struct sh_qp;

#define SH_CONNS_PASSES 16 /* passes of the look; each connection is in one of them */

struct sh_conns {
	struct list_node qps;
	struct sh_qp **by_id; /* connections by conn_id; [0] is unused */
	uint32_t room, next_id;
	/* random numbers for connections to come, many by one system call */
	uint32_t nonces[64], n_nonces;
	struct sh_timers timers; /* timers of connections, with room for all of them */
	struct list_node touched;
	uint64_t audit_at; /* next look whether somebody forgot to touch */
	uint32_t guarded;  /* connections that may move */
	uint32_t away; /* connections that have moved, or begun to: their peers translate keys */
	uint32_t moving, faulted; /* connections in a move; connections that hear of a fault now */
	struct sh_pace pace;
	struct sh_spread spread[SH_MAX_NICS]; /* by index */
	struct sh_qp *_Atomic mail; /* stack of QPs with pending bits, pushed by the data path */
	uint64_t check_at;	    /* next look for errors that nobody polls */
	uint32_t check_pass;
	uint32_t owed;	   /* connections whose error is withheld until its cause is known */
	uint32_t unknown;  /* connections with keys that are not known */
	uint32_t roomless; /* connections whose completion queues have no room for a flush */
	struct list_node suspects; /* connections that may have such keys */
	uint32_t n_suspects;
	struct list_node pool; /* QPs made ahead, of all NICs: parts/pool.c */
};

extern struct sh_conns sh_conns;

struct sh_qp *sh_conns_find(uint32_t conn_id) SH_LOCKED; /* NULL: nobody has that number */
/* Gives the connection a number, a nonce, and room for its timer. 0 or -ENOMEM. */
int sh_conns_add(struct sh_qp *qp) SH_LOCKED;
void sh_conns_remove(struct sh_qp *qp) SH_LOCKED;
/* Nobody has it for his own: it has no backup. */
bool sh_conns_spare(const struct sh_nic *nic) SH_LOCKED;

extern const struct sh_module sh_conns_module;

#endif
