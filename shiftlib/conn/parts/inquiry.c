/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * An inquiry begins when a send has ended as by an error of the program. The error is withheld
 * while it lasts. A NIC is well if it obeys a command that was given INQUIRY_GRACE_NS after the
 * error: by then the kernel has told of what it knows. The peer looks at its own NIC in the same
 * way, and answers. A sick NIC makes the error a fault of the carrier; else it is the program's,
 * also where nobody has answered in time.
 */
#include <stdlib.h>
#include "shiftlib/base/util.h"
#include "shiftlib/conn/carrier.h"
#include "shiftlib/conn/clock.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/mailbox.h"
#include "shiftlib/conn/messages.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/parts/inquiry.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/control/wire.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/loop/starved.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/peer/peer.h"

/*
 * The kernel's handlers of a broken PCI link need some milliseconds from the error's interrupt to
 * the event (seen: 2 to 20).
 */
#define INQUIRY_GRACE_NS (50 * SH_NS_PER_MS)
#define INQUIRY_FIRST_NS (4 * SH_NS_PER_MS) /* from one look to the next; it doubles */
#define INQUIRY_MOST_NS	 (64 * SH_NS_PER_MS)
/* so long an answer is waited for: times SHIFT_HANG_MS, and at most */
#define INQUIRY_WAITS	10
#define INQUIRY_WAIT_NS (10 * SH_NS_PER_S)

enum inquiry_health { INQUIRY_UNKNOWN, INQUIRY_WELL, INQUIRY_SICK };

/* NULL: no memory. */
static struct sh_qp_inquiry *inquiry_of(struct sh_qp *qp)
{
	if (!qp->inquiry)
		qp->inquiry = calloc(1, sizeof(*qp->inquiry));
	return qp->inquiry;
}

static bool inquiry_is_on(const struct sh_qp *qp)
{
	return qp->inquiry && qp->inquiry->since;
}

/* What is known of the carrier's NIC, as of a time after `since`. Unknown: it is asked. */
static enum inquiry_health inquiry_health(const struct sh_carrier *carrier, uint64_t since,
					  uint64_t now) SH_LOCKED
{
	struct sh_nic *nic = carrier->nic;

	if (nic->state != SH_NIC_OPEN || carrier->lost || sh_carrier_dead(carrier))
		return INQUIRY_SICK;
	if (now < since + INQUIRY_GRACE_NS)
		return INQUIRY_UNKNOWN;
	if (nic->ask.obeyed_at >= since + INQUIRY_GRACE_NS)
		return INQUIRY_WELL;
	if (!nic->ask.under_way)
		sh_nic_ask(nic);
	return INQUIRY_UNKNOWN;
}

/* A child of fork() counts anew. */
static void inquiry_close(struct sh_qp_inquiry *inquiry) SH_LOCKED
{
	if (inquiry->since && sh_conns.owed)
		sh_conns.owed--;
	inquiry->since = inquiry->look_at = 0;
}

/* True if an answer has been waited for long enough; a process that did not run has not waited. */
static bool inquiry_too_long(uint64_t since, uint64_t now) SH_LOCKED
{
	uint64_t most = INQUIRY_WAITS * sh.config.hang.send_ns;

	return sh_starved_had_ns(since, now) >= (most < INQUIRY_WAIT_NS ? most : INQUIRY_WAIT_NS);
}

/* The first look behind the grace comes at its end. */
static void inquiry_later(uint64_t since, uint64_t now, uint64_t *look_at, uint64_t *interval)
{
	uint64_t grace = since + INQUIRY_GRACE_NS;

	*look_at = now + *interval;
	if (now < grace && *look_at >= grace) {
		*look_at = grace;
		*interval = INQUIRY_FIRST_NS;
	} else if (*interval < INQUIRY_MOST_NS) {
		*interval *= 2;
	}
}

/* ---- this end's error ----------------------------------------------------------------------- */

/* Errors that the other end's NIC has made, or its silence about receives. */
static bool inquiry_of_both(enum ibv_wc_status status)
{
	switch ((int)status) {
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_OP_ERR:
	case IBV_WC_REM_ABORT_ERR:
	case IBV_WC_BAD_RESP_ERR:
	case IBV_WC_RNR_RETRY_EXC_ERR: return true;
	default: return false;
	}
}

static bool inquiry_accused(struct sh_qp *qp, uint32_t epoch, enum ibv_wc_status status) SH_LOCKED
{
	struct sh_qp_inquiry *inquiry = inquiry_of(qp);

	if (!inquiry || !sh_carrier_find(qp, epoch) || qp->core.move == SC_MOVE_ENDED)
		return false;
	if (inquiry->since)
		return true;
	inquiry->since = inquiry->look_at = sh_now_ns();
	inquiry->interval = INQUIRY_FIRST_NS;
	inquiry->epoch = epoch;
	inquiry->status = (uint8_t)status;
	inquiry->asked_at = 0;
	sh_conns.owed++;
	inquiry->asks = inquiry_of_both(status) && qp->peer &&
			(qp->peer->caps & SH_WIRE_CAP_INQUIRY) && !qp->core.peer.ended;
	sh_clock_touch(qp);
	return true;
}

static void inquiry_ends(struct sh_qp *qp, enum inquiry_health health) SH_LOCKED
{
	bool sick = health == INQUIRY_SICK;

	sh_log(sick ? SH_LOG_INFO : SH_LOG_DEBUG,
	       "QP 0x%06x: its error (status %u) is %s, as is known after %llu ms", qp->qp->qp_num,
	       qp->inquiry->status, sick ? "a sick NIC's" : "the program's own",
	       (unsigned long long)((sh_now_ns() - qp->inquiry->since) / SH_NS_PER_MS));
	inquiry_close(qp->inquiry);
	if (sick)
		sh_mailbox_nic(qp);
	else
		sh_mailbox_program(qp);
}

static void inquiry_ask(struct sh_qp *qp) SH_LOCKED
{
	struct sh_wire_inquiry ask = { .kind = SH_WIRE_INQUIRY_ASK,
				       .status = qp->inquiry->status,
				       .carrier = qp->inquiry->epoch };

	if (qp->inquiry->asks)
		sh_messages_send_inquiry(qp, &ask);
}

static void inquiry_look(struct sh_qp *qp, uint64_t now) SH_LOCKED
{
	struct sh_qp_inquiry *inquiry = qp->inquiry;
	const struct sh_carrier *carrier = sh_carrier_find(qp, inquiry->epoch);
	enum inquiry_health health;

	if (!carrier) { /* its requests were settled without an answer */
		inquiry_close(inquiry);
		return;
	}
	health = inquiry_health(carrier, inquiry->since, now);
	if (health == INQUIRY_UNKNOWN && !inquiry->asked_at && carrier->nic->ask.under_way)
		inquiry->asked_at = now;
	if (health == INQUIRY_SICK || (health == INQUIRY_WELL && !inquiry->asks))
		return inquiry_ends(qp, health);
	if (health == INQUIRY_WELL && inquiry_too_long(inquiry->since, now))
		return inquiry_ends(qp, INQUIRY_WELL);
	if (inquiry->asked_at && inquiry_too_long(inquiry->asked_at, now))
		return inquiry_ends(qp, INQUIRY_SICK);
	inquiry_ask(qp);
	inquiry_later(inquiry->since, now, &inquiry->look_at, &inquiry->interval);
}

/* ---- the peer's ----------------------------------------------------------------------------- */

static void inquiry_answer(struct sh_qp *qp, uint64_t now) SH_LOCKED
{
	struct sh_qp_inquiry *inquiry = qp->inquiry;
	const struct sh_carrier *carrier = sh_carrier_find(qp, inquiry->of_peer.epoch);
	enum inquiry_health health =
		carrier ? inquiry_health(carrier, inquiry->of_peer.since, now) : INQUIRY_WELL;
	struct sh_wire_inquiry answer = { .carrier = inquiry->of_peer.epoch };

	inquiry_later(inquiry->of_peer.since, now, &inquiry->of_peer.look_at,
		      &inquiry->of_peer.interval);
	if (health == INQUIRY_UNKNOWN) {
		if (inquiry_too_long(inquiry->of_peer.since, now))
			inquiry->of_peer.look_at = 0; /* until the peer asks again */
		return;
	}
	answer.kind = health == INQUIRY_SICK ? SH_WIRE_INQUIRY_SICK : SH_WIRE_INQUIRY_WELL;
	inquiry->of_peer.look_at = 0; /* `since` stays: a repetition is answered at once */
	sh_messages_send_inquiry(qp, &answer);
}

static void inquiry_asked(struct sh_qp *qp, const struct sh_wire_inquiry *asked) SH_LOCKED
{
	struct sh_qp_inquiry *inquiry = inquiry_of(qp);

	if (!inquiry)
		return; /* the peer asks again */
	if (!inquiry->of_peer.since || inquiry->of_peer.epoch != asked->carrier) {
		inquiry->of_peer.since = sh_now_ns();
		inquiry->of_peer.epoch = asked->carrier;
		inquiry->of_peer.interval = INQUIRY_FIRST_NS;
		sh_log(SH_LOG_DEBUG,
		       "QP 0x%06x: the peer asks whether this NIC is well: a request ended "
		       "with status %u",
		       qp->qp->qp_num, asked->status);
	}
	inquiry_answer(qp, sh_now_ns());
	sh_clock_touch(qp);
}

static void inquiry_answered(struct sh_qp *qp, const struct sh_wire_inquiry *answer) SH_LOCKED
{
	struct sh_qp_inquiry *inquiry = qp->inquiry;

	if (!inquiry_is_on(qp) || !inquiry->asks || answer->carrier != inquiry->epoch)
		return;
	inquiry->asks = false;
	inquiry->look_at = sh_now_ns();
	sh_clock_touch(qp);
	if (answer->kind == SH_WIRE_INQUIRY_SICK)
		inquiry_ends(qp, INQUIRY_SICK);
}

static bool inquiry_message(struct sh_qp *qp, const struct sh_wire_record *record) SH_LOCKED
{
	if (record->type != SH_WIRE_INQUIRY)
		return false;
	if (record->inquiry.kind == SH_WIRE_INQUIRY_ASK)
		inquiry_asked(qp, &record->inquiry);
	else
		inquiry_answered(qp, &record->inquiry);
	return true;
}

/* ---- the part ------------------------------------------------------------------------------- */

static void inquiry_forget(struct sh_qp *qp) SH_LOCKED
{
	if (qp->inquiry)
		inquiry_close(qp->inquiry);
	free(qp->inquiry);
	qp->inquiry = NULL;
}

/* SHIFT fails the connection, and gives all that is withheld back by itself. */
static void inquiry_failed(struct sh_qp *qp, enum sc_reason reason, uint32_t unknown) SH_LOCKED
{
	(void)reason;
	(void)unknown;
	inquiry_forget(qp);
}

/* What has happened may be the answer. */
static void inquiry_stepped(struct sh_qp *qp) SH_LOCKED
{
	if (!inquiry_is_on(qp))
		return;
	qp->inquiry->look_at = sh_now_ns();
	sh_clock_touch(qp);
}

/* The connection has ended without errors of SHIFT's: this one comes before that is told. */
static void inquiry_acted(struct sh_qp *qp) SH_LOCKED
{
	if (inquiry_is_on(qp) && qp->core.move == SC_MOVE_ENDED)
		inquiry_ends(qp, INQUIRY_WELL);
}

/* The error forbids to go on if it is the program's. */
static bool inquiry_delays(struct sh_qp *qp, uint64_t now)
{
	(void)now;
	return inquiry_is_on(qp);
}

static uint64_t inquiry_next_timer(const struct sh_qp *qp)
{
	const struct sh_qp_inquiry *inquiry = qp->inquiry;

	return inquiry ? sh_earlier_ns(inquiry->look_at, inquiry->of_peer.look_at) : 0;
}

static void inquiry_run(struct sh_qp *qp, uint64_t now) SH_LOCKED
{
	if (qp->inquiry && qp->inquiry->of_peer.look_at && qp->inquiry->of_peer.look_at <= now)
		inquiry_answer(qp, now);
	if (qp->inquiry && qp->inquiry->look_at && qp->inquiry->look_at <= now)
		inquiry_look(qp, now);
}

const struct sh_conn_part sh_inquiry_part = {
	.name = "inquiry",
	.life = { .reset = inquiry_forget, .leaves = inquiry_forget, .left = inquiry_forget },
	.clock = { .next_timer = inquiry_next_timer, .run = inquiry_run },
	.step = { .stepped = inquiry_stepped, .acted = inquiry_acted },
	.move = { .delays = inquiry_delays, .failed = inquiry_failed },
	.news = { .message = inquiry_message, .accused = inquiry_accused },
};
