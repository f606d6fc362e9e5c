/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Holds contexts on NICs that hang, so that the program's end does not wait for them. A holder is
 * started as soon as a NIC is known to hang: in a program that is killed it would be too late.
 * A holder ends when the NIC obeys again, or with the process. A context that the program closes
 * meanwhile lives on in the holder.
 */
#include <string.h>
#include "shiftlib/base/holder.h"
#include "shiftlib/base/list.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/util.h"
#include "shiftlib/base/worker.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/hold.h"

#define HOLD_MOST 64 /* contexts of a NIC; more are not held */

static struct hold {
	struct sh_holder holder;
	uint32_t n;  /* descriptors that were open at the last look */
	bool failed; /* a holder could not be started, which was told */
} holds[SH_MAX_NICS];

/*
 * The files of the NIC's device that this process has open, SHIFT's own among them. A context that
 * is being closed is left out: its memory may go at any time.
 */
static uint32_t hold_files(const struct sh_nic *nic, int *fds) SH_LOCKED
{
	const struct sh_ctx *ctx;
	uint32_t n = 0;

	if (nic->ctx)
		fds[n++] = nic->ctx->cmd_fd;
	list_for_each (&sh_objects.ctxs, ctx, struct sh_ctx, link)
		if (ctx->nic == nic && ctx->ctx && n < HOLD_MOST)
			fds[n++] = ctx->ctx->cmd_fd;
	return n;
}

static void hold_tell(struct hold *hold, const struct sh_nic *nic, int err)
{
	if (!err) {
		sh_log(SH_LOG_INFO, "%s: process %d holds its device, so that this program can end",
		       nic->name, (int)hold->holder.pid);
		return;
	}
	if (!hold->failed)
		sh_log(SH_LOG_WARN,
		       "%s: no process can be made that holds its device (%s); the end of this "
		       "program waits for the NIC's commands",
		       nic->name, strerror(-err));
	hold->failed = true;
}

/*
 * Has the files held that are open now, if there are more of them. What the program has closed
 * meanwhile stays held: the thread that closes it may not have come to that yet.
 */
static void hold_begin(struct hold *hold, const struct sh_nic *nic) SH_LOCKED
{
	struct sh_holder before = hold->holder;
	int fds[HOLD_MOST + 1], err;
	uint32_t n = hold_files(nic, fds);
	bool more = n > hold->n;

	hold->n = n;
	if (!more || hold->failed)
		return;
	hold->holder.fd = -1;
	err = sh_holder_start(&hold->holder, fds, n);
	if (err)
		hold->holder = before;
	else
		sh_holder_end(&before);
	hold_tell(hold, nic, err);
}

static void hold_over(struct hold *hold)
{
	sh_holder_end(&hold->holder);
	hold->n = 0;
	hold->failed = false;
}

/* What the end of the program began is not ended by a last round of the background thread. */
static void hold_run(uint64_t now) SH_LOCKED
{
	uint32_t i;

	if (!sh.config.hold_hung || sh.stopping)
		return;
	for (i = 0; i < sh_nics.n; i++) {
		if (sh_nics.nic[i].sick)
			hold_begin(&holds[i], &sh_nics.nic[i]);
		else
			hold_over(&holds[i]);
	}
}

static bool hold_waits(const struct sh_worker *worker, uint64_t now)
{
	uint64_t since = worker ? sh_worker_busy_since_ns(worker) : 0;

	return since && now - since > sh.config.hang.send_ns;
}

void sh_hold_end(void)
{
	uint64_t now = sh_now_ns();
	uint32_t i;

	if (!sh.config.hold_hung)
		return;
	for (i = 0; i < sh_nics.n; i++)
		if (sh_nics.nic[i].sick || hold_waits(sh_nics.nic[i].prompt, now) ||
		    hold_waits(sh_nics.nic[i].worker, now))
			hold_begin(&holds[i], &sh_nics.nic[i]);
}

/* In the child of a fork the parent's holders are not the child's; the pipes are duplicates. */
static void hold_reset(void)
{
	static bool before;
	uint32_t i;

	for (i = 0; i < SH_MAX_NICS; i++) {
		if (before)
			sh_holder_end(&holds[i].holder);
		holds[i] = (struct hold){ .holder = SH_NO_HOLDER };
	}
	before = true;
}

const struct sh_module sh_hold_module = {
	.name = "hold",
	.reset = hold_reset,
	.run = hold_run,
};
