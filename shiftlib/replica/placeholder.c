/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Memory regions that the application's NIC has never heard of, as it is dead: see object/mr.c. */
#include <stdlib.h>
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/memory.h"

/* A key is an index of 24 bits and a byte of the driver's; NICs give indices from below. */
#define PLACEHOLDER_KEY	 0xf0000000u
#define PLACEHOLDER_KEYS 0x0f0000u

static bool mr_key_used(uint32_t key)
{
	struct sh_ctx *ctx;
	struct sh_pd *pd;
	struct sh_mr *mr;

	list_for_each (&sh_objects.ctxs, ctx, struct sh_ctx, link)
		list_for_each (&ctx->pds, pd, struct sh_pd, link)
			list_for_each (&pd->mrs, mr, struct sh_mr, link)
				if (mr->mr->lkey == key)
					return true;
	return false;
}

/* Far from where firmware hands out keys, and none that another region has. */
static uint32_t mr_key_make_up(void)
{
	static uint32_t made; /* sh_lock() */
	uint32_t key;

	do
		key = PLACEHOLDER_KEY + (made++ % PLACEHOLDER_KEYS) * 0x100;
	while (mr_key_used(key));
	return key;
}

struct ibv_mr *sh_mr_placeholder(struct ibv_pd *pd, const struct sh_mr *request)
{
	struct ibv_mr *mr = malloc(sizeof(*mr));

	if (!mr)
		return NULL;
	*mr = (struct ibv_mr){ .context = pd->context,
			       .pd = pd,
			       .addr = request->addr,
			       .length = request->length,
			       .handle = UINT32_MAX };
	mr->lkey = mr->rkey = mr_key_make_up();
	return mr;
}
