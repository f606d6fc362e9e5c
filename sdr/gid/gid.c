/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "sdr/gid/gid.h"

#include <stdbool.h>
#include <string.h>

static bool is_ip4(const union ibv_gid *gid)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(gid->raw, mapped, sizeof(mapped));
}

static bool is_of_one_link(const union ibv_gid *gid)
{
	return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;
}

static int worth(const struct ibv_gid_entry *e)
{
	return (e->gid_type == IBV_GID_TYPE_ROCE_V2) * 4 + is_ip4(&e->gid) * 2 +
	       !is_of_one_link(&e->gid);
}

int sdr_gid_choose(struct ibv_context *verbs, uint8_t port, int entries)
{
	struct ibv_gid_entry entry;
	int best = -1, most = -1;

	for (int i = 0; i < entries; i++) {
		if (ibv_query_gid_ex(verbs, port, (uint32_t)i, &entry, 0) || worth(&entry) <= most)
			continue;
		best = i;
		most = worth(&entry);
	}
	return best;
}
