/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "simnic/cm/retry.h"

#include <errno.h>

#include "simnic/cm/address.h"
#include "simnic/cm/attr.h"
#include "simnic/cm/file.h"
#include "simnic/cm/id.h"
#include "simnic/cm/send.h"
#include "simnic/device/device.h"
#include "simnic/fabric/fabric.h"

/*
 * Exponents of times, in units of 4.096 us, as cma.c has them: an answer takes 20, a packet of RoCE
 * 16, an answer after an MRA 24. Linux counts a millisecond for 8, and a timer runs for the answer
 * and both ways.
 */
#define RESPONSE    20
#define MRA	    24
#define TO_MS	    8
#define MAX_RETRIES 15
#define NS_PER_MS   1000000ULL

static uint64_t scaled_ns(const struct sn_cm_id *id, uint64_t ms)
{
	return ms * NS_PER_MS * atomic_load(&id->nic->slow.retry_percent) / 100;
}

static uint64_t answer_ms(uint32_t exponent)
{
	return (1ULL << (exponent - TO_MS)) + 2 * (1ULL << (SN_CM_LIFE_TIME - TO_MS));
}

void sn_cm_retry_at(struct sn_cm_id *id, uint64_t due_ns)
{
	id->retry.due_ns = due_ns;
	if (due_ns >= sn_cm.due_ns)
		return;
	sn_cm.due_ns = due_ns;
	sn_engine_kick();
}

void sn_cm_retry_begin(struct sn_cm_id *id)
{
	id->retry.left = MAX_RETRIES;
	sn_cm_retry_at(id, sn_clock_ns() + scaled_ns(id, answer_ms(RESPONSE)));
	sn_cm_send(id, &id->retry.msg);
}

void sn_cm_retry_stop(struct sn_cm_id *id)
{
	id->retry.due_ns = 0;
}

void sn_cm_retry_extend(struct sn_cm_id *id)
{
	if (id->retry.due_ns)
		sn_cm_retry_at(id, sn_clock_ns() + scaled_ns(id, answer_ms(MRA)));
}

void sn_cm_timewait(struct sn_cm_id *id)
{
	id->dialog = SN_CM_TIMEWAIT;
	sn_cm_retry_at(id, sn_clock_ns() + scaled_ns(id, 1ULL << (SN_CM_LIFE_TIME + 2 - TO_MS)));
}

/* ---- what is due ---------------------------------------------------------------------------- */

/* Nobody has answered. */
static void give_up(struct sn_cm_id *id)
{
	if (id->dialog == SN_CM_DREQ_SENT) {
		sn_cm_timewait(id);
		if (id->state != SN_CM_CONNECT)
			return;
		id->state = SN_CM_DISCONNECT;
		sn_cm_tell(id, SN_CM_EVENT_DISCONNECTED, -ETIMEDOUT);
		return;
	}
	id->dialog = SN_CM_SILENT;
	sn_cm_tell(id, SN_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
}

static void timewait_ends(struct sn_cm_id *id)
{
	id->dialog = SN_CM_SILENT;
	if (id->state == SN_CM_DISCONNECT)
		sn_cm_tell(id, SN_CM_EVENT_TIMEWAIT_EXIT, 0);
}

static void expire(struct sn_cm_id *id, uint64_t now_ns)
{
	sn_cm_retry_stop(id);
	if (id->state == SN_CM_ADDR_QUERY || id->state == SN_CM_ROUTE_QUERY)
		return sn_cm_resolve_again(id, now_ns);
	if (id->dialog == SN_CM_TIMEWAIT)
		return timewait_ends(id);
	if (!id->retry.left)
		return give_up(id);
	id->retry.left--;
	sn_cm_retry_at(id, now_ns + scaled_ns(id, answer_ms(RESPONSE)));
	sn_cm_send(id, &id->retry.msg);
}

bool sn_cm_retry_run(uint64_t now_ns)
{
	struct sn_cm_id *id;
	uint64_t due;

	if (now_ns < sn_cm.due_ns)
		return false;
	sn_cm.due_ns = UINT64_MAX;
	for (id = sn_cm_id_next(0); id; id = sn_cm_id_next(id->handle + 1)) {
		due = id->retry.due_ns;
		if (due && due <= now_ns)
			expire(id, now_ns);
		due = id->retry.due_ns;
		if (due && due < sn_cm.due_ns)
			sn_cm.due_ns = due;
	}
	return true;
}
