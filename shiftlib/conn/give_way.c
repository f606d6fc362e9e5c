/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Pollers that nap, so that SHIFT's threads get a core. Called on the data path, but only where
 * a poll found nothing.
 */
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "providers/engine.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/util.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/give_way.h"
#include "shiftlib/conn/qp.h"

/* a thread of a busy machine is so late now and then */
#define GIVE_WAY_LATE_NS    (5 * SH_NS_PER_MS)
#define GIVE_WAY_NAP_MIN_NS 50000ull
#define GIVE_WAY_NAP_MAX_NS SH_NS_PER_MS
#define GIVE_WAY_SILENT_NS  SH_NS_PER_S

static struct {
	_Atomic bool fault;
	/*
	 * The thread was late in this fault. Its workers and the next messages need the core,
	 * too, so pollers nap until nothing is withheld.
	 */
	_Atomic bool starved;
	_Atomic uint64_t round, since; /* round in which a QP came to RTS; time of that */
} give_way;

void sh_give_way_fault(void)
{
	atomic_store(&give_way.fault, true);
}

/*
 * Ends the fault if nothing is withheld. Mail that the data path pushes meanwhile is seen here,
 * or sets `fault` behind this.
 */
static void give_way_before_sleep(void)
{
	if (!atomic_exchange(&give_way.fault, false))
		return;
	if (atomic_load(&sh_conns.mail) || sh_conns.moving || sh_conns.owed)
		atomic_store(&give_way.fault, true);
	else
		atomic_store(&give_way.starved, false);
}

static void give_way_reset(void)
{
	memset(&give_way, 0, sizeof(give_way));
}

const struct sh_module sh_give_way_module = {
	.name = "pollers",
	.reset = give_way_reset,
	.before_sleep = give_way_before_sleep,
};

void sh_give_way_expect(struct sh_qp *qp)
{
	atomic_store(&give_way.since, sh_now_ns());
	atomic_store(&give_way.round, sh_loop_rounds());
	sp_cq_watch(qp->scq->sp);
	if (qp->rcq != qp->scq)
		sp_cq_watch(qp->rcq->sp);
}

bool sh_give_way_owed(void)
{
	return atomic_load(&give_way.fault) || atomic_load(&give_way.round) == sh_loop_rounds();
}

/* An alarm was set for much earlier: the set-up pauses. */
static void give_way_complain(uint64_t now)
{
	if (atomic_load(&give_way.since) + GIVE_WAY_SILENT_NS < now &&
	    atomic_load(&give_way.round) == sh_loop_rounds() && sh_loop_late_ns(now))
		sh_error_once("SHIFT's thread gets no processor: nothing can be protected. A "
			      "thread that polls "
			      "all the time, at a real-time priority, has the only one it may use");
}

/* nanosleep(3) is a cancellation point, and ibv_poll_cq() is none. */
static void give_way_nap(uint64_t ns)
{
	const struct timespec nap = { .tv_nsec = (long)ns };
	int saved = errno;

	syscall(SYS_nanosleep, &nap, NULL);
	errno = saved;
}

/*
 * A poller naps for half of its time at most: it may serve other connections, which are well.
 */
void sh_give_way(void)
{
	static __thread struct {
		uint64_t next_at, ns;
	} mine;
	uint64_t now = sh_now_ns();

	if (!atomic_load(&give_way.fault)) {
		give_way_complain(now);
		return;
	}
	if (!atomic_load(&give_way.starved) && sh_loop_late_ns(now) < GIVE_WAY_LATE_NS)
		return;
	if (!atomic_exchange(&give_way.starved, true))
		mine.ns = 0;
	if (now < mine.next_at)
		return;
	mine.ns = mine.ns ? sh_min_ns(2 * mine.ns, GIVE_WAY_NAP_MAX_NS) : GIVE_WAY_NAP_MIN_NS;
	give_way_nap(mine.ns);
	mine.next_at = sh_now_ns() + mine.ns;
}
