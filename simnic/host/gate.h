/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The gate that a command passes before it acts: a NIC that hangs, takes its time, or is dead. */
#ifndef SIMNIC_HOST_GATE_H
#define SIMNIC_HOST_GATE_H

#include <stdbool.h>
#include <stdint.h>

struct sn_ctx;

enum sn_gate {
	SN_GATE_FREE, /* no firmware asked: file descriptors, address handles */
	SN_GATE_COMMAND,
	SN_GATE_DESTROY, /* "succeeds" on a NIC with an internal error */
	SN_GATE_MODIFY,	 /* 2ERR and 2RST "succeed" there, too; the handler checks which */
};
/* Time that a command takes beside the time of every command. */
struct sn_wait {
	uint64_t route_ns; /* first, its caller's own: the kernel asks for a MAC */
	uint64_t line_ns;  /* the NIC's time: commands behind it in line wait too */
};
int sn_gate_pass(struct sn_ctx *ctx, enum sn_gate gate, const struct sn_wait *wait);
bool sn_gate_internal_error(const struct sn_ctx *ctx);

#endif
