/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Event queues: rings of 64-byte entries in guest memory, an interrupt for the first entry after
 * each arming.
 */
#include <string.h>

#include "simnic/pci/command.h"
#include "simnic/pci/handlers.h"
#include "simnic/pci/pci.h"

enum { EQE = 64, EQE_TYPE = 1, EQE_SUBTYPE = 3, EQE_DATA = 32, EQE_OWNER = 63, MAX_LOG_SIZE = 22 };
#define COUNTER 0xffffffu /* counters have 24 bits */

static struct sn_eq *find(struct sn_pci *pci, uint32_t eqn)
{
	return eqn < SN_EQS && pci->eqs.eq[eqn].used ? &pci->eqs.eq[eqn] : NULL;
}

static bool is_full(const struct sn_eq *eq)
{
	return ((eq->produced - eq->consumed) & COUNTER) >= 1u << eq->log_size;
}

static bool has_unseen(const struct sn_eq *eq)
{
	return (eq->produced & COUNTER) != eq->consumed;
}

/* Interrupts once for what is there, if the driver wants to know. */
static void interrupt_if_armed(struct sn_pci *pci, struct sn_eq *eq)
{
	if (!eq->armed || !has_unseen(eq))
		return;
	eq->armed = false;
	sn_pci_interrupt(pci, eq->vector);
}

static void write_entry(struct sn_pci *pci, struct sn_eq *eq, uint8_t type, uint8_t subtype,
			const uint8_t *data)
{
	uint32_t place = eq->produced & ((1u << eq->log_size) - 1);
	uint8_t eqe[EQE] = { [EQE_TYPE] = type, [EQE_SUBTYPE] = subtype };

	memcpy(eqe + EQE_DATA, data, SN_EVENT_BYTES);
	eqe[EQE_OWNER] = eq->produced >> eq->log_size & 1;
	sn_pci_dma_publish(pci, sn_pas_at(&eq->pas, (uint64_t)place * EQE), eqe, EQE);
	eq->produced++;
	pci->eqs.told++;
}

void sn_eq_tell(struct sn_pci *pci, uint32_t eqn, uint8_t type, uint8_t subtype,
		const uint8_t data[SN_EVENT_BYTES])
{
	struct sn_eq *eq = find(pci, eqn);

	if (!eq || pci->broken.dead || pci->broken.lose_events)
		return;
	if (is_full(eq)) {
		pci->eqs.lost++;
		sn_pci_say(pci, "eq %u is full: event %02x is lost", eqn, type);
		return;
	}
	write_entry(pci, eq, type, subtype, data);
	interrupt_if_armed(pci, eq);
}

/* 0: none */
static uint32_t eqn_of_type(const struct sn_pci *pci, uint8_t type)
{
	for (uint32_t eqn = 1; eqn < SN_EQS; eqn++) {
		const struct sn_eq *eq = &pci->eqs.eq[eqn];

		if (eq->used && eq->events[type / 64] >> type % 64 & 1)
			return eqn;
	}
	return 0;
}

bool sn_eq_has_type(const struct sn_pci *pci, uint8_t type)
{
	return eqn_of_type(pci, type) != 0;
}

void sn_eq_tell_type(struct sn_pci *pci, uint8_t type, uint8_t subtype,
		     const uint8_t data[SN_EVENT_BYTES])
{
	uint32_t eqn = eqn_of_type(pci, type);

	if (eqn)
		sn_eq_tell(pci, eqn, type, subtype, data);
}

void sn_eq_tell_object(struct sn_pci *pci, uint8_t type, uint32_t number)
{
	uint8_t data[SN_EVENT_BYTES] = { 0 };

	sn_store32(data + SN_EVENT_BYTES - 4, number);
	sn_eq_tell_type(pci, type, 0, data);
}

void sn_eq_tell_port(struct sn_pci *pci, enum sn_port_event event)
{
	uint8_t data[SN_EVENT_BYTES] = { [8] = 1 << 4 }; /* port 1 */

	sn_eq_tell_type(pci, SN_EVENT_PORT_CHANGE, event, data);
}

void sn_eq_port(struct sn_pci *pci, bool up)
{
	pci->port.up = up;
	sn_eq_tell_port(pci, up ? SN_PORT_ACTIVE : SN_PORT_DOWN);
}

void sn_eq_doorbell(struct sn_pci *pci, uint32_t eqn, uint32_t consumed, bool arm)
{
	struct sn_eq *eq = find(pci, eqn);

	if (!eq)
		return;
	eq->consumed = consumed & COUNTER;
	eq->armed |= arm;
	interrupt_if_armed(pci, eq);
}

static void forget(struct sn_eq *eq)
{
	sn_pas_free(&eq->pas);
	memset(eq, 0, sizeof(*eq));
}

void sn_eq_forget_all(struct sn_pci *pci)
{
	for (uint32_t eqn = 0; eqn < SN_EQS; eqn++)
		forget(&pci->eqs.eq[eqn]);
}

static uint32_t free_eqn(const struct sn_pci *pci)
{
	for (uint32_t eqn = 1; eqn < SN_EQS; eqn++)
		if (!pci->eqs.eq[eqn].used)
			return eqn;
	return 0;
}

static uint8_t read_context(struct sn_eq *eq, const struct sn_command *cmd)
{
	const uint8_t *context = SN_AT(create_eq_in, cmd->in, eq_context_entry);
	const uint8_t *list = SN_AT(create_eq_in, cmd->in, pas);
	uint32_t shift = 12 + SN_GET(eqc, context, log_page_size);

	eq->log_size = SN_GET(eqc, context, log_eq_size);
	eq->vector = SN_GET(eqc, context, intr);
	for (int i = 0; i < 4; i++)
		eq->events[i] = sn_load64(SN_AT(create_eq_in, cmd->in, event_bitmask) + 8 * i);
	if (eq->log_size > MAX_LOG_SIZE || eq->vector >= SN_PCI_VECTORS)
		return SN_BAD_PARAM;
	return sn_pas_read(&eq->pas, list, sn_command_listed(cmd, SN_FIELD_BYTE(create_eq_in, pas)),
			   shift, (uint64_t)EQE << eq->log_size)
		       ? SN_BAD_PARAM
		       : SN_OK;
}

uint8_t sn_create_eq(struct sn_pci *pci, struct sn_command *cmd)
{
	uint32_t eqn = free_eqn(pci);
	struct sn_eq made = { .used = true };
	uint8_t status;

	if (!eqn)
		return SN_NO_RESOURCES;
	status = read_context(&made, cmd);
	if (status)
		return status;
	pci->eqs.eq[eqn] = made;
	SN_SET(create_eq_out, cmd->out, eq_number, eqn);
	sn_pci_say(pci, "  eq %u: 2^%u entries, vector %u, events %016llx", eqn, made.log_size,
		   made.vector, (unsigned long long)made.events[0]);
	return SN_OK;
}

uint8_t sn_destroy_eq(struct sn_pci *pci, struct sn_command *cmd)
{
	struct sn_eq *eq = find(pci, SN_GET(destroy_eq_in, cmd->in, eq_number));

	if (!eq)
		return SN_BAD_RESOURCE;
	forget(eq);
	return SN_OK;
}

uint8_t sn_query_eq(struct sn_pci *pci, struct sn_command *cmd)
{
	struct sn_eq *eq = find(pci, SN_GET(query_eq_in, cmd->in, eq_number));
	uint8_t *context = SN_AT(query_eq_out, cmd->out, eq_context_entry);

	if (!eq)
		return SN_BAD_RESOURCE;
	SN_SET(eqc, context, log_eq_size, eq->log_size);
	SN_SET(eqc, context, intr, eq->vector);
	SN_SET(eqc, context, st, eq->armed ? 9 : 10); /* armed, fired */
	SN_SET(eqc, context, consumer_counter, eq->consumed);
	SN_SET(eqc, context, producer_counter, eq->produced & COUNTER);
	return SN_OK;
}
