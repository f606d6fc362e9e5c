/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Firmware commands. The driver writes an entry of the command queue, chains of mailboxes for input
 * and output that are longer than 16 bytes, and rings; the firmware answers in place and tells an
 * EQ.
 */
#ifndef SIMNIC_PCI_COMMAND_H
#define SIMNIC_PCI_COMMAND_H

#include <stdint.h>

#define SN_COMMANDS_LOG 5u /* log2 of the entries of the command queue */
#define SN_COMMAND_LOG	6u /* log2 of an entry's bytes */

/* Statuses of a command, as the PRM numbers them. */
enum sn_status {
	SN_OK = 0x00,
	SN_BAD_OPCODE = 0x02,
	SN_BAD_PARAM = 0x03,
	SN_BAD_RESOURCE = 0x05,
	SN_RESOURCE_BUSY = 0x06,
	SN_BAD_INDEX = 0x0a,
	SN_NO_RESOURCES = 0x0f,
	SN_BAD_INPUT_LENGTH = 0x50,
	SN_BAD_OUTPUT_LENGTH = 0x51,
};

struct sn_opcode;

struct sn_command {
	uint16_t opcode, op_mod;
	const struct sn_opcode *row; /* of the table; NULL: no such command */
	/*
	 * Both are longer than said, by the longest fixed layout: handlers need not check before
	 * each field.
	 */
	uint8_t *in, *out;
	uint32_t in_bytes, out_bytes;
};

/* The number that most commands have in the word behind their head. */
uint32_t sn_command_number(const struct sn_command *cmd);
void sn_command_give_number(struct sn_command *cmd, uint32_t number);
/* How many bytes of a list that begins at this byte the driver sent. */
uint32_t sn_command_listed(const struct sn_command *cmd, uint32_t from);

struct sn_pci;

/*
 * The driver rang for these entries. They are executed later, from sn_command_run(). Without a
 * queue, as behind a reset that the driver has not seen, nothing is read or written.
 */
void sn_command_ring(struct sn_pci *pci, uint32_t entries);
/* Executes what was rung for; nothing while the function is dead or hangs. */
void sn_command_run(struct sn_pci *pci);

#endif
