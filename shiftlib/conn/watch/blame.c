/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <string.h>
#include "shiftlib/base/gid.h"
#include "shiftlib/base/list.h"
#include "shiftlib/base/log.h"
#include "shiftlib/conn/watch/blame.h"
#include "shiftlib/news.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/peer/peer.h"
#include "shiftlib/report/event.h"

#define BLAME_PEERS 2 /* least number of peers whose silence is this end's NIC's */

static struct {
	bool silent[SH_MAX_NICS];
	uint32_t n;
} blame;

/* Numbers of peers, by what they answer. */
struct blame_count {
	uint32_t answer, silent; /* over this NIC; silent: while another path of theirs answers */
};

static void blame_count_peer(struct blame_count *count, const struct sh_peer *peer,
			     const struct sh_nic *nic)
{
	bool over = false, used = false, other = false;
	uint32_t i;

	for (i = 0; i < peer->n_paths; i++) {
		const struct sh_peer_path *path = peer->paths[i];
		bool answers = sh_peer_path_answers(path);

		used |= path->nic == nic;
		over |= path->nic == nic && answers;
		other |= path->nic != nic && answers;
	}
	count->answer += over;
	count->silent += used && !over && other;
}

static struct blame_count blame_count(const struct sh_nic *nic) SH_LOCKED
{
	struct blame_count count = { 0 };
	const struct sh_peer *peer;

	list_for_each (&sh_peers.list, peer, struct sh_peer, link)
		blame_count_peer(&count, peer, nic);
	return count;
}

const char sh_blame_gone[] =
	"the peer fell silent on all paths while other peers answered: its program or host is gone";

static bool blame_answers(const struct sh_peer *peer)
{
	uint32_t i;

	for (i = 0; i < peer->n_paths; i++)
		if (sh_peer_path_answers(peer->paths[i]))
			return true;
	return false;
}

bool sh_blame_peer_gone(const struct sh_peer *gone)
{
	const struct sh_peer *peer;

	if (!gone->n_paths || blame_answers(gone))
		return false;
	list_for_each (&sh_peers.list, peer, struct sh_peer, link)
		if (peer != gone && peer->n_paths && blame_answers(peer))
			return true;
	return false;
}

static void blame_own(const struct sh_nic *nic, uint32_t peers) SH_LOCKED
{
	if (blame.silent[nic->index])
		return;
	blame.silent[nic->index] = true;
	blame.n++;
	sh_log(SH_LOG_WARN,
	       "%s: no peer answers over it, and %u of them answer over other NICs: this NIC, its "
	       "cable or its switch's port",
	       nic->name, peers);
	sh_event_nic(nic->name, SH_EVENT_NIC_DOWN, SH_CAUSE_SILENCE, sh_news_nic_qps(nic, false));
}

void sh_blame_lost(const struct sh_peer_path *path)
{
	struct blame_count count = blame_count(path->nic);
	char gid[SH_GID_TEXT];

	if (blame.silent[path->nic->index])
		return; /* what is lost now is lost by the same NIC */
	if (!count.answer && count.silent >= BLAME_PEERS) {
		blame_own(path->nic, count.silent);
		return;
	}
	sh_gid_text(sh_peer_nic(path->peer, path->remote_nic)->address.gid, gid);
	if (count.answer)
		sh_log(SH_LOG_WARN,
		       "%s: the peer's NIC %s (its NIC %u) does not answer any more, and other "
		       "peers do: that NIC, its cable or its switch's port",
		       path->nic->name, gid, path->remote_nic);
	else
		sh_log(SH_LOG_WARN,
		       "%s: the path to %s (its NIC %u) does not answer any more, another one "
		       "does: this NIC, that one, a cable or a switch between them",
		       path->nic->name, gid, path->remote_nic);
}

void sh_blame_update(void)
{
	uint32_t i;

	for (i = 0; blame.n && i < sh_nics.n; i++) {
		if (!blame.silent[i] || !blame_count(&sh_nics.nic[i]).answer)
			continue;
		blame.silent[i] = false;
		blame.n--;
		sh_event_nic(sh_nics.nic[i].name, SH_EVENT_NIC_UP, SH_CAUSE_SILENCE,
			     sh_news_nic_qps(&sh_nics.nic[i], true));
	}
}

bool sh_blame_is(const struct sh_nic *nic)
{
	return blame.silent[nic->index];
}

static void blame_reset(void)
{
	memset(&blame, 0, sizeof(blame));
}

const struct sh_module sh_blame_module = { .name = "blame", .reset = blame_reset };
