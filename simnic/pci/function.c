/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The function as a whole: made, reset, read and written. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simnic/pci/bridge_ether.h"
#include "simnic/pci/bridge_space.h"
#include "simnic/pci/command.h"
#include "simnic/pci/pci.h"

/* The driver takes this instead of its own 60 s, so that faults are over soon. */
enum { COMMAND_TIMEOUT_MS = 6000, RESET_TIMEOUT_MS = 2000, ETHERNET_MTU = 1522, LINE = 256 };

struct sn_pci *sn_pci_new(const struct sn_pci_host *host, const struct sn_pci_identity *identity)
{
	struct sn_pci *pci = calloc(1, sizeof(*pci));

	if (!pci)
		return NULL;
	pci->host = *host;
	pci->identity = *identity;
	pci->port.up = true;
	pci->command_timeout_ms = COMMAND_TIMEOUT_MS;
	pci->reset_timeout_ms = RESET_TIMEOUT_MS;
	pci->numbers = sn_numbers_new();
	pci->events = sn_events_new(pci);
	if (!pci->numbers || !pci->events) {
		sn_pci_free(pci);
		return NULL;
	}
	sn_pci_reset(pci);
	return pci;
}

void sn_pci_free(struct sn_pci *pci)
{
	sn_pci_say(pci, "%llu commands, %llu refused, %llu events told, %llu lost",
		   (unsigned long long)pci->commands, (unsigned long long)pci->refused,
		   (unsigned long long)pci->eqs.told, (unsigned long long)pci->eqs.lost);
	if (pci->bridge)
		sn_bridge_free(pci->bridge);
	sn_ether_forget(&pci->ether);
	if (pci->events)
		sn_events_free(pci->events);
	sn_eq_forget_all(pci);
	sn_numbers_free(pci->numbers);
	free(pci->pages.page);
	free(pci);
}

int sn_pci_attach(struct sn_pci *pci, const struct sn_pci_nic *nic)
{
	const struct sn_bridge_config config = {
		.ram = nic->ram,
		.ram_fd = nic->ram_fd,
		.ram_bytes = nic->ram_bytes,
		.fabric = nic->fabric,
		.host = nic->host,
		.nic = nic->nic,
		.tell = sn_events_tell,
		.stray = nic->iommu ? sn_events_stray : NULL,
		.ctx = pci->events,
	};
	struct sn_bridge_port port;
	int error = sn_bridge_new(&config, &pci->bridge);

	if (error)
		return error;
	sn_bridge_port(pci->bridge, &port);
	pci->identity.ethernet = port.ethernet;
	pci->identity.guid = port.node_guid;
	pci->port.up = port.up;
	sn_pci_reset(pci);
	return 0;
}

bool sn_pci_is_ethernet(const struct sn_pci *pci)
{
	return pci->identity.ethernet;
}

/*
 * The data path's objects go first: nothing is written for them any more when the rest is
 * forgotten.
 */
static void forget_data(struct sn_pci *pci)
{
	int error = pci->bridge ? sn_bridge_reset(pci->bridge) : 0;

	if (error) {
		sn_pci_say(pci, "the data path cannot be reset, and is gone: %d", error);
		sn_bridge_free(pci->bridge);
		pci->bridge = NULL;
	}
	sn_events_forget(pci->events);
	pci->driver_key = 0;
	sn_pci_update_data(pci);
}

bool sn_pci_stands_still(const struct sn_pci *pci)
{
	return pci->broken.dead || pci->broken.hang || !pci->bus_master;
}

void sn_pci_update_data(struct sn_pci *pci)
{
	if (pci->bridge)
		sn_bridge_stop(pci->bridge, sn_pci_stands_still(pci));
}

void sn_pci_bus_master(struct sn_pci *pci, bool on)
{
	if (pci->bus_master == on)
		return;
	pci->bus_master = on;
	sn_pci_update_data(pci);
	if (!on)
		return;
	if (pci->rung)
		pci->host.work_in(pci->host.self, 0);
	pci->host.wake(pci->host.self);
}

/* The most that the IOMMU is asked of one stray access: its own log has room for less. */
#define MOST_STRAY_PAGES 16

static void tell_stray(struct sn_pci *pci, const struct sn_bridge_stray *stray)
{
	uint64_t bytes = stray->bytes, page = 4096;

	sn_pci_say(pci, "stray DMA: %s at %llx, %llu pages", stray->write ? "write" : "read",
		   (unsigned long long)stray->at, (unsigned long long)(bytes / page));
	if (bytes > MOST_STRAY_PAGES * page)
		bytes = MOST_STRAY_PAGES * page;
	for (uint64_t done = 0; done < bytes; done += page)
		pci->host.stray(pci->host.self, stray->at + done, stray->write);
}

void sn_pci_dma_map(struct sn_pci *pci, uint64_t at, uint64_t bytes, uint64_t ram, bool writable)
{
	const struct sn_bridge_mapping mapping = { at, bytes, ram, writable };
	int error = pci->bridge ? sn_bridge_space_map(pci->bridge, &mapping) : 0;

	if (error)
		sn_pci_say(pci, "DMA address %llx cannot lead to %llx: %d", (unsigned long long)at,
			   (unsigned long long)ram, error);
}

void sn_pci_dma_unmap(struct sn_pci *pci, uint64_t at, uint64_t bytes)
{
	if (pci->bridge)
		sn_bridge_space_unmap(pci->bridge, at, bytes);
}

/* What cannot be written waits: an entry that is left out would stop its queue for ever. */
void sn_pci_deliver(struct sn_pci *pci)
{
	struct sn_bridge_stray stray;

	while (pci->bridge && sn_bridge_space_take(pci->bridge, &stray))
		tell_stray(pci, &stray);
	if (pci->bus_master)
		sn_events_deliver(pci->events);
}

void sn_pci_switch_off(struct sn_pci *pci, bool off)
{
	pci->port.off = off;
	if (pci->bridge)
		sn_bridge_switch_off(pci->bridge, off);
}

void sn_pci_forget(struct sn_pci *pci)
{
	forget_data(pci);
	sn_eq_forget_all(pci);
	sn_ether_forget(&pci->ether);
	sn_numbers_forget(pci->numbers);
	sn_caps_reset(&pci->caps, &pci->identity);
	pci->pages.n = 0;
	pci->port.roce = false;
	sn_pci_switch_off(pci, false);
	pci->port.mtu = ETHERNET_MTU;
	memset(pci->port.gid, 0, sizeof(pci->port.gid));
}

void sn_pci_reset(struct sn_pci *pci)
{
	memset(&pci->broken, 0, sizeof(pci->broken));
	pci->rung = 0;
	sn_iseg_reset(pci);
	sn_pci_forget(pci);
}

bool sn_pci_is_dead(const struct sn_pci *pci)
{
	return pci->broken.dead;
}

static uint64_t ones(uint32_t size)
{
	return size < 8 ? (1ull << 8 * size) - 1 : ~0ull;
}

uint64_t sn_pci_read(struct sn_pci *pci, uint64_t offset, uint32_t size)
{
	if (pci->broken.dead)
		return ones(size);
	/* Nothing of a UAR page is ever read. */
	return offset < SN_PCI_ISEG_BYTES ? sn_iseg_read(pci, offset, size) : 0;
}

void sn_pci_write(struct sn_pci *pci, uint64_t offset, uint64_t value, uint32_t size)
{
	if (pci->broken.dead)
		return;
	if (offset < SN_PCI_ISEG_BYTES)
		sn_iseg_write(pci, offset, value, size);
	else if (offset >> 12 >= SN_PCI_UAR_FIRST)
		sn_uar_write(pci, offset >> 12, offset & 0xfff, value, size);
}

void sn_pci_work(struct sn_pci *pci)
{
	sn_command_run(pci);
}

void sn_pci_beat(struct sn_pci *pci)
{
	uint32_t beats = SN_GET(initial_seg, pci->iseg, health_counter);

	if (!pci->broken.hang && !pci->broken.dead)
		SN_SET(initial_seg, pci->iseg, health_counter, beats + 1);
}

void sn_pci_dma_read(struct sn_pci *pci, uint64_t at, void *to, uint32_t bytes)
{
	memset(to, 0, bytes);
	if (!pci->broken.dead)
		pci->host.dma_read(pci->host.self, at, to, bytes);
}

void sn_pci_dma_write(struct sn_pci *pci, uint64_t at, const void *from, uint32_t bytes)
{
	if (!pci->broken.dead)
		pci->host.dma_write(pci->host.self, at, from, bytes);
}

void sn_pci_dma_publish(struct sn_pci *pci, uint64_t at, const void *from, uint32_t bytes)
{
	const uint8_t *last = (const uint8_t *)from + bytes - 1;

	sn_pci_dma_write(pci, at, from, bytes - 1);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	sn_pci_dma_write(pci, at + bytes - 1, last, 1);
}

void sn_pci_interrupt(struct sn_pci *pci, uint32_t vector)
{
	if (!pci->broken.dead && !pci->broken.lose_interrupts)
		pci->host.interrupt(pci->host.self, vector);
}

void sn_pci_say(struct sn_pci *pci, const char *format, ...)
{
	char line[LINE];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	pci->host.say(pci->host.self, line);
}
