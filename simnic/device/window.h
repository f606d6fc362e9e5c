/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memory windows: keys for a part of a region. Requests in a send queue (UMR) give and take them.
 * Lock held.
 */
#ifndef SIMNIC_DEVICE_WINDOW_H
#define SIMNIC_DEVICE_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

struct sn_dev;
struct sn_mr;
struct sn_qp;

/* A UMR request that binds a window, or takes its rights back. */
struct sn_bind {
	uint32_t key; /* the window's key before the request */
	uint8_t tag;  /* the key's lowest eight bits from now on */
	bool free;    /* no right is left */
	bool type2;   /* belongs to a queue pair, not to a protection domain */
	uint32_t access, of_key;
	uint64_t iova, length, of_va;
};

/* ds: length of the whole request, in segments of 16 bytes. false: not a request of this kind. */
bool sn_bind_decode(const uint8_t *raw, uint32_t ds, struct sn_bind *bind);
/* 0, or the syndrome of its completion (IBA 10.6.7.2.2). */
uint8_t sn_window_bind(struct sn_qp *qp, const struct sn_bind *bind);
/* True by a quirk: a window of type 1 that another queue pair has bound. */
bool sn_window_is_not_of(const struct sn_qp *qp, uint32_t key);
/* Address of the window's byte, by the key that it was bound to; 0: no longer anywhere. */
uint64_t sn_window_translate(struct sn_dev *dev, const struct sn_mr *window, uint64_t va,
			     uint64_t len, uint32_t access);

#endif
