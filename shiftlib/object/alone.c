/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memory that no other NIC can have: while a PD has some, its connections are not protected.
 * Regions are recorded by mr.c. Keys that the program makes by its own commands (DEVX: direct
 * verbs' indirect keys for UMR too) are known by the commands only. So are queue pairs that the
 * program makes by commands.
 */
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdlib.h>
#include "providers/engine.h"
#include "shiftlib/base/log.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/core/state.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/object/object.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/memory.h"
#include "shiftlib/shift.h"

struct devx_key {
	struct list_node link; /* sh_pd.devx */
	uint32_t object;
};

static const char *const why_alone[SH_ALONE_KINDS] = {
	[SH_ALONE_PAGED] = "it has memory that is paged on demand (ODP)",
	[SH_ALONE_DEVICE] = "it has memory of the device itself (ibv_reg_dm_mr)",
	[SH_ALONE_BUFFER] =
		"it has a dma-buf that direct verbs registered in a way that SHIFT does not know",
	[SH_ALONE_DEVX] =
		"it has memory keys that the program made by DEVX (mlx5dv_create_mkey too)",
};

bool sh_alone_passes(const char *why)
{
	for (int kind = 0; kind < SH_ALONE_KINDS; kind++)
		if (why && why == why_alone[kind])
			return true;
	return false;
}

static void alone_warn(enum sh_alone kind)
{
	static atomic_flag said[SH_ALONE_KINDS];

	if (!atomic_flag_test_and_set(&said[kind]))
		sh_log(SH_LOG_WARN, "connections of a protection domain are not protected: %s",
		       why_alone[kind]);
}

void sh_alone_add(struct sh_pd *pd, enum sh_alone kind)
{
	if (pd->alone[kind]++)
		return;
	alone_warn(kind);
	sh_pd_unprotect(pd, why_alone[kind]);
}

/* The last one that stood in the way: standbys are made again, when they are next asked for. */
void sh_alone_remove(struct sh_pd *pd, enum sh_alone kind)
{
	int other;

	if (--pd->alone[kind] || !sh_alone_passes(pd->why))
		return;
	for (other = 0; other < SH_ALONE_KINDS; other++)
		if (pd->alone[other])
			break;
	if (other < SH_ALONE_KINDS)
		pd->why = why_alone[other];
	else
		pd->unprotected = false;
}

/* ---- keys by DEVX --------------------------------------------------------------------------- */

static void key_add(struct sh_pd *pd, uint32_t object) SH_LOCKED
{
	struct devx_key *key = malloc(sizeof(*key));

	if (!key) {
		sh_pd_unprotect(pd, "no memory to keep a record of a key of it");
		return;
	}
	key->object = object;
	list_add_tail(&pd->devx, &key->link);
	sh_alone_add(pd, SH_ALONE_DEVX);
}

static void key_remove(struct sh_pd *pd, uint32_t object) SH_LOCKED
{
	struct devx_key *key;

	list_for_each (&pd->devx, key, struct devx_key, link) {
		if (key->object != object)
			continue;
		list_del(&key->link);
		free(key);
		sh_alone_remove(pd, SH_ALONE_DEVX);
		return;
	}
}

static bool ctx_has_pd(const struct sh_ctx *ctx, uint32_t number)
{
	struct sh_pd *pd;

	list_for_each (&ctx->pds, pd, struct sh_pd, link)
		if (sp_pd_number(pd->pd) == number)
			return true;
	return false;
}

/* Counts a key made by a command. A PD that is not known may be any of the context's. */
static void ctx_key(struct sh_ctx *ctx, const struct sp_key_command *command) SH_LOCKED
{
	bool any = command->what == SP_KEY_MADE && !ctx_has_pd(ctx, command->pd);
	struct sh_pd *pd;

	list_for_each (&ctx->pds, pd, struct sh_pd, link) {
		if (command->what == SP_KEY_GONE)
			key_remove(pd, command->object);
		else if (any || sp_pd_number(pd->pd) == command->pd)
			key_add(pd, command->object);
	}
}

/*
 * Takes SHIFT's hands off a queue pair that the program has set by a command: another carrier, or
 * this one after a return, would lack the setting.
 */
static void ctx_qp_set(const struct sh_ctx *ctx, uint32_t handle) SH_LOCKED
{
	struct sh_qp *qp;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link) {
		if (qp->ctx != ctx || !qp->sp || qp->qp->handle != handle)
			continue;
		qp->foreign.set = true;
		(void)sh_conn_hands_off(qp);
		return;
	}
}

/*
 * Tells of a queue pair that the program has made by a command. No verb names it, and whoever posts
 * there does so past SHIFT: another library's own code (UCX), or a GPU.
 */
static void ctx_qp_made(struct sh_ctx *ctx) SH_LOCKED
{
	if (!ctx->n_direct++)
		sh_log(SH_LOG_WARN,
		       "%s: GPU-initiated or other direct queue pairs (made by DEVX): not reached; "
		       "they stay on this NIC, and a fault ends them",
		       sh.real->get_device_name(ctx->ctx->device));
}

/*
 * True if a command that all drivers have set something of a queue pair, and its handle. The one
 * such command attaches a completion counter (ibv_qp_attach_comp_cntr), which counts on this NIC
 * alone. Headers are older than that command.
 */
static bool command_sets_qp(const struct ib_uverbs_ioctl_hdr *command, uint32_t *handle)
{
	if (command->object_id != UVERBS_OBJECT_QP ||
	    command->method_id <= UVERBS_METHOD_QP_DESTROY || !command->num_attrs)
		return false;
	*handle = (uint32_t)command->attrs[0].data;
	return true;
}

void shift_command_done(struct ibv_context *context, const struct ib_uverbs_ioctl_hdr *command)
{
	struct sp_key_command key = { .what = SP_KEY_NONE };
	struct sh_ctx *ctx;

	if (!command) {
		sh_warn_once(
			"commands of this libibverbs cannot be read: memory keys that programs "
			"make by DEVX are noticed only when they are used");
		return;
	}
	sh_lock();
	ctx = sh_ctx_find(context);
	if (ctx && ctx->dev && command_sets_qp(command, &key.object))
		key.what = SP_QP_SET;
	else if (ctx && ctx->dev)
		sp_key_command(ctx->ctx, command, &key);
	if (key.what == SP_QP_SET)
		ctx_qp_set(ctx, key.object);
	else if (key.what == SP_QP_MADE)
		ctx_qp_made(ctx);
	else if (key.what != SP_KEY_NONE)
		ctx_key(ctx, &key);
	sh_unlock();
}

void sh_alone_forget(struct sh_pd *pd)
{
	while (!list_empty(&pd->devx)) {
		struct devx_key *key = list_entry(pd->devx.next, struct devx_key, link);

		list_del(&key->link);
		free(key);
	}
}
