/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The table of the commands that the firmware knows. */
#ifndef SIMNIC_PCI_OPCODE_H
#define SIMNIC_PCI_OPCODE_H

#include <stdint.h>

#include "simnic/pci/numbers.h"

struct sn_pci;
struct sn_command;

/*
 * Executes a command: a status (enum sn_status). Answers are written to cmd->out, but for the
 * status.
 */
typedef uint8_t sn_handler(struct sn_pci *pci, struct sn_command *cmd);

struct sn_opcode {
	uint16_t opcode;
	const char *name; /* as the PRM spells it */
	sn_handler *handler;
	enum sn_kind
		kind; /* of the number that sn_give_number() and sn_drop_number() give and take */
};

/* NULL: the firmware does not know the command. */
const struct sn_opcode *sn_opcode_find(uint16_t opcode);

#endif
