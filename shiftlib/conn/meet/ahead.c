/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * While the application sets up (loop/setup.h) its connections are not introduced, so that no
 * standby is made of them, and the regions of a context that has none yet are not registered
 * elsewhere. One that carries traffic meanwhile does not wait.
 */
#include "providers/engine.h"
#include "shiftlib/base/list.h"
#include "shiftlib/conn/level.h"
#include "shiftlib/conn/meet/ahead.h"
#include "shiftlib/conn/meet/intro.h"
#include "shiftlib/conn/meet/intro_kv.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/news.h"
#include "shiftlib/peer/outbox.h"
#include "shiftlib/replica/memory.h"

#define AHEAD_LOOKS 256 /* waiting connections that are looked at in one round */

static const char ahead_why[] = "the program is setting up";

void sh_ahead_wait(struct sh_qp *qp)
{
	if (qp->intro.waits)
		return;
	qp->intro.waits = true;
	qp->intro.progressed = sp_qp_progressed(qp->sp);
	list_add_tail(&sh_intros.waiting, &qp->intro.line);
	sh_level_set(qp, SH_DRIVEN, ahead_why);
}

static void ahead_begin(struct sh_qp *qp) SH_LOCKED
{
	sh_intro_line_remove(qp);
	if (qp->why == ahead_why)
		sh_level_set(qp, SH_DRIVEN, sh_level_looking);
	sh_intro_start(qp);
}

static bool ahead_has_traffic(struct sh_qp *qp)
{
	uint32_t number;

	return sp_qp_progressed(qp->sp) != qp->intro.progressed ||
	       sp_qp_sending(qp->sp, &number) != SP_SENDING_NONE;
}

void sh_news_setup_over(void)
{
	struct sh_qp *qp;

	sh_replica_setup_over();
	sh_outbox_hold();
	list_for_each (&sh_intros.waiting, qp, struct sh_qp, intro.line)
		ahead_begin(qp);
	sh_outbox_release();
}

void sh_news_setup_goes_on(void)
{
	uint32_t looks = AHEAD_LOOKS;
	struct sh_qp *qp;

	sh_outbox_hold();
	list_for_each (&sh_intros.waiting, qp, struct sh_qp, intro.line) {
		if (!looks--)
			break;
		if (ahead_has_traffic(qp)) {
			ahead_begin(qp);
			continue;
		}
		list_del(&qp->intro.line);
		list_add_tail(&sh_intros.waiting, &qp->intro.line);
	}
	sh_outbox_release();
}
