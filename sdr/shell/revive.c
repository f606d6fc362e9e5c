/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The revival of a device that has failed. A device does not come back by itself: what was opened
 * of it is dead, and must be given back. When no connection holds anything of the device, a thread
 * gives the regions and the device back, opens it anew, and registers the regions again. A revival
 * that fails is tried again, with growing pauses, and at last no more.
 */
#include "sdr/shell/internal.h"

enum { TRIES = 32, PAUSE_SHIFT_MAX = 6 };

#define PAUSE_NS 1000000000ull

static void forget_regions(struct sdr_context *ctx, uint32_t nic)
{
	for (struct sdr_mr *mr = ctx->mrs; mr; mr = mr->next) {
		if (mr->mrs[nic])
			ibv_dereg_mr(mr->mrs[nic]);
		mr->mrs[nic] = NULL;
	}
}

static int enroll_regions(struct sdr_context *ctx, struct sdr_nic *device, uint32_t nic)
{
	int err = 0;

	for (struct sdr_mr *mr = ctx->mrs; mr && !err; mr = mr->next)
		if (!mr->mrs[nic])
			err = sdr_mr_enroll(mr, device, nic);
	if (err)
		forget_regions(ctx, nic);
	return err;
}

static void *revive(void *arg)
{
	struct sdr_revival *r = arg;
	struct sdr_context *ctx = r->ctx;
	struct sdr_nic old = r->device;

	pthread_mutex_lock(&ctx->lock);
	forget_regions(ctx, r->nic);
	pthread_mutex_unlock(&ctx->lock);
	sdr_nic_close(&old);
	r->err = sdr_nic_open(&r->device, old.name, old.port, old.gid_asked);
	if (!r->err) {
		pthread_mutex_lock(&ctx->lock);
		r->err = enroll_regions(ctx, &r->device, r->nic);
		pthread_mutex_unlock(&ctx->lock);
		if (r->err)
			sdr_nic_close(&r->device);
	}
	atomic_store(&r->done, true);
	return NULL;
}

/* Regions that were made meanwhile have no part on it yet. */
static void adopt(struct sdr_context *ctx, struct sdr_revival *r, uint64_t now)
{
	struct sdr_nic *nic = &ctx->nics[r->nic];

	pthread_join(r->thread, NULL);
	r->runs = false;
	if (!r->err)
		r->err = enroll_regions(ctx, &r->device, r->nic);
	if (!r->err) {
		*nic = r->device;
		r->tries = 0;
		return;
	}
	sdr_nic_close(&r->device);
	r->try_at = now + (PAUSE_NS << (r->tries < PAUSE_SHIFT_MAX ? r->tries : PAUSE_SHIFT_MAX));
	r->tries++;
}

static bool is_held(const struct sdr_context *ctx, uint32_t nic)
{
	for (const struct sdr_qp *qp = ctx->qps; qp; qp = qp->next)
		if (sdr_nic_holds(qp, nic))
			return true;
	return false;
}

/* Starts the thread. Only the thread knows the device from now on. */
static void begin(struct sdr_context *ctx, uint32_t nic, uint64_t now)
{
	struct sdr_revival *r = &ctx->revivals[nic];

	r->ctx = ctx;
	r->nic = nic;
	r->device = ctx->nics[nic];
	atomic_store(&r->done, false);
	r->runs = !pthread_create(&r->thread, NULL, revive, r);
	r->try_at = now + PAUSE_NS;
	if (!r->runs)
		return;
	ctx->nics[nic].verbs = NULL;
	ctx->nics[nic].pd = NULL;
}

void sdr_revive(struct sdr_context *ctx, uint32_t nic, uint64_t now)
{
	struct sdr_revival *r = &ctx->revivals[nic];

	if (r->runs && atomic_load(&r->done))
		adopt(ctx, r, now);
	if (!r->runs && ctx->nics[nic].gone && now >= r->try_at && r->tries < TRIES &&
	    !is_held(ctx, nic))
		begin(ctx, nic, now);
}

void sdr_revivals_join(struct sdr_context *ctx)
{
	for (uint32_t i = 0; i < ctx->n_nics; i++)
		if (ctx->revivals[i].runs)
			adopt(ctx, &ctx->revivals[i], 0);
}
