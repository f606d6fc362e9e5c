/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Copies between lists of buffers, as a NIC writes memory: what is polled last is stored last. */
#ifndef SIMNIC_DEVICE_COPY_H
#define SIMNIC_DEVICE_COPY_H

#include <stdbool.h>
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
/*
 * Copies to a program's memory as PCIe writes it: bytes in ascending order, and each aligned word
 * of 8 bytes by one store, so that no reader sees a part of it. So with 2 and 4 bytes at an end.
 * Returns 0; -EFAULT: a program has unmapped memory that it registered (sn_copy_guard()). Lock
 * held.
 */
int sn_copy_pieces(const struct iovec *dst, uint32_t n_dst, const struct iovec *src, uint32_t n_src,
		   uint64_t bytes);
/*
 * Makes the calling process survive memory that is not mapped, in sn_copy_pieces() alone. For a
 * process whose signal handlers are its own: the device's.
 */
void sn_copy_guard(void);
bool sn_copy_is_guarded(void);
/* True if all of the bytes are mapped now: a program may have unmapped what it registered. */
bool sn_copy_mapped(const struct iovec *iov, uint32_t n);
/*
 * Sets how the copies to come write the aligned lines of 128 bytes. true: the second half of each,
 * a microsecond, and then the first (simnicctl torn-lines). Lock held.
 */
void sn_copy_tear(bool lines);
/*
 * Copies from a program's memory as PCIe reads it: each aligned word of 8 bytes by one load. @dst
 * has room for @bytes, and nobody else reads it meanwhile.
 */
void sn_copy_out(void *dst, const struct iovec *src, uint32_t n_src, uint64_t bytes);
/* Reads a byte of each page. */
void sn_copy_touch(const struct iovec *iov, uint32_t n);

#endif
