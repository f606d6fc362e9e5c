/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What a command goes through before it acts: a NIC that hangs, takes its time, or is dead. */
#ifndef SIMNIC_HOST_GATE_H
#define SIMNIC_HOST_GATE_H

#include <stdbool.h>
#include <stdint.h>

struct sn_ctx;

enum sn_gate {
	SN_GATE_FREE, /* no firmware asked: file descriptors, address handles */
	SN_GATE_COMMAND,
	SN_GATE_DESTROY, /* "succeeds" on a NIC with an internal error */
	SN_GATE_MODIFY,	 /* likewise for 2ERR and 2RST; the handler looks itself */
};
/* What a command takes beside what every command does. */
struct sn_wait {
	uint64_t route_ns; /* first, of its caller alone: the kernel asks for a MAC */
	uint64_t line_ns;  /* of the NIC's time: who is behind it in line waits too */
};
int sn_gate_pass(struct sn_ctx *ctx, enum sn_gate gate, const struct sn_wait *wait);
bool sn_gate_internal_error(const struct sn_ctx *ctx);

#endif
