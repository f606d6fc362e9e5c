/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The answer of a process as series (shiftlib/admin/metrics.c writes it). Anybody's process may
 * have written it, so a missing value, or one of another type, counts as nothing, and series.c
 * bounds the rest.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tools/exporter/exporter.h"

#define BOUND_TEXT 32

static double number(const json_t *object, const char *name)
{
	return json_number_value(json_object_get(object, name));
}

/* ---- between two NICs ----------------------------------------------------------------------- */

static void way_histogram(struct series *counters, enum family family, const json_t *bounds,
			  const json_t *way, const char *name)
{
	const char *from = ctl_text(way, "from"), *to = ctl_text(way, "to");
	const json_t *histogram = json_object_get(way, name);
	const json_t *counts = json_object_get(histogram, "counts");
	size_t i, n = json_array_size(bounds);
	char bound[BOUND_TEXT];

	if (json_array_size(counts) != n + 1)
		return;
	for (i = 0; i < n; i++) {
		snprintf(bound, sizeof(bound), "%g", json_number_value(json_array_get(bounds, i)));
		series_add(counters, family, "_bucket",
			   json_number_value(json_array_get(counts, i)), "from", from, "to", to,
			   "le", bound, NULL);
	}
	series_add(counters, family, "_bucket", json_number_value(json_array_get(counts, n)),
		   "from", from, "to", to, "le", "+Inf", NULL);
	series_add(counters, family, "_sum", number(histogram, "seconds"), "from", from, "to", to,
		   NULL);
	series_add(counters, family, "_count", json_number_value(json_array_get(counts, n)), "from",
		   from, "to", to, NULL);
}

static void answer_way(struct series *counters, const json_t *bounds, const json_t *way)
{
	static const struct {
		enum family family;
		const char *name;
	} plain[] = {
		{ FAMILY_SWITCHED, "connections" },
		{ FAMILY_RESENT, "resent" },
		{ FAMILY_RESENT_BYTES, "resent_bytes" },
		{ FAMILY_SETTLED, "settled" },
	};
	const char *from = ctl_text(way, "from"), *to = ctl_text(way, "to"), *cause;
	json_t *n;

	json_object_foreach(json_object_get(way, "switches"), cause, n)
		series_add(counters, FAMILY_SWITCHES, "", json_number_value(n), "from", from, "to",
			   to, "cause", cause, NULL);
	for (size_t i = 0; i < sizeof(plain) / sizeof(*plain); i++)
		series_add(counters, plain[i].family, "", number(way, plain[i].name), "from", from,
			   "to", to, NULL);
	way_histogram(counters, FAMILY_DETECTION, bounds, way, "detect");
	way_histogram(counters, FAMILY_SWITCH, bounds, way, "switch");
}

/* ---- the rest ------------------------------------------------------------------------------- */

static void answer_failed(struct series *counters, const json_t *failed)
{
	const char *cause;
	json_t *n;

	json_object_foreach(json_object_get(failed, "connections"), cause, n)
		series_add(counters, FAMILY_FAILED, "", json_number_value(n), "nic",
			   ctl_text(failed, "nic"), "cause", cause, NULL);
}

static void answer_pair(struct series *counters, struct series *gauges, const json_t *pair)
{
	const char *nic = ctl_text(pair, "default"), *backup = ctl_text(pair, "backup"), *state;
	json_t *n;

	series_add(counters, FAMILY_AWAY, "", number(pair, "away_seconds"), "default", nic,
		   "backup", backup, NULL);
	json_object_foreach(json_object_get(pair, "now"), state, n)
		series_add(gauges, FAMILY_PAIR, "", json_number_value(n), "default", nic, "backup",
			   backup, "state", state, NULL);
}

static void answer_qps(struct series *gauges, const char *pid, const char *program,
		       const json_t *group)
{
	const char *nic = ctl_text(group, "nic"), *level = ctl_text(group, "level");
	double n = number(group, "n");

	series_add(gauges, FAMILY_PROCESS_QPS, "", n, "pid", pid, "program", program, "level",
		   level, NULL);
	series_add(gauges, FAMILY_QPS, "", n, "nic", nic, "level", level, NULL);
	if (strcmp(level, "protected"))
		series_add(gauges, FAMILY_UNPROTECTED, "", n, "nic", nic, "reason",
			   ctl_text(group, "why"), NULL);
}

static void answer_kv(struct series *counters, struct series *gauges, const json_t *kv)
{
	series_add(counters, FAMILY_KV_OPERATIONS, "", number(kv, "operations"), NULL);
	series_add(counters, FAMILY_KV_FAILURES, "", number(kv, "failures"), NULL);
	series_add(gauges, FAMILY_KV_PROCESSES, "", 1, "state", ctl_text(kv, "state"), NULL);
	if (json_is_number(json_object_get(kv, "last_seconds")))
		series_max(gauges, FAMILY_KV_LATENCY, number(kv, "last_seconds"));
}

static void answer_process(struct series *gauges, const json_t *answer)
{
	const char *program = ctl_text(answer, "program");
	json_t *group;
	char pid[32];
	size_t i;

	snprintf(pid, sizeof(pid), "%lld", ctl_int(answer, "pid"));
	series_add(gauges, FAMILY_PROCESS, "", 1, "pid", pid, "program", program, "shift_job",
		   ctl_text(answer, "job"), "version", ctl_text(answer, "version"),
		   "shift_instance", ctl_text(answer, "instance"), NULL);
	json_array_foreach(json_object_get(answer, "qps"), i, group)
		answer_qps(gauges, pid, program, group);
}

static void answer_degraded(struct series *counters, struct series *gauges, const json_t *answer)
{
	const json_t *degraded = json_object_get(answer, "degraded");
	char pid[32];

	snprintf(pid, sizeof(pid), "%lld", ctl_int(answer, "pid"));
	series_add(counters, FAMILY_DEGRADED, "", number(degraded, "seconds"), NULL);
	series_add(gauges, FAMILY_LEFT, "", number(degraded, "bandwidth_left"), "pid", pid,
		   "program", ctl_text(answer, "program"), NULL);
}

static void answer_stalled(struct series *gauges, const json_t *answer)
{
	const char *cause;
	json_t *n;

	json_object_foreach(json_object_get(answer, "stalled"), cause, n)
		series_add(gauges, FAMILY_STALLED, "", json_number_value(n), "cause", cause, NULL);
}

static void answer_nic(struct series *gauges, const json_t *nic)
{
	const char *name = ctl_text(nic, "name");

	series_add(gauges, FAMILY_NIC, "", 1, "nic", name, "state", ctl_text(nic, "state"), NULL);
	series_add(gauges, FAMILY_GRAY, "", 1, "nic", name, "state", ctl_text(nic, "gray"), NULL);
}

int answer_read(const json_t *answer, struct series *counters, struct series *gauges)
{
	const json_t *bounds = json_object_get(answer, "bounds");
	const char *name;
	json_t *item;
	size_t i;

	if (!*ctl_text(answer, "instance") || !json_is_array(bounds))
		return -EPROTO;
	answer_process(gauges, answer);
	answer_degraded(counters, gauges, answer);
	answer_stalled(gauges, answer);
	answer_kv(counters, gauges, json_object_get(answer, "kv"));
	json_object_foreach(json_object_get(answer, "refused"), name, item) series_add(
		counters, FAMILY_REFUSED, "", json_number_value(item), "reason", name, NULL);
	json_object_foreach(json_object_get(answer, "words"), name, item) series_add(
		counters, FAMILY_WORDS, "", json_number_value(item), "result", name, NULL);
	json_array_foreach(json_object_get(answer, "nics"), i, item) answer_nic(gauges, item);
	json_array_foreach(json_object_get(answer, "pairs"), i, item)
		answer_pair(counters, gauges, item);
	json_array_foreach(json_object_get(answer, "failed"), i, item)
		answer_failed(counters, item);
	json_array_foreach(json_object_get(answer, "ways"), i, item)
		answer_way(counters, bounds, item);
	return 0;
}
