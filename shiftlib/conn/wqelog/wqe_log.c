/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The sender's half of the WQE log (SHIFT_WQE_LOG). Asks the peer where the log word of each
 * carrier lies, and repeats the question until it is answered. After a fault it asks for the
 * word's value, which is final once the peer has quiesced that carrier; a late or double answer
 * is therefore harmless.
 */
#include <string.h>
#include "providers/engine_qp.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/util.h"
#include "shiftlib/conn/carrier.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/messages.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/parts/loopback.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/wqelog/log_words.h"
#include "shiftlib/conn/wqelog/wqe_log.h"
#include "shiftlib/control/wire.h"
#include "shiftlib/core/settle.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/peer/peer.h"

#define ASK_MIN_NS (20 * SH_NS_PER_MS)
#define ASK_MAX_NS SH_NS_PER_S

/* ---- room ------------------------------------------------------------------------------------ */

uint32_t sh_wqe_log_room(uint32_t requests)
{
	return sh.config.wqe_log && requests ? sp_log_room(requests, sh.config.wqe_log) : 0;
}

void sh_wqe_log_caps(struct ibv_qp_cap *cap)
{
	cap->max_send_wr += sh_wqe_log_room(cap->max_send_wr);
	if (cap->max_inline_data < sizeof(uint64_t))
		cap->max_inline_data = sizeof(uint64_t);
}

/* ---- where is the word? ---------------------------------------------------------------------- */

static bool log_wanted(const struct sh_qp *qp) SH_LOCKED
{
	return sh.config.wqe_log && qp->conn_id && qp->peer && qp->core.guarded &&
	       !sh_loopback_is(qp);
}

static const char *log_refusal(const struct sh_qp *qp, const struct sh_carrier *carrier)
{
	const char *why = sp_qp_log(qp->sp, carrier->epoch, NULL);

	if (why)
		return why;
	if (!qp->log.room || carrier->log.no_room)
		return "its send queue has no room for log WQEs";
	return NULL;
}

/* Loudly for the first of those that share a reason. */
static void log_refuse(struct sh_qp *qp, struct sh_carrier *carrier, const char *why)
{
	static const char *said;

	carrier->log.phase = SH_WQE_LOG_REFUSED;
	if (qp->log.why != why)
		sh_log(said != why ? SH_LOG_WARN : SH_LOG_INFO,
		       "QP 0x%06x: its requests are not logged (SHIFT_WQE_LOG): %s", qp->qp->qp_num,
		       why);
	qp->log.why = said = why;
}

static void log_ask(struct sh_qp *qp, const struct sh_carrier *carrier) SH_LOCKED
{
	const struct sh_wire_log ask = { .kind = SH_WIRE_LOG_ASK, .carrier = carrier->epoch };

	sh_messages_send_log(qp, &ask);
}

/* True if the engine knows the carrier, and the carrier is not given up. */
static bool log_concerns(const struct sh_qp *qp, const struct sh_carrier *carrier)
{
	return carrier && carrier->qp && (carrier == &qp->carriers.own || carrier->sp) &&
	       !carrier->to_error;
}

static void log_begin(struct sh_qp *qp, struct sh_carrier *carrier) SH_LOCKED
{
	const char *why;

	if (!log_concerns(qp, carrier) || carrier->log.phase != SH_WQE_LOG_NONE)
		return;
	why = log_refusal(qp, carrier);
	if (why) {
		log_refuse(qp, carrier, why);
		return;
	}
	carrier->log.phase = SH_WQE_LOG_ASKED;
	log_ask(qp, carrier);
	qp->log.interval = ASK_MIN_NS;
	qp->log.next_at = sh_now_ns() + ASK_MIN_NS;
}

static void log_check(struct sh_qp *qp) SH_LOCKED
{
	if (!log_wanted(qp))
		return;
	log_begin(qp, qp->active);
	log_begin(qp, qp->standby);
}

static bool log_ask_again(struct sh_qp *qp, const struct sh_carrier *carrier) SH_LOCKED
{
	if (!log_concerns(qp, carrier) || carrier->log.phase != SH_WQE_LOG_ASKED)
		return false;
	log_ask(qp, carrier);
	return true;
}

static void log_timer(struct sh_qp *qp, uint64_t now) SH_LOCKED
{
	bool asked = false;

	qp->log.next_at = 0;
	if (log_wanted(qp)) {
		asked |= log_ask_again(qp, qp->active);
		asked |= log_ask_again(qp, qp->standby);
	}
	if (!asked)
		return;
	qp->log.interval = qp->log.interval < ASK_MAX_NS / 2 ? 2 * qp->log.interval : ASK_MAX_NS;
	qp->log.next_at = now + qp->log.interval;
}

static const char *log_why(enum sh_wire_log_why why)
{
	switch (why) {
	case SH_WIRE_LOG_WHY_RIGHTS: return "its peer's queue pair takes no WRITEs";
	case SH_WIRE_LOG_WHY_ORDER:
		return "its peer has memory where a WRITE may be seen before an earlier one "
		       "(relaxed ordering, a dma-buf, or not the host's)";
	case SH_WIRE_LOG_WHY_MEMORY: return "its peer could not register the word";
	case SH_WIRE_LOG_WHY_NONE:
	case SH_WIRE_LOG_WHYS: break;
	}
	return "its peer says so";
}

static void log_placed(struct sh_qp *qp, const struct sh_wire_log *log) SH_LOCKED
{
	struct sh_carrier *carrier = sh_carrier_find(qp, log->carrier);
	const struct sp_log at = { log->addr, log->rkey, log->tag, sh.config.wqe_log };

	if (!log_wanted(qp) || !log_concerns(qp, carrier) || carrier->log.phase != SH_WQE_LOG_ASKED)
		return;
	if (log->kind == SH_WIRE_LOG_REFUSED) {
		log_refuse(qp, carrier, log_why(log->why));
		return;
	}
	carrier->log.phase = SH_WQE_LOG_ON;
	(void)sp_qp_log(qp->sp, carrier->epoch, &at);
	qp->log.why = NULL;
	sh_log(SH_LOG_INFO,
	       "QP 0x%06x: each %u. request on %s that changes its peer's memory is logged",
	       qp->qp->qp_num, at.every, carrier->nic->name);
}

/* ---- what does it say? ----------------------------------------------------------------------- */

static void log_read(struct sh_qp *qp) SH_LOCKED
{
	const struct sh_wire_log ask = { .kind = SH_WIRE_LOG_READ, .carrier = qp->active->epoch };

	qp->log.told.asked = true;
	qp->log.told.carrier = ask.carrier;
	sh_messages_send_log(qp, &ask);
}

/* Where a PSN tells, or the count alone, nobody is asked. */
static bool log_would_tell(const struct sh_qp *qp, const struct sp_request *requests, uint32_t n,
			   const struct sc_counts *counts)
{
	if (qp->active->log.phase != SH_WQE_LOG_ON || !qp->peer)
		return false;
	return counts->recalled || (!counts->exact && sc_exact_wanted(requests, n));
}

/* True: what the word says was asked for. Else it is in the counts, or nobody can tell. */
static bool log_settle(struct sh_qp *qp, struct sp_request *requests, uint32_t n,
		       struct sc_counts *counts) SH_LOCKED
{
	bool asked = qp->log.told.asked && qp->log.told.carrier == qp->active->epoch;

	if (!log_would_tell(qp, requests, n, counts))
		return false;
	if (!asked || !qp->log.told.answered) {
		qp->log.told.answered = false;
		log_read(qp);
		return true;
	}
	if (qp->log.told.known)
		sc_settle_log(counts, qp->log.told.carrier,
			      sp_qp_logged(qp->sp, qp->log.told.number), qp->active->epoch);
	return false;
}

static void log_told(struct sh_qp *qp, const struct sh_wire_log *log)
{
	if (!qp->log.told.asked || qp->log.told.answered || log->carrier != qp->log.told.carrier)
		return;
	qp->log.told.answered = true;
	qp->log.told.known = log->kind == SH_WIRE_LOG_SAYS;
	qp->log.told.number = log->number;
	if (log->kind == SH_WIRE_LOG_REFUSED)
		sh_log(SH_LOG_WARN, "QP 0x%06x: the log's word is not used: %s", qp->qp->qp_num,
		       log_why(log->why));
}

static void log_doubt(struct sh_qp *qp, const struct sc_verdict *verdict)
{
	if (!verdict->log_doubted)
		return;
	sh_log(SH_LOG_WARN,
	       "QP 0x%06x: the log's word contradicts the requests or the count of receives; it "
	       "is not used, please report",
	       qp->qp->qp_num);
}

static bool log_message(struct sh_qp *qp, const struct sh_wire_record *record) SH_LOCKED
{
	const struct sh_wire_log *log = &record->log;
	bool told = qp->log.told.asked && qp->log.told.carrier == log->carrier;

	if (record->type != SH_WIRE_LOG)
		return false;
	switch ((enum sh_wire_log_kind)log->kind) {
	case SH_WIRE_LOG_ASK:
	case SH_WIRE_LOG_READ: sh_log_words_asked(qp, log); break;
	case SH_WIRE_LOG_PLACE: log_placed(qp, log); break;
	case SH_WIRE_LOG_REFUSED: told ? log_told(qp, log) : log_placed(qp, log); break;
	case SH_WIRE_LOG_SAYS:
	case SH_WIRE_LOG_NOTHING: log_told(qp, log); break;
	case SH_WIRE_LOG_KINDS: break;
	}
	return true;
}

static void log_forget(struct sh_qp *qp)
{
	memset(&qp->log.told, 0, sizeof(qp->log.told));
}

/*
 * Begins a new connection. The QP and the region of its word may be the old ones; the tag may
 * not.
 */
static void log_reset(struct sh_qp *qp)
{
	log_forget(qp);
	memset(qp->log.word, 0, sizeof(qp->log.word));
	qp->log.why = NULL;
	qp->log.next_at = 0;
	qp->carriers.own.log.phase = SH_WQE_LOG_NONE;
}

const char *sh_wqe_log_state(const struct sh_qp *qp, const char **why)
{
	*why = NULL;
	if (!sh.config.wqe_log || !qp->conn_id)
		return NULL;
	switch (qp->active->log.phase) {
	case SH_WQE_LOG_NONE: return "off";
	case SH_WQE_LOG_ASKED: return "asked";
	case SH_WQE_LOG_ON: return "on";
	case SH_WQE_LOG_REFUSED: break;
	}
	*why = qp->log.why;
	return "refused";
}

static uint64_t log_next_timer(const struct sh_qp *qp)
{
	return qp->log.next_at;
}

static bool log_caps(const struct sh_qp *qp, struct ibv_qp_cap *cap)
{
	if (qp->log.room)
		sh_wqe_log_caps(cap);
	return qp->log.room;
}

/*
 * Notes whether the QP has room for log WQEs, by its capabilities: a QP that was made ahead may
 * have none.
 */
static void log_made(struct sh_qp *qp, struct sh_carrier *carrier)
{
	uint32_t n = qp->caps.max_send_wr;

	carrier->log.no_room = !qp->log.room || carrier->caps.max_send_wr <= n + sh_wqe_log_room(n);
}

static void log_destroyed(const struct sh_carrier *gone)
{
	sh_wqe_log_drop(gone->log.mr);
}

const struct sh_conn_part sh_wqe_log_part = {
	.name = "wqe_log",
	.life.reset = log_reset,
	.step.acted = log_check,
	.standby = { .caps = log_caps, .made = log_made, .destroyed = log_destroyed },
	.move.quiesces = log_forget,
	.fate = { .tell = log_settle, .doubt = log_doubt },
	.news.message = log_message,
	.clock = { .next_timer = log_next_timer, .run = log_timer },
};
