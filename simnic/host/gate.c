/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What a command meets before it acts: a NIC that hangs, that takes its time, that is dead. */
#include <errno.h>
#include <sys/prctl.h>
#include <time.h>

#include "simnic/host/uverbs.h"

#define SN_HANG_POLL_NS 2000000

static void sleep_exactly(uint64_t ns)
{
	struct timespec until;
	/* The default slack of 50 us would double a cheap command. */
	int slack = prctl(PR_GET_TIMERSLACK);

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += ns % 1000000000;
	until.tv_sec += ns / 1000000000 + until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	prctl(PR_SET_TIMERSLACK, 1);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
	prctl(PR_SET_TIMERSLACK, slack);
}

/* A NIC that died and came back is another device: old contexts stay disassociated. */
static enum sn_nic_state state_now(const struct sn_ctx *ctx)
{
	if (atomic_load(&ctx->nic->incarnation) != ctx->incarnation)
		return SN_NIC_DISASSOCIATED;
	return atomic_load(&ctx->nic->state);
}

/* Signal handlers run, but the command goes on waiting, as in the kernel. */
static void wait_while_hung(const struct sn_ctx *ctx)
{
	const struct timespec pause = { 0, SN_HANG_POLL_NS };

	while (state_now(ctx) == SN_NIC_HANG)
		nanosleep(&pause, NULL);
}

bool sn_gate_internal_error(const struct sn_ctx *ctx)
{
	return state_now(ctx) == SN_NIC_INTERNAL_ERROR;
}

int sn_gate_pass(struct sn_ctx *ctx, enum sn_gate gate)
{
	uint64_t cost = atomic_load(&ctx->nic->cmd_cost_ns);

	if (gate == SN_GATE_FREE)
		return state_now(ctx) == SN_NIC_DISASSOCIATED ? -EIO : 0;
	atomic_fetch_add(&ctx->nic->count.commands, 1);
	wait_while_hung(ctx);
	if (cost && state_now(ctx) == SN_NIC_OK)
		sleep_exactly(cost);
	wait_while_hung(ctx);
	switch (state_now(ctx)) {
	case SN_NIC_OK:
	case SN_NIC_HANG: return 0;
	case SN_NIC_INTERNAL_ERROR:
		return gate == SN_GATE_DESTROY || gate == SN_GATE_MODIFY ? 0 : -EIO;
	case SN_NIC_DISASSOCIATED: return -EIO;
	}
	return -EIO;
}
