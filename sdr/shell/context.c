/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A device that was opened, and memory on it. */
#include "sdr/shell/internal.h"

#include <stdlib.h>

SDR_API struct sdr_context *sdr_context_create(const char *dev_name,
					       const struct sdr_context_attr *attr)
{
	struct sdr_context *ctx = calloc(1, sizeof(*ctx));
	int err;

	if (!ctx)
		return NULL;
	err = sdr_nic_open(&ctx->nic, dev_name, attr ? attr->port : 0, attr ? attr->gid_index : -1);
	if (!err)
		return ctx;
	free(ctx);
	errno = -err;
	return NULL;
}

SDR_API int sdr_context_destroy(struct sdr_context *ctx)
{
	if (ctx->users)
		return -EBUSY;
	sdr_nic_close(&ctx->nic);
	free(ctx);
	return 0;
}

SDR_API int sdr_poll(struct sdr_context *ctx)
{
	int sum = 0, n;

	for (struct sdr_qp *qp = ctx->qps; qp; qp = qp->next) {
		n = sdr_qp_progress(qp);
		if (n > 0)
			sum += n;
	}
	return sum;
}

SDR_API struct sdr_mr *sdr_mr_reg(struct sdr_context *ctx, void *addr, size_t length)
{
	struct sdr_mr *mr = calloc(1, sizeof(*mr));
	int err;

	if (!mr)
		return NULL;
	mr->ctx = ctx;
	mr->mr = sdr_region_reg(&ctx->nic, addr, length, ctx->nic.windows);
	if (!mr->mr) {
		err = errno;
		free(mr);
		errno = err;
		return NULL;
	}
	ctx->users++;
	return mr;
}

SDR_API int sdr_mr_dereg(struct sdr_mr *mr)
{
	int err = -ibv_dereg_mr(mr->mr);

	if (err)
		return err;
	mr->ctx->users--;
	free(mr);
	return 0;
}
