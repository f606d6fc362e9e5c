/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Signatures of control datagrams, where both ends have a key: SipHash-2-4 (Aumasson, Bernstein
 * 2012), whose 64 bits are enough where each guess costs a datagram. Whoever does not know the key
 * can repeat what was said, which is harmless, and say nothing of his own.
 */
#include "sdr/shell/mac.h"

#include <endian.h>
#include <string.h>

static uint64_t get64(const uint8_t *at)
{
	uint64_t v;

	memcpy(&v, at, sizeof(v));
	return le64toh(v);
}

static uint64_t turn(uint64_t x, int by)
{
	return x << by | x >> (64 - by);
}

static void rounds(uint64_t v[4], int n)
{
	while (n--) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = turn(v[1], 13) ^ v[0];
		v[3] = turn(v[3], 16) ^ v[2];
		v[0] = turn(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = turn(v[1], 17) ^ v[2];
		v[3] = turn(v[3], 21) ^ v[0];
		v[2] = turn(v[2], 32);
	}
}

static void take(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	rounds(v, 2);
	v[0] ^= word;
}

uint64_t sdr_mac(const uint8_t key[SDR_MAC_KEY], const void *text, size_t n)
{
	uint64_t k0 = get64(key), k1 = get64(key + 8), last = (uint64_t)n << 56;
	uint64_t v[4] = { k0 ^ 0x736f6d6570736575ull, k1 ^ 0x646f72616e646f6dull,
			  k0 ^ 0x6c7967656e657261ull, k1 ^ 0x7465646279746573ull };
	const uint8_t *at = text;

	for (; n >= 8; at += 8, n -= 8)
		take(v, get64(at));
	for (size_t i = 0; i < n; i++)
		last |= (uint64_t)at[i] << (8 * i);
	take(v, last);
	v[2] ^= 0xff;
	rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

size_t sdr_mac_size(const struct sdr_qp *qp)
{
	return qp->is_signed ? SDR_MAC_SIZE : 0;
}

size_t sdr_mac_put(const struct sdr_qp *qp, void *datagram, size_t n)
{
	uint64_t mac;

	if (!qp->is_signed)
		return n;
	mac = htole64(sdr_mac(qp->mac_key, datagram, n));
	memcpy((uint8_t *)datagram + n, &mac, sizeof(mac));
	return n + sizeof(mac);
}

/* Checks a signature by one comparison of whole words, whose time tells nothing. */
bool sdr_mac_check(const struct sdr_qp *qp, const void *datagram, size_t *n)
{
	if (!qp->is_signed)
		return true;
	if (*n < SDR_MAC_SIZE)
		return false;
	*n -= SDR_MAC_SIZE;
	return get64((const uint8_t *)datagram + *n) == sdr_mac(qp->mac_key, datagram, *n);
}
