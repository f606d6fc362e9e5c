/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Names of records: PREFIX/qp/GID/QPN, and PREFIX/qp/SUBNET/LID/QPN where a path has no GID. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kvclient/check.h"
#include "kvclient/kv.h"

static int kv_key_fit(int n, size_t cap)
{
	return n < 0 || (size_t)n >= cap ? -ENOSPC : 0;
}

int kv_prefix(const char *job, char *buf, size_t cap)
{
	size_t i;

	if (!job || !*job)
		return kv_key_fit(snprintf(buf, cap, "shift/%u", (unsigned)geteuid()), cap);
	for (i = 0; job[i]; i++)
		if (!isalnum((unsigned char)job[i]) && !strchr("._:/-", job[i]))
			return -EINVAL;
	if (i >= KV_PREFIX_MAX)
		return -EINVAL;
	return kv_key_fit(snprintf(buf, cap, "%s", job), cap);
}

/*
 * Thousands of queue pairs have several keys each, made with locks held: printf would be the larger
 * part of what that costs.
 */
struct key_writer {
	/* place in the buffer, and its end; at is NULL if the buffer was too small */
	char *at, *end;
};

static void key_put(struct key_writer *key, const char *text, size_t length)
{
	if (!key->at || length >= (size_t)(key->end - key->at)) {
		key->at = NULL;
		return;
	}
	KV_ASSERT(key->at < key->end);
	memcpy(key->at, text, length);
	key->at += length;
}

/* The lowest digits of a number. */
static void key_put_hex(struct key_writer *key, uint64_t value, size_t digits)
{
	char text[16];
	size_t i;

	KV_ASSERT(digits <= sizeof(text));
	for (i = digits; i; value >>= 4)
		text[--i] = "0123456789abcdef"[value & 15];
	key_put(key, text, digits);
}

static struct key_writer key_begin(char *buf, size_t cap, const char *prefix)
{
	struct key_writer key = { buf, buf + cap };

	key_put(&key, prefix, strlen(prefix));
	key_put(&key, "/qp/", 4);
	return key;
}

static int key_end(struct key_writer *key, uint32_t qpn)
{
	key_put(key, "/", 1);
	key_put_hex(key, qpn, 6);
	if (!key->at)
		return -ENOSPC;
	*key->at = 0;
	return 0;
}

int kv_key_gid(char *buf, size_t cap, const char *prefix, const uint8_t gid[16], uint32_t qpn)
{
	struct key_writer key = key_begin(buf, cap, prefix);
	size_t i;

	for (i = 0; i < 16; i++)
		key_put_hex(&key, gid[i], 2);
	return key_end(&key, qpn);
}

int kv_key_lid(char *buf, size_t cap, const char *prefix, uint64_t subnet, uint16_t lid,
	       uint32_t qpn)
{
	struct key_writer key = key_begin(buf, cap, prefix);

	key_put_hex(&key, subnet, 16);
	key_put(&key, "/", 1);
	key_put_hex(&key, lid, 4);
	return key_end(&key, qpn);
}
