/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "shiftlib/base/util.h"
#include "shiftlib/conn/paths.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/turn.h"
#include "shiftlib/peer/outbox.h"

#define TURNS	32
#define TURN_NS (250 * SH_NS_PER_MS)

static struct {
	struct list_node waiting, having; /* in the order in which they came */
	uint32_t n;			  /* of having */
} turns;

static struct sh_qp *turns_first(const struct list_node *list)
{
	return list_entry(list->next, struct sh_qp, paths.turn.link);
}

static void turn_begin(struct sh_qp *qp, uint64_t now)
{
	qp->paths.turn.state = SH_TURN_HAS;
	qp->paths.turn.since = now;
	list_add_tail(&turns.having, &qp->paths.turn.link);
	turns.n++;
}

bool sh_turn_take(struct sh_qp *qp)
{
	if (qp->paths.turn.state == SH_TURN_NONE && turns.n < TURNS) {
		turn_begin(qp, sh_now_ns());
	} else if (qp->paths.turn.state == SH_TURN_NONE) {
		qp->paths.turn.state = SH_TURN_WAITS;
		list_add_tail(&turns.waiting, &qp->paths.turn.link);
		sh_wake_at(turns_first(&turns.having)->paths.turn.since + TURN_NS);
	}
	return qp->paths.turn.state == SH_TURN_HAS;
}

void sh_turn_over(struct sh_qp *qp)
{
	if (qp->paths.turn.state == SH_TURN_NONE)
		return;
	turns.n -= qp->paths.turn.state == SH_TURN_HAS;
	list_del(&qp->paths.turn.link);
	qp->paths.turn.state = SH_TURN_NONE;
}

void sh_turn_waits_no_more(struct sh_qp *qp)
{
	if (qp->paths.turn.state == SH_TURN_WAITS)
		sh_turn_over(qp);
}

/* Ends turns that take too long: such moves go on, but keep nobody from beginning. */
static void turns_expire(uint64_t now) SH_LOCKED
{
	while (turns.n && turns_first(&turns.having)->paths.turn.since + TURN_NS <= now)
		sh_turn_over(turns_first(&turns.having));
}

static void turns_run(uint64_t now) SH_LOCKED
{
	struct sh_qp *qp;

	if (list_empty(&turns.waiting))
		return;
	turns_expire(now);
	sh_outbox_hold();
	while (turns.n < TURNS && !list_empty(&turns.waiting)) {
		qp = turns_first(&turns.waiting);
		list_del(&qp->paths.turn.link);
		turn_begin(qp, now);
		sh_paths_changed(qp);
	}
	sh_outbox_release();
}

static uint64_t turns_next_timer(void)
{
	if (list_empty(&turns.waiting))
		return 0;
	return turns.n < TURNS ? 1 : turns_first(&turns.having)->paths.turn.since + TURN_NS;
}

static void turns_reset(void)
{
	list_init(&turns.waiting);
	list_init(&turns.having);
	turns.n = 0;
}

const struct sh_module sh_turns_module = {
	.name = "turns",
	.reset = turns_reset,
	.run = turns_run,
	.next_timer = turns_next_timer,
};
