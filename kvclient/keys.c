/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Names of records: PREFIX/qp/GID/QPN, and PREFIX/qp/SUBNET/LID/QPN where a path has no GID. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

int kv_key_gid(char *buf, size_t cap, const char *prefix, const uint8_t gid[16], uint32_t qpn)
{
	char hex[33];
	size_t i;

	for (i = 0; i < 16; i++)
		snprintf(hex + 2 * i, 3, "%02x", gid[i]);
	return kv_key_fit(snprintf(buf, cap, "%s/qp/%s/%06" PRIx32, prefix, hex, qpn), cap);
}

int kv_key_lid(char *buf, size_t cap, const char *prefix, uint64_t subnet, uint16_t lid,
	       uint32_t qpn)
{
	return kv_key_fit(snprintf(buf, cap, "%s/qp/%016" PRIx64 "/%04x/%06" PRIx32, prefix, subnet,
				   lid, qpn),
			  cap);
}
