/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Waiting out a flap: sends withheld on the carrier in use, and what of them may not be
 * repeated.
 */
#include <stdlib.h>
#include "providers/engine.h"
#include "shiftlib/base/log.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/fence.h"
#include "shiftlib/conn/move.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/stay.h"
#include "shiftlib/core/core.h"
#include "shiftlib/core/settle.h"
#include "shiftlib/peer/peer.h"

#define STAY_UNANSWERED_NS SH_NS_PER_S
#define STAY_SAY_AGAIN_NS  (30 * SH_NS_PER_S)

/* Neither a word nor the library that posted it could tell whether it ran. */
static bool stay_untold(const struct sh_qp *qp, const struct sp_request *info, uint32_t n,
			uint32_t i) SH_LOCKED
{
	enum sp_fate fate;

	return !sc_uid_decides(&info[i], &fate) && !SH_PARTS_ASK(fate.would_tell, qp, info, n, i);
}

/*
 * True if a request may not run again, and nobody could tell whether it ran: an atomic, or a
 * READ before a fenced request.
 */
static bool stay_unrepeatable(const struct sh_qp *qp, const struct sp_request *info,
			      uint32_t n) SH_LOCKED
{
	bool read = false;
	uint32_t i;

	for (i = 0; i < n; i++) {
		if ((info[i].kind == SP_REQ_ATOMIC && stay_untold(qp, info, n, i)) ||
		    (read && info[i].send_fence))
			return true;
		read |= info[i].kind == SP_REQ_READ;
	}
	return false;
}

static void stay_check(struct sh_qp *qp, uint32_t number) SH_LOCKED
{
	struct sc_event event = { .type = SC_EV_STAYS, .epoch = number };
	struct sp_request *info;
	uint32_t n = 0;

	sh_move_withhold(qp);
	(void)sp_cq_collect(qp->scq->sp); /* nobody else may poll */
	info = sh_move_outstanding(qp, &n);
	event.atomics = !info || stay_unrepeatable(qp, info, n);
	free(info);
	if (event.atomics && !qp->core.stay.told)
		sh_log(SH_LOG_INFO,
		       "QP 0x%06x: its path is down, and the answer of an atomic may still come: "
		       "it waits for that",
		       qp->qp->qp_num);
	sh_conn_event(qp, &event);
}

/*
 * A peer that is halted answers nothing, and nobody but the log can say so. One line for all
 * connections to it, and not again for some time: neither a thousand connections nor a peer
 * that stays halted fills the log.
 */
void sh_stay_say_unanswered(struct sh_qp *qp, uint64_t now)
{
	uint64_t since = qp->counted.waiting_since;
	struct sh_peer *peer = qp->peer;

	if (!qp->counted.waiting || !peer || peer->heard_at >= since ||
	    now - since < STAY_UNANSWERED_NS ||
	    (peer->unanswered_said_at && now - peer->unanswered_said_at < STAY_SAY_AGAIN_NS))
		return;
	peer->unanswered_said_at = now;
	sh_log(SH_LOG_INFO,
	       "QP 0x%06x on %s: its peer has not answered for %u s, and may be halted: %s",
	       qp->qp->qp_num, qp->active->nic->name, (unsigned int)((now - since) / SH_NS_PER_S),
	       qp->core.stay.phase == SC_STAY_ASK ? "it stays there meanwhile"
						  : "what waits for the peer goes on waiting");
}

void sh_stay(struct sh_qp *qp, const struct sc_action *action)
{
	if (action->on) {
		stay_check(qp, action->epoch);
		return;
	}
	atomic_store(&qp->mailbox.error_ns, 0); /* the fault is over */
	qp->error.status = IBV_WC_SUCCESS;
	qp->error.vendor_err = 0;
	sh_fence_lift(qp);
}
