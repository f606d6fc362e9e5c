/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Keys over a list of a guest's pages, as a driver keeps them in store: requests in a send queue
 * (UMR) fill the list, give the key a meaning, and take it back. Lock held.
 */
#ifndef SIMNIC_DEVICE_PAGED_H
#define SIMNIC_DEVICE_PAGED_H

#include <stdbool.h>
#include <stdint.h>

struct sn_dev;
struct sn_mr;
struct sn_qp;

/* The list of a key, and where its pages are mapped. */
struct sn_pages {
	uint64_t at; /* address of the key's first byte; 0: not mapped */
	uint32_t shift, n;
	uint64_t page[];
};

/* A UMR request to such a key. */
struct sn_repage {
	uint32_t key; /* the key before the request */
	uint8_t tag, flags, rights, shift;
	bool free;
	uint64_t mask, iova, length; /* mask: what of the key it changes */
	uint32_t pdn;
	uint32_t first, n; /* entries of the list */
	struct {
		uint64_t addr;
		uint32_t lkey;
	} list; /* where the new entries are, unless they are inline */
	const uint8_t *entries;
};

/* ds: length of the whole request, in segments of 16 bytes. false: malformed, or not simulated. */
bool sn_repage_decode(const uint8_t *raw, uint32_t ds, struct sn_repage *repage);
/* 0, or the syndrome of its completion: then nothing was changed. */
uint8_t sn_repage(struct sn_qp *qp, const struct sn_repage *repage);
/* Address of the key's byte; 0: the pages cannot be mapped. */
uint64_t sn_pages_at(struct sn_dev *dev, struct sn_mr *mr, uint64_t va);
void sn_pages_forget(struct sn_dev *dev, struct sn_mr *mr); /* before the key is freed */

#endif
