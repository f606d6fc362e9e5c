/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The rules of what a program is told of an event of librdmacm's. Pure. */
#ifndef SHIFTLIB_CM_RULES_H
#define SHIFTLIB_CM_RULES_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>

enum sh_cm_verdict {
	SH_CM_PASS,
	SH_CM_TAKE, /* the program does not see it */
	SH_CM_ASK,  /* kept, until it is known whether a fault has caused it */
};

/* How the connection stands of the queue pair that an id has. */
enum sh_cm_standing {
	SH_CM_FOREIGN, /* SHIFT masks no fault of it: there is none, or it is not protected */
	SH_CM_ALIVE,   /* protected, and both ends go on */
	SH_CM_ENDED,   /* no longer protected: one end has said that it is over */
};

/* The state of one id. */
struct sh_cm_known {
	enum sh_cm_standing standing;
	bool established;
	bool leaves; /* the program has called rdma_disconnect() */
	bool told;   /* true if its program has heard of the end */
	bool orphan; /* the kernel has given it up, or was told by the peer's to */
	/*
	 * A fault of the path that the kernel knows is under way, or the connection has left that
	 * path.
	 */
	bool fault;
};

enum sh_cm_verdict sh_cm_judge(enum rdma_cm_event_type event, const struct sh_cm_known *known);

/* The fate of events that were kept, when it is time to decide. */
enum sh_cm_end {
	SH_CM_HAND_OVER,
	SH_CM_FORGET, /* part of a fault that the connection outlives */
	SH_CM_WAIT,   /* nothing was kept yet: the kernel's own word is to come */
};

/* known->orphan: the kernel's word cannot come any more. alive: the peer was heard of since. */
enum sh_cm_end sh_cm_decide(const struct sh_cm_known *known, bool ending, bool alive);
const char *sh_cm_verdict_name(enum sh_cm_verdict verdict);

#endif
