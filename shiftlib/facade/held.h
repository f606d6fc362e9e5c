/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The rule that decides which asynchronous events of a context, of its ports and of its tables
 * the program does not hear yet, and the ledger of what it is owed. Pure.
 *
 * An event is held back while it belongs to a fault that is under way, that some connection of
 * the context outlives, and that concerns nobody else. It is told when that ends: a queue pair
 * that is not protected needs it, the last masked connection has gone, or the program meets the
 * fault. Events of a single queue pair or completion queue are not judged here.
 */
#ifndef SHIFTLIB_FACADE_HELD_H
#define SHIFTLIB_FACADE_HELD_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#define SH_HELD_PORTS 2 /* events of a port beyond these are told at once */

/* The part that a queue pair has in a fault of its context's NIC. */
enum sh_user {
	SH_USER_NONE,	   /* not connected, or stopped, or all its requests have had errors */
	SH_USER_MASKED,	   /* the fault is masked from it */
	SH_USER_BYSTANDER, /* the fault hits it as without SHIFT */
	SH_USERS,
};

/* The queue pairs that an event would concern, of the whole device or of one port. */
struct sh_held_who {
	bool masked, bystander; /* some queue pair is of that kind */
	bool fault;		/* SHIFT knows of a fault that is under way there */
};

struct sh_held_view {
	struct sh_held_who device, port[SH_HELD_PORTS];
};

/* The ledger of one context. */
struct sh_held {
	uint8_t deaths;	 /* number of DEVICE_FATALs that are owed */
	bool death_told; /* true if one was told */
	bool met;	 /* the last object that the program made failed as on a dead device */
	struct {
		bool err;	/* PORT_ERR is owed, and PORT_ACTIVE has not come */
		bool told;	/* PORT_ERR was told, and PORT_ACTIVE was not */
		bool hushed;	/* the port's last fault was over before anybody heard of it */
		uint8_t tables; /* bits of the changes of tables that are owed */
	} port[SH_HELD_PORTS];
};

/* Is the event held back? The ledger has it then, unless it takes back what was owed. */
bool sh_held_keep(struct sh_held *held, const struct ibv_async_event *event,
		  const struct sh_held_view *view);
/*
 * Takes the next event that is owed and due out of the ledger. Returns why it is due; NULL:
 * nothing is due.
 */
const char *sh_held_release(struct sh_held *held, const struct sh_held_view *view,
			    struct ibv_async_event *event);
bool sh_held_owes(const struct sh_held *held);
/* Kinds of events that may be owed. count: adds what is owed of each. */
#define SH_OWED_KINDS 7
void sh_held_count(const struct sh_held *held, uint32_t owed[SH_OWED_KINDS]);
const char *sh_owed_name(uint32_t kind); /* name in the JSON of shiftctl */
/* Is the true state of that port part of what is held back? Ports count from 1. */
bool sh_held_hides(const struct sh_held *held, const struct sh_held_view *view, uint8_t port);

#endif
