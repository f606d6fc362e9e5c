/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The list of this host's NICs, their backups and the operator's words about them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "providers/engine.h"
#include "shiftlib/backup/auto.h"
#include "shiftlib/backup/room.h"
#include "shiftlib/nic/internal.h"
#include "shiftlib/news.h"

#define NIC_PROMPT_NS (20 * SH_NS_PER_MS)

struct sh_nics sh_nics;

static void nic_add(const char *name)
{
	struct sh_nic *nic = &sh_nics.nic[sh_nics.n];

	memset(nic, 0, sizeof(*nic));
	strncpy(nic->name, name, sizeof(nic->name) - 1);
	nic->index = (uint8_t)sh_nics.n++;
	nic->incarnation = 1;
	nic->cut.fd = -1;
}

static void nics_map_tell(const struct backup_nic *nics)
{
	const struct backup_map *map = &sh_nics.map;
	const struct backup_nic *backup;
	uint32_t i;

	for (i = 0; i < map->n_nics && map->automatic; i++) {
		backup = &nics[map->backups[i][0]];
		if (map->spread && map->n_even[i] > 1)
			sh_log(SH_LOG_INFO, "%s: its connections are spread over %u NICs",
			       nics[i].name, map->n_even[i]);
		else if (map->n_backups[i])
			sh_log(SH_LOG_INFO, "%s: its backup is %s, %s", nics[i].name, backup->name,
			       backup_near_text(backup_near(&nics[i], backup)));
	}
}

/*
 * Chooses the engine for the application's objects on the NIC: one that also drives all its
 * backups.
 */
static void nic_engine(const struct sh_nic *nic, const struct sp_candidate *all)
{
	struct sp_candidate nics[1 + BACKUP_MAP_MAX_BACKUPS] = { all[nic->index] };
	uint32_t n = sh_nics.map.n_backups[nic->index], i;

	for (i = 0; i < n; i++)
		nics[1 + i] = all[sh_nics.map.backups[nic->index][i]];
	sh_nics.engine[nic->index] = sp_engine_choose(sh.config.engine, nics, 1 + n);
	if (sh_nic_engine(nic))
		sh_log(SH_LOG_INFO, "%s: its engine is %s", nic->name, sh_nic_engine(nic)->name);
}

static void nics_engines(const struct sp_candidate *all)
{
	uint32_t i;

	if (!sp_engine_named(sh.config.engine))
		sh_log(SH_LOG_ERROR,
		       "SHIFT_ENGINE='%s' is neither auto nor mlx5 nor ledger; the job runs "
		       "without protection",
		       sh.config.engine);
	for (i = 0; i < sh_nics.n; i++)
		nic_engine(&sh_nics.nic[i], all);
}

/* Returns the meaning of SHIFT_BACKUP on this host. */
static const char *nics_backup(const struct backup_nic *nics)
{
	uint64_t lockable = backup_lockable(), wants = backup_auto_wants(nics, sh_nics.n);

	sh_nics.limited = lockable != UINT64_MAX;
	if (backup_is_auto(sh.config.backup) && lockable < wants)
		sh_log(SH_LOG_INFO,
		       "SHIFT_BACKUP is auto, and that is pair here: no more than %llu KiB may be "
		       "locked, and spread wants %llu",
		       (unsigned long long)lockable / 1024, (unsigned long long)wants / 1024);
	return backup_auto(sh.config.backup, wants, lockable);
}

/*
 * Makes the map from what the kernel tells of the devices, which are not opened yet. Runs once,
 * with the lock held: so large variables are static, not on the stack of a program's thread.
 */
static void nics_map(struct ibv_device *const *list)
{
	static struct sp_candidate all[SH_MAX_NICS];
	static struct backup_nic nics[SH_MAX_NICS];
	char err[BACKUP_MAP_ERR_MAX];
	uint32_t i;
	int failed;

	memset(nics, 0, sizeof(nics)); /* the child of a fork has its parent's */
	for (i = 0; i < sh_nics.n; i++) {
		backup_nic_read("/sys", sh_nics.nic[i].name, &nics[i]);
		all[i] = (struct sp_candidate){ .device = list[i] };
		if (sp_engine_serves("mlx5", &all[i]))
			backup_nic_is_mlx5(&nics[i]);
		all[i].tried = nics[i].tried;
		nics[i].foreign = !sp_engine_serves(sh.config.engine, &all[i]);
		backup_place_read("/sys", sh_nics.nic[i].name, &sh_nics.nic[i].place);
	}
	failed = backup_map_parse(nics_backup(nics), nics, sh_nics.n, &sh_nics.map, err,
				  sizeof(err));
	sh_nics.cramped =
		backup_lockable() / BACKUP_CONTROL_PART < backup_control_bytes(&sh_nics.map);
	if (failed)
		sh_log(SH_LOG_ERROR, "SHIFT_BACKUP: %s; the job runs without protection", err);
	else
		nics_map_tell(nics);
	nics_engines(all);
}

int sh_nics_load(void)
{
	struct ibv_device **list;
	int i, n = 0;

	if (sh_nics.known)
		return 0;
	list = sh.real->get_device_list(&n);
	if (!list)
		return -errno;
	for (i = 0; i < n && sh_nics.n < SH_MAX_NICS; i++)
		nic_add(sh.real->get_device_name(list[i]));
	sh_nics.known = true;
	nics_map(list);
	sh.real->free_device_list(list);
	return 0;
}

/*
 * Finds a NIC by name. A dead NIC keeps its name until it is back: another may have the name by
 * then.
 */
struct sh_nic *sh_nic_by_name(const char *name)
{
	struct sh_nic *dead = NULL;
	uint32_t i;

	for (i = 0; i < sh_nics.n; i++) {
		if (strcmp(sh_nics.nic[i].name, name))
			continue;
		if (!sh_nics.nic[i].fatal)
			return &sh_nics.nic[i];
		dead = &sh_nics.nic[i];
	}
	return dead;
}

static bool nics_all_first(void)
{
	uint32_t i;

	for (i = 0; i < sh_nics.n; i++)
		if (sh_nics.nic[i].fatal || sh_nics.nic[i].incarnation > 1)
			return false;
	return true;
}

/* Finds a NIC by place: names move only when devices go and come. */
struct sh_nic *sh_nic_by_place(const char *name)
{
	struct backup_place known[SH_MAX_NICS], place;
	uint32_t i;
	int found;

	if (nics_all_first())
		return sh_nic_by_name(name);
	backup_place_read("/sys", name, &place);
	if (!place.pci[0] && !place.guid[0])
		return sh_nic_by_name(name);
	for (i = 0; i < sh_nics.n; i++)
		known[i] = sh_nics.nic[i].place;
	found = backup_place_find(known, (int)sh_nics.n, &place);
	return found < 0 ? NULL : &sh_nics.nic[found];
}

bool sh_nic_usable(const struct sh_nic *nic)
{
	return nic->state == SH_NIC_OPEN && !nic->fatal && !nic->yield.closed && !nic->port_down &&
	       !nic->link_lost;
}

bool sh_nic_up(const struct sh_nic *nic)
{
	return sh_nic_usable(nic) && !nic->sick;
}

static bool nic_worker_late(const struct sh_worker *worker)
{
	uint64_t since = worker ? sh_worker_busy_since_ns(worker) : 0;

	return since && sh_now_ns() - since >= NIC_PROMPT_NS;
}

bool sh_nic_prompt(const struct sh_nic *nic)
{
	return sh_nic_up(nic) && !nic_worker_late(nic->worker) && !nic_worker_late(nic->prompt);
}

/* ---- drained -------------------------------------------------------------------------------- */

/*
 * Notes a word about draining. True: news. The counts of leaving connections begin with the first
 * word.
 */
static bool nic_drain_by(struct sh_nic *nic, enum sh_drain word, bool on)
{
	uint8_t drained = (uint8_t)(on ? nic->drained | word : nic->drained & ~word);

	if (drained == nic->drained)
		return false;
	if (!nic->drained)
		memset(&nic->left, 0, sizeof(nic->left));
	nic->drained = drained;
	return true;
}

void sh_nic_avoid(struct sh_nic *nic, enum sh_drain by, bool on)
{
	if (nic_drain_by(nic, by, on))
		sh_news_nic_changed(nic);
}

void sh_nic_drain(struct sh_nic *nic, bool on)
{
	if (!nic_drain_by(nic, SH_DRAIN_ORDER, on))
		return;
	sh_log(SH_LOG_WARN, "%s: %s by the operator", nic->name, on ? "drained" : "used again");
	sh_event_nic(nic->name, on ? SH_EVENT_DRAIN : SH_EVENT_UNDRAIN, SH_CAUSE_DRAIN,
		     sh_news_nic_qps(nic, !on));
	sh_news_nic_changed(nic);
}

/* Looks whether a dead or sick NIC is back. */
static void nic_poll(struct sh_nic *nic) SH_LOCKED
{
	nic->look_at = 0;
	if (nic->ask.under_way || sh_nic_give_poll(nic))
		return; /* the next look comes when that is over */
	if (!nic->fatal)
		sh_nic_ask(nic);
	else
		sh_nic_reopen(nic);
}

static void nics_run(uint64_t now) SH_LOCKED
{
	uint32_t i;

	for (i = 0; i < sh_nics.n; i++) {
		if (sh_nics.nic[i].cut.look_at && sh_nics.nic[i].cut.look_at <= now)
			sh_nic_cut_poll(&sh_nics.nic[i]);
		if (sh_nics.nic[i].removal.look_at && sh_nics.nic[i].removal.look_at <= now)
			sh_nic_going_poll(&sh_nics.nic[i]);
		if (sh_nics.nic[i].look_at && sh_nics.nic[i].look_at <= now)
			nic_poll(&sh_nics.nic[i]);
		sh_nic_own_partition(&sh_nics.nic[i]);
		sh_nic_widen_poll(&sh_nics.nic[i], now);
	}
}

static uint64_t nics_next_timer(void)
{
	uint64_t at = 0;
	uint32_t i;

	for (i = 0; i < sh_nics.n; i++) {
		at = sh_earlier_ns(at, sh_nics.nic[i].look_at);
		at = sh_earlier_ns(at, sh_nics.nic[i].cut.look_at);
		at = sh_earlier_ns(at, sh_nics.nic[i].removal.look_at);
	}
	return at;
}

/*
 * Forgets the NICs in the child of a fork: its parent hears of network interfaces by this socket.
 */
static void nics_reset(void)
{
	uint32_t i;

	if (sh_nics.netdevs)
		close(sh_netdev_fd(sh_nics.netdevs));
	for (i = 0; i < sh_nics.n; i++)
		if (sh_nics.nic[i].cut.fd >= 0)
			close(sh_nics.nic[i].cut.fd);
	memset(&sh_nics, 0, sizeof(sh_nics));
}

const struct sh_module sh_nics_module = {
	.name = "NICs",
	.reset = nics_reset,
	.run = nics_run,
	.next_timer = nics_next_timer,
};
