/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Waiting out a flap: sends withheld on the carrier in use, and what of them may not be repeated. */
#include <stdlib.h>
#include "providers/engine.h"
#include "shiftlib/base/log.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/fence.h"
#include "shiftlib/conn/move.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/stay.h"
#include "shiftlib/conn/words.h"
#include "shiftlib/core/core.h"
#include "shiftlib/core/settle.h"

/* Neither a word nor the library that posted it could tell whether it ran. */
static bool stay_untold(const struct sh_qp *qp, const struct sp_request *info, uint32_t n,
			uint32_t i)
{
	enum sp_fate fate;

	return !sc_uid_decides(&info[i], &fate) && !sh_words_would_tell(qp, info, n, i);
}

/* It may not run again, and nobody could tell whether it ran: an atomic, or a READ before a fenced request. */
static bool stay_unrepeatable(const struct sh_qp *qp, const struct sp_request *info, uint32_t n)
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

static void stay_look(struct sh_qp *qp, uint32_t number)
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

void sh_stay(struct sh_qp *qp, const struct sc_action *action)
{
	if (action->on) {
		stay_look(qp, action->epoch);
		return;
	}
	atomic_store(&qp->mailbox.error_ns, 0); /* of a fault that is over */
	sh_fence_lift(qp);
}
