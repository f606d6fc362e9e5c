/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The gate before each command: a NIC that hangs, that takes its time, that is dead. */
#include <errno.h>
#include <sys/prctl.h>
#include <time.h>

#include "simnic/host/ctx.h"
#include "simnic/host/gate.h"

#define SN_HANG_POLL_NS 2000000
#define SN_LINE_POLL_NS 2000000

/* A NIC that died and came back is another device: old contexts stay disassociated. */
static enum sn_nic_state state_now(const struct sn_ctx *ctx)
{
	if (atomic_load(&ctx->nic->incarnation) != ctx->incarnation)
		return SN_NIC_DISASSOCIATED;
	return atomic_load(&ctx->nic->state);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/*
 * Waits for the end of a hang, or until then; false: the NIC still hangs. Signal handlers run, but
 * the command goes on waiting, as in the kernel.
 */
static bool wait_while_hung(const struct sn_ctx *ctx, uint64_t until)
{
	const struct timespec pause = { 0, SN_HANG_POLL_NS };

	while (state_now(ctx) == SN_NIC_HANG) {
		if (now_ns() >= until)
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}

/*
 * A NIC has one command interface for all processes of its host and serves commands one after the
 * other, in the order in which they came. A place in that line is a time, taken in one step: who is
 * killed while it waits holds up nobody for longer than its command takes. Returns when it is done;
 * 0: it is, already.
 */
static uint64_t line_up(struct sn_nic *nic, uint64_t cost_ns)
{
	uint64_t now = now_ns(), before = atomic_load(&nic->cmd_free_ns), done;

	do {
		done = (before > now ? before : now) + cost_ns;
		if (done == now)
			return 0;
	} while (!atomic_compare_exchange_weak(&nic->cmd_free_ns, &before, done));
	return done;
}

static void sleep_until(uint64_t ns)
{
	struct timespec until = { .tv_sec = (time_t)(ns / 1000000000u),
				  .tv_nsec = (long)(ns % 1000000000u) };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

/*
 * Waits for the command's turn. A NIC that dies gives all that stand in its line their error: its
 * state is looked at every SN_LINE_POLL_NS.
 */
static void wait_in_line(const struct sn_ctx *ctx, uint64_t done)
{
	/* The default slack of 50 us would double a cheap command. */
	int slack = prctl(PR_GET_TIMERSLACK);
	uint64_t now;

	prctl(PR_SET_TIMERSLACK, 1);
	while ((now = now_ns()) < done && state_now(ctx) == SN_NIC_OK)
		sleep_until(done - now > SN_LINE_POLL_NS ? now + SN_LINE_POLL_NS : done);
	prctl(PR_SET_TIMERSLACK, slack);
}

/*
 * Waits until the NIC has served the command, or until the driver gives the command up:
 * -ETIMEDOUT. A hang cuts the line; those who stood in it line up anew when it ends.
 */
static int wait_to_be_served(const struct sn_ctx *ctx, uint64_t more_ns)
{
	uint64_t until = now_ns() + atomic_load(&ctx->nic->slow.timeout_ns), done;

	do {
		if (!wait_while_hung(ctx, until))
			return -ETIMEDOUT;
		done = state_now(ctx) == SN_NIC_OK
			       ? line_up(ctx->nic, atomic_load(&ctx->nic->cmd_cost_ns) + more_ns)
			       : 0;
		if (done)
			wait_in_line(ctx, done);
	} while (state_now(ctx) == SN_NIC_HANG);
	return 0;
}

bool sn_gate_internal_error(const struct sn_ctx *ctx)
{
	return state_now(ctx) == SN_NIC_INTERNAL_ERROR;
}

static bool destroys(enum sn_gate gate)
{
	return gate == SN_GATE_DROP || gate == SN_GATE_DESTROY || gate == SN_GATE_DESTROY_QP;
}

/* The answer without the firmware, as in mlx5 since Linux 5.17; before, EIO for ENOLINK. */
static int answer_of_dead(enum sn_gate gate)
{
	if (gate == SN_GATE_OPEN)
		return -EAGAIN;
	return destroys(gate) || gate == SN_GATE_MODIFY ? 0 : -ENOLINK;
}

static int answer_now(const struct sn_ctx *ctx, enum sn_gate gate)
{
	switch (state_now(ctx)) {
	case SN_NIC_OK:
	case SN_NIC_HANG: return 0;
	case SN_NIC_INTERNAL_ERROR: return answer_of_dead(gate);
	case SN_NIC_DISASSOCIATED: break;
	}
	return destroys(gate) ? 0 : -EIO;
}

static int ask_firmware(struct sn_ctx *ctx, enum sn_gate gate, uint64_t line_ns)
{
	int err;

	atomic_fetch_add(&ctx->nic->count.commands, 1);
	err = wait_to_be_served(ctx, line_ns);
	if (err && gate == SN_GATE_DESTROY_QP) {
		wait_to_be_served(ctx, 0);
		return 0;
	}
	return err;
}

int sn_gate_pass(struct sn_ctx *ctx, enum sn_gate gate, const struct sn_wait *wait)
{
	int err;

	if (wait->route_ns)
		sleep_until(now_ns() + wait->route_ns);
	if (gate == SN_GATE_FREE || gate == SN_GATE_DROP)
		return state_now(ctx) == SN_NIC_DISASSOCIATED ? answer_now(ctx, gate) : 0;
	err = ask_firmware(ctx, gate, wait->line_ns);
	return err ? err : answer_now(ctx, gate);
}

void sn_gate_destroyed(const struct sn_ctx *ctx)
{
	wait_while_hung(ctx, now_ns() + atomic_load(&ctx->nic->slow.timeout_ns));
}

int sn_gate_file(const struct sn_nic *nic)
{
	uint64_t until = now_ns() + atomic_load(&nic->slow.timeout_ns);
	const struct timespec pause = { 0, SN_HANG_POLL_NS };

	while (atomic_load(&nic->state) == SN_NIC_HANG) {
		if (now_ns() >= until)
			return -ETIMEDOUT;
		nanosleep(&pause, NULL);
	}
	return 0;
}
