/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The gate that a command passes before it acts: a NIC that hangs, takes its time, or is dead. */
#ifndef SIMNIC_HOST_GATE_H
#define SIMNIC_HOST_GATE_H

#include <stdbool.h>
#include <stdint.h>

struct sn_ctx;
struct sn_nic;

enum sn_gate {
	SN_GATE_FREE, /* no firmware asked: file descriptors, address handles, what is cached */
	SN_GATE_DROP, /* no firmware asked: a handle goes, also of a device that is gone */
	SN_GATE_OPEN, /* the context of a file */
	SN_GATE_COMMAND,
	SN_GATE_DESTROY, /* "succeeds" after an internal error, and when the device is gone */
	/* The same by two commands, reset and destroy; "succeeds" also if both time out. */
	SN_GATE_DESTROY_QP,
	SN_GATE_MODIFY, /* 2ERR and 2RST "succeed" there, too; the handler checks which */
};
/* Time that a command takes beside the time of every command. */
struct sn_wait {
	uint64_t route_ns; /* first, its caller's own: the kernel asks for a MAC */
	uint64_t line_ns;  /* the NIC's time: commands behind it in line wait too */
};
/*
 * 0, or -errno by which the command fails. A command that the NIC does not execute in time
 * (`simnicctl timeout`) fails with -ETIMEDOUT.
 */
int sn_gate_pass(struct sn_ctx *ctx, enum sn_gate gate, const struct sn_wait *wait);
/* Waits for a command of the kernel's own that destroys something, whatever comes of it. */
void sn_gate_destroyed(const struct sn_ctx *ctx);
/* Waits as the read of a file does for which the driver asks the NIC; 0 or -ETIMEDOUT. */
int sn_gate_file(const struct sn_nic *nic);
bool sn_gate_internal_error(const struct sn_ctx *ctx);

#endif
