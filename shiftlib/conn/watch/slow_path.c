/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Paths that are slow though nothing says so. The rules are those of core/slow_path.h; here it
 * is told, once for each of our NICs. Nothing is ever moved because of it: a queue that is
 * never empty looks the same.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include "shiftlib/base/list.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/util.h"
#include "shiftlib/conn/watch/slow_path.h"
#include "shiftlib/core/slow_path.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/peer/peer.h"
#include "shiftlib/report/event.h"

#define NS_PER_MS_F 1e6

static struct slow_path_nic {
	struct sh_slow_paths_told told;
	struct sh_slow_paths_seen seen;
	struct sh_slow_path_sum figures;
	const struct sh_peer_path *worst; /* of this look */
} slow_path[SH_MAX_NICS];

static struct slow_path_nic *of(const struct sh_nic *nic)
{
	return &slow_path[nic->index];
}

/* ---- what is told --------------------------------------------------------------------------- */

static double ms(uint64_t ns)
{
	return (double)ns / NS_PER_MS_F;
}

static void log_some(const struct sh_nic *nic)
{
	const struct sh_peer_path *path = of(nic)->worst;
	const struct sh_address *there = &sh_peer_nic(path->peer, path->remote_nic)->address;
	const struct sh_slow_path *slow = &path->slow;
	char gid[INET6_ADDRSTRLEN] = "";

	inet_ntop(AF_INET6, there->gid, gid, sizeof(gid));
	sh_log(SH_LOG_WARN,
	       "%s: round trips to the peer's NIC %u (%s) take at least %.2f ms for %llu s instead "
	       "of %.2f ms, and those of %s are as usual: the link, a switch's port or a NIC is "
	       "slow, or congested (%u of %u paths here); nothing is moved",
	       nic->name, path->remote_nic, gid, ms(slow->floor_ns),
	       (unsigned long long)((sh_now_ns() - slow->since) / SH_NS_PER_S),
	       ms(slow->instead_ns), sh_nics.nic[slow->witness].name, of(nic)->seen.slow,
	       of(nic)->seen.paths);
}

static void log_all(const struct sh_nic *nic)
{
	const struct sh_slow_path *slow = &of(nic)->worst->slow;

	sh_log(SH_LOG_WARN,
	       "%s: round trips of all its %u paths, to %u peers, take long, up to %.2f ms at "
	       "least "
	       "for %llu s instead of %.2f ms, and those of %s are as usual: this NIC, its cable "
	       "or "
	       "its switch's port is slow, or congested; nothing is moved",
	       nic->name, of(nic)->seen.paths, of(nic)->seen.peers, ms(slow->floor_ns),
	       (unsigned long long)((sh_now_ns() - slow->since) / SH_NS_PER_S),
	       ms(slow->instead_ns), sh_nics.nic[slow->witness].name);
}

static void tell(const struct sh_nic *nic) SH_LOCKED
{
	const struct sh_peer_path *path = of(nic)->worst;
	bool all = of(nic)->told.told == SH_SLOW_PATHS_ALL;
	struct sh_event event = { .kind = SH_EVENT_GRAY,
				  .cause = SH_CAUSE_SLOW_PATH,
				  .why = all ? "all its paths, to several peers; nothing is moved"
					     : "slow, or congested; nothing is moved" };

	snprintf(event.from, sizeof(event.from), "%s", nic->name);
	if (!all) {
		event.peer = path->peer->instance;
		event.peer_known = true;
		event.peer_from = path->remote_nic;
		memcpy(event.peer_gid, sh_peer_nic(path->peer, path->remote_nic)->address.gid,
		       sizeof(event.peer_gid));
		log_some(nic);
	} else {
		log_all(nic);
	}
	sh_event_record(&event);
}

static void tell_over(const struct sh_nic *nic) SH_LOCKED
{
	sh_log(SH_LOG_WARN, "%s: no path's round trips take longer than they should any more",
	       nic->name);
	sh_event_nic(nic->name, SH_EVENT_GRAY_OVER, SH_CAUSE_SLOW_PATH, 0);
}

/* ---- looks ---------------------------------------------------------------------------------- */

static void see(const struct sh_peer_path *path)
{
	struct slow_path_nic *own = of(path->nic);
	bool is_slow = path->slow.state == SH_SLOW_PATH_SLOW;

	own->seen.paths += is_slow || path->slow.learned;
	own->seen.slow += is_slow;
	if (is_slow && (!own->worst || path->slow.floor_ns > own->worst->slow.floor_ns))
		own->worst = path;
}

static void slow_path_update_peer(const struct sh_peer *peer)
{
	struct sh_slow_path_of paths[SH_MAX_PEER_PATHS];
	uint32_t before[SH_MAX_NICS], i;

	for (i = 0; i < SH_MAX_NICS; i++)
		before[i] = slow_path[i].seen.slow;
	for (i = 0; i < peer->n_paths; i++)
		paths[i] = (struct sh_slow_path_of){ .path = &peer->paths[i]->slow,
						     .nic = peer->paths[i]->nic->index };
	sh_slow_path_update(paths, peer->n_paths, &sh.config.gray.rules, sh_now_ns());
	for (i = 0; i < peer->n_paths; i++)
		see(peer->paths[i]);
	for (i = 0; i < SH_MAX_NICS; i++)
		slow_path[i].seen.peers += slow_path[i].seen.slow > before[i];
}

static void begin(void)
{
	uint32_t i;

	for (i = 0; i < SH_MAX_NICS; i++) {
		memset(&slow_path[i].seen, 0, sizeof(slow_path[i].seen));
		slow_path[i].worst = NULL;
	}
}

static void end(const struct sh_nic *nic) SH_LOCKED
{
	struct slow_path_nic *own = of(nic);

	own->figures =
		(struct sh_slow_path_sum){ .slow = own->seen.slow, .paths = own->seen.paths };
	if (own->worst) {
		own->figures.floor_ns = own->worst->slow.floor_ns;
		own->figures.instead_ns = own->worst->slow.instead_ns;
	}
	if (!sh_slow_paths_tell(&own->told, &own->seen))
		return;
	if (own->told.told)
		tell(nic);
	else
		tell_over(nic);
}

void sh_slow_paths_update(void)
{
	struct sh_peer *peer;
	uint32_t i;

	begin();
	list_for_each (&sh_peers.list, peer, struct sh_peer, link)
		slow_path_update_peer(peer);
	for (i = 0; i < sh_nics.n; i++)
		end(&sh_nics.nic[i]);
}

/* ---- for who asks --------------------------------------------------------------------------- */

bool sh_slow_path_is(const struct sh_nic *nic)
{
	return of(nic)->told.told != SH_SLOW_PATHS_NONE;
}

bool sh_slow_path_any(void)
{
	uint32_t i;

	for (i = 0; i < sh_nics.n; i++)
		if (sh_slow_path_is(&sh_nics.nic[i]))
			return true;
	return false;
}

void sh_slow_path_figures(const struct sh_nic *nic, struct sh_slow_path_sum *out)
{
	*out = of(nic)->figures;
}

void sh_slow_path_reset(void)
{
	memset(slow_path, 0, sizeof(slow_path));
}
