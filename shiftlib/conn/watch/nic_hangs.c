/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* NICs that hang without an event. The rules are those of core/hang.c. */
#include <string.h>
#include "shiftlib/base/util.h"
#include "shiftlib/base/worker.h"
#include "shiftlib/conn/quiesce.h"
#include "shiftlib/conn/watch/detector.h"
#include "shiftlib/conn/watch/nic_hangs.h"
#include "shiftlib/control/control_qp.h"
#include "shiftlib/core/hang.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/loop/starved.h"
#include "shiftlib/nic/nic.h"

/* so many times longer a command of a NIC may take that sends nothing for us */
#define HANGS_UNUSED 10
#define HANGS_SENDS_NONE                                                                           \
	2 /* so many times shorter, of one that has datagrams of ours, and sends none */
#define HANGS_ASK_PART 8 /* part of SHIFT_HANG_MS after which a NIC gets a command */

static struct {
	uint64_t next; /* the next time at which a NIC may be judged otherwise; 0: none */
} hangs;

/* A NIC has its time while this process runs to look: as if it had begun so much later. */
static uint64_t hangs_since(uint64_t since, uint64_t now) SH_LOCKED
{
	return since ? now - sh_starved_had_ns(since, now) : 0;
}

/* A command of it that takes so long is looked into, whichever connection it is of. */
static bool hangs_slow(const struct sh_nic *nic, uint64_t now)
{
	uint64_t busy = nic->prompt ? sh_worker_busy_since_ns(nic->prompt) : 0;

	return nic->sick || (busy && busy + sh.config.flush_wait_ns <= now);
}

static void hangs_poll_slow(void) SH_LOCKED
{
	uint64_t now = sh_now_ns();
	uint32_t i;

	for (i = 0; i < sh_nics.n; i++)
		if (hangs_slow(&sh_nics.nic[i], now)) {
			sh_quiesce_poll_awaited();
			return;
		}
}

/*
 * A NIC that sends nothing for us shows only by commands whether it hangs. One that takes long
 * may register much memory; but the question that is put to it then has no excuse.
 */
static enum sh_hang_verdict hangs_judge_unused(struct sh_nic *nic, uint64_t busy,
					       uint64_t now) SH_LOCKED
{
	uint64_t command_ns = sh.config.hang.command_ns;
	struct sh_hang_config config = { .ask_ns = command_ns,
					 .send_ns = command_ns,
					 .command_ns = HANGS_UNUSED * command_ns };
	uint64_t background = nic->worker ? sh_worker_busy_since_ns(nic->worker) : 0;
	uint64_t working = sh_earlier_ns(hangs_since(background, now), busy);

	return sh_hang_judge(&nic->hang, &config, working, busy, now);
}

/*
 * A NIC that has datagrams of ours and sends none is asked early, so that the time of the command
 * does not come behind the other.
 */
static enum sh_hang_verdict hangs_judge(struct sh_nic *nic, uint64_t waiting, uint64_t busy,
					uint64_t now) SH_LOCKED
{
	struct sh_hang_config config = {
		.ask_ns = sh.config.hang.send_ns / HANGS_ASK_PART,
		.send_ns = sh.config.hang.send_ns,
		.command_ns = sh.config.hang.command_ns / HANGS_SENDS_NONE,
	};
	uint64_t next = sh_hang_next(&nic->hang, &config, waiting, busy, now);

	if (now - waiting >= sh.config.path.beat_ns / SH_NIC_HELD_PART)
		hangs.next = sh_earlier_ns(hangs.next, next);
	return sh_hang_judge(&nic->hang, &config, waiting, busy, now);
}

/* The clock is read first: what happens between that and the look makes nothing longer. */
static void hangs_nic(struct sh_nic *nic) SH_LOCKED
{
	enum sh_hang_verdict verdict;
	uint64_t waiting, busy, now = sh_now_ns();

	if (nic->state != SH_NIC_OPEN || nic->fatal || nic->sick)
		return;
	waiting = hangs_since(sh_control_waiting_since(nic->control), now);
	busy = hangs_since(sh_worker_busy_since_ns(nic->prompt), now);
	verdict =
		waiting ? hangs_judge(nic, waiting, busy, now) : hangs_judge_unused(nic, busy, now);
	switch (verdict) {
	case SH_HANG_NONE: break;
	case SH_HANG_ASK: sh_nic_ask(nic); break;
	case SH_HANG_HUNG: sh_nic_sick(nic); break;
	}
}

void sh_detector_nics(void)
{
	uint32_t i;

	hangs.next = 0;
	for (i = 0; i < sh_nics.n; i++)
		hangs_nic(&sh_nics.nic[i]);
}

void sh_nic_hangs_look(void)
{
	sh_detector_nics();
	hangs_poll_slow();
}

uint64_t sh_nic_hangs_next(void)
{
	return hangs.next;
}

bool sh_nic_hangs_calm(void)
{
	const struct sh_nic *nic;
	uint32_t i;

	for (i = 0; i < sh_nics.n; i++) {
		nic = &sh_nics.nic[i];
		if (nic->state == SH_NIC_OPEN &&
		    (nic->sick || sh_control_waiting_since(nic->control) ||
		     sh_worker_busy_since_ns(nic->prompt) || sh_worker_busy_since_ns(nic->worker)))
			return false;
	}
	return true;
}

void sh_nic_hangs_reset(void)
{
	memset(&hangs, 0, sizeof(hangs));
}
