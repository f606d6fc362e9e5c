/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The init segment: versions, the address and doorbell of the command queue, health, timers. */
#include <string.h>
#include <time.h>

#include "simnic/pci/command.h"
#include "simnic/pci/pci.h"

enum {
	FW_MAJOR = 16,
	FW_MINOR = 35,
	FW_SUBMINOR = 4012,
	COMMAND_INTERFACE = 5,
	/* Milliseconds that a command may take. */
	COMMAND_TIMEOUT_AT = 0xff8,
	/*
	 * Milliseconds until the command queue is there. Not zero: there is a register of timeouts
	 * (DTOR), too.
	 */
	QUEUE_TIMEOUT_AT = 0xffc,
	QUEUE_TIMEOUT_MS = 2000,
	TIMER_HIGH = 0x1000,
	TIMER_LOW = 0x1004,
	WRITABLE = 0x10,    /* the first byte that the driver may write, */
	DOORBELL_END = 0x1c /* and the first behind those */
};
/* A bit that Linux names beside its field table: MLX5_FW_RESET_SUPPORTED_OFFSET of device.h. */
enum { INITIALIZING = 0x1fc, FW_RESET = 0x40 };
/* States of the interface, in the word of the queue's lower address. */
enum { INTERFACE_DISABLED = 1, INTERFACE_RESET = 7, INTERFACE_SHIFT = 8 };
#define ADDRESS_LOW (SN_FIELD_BYTE(initial_seg, cmdq_phy_addr_31_12))
#define DOORBELL    (SN_FIELD_BYTE(initial_seg, command_doorbell_vector))
#define HEALTH	    (SN_FIELD_BYTE(initial_seg, health_buffer))

static void set_sizes(uint8_t *iseg)
{
	SN_SET(initial_seg, iseg, log_cmdq_size, SN_COMMANDS_LOG);
	SN_SET(initial_seg, iseg, log_cmdq_stride, SN_COMMAND_LOG);
}

void sn_iseg_set_timeouts(struct sn_pci *pci)
{
	sn_store32(pci->iseg + COMMAND_TIMEOUT_AT, pci->command_timeout_ms);
	sn_store32(pci->iseg + QUEUE_TIMEOUT_AT, QUEUE_TIMEOUT_MS);
}

void sn_iseg_reset(struct sn_pci *pci)
{
	uint32_t beats = SN_GET(initial_seg, pci->iseg, health_counter);

	memset(pci->iseg, 0, sizeof(pci->iseg));
	SN_SET(initial_seg, pci->iseg, fw_rev_major, FW_MAJOR);
	SN_SET(initial_seg, pci->iseg, fw_rev_minor, FW_MINOR);
	SN_SET(initial_seg, pci->iseg, fw_rev_subminor, FW_SUBMINOR);
	SN_SET(initial_seg, pci->iseg, cmd_interface_rev, COMMAND_INTERFACE);
	SN_SET(initial_seg, pci->iseg, health_counter, beats);
	if (pci->identity.fw_reset)
		pci->iseg[INITIALIZING] |= FW_RESET;
	set_sizes(pci->iseg);
	sn_iseg_set_timeouts(pci);
}

void sn_iseg_clear_health(struct sn_pci *pci)
{
	memset(pci->iseg + HEALTH, 0, SN_HEALTH_BYTES);
}

uint64_t sn_iseg_queue(const struct sn_pci *pci)
{
	return sn_load64(SN_AT(initial_seg, pci->iseg, cmdq_phy_addr_63_32)) & ~0xfffull;
}

/* The free running timer, of device_frequency_khz. */
static void show_time(uint8_t *iseg)
{
	struct timespec now;
	uint64_t ticks;

	clock_gettime(CLOCK_MONOTONIC, &now);
	ticks = ((uint64_t)now.tv_sec * 1000000000u + now.tv_nsec) / 32 * 5;
	sn_store64(iseg + TIMER_HIGH, ticks);
}

uint64_t sn_iseg_read(struct sn_pci *pci, uint32_t offset, uint32_t size)
{
	uint64_t value = 0;

	if (offset + size > SN_PCI_ISEG_BYTES)
		return 0;
	if (offset <= TIMER_LOW && offset + size > TIMER_HIGH)
		show_time(pci->iseg);
	memcpy(&value, pci->iseg + offset, size);
	return value;
}

/*
 * The driver writes the queue's address into a word that says the queue's size, too, and reads that
 * again later.
 */
static void interface_written(struct sn_pci *pci)
{
	uint32_t state = sn_load32(pci->iseg + ADDRESS_LOW) >> INTERFACE_SHIFT & 7;

	sn_pci_say(pci, "command queue at %llx, interface %u",
		   (unsigned long long)sn_iseg_queue(pci), state);
	if (state == INTERFACE_RESET) {
		sn_pci_reset(pci);
		sn_store32(pci->iseg + ADDRESS_LOW, INTERFACE_DISABLED << INTERFACE_SHIFT);
	}
	set_sizes(pci->iseg);
}

void sn_iseg_write(struct sn_pci *pci, uint32_t offset, uint64_t value, uint32_t size)
{
	if (offset < WRITABLE || offset + size > DOORBELL_END)
		return;
	memcpy(pci->iseg + offset, &value, size);
	if (offset <= ADDRESS_LOW && offset + size > ADDRESS_LOW)
		interface_written(pci);
	if (offset <= DOORBELL && offset + size > DOORBELL)
		sn_command_ring(pci, sn_load32(pci->iseg + DOORBELL));
}
