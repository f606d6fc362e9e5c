/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A driver for simnic's PCI function, for tests: guest memory is an array, the command queue lies
 * at its begin, mailboxes behind it. Interrupts and wishes for work are counted. One thread.
 */
#ifndef TESTS_PCI_DRIVER_H
#define TESTS_PCI_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "simnic/pci/function.h"

enum {
	DRIVER_MEMORY = 1 << 20,
	DRIVER_QUEUE = 0x1000,
	DRIVER_BOXES = 0x2000, /* of the input; those of the output are behind them */
	DRIVER_OUT_BOXES = 0x20000,
	DRIVER_FREE = 0x40000, /* from here on tests place what they want */
	DRIVER_MAX = 8192,     /* longest input and output */
};

struct driver {
	struct sn_pci *pci;
	uint8_t memory[DRIVER_MEMORY];
	uint8_t in[DRIVER_MAX], out[DRIVER_MAX];
	uint32_t interrupts, last_vector;
	uint32_t work_wanted, work_ms;
	uint8_t token;
	uint32_t bad_accesses;	/* outside of memory */
	_Atomic uint32_t wakes; /* from any thread */
	uint32_t strays;
	uint64_t last_stray;
	bool stray_wrote;
};

/* A function of the link layer, with the command queue set up. */
void driver_start(struct driver *driver, bool ethernet);
void driver_stop(struct driver *driver);
/* Tells the function where the command queue is; again after a reset. */
void driver_set_queue(struct driver *driver);

/*
 * Writes a command with driver->in as its input into entry `index`, and rings. Nothing is executed
 * yet.
 */
void driver_ring(struct driver *driver, uint32_t index, uint16_t opcode, uint16_t op_mod,
		 uint32_t in_bytes, uint32_t out_bytes);
/*
 * Lets the function work, then reads the answer into driver->out. False: the entry still belongs to
 * the firmware.
 */
bool driver_take(struct driver *driver, uint32_t index, uint32_t out_bytes);
/* Both, with entry 0: the status of the command, or 0x100 + the status of its delivery. */
uint32_t driver_command(struct driver *driver, uint16_t opcode, uint16_t op_mod, uint32_t in_bytes,
			uint32_t out_bytes);
/* Makes an EQ of 2^log entries at an address, for the types of the mask; its number. */
uint32_t driver_eq(struct driver *driver, uint64_t at, uint32_t log, uint64_t types);
/* The EQ's doorbell. */
void driver_eq_doorbell(struct driver *driver, uint32_t eqn, uint32_t consumed, bool arm);

#endif
