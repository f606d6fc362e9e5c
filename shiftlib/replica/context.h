/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Contexts that the application has opened, and the tables of what it made. */
#ifndef SHIFTLIB_REPLICA_CONTEXT_H
#define SHIFTLIB_REPLICA_CONTEXT_H

#include "shiftlib/base/keymap.h"
#include "shiftlib/base/table.h"
#include "shiftlib/core/state.h"
#include "shiftlib/facade/held.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"

/* An opened context of the application. */
struct sh_ctx {
	struct list_node link;
	struct ibv_context *ctx;
	struct sh_removal removal; /* the removal of that context */
	uint32_t incarnation;	   /* the NIC's incarnation when it was opened */
	struct sp_dev *dev;	   /* NULL: foreign */
	struct sh_nic *nic;
	struct sh_nic *path[SC_MAX_PATHS]; /* NICs of the paths: nic, then its backups */
	uint32_t n_paths;
	bool replica[SC_MAX_PATHS]; /* wanted */
	bool needed;		    /* some standby was made, or begun */
	/* QPs of SHIFT's there that a peer was let send to, until they are destroyed. */
	uint32_t reached[SC_MAX_PATHS];
	uint32_t moving; /* connections in a move, or in a switch that may lead to one */
	uint32_t late[SC_MAX_PATHS]; /* late.c: shadows that are still to be deregistered */
	struct sh_async *async;
	const char *why; /* foreign, or without a backup: the reason */
	struct sh_handler async_handler;
	struct sh_held held; /* events that the application has not heard yet */
	bool dead;	     /* true once its device has reported its end */
	bool death_masked;   /* and some connection has outlived that */
	bool prepared;	     /* NICs opening: some RC QP was made */
	bool opens_more;     /* further backups are opened behind the first */
	uint32_t n_self;     /* QPs that are connected to themselves */
	uint32_t n_direct;   /* queue pairs that the program has made by DEVX so far */
	/* QPs by port (0: not known) and by what a fault of the NIC is to them: conn/users.h */
	uint32_t users[SH_HELD_PORTS + 1][SH_USERS];
	struct sh_keymap lkeys[SC_MAX_PATHS]; /* own lkey -> the replica's; lock-free readers */
	uint32_t debts;	 /* object/debt.c: what is being destroyed there, or waits for it */
	bool debts_left; /* the first of them takes longer than a command may */
	struct list_node pds, cqs, srqs;
	struct {
		bool valid;
		struct ibv_port_attr attr;
	} port[2]; /* last good answers, port 1.. */
};

struct sh_objects {
	struct list_node ctxs, dead_ctxs;
	struct sh_table by_pd, by_mr, by_cq, by_qp, by_srq; /* pointer -> object */
	struct sh_table by_parent;			    /* parent domain -> struct sh_parent */
	struct sh_busy deregs; /* shadows of regions that are being deregistered */
};

extern struct sh_objects sh_objects;

struct sh_ctx *sh_ctx_find(struct ibv_context *context);
/* First RC QP: open NICs, replay what was recorded. */
void sh_ctx_prepare(struct sh_ctx *ctx) SH_LOCKED;

extern const struct sh_module sh_objects_module;

#endif
