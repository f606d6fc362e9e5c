/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The answer to `metrics`: counters since the start, and what there is now, counted by kinds. */
#include <errno.h>
#include <string.h>
#include "shiftlib/admin/admin.h"
#include "shiftlib/admin/names.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/watch/blame.h"
#include "shiftlib/conn/watch/degraded.h"
#include "shiftlib/conn/watch/gray.h"
#include "shiftlib/conn/watch/stall.h"
#include "shiftlib/control/version.h"
#include "shiftlib/report/metrics.h"

/* Groups of queue pairs. The last one takes what is more, without its reason. */
#define GROUPS_MAX  64
#define PROGRAM_MAX 64

/* Connected queue pairs that have their NIC, level and reason in common. */
struct group {
	const struct sh_nic *nic;
	const char *why;
	enum sh_level level;
	uint32_t n;
};

/* Connections of a NIC and one of its backups. */
struct pair_now {
	uint32_t ready, preparing, lazy, away, moving;
};

static void metrics_string(struct sh_json *json, const char *name, const char *value)
{
	sh_json_print(json, ", \"%s\": ", name);
	sh_json_string(json, value);
}

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

/* ---- counters ------------------------------------------------------------------------------- */

static bool cause_moves(enum sh_event_cause cause)
{
	return cause >= SH_CAUSE_PORT_DOWN && cause <= SH_CAUSE_BETTER_NIC;
}

/* True for the causes of a fault that no other NIC made good. */
static bool cause_fails(enum sh_event_cause cause)
{
	return (cause >= SH_CAUSE_PORT_DOWN && cause <= SH_CAUSE_CQ) ||
	       (cause >= SH_CAUSE_STANDBY && cause <= SH_CAUSE_RESOURCE) ||
	       cause == SH_CAUSE_HOME || cause == SH_CAUSE_PEER_GONE;
}

/* Writes causes that are possible even when they are 0: a rise from nothing cannot be seen. */
static void metrics_causes(struct sh_json *json, const char *name, const uint64_t n[SH_CAUSES],
			   bool (*possible)(enum sh_event_cause cause))
{
	const char *comma = "";
	int i;

	sh_json_print(json, ", \"%s\": {", name);
	for (i = 0; i < SH_CAUSES; i++) {
		if (!n[i] && !possible((enum sh_event_cause)i))
			continue;
		sh_json_print(json, "%s\"%s\": %llu", comma,
			      sh_event_cause_name((enum sh_event_cause)i),
			      (unsigned long long)n[i]);
		comma = ", ";
	}
	sh_json_print(json, "}");
}

/* Cumulative, as Prometheus counts; the last is behind all bounds. */
static void metrics_histogram(struct sh_json *json, const char *name,
			      const struct sh_histogram *histogram)
{
	uint64_t sum = 0;
	int i;

	sh_json_print(json, ", \"%s\": {\"seconds\": %.9f, \"counts\": [", name,
		      seconds(histogram->sum_ns));
	for (i = 0; i <= SH_METRICS_BUCKETS; i++) {
		sum += histogram->n[i];
		sh_json_print(json, "%s%llu", i ? ", " : "", (unsigned long long)sum);
	}
	sh_json_print(json, "]}");
}

static void metrics_way(struct sh_json *json, const struct sh_way *way)
{
	sh_json_print(json, "{\"from\": ");
	sh_json_string(json, way->from);
	metrics_string(json, "to", way->to);
	metrics_causes(json, "switches", way->switches, cause_moves);
	sh_json_print(json,
		      ", \"connections\": %llu, \"resent\": %llu, \"resent_bytes\": %llu, "
		      "\"settled\": %llu",
		      (unsigned long long)way->connections, (unsigned long long)way->resent,
		      (unsigned long long)way->resent_bytes, (unsigned long long)way->settled);
	metrics_histogram(json, "detect", &way->detect);
	metrics_histogram(json, "switch", &way->move);
	sh_json_print(json, "}");
}

static void metrics_ways(struct sh_json *json)
{
	const char *comma = "";
	struct sh_way *way;
	int i;

	sh_json_print(json, ",\n\"bounds\": [");
	for (i = 0; i < SH_METRICS_BUCKETS; i++)
		sh_json_print(json, "%s%g", i ? ", " : "", sh_metrics_bounds[i]);
	sh_json_print(json, "],\n\"ways\": [");
	list_for_each (&sh_metrics()->ways, way, struct sh_way, link) {
		sh_json_text(json, comma);
		metrics_way(json, way);
		comma = ",\n";
	}
	sh_json_print(json, "]");
}

static void metrics_failed(struct sh_json *json)
{
	const char *comma = "";
	struct sh_failed *failed;

	sh_json_print(json, ",\n\"failed\": [");
	list_for_each (&sh_metrics()->failed, failed, struct sh_failed, link) {
		sh_json_print(json, "%s{\"nic\": ", comma);
		sh_json_string(json, failed->nic);
		metrics_causes(json, "connections", failed->connections, cause_fails);
		sh_json_print(json, "}");
		comma = ",\n";
	}
	sh_json_print(json, "]");
}

static void metrics_kv(struct sh_json *json)
{
	const struct sh_kv_health *kv = &sh_metrics()->kv;

	sh_json_print(json,
		      ",\n\"kv\": {\"state\": \"%s\", \"operations\": %llu, \"failures\": %llu, "
		      "\"last_seconds\": ",
		      sh_kv_state(), (unsigned long long)kv->operations,
		      (unsigned long long)kv->failures);
	if (kv->last_ns)
		sh_json_print(json, "%.9f}", seconds(kv->last_ns));
	else
		sh_json_print(json, "null}");
}

/* ---- what there is now ---------------------------------------------------------------------- */

/* Has the application connected it? What it closes is its own affair. */
static bool group_counts(const struct sh_qp *qp)
{
	return qp->init.qp_type == IBV_QPT_RC &&
	       (qp->app.state == IBV_QPS_RTR || qp->app.state == IBV_QPS_RTS ||
		qp->app.state == IBV_QPS_SQD);
}

static void group_add(struct group groups[GROUPS_MAX], uint32_t *n,
		      const struct sh_qp *qp) SH_LOCKED
{
	struct group group = { .nic = qp->ctx ? qp->ctx->nic : NULL,
			       .level = qp->level,
			       .why = qp->level == SH_PROTECTED ? NULL : sh_level_why(qp) };
	uint32_t i;

	if (!group.nic)
		return;
	for (i = 0; i < *n; i++)
		if (groups[i].nic == group.nic && groups[i].level == group.level &&
		    groups[i].why == group.why)
			break;
	if (i == GROUPS_MAX)
		groups[--i].why = "several reasons";
	else if (i == *n)
		groups[(*n)++] = group;
	groups[i].n++;
}

static void metrics_groups(struct sh_json *json) SH_LOCKED
{
	struct group groups[GROUPS_MAX];
	struct sh_qp *qp;
	uint32_t i, n = 0;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		if (group_counts(qp))
			group_add(groups, &n, qp);
	sh_json_print(json, ",\n\"qps\": [");
	for (i = 0; i < n; i++) {
		sh_json_print(json, "%s{\"nic\": ", i ? ",\n" : "");
		sh_json_string(json, groups[i].nic->name);
		metrics_string(json, "level", sh_level_name(groups[i].level));
		metrics_string(json, "why", groups[i].why);
		sh_json_print(json, ", \"n\": %u}", groups[i].n);
	}
	sh_json_print(json, "]");
}

/* Connections that wait, by what they wait for. */
static void metrics_stalled(struct sh_json *json) SH_LOCKED
{
	uint32_t n[SH_CAUSES] = { 0 }, i;
	const struct sh_stall_why *why;
	const char *comma = "";
	uint64_t since;
	struct sh_qp *qp;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link) {
		why = sh_stall_of(qp, &since);
		if (why)
			n[why->cause]++;
	}
	sh_json_print(json, ",\n\"stalled\": {");
	for (i = 0; i < SH_CAUSES; i++) {
		if (!n[i])
			continue;
		sh_json_print(json, "%s\"%s\": %u", comma,
			      sh_event_cause_name((enum sh_event_cause)i), n[i]);
		comma = ", ";
	}
	sh_json_print(json, "}");
}

static void pair_count(struct pair_now now[SC_MAX_PATHS], const struct sh_qp *qp)
{
	const struct sc_conn *core = &qp->core;
	uint8_t path = core->path ? core->path : core->standby.path;

	if (!qp->conn_id || path >= SC_MAX_PATHS || core->move == SC_MOVE_ENDED)
		return;
	if (core->move != SC_MOVE_NONE)
		now[path].moving++;
	else if (core->path)
		now[path].away++;
	else if (sc_rests(core))
		now[1].lazy++;
	else if (sc_protected(core))
		now[path].ready++;
	else if (core->standby.phase != SC_STANDBY_NONE)
		now[path].preparing++;
}

static void metrics_pair(struct sh_json *json, const struct sh_nic *nic, const char *backup,
			 const struct sh_away *away, const struct pair_now *now)
{
	sh_json_print(json, "{\"default\": ");
	sh_json_string(json, nic->name);
	metrics_string(json, "backup", backup);
	sh_json_print(json,
		      ", \"away_seconds\": %.9f, \"now\": {\"ready\": %u, \"preparing\": %u, "
		      "\"lazy\": %u, \"on-backup\": %u, \"moving\": %u}}",
		      seconds(sh_away_ns(away, sh_now_ns())), now->ready, now->preparing, now->lazy,
		      now->away, now->moving);
}

static bool pairs_opened(const struct sh_nic *nic)
{
	struct sh_ctx *ctx;

	list_for_each (&sh_objects.ctxs, ctx, struct sh_ctx, link)
		if (ctx->nic == nic && ctx->n_paths > 1)
			return true;
	return false;
}

/* Writes the pairs of a NIC that the application has opened, or has spent time away from. */
static void metrics_pairs_of(struct sh_json *json, struct sh_nic *nic, const char **comma)
{
	const uint8_t *backups = sh_nics.map.backups[nic->index];
	uint32_t k, n = sh_nics.map.n_backups[nic->index];
	struct pair_now now[SC_MAX_PATHS] = { 0 };
	bool opened = pairs_opened(nic);
	struct sh_qp *qp;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		if (opened && qp->ctx && qp->ctx->nic == nic)
			pair_count(now, qp);
	for (k = 1; k <= n && k < SC_MAX_PATHS; k++) {
		if (!opened && !nic->away[k].total_ns)
			continue;
		sh_json_text(json, *comma);
		metrics_pair(json, nic, sh_nics.nic[backups[k - 1]].name, &nic->away[k], &now[k]);
		*comma = ",\n";
	}
}

static void metrics_pairs(struct sh_json *json)
{
	const char *comma = "";
	uint32_t i;

	sh_json_print(json, ",\n\"pairs\": [");
	for (i = 0; i < sh_nics.n; i++)
		metrics_pairs_of(json, &sh_nics.nic[i], &comma);
	sh_json_print(json, "]");
}

/* The worst that is known of it. */
static const char *metrics_nic_state(const struct sh_nic *nic)
{
	if (nic->state != SH_NIC_OPEN)
		return sh_nic_state_name(nic->state);
	if (nic->fatal)
		return "fatal";
	if (nic->sick)
		return "sick";
	if (nic->port_down || nic->link_lost)
		return "port-down";
	if (sh_blame_is(nic))
		return "silent";
	return nic->drained ? "drained" : "up";
}

static void metrics_nics(struct sh_json *json) SH_LOCKED
{
	uint32_t i;

	sh_json_print(json, ",\n\"nics\": [");
	for (i = 0; i < sh_nics.n; i++) {
		sh_json_print(json, "%s{\"name\": ", i ? ", " : "");
		sh_json_string(json, sh_nics.nic[i].name);
		metrics_string(json, "state", metrics_nic_state(&sh_nics.nic[i]));
		metrics_string(json, "gray", sh_gray_word(&sh_nics.nic[i]));
		sh_json_print(json, "}");
	}
	sh_json_print(json, "]");
}

static void metrics_degraded(struct sh_json *json) SH_LOCKED
{
	struct sh_degraded degraded;

	sh_degraded_now(&degraded);
	sh_json_print(json, ",\n\"degraded\": {\"seconds\": %.9f, \"bandwidth_left\": %u.%03u}",
		      seconds(degraded.seconds_ns), degraded.left / 1000, degraded.left % 1000);
}

/* ---- all of it ------------------------------------------------------------------------------ */

/* Makes each counter that may be needed one day, with zeros. */
static void metrics_expect(void)
{
	struct sh_ctx *ctx;
	uint32_t k;

	list_for_each (&sh_objects.ctxs, ctx, struct sh_ctx, link) {
		if (ctx->n_paths < 2)
			continue;
		(void)sh_metrics_failed(ctx->path[0]->name);
		for (k = 1; k < ctx->n_paths; k++) {
			(void)sh_metrics_way(ctx->path[0]->name, ctx->path[k]->name);
			(void)sh_metrics_way(ctx->path[k]->name, ctx->path[0]->name);
			(void)sh_metrics_failed(ctx->path[k]->name);
		}
	}
}

void admin_answer_metrics(struct sh_json *json)
{
	char program[PROGRAM_MAX] = "";

	/* Not its arguments: they may have passwords in them, and go into a data base here. */
	strncpy(program, program_invocation_short_name, sizeof(program) - 1);
	metrics_expect();
	admin_answer_begin(json);
	sh_json_print(json, ", \"instance\": \"%016llx\"", (unsigned long long)sh.instance);
	metrics_string(json, "version", sh_version + strlen(SHIFT_VERSION_MARK));
	metrics_string(json, "program", program);
	metrics_string(json, "job", sh.config.job);
	admin_refused(json);
	admin_told(json);
	metrics_kv(json);
	metrics_nics(json);
	metrics_pairs(json);
	metrics_degraded(json);
	metrics_groups(json);
	metrics_stalled(json);
	metrics_failed(json);
	metrics_ways(json);
	sh_json_print(json, "}\n");
}
