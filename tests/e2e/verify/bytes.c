// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Seeded bytes: each byte of each message is a function of (seed, QP, direction, message, offset).
 */
#include "bytes.h"
#include "qp.h"
#include "report.h"
#include "verify.h"

#include <string.h>
#include <time.h>

#define POISON 0xa5

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

uint64_t mix64(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

uint64_t hash_of(const struct vqp *q, int dir, uint64_t seq, uint32_t salt)
{
	uint64_t h = mix64(verify_instance->opt.seed ^ ((uint64_t)q->index << 40));

	h = mix64(h ^ ((uint64_t)dir << 63) ^ seq);
	return mix64(h ^ salt);
}

static uint64_t word_of(uint64_t base, uint64_t index)
{
	uint64_t x = base + index * 0x9e3779b97f4a7c15ull;

	return x ^ (x >> 29);
}

static uint8_t byte_of(uint64_t base, size_t offset)
{
	return (uint8_t)(word_of(base, offset / 8) >> (offset % 8 * 8));
}

static uint64_t base_of(const struct vqp *q, struct bytes_id id)
{
	return hash_of(q, id.dir, id.seq, id.salt);
}

void bytes_fill(const struct vqp *q, void *to, size_t len, struct bytes_id id)
{
	uint64_t base = base_of(q, id);
	uint8_t *p = to;
	size_t i = 0;

	for (; i < len && (id.offset + i) % 8; i++)
		p[i] = byte_of(base, id.offset + i);
	for (; i + 8 <= len; i += 8) {
		uint64_t w = word_of(base, (id.offset + i) / 8);

		memcpy(p + i, &w, 8);
	}
	for (; i < len; i++)
		p[i] = byte_of(base, id.offset + i);
}

static size_t first_difference(const uint8_t *p, size_t len, uint64_t base, size_t offset)
{
	size_t i = 0;

	for (; i < len && (offset + i) % 8; i++)
		if (p[i] != byte_of(base, offset + i))
			return i;
	for (; i + 8 <= len; i += 8) {
		uint64_t w = word_of(base, (offset + i) / 8), got;

		memcpy(&got, p + i, 8);
		if (got != w)
			break;
	}
	for (; i < len; i++)
		if (p[i] != byte_of(base, offset + i))
			return i;
	return len;
}

/* Names the message whose bytes were found instead: tells a resend from corruption. */
static int64_t bytes_whose(const struct vqp *q, const uint8_t *p, size_t len, struct bytes_id id)
{
	size_t n = len < 16 ? len : 16;

	for (int64_t d = -64; d <= 64; d++) {
		struct bytes_id other = id;

		other.seq += (uint64_t)d;
		if (d && n >= 4 && first_difference(p, n, base_of(q, other), id.offset) == n)
			return d;
	}
	return 0;
}

void bytes_check(const struct vqp *q, const char *what, const void *at, size_t len,
		 struct bytes_id id)
{
	uint64_t base = base_of(q, id);
	const uint8_t *p = at;
	size_t bad = first_difference(p, len, base, id.offset);
	size_t n = 0;

	if (bad == len)
		return;
	for (size_t i = bad; i < len; i++)
		n += p[i] != byte_of(base, id.offset + i);
	id.offset += bad;
	verify_fail(
		q, FAIL_WRONG_BYTES,
		"%s, message %llu: byte %zu of %zu is %02x, should be %02x (%zu differ; poison: "
		"%s; bytes of message %+lld)",
		what, (unsigned long long)id.seq, bad, len, p[bad], byte_of(base, id.offset), n,
		p[bad] == POISON ? "yes" : "no", (long long)bytes_whose(q, p + bad, len - bad, id));
}

void poison_fill(void *to, size_t len)
{
	memset(to, POISON, len);
}

void poison_check(const struct vqp *q, const char *what, const void *at, size_t len)
{
	const uint8_t *p = at;

	for (size_t i = 0; i < len; i++)
		if (p[i] != POISON)
			verify_fail(q, FAIL_GHOST_WRITE,
				    "%s: byte %zu of %zu was written after its use", what, i, len);
}
