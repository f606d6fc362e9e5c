/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Payload from one list of buffers to another. */
#include <string.h>

#include "simnic/device/copy.h"
#include "simnic/fabric/check.h"

/*
 * Orders the stores of a payload for who polls its end. No atomic_thread_fence(): ThreadSanitizer
 * does not know it.
 */
static void store_barrier(void)
{
#if defined(__aarch64__)
	__asm__ volatile("dmb ishst" ::: "memory");
#else
	__asm__ volatile("" ::: "memory"); /* x86 keeps stores in order */
#endif
}

/* Small payload: the tail is stored last, so that who polls the last bytes sees the rest. */
static void copy_in_order(void *dst, const void *src, size_t len)
{
	size_t tail = len > 8 ? 8 : 0;

	memcpy(dst, src, len - tail);
	store_barrier();
	memcpy((uint8_t *)dst + len - tail, (const uint8_t *)src + len - tail, tail);
}

uint32_t sn_cursor_slice(struct sn_cursor *c, uint64_t bytes, struct iovec *out)
{
	uint32_t pieces = 0;

	while (bytes && c->at < c->n) {
		const struct iovec *iov = &c->iov[c->at];
		uint64_t left = iov->iov_len - c->offset, take = left < bytes ? left : bytes;

		SN_ASSERT(c->offset <= iov->iov_len);
		out[pieces].iov_base = (uint8_t *)iov->iov_base + c->offset;
		out[pieces++].iov_len = take;
		bytes -= take;
		c->offset += take;
		if (c->offset == iov->iov_len) {
			c->at++;
			c->offset = 0;
		}
	}
	return pieces;
}

uint32_t sn_iov_skip(struct iovec *iov, uint32_t n, uint64_t bytes)
{
	uint32_t i, out = 0;

	for (i = 0; i < n && bytes; i++) {
		uint64_t step = iov[i].iov_len < bytes ? iov[i].iov_len : bytes;

		bytes -= step;
		iov[i].iov_base = (uint8_t *)iov[i].iov_base + step;
		iov[i].iov_len -= step;
		if (iov[i].iov_len)
			break;
	}
	while (i < n)
		iov[out++] = iov[i++];
	return out;
}

void sn_copy_pieces(const struct iovec *dst, uint32_t n_dst, const struct iovec *src,
		    uint32_t n_src, uint64_t bytes)
{
	struct sn_cursor d = { .iov = dst, .n = n_dst }, s = { .iov = src, .n = n_src };

	while (bytes) {
		uint64_t dl = d.iov[d.at].iov_len - d.offset, sl = s.iov[s.at].iov_len - s.offset;
		uint64_t len = dl < sl ? dl : sl;
		struct iovec to, from;

		len = len < bytes ? len : bytes;
		sn_cursor_slice(&d, len, &to);
		sn_cursor_slice(&s, len, &from);
		copy_in_order(to.iov_base, from.iov_base, len);
		bytes -= len;
		/* Zero-length pieces are stepped over by the next slice. */
		while (bytes && d.at < d.n && !d.iov[d.at].iov_len)
			d.at++;
		while (bytes && s.at < s.n && !s.iov[s.at].iov_len)
			s.at++;
	}
}
