/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Work requests, read out of the application's rings. Lock held. */
#ifndef SIMNIC_DEVICE_WQE_H
#define SIMNIC_DEVICE_WQE_H

#include <infiniband/mlx5dv.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "simnic/device/indirect.h"
#include "simnic/device/paged.h"
#include "simnic/device/window.h"

struct sn_dev;
struct sn_qp;

#define SN_WQE_MAX_BYTES 1024
#define SN_WQE_MAX_SGE	 64

struct sn_sge {
	uint64_t addr;
	uint32_t length, lkey;
};

/* A decoded send WQE. */
struct sn_wqe {
	uint8_t opcode, fm_ce_se, ds, syndrome; /* syndrome: the WQE is not executable, why */
	uint16_t idx, nbb;
	uint32_t imm, rkey;
	uint64_t raddr, swap_add, compare;
	uint64_t length;
	uint32_t n_sge;
	bool is_inline, to_indirect; /* to_indirect: UMR of an indirect key, not of a window */
	bool to_paged;		     /* UMR of a key over a list of pages */
	/* bit i: piece i is inline data; its address counts bytes from the WQE's first */
	uint64_t pieces_inline;
	struct mlx5_wqe_av av;
	struct sn_bind bind; /* UMR */
	struct sn_umr umr;   /* the entries lie in raw */
	struct sn_repage repage;
	struct sn_sge sge[SN_WQE_MAX_SGE]; /* the payload's pieces in their order */
	uint8_t raw[SN_WQE_MAX_BYTES];	   /* UMR: the whole WQE */
};

void sn_wqe_decode(const struct sn_qp *qp, uint16_t idx, struct sn_wqe *wqe);
void sn_wqe_raw(const struct sn_qp *qp, uint16_t idx, void *out, uint32_t bytes);
/*
 * Finds the payload's pieces in this process, in their order; iov has room for SN_WQE_MAX_SGE.
 * Inline data lies in the ring, which the application leaves alone until the completion. Returns
 * the number of pieces, or -EACCES.
 */
int sn_wqe_gather(const struct sn_qp *qp, const struct sn_wqe *wqe, uint32_t access,
		  struct iovec *iov);
/* iov: room for SN_WQE_MAX_SGE; one key may lead to several places. */
int sn_sge_translate(struct sn_dev *dev, uint32_t pdn, const struct sn_sge *sge, uint32_t n,
		     uint32_t access, struct iovec *iov);
uint32_t sn_wqe_scatter(const uint8_t *segments, uint32_t bytes, struct sn_sge *sge);
uint16_t sn_rq_producer(const struct sn_qp *qp);
uint16_t sn_sq_producer(const struct sn_qp *qp);

#endif
