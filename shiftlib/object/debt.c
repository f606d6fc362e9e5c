/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The destructions that a NIC owes. An application that closes while a fault is masked must not
 * wait for a NIC that hangs. What destroys something there is left to a thread, in order, and
 * waited for only for as long as a command may take on a NIC that is well: then the result is the
 * NIC's, as ever. A NIC that hangs owes it: for the application it is done, and libmlx5 frees
 * rings and records when the kernel has said so.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/object/debt.h"
#include "shiftlib/object/object.h"
#include "shiftlib/replica/context.h"

#define DEBT_LOOK_NS  (10 * SH_NS_PER_MS)  /* whether its NIC was found to hang */
#define DEBT_HANGS_NS (100 * SH_NS_PER_MS) /* whether it hangs still */

struct debt {
	struct sh_job job;
	struct sh_ctx *ctx; /* NULL: gone behind it */
	int (*pay)(void *object);
	void *object;
	const struct sh_nic *nic; /* the context's */
	/* What pay() returned, and errno. */
	int ret, error;
	bool paid, left; /* left: nobody waits any more */
};

static bool debt_nic_doubtful(const struct sh_nic *nic)
{
	return nic->state == SH_NIC_OPEN && !nic->fatal && !sh_nic_up(nic);
}

/*
 * True if a backup may not obey. SHIFT alone uses it: nothing that the application closes may
 * wait for it, whatever else is well.
 */
static bool debt_backup_doubtful(const struct sh_nic *nic) SH_LOCKED
{
	return nic->state == SH_NIC_OPENING || nic->sick || (sh_nic_up(nic) && !sh_nic_prompt(nic));
}

static bool debt_any_backup_doubtful(const struct sh_ctx *ctx) SH_LOCKED
{
	uint32_t k;

	for (k = 1; k < ctx->n_paths; k++)
		if (debt_backup_doubtful(ctx->path[k]))
			return true;
	return false;
}

/* True if opening the NIC takes longer than a command does on a NIC that is well. */
static bool debt_nic_opens_long(const struct sh_nic *nic)
{
	uint64_t since = nic->state == SH_NIC_OPENING ? sh_worker_busy_since_ns(nic->worker) : 0;

	return since && sh_now_ns() - since > sh.config.hang.command_ns;
}

bool sh_debts_kept(const struct sh_ctx *ctx)
{
	return ctx && ctx->n_paths && sh_debts_kept_by(ctx, ctx->path + 1, ctx->n_paths - 1);
}

bool sh_debts_kept_by(const struct sh_ctx *ctx, struct sh_nic *const *nics, uint32_t n)
{
	if (!ctx || !ctx->dev)
		return false;
	if (!ctx->debts && n)
		sh_nics_try(nics, n);
	if (ctx->debts)
		return true;
	return debt_any_backup_doubtful(ctx) ||
	       (debt_nic_doubtful(ctx->path[0]) && sh_ctx_masked(ctx));
}

bool sh_debt_idle(const struct sh_ctx *ctx, struct sh_busy *busy)
{
	sh_jobs_hurry(busy);
	while (busy->jobs) {
		sh_wait_some(DEBT_LOOK_NS);
		if (busy->jobs && ctx && debt_any_backup_doubtful(ctx))
			return false;
	}
	return true;
}

/* True in a thread that pays: what it leaves, it does itself. */
static _Thread_local bool debt_paying;

/*
 * A NIC that is known to hang is given nothing: the program's end would wait for the thread that
 * did. What it still owes then, the kernel destroys with the device's file.
 */
static void debt_await_nic(const struct sh_nic *nic)
{
	sh_lock();
	while (nic->sick && !nic->fatal)
		sh_wait_some(DEBT_HANGS_NS);
	sh_unlock();
}

static void debt_run(struct sh_job *job)
{
	struct debt *debt = (struct debt *)job;

	sh.real->thread_inside();
	debt_await_nic(debt->nic);
	debt_paying = true;
	errno = 0;
	debt->ret = debt->pay(debt->object);
	debt->error = errno;
}

static void debt_done(struct sh_job *job)
{
	struct debt *debt = (struct debt *)job;
	bool left;

	sh_lock();
	if (debt->ctx && !--debt->ctx->debts)
		debt->ctx->debts_left = false;
	debt->paid = true;
	left = debt->left;
	pthread_cond_broadcast(&sh.idle);
	sh_unlock();
	if (left)
		free(debt);
}

static bool debt_submit(struct sh_nic *nic, struct debt *debt)
{
	if (!nic->owing)
		nic->owing = sh_worker_start("shift-close");
	return nic->owing && !sh_worker_submit(nic->owing, &debt->job);
}

static bool debt_hopeless(struct sh_nic *const *nics, uint32_t n)
{
	uint32_t k;

	for (k = 0; k < n; k++)
		if (nics[k]->sick || debt_nic_opens_long(nics[k]))
			return true;
	return false;
}

/*
 * Waits for a payment. False: its NIC has not done it in the time of a command. The context
 * itself may be freed as soon as this waits, long before its close has returned; its NICs live as
 * long as the process.
 */
static bool debt_wait(struct debt *debt, const struct sh_ctx *ctx) SH_DROPS
{
	uint64_t until = sh_now_ns() + sh.config.hang.command_ns;
	struct sh_nic *nics[SC_MAX_PATHS];
	uint32_t n = ctx->n_paths;
	bool hopeless;

	memcpy(nics, ctx->path, sizeof(nics));
	hopeless = ctx->debts_left || debt_hopeless(nics, n);
	while (!debt->paid && !hopeless && sh_now_ns() < until) {
		sh_wait_some(DEBT_LOOK_NS);
		if (!debt->paid)
			hopeless = debt_hopeless(nics, n);
	}
	return debt->paid;
}

static int debt_pay_here(int (*pay)(void *object), void *object) SH_DROPS
{
	int ret;

	sh_unlock();
	ret = pay(object);
	sh_lock();
	return ret;
}

int sh_debt_defer(struct sh_ctx *ctx, int (*pay)(void *object), void *object, bool closes)
{
	struct debt *debt = debt_paying ? NULL : calloc(1, sizeof(*debt));
	struct sh_nic *nic = ctx->nic;
	int ret;

	if (debt)
		*debt = (struct debt){ .job = { .fn = debt_run, .done = debt_done },
				       .ctx = closes ? NULL : ctx,
				       .nic = nic,
				       .pay = pay,
				       .object = object };
	ctx->debts += !closes;
	if (!debt || !debt_submit(nic, debt)) {
		ctx->debts -= !closes;
		free(debt);
		return debt_pay_here(pay, object);
	}
	if (debt_wait(debt, ctx)) {
		ret = debt->ret;
		if (ret)
			errno = debt->error;
		free(debt);
		return ret;
	}
	debt->left = true;
	if (!closes)
		ctx->debts_left = true;
	return 0;
}
