/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "shiftlib/control/version.h"
#include <stdio.h>
#include "kvclient/kv.h"

#define TEXT_OF(number) #number
#define TEXT(number)	TEXT_OF(number)

const char sh_version[] = SHIFT_VERSION_MARK SHIFT_VERSION " protocol " TEXT(KV_PROTOCOL);

const char *sh_version_refusal(uint8_t protocol)
{
	static char *texts[UINT8_MAX + 1]; /* made at first use, never freed */
	char **text = &texts[protocol];

	if (!*text && asprintf(text,
			       "the other end has protocol %u, this end has protocol %u: run the "
			       "same version of SHIFT at both ends",
			       protocol, KV_PROTOCOL) < 0)
		*text = NULL;
	return *text ? *text : "the other end has another protocol: out of memory";
}
