/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The pages of the NIC's clock, as libmlx5 maps them: in the context's file, behind all others. */
#include <errno.h>
#include <sys/mman.h>

#include "simnic/device/device.h"
#include "simnic/host/ctx.h"

off_t sn_clock_offset(enum sn_clock_page page)
{
	return ((off_t)SN_MAX_BFREGS / SN_BFREGS_PER_UAR + SN_MAX_DYN_UARS + SN_DM_PAGES + page) *
	       sn_page();
}

int sn_clock_map(struct sn_ctx *ctx, enum sn_clock_page page)
{
	uint8_t *map;
	int err = 0;

	pthread_mutex_lock(&ctx->lock);
	if (!ctx->dev)
		err = -EINVAL;
	if (!err && !ctx->clock[page]) {
		map = sn_ctx_mmap(ctx, NULL, sn_page(), PROT_READ | PROT_WRITE, MAP_SHARED,
				  sn_clock_offset(page));
		if (map == MAP_FAILED)
			err = -ENOMEM;
		else
			ctx->clock[page] = map;
	}
	if (!err)
		sn_dev_clock_show(ctx->dev, ctx->clock[SN_CLOCK_REGISTER],
				  ctx->clock[SN_CLOCK_INFO]);
	pthread_mutex_unlock(&ctx->lock);
	return err;
}

void sn_clock_unmap(struct sn_ctx *ctx)
{
	for (int page = 0; page < SN_CLOCK_PAGES; page++)
		if (ctx->clock[page])
			munmap(ctx->clock[page], sn_page());
}
