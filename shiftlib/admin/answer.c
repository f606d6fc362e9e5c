/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The answers of shiftctl's socket: the state of NICs and connections, and how far a drain has
 * come.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "kvclient/kv.h"
#include "shiftlib/admin/admin.h"
#include "shiftlib/admin/names.h"
#include "shiftlib/admin/waits.h"
#include "shiftlib/base/date.h"
#include "shiftlib/conn/atomics/home.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/meet/intro.h"
#include "shiftlib/conn/paths.h"
#include "shiftlib/conn/watch/blame.h"
#include "shiftlib/conn/watch/degraded.h"
#include "shiftlib/conn/watch/gray.h"
#include "shiftlib/conn/watch/slow.h"
#include "shiftlib/conn/watch/slow_path.h"
#include "shiftlib/conn/watch/stall.h"
#include "shiftlib/conn/wqelog/wqe_log.h"
#include "shiftlib/control/version.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/prove.h"
#include "shiftlib/report/metrics.h"

#define STATUS_FORMAT  1  /* raised when a member changes its meaning or goes */
#define STATUS_PIECE   32 /* connections of an answer written at a time */
#define USERS_EXAMPLES 16 /* connections that are named; the rest is counted */

struct status_qp {
	uint32_t qpn, conn_id, epoch, standby_epoch, moves;
	uint64_t resubmitted, resent_bytes, settled, instance;
	/* Constants, and names of NICs: they stay. */
	const char *level, *why, *nic, *default_nic, *standby_nic;
	uint32_t peer_qpn; /* 0: not connected yet */
	uint16_t peer_lid;
	bool peer_has_gid;
	uint8_t peer_gid[16];
	enum ibv_qp_type type;
	enum sc_send_state send;
	enum sc_recv_state recv;
	enum sc_move_phase move;
	enum sc_reason reason;
	enum sc_standby_phase standby, standby_peer;
	enum sc_switch_phase ordered;
	uint8_t path, standby_path, peer_protocol;
	struct sc_masks paths, peer_paths;
	uint8_t atomics_path;
	const char *atomics_why;
	const char *log, *log_why;
	bool atomics_alone;
	struct sh_held_path held; /* nic NULL: none */
	const struct sh_stall_why *stall;
	uint64_t stalled_ns;
};

struct admin_status {
	struct admin_rest rest; /* first */
	uint32_t n, next;
	struct status_qp qps[];
};

/* ---- words ---------------------------------------------------------------------------------- */

static const char *admin_type_name(enum ibv_qp_type type)
{
	return type == IBV_QPT_RC ? "RC" : type == IBV_QPT_UD ? "UD" : "other";
}

static const char *admin_bool(bool value)
{
	return value ? "true" : "false";
}

/* ---- status --------------------------------------------------------------------------------- */

static const struct sh_nic *admin_qp_nic(const struct sh_qp *qp)
{
	if (qp->active && qp->active->nic)
		return qp->active->nic;
	return qp->ctx ? qp->ctx->nic : NULL;
}

static const char *admin_path_nic(const struct sh_qp *qp, uint8_t path)
{
	return qp->ctx && path < qp->ctx->n_paths ? qp->ctx->path[path]->name : NULL;
}

/* Takes the peer's address from what the application connected to. */
static void status_fill_peer(struct status_qp *out, const struct sh_qp *qp)
{
	if (!(qp->app.mask & IBV_QP_AV))
		return;
	out->peer_qpn = qp->app.attr.dest_qp_num;
	out->peer_lid = qp->app.attr.ah_attr.dlid;
	out->peer_has_gid = qp->app.attr.ah_attr.is_global;
	memcpy(out->peer_gid, qp->app.attr.ah_attr.grh.dgid.raw, sizeof(out->peer_gid));
}

static void status_fill(struct status_qp *out, struct sh_qp *qp) SH_LOCKED
{
	const struct sh_nic *nic = admin_qp_nic(qp);
	const struct sh_peer *peer = qp->peer;
	const struct sc_conn *core = &qp->core;

	*out = (struct status_qp){
		.qpn = qp->qp->qp_num,
		.conn_id = qp->conn_id,
		.epoch = core->epoch,
		.standby_epoch = core->standby.epoch,
		.instance = peer ? peer->instance : 0,
		.peer_protocol = qp->intro.peer_protocol,
		.moves = qp->stats.totals.moves,
		.resubmitted = qp->stats.totals.resubmitted,
		.resent_bytes = qp->stats.totals.resent_bytes,
		.settled = qp->stats.totals.settled,
		.level = sh_level_name(qp->level),
		.why = sh_level_why(qp),
		.nic = nic ? nic->name : NULL,
		.default_nic = admin_path_nic(qp, 0),
		.standby_nic = admin_path_nic(qp, core->standby.path),
		.type = qp->qp->qp_type,
		.send = core->send,
		.recv = core->recv,
		.move = core->move,
		.reason = core->reason,
		.standby = core->standby.phase,
		.standby_peer = core->standby.peer,
		.ordered = core->sw.phase,
		.path = core->path,
		.standby_path = core->standby.path,
		.paths = core->paths,
		.peer_paths = core->peer.paths,
		.atomics_path = sh_home_path(qp),
		.atomics_why = sh_home_why(qp),
		.atomics_alone = sh_home_alone(qp),
	};
	if (!sh_paths_held(qp, &out->held))
		out->held.nic = NULL;
	out->log = sh_wqe_log_state(qp, &out->log_why);
	out->stall = sh_stall_of(qp, &out->stalled_ns);
	out->stalled_ns = sh_now_ns() - out->stalled_ns;
	status_fill_peer(out, qp);
}

static void status_string(struct sh_json *json, const char *name, const char *value)
{
	sh_json_text(json, ", \"");
	sh_json_text(json, name);
	sh_json_text(json, "\": ");
	sh_json_string(json, value);
}

static void status_standby(struct sh_json *json, const struct status_qp *qp)
{
	if (qp->standby == SC_STANDBY_NONE) {
		sh_json_text(json, ", \"standby\": null");
		return;
	}
	sh_json_print(json,
		      ", \"standby\": {\"epoch\": %u, \"path\": %u, \"phase\": \"%s\", "
		      "\"peer_phase\": \"%s\"",
		      qp->standby_epoch, qp->standby_path, sc_standby_phase_name(qp->standby),
		      sc_standby_phase_name(qp->standby_peer));
	status_string(json, "nic", qp->standby_nic);
	sh_json_print(json, "}");
}

/* Its default address, and its protocol, as its record in the KV says. */
static void status_peer(struct sh_json *json, const struct status_qp *qp)
{
	char gid[INET6_ADDRSTRLEN];

	sh_json_print(json, ", \"peer\": \"%016llx\", \"peer_qpn\": %u, \"peer_lid\": %u",
		      (unsigned long long)qp->instance, qp->peer_qpn, qp->peer_lid);
	if (qp->peer_has_gid && inet_ntop(AF_INET6, qp->peer_gid, gid, sizeof(gid)))
		sh_json_print(json, ", \"peer_gid\": \"%s\"", gid);
	else
		sh_json_print(json, ", \"peer_gid\": null");
	if (qp->peer_protocol)
		sh_json_print(json, ", \"peer_protocol\": %u", qp->peer_protocol);
	else
		sh_json_print(json, ", \"peer_protocol\": null");
}

static void status_connection(struct sh_json *json, const struct status_qp *qp)
{
	sh_json_print(json,
		      ", \"connection\": %u, \"send\": \"%s\", \"receive\": \"%s\", "
		      "\"move\": \"%s\", \"switch\": \"%s\", \"reason\": \"%s\", "
		      "\"epoch\": %u, \"path\": %u",
		      qp->conn_id, sc_send_state_name(qp->send), sc_recv_state_name(qp->recv),
		      sc_move_phase_name(qp->move), sc_switch_phase_name(qp->ordered),
		      sc_reason_name(qp->reason), qp->epoch, qp->path);
	status_standby(json, qp);
	admin_held(json, &qp->held);
	admin_stalled(json, qp->stall, qp->stalled_ns);
	/* Bit k is path k. */
	sh_json_print(json,
		      ", \"paths\": {\"up\": %u, \"steady\": %u, \"drained\": %u}, "
		      "\"peer_paths\": {\"up\": %u, \"steady\": %u, \"drained\": %u}",
		      qp->paths.up, qp->paths.steady, qp->paths.drained, qp->peer_paths.up,
		      qp->peer_paths.steady, qp->peer_paths.drained);
	/* Where the peers' atomics run at this end; why this end's wait. */
	sh_json_print(json, ", \"atomics_path\": %u", qp->atomics_path);
	status_string(json, "atomics_wait", qp->atomics_why);
	status_string(json, "log", qp->log);
	status_string(json, "log_why", qp->log_why);
	status_peer(json, qp);
	sh_json_print(
		json,
		", \"moves\": %u, \"resubmitted\": %llu, \"resent_bytes\": %llu, \"settled\": %llu",
		qp->moves, (unsigned long long)qp->resubmitted,
		(unsigned long long)qp->resent_bytes, (unsigned long long)qp->settled);
}

static void status_qp(struct sh_json *json, const struct status_qp *qp)
{
	sh_json_print(json, "{\"qpn\": %u, \"type\": \"%s\", \"level\": \"%s\"", qp->qpn,
		      admin_type_name(qp->type), qp->level);
	status_string(json, "why", qp->why);
	status_string(json, "nic", qp->nic);
	status_string(json, "default_nic", qp->default_nic);
	sh_json_print(json, ", \"atomics_alone\": %s", admin_bool(qp->atomics_alone));
	if (qp->conn_id)
		status_connection(json, qp);
	sh_json_print(json, "}");
}

static bool status_more(struct admin_rest *rest, struct sh_json *json)
{
	struct admin_status *status = (struct admin_status *)rest;
	uint32_t end = status->next + STATUS_PIECE;

	for (; status->next < status->n && status->next < end; status->next++) {
		sh_json_print(json, "%s\n", status->next ? "," : "");
		status_qp(json, &status->qps[status->next]);
	}
	if (status->next < status->n)
		return true;
	sh_json_print(json, "]}\n");
	return false;
}

static struct admin_status *status_take(void) SH_LOCKED
{
	struct admin_status *status;
	struct sh_qp *qp;
	uint32_t n = 0;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		n++;
	status = malloc(sizeof(*status) + n * sizeof(*status->qps));
	if (!status)
		return NULL;
	status->rest.more = status_more;
	status->n = status->next = 0;
	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		status_fill(&status->qps[status->n++], qp);
	return status;
}

static void status_gray(struct sh_json *json, const struct sh_nic *nic) SH_LOCKED
{
	struct sh_slow_path_sum paths;
	uint64_t errors, packets;
	uint32_t now, whole;

	sh_gray_figures(nic, &errors, &packets);
	sh_slow_figures(nic, &now, &whole);
	sh_slow_path_figures(nic, &paths);
	status_string(json, "gray", sh_gray_word(nic));
	status_string(json, "slow_link",
		      !sh_slow_is(nic)	    ? NULL
		      : sh_slow_is_pci(nic) ? "pci"
					    : "port");
	sh_json_print(json,
		      ", \"errors\": %llu, \"packets\": %llu, \"mbps\": %u, \"mbps_whole\": %u",
		      (unsigned long long)errors, (unsigned long long)packets, now, whole);
	sh_json_print(json,
		      ", \"slow_paths\": %u, \"paths\": %u, \"trip_ns\": %llu, "
		      "\"trip_usual_ns\": %llu",
		      paths.slow, paths.paths, (unsigned long long)paths.floor_ns,
		      (unsigned long long)paths.instead_ns);
}

/* Events of the application's contexts on this NIC that it has not been told of. */
static void status_owed(struct sh_json *json, const struct sh_nic *nic)
{
	uint32_t owed[SH_OWED_KINDS] = { 0 }, kind;
	struct sh_ctx *ctx;

	list_for_each (&sh_objects.ctxs, ctx, struct sh_ctx, link)
		if (ctx->nic == nic)
			sh_held_count(&ctx->held, owed);
	sh_json_print(json, ", \"owed\": {");
	for (kind = 0; kind < SH_OWED_KINDS; kind++)
		sh_json_print(json, "%s\"%s\": %u", kind ? ", " : "", sh_owed_name(kind),
			      owed[kind]);
	sh_json_print(json, "}");
}

static void status_nic(struct sh_json *json, const struct sh_nic *nic) SH_LOCKED
{
	const char *exact_why, *exact = sh_nic_exact(nic, &exact_why);

	sh_json_print(json, "{\"name\": ");
	sh_json_string(json, nic->name);
	sh_json_print(json,
		      ", \"state\": \"%s\", \"port_down\": %s, \"sick\": %s, \"fatal\": %s, "
		      "\"drained\": %s",
		      sh_nic_state_name(nic->state), admin_bool(nic->port_down),
		      admin_bool(nic->sick), admin_bool(nic->fatal), admin_bool(nic->drained));
	status_string(json, "engine", sh_nic_engine(nic) ? sh_nic_engine(nic)->name : NULL);
	sh_json_print(json, ", \"silent\": %s", admin_bool(sh_blame_is(nic)));
	status_string(json, "why", nic->why);
	status_string(json, "exact", exact);
	status_string(json, "exact_why", exact_why);
	status_gray(json, nic);
	status_owed(json, nic);
	sh_json_print(json, "}");
}

void admin_command(char out[ADMIN_COMMAND])
{
	FILE *file = fopen("/proc/self/cmdline", "re");
	size_t i, n = file ? fread(out, 1, ADMIN_COMMAND - 1, file) : 0;

	if (file)
		fclose(file);
	while (n && !out[n - 1])
		n--;
	for (i = 0; i < n; i++)
		if (!out[i])
			out[i] = ' ';
	out[n] = 0;
}

void admin_refused(struct sh_json *json)
{
	uint32_t i;

	sh_json_print(json, ", \"signed\": %s, \"refused\": {", admin_bool(sh_peers.auths.root));
	for (i = SH_REFUSED_NOT + 1; i < SH_REFUSALS; i++)
		sh_json_print(json, "%s\"%s\": %llu", i > SH_REFUSED_NOT + 1 ? ", " : "",
			      sh_refusal_name(i), (unsigned long long)sh_peers.refused[i]);
	sh_json_print(json, "}");
}

void admin_told(struct sh_json *json)
{
	const struct sh_words_told *words = &sh_metrics()->words;

	sh_json_print(json, ", \"words\": {\"swapped\": %llu, \"again\": %llu}",
		      (unsigned long long)words->swapped, (unsigned long long)words->again);
}

static void status_degraded(struct sh_json *json) SH_LOCKED
{
	struct sh_degraded degraded;
	char date[SH_DATE_MAX];

	sh_degraded_now(&degraded);
	if (!degraded.since_ns) {
		sh_json_print(json, ", \"degraded\": null");
		return;
	}
	sh_date_print(degraded.since_ns, date);
	sh_json_print(json,
		      ", \"degraded\": {\"since\": \"%s\", \"bandwidth_left\": %u.%03u, "
		      "\"qps\": %u}",
		      date, degraded.left / 1000, degraded.left % 1000, degraded.qps);
}

static void status_head(struct sh_json *json) SH_LOCKED
{
	char command[ADMIN_COMMAND];
	uint32_t i;

	admin_command(command);
	sh_json_print(json,
		      "{\"format\": %d, \"pid\": %d, \"instance\": \"%016llx\", \"protocol\": %d",
		      STATUS_FORMAT, (int)getpid(), (unsigned long long)sh.instance, KV_PROTOCOL);
	status_string(json, "command", command);
	status_string(json, "kv", sh_kv_state());
	status_string(json, "job", sh.config.job);
	admin_refused(json);
	status_degraded(json);
	status_string(json, "atomics",
		      sh.config.atomics_owner ? "owner"
		      : sh.config.atomics_uid ? "uid"
					      : "end");
	status_string(json, "atomic_group", sh.config.atomic_group);
	sh_json_print(json, ", \"atomic_processes\": %u", sh_home_processes());
	admin_told(json);
	sh_json_print(json, ", \"states_sent\": %llu, \"state_datagrams\": %llu",
		      (unsigned long long)sh_peers.states_sent,
		      (unsigned long long)sh_peers.state_datagrams);
	admin_foreign(json);
	admin_direct(json);
	admin_open(json);
	sh_json_print(json, ", \"nics\": [");
	for (i = 0; i < sh_nics.n; i++) {
		sh_json_print(json, "%s", i ? ", " : "");
		status_nic(json, &sh_nics.nic[i]);
	}
	sh_json_print(json, "], \"qps\": [");
}

void admin_answer_begin(struct sh_json *json)
{
	sh_json_print(json, "{\"format\": %d, \"pid\": %d", STATUS_FORMAT, (int)getpid());
}

void admin_answer_error(struct sh_json *json, const char *why)
{
	admin_answer_begin(json);
	status_string(json, "error", why);
	sh_json_print(json, "}\n");
}

static struct admin_rest *answer_status(struct sh_json *json) SH_LOCKED
{
	struct admin_status *status = status_take();

	if (status)
		status_head(json);
	else
		admin_answer_error(json, "out of memory");
	return status ? &status->rest : NULL;
}

/* ---- drain ---------------------------------------------------------------------------------- */

static bool users_has(const struct sh_qp *qp, const struct sh_nic *nic)
{
	bool receives = qp->receiving && qp->receiving->nic == nic;

	return (receives || admin_qp_nic(qp) == nic) && qp->app.state != IBV_QPS_RESET &&
	       qp->app.state != IBV_QPS_INIT && qp->app.state != IBV_QPS_ERR;
}

/* The paths that both ends call up and neither operator drains, without the one in use. */
static uint8_t users_other_paths(const struct sc_conn *core)
{
	uint8_t up = core->paths.up & (core->peer.masks_known ? core->peer.paths.up : UINT8_MAX);
	uint8_t drained = core->paths.drained | core->peer.paths.drained;

	return up & (uint8_t) ~(drained | (1u << core->path));
}

/*
 * Says why a connection stays on a drained NIC; NULL: it is on its way. @for_ever: waiting does
 * not help.
 */
static const char *users_stuck(const struct sh_qp *qp, bool *for_ever)
{
	const struct sc_conn *core = &qp->core;

	*for_ever = qp->level == SH_FOREIGN || !qp->conn_id || core->move == SC_MOVE_ENDED;
	if (*for_ever || !core->peer.introduced)
		return qp->why ? qp->why : "it is not protected";
	if (core->move != SC_MOVE_NONE)
		return NULL;
	if (!users_other_paths(core))
		return "none of its other NICs is up and not drained";
	if (core->standby.avoid && qp->carriers.standby_why)
		return qp->carriers.standby_why;
	return NULL;
}

struct users {
	uint32_t now, moving, for_ever, named;
};

static void users_name(struct sh_json *json, struct users *users, const struct sh_qp *qp,
		       const char *why)
{
	if (users->named == USERS_EXAMPLES)
		return;
	sh_json_print(json, "%s{\"qpn\": %u", users->named++ ? ", " : "", qp->qp->qp_num);
	status_string(json, "reason", why);
	sh_json_print(json, "}");
}

static void users_count(struct sh_json *json, struct users *users, const struct sh_nic *nic)
{
	struct sh_qp *qp;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link) {
		const char *why;
		bool for_ever;

		if (!users_has(qp, nic))
			continue;
		users->now++;
		why = users_stuck(qp, &for_ever);
		users->moving += !why;
		users->for_ever += for_ever;
		if (why)
			users_name(json, users, qp, why);
	}
}

static void answer_users(struct sh_json *json, const struct sh_nic *nic)
{
	struct users users = { 0 };

	admin_answer_begin(json);
	status_string(json, "device", nic->name);
	sh_json_print(json, ", \"drained\": %s, \"stay\": [", admin_bool(nic->drained));
	users_count(json, &users, nic);
	sh_json_print(json, "], \"connections\": %u, \"moving\": %u, \"for_ever\": %u", users.now,
		      users.moving, users.for_ever);
	sh_json_print(json, ", \"moved\": %u, \"resubmitted\": %llu, \"settled\": %llu}\n",
		      nic->left.moved, (unsigned long long)nic->left.resubmitted,
		      (unsigned long long)nic->left.settled);
}

static void admin_drain(struct sh_nic *nic, bool on) SH_LOCKED
{
	if (!on)
		sh_gray_use(nic);
	sh_nic_drain(nic, on);
	sh_kick();
}

int shift_drain_device(const char *device, bool on)
{
	struct sh_nic *nic;
	int ret;

	sh_lock();
	ret = sh_nics_load();
	nic = ret ? NULL : sh_nic_by_name(device);
	if (!ret && !nic)
		ret = -ENODEV;
	if (nic)
		admin_drain(nic, on);
	sh_unlock();
	return ret;
}

/* ---- which answer --------------------------------------------------------------------------- */

static void answer_device(const struct admin_request *request, struct sh_json *json) SH_LOCKED
{
	struct sh_nic *nic = sh_nic_by_name(request->device);

	if (!nic) {
		admin_answer_error(json, "no such device");
		return;
	}
	if (request->word == ADMIN_DRAIN || request->word == ADMIN_UNDRAIN)
		admin_drain(nic, request->word == ADMIN_DRAIN);
	answer_users(json, nic);
}

static void answer_open(struct sh_json *json) SH_LOCKED
{
	admin_answer_begin(json);
	admin_open(json);
	sh_json_print(json, "}\n");
}

void admin_answer(const struct admin_request *request, struct sh_json *json,
		  struct admin_rest **rest)
{
	switch (request->word) {
	case ADMIN_VERSION:
		sh_json_print(
			json,
			"{\"format\": %d, \"pid\": %d, \"version\": \"%s\", \"build\": \"%s\"}\n",
			STATUS_FORMAT, (int)getpid(), SHIFT_VERSION,
			sh_version + strlen(SHIFT_VERSION_MARK));
		break;
	case ADMIN_STATUS: *rest = answer_status(json); break;
	case ADMIN_OPEN: answer_open(json); break;
	case ADMIN_DRAIN:
	case ADMIN_UNDRAIN:
	case ADMIN_USERS: answer_device(request, json); break;
	case ADMIN_EVENTS: *rest = admin_answer_events(request, json); break;
	case ADMIN_METRICS: admin_answer_metrics(json); break;
	case ADMIN_FAREWELL: break; /* answered by sh_admin_stop() */
	}
}
