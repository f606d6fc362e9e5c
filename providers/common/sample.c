/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "providers/common/sample.h"

void sp_sample_add(struct sp_sample *s, uint32_t key, bool remote)
{
	for (uint32_t i = 0; i < s->n; i++)
		if (s->keys[i].key == key && s->keys[i].remote == remote)
			return;
	if (s->n < s->room)
		s->keys[s->n++] = (struct sp_key){ key, remote };
}
