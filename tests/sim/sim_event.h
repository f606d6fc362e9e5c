/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What happens in virtual time: events of the queue, and what they carry. */
#ifndef TESTS_SIM_SIM_EVENT_H
#define TESTS_SIM_SIM_EVENT_H

#include "shiftlib/core/core.h"

enum sim_event_type {
	SIM_EV_POST, /* the application posts its next request */
	SIM_EV_POST_RECV,
	SIM_EV_POLL,
	SIM_EV_TRANSMIT, /* a QP sends its next packet; arg: QP */
	SIM_EV_RETRY,	 /* its retry timer; arg: QP */
	SIM_EV_PACKET,
	SIM_EV_MESSAGE, /* control */
	SIM_EV_CORE,	/* an event reaches the core */
	SIM_EV_TIMER,	/* of the core */
	SIM_EV_COMMAND, /* the worker of a NIC carries it out */
	SIM_EV_FLUSH,	/* the shell waits for a flush no longer */
	SIM_EV_WATCH,	/* the shell looks for completions that nobody polls */
	SIM_EV_VIEW,	/* a host notices the state of a path; arg: path */
	SIM_EV_STEADY,	/* the hold-down of a path is over; arg: path */
	SIM_EV_UID,	/* a client of the library uid/ goes on; arg: with what */
	SIM_EV_THIRD,	/* somebody else looks at a cell of an end's memory; arg: cell */
	SIM_EV_FAULT,	/* arg: index into faults */
	SIM_EV_HEAL,	/* arg: index into faults */
	SIM_EV_HEAL_ALL,
};

struct sim_event {
	uint64_t at;
	uint32_t order;	   /* ties are broken by age */
	uint8_t type, who; /* end, or host */
	uint16_t arg, payload;
	uint32_t generation;
};

enum sim_packet_type { SIM_PK_REQUEST, SIM_PK_ACK, SIM_PK_RESPONSE, SIM_PK_RNR, SIM_PK_NAK };

struct sim_packet {
	uint8_t type, from, path, entry, part;
	bool held;	   /* for longer than the lifetime of a packet */
	uint16_t src, dst; /* QPs */
	uint32_t psn;
	uint32_t low, high; /* of a READ or atomic */
	uint64_t data[4];   /* of one of the library uid/ */
};

/* What does the word of that carrier say? It says, if known, that so many requests ran. */
struct sim_log_message {
	bool says, known;
	uint32_t carrier, number;
};

struct sim_message {
	uint8_t from, path;
	bool unknown, standby, log;
	struct sc_msg_standby standby_msg;
	struct sc_msg_state state_msg;
	struct sim_log_message log_msg;
};

struct sim_command {
	uint8_t end, action; /* enum sc_action_type */
	uint8_t path;
	bool late; /* it hung, and comes back */
	uint16_t qpn;
	uint32_t epoch;
	struct sc_address address;
};

union sim_payload {
	struct sim_packet packet;
	struct sim_message message;
	struct sim_command command;
	struct sc_event core;
};

#endif
