/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A QP of the application, and its connection. */
#ifndef SHIFTLIB_CONN_QP_H
#define SHIFTLIB_CONN_QP_H

#include <infiniband/verbs.h>
#include "shiftlib/base/list.h"
#include "shiftlib/conn/atomics/state.h"
#include "shiftlib/conn/carrier.h"
#include "shiftlib/conn/clock.h"
#include "shiftlib/conn/fence.h"
#include "shiftlib/conn/level.h"
#include "shiftlib/conn/mailbox.h"
#include "shiftlib/conn/meet/state.h"
#include "shiftlib/conn/move.h"
#include "shiftlib/conn/parts/state.h"
#include "shiftlib/conn/paths.h"
#include "shiftlib/conn/quiesce.h"
#include "shiftlib/conn/told/state.h"
#include "shiftlib/conn/watch/state.h"
#include "shiftlib/conn/wqelog/state.h"
#include "shiftlib/core/core.h"
#include "shiftlib/facade/held.h"
#include "shiftlib/loop/loop.h"

struct sh_cq;
struct sh_ctx;
struct sh_pd;
struct sh_peer;
struct sh_pooled;
struct sh_shadow_srq;
struct sh_srq;
struct sh_words;
struct sp_qp;

/* The last STATE of the peer, and the NICs over which it has come. */
struct sh_qp_heard {
	struct sc_msg_state state;
	uint32_t nics;
};

/* Events of actions that answer at once: the core is never entered twice. */
struct sh_qp_line {
	struct sh_events *events; /* line of the step that runs; NULL: none does */
	struct sh_qp_heard heard;
};

/* The connection at the other end, as its record in the KV names it. */
struct sh_qp_other {
	uint32_t conn, nonce;
	bool heard; /* the other end has answered: it knows this connection, too */
};

/* The GID that the application connected from. */
struct sh_qp_gid {
	uint8_t raw[16];
	bool valid;
	uint8_t kind;  /* enum sh_gid_kind; 0: not known */
	uint16_t vlan; /* 0: none */
};

/* Attributes that the application has set by its own modify calls. */
struct sh_qp_app {
	struct ibv_qp_attr attr;
	int mask;
	enum ibv_qp_state set;	 /* state set by the last modify call */
	enum ibv_qp_state state; /* state that the application believes in, ERR after errors */
};

/* A driven QP; with a connection once it is connected. */
struct sh_qp {
	struct sh_busy busy;
	enum sh_level level;   /* here, and `closed` below, as there are thousands: no holes */
	struct list_node link; /* sh_conns.qps */
	struct ibv_qp *qp;
	struct sh_ctx *ctx;
	struct sh_pd *pd;
	struct sh_cq *scq, *rcq;
	struct sh_srq *srq;		   /* NULL: none that is driven */
	struct {			   /* the application's own QP */
		struct sh_shadow_srq *srq; /* the SRQ it was made on; NULL: the application's */
	} own;
	struct sp_qp *sp;
	struct ibv_qp_init_attr_ex init; /* attributes as the application passed them */
	struct ibv_qp_cap caps;		 /* as returned */
	bool closed;			 /* its connection */
	struct {
		struct sh_private_cq
			*cq[2]; /* CQs for sends and receives of a foreign QP on driven CQs */
		bool counted;	/* counted by its CQs as a QP that no engine drives */
		bool dying;	/* was driven, and is being destroyed */
		bool refused;	/* not made through SHIFT, and cannot share its receive queue */
		bool set;	/* the program set something that SHIFT cannot repeat */
		bool alternate; /* the program loaded an alternate path */
	} foreign;
	const char *why;
	struct sh_qp_app app;

	/* the connection; conn_id 0: none */
	uint32_t conn_id, nonce;
	struct {
		bool guarded; /* core.guarded, as it was counted */
		bool moving;  /* counted as moving: its move has begun and not ended */
		bool leaving; /* or a switch that leads to one, as its context counted it */
		bool away;    /* counted as one whose peer translates keys, or is about to */
		bool waiting; /* counted as waiting: it repeats STATE */
		uint64_t waiting_since; /* time when `waiting` changed last */
		enum sh_user user;	/* and what a fault of its NIC would be to it */
		uint8_t port;		/* ... on that port */
	} counted;
	struct sc_conn core;
	struct sh_qp_other other;
	struct sh_qp_line line;
	struct sh_qp_gid gid;
	struct sh_peer *_Atomic peer; /* read on the data path too, without the lock */
	struct sh_qp_paths paths;
	struct sh_carriers carriers;
	/* Sends lie in `active`, receives in `receiving` (another one in mid-move); never NULL. */
	struct sh_carrier *active, *receiving;
	struct sh_carrier *standby; /* the last one made, until it is in use; NULL: none */
	struct sh_qp_quiesce quiesce;
	struct sh_fence fence;
	struct sh_qp_publish publish;
	struct sh_qp_error error;
	struct sh_qp_clock clock;
	struct sh_mailbox mailbox;

	struct { /* state of parts */
		struct sh_intro intro;
		struct sh_qp_detector detector;
		struct sh_qp_stall stall;
		struct sh_loopback loopback;
		struct sh_qp_stats stats;
		struct sh_qp_incident incident;
		struct sh_qp_home home;
		struct sh_words *words; /* asked of the peer behind its quiesce; NULL: none */
		struct sh_qp_log log;
		struct sh_qp_unknown unknown;
		struct sh_qp_room room;
		struct sh_qp_push push;
		struct sh_qp_inquiry *inquiry; /* NULL: nothing was ever asked */
		struct sh_pooled *pooled;      /* made ahead for it; NULL: none */
	};
};

#endif
