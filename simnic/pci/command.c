/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The command interface: entries of the queue, mailboxes, completions. */
#include <stdlib.h>
#include <string.h>

#include "simnic/pci/command.h"
#include "simnic/pci/opcode.h"
#include "simnic/pci/pci.h"

enum {
	ENTRY = 1 << SN_COMMAND_LOG,
	INLINE = 16, /* bytes of input and output inside the entry */
	HEAD = 8,
	BLOCK = 512, /* data of a mailbox */
	BLOCK_NEXT = 560,
	BLOCK_NUMBER = 568,
	BLOCK_TOKEN = 573,
	BLOCK_BYTES = 576,
	MAX_BYTES = 1 << 20, /* longest input and output taken */
	SLACK = 8192, /* beyond the end, so that fixed layouts may be read and written whole */
	SYNDROME = 0x51c0de, /* of all that is refused */
};

/* Why a command could not even be read, as the PRM numbers it. */
enum delivery {
	DELIVERED = 0,
	BAD_TOKEN = 2,
	BAD_BLOCK_NUMBER = 3,
	BAD_OUTPUT_POINTER = 4,
	BAD_INPUT_POINTER = 5,
	NO_MEMORY = 6,
	BAD_INPUT_BYTES = 7,
	BAD_OUTPUT_BYTES = 8,
};

struct entry {
	uint64_t at; /* in guest memory */
	uint8_t bytes[ENTRY];
	uint64_t in_box, out_box; /* the first mailboxes */
	uint8_t token;
};

uint32_t sn_command_number(const struct sn_command *cmd)
{
	return sn_load32(cmd->in + HEAD) & 0xffffff;
}

void sn_command_give_number(struct sn_command *cmd, uint32_t number)
{
	sn_store32(cmd->out + HEAD, number);
}

uint32_t sn_command_listed(const struct sn_command *cmd, uint32_t from)
{
	return cmd->in_bytes > from ? cmd->in_bytes - from : 0;
}

static void read_entry(struct sn_pci *pci, uint32_t index, struct entry *entry)
{
	entry->at = sn_iseg_queue(pci) + index * ENTRY;
	sn_pci_dma_read(pci, entry->at, entry->bytes, ENTRY);
	entry->in_box =
		sn_load64(SN_AT(cmd_queue_entry, entry->bytes, input_mailbox_pointer_63_32));
	entry->out_box =
		sn_load64(SN_AT(cmd_queue_entry, entry->bytes, output_mailbox_pointer_63_32));
	entry->token = SN_GET(cmd_queue_entry, entry->bytes, token);
}

static enum delivery make_buffers(const struct entry *entry, struct sn_command *cmd)
{
	cmd->in_bytes = SN_GET(cmd_queue_entry, entry->bytes, input_length);
	cmd->out_bytes = SN_GET(cmd_queue_entry, entry->bytes, output_length);
	if (cmd->in_bytes < HEAD || cmd->in_bytes > MAX_BYTES)
		return BAD_INPUT_BYTES;
	if (cmd->out_bytes < HEAD || cmd->out_bytes > MAX_BYTES)
		return BAD_OUTPUT_BYTES;
	if (entry->in_box % BLOCK)
		return BAD_INPUT_POINTER;
	if (entry->out_box % BLOCK)
		return BAD_OUTPUT_POINTER;
	cmd->in = calloc(1, cmd->in_bytes + SLACK);
	cmd->out = calloc(1, cmd->out_bytes + SLACK);
	return cmd->in && cmd->out ? DELIVERED : NO_MEMORY;
}

static uint32_t in_block(uint32_t bytes, uint32_t done)
{
	return bytes - done < BLOCK ? bytes - done : BLOCK;
}

/*
 * The input: the entry's part, then the mailboxes', which carry the command's token and their
 * number.
 */
static enum delivery read_input(struct sn_pci *pci, const struct entry *entry,
				struct sn_command *cmd)
{
	uint64_t at = entry->in_box;
	uint32_t number = 0;
	uint8_t box[BLOCK_BYTES];

	memcpy(cmd->in, SN_AT(cmd_queue_entry, entry->bytes, command_input_inline_data),
	       cmd->in_bytes < INLINE ? cmd->in_bytes : INLINE);
	for (uint32_t done = INLINE; done < cmd->in_bytes; done += BLOCK, number++) {
		sn_pci_dma_read(pci, at, box, sizeof(box));
		if (box[BLOCK_TOKEN] != entry->token)
			return BAD_TOKEN;
		if (sn_load32(box + BLOCK_NUMBER) != number)
			return BAD_BLOCK_NUMBER;
		memcpy(cmd->in + done, box, in_block(cmd->in_bytes, done));
		at = sn_load64(box + BLOCK_NEXT);
	}
	return DELIVERED;
}

static void write_output(struct sn_pci *pci, const struct entry *entry,
			 const struct sn_command *cmd)
{
	uint64_t at = entry->out_box;
	uint8_t box[BLOCK_BYTES];

	sn_pci_dma_write(pci,
			 entry->at + SN_FIELD_BYTE(cmd_queue_entry, command_output_inline_data),
			 cmd->out, INLINE);
	for (uint32_t done = INLINE; done < cmd->out_bytes; done += BLOCK) {
		sn_pci_dma_read(pci, at, box, sizeof(box));
		memcpy(box, cmd->out + done, in_block(cmd->out_bytes, done));
		box[BLOCK_TOKEN] = entry->token;
		sn_pci_dma_write(pci, at, box, sizeof(box));
		at = sn_load64(box + BLOCK_NEXT);
	}
}

static void execute(struct sn_pci *pci, struct sn_command *cmd)
{
	uint8_t status;

	cmd->opcode = sn_load32(cmd->in) >> 16;
	cmd->op_mod = sn_load32(cmd->in + 4);
	cmd->row = sn_opcode_find(cmd->opcode);
	status = cmd->row ? cmd->row->handler(pci, cmd) : SN_BAD_OPCODE;
	cmd->out[0] = status;
	sn_store32(cmd->out + 4, status ? SYNDROME : 0);
	pci->commands++;
	pci->refused += status != SN_OK;
	sn_pci_say(pci, "%s 0x%x op_mod %x, %u bytes in, %u out: status %x",
		   cmd->row ? cmd->row->name : "unknown", cmd->opcode, cmd->op_mod, cmd->in_bytes,
		   cmd->out_bytes, status);
}

/*
 * Hands the entry back, then tells the EQ of commands. `told`: there was such an EQ when the
 * command began. The driver still polls for the command that makes this EQ, and must not find it
 * told there.
 */
static void complete(struct sn_pci *pci, uint32_t index, const struct entry *entry,
		     enum delivery delivery, bool told)
{
	uint8_t data[SN_EVENT_BYTES] = { 0 };
	uint8_t status = delivery << 1;

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	sn_pci_dma_write(pci, entry->at + ENTRY - 1, &status, 1);
	sn_store32(data, 1u << index);
	if (told)
		sn_eq_tell_type(pci, SN_EVENT_COMMAND, 0, data);
}

static void run_one(struct sn_pci *pci, uint32_t index)
{
	bool told = sn_eq_has_type(pci, SN_EVENT_COMMAND);
	struct sn_command cmd = { 0 };
	enum delivery delivery;
	struct entry entry;

	read_entry(pci, index, &entry);
	delivery = make_buffers(&entry, &cmd);
	if (delivery == DELIVERED)
		delivery = read_input(pci, &entry, &cmd);
	if (delivery == DELIVERED) {
		execute(pci, &cmd);
		write_output(pci, &entry, &cmd);
	} else {
		sn_pci_say(pci, "entry %u cannot be read: %d", index, delivery);
	}
	complete(pci, index, &entry, delivery, told);
	free(cmd.in);
	free(cmd.out);
}

void sn_command_ring(struct sn_pci *pci, uint32_t entries)
{
	if (!sn_iseg_queue(pci)) {
		sn_pci_say(pci, "commands %08x have no queue", entries);
		return;
	}
	pci->rung |= entries;
	if (sn_pci_stands_still(pci))
		sn_pci_say(pci, "commands %08x hang", entries);
	else
		pci->host.work_in(pci->host.self, pci->broken.command_ms);
}

void sn_command_run(struct sn_pci *pci)
{
	while (pci->rung && !sn_pci_stands_still(pci)) {
		uint32_t index = __builtin_ctz(pci->rung);

		pci->rung &= ~(1u << index);
		run_one(pci, index);
	}
}
