/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Seeded bytes, and memory that nobody may write. */
#ifndef VERIFY_BYTES_H
#define VERIFY_BYTES_H

#include <stddef.h>
#include <stdint.h>

struct vqp;

enum salt {
	SALT_DATA = 1,
	SALT_STATIC,
	SALT_SPEC,
	SALT_LAYOUT,
	SALT_RECV_LAYOUT,
	SALT_SIGNAL,
	SALT_IMM,
	SALT_BATCH,
	SALT_STYLE,
	SALT_ATOMIC,
	SALT_WR_ID
};

/* Names seeded bytes. */
struct bytes_id {
	int dir;
	uint32_t salt;
	uint64_t seq;
	size_t offset;
};

uint64_t mix64(uint64_t x);
uint64_t hash_of(const struct vqp *q, int dir, uint64_t seq, uint32_t salt);
void bytes_fill(const struct vqp *q, void *to, size_t len, struct bytes_id id);
void bytes_check(const struct vqp *q, const char *what, const void *at, size_t len,
		 struct bytes_id id);
void poison_fill(void *to, size_t len);
void poison_check(const struct vqp *q, const char *what, const void *at, size_t len);
uint64_t now_ns(void);

/* The immediate of a connection's last message has this bit; other immediates do not. */
#define IMM_LAST 0x80000000u

static inline uint32_t imm_of(const struct vqp *q, int dir, uint64_t seq)
{
	return (uint32_t)hash_of(q, dir, seq, SALT_IMM) & ~IMM_LAST;
}

#endif
