/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <arpa/inet.h>
#include <stdbool.h>
#include <string.h>
#include "shiftlib/base/gid.h"

_Static_assert(SH_GID_TEXT >= INET6_ADDRSTRLEN, "an address fits");

void sh_gid_text(const uint8_t gid[16], char out[SH_GID_TEXT])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	bool v4 = !memcmp(gid, mapped, sizeof(mapped));

	if (!inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? gid + sizeof(mapped) : gid, out, SH_GID_TEXT))
		out[0] = 0;
}
