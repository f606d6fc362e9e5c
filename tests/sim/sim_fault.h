/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What goes wrong, where, and at which moment of the protocol. */
#ifndef TESTS_SIM_SIM_FAULT_H
#define TESTS_SIM_SIM_FAULT_H

#include "shiftlib/core/core.h"

struct sim_world;

enum sim_fault_kind {
	SIM_FAULT_RAIL,	   /* silent */
	SIM_FAULT_PORT,	   /* with an event at one end or both */
	SIM_FAULT_ONE_WAY, /* what this host sends is lost */
	SIM_FAULT_ACKS,	   /* acknowledgements and responses of this host are lost */
	SIM_FAULT_ZOMBIE,  /* the NIC says that it obeys, and goes on */
	SIM_FAULT_FROZEN,  /* it hangs, with all commands */
	SIM_FAULT_DISASSOCIATED,
	SIM_FAULT_DRAIN,   /* the operator sends the traffic away */
	SIM_FAULT_BLINK,   /* heartbeats are lost, nothing else */
	SIM_FAULT_ALARM,   /* a false one, of the carrier in use */
	SIM_FAULT_STANDBY, /* the standby is lost */
	SIM_FAULT_HALT,	   /* a process; and a port for a while */
	SIM_FAULT_KILL,
	SIM_FAULT_CLOSE,
	SIM_FAULT_RESET, /* the application puts its QP to ERR */
	SIM_FAULT_KINDS,
};

/* What a fault waits for: a moment of the protocol at any end, or a time. */
enum sim_trigger {
	SIM_AT_TIME,
	SIM_AT_WAIT_SIGNALED,
	SIM_AT_WAIT_DRAINED,
	SIM_AT_FENCED,
	SIM_AT_QUIESCING,
	SIM_AT_COUNTING,
	SIM_AT_AWAITING_COUNT,
	SIM_AT_SETTLING,
	SIM_AT_STRANDED,
	SIM_AT_FALLBACK,
	SIM_AT_STANDBY_MADE,
	SIM_AT_STANDBY_READY,
	SIM_AT_ANY_MOVE,
	SIM_TRIGGERS,
};

enum sim_aim { SIM_AIM_ACTIVE, SIM_AIM_STANDBY, SIM_AIM_BOTH, SIM_AIM_DEFAULT, SIM_AIM_ANY };

struct sim_fault {
	uint8_t kind, trigger, aim;
	uint8_t end;   /* that it was aimed at; its host is where it strikes */
	uint8_t paths; /* mask */
	uint8_t again; /* it flaps so often */
	bool fired;
};

void sim_fault_init(struct sim_world *w);
void sim_fault_apply(struct sim_world *w, uint32_t index);
void sim_fault_heal(struct sim_world *w, uint32_t index);
void sim_fault_heal_all(struct sim_world *w);
void sim_fault_step(struct sim_world *w, uint32_t end, const struct sc_actions *out);
/* The application closes that end. */
void sim_fault_close(struct sim_world *w, uint32_t end);
const char *sim_trigger_name(enum sim_trigger trigger);

/* The process of this host is halted at this moment. */
bool sim_fault_halted(const struct sim_world *w, uint32_t host);

#endif
