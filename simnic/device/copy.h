/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Copies between lists of buffers, as a NIC writes memory: what is polled last is stored last. */
#ifndef SIMNIC_DEVICE_COPY_H
#define SIMNIC_DEVICE_COPY_H

#include <stdint.h>
#include <sys/uio.h>

/* Where a walk through a list of buffers is. */
struct sn_cursor {
	const struct iovec *iov;
	uint32_t n, at;
	uint64_t offset;
};

/* The next bytes of a list, cut to size; returns the number of pieces in out. */
uint32_t sn_cursor_slice(struct sn_cursor *c, uint64_t bytes, struct iovec *out);
/* The list behind its first bytes, in place; returns the pieces that are left. */
uint32_t sn_iov_skip(struct iovec *iov, uint32_t n, uint64_t bytes);
void sn_copy_pieces(const struct iovec *dst, uint32_t n_dst, const struct iovec *src,
		    uint32_t n_src, uint64_t bytes);

#endif
