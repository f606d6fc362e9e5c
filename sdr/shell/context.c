/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Devices that were opened, and memory on them. */
#include "sdr/shell/internal.h"

#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_LEN = SDR_NIC_NAME - 1 };

#define LOOK_NS 1000000ull /* time between two looks for the devices' events */

static void close_nics(struct sdr_context *ctx)
{
	for (uint32_t i = 0; i < ctx->n_nics; i++)
		sdr_nic_close(&ctx->nics[i]);
}

static bool has(const struct sdr_context *ctx, const char *name)
{
	for (uint32_t i = 0; i < ctx->n_nics; i++)
		if (!strcmp(ibv_get_device_name(ctx->nics[i].verbs->device), name))
			return true;
	return false;
}

/* name: NULL: the first device. */
static int open_nic(struct sdr_context *ctx, const char *name, const struct sdr_context_attr *attr)
{
	int err;

	if (ctx->n_nics == SDR_NICS_MAX || (name && has(ctx, name)))
		return -EINVAL;
	err = sdr_nic_open(&ctx->nics[ctx->n_nics], name, attr ? attr->port : 0,
			   attr ? attr->gid_index : -1);
	ctx->n_nics += !err;
	return err;
}

/* Of "mlx5_0,mlx5_1". */
static int open_nics(struct sdr_context *ctx, const char *names,
		     const struct sdr_context_attr *attr)
{
	char name[NAME_MAX_LEN + 1];
	size_t n;
	int err = 0;

	if (!names)
		return open_nic(ctx, NULL, attr);
	do {
		n = strcspn(names, ",");
		if (n > NAME_MAX_LEN)
			return -ENODEV;
		memcpy(name, names, n);
		name[n] = 0;
		err = open_nic(ctx, name, attr);
		names += n + (names[n] == ',');
	} while (!err && (*names || names[-1] == ','));
	return err;
}

SDR_API struct sdr_context *sdr_context_create(const char *dev_names,
					       const struct sdr_context_attr *attr)
{
	struct sdr_context *ctx = calloc(1, sizeof(*ctx));
	int err;

	if (!ctx)
		return NULL;
	pthread_mutex_init(&ctx->lock, NULL);
	err = open_nics(ctx, dev_names, attr);
	if (!err)
		return ctx;
	close_nics(ctx);
	pthread_mutex_destroy(&ctx->lock);
	free(ctx);
	errno = -err;
	return NULL;
}

SDR_API int sdr_context_destroy(struct sdr_context *ctx)
{
	if (ctx->users)
		return -EBUSY;
	sdr_revivals_join(ctx);
	close_nics(ctx);
	pthread_mutex_destroy(&ctx->lock);
	free(ctx);
	return 0;
}

static void look(struct sdr_context *ctx)
{
	uint64_t now = sdr_clock_ns();

	if (now < ctx->look_at)
		return;
	ctx->look_at = now + LOOK_NS;
	for (uint32_t i = 0; i < ctx->n_nics; i++) {
		sdr_nic_look(&ctx->nics[i]);
		sdr_revive(ctx, i, now);
	}
}

SDR_API int sdr_poll(struct sdr_context *ctx)
{
	int sum = 0, n;

	look(ctx);
	for (struct sdr_qp *qp = ctx->qps; qp; qp = qp->next) {
		n = sdr_qp_progress(qp);
		if (n > 0)
			sum += n;
	}
	return sum;
}

/* 0; a NIC that is gone has no part in it. Under the lock: a thread may give it back, too. */
static int deregister(struct sdr_mr *mr)
{
	int first = 0, err;

	for (uint32_t i = 0; i < mr->ctx->n_nics; i++) {
		err = mr->mrs[i] ? -ibv_dereg_mr(mr->mrs[i]) : 0;
		if (!err || mr->ctx->nics[i].gone)
			mr->mrs[i] = NULL;
		else if (!first)
			first = err;
	}
	return first;
}

int sdr_mr_enroll(struct sdr_mr *mr, struct sdr_nic *nic, uint32_t i)
{
	mr->mrs[i] = sdr_region_reg(nic, mr->addr, mr->length, nic->windows);
	return mr->mrs[i] ? 0 : errno ? -errno : -EIO;
}

bool sdr_mr_covers(const struct sdr_mr *mr, const struct sdr_qp *qp, uint64_t addr, uint64_t length)
{
	uint64_t first = (uintptr_t)mr->addr;

	return mr->ctx == qp->ctx && addr >= first && length <= mr->length &&
	       addr - first <= mr->length - length;
}

static int enroll(struct sdr_mr *mr)
{
	struct sdr_nic *nics = mr->ctx->nics;
	int err = 0;

	for (uint32_t i = 0; i < mr->ctx->n_nics && !err; i++) {
		sdr_nic_look(&nics[i]);
		if (!nics[i].gone)
			err = sdr_mr_enroll(mr, &nics[i], i);
	}
	return err;
}

static void unlist(struct sdr_mr *mr)
{
	struct sdr_mr **link = &mr->ctx->mrs;

	while (*link && *link != mr)
		link = &(*link)->next;
	if (*link)
		*link = mr->next;
}

SDR_API struct sdr_mr *sdr_mr_reg(struct sdr_context *ctx, void *addr, size_t length)
{
	struct sdr_mr *mr = calloc(1, sizeof(*mr));
	int err;

	if (!mr)
		return NULL;
	mr->ctx = ctx;
	mr->addr = addr;
	mr->length = length;
	ctx->users++;
	err = enroll(mr);
	if (err) {
		sdr_mr_free(mr);
		errno = -err;
		return NULL;
	}
	pthread_mutex_lock(&ctx->lock);
	mr->next = ctx->mrs;
	ctx->mrs = mr;
	pthread_mutex_unlock(&ctx->lock);
	return mr;
}

void sdr_mr_free(struct sdr_mr *mr)
{
	if (!mr)
		return;
	pthread_mutex_lock(&mr->ctx->lock);
	deregister(mr);
	unlist(mr);
	pthread_mutex_unlock(&mr->ctx->lock);
	mr->ctx->users--;
	free(mr);
}

SDR_API int sdr_mr_dereg(struct sdr_mr *mr)
{
	int err;

	if (mr->uses)
		return -EBUSY;
	pthread_mutex_lock(&mr->ctx->lock);
	err = deregister(mr);
	pthread_mutex_unlock(&mr->ctx->lock);
	if (!err)
		sdr_mr_free(mr);
	return err;
}
