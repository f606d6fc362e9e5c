/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Requests read back out of a send ring and laid into another. */
#ifndef RING_WQE_H
#define RING_WQE_H

#include "providers/mlx5/sq.h"

#pragma GCC visibility push(hidden)

/* A WQE out of its ring, in a straight line, with the application's keys. */
struct ring_wqe {
	uint32_t slot, bbs, ds;
	uint64_t keys;	/* 16-byte units that carry a key, bit per unit */
	uint64_t rkeys; /* units of keys whose key is a remote one */
	uint8_t bytes[(RING_MAX_DS + 1) * 16] __attribute__((aligned(16)));
};
void ring_wqe_load(const struct ring_sq *sq, uint32_t post, enum ibv_qp_type type,
		   struct ring_wqe *out);
int ring_wqe_translate(struct sp_carrier *to, const struct ring_wqe *in, struct ring_wqe *out);
struct mlx5_wqe_ctrl_seg *ring_wqe_lay(struct ring_sq *dst, const struct ring_wqe *app,
				       const struct ring_wqe *wire, uint64_t wr_id,
				       uint8_t wr_data);
uint32_t ring_wqe_key(const struct ring_wqe *w, uint32_t unit); /* key of a unit in keys */
uint32_t ring_wqe_data_len(const struct ring_wqe *wqe);
uint32_t ring_wqe_packets(const struct ring_sq *sq, const struct ring_wqe *wqe);

/* A walk over the requests of a queue that are the application's and outstanding. */
struct ring_walk {
	const struct ring_sq *sq;
	uint32_t n, post;
};
bool ring_walk_start(struct ring_walk *w, const struct ring_sq *sq);
int64_t ring_walk_next(struct ring_walk *w);
enum sp_request_kind ring_wr_kind(const struct ring_sq *sq, uint32_t slot);

#pragma GCC visibility pop

#endif
