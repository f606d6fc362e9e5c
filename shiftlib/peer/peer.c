/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Peers: instances at the other end, and the control paths to them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "shiftlib/base/keymap.h"
#include "shiftlib/base/list.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/table.h"
#include "shiftlib/base/util.h"
#include "shiftlib/base/worker.h"
#include "shiftlib/control/address.h"
#include "shiftlib/control/auth.h"
#include "shiftlib/control/control_qp.h"
#include "shiftlib/control/wire.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/news.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/peer/addresses.h"
#include "shiftlib/peer/heartbeat.h"
#include "shiftlib/peer/keys.h"
#include "shiftlib/peer/outbox.h"
#include "shiftlib/peer/peer.h"

#define PEER_OPEN_NS	 SH_NS_PER_S	    /* pause before the next try of a control path */
#define PEER_REST_NS	 (60 * SH_NS_PER_S) /* until a peer without connections is forgotten */
#define PEERS_AT_ONCE	 4		    /* datagrams of a peer about itself */
#define PEERS_CONNS_EACH 4		    /* connections whose messages share one */
#define PEER_SEND_PATHS	 2		    /* for datagrams that may take any path */

struct sh_peers sh_peers;

/* ---- finding them --------------------------------------------------------------------------- */

static const void *peer_key(uint64_t instance)
{
	return (const void *)(uintptr_t)instance;
}

bool sh_peers_sign(void)
{
	return sh.config.secret_file && *sh.config.secret_file;
}

struct sh_peer *sh_peer_find(uint64_t instance)
{
	return instance ? sh_table_get(&sh_peers.by_instance, peer_key(instance)) : NULL;
}

/* Prepares the signatures: a job with a secret talks to nobody without it. */
static int peer_init_auth(struct sh_peer *peer)
{
	if (!sh_peers_sign())
		return 0;
	if (sh_peers.auths.root)
		peer->auth = sh_auth_new(&sh_peers.auths, peer->instance);
	return peer->auth ? 0 : -ENOMEM;
}

static struct sh_peer *peer_new(uint64_t instance)
{
	struct sh_peer *peer = calloc(1, sizeof(*peer));

	if (!peer)
		return NULL;
	peer->instance = instance;
	peer->rest_at = sh_now_ns();
	if (peer_init_auth(peer))
		goto free_peer;
	if (sh_timers_reserve(&sh_peers.beats, sh_peers.n + 1) ||
	    sh_table_put(&sh_peers.by_instance, peer_key(instance), peer))
		goto rest_auth;
	list_add_tail(&sh_peers.list, &peer->link);
	sh_peers.n++;
	return peer;

rest_auth:
	sh_auth_rest(&sh_peers.auths, peer->auth);
free_peer:
	free(peer);
	return NULL;
}

struct sh_peer *sh_peer_get(uint64_t instance)
{
	struct sh_peer *peer = sh_peer_find(instance);

	if (peer || !instance)
		return peer;
	return peer_new(instance);
}

/*
 * Tells how many datagrams may come at once: a few of each peer about itself (a ping, a pong, keys,
 * addresses), and messages of connections, of which one datagram carries some.
 */
static void peers_expect(void) SH_LOCKED
{
	sh_nics_expect(PEERS_AT_ONCE * sh_peers.n + sh_peers.conns / PEERS_CONNS_EACH);
}

void sh_peer_join(struct sh_peer *peer)
{
	sh_peers.conns++;
	peers_expect();
	if (!peer->conns++) /* not told anything while it rested */
		peer->keys_resend_at = peer->nics_resend_at = sh_now_ns();
}

void sh_peer_leave(struct sh_peer *peer)
{
	sh_peers.conns--;
	peers_expect();
	if (!--peer->conns)
		peer->rest_at = sh_now_ns();
}

static struct sh_peer_nic *peer_find_nic(const struct sh_peer *peer, uint8_t remote_nic)
{
	uint32_t i;

	for (i = 0; i < peer->n_nics; i++)
		if (peer->nics[i].number == remote_nic)
			return &peer->nics[i];
	return NULL;
}

const struct sh_peer_nic *sh_peer_nic(const struct sh_peer *peer, uint8_t remote_nic)
{
	static const struct sh_peer_nic unknown;
	const struct sh_peer_nic *nic = peer_find_nic(peer, remote_nic);

	return nic ? nic : &unknown;
}

static void peer_no_memory(void)
{
	sh_error_once("no memory for a NIC of a peer: connections to it are not protected");
}

/* ---- paths ---------------------------------------------------------------------------------- */

struct path_job {
	struct sh_job job;
	struct sh_peer *peer;
	struct sh_peer_path *path;
	struct sh_address remote;
	struct sh_path *made;
	uint32_t local_revision, remote_revision;
	int error;
};

struct close_job {
	struct sh_job job;
	struct sh_path *path;
};

static void close_run(struct sh_job *job)
{
	sh.real->thread_inside();
	sh_control_path_close(((struct close_job *)job)->path);
}

static void close_done(struct sh_job *job)
{
	free(job);
}

static void path_close(const struct sh_nic *nic, struct sh_path *path)
{
	struct close_job *task = path ? calloc(1, sizeof(*task)) : NULL;

	if (!task)
		return;
	*task = (struct close_job){ .job = { .fn = close_run, .done = close_done }, .path = path };
	if (sh_worker_submit(nic->worker, &task->job))
		free(task);
}

static void path_run(struct sh_job *job)
{
	struct path_job *task = (struct path_job *)job;
	struct sh_nic *nic = task->path->nic;

	sh.real->thread_inside();
	task->local_revision = nic->revision;
	task->error = nic->control ? sh_control_path_open(nic->control, &task->remote, &task->made)
				   : -ENODEV;
}

static void path_opened(struct sh_peer *peer, const struct sh_peer_path *path) SH_LOCKED
{
	peer->keys_resend_at = peer->nics_resend_at = sh_now_ns();
	if (!peer->keys_heard)
		sh_keys_ask(peer); /* the peer may remember a time that we do not */
	sh_news_peer_path_opened(peer, path);
}

static bool path_fresh(const struct sh_peer *peer, const struct sh_peer_path *path)
{
	return path->path && path->local_revision == path->nic->revision &&
	       path->remote_revision == sh_peer_nic(peer, path->remote_nic)->revision;
}

static void path_retry_later(struct sh_peer *peer)
{
	if (!peer->paths_retry_at)
		peer->paths_retry_at = sh_now_ns() + PEER_OPEN_NS;
	sh_kick();
}

static void path_open(struct sh_peer *peer, struct sh_peer_path *path) SH_LOCKED;

static void path_done(struct sh_job *job)
{
	struct path_job *task = (struct path_job *)job;
	struct sh_peer_path *path = task->path;
	struct sh_peer *peer = task->peer;

	sh_lock();
	path->opening = false;
	if (task->made) {
		path_close(path->nic, path->path);
		path->path = task->made;
		path->local_revision = task->local_revision;
		path->remote_revision = task->remote_revision;
		path_opened(peer, path);
		path_open(peer, path); /* an address may have changed meanwhile */
	} else if (!job->canceled) {
		sh_warn_once("%s: no control path to the peer: %s; tried again", path->nic->name,
			     strerror(-task->error));
		path_retry_later(peer);
	}
	sh_job_end(&peer->busy);
	sh_kick();
	sh_unlock();
	free(task);
}

/* Opens the path; anew if an address has changed: the old one serves until then. */
static void path_open(struct sh_peer *peer, struct sh_peer_path *path) SH_LOCKED
{
	const struct sh_peer_nic *remote = sh_peer_nic(peer, path->remote_nic);
	struct sh_nic *nic = path->nic;
	struct path_job *task;

	if (path->opening || path_fresh(peer, path) || nic->state != SH_NIC_OPEN || nic->fatal ||
	    !remote->address.qpn)
		return;
	task = calloc(1, sizeof(*task));
	if (!task)
		return;
	*task = (struct path_job){ .job = { .fn = path_run, .done = path_done },
				   .peer = peer,
				   .path = path,
				   .remote = remote->address,
				   .remote_revision = remote->revision };
	if (remote->address.link_layer != IBV_LINK_LAYER_ETHERNET) {
		task->remote.sl = peer->sl;
		task->remote.traffic_class = peer->traffic_class;
	}
	if (!task->remote.mtu)
		task->remote.mtu = nic->address.mtu;
	path->opening = true;
	sh_job_begin(&peer->busy);
	if (!sh_worker_submit(nic->worker, &task->job))
		return;
	path->opening = false;
	sh_job_end(&peer->busy);
	free(task);
}

struct sh_peer_path *sh_peer_path(struct sh_peer *peer, const struct sh_nic *nic,
				  uint8_t remote_nic)
{
	uint32_t i;

	for (i = 0; i < peer->n_paths; i++)
		if (peer->paths[i]->nic == nic && peer->paths[i]->remote_nic == remote_nic)
			return peer->paths[i];
	return NULL;
}

static struct sh_peer_path *path_new(struct sh_peer *peer, struct sh_nic *nic,
				     uint8_t remote_nic) SH_LOCKED
{
	struct sh_peer_path **paths = realloc(peer->paths, (peer->n_paths + 1) * sizeof(*paths));
	struct sh_peer_path *path = paths ? malloc(sizeof(*path)) : NULL;

	if (paths)
		peer->paths = paths;
	if (!path) {
		peer_no_memory();
		return NULL;
	}
	*path = (struct sh_peer_path){
		.peer = peer, .nic = nic, .remote_nic = remote_nic, .sent = sh_now_ns()
	};
	sh_heartbeat_begin(path);
	paths[peer->n_paths++] = path;
	return path;
}

struct sh_peer_path *sh_peer_route(struct sh_peer *peer, struct sh_nic *nic, uint8_t remote_nic)
{
	struct sh_peer_path *path = sh_peer_path(peer, nic, remote_nic);

	if (!path && peer->n_paths == SH_MAX_PEER_PATHS) {
		sh_warn_once("more than %d pairs of NICs lead to one peer: the connections of the "
			     "others are not protected",
			     SH_MAX_PEER_PATHS);
		return NULL;
	}
	if (!path)
		path = path_new(peer, nic, remote_nic);
	if (path)
		path_open(peer, path);
	return path;
}

void sh_peer_serve(struct sh_peer *peer, const struct ibv_ah_attr *ah)
{
	if (peer->n_paths)
		return;
	peer->sl = ah->sl;
	peer->traffic_class = ah->is_global ? ah->grh.traffic_class : 0;
}

/* Opens all paths. One that failed may work later: the route to the peer was not there yet. */
static void peer_open_paths(struct sh_peer *peer) SH_LOCKED
{
	uint32_t i;

	for (i = 0; i < peer->n_paths; i++)
		path_open(peer, peer->paths[i]);
}

static struct sh_peer_nic *peer_new_nic(struct sh_peer *peer, uint8_t remote_nic)
{
	struct sh_peer_nic *nics = realloc(peer->nics, (peer->n_nics + 1) * sizeof(*nics));

	if (!nics) {
		peer_no_memory();
		return NULL;
	}
	peer->nics = nics;
	nics[peer->n_nics] = (struct sh_peer_nic){ .number = remote_nic };
	return &nics[peer->n_nics++];
}

int sh_peer_learn(struct sh_peer *peer, uint8_t remote_nic, const struct sh_address *address,
		  uint32_t revision)
{
	struct sh_peer_nic *nic = peer_find_nic(peer, remote_nic);

	if (!sh_revision_later(revision, nic ? nic->revision : 0))
		return 0;
	if (nic)
		sh_log(SH_LOG_INFO, "a peer's NIC %u has a new address", remote_nic);
	else
		nic = peer_new_nic(peer, remote_nic);
	if (!nic)
		return -ENOMEM;
	nic->revision = revision;
	nic->address = *address;
	peer_open_paths(peer);
	return 0;
}

static void peer_nic_changed(struct sh_peer *peer) SH_LOCKED
{
	peer_open_paths(peer);
	peer->nics_interval = 0;
	peer->nics_resend_at = sh_now_ns();
}

void sh_news_nic_address(struct sh_nic *nic)
{
	struct sh_peer *peer;

	(void)nic;
	list_for_each (&sh_peers.list, peer, struct sh_peer, link)
		peer_nic_changed(peer);
	sh_kick();
}

void sh_news_nic_closing(struct sh_nic *nic)
{
	struct sh_peer *peer;
	uint32_t i;

	list_for_each (&sh_peers.list, peer, struct sh_peer, link)
		for (i = 0; i < peer->n_paths; i++) {
			if (peer->paths[i]->nic != nic)
				continue;
			path_close(nic, peer->paths[i]->path);
			peer->paths[i]->path = NULL;
			sh_heartbeat_up(peer->paths[i]);
		}
}

static void peer_free_rkeys(struct sh_peer_rkeys *rkeys)
{
	struct sh_keymap *map;
	int i;

	for (i = 0; rkeys && i < SH_MAX_NICS; i++) {
		map = rkeys->to[i];
		if (!map)
			continue;
		sh_keymap_uninit(map);
		free(map);
	}
	free(rkeys);
}

static void peer_free_path(struct sh_peer_path *path)
{
	if (path->out.buf)
		list_del(&path->out_link);
	free(path->out.buf);
	path_close(path->nic, path->path);
	free(path);
}

static void peer_free(struct sh_peer *peer)
{
	uint32_t i;

	list_del(&peer->link);
	sh_peers.n--;
	sh_timer_set(&sh_peers.beats, &peer->beat, 0);
	sh_table_remove(&sh_peers.by_instance, peer_key(peer->instance));
	for (i = 0; i < peer->n_paths; i++)
		peer_free_path(peer->paths[i]);
	for (i = 0; i < SH_MAX_NICS; i++)
		peer_free_rkeys(peer->rkeys[i]);
	sh_auth_rest(&sh_peers.auths, peer->auth);
	free(peer->paths);
	free(peer->nics);
	free(peer);
}

/*
 * Forgets peers, as a server meets ever new clients. A peer forgotten too early is introduced
 * again.
 */
static void peers_forget(uint64_t now)
{
	struct sh_peer *peer;

	list_for_each (&sh_peers.list, peer, struct sh_peer, link)
		if (!peer->conns && !peer->busy.jobs && now - peer->rest_at > PEER_REST_NS)
			peer_free(peer);
}

/* ---- sending -------------------------------------------------------------------------------- */

size_t sh_peer_room(const struct sh_peer_path *path)
{
	return sh_path_payload_max(path->path) - (path->peer->auth ? SH_AUTH_BYTES : 0);
}

/* Sends a signed datagram. A function of its own, as only signing needs so much of the stack. */
static __attribute__((noinline)) int peer_send_signed(struct sh_peer_path *path, const void *buf,
						      size_t length)
{
	struct sh_auth_pair pair = { path->nic->index, path->remote_nic };
	uint8_t copy[SH_WIRE_MAX + SH_AUTH_BYTES];

	memcpy(copy, buf, length);
	length = sh_auth_sign(path->peer->auth, pair, ++path->sent, copy, length);
	return sh_control_send(path->path, copy, length);
}

/* Sends a datagram; the core repeats lost ones. */
int sh_peer_send(struct sh_peer_path *path, const void *buf, size_t length)
{
	if (!path || !path->path || !sh_nic_usable(path->nic) || !length)
		return -EIO;
	return path->peer->auth ? peer_send_signed(path, buf, length)
				: sh_control_send(path->path, buf, length);
}

/* Sends over some live paths, others each time: a datagram lost with its path is sent again. */
void sh_peer_send_any(struct sh_peer *peer, const void *buf, size_t length)
{
	uint32_t i, sent = 0;

	for (i = 0; i < peer->n_paths && sent < PEER_SEND_PATHS; i++) {
		struct sh_peer_path *path = peer->paths[peer->next_path++ % peer->n_paths];

		if (!path->path || !sh_nic_usable(path->nic))
			continue;
		sh_peer_send(path, buf, length);
		sent++;
	}
}

/* ---- the clock ------------------------------------------------------------------------------ */

uint64_t sh_peer_next_timer(const struct sh_peer *peer)
{
	return sh_earlier_ns(sh_earlier_ns(peer->keys_resend_at, peer->nics_resend_at),
			     peer->paths_retry_at);
}

static void peer_timer(struct sh_peer *peer, uint64_t now) SH_LOCKED
{
	if (peer->keys_resend_at && peer->keys_resend_at <= now)
		sh_keys_send(peer, now);
	if (peer->nics_resend_at && peer->nics_resend_at <= now)
		sh_addresses_send(peer, now);
	if (peer->paths_retry_at && peer->paths_retry_at <= now) {
		peer->paths_retry_at = 0;
		peer_open_paths(peer);
	}
}

static void peers_run(uint64_t now) SH_LOCKED
{
	struct sh_peer *peer;

	list_for_each (&sh_peers.list, peer, struct sh_peer, link)
		peer_timer(peer, now);
	peers_forget(now);
}

static uint64_t peers_next_timer(void)
{
	struct sh_peer *peer;
	uint64_t at = 0;

	list_for_each (&sh_peers.list, peer, struct sh_peer, link)
		at = sh_earlier_ns(at, sh_peer_next_timer(peer));
	return at;
}

static void peers_reset(void)
{
	sh_timers_uninit(&sh_peers.beats);
	memset(&sh_peers, 0, sizeof(sh_peers));
	list_init(&sh_peers.list);
	list_init(&sh_peers.outs);
	sh_auths_init(&sh_peers.auths, sh.instance);
}

const struct sh_module sh_peers_module = {
	.name = "peers",
	.reset = peers_reset,
	.run = peers_run,
	.next_timer = peers_next_timer,
	.before_sleep = sh_outbox_send_out,
};
