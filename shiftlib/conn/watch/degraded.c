/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <string.h>
#include "shiftlib/backup/left.h"
#include "shiftlib/base/date.h"
#include "shiftlib/base/util.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/watch/degraded.h"
#include "shiftlib/conn/watch/slow.h"
#include "shiftlib/conn/watch/stall.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/report/metrics.h"

#define CHANGE_TOLD 10			       /* thousandths: what is less is not told again */
#define PATIENCE_NS (10 * SH_EVENT_SETTLES_NS) /* longest wait for changes to cease */

static struct {
	uint64_t since_ns, changed_at, look_at;
	enum sh_event_cause cause; /* cause of the last move away */
	bool failed;		   /* connections that were away got errors */
	struct sh_degraded told;
	struct sh_away away; /* n: 0 or 1 */
} degraded;

/* ---- what there is -------------------------------------------------------------------------- */

static uint32_t nic_away(const struct sh_nic *nic)
{
	uint32_t sum = 0, k;

	for (k = 1; k < SC_MAX_PATHS; k++)
		sum += nic->away[k].n;
	return sum;
}

static uint32_t moved_away(void)
{
	uint32_t sum = 0, i;

	for (i = 0; i < sh_nics.n; i++)
		sum += nic_away(&sh_nics.nic[i]);
	return sum;
}

/* Those without any NIC count, too. */
static uint32_t all_away(void) SH_LOCKED
{
	uint32_t sum = moved_away();

	return sum > sh_stalls_lost() ? sum : sh_stalls_lost();
}

/* The NIC that most are away from. */
static const struct sh_nic *most_left(void)
{
	const struct sh_nic *most = sh_nics.nic;
	uint32_t i;

	for (i = 1; i < sh_nics.n; i++)
		if (nic_away(&sh_nics.nic[i]) > nic_away(most))
			most = &sh_nics.nic[i];
	return most;
}

static void burden(struct backup_burden *out, const struct sh_nic *nic) SH_LOCKED
{
	const struct backup_map *map = &sh_nics.map;
	uint8_t i = nic->index, k;
	uint32_t now, whole;

	sh_slow_figures(nic, &now, &whole);
	out->speed = nic->address.speed;
	out->whole = sh_slow_is(nic) ? whole : 0;
	out->own = sh_conns.spread[i].carries;
	out->spare = sh_conns_spare(nic);
	for (k = 0; k < map->n_backups[i] && k + 1 < SC_MAX_PATHS; k++)
		out->to[map->backups[i][k]] += nic->away[k + 1].n;
}

static uint32_t bandwidth_left(void) SH_LOCKED
{
	static struct backup_burden nics[SH_MAX_NICS]; /* the lock is held */
	uint32_t i;

	if (sh_stalls_lost())
		return 0;
	memset(nics, 0, sizeof(nics));
	for (i = 0; i < sh_nics.n; i++)
		burden(&nics[i], &sh_nics.nic[i]);
	return backup_left(nics, sh_nics.n);
}

/* ---- what is told --------------------------------------------------------------------------- */

static enum sh_event_cause degraded_cause(enum sh_event_kind kind) SH_LOCKED
{
	if (kind == SH_EVENT_WHOLE)
		return SH_CAUSE_NONE;
	return sh_stalls_lost() ? sh_stalls_lost_cause() : degraded.cause;
}

/* No NIC is named where nothing has moved: it may be well. */
static void tell(enum sh_event_kind kind, const char *why) SH_LOCKED
{
	struct sh_event event = { .kind = kind,
				  .cause = degraded_cause(kind),
				  .why = why,
				  .qps = degraded.told.qps,
				  .since_ns = degraded.told.since_ns,
				  .left = degraded.told.left };

	if (kind == SH_EVENT_DEGRADED && moved_away())
		memcpy(event.from, most_left()->name, sizeof(event.from));
	sh_event_record(&event);
}

static void degraded_check(uint32_t away) SH_LOCKED
{
	uint32_t left = bandwidth_left(), told = degraded.told.left;

	degraded.told.qps = away;
	if (degraded.told.since_ns && left < told + CHANGE_TOLD && told < left + CHANGE_TOLD)
		return;
	degraded.told.left = left;
	degraded.told.since_ns = degraded.since_ns;
	tell(SH_EVENT_DEGRADED, NULL);
}

static void degraded_check_whole(void) SH_LOCKED
{
	degraded.told.qps = 0;
	degraded.told.left = BACKUP_LEFT_WHOLE;
	if (degraded.told.since_ns)
		tell(SH_EVENT_WHOLE,
		     degraded.failed ? "those that were away or stood still have ended with errors"
				     : NULL);
	degraded.failed = false;
	degraded.told.since_ns = degraded.since_ns = 0;
}

/* A new beginning within the time of a look is the same state, whose end was not told either. */
static void degraded_run(uint64_t now) SH_LOCKED
{
	uint32_t away;

	if (!degraded.look_at || now < degraded.look_at)
		return;
	degraded.look_at = degraded.changed_at = 0;
	away = all_away();
	if (away)
		degraded_check(away);
	else
		degraded_check_whole();
}

void sh_degraded_changed(void)
{
	uint64_t now = sh_now_ns();
	uint32_t away = all_away() != 0;

	if (away != degraded.away.n)
		sh_away_change(&degraded.away, away ? 1 : -1, now);
	if (away && !degraded.since_ns) {
		degraded.since_ns = sh_date_now_ns();
		degraded.failed = false;
	}
	if (!degraded.changed_at)
		degraded.changed_at = now;
	if (now - degraded.changed_at < PATIENCE_NS)
		degraded.look_at = now + SH_EVENT_SETTLES_NS;
	sh_wake_at(degraded.look_at);
}

void sh_degraded_moved(const struct sh_event *event)
{
	degraded.failed |= event->kind == SH_EVENT_FAILED;
	if (event->kind == SH_EVENT_SWITCH)
		degraded.cause = event->cause;
}

void sh_degraded_now(struct sh_degraded *out)
{
	*out = degraded.told;
	out->seconds_ns = sh_away_ns(&degraded.away, sh_now_ns());
}

static uint64_t degraded_next_timer(void)
{
	return degraded.look_at;
}

static void degraded_reset(void)
{
	memset(&degraded, 0, sizeof(degraded));
	degraded.told.left = BACKUP_LEFT_WHOLE;
}

const struct sh_module sh_degraded_module = {
	.name = "degraded",
	.reset = degraded_reset,
	.run = degraded_run,
	.next_timer = degraded_next_timer,
};
