/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * NICs that lose packets though nothing has failed. The rules are those of core/gray.c; here
 * the counters are read, for NICs that carry connections, and judged.c does something about it.
 * At the same looks, conn/watch/slow.c reads how fast their links are; at some of them,
 * conn/watch/slow_path.c looks how long the round trips of paths take.
 */
#include <stdlib.h>
#include <string.h>
#include "shiftlib/base/list.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/util.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/asleep.h"
#include "shiftlib/conn/watch/gray.h"
#include "shiftlib/conn/watch/judged.h"
#include "shiftlib/conn/watch/slow.h"
#include "shiftlib/conn/watch/slow_path.h"
#include "shiftlib/core/gray.h"
#include "shiftlib/nic/counters.h"
#include "shiftlib/nic/reading.h"
#include "shiftlib/peer/peer.h"

#define IDLE_PACKETS 100 /* packets in a look; fewer are no traffic */
#define IDLE_LOOKS   8	 /* without traffic, one look in so many is made */
#define PATH_LOOKS   4	 /* one look in so many is at paths, as each needs a ping meanwhile */
#define PEEK_NS	     (SH_NS_PER_S / 20) /* between two peeks */
#define PEEKED_NS    (2 * SH_NS_PER_S)	/* so long counts what one has found */

struct gray_nic {
	struct sh_gray core;
	bool reading, used, idle;
	struct sh_judged judged;
	uint64_t peeked_at, gaps_at; /* the last peek, the last one that found gaps */
};

struct gray_reading {
	struct sh_reading reading; /* first */
	struct sh_gray_counts counts;
	bool told;
	bool peek;
	struct sh_slow_update slow; /* no peek */
};

static struct {
	struct gray_nic nic[SH_MAX_NICS];
	uint64_t look_at;
	uint32_t looks;
} gray;

static const struct sh_gray_config *config(void)
{
	return &sh.config.gray.rules;
}

static struct gray_nic *of(const struct sh_nic *nic)
{
	return &gray.nic[nic->index];
}

static bool in_question(const struct sh_nic *nic) SH_LOCKED
{
	return of(nic)->core.state == SH_GRAY_SICK || sh_slow_is(nic);
}

/* ---- whom else it concerns ------------------------------------------------------------------ */

/* True if the connection could go to that path; not if the peer wants it empty. */
static bool may_take(const struct sh_qp *qp, uint8_t path)
{
	const struct sc_masks *peer = &qp->core.peer.paths;

	return sh_nic_up(qp->ctx->path[path]) &&
	       qp->paths.up & ~(peer->drained & ~peer->homed) & 1u << path;
}

uint32_t sh_gray_choices(const struct sh_nic *nic)
{
	uint32_t found = 1u << nic->index;
	struct sh_qp *qp;
	uint8_t k;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link) {
		if (!qp->conn_id || (qp->active->nic != nic && qp->ctx->nic != nic))
			continue;
		for (k = 0; k < qp->paths.n; k++)
			if (may_take(qp, k))
				found |= 1u << qp->ctx->path[k]->index;
	}
	return found;
}

bool sh_gray_drain_allowed(const struct sh_nic *nic)
{
	uint32_t found = sh_gray_choices(nic), n = 0, sick = 0, well = 0, i;

	for (i = 0; i < sh_nics.n; i++) {
		if (!(found >> i & 1))
			continue;
		n++;
		sick += in_question(&sh_nics.nic[i]);
		well += !in_question(&sh_nics.nic[i]) && !sh_nics.nic[i].drained;
	}
	return sh_gray_may_drain(n, sick, well);
}

/* Somebody has left it, or is about to: what was counted is of a traffic that is no more. */
static bool disturbed(const struct sh_nic *nic)
{
	const struct sc_conn *core;
	struct sh_qp *qp;

	if (!sh_nic_up(nic))
		return true;
	list_for_each (&sh_conns.qps, qp, struct sh_qp, link) {
		core = &qp->core;
		if (qp->conn_id && qp->active->nic == nic &&
		    (core->move != SC_MOVE_NONE || core->peer.paths.drained >> core->path & 1))
			return true;
	}
	return false;
}

/* ---- what is done --------------------------------------------------------------------------- */

static void gray_log(const struct sh_nic *nic, const char *what)
{
	uint64_t errors, packets;

	sh_gray_share(&of(nic)->core, &errors, &packets);
	sh_log(SH_LOG_WARN, "%s: %llu errors among its last %llu packets (%s), without a fault; %s",
	       nic->name, (unsigned long long)errors, (unsigned long long)packets,
	       of(nic)->core.seen & SH_GRAY_DAMAGE ? "damaged ones, and others"
						   : "gaps and timeouts",
	       what);
}

static void gray_log_well(const struct sh_nic *nic)
{
	sh_log(SH_LOG_WARN, "%s: it has shown no errors for %llu s and counts as well", nic->name,
	       (unsigned long long)(sh_gray_hold_ns(&of(nic)->core, config()) / SH_NS_PER_S));
}

static const char *gray_stays(const struct sh_nic *nic) SH_LOCKED
{
	if (!of(nic)->core.proven)
		return "it is used on, as congestion may do this, too";
	return sh_gray_drain_allowed(nic) ? NULL : "it is used on, as no other NIC is better";
}

static enum sh_event_cause gray_cause(const struct sh_nic *nic)
{
	(void)nic;
	return SH_CAUSE_LOSS;
}

static const struct sh_judge gray_judge = { .drain = SH_DRAIN_GRAY,
					    .cause = gray_cause,
					    .log = gray_log,
					    .log_well = gray_log_well,
					    .stays = gray_stays };

static void act(struct sh_nic *nic, bool changed) SH_LOCKED
{
	sh_judged_act(&gray_judge, &of(nic)->judged, nic, of(nic)->core.state == SH_GRAY_SICK,
		      changed);
}

/* ---- looks ---------------------------------------------------------------------------------- */

static struct sh_gray_trips take_trips(const struct sh_nic *nic)
{
	struct sh_gray_trips sum = { 0 };
	bool calm = !of(nic)->core.seen;
	struct sh_peer *peer;
	uint32_t i;

	list_for_each (&sh_peers.list, peer, struct sh_peer, link)
		for (i = 0; i < peer->n_paths; i++)
			if (peer->paths[i]->nic == nic)
				sh_gray_trip_update(&peer->paths[i]->trip, calm, &sum);
	return sum;
}

static void look(struct sh_nic *nic, const struct gray_reading *task) SH_LOCKED
{
	struct gray_nic *own = of(nic);
	const struct sh_gray_counts *counts = task->told ? &task->counts : &own->core.last;
	struct sh_gray_trips trips = take_trips(nic);
	bool changed;

	own->idle = counts->packets - own->core.last.packets < IDLE_PACKETS;
	if (disturbed(nic))
		sh_gray_forget(&own->core);
	changed = sh_gray_update(&own->core, config(), counts, &trips, sh_now_ns());
	act(nic, changed);
	sh_slow_told(nic, &task->slow);
}

/* Notes gaps between two looks, which are not touched. */
static void peek(struct gray_nic *own, const struct gray_reading *task)
{
	const struct sh_gray_counts *last = &own->core.last;

	if (task->told && own->core.known && task->counts.files == last->files &&
	    task->counts.gaps + task->counts.naks > last->gaps + last->naks)
		own->gaps_at = sh_now_ns();
}

static void files_read(struct sh_reading *reading)
{
	struct gray_reading *task = (struct gray_reading *)reading;

	task->told = sh_counters_read("/sys", reading->name, &task->counts);
	if (!task->peek)
		sh_slow_read(&task->slow);
}

static void files_told(struct sh_reading *reading) SH_LOCKED
{
	const struct gray_reading *task = (struct gray_reading *)reading;

	if (task->peek)
		peek(of(reading->nic), task);
	else
		look(reading->nic, task);
}

static void begin(struct sh_nic *nic, bool is_peek) SH_LOCKED
{
	struct gray_reading *task;

	if (of(nic)->reading || nic->state != SH_NIC_OPEN)
		return;
	if (nic->sick) { /* each counter would wait for it, and its worker with them */
		sh_gray_forget(&of(nic)->core);
		return;
	}
	task = calloc(1, sizeof(*task));
	if (!task)
		return;
	task->reading.read = files_read;
	task->reading.told = files_told;
	task->peek = is_peek;
	if (!is_peek)
		sh_slow_ask(nic, &task->slow);
	sh_reading_begin(&task->reading, nic, &of(nic)->reading);
}

/*
 * Marks the NICs to look at. A NIC that was left is one, too: its time has an end, or its link
 * comes up slower.
 */
static bool find_used(void) SH_LOCKED
{
	struct sh_qp *qp;
	bool any = sh_slow_path_any();
	uint32_t i;

	for (i = 0; i < sh_nics.n; i++)
		gray.nic[i].used = in_question(&sh_nics.nic[i]);
	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		if (qp->conn_id && qp->active->nic && qp->core.guarded)
			of(qp->active->nic)->used = of(qp->ctx->nic)->used = true;
	for (i = 0; i < sh_nics.n; i++)
		any |= gray.nic[i].used;
	return any;
}

static bool is_due(const struct sh_nic *nic) SH_LOCKED
{
	return !of(nic)->idle || gray.looks % IDLE_LOOKS == 0 || sh_slow_in_doubt(nic);
}

/* True if nothing is read before the look of all that are idle. */
static bool all_idle(void) SH_LOCKED
{
	uint32_t i;

	for (i = 0; i < sh_nics.n; i++)
		if (gray.nic[i].used && (!gray.nic[i].idle || sh_slow_in_doubt(&sh_nics.nic[i])))
			return false;
	return true;
}

/* Leaves out the looks at which nothing would be read, up to one at about the same time. */
static uint64_t next_look(uint64_t now) SH_LOCKED
{
	uint64_t at = now + IDLE_LOOKS * config()->look_ns;

	if (!sh_asleep() || !all_idle())
		return now + config()->look_ns;
	gray.looks += IDLE_LOOKS - 1 - gray.looks % IDLE_LOOKS;
	return at <= now + SH_RARE_NS ? sh_rare_next(now) : at;
}

/* Awake, no look is left out. */
static void wake(uint64_t now) SH_LOCKED
{
	if (!sh_asleep() && gray.look_at > now + config()->look_ns)
		gray.look_at = now + config()->look_ns;
}

static void gray_run(uint64_t now) SH_LOCKED
{
	uint32_t i;

	wake(now);
	if (sh.config.gray.mode == SH_GRAY_OFF || (gray.look_at && now < gray.look_at) ||
	    (!gray.look_at && !sh_conns.guarded))
		return;
	gray.looks++;
	gray.look_at = find_used() ? now + config()->look_ns : 0;
	for (i = 0; i < sh_nics.n; i++)
		if (gray.nic[i].used && is_due(&sh_nics.nic[i]))
			begin(&sh_nics.nic[i], false);
	if (gray.looks % PATH_LOOKS == 0)
		sh_slow_paths_update();
	if (gray.look_at)
		gray.look_at = next_look(now);
}

static uint64_t gray_next_timer(void)
{
	return gray.look_at;
}

static void gray_reset(void)
{
	memset(&gray, 0, sizeof(gray));
	sh_slow_reset();
	sh_slow_path_reset();
}

/* ---- told ----------------------------------------------------------------------------------- */

const char *sh_gray_word(const struct sh_nic *nic)
{
	static const char *const words[] = { [SH_GRAY_HEALTHY] = "healthy",
					     [SH_GRAY_SUSPECT] = "suspect",
					     [SH_GRAY_SICK] = "sick" };

	if (sh.config.gray.mode == SH_GRAY_OFF)
		return "off";
	if (of(nic)->core.state == SH_GRAY_SICK)
		return words[SH_GRAY_SICK];
	if (sh_slow_is(nic))
		return "slow";
	return sh_slow_path_is(nic) ? "slow-path" : words[of(nic)->core.state];
}

void sh_gray_peek(struct sh_nic *nic, uint64_t now)
{
	if (sh.config.gray.mode == SH_GRAY_OFF || now - of(nic)->peeked_at < PEEK_NS)
		return;
	of(nic)->peeked_at = now;
	begin(nic, true);
}

bool sh_gray_gaps(const struct sh_nic *nic, uint64_t now)
{
	const struct gray_nic *own = of(nic);

	return (own->core.seen & SH_GRAY_GAPS) || (own->gaps_at && now - own->gaps_at < PEEKED_NS);
}

void sh_gray_figures(const struct sh_nic *nic, uint64_t *errors, uint64_t *packets)
{
	sh_gray_share(&of(nic)->core, errors, packets);
}

void sh_gray_use(struct sh_nic *nic)
{
	sh_slow_use(nic);
	if (of(nic)->core.state != SH_GRAY_SICK)
		return;
	sh_gray_absolve(&of(nic)->core, sh_now_ns());
	sh_judged_use(&gray_judge, &of(nic)->judged, nic);
}

const struct sh_module sh_gray_module = {
	.name = "gray",
	.reset = gray_reset,
	.run = gray_run,
	.next_timer = gray_next_timer,
};
