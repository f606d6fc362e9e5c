/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Memory regions. Lock held. */
#ifndef SIMNIC_DEVICE_MR_H
#define SIMNIC_DEVICE_MR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "simnic/device/indirect.h"
#include "simnic/device/paged.h"

struct sn_dev;

#define SN_MR_BUCKETS 1024

enum sn_mr_kind { SN_MR_REGION, SN_MR_WINDOW_1, SN_MR_WINDOW_2, SN_MR_INDIRECT, SN_MR_PAGED };

struct sn_mr {
	struct sn_mr *next;
	enum sn_mr_kind kind;
	uint32_t key, pdn, access;
	uint64_t addr, length, iova;
	bool own_command; /* the kernel's driver does not know it */
	/* windows: the region's key and address, and the QP that bound it */
	uint32_t of_key, qpn;
	uint64_t of_va;
	struct sn_pages *pages; /* SN_MR_PAGED */
	/* indirect and paged keys; free: it names nothing, whatever its list says */
	bool free;
	bool remote_end; /* a remote end may make it free (SEND with invalidate) */
	uint32_t n_entries;
	uint32_t repeat, n_repeated; /* how often, and how many entries; 0: a plain list */
	struct sn_entry entries[];
};

/*
 * Finds the bytes in this process, in at most max pieces: an indirect key's bytes are in several
 * places. Returns the number of pieces, or -EACCES: IBA 10.6.3 forbids the access, or there are
 * more pieces.
 */
int sn_mr_pieces(struct sn_dev *dev, uint32_t key, uint32_t pdn, uint64_t va, uint64_t len,
		 uint32_t access, struct iovec *iov, uint32_t max);
/* sn_mr_pieces() for bytes in one piece: its address, or 0. */
uint64_t sn_mr_translate(struct sn_dev *dev, uint32_t key, uint32_t pdn, uint64_t va, uint64_t len,
			 uint32_t access);
/* Adds the region under a new key; variant: the key's lowest eight bits. */
void sn_mr_add(struct sn_dev *dev, struct sn_mr *mr, uint8_t variant);
/* Finds a region by its key's index, whatever the lowest eight bits are now. NULL: none. */
struct sn_mr *sn_mr_of_index(struct sn_dev *dev, uint32_t key);
void sn_mr_free_all(struct sn_dev *dev);

#endif
