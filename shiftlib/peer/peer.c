/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Peers: instances at the other end. Datagrams to and from them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "providers/engine.h"
#include "shiftlib/shell.h"
#include "shiftlib/shell.h"

#define PEER_NEWS_MIN_NS (2 * SH_NS_PER_MS) /* news are told again, doubling */
#define PEER_NEWS_MAX_NS SH_NS_PER_S
#define PEER_OPEN_NS	 SH_NS_PER_S /* a control path that could not be opened is tried again */
#define PEER_REST_NS	 (60 * SH_NS_PER_S) /* without a connection: then it is forgotten */
#define PEER_SEND_PATHS	 2		    /* what may go over any path goes over so many */
#define OUT_HOLD_NS	 SH_NS_PER_MS	    /* what is gathered waits for company so long at most */
#define PEER_REFUSED_NS                                                                            \
	(60 * SH_NS_PER_S) /* no sooner is it said again that datagrams are refused */

struct sh_peers sh_peers;

/* ---- finding them --------------------------------------------------------------------------- */

static const void *peer_key(uint64_t instance)
{
	return (const void *)(uintptr_t)instance;
}

bool sh_peers_sign(void)
{
	return SH_WIRE_SIGNS && sh.config.secret_file && *sh.config.secret_file;
}

struct sh_peer *sh_peer_find(uint64_t instance)
{
	return instance ? sh_table_get(&sh_peers.by_instance, peer_key(instance)) : NULL;
}

/* A job that has a secret talks to nobody without it. */
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
	if (sh_table_put(&sh_peers.by_instance, peer_key(instance), peer))
		goto rest_auth;
	list_add_tail(&sh_peers.list, &peer->link);
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

void sh_peer_use(struct sh_qp *qp, struct sh_peer *peer)
{
	struct sh_peer *before = qp->peer;

	if (before == peer)
		return;
	if (qp->standby && qp->standby->keys_wait) { /* for an answer of the former */
		qp->standby->keys_wait = false;
		before->keys_waiting--;
	}
	if (before && !--before->conns)
		before->rest_at = sh_now_ns();
	qp->peer = peer;
	sp_keys_changed();
	if (peer) /* who leaves asks for nothing more */
		sh_detector_soon();
	if (peer && !peer->conns++) /* not told anything while it rested */
		peer->keys_resend_at = peer->nics_resend_at = sh_now_ns();
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
	task->error = sh_control_path_open(nic->control, &task->remote, &task->made);
}

/* Connections that wait for it, and messages that were sent into the dark. */
static void path_opened(struct sh_peer *peer, const struct sh_peer_path *path)
{
	struct sh_qp *qp;

	peer->keys_resend_at = peer->nics_resend_at = sh_now_ns();
	if (!peer->keys_heard)
		sh_peer_ask_keys(peer); /* it may remember a time that we do not */
	sh_peers_hold();
	list_for_each (&sh_conns.qps, qp, struct sh_qp, link) {
		if (!qp->conn_id || qp->peer != peer)
			continue;
		sh_paths_changed(qp);
		sh_intro_ready(qp);
		if (qp->paths.routes[qp->active->path] == path)
			sh_conn_simple(qp, SC_EV_PATH_UP, SC_REASON_NONE);
	}
	sh_peers_release();
}

static bool path_fresh(const struct sh_peer *peer, const struct sh_peer_path *path)
{
	return path->path && path->local_revision == path->nic->revision &&
	       path->remote_revision == peer->nics[path->remote_nic].revision;
}

static void path_retry_later(struct sh_peer *peer)
{
	if (!peer->paths_retry_at)
		peer->paths_retry_at = sh_now_ns() + PEER_OPEN_NS;
	sh_kick();
}

static void path_open(struct sh_peer *peer, struct sh_peer_path *path);

static void path_done(struct sh_job *job)
{
	struct path_job *task = (struct path_job *)job;
	struct sh_peer_path *path = task->path;
	struct sh_peer *peer = task->peer;

	pthread_mutex_lock(&sh.lock);
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
	pthread_mutex_unlock(&sh.lock);
	free(task);
}

/* Anew too, where an address has changed: the old one serves until then. */
static void path_open(struct sh_peer *peer, struct sh_peer_path *path)
{
	const struct sh_peer_nic *remote = &peer->nics[path->remote_nic];
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

static struct sh_peer_path *peer_path(struct sh_peer *peer, const struct sh_nic *nic,
				      uint8_t remote_nic)
{
	uint32_t i;

	for (i = 0; i < peer->n_paths; i++)
		if (peer->paths[i].nic == nic && peer->paths[i].remote_nic == remote_nic)
			return &peer->paths[i];
	return NULL;
}

struct sh_peer_path *sh_peer_route(struct sh_peer *peer, struct sh_nic *nic, uint8_t remote_nic)
{
	struct sh_peer_path *path = peer_path(peer, nic, remote_nic);

	if (!path && peer->n_paths == SH_MAX_PEER_PATHS) {
		sh_warn_once("more than %d pairs of NICs lead to one peer: the connections of the "
			     "others are not protected",
			     SH_MAX_PEER_PATHS);
		return NULL;
	}
	if (!path) {
		path = &peer->paths[peer->n_paths++];
		*path = (struct sh_peer_path){
			.peer = peer, .nic = nic, .remote_nic = remote_nic, .sent = sh_now_ns()
		};
		sh_detector_path(path);
	}
	path_open(peer, path);
	return path;
}

/* What failed may work later: the route to the peer was not there yet. */
static void peer_open_paths(struct sh_peer *peer)
{
	uint32_t i;

	for (i = 0; i < peer->n_paths; i++)
		path_open(peer, &peer->paths[i]);
}

static bool revision_later(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) > 0;
}

void sh_peer_learn(struct sh_peer *peer, uint8_t remote_nic, const struct sh_address *address,
		   uint32_t revision)
{
	struct sh_peer_nic *nic = &peer->nics[remote_nic];

	if (!revision_later(revision, nic->revision))
		return;
	if (nic->revision)
		sh_log(SH_LOG_INFO, "a peer's NIC %u has a new address", remote_nic);
	nic->revision = revision;
	nic->address = *address;
	peer_open_paths(peer);
}

static void peer_nic_changed(struct sh_peer *peer)
{
	peer_open_paths(peer);
	peer->nics_interval = 0;
	peer->nics_resend_at = sh_now_ns();
}

void sh_peers_nic_changed(struct sh_nic *nic)
{
	struct sh_peer *peer;

	(void)nic;
	list_for_each (&sh_peers.list, peer, struct sh_peer, link)
		peer_nic_changed(peer);
	sh_kick();
}

void sh_peers_nic_closed(struct sh_nic *nic)
{
	struct sh_peer *peer;
	uint32_t i;

	list_for_each (&sh_peers.list, peer, struct sh_peer, link)
		for (i = 0; i < peer->n_paths; i++) {
			if (peer->paths[i].nic != nic)
				continue;
			path_close(nic, peer->paths[i].path);
			peer->paths[i].path = NULL;
			sh_detector_up(&peer->paths[i]);
		}
}

static void peer_free_rkeys(struct sh_peer *peer)
{
	struct sh_keymap *map;
	int i;

	for (i = 0; i < SH_MAX_NICS * SH_MAX_NICS; i++) {
		map = peer->rkeys[i / SH_MAX_NICS][i % SH_MAX_NICS];
		if (!map)
			continue;
		sh_keymap_uninit(map);
		free(map);
	}
}

static void peer_free(struct sh_peer *peer)
{
	uint32_t i;

	list_del(&peer->link);
	sh_table_remove(&sh_peers.by_instance, peer_key(peer->instance));
	for (i = 0; i < peer->n_paths; i++) {
		if (peer->paths[i].out.buf)
			list_del(&peer->paths[i].out_link);
		free(peer->paths[i].out.buf);
		path_close(peer->paths[i].nic, peer->paths[i].path);
	}
	peer_free_rkeys(peer);
	sh_auth_rest(&sh_peers.auths, peer->auth);
	free(peer);
}

/* A server meets ever new clients. What is forgotten too early is introduced again. */
static void peers_forget(uint64_t now)
{
	struct sh_peer *peer;

	list_for_each (&sh_peers.list, peer, struct sh_peer, link)
		if (!peer->conns && !peer->busy.jobs && now - peer->rest_at > PEER_REST_NS)
			peer_free(peer);
}

/* ---- sending -------------------------------------------------------------------------------- */

static struct sh_wire_ids peer_ids(const struct sh_qp *qp)
{
	return (struct sh_wire_ids){ .src_conn = qp->conn_id,
				     .dst_conn = qp->intro.peer_conn,
				     .nonce = qp->intro.peer_nonce };
}

size_t sh_peer_room(const struct sh_peer_path *path)
{
	return sh_path_payload_max(path->path) - (path->peer->auth ? SH_AUTH_BYTES : 0);
}

/* Lost ones are sent again by the core. */
void sh_peer_send(struct sh_peer_path *path, const void *buf, size_t length)
{
	uint8_t copy[SH_WIRE_MAX + SH_AUTH_BYTES];

	if (!path || !path->path || !sh_nic_usable(path->nic) || !length)
		return;
	if (path->peer->auth) {
		struct sh_auth_pair pair = { path->nic->index, path->remote_nic };

		memcpy(copy, buf, length);
		length = sh_auth_sign(path->peer->auth, pair, ++path->sent, copy, length);
		buf = copy;
	}
	sh_control_send(path->path, buf, length);
}

/*
 * What connections say leaves at once, but while somebody goes over many of them: then it gathers in
 * one datagram for each path. So a NIC that dies with a thousand connections takes a few datagrams,
 * and one that dies with a single one does not wait.
 */
struct out_record {
	struct sh_wire_ids ids;
	const struct sc_msg_standby *standby; /* NULL: it is the other one */
	const struct sc_msg_state *state;
};

static void out_flush(struct sh_peer_path *path)
{
	void *buf = path->out.buf;

	if (!buf)
		return;
	sh_peer_send(path, buf, sh_wire_end(&path->out));
	list_del(&path->out_link);
	sh_peers.state_datagrams += path->out_states;
	path->out_states = false;
	path->out = (struct sh_wire_writer){ 0 };
	free(buf);
}

void sh_peers_hold(void)
{
	sh_peers.outs_held++;
}

void sh_peers_release(void)
{
	if (!--sh_peers.outs_held)
		sh_peers_send_out();
}

/*
 * Somebody else is about to flush; but should he be held up, the thread does, as it does each time before
 * it sleeps.
 */
void sh_peers_send_soon(void)
{
	if (!list_empty(&sh_peers.outs))
		sh_wake_at(sh_now_ns() + OUT_HOLD_NS);
}

void sh_peers_send_out(void)
{
	while (!list_empty(&sh_peers.outs))
		out_flush(list_entry(sh_peers.outs.next, struct sh_peer_path, out_link));
}

/* NULL: no memory, and the message is lost, as datagrams may be. */
static struct sh_wire_writer *out_begin(const struct sh_peer *peer, struct sh_peer_path *path)
{
	void *buf = path->out.buf ? NULL : malloc(SH_WIRE_MAX);

	if (!path->out.buf && !buf)
		return NULL;
	if (buf) {
		sh_wire_begin(&path->out, buf, sh_peer_room(path), sh.instance, peer->instance);
		list_add_tail(&sh_peers.outs, &path->out_link);
	}
	return &path->out;
}

static int out_write(const struct sh_peer *peer, struct sh_peer_path *path,
		     const struct out_record *record)
{
	struct sh_wire_writer *writer = out_begin(peer, path);
	int ret;

	if (!writer)
		return -ENOMEM;
	if (record->standby)
		return sh_wire_put_standby(writer, &record->ids, record->standby);
	ret = sh_wire_put_state(writer, &record->ids, record->state);
	path->out_states |= !ret;
	sh_peers.states_sent += !ret;
	return ret;
}

static void out_put(const struct sh_peer *peer, struct sh_peer_path *path,
		    const struct out_record *record)
{
	if (!path || !path->path || !sh_nic_usable(path->nic))
		return;
	if (out_write(peer, path, record) == -ENOSPC) {
		out_flush(path);
		out_write(peer, path, record);
	}
	if (!sh_peers.outs_held)
		out_flush(path);
}

/* What is being left comes last. */
static void out_put_everywhere(const struct sh_qp *qp, const struct out_record *record)
{
	uint32_t k;

	for (k = qp->paths.n; k-- > 0;)
		out_put(qp->peer, qp->paths.routes[k], record);
}

/* Over the path of the standby itself: that it arrives is the proof that the path works. */
void sh_peer_send_standby(struct sh_qp *qp, const struct sc_msg_standby *standby, bool everywhere)
{
	struct out_record record = { .ids = peer_ids(qp), .standby = standby };

	if (!qp->peer || standby->path >= qp->paths.n)
		return;
	if (everywhere)
		out_put_everywhere(qp, &record);
	else
		out_put(qp->peer, qp->paths.routes[standby->path], &record);
}

/* Over every live path: whichever died, another carries it. */
void sh_peer_send_state(struct sh_qp *qp, const struct sc_msg_state *state)
{
	struct out_record record = { .ids = peer_ids(qp), .state = state };

	if (qp->peer)
		out_put_everywhere(qp, &record);
}

/* Over some live paths, others each time: a datagram that is lost with its path is sent again. */
void sh_peer_send_any(struct sh_peer *peer, const void *buf, size_t length)
{
	uint32_t i, sent = 0;

	for (i = 0; i < peer->n_paths && sent < PEER_SEND_PATHS; i++) {
		struct sh_peer_path *path = &peer->paths[peer->next_path++ % peer->n_paths];

		if (!path->path || !sh_nic_usable(path->nic))
			continue;
		sh_peer_send(path, buf, length);
		sent++;
	}
}

/* ---- our NICs' addresses: told when they change --------------------------------------------- */

/* Revisions behind what the peer knows, the earliest first, as many as fit: their number. */
static uint32_t nics_news(uint32_t known, struct sh_wire_nic *news, uint32_t max)
{
	struct sh_nic *next = NULL;
	uint32_t n, i;

	for (n = 0; n < max; n++, known = next->revision) {
		next = NULL;
		for (i = 0; i < sh_nics.n; i++)
			if (revision_later(sh_nics.nic[i].revision, known) &&
			    (!next || revision_later(next->revision, sh_nics.nic[i].revision)))
				next = &sh_nics.nic[i];
		if (!next)
			return n;
		news[n] = (struct sh_wire_nic){ .nic = next->index,
						.revision = next->revision,
						.address = next->address };
	}
	return n;
}

static void peer_send_nics(struct sh_peer *peer, uint64_t now)
{
	struct sh_wire_nic news[SH_WIRE_NICS_MAX];
	uint32_t n = nics_news(peer->nics_acked, news, SH_WIRE_NICS_MAX);
	struct sh_wire_writer writer;
	uint8_t buf[512];

	peer->nics_resend_at = 0;
	if (!n || !peer->conns)
		return;
	sh_wire_begin(&writer, buf, sizeof(buf), sh.instance, peer->instance);
	if (!sh_wire_put_nics(&writer, news, n))
		sh_peer_send_any(peer, buf, sh_wire_end(&writer));
	peer->nics_interval = peer->nics_interval ? peer->nics_interval * 2 : PEER_NEWS_MIN_NS;
	if (peer->nics_interval > PEER_NEWS_MAX_NS)
		peer->nics_interval = PEER_NEWS_MAX_NS;
	peer->nics_resend_at = now + peer->nics_interval;
}

static void peer_nics_acked(struct sh_peer *peer, uint32_t seq)
{
	if (!revision_later(seq, peer->nics_acked) || revision_later(seq, sh_nics.revision))
		return;
	peer->nics_acked = seq;
	peer->nics_interval = 0;
	peer_send_nics(peer, sh_now_ns());
}

static void peer_nics_heard(struct sh_peer *peer, const struct sh_wire_record *record)
{
	struct sh_wire_writer writer;
	uint8_t buf[128];
	uint32_t i, last = 0;

	for (i = 0; i < record->nics.n; i++) {
		const struct sh_wire_nic *nic = &record->nics.nic[i];

		if (nic->nic < SH_MAX_NICS)
			sh_peer_learn(peer, nic->nic, &nic->address, nic->revision);
		last = nic->revision;
	}
	sh_wire_begin(&writer, buf, sizeof(buf), sh.instance, peer->instance);
	sh_wire_put_nics_ack(&writer, last);
	sh_peer_send_any(peer, buf, sh_wire_end(&writer));
}

/* ---- the clock ------------------------------------------------------------------------------ */

uint64_t sh_peer_next_timer(const struct sh_peer *peer)
{
	return sh_earlier_ns(sh_earlier_ns(peer->keys_resend_at, peer->nics_resend_at),
			     peer->paths_retry_at);
}

static void peer_timer(struct sh_peer *peer, uint64_t now)
{
	if (peer->keys_resend_at && peer->keys_resend_at <= now)
		sh_peer_send_keys(peer, now);
	if (peer->nics_resend_at && peer->nics_resend_at <= now)
		peer_send_nics(peer, now);
	if (peer->paths_retry_at && peer->paths_retry_at <= now) {
		peer->paths_retry_at = 0;
		peer_open_paths(peer);
	}
}

/* ---- receiving ------------------------------------------------------------------------------ */

static struct sh_qp *peer_conn(const struct sh_peer *peer, const struct sh_wire_record *record)
{
	uint32_t id = record->ids.dst_conn;
	struct sh_qp *qp = id < sh_conns.room ? sh_conns.by_id[id] : NULL;

	if (!qp || qp->nonce != record->ids.nonce)
		return NULL;
	if (!qp->peer || qp->peer == peer)
		return qp;
	sh_intro_news(qp); /* it is named by a newer entry than we know */
	return NULL;
}

/* With the nonce that nobody has here: at the other end the number may be a new connection's. */
static void peer_answer_unknown(struct sh_peer *peer, const struct sh_wire_record *record)
{
	struct sh_wire_ids ids = { .src_conn = record->ids.dst_conn,
				   .dst_conn = record->ids.src_conn,
				   .nonce = record->ids.nonce };
	struct sh_wire_writer writer;
	uint8_t buf[128];

	sh_wire_begin(&writer, buf, sizeof(buf), sh.instance, peer->instance);
	sh_wire_put_unknown(&writer, &ids);
	sh_peer_send_any(peer, buf, sh_wire_end(&writer));
}

/*
 * Before the peer has shown that it heard us, it means that we know it by an old entry of the KV:
 * there is a newer one, or will be.
 */
static void peer_unknown_heard(struct sh_peer *peer, const struct sh_wire_record *record)
{
	uint32_t id = record->ids.dst_conn;
	struct sh_qp *qp = id < sh_conns.room ? sh_conns.by_id[id] : NULL;

	if (qp && qp->peer == peer && qp->intro.heard &&
	    qp->intro.peer_conn == record->ids.src_conn &&
	    qp->intro.peer_nonce == record->ids.nonce)
		sh_conn_simple(qp, SC_EV_MSG_UNKNOWN, SC_REASON_PEER_CLOSED);
}

/* Whoever answers what we said knows us as we know it. */
static bool peer_answers(const struct sh_wire_record *record)
{
	return record->type == SH_WIRE_STATE || record->standby.seen || record->standby.masks_seen;
}

static void peer_conn_record(struct sh_peer *peer, const struct sh_wire_record *record)
{
	struct sh_qp *qp = peer_conn(peer, record);
	struct sc_event event = { .type = SC_EV_MSG_STATE };

	if (!qp) {
		peer_answer_unknown(peer, record);
		return;
	}
	if (!qp->peer) { /* we have not read its entry yet: it sends again */
		sh_intro_news(qp);
		return;
	}
	qp->intro.heard |= peer_answers(record);
	if (record->type == SH_WIRE_STANDBY) {
		event.type = SC_EV_MSG_STANDBY;
		event.standby = record->standby;
	} else {
		event.state = record->state;
	}
	sh_conn_event(qp, &event);
}

/* A heartbeat is about the pair of NICs that it came over, whichever connections use it. */
static void peer_ping(struct sh_peer *peer, const struct sh_nic *nic,
		      const struct sh_wire_record *record)
{
	struct sh_peer_path *path = peer_path(peer, nic, record->ping.nic);

	if (path && record->type == SH_WIRE_PING)
		sh_detector_ping(peer, path, &record->ping);
	else if (path)
		sh_detector_pong(peer, path, &record->ping);
}

static void peer_record(struct sh_peer *peer, const struct sh_nic *nic,
			const struct sh_wire_record *record)
{
	switch (record->type) {
	case SH_WIRE_STANDBY:
	case SH_WIRE_STATE: peer_conn_record(peer, record); break;
	case SH_WIRE_UNKNOWN: peer_unknown_heard(peer, record); break;
	case SH_WIRE_KEYS: sh_peer_keys_heard(peer, record); break;
	case SH_WIRE_KEYS_ACK: sh_peer_keys_acked(peer, record->seq); break;
	case SH_WIRE_KEY_ASK: sh_peer_keys_asked(peer, record->seq); break;
	case SH_WIRE_NICS: peer_nics_heard(peer, record); break;
	case SH_WIRE_NICS_ACK: peer_nics_acked(peer, record->seq); break;
	case SH_WIRE_PING:
	case SH_WIRE_PONG: peer_ping(peer, nic, record); break;
	case SH_WIRE_TYPES: break;
	}
}

static void peer_tell_soon(struct sh_peer *peer)
{
	peer->keys_interval = peer->nics_interval = 0;
	peer->keys_resend_at = peer->nics_resend_at = sh_now_ns();
}

/* One line for each peer, now and then; the status has all. */
static void peer_refused(struct sh_peer *peer, uint64_t instance, enum sh_refusal refusal)
{
	struct sh_refused *refused = peer ? &peer->refused : &sh_peers.strangers;
	uint64_t now = sh_now_ns();

	sh_peers.refused[refusal]++;
	refused->n++;
	if (refused->said_at && now - refused->said_at < PEER_REFUSED_NS)
		return;
	refused->said_at = now;
	sh_log(SH_LOG_WARN,
	       "a datagram in the name of %s %016llx is refused, as it is %s (%u refused so far)",
	       peer ? "peer" : "an unknown instance", (unsigned long long)instance,
	       sh_refusal_name(refusal), refused->n);
}

static enum sh_refusal peer_check(struct sh_peer *peer, const struct sh_nic *nic,
				  const struct sh_wire_header *header,
				  const struct sh_wire_reader *reader, size_t length)
{
	if (!sh_peers.auths.root)
		return SH_REFUSED_NOT;
	if (!peer)
		return sh_auth_stranger(&sh_peers.auths, header->src_instance, reader->buf,
					reader->length, length);
	return sh_auth_check(peer->auth, nic->index, reader->buf, reader->length, length);
}

/* Not introduced yet. It has read the entries of those that it speaks to, so its own are there. */
static void peer_stranger_heard(struct sh_wire_reader *reader)
{
	struct sh_wire_record record;

	while (sh_wire_next(reader, &record) == 1) {
		uint32_t id = record.ids.dst_conn;
		struct sh_qp *qp = id < sh_conns.room ? sh_conns.by_id[id] : NULL;

		if (qp && qp->nonce == record.ids.nonce &&
		    (record.type == SH_WIRE_STANDBY || record.type == SH_WIRE_STATE))
			sh_intro_news(qp);
	}
}

static void peer_heard(struct sh_peer *peer, const struct sh_nic *nic,
		       struct sh_wire_reader *reader, uint8_t minor)
{
	struct sh_wire_record record;
	int ret;

	peer->minor = minor;
	if (!peer->heard_at) /* it knows us by now: what it missed is due */
		peer_tell_soon(peer);
	peer->heard_at = sh_now_ns();
	if (peer->keys_silent)
		sh_peer_keys_back(peer);
	while ((ret = sh_wire_next(reader, &record)) == 1)
		peer_record(peer, nic, &record);
	if (ret)
		peer_refused(peer, peer->instance, SH_REFUSED_DAMAGED);
}

void sh_peer_received(void *nic, const void *buf, size_t length)
{
	struct sh_wire_header header = { 0 };
	struct sh_wire_reader reader;
	enum sh_refusal refusal = SH_REFUSED_DAMAGED;
	struct sh_peer *peer = NULL;

	if (!sh_wire_open(&reader, buf, length, &header)) {
		peer = sh_peer_find(header.src_instance);
		refusal = header.dst_instance == sh.instance
				  ? peer_check(peer, nic, &header, &reader, length)
				  : SH_REFUSED_ASTRAY;
	}
	if (refusal)
		peer_refused(peer, header.src_instance, refusal);
	else if (peer)
		peer_heard(peer, nic, &reader, header.minor);
	else
		peer_stranger_heard(&reader);
}

/* ---- the clock ------------------------------------------------------------------------------ */

static void peers_run(uint64_t now)
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
	.before_sleep = sh_peers_send_out,
};
