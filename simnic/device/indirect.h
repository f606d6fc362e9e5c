/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Indirect keys: each stands for a list of parts of other keys (KLM), one behind the other, or for
 * a list that is repeated some bytes further on each time (mlx5dv_wr_mr_interleaved()). Requests in
 * a send queue (UMR) change the list. Lock held.
 */
#ifndef SIMNIC_DEVICE_INDIRECT_H
#define SIMNIC_DEVICE_INDIRECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

struct sn_dev;
struct sn_mr;
struct sn_qp;
struct mlx5_wqe_umr_klm_seg;

/* A part of another key. */
struct sn_entry {
	uint64_t va;
	uint32_t length, key; /* length: 0: 2 GiB */
	uint32_t stride;      /* bytes from one repetition to the next */
};

/* A UMR request to such a key. */
struct sn_umr {
	uint32_t key; /* the key before the request */
	uint8_t tag, flags, rights;
	bool free;
	uint64_t mask, iova, length; /* mask: what of the key it changes */
	uint32_t first, n;	     /* entries */
	uint32_t repeat;	     /* number of repetitions of the entries; 0: a plain list */
	const struct mlx5_wqe_umr_klm_seg *entries;
};

/*
 * ds: length of the whole request, in segments of 16 bytes. entries stay in @raw. false:
 * malformed, or not simulated.
 */
bool sn_umr_decode(const uint8_t *raw, uint32_t ds, struct sn_umr *umr);
/* 0, or the syndrome of its completion: then nothing was changed. */
uint8_t sn_indirect_change(struct sn_qp *qp, const struct sn_umr *umr);
/* sn_mr_pieces() for bytes known to be within the key; offset: from its first byte. */
int sn_indirect_pieces(struct sn_dev *dev, const struct sn_mr *list, uint64_t offset, uint64_t len,
		       uint32_t access, struct iovec *iov, uint32_t max);

#endif
