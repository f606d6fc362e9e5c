/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A PCI function that is a ConnectX: its firmware (init segment, commands, events) before the eyes
 * of a driver. What the machine around it does comes as calls of struct sn_pci_host; QEMU's half is
 * qemu/.
 *
 * Locking: none here. The machine calls every sn_pci_*() under one lock of its own (QEMU's big
 * lock), and none of the calls of struct sn_pci_host may come back into the function.
 */
#ifndef SIMNIC_PCI_FUNCTION_H
#define SIMNIC_PCI_FUNCTION_H

#include <stdbool.h>
#include <stdint.h>

struct sn_pci;

/* What the machine does for a function. All calls come with the machine's lock held. */
struct sn_pci_host {
	void *self;
	/*
	 * Access to guest memory through the function's bus master; dropped where the bus drops it.
	 */
	void (*dma_read)(void *self, uint64_t at, void *to, uint32_t bytes);
	void (*dma_write)(void *self, uint64_t at, const void *from, uint32_t bytes);
	void (*interrupt)(void *self, uint32_t vector);
	/* Asks for sn_pci_work() in so many milliseconds, from no call of the driver's. */
	void (*work_in)(void *self, uint32_t ms);
	/*
	 * Asks for sn_pci_deliver() soon. Called by any thread, with or without the machine's lock.
	 */
	void (*wake)(void *self);
	/*
	 * An access of the data path that the IOMMU has not let through: the IOMMU is to note it.
	 * Called where the NIC is behind one.
	 */
	void (*stray)(void *self, uint64_t at, bool write);
	/* One line for the log of the function; never NULL. */
	void (*say)(void *self, const char *line);
};

struct sn_pci_identity {
	bool ethernet; /* link layer; false: InfiniBand */
	bool fw_reset; /* says that the driver may reset broken firmware (iseg.c) */
	uint64_t guid;
	uint8_t mac[6];
	uint16_t lid;
	uint16_t vhca_id;
};

#define SN_PCI_ISEG_BYTES 0x8000u /* init segment; the MSI-X table lies behind it */
#define SN_PCI_UAR_FIRST  16u	  /* the first UAR page that is handed out */
#define SN_PCI_UARS	  8192u	  /* pages of the BAR, the init segment's included */
#define SN_PCI_BAR_BYTES  (SN_PCI_UARS << 12)
#define SN_PCI_VECTORS	  32u

/* Makes a function, as after power-on, without a data path. NULL: no memory. */
struct sn_pci *sn_pci_new(const struct sn_pci_host *host, const struct sn_pci_identity *identity);

/* A NIC of a fabric, and the guest memory that it reaches: a file that the machine maps shared. */
struct sn_pci_nic {
	const char *fabric; /* its name; see simnicctl(1) */
	uint32_t host, nic; /* one host for all functions of a process */
	void *ram;	    /* where the machine maps the file */
	int ram_fd;	    /* guest address 0 is the file's first byte */
	uint64_t ram_bytes;
	bool iommu; /* DMA addresses lead where sn_pci_dma_map() says, at first nowhere */
};
/*
 * Gives the function the data path, the addresses and the port of a NIC; once, before the driver
 * comes. The link layer becomes the fabric's. -ENOENT: no such fabric; -ENODEV: no such NIC;
 * -EXDEV: another host's.
 */
int sn_pci_attach(struct sn_pci *pci, const struct sn_pci_nic *nic);
bool sn_pci_is_ethernet(const struct sn_pci *pci);
void sn_pci_free(struct sn_pci *pci);

/*
 * What the IOMMU lets through to guest memory, in whole pages of 4 KiB; and no more: when
 * sn_pci_dma_unmap() returns, the data path does not reach these addresses. No reset changes it.
 */
void sn_pci_dma_map(struct sn_pci *pci, uint64_t at, uint64_t bytes, uint64_t ram, bool writable);
void sn_pci_dma_unmap(struct sn_pci *pci, uint64_t at, uint64_t bytes);

/*
 * Forgets everything: power-on, FLR, hot reset, and the device that comes back into its slot.
 * Nothing is written to guest memory any more on behalf of what was before. Ends all faults but the
 * port's.
 */
void sn_pci_reset(struct sn_pci *pci);

/*
 * Accesses to the BAR; size 1 to 8. Values are as the bus has them: the first byte is the lowest.
 */
uint64_t sn_pci_read(struct sn_pci *pci, uint64_t offset, uint32_t size);
void sn_pci_write(struct sn_pci *pci, uint64_t offset, uint64_t value, uint32_t size);

/* Whether nothing answers on the bus: configuration space reads as ones, too. */
bool sn_pci_is_dead(const struct sn_pci *pci);

/*
 * Whether the function may reach memory by itself: the bus master bit. It may not after power-on.
 */
void sn_pci_bus_master(struct sn_pci *pci, bool on);

/* Tells the driver what the data path has to tell. */
void sn_pci_deliver(struct sn_pci *pci);
/* Executes the commands that wait. */
void sn_pci_work(struct sn_pci *pci);
/* The firmware's heartbeat: to be called each SN_PCI_BEAT_MS. */
#define SN_PCI_BEAT_MS 100u
void sn_pci_beat(struct sn_pci *pci);

#endif
