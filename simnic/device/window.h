/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Memory windows: keys for a part of a region, given and taken by requests in a send queue (UMR). Lock held. */
#ifndef SIMNIC_DEVICE_WINDOW_H
#define SIMNIC_DEVICE_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

struct sn_dev;
struct sn_mr;
struct sn_qp;

/* A UMR request that binds a window, or takes its rights back. */
struct sn_bind {
	uint32_t key; /* the window's, as it was until now */
	uint8_t tag;  /* the key's lowest eight bits from now on */
	bool free;    /* no right is left */
	bool type2;   /* of a queue pair, not of a protection domain */
	uint32_t access, of_key;
	uint64_t iova, length, of_va;
};

/* ds: of the whole request, in segments of 16 bytes. false: not a request of this kind. */
bool sn_bind_decode(const uint8_t *raw, uint32_t ds, struct sn_bind *bind);
/* 0, or the syndrome of its completion (IBA 10.6.7.2.2). */
uint8_t sn_window_bind(struct sn_qp *qp, const struct sn_bind *bind);
/* By a quirk: of type 1, and another queue pair has bound it. */
bool sn_window_is_not_of(const struct sn_qp *qp, uint32_t key);
/* Where the window's byte is, by the key of what it was bound to; 0: no longer anywhere. */
uint64_t sn_window_translate(struct sn_dev *dev, const struct sn_mr *window, uint64_t va,
			     uint64_t len, uint32_t access);

#endif
