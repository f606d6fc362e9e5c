/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include "shiftlib/base/date.h"
#include "shiftlib/base/gid.h"
#include "shiftlib/report/event.h"
#include "shiftlib/report/on_event.h"
#include "shiftlib/base/log.h"
#include "shiftlib/report/metrics.h"
#include "shiftlib/base/util.h"

/* so many events of one cause, within that time of each other, have a line at level warn */
#define EVENT_SAME    2
#define EVENT_SAME_NS SH_NS_PER_S

static struct {
	uint64_t last;			      /* number */
	struct sh_event kept[SH_EVENTS_KEPT]; /* number n in place n % SH_EVENTS_KEPT */
} events;

/* ---- who wants to know ---------------------------------------------------------------------- */

/* What an operator is told by default: one line for all connections that it concerns. */
static bool event_is_news(const struct sh_event *event)
{
	return event->kind == SH_EVENT_SWITCH || event->kind == SH_EVENT_RETURN ||
	       event->kind == SH_EVENT_FAILED || event->kind == SH_EVENT_ENDED;
}

/*
 * The level of its line. A fault that concerns many peers is an event for each: the first of them
 * are told, and the rest at level info.
 */
static enum sh_log_level event_level(const struct sh_event *event)
{
	static struct sh_event last;
	static uint32_t n;

	if (!event_is_news(event))
		return SH_LOG_INFO;
	if (event->kind != last.kind || event->cause != last.cause ||
	    strcmp(event->from, last.from) || event->at_ns > last.at_ns + EVENT_SAME_NS)
		n = 0;
	last = *event;
	return n++ < EVENT_SAME ? SH_LOG_WARN : SH_LOG_INFO;
}

static void event_log(const struct sh_event *event)
{
	enum sh_log_level level = event_level(event);
	struct sh_json fields = { 0 };
	char text[768];

	if (!sh_log_enabled(level))
		return;
	sh_event_text(event, text, sizeof(text));
	if (sh_log_json()) {
		sh_json_print(&fields, "\"event\": ");
		sh_event_json(&fields, event);
	}
	sh_log_fields(level, fields.failed ? NULL : fields.text, "event %llu: %s",
		      (unsigned long long)event->number, text);
	sh_json_free(&fields);
}

/* Each returns at once, and keeps no pointer. */
static void (*const event_sinks[])(const struct sh_event *event) = {
	event_log,
	sh_metrics_event,
	sh_on_event_run,
};

/* ---- the ring ------------------------------------------------------------------------------- */

void sh_event_record(struct sh_event *event)
{
	size_t i;

	event->number = ++events.last;
	event->wall_ns = sh_date_now_ns();
	event->at_ns = sh_now_ns();
	events.kept[event->number % SH_EVENTS_KEPT] = *event;
	for (i = 0; i < sizeof(event_sinks) / sizeof(event_sinks[0]); i++)
		event_sinks[i](event);
}

const struct sh_event *sh_event_after(uint64_t number)
{
	uint64_t oldest = events.last > SH_EVENTS_KEPT ? events.last - SH_EVENTS_KEPT : 0;

	number = number > oldest ? number : oldest;
	return number < events.last ? &events.kept[(number + 1) % SH_EVENTS_KEPT] : NULL;
}

uint64_t sh_event_last(void)
{
	return events.last;
}

void sh_events_forget(void)
{
	memset(&events, 0, sizeof(events));
}

/* ---- told ----------------------------------------------------------------------------------- */

static void event_json_string(struct sh_json *json, const char *name, const char *value)
{
	sh_json_print(json, ", \"%s\": ", name);
	sh_json_string(json, value && *value ? value : NULL);
}

static void event_json_peer(struct sh_json *json, const struct sh_event *event)
{
	char gid[INET6_ADDRSTRLEN];

	if (event->peer)
		sh_json_print(json, ", \"peer\": \"%016llx\"", (unsigned long long)event->peer);
	else
		sh_json_print(json, ", \"peer\": null");
	if (!event->peer_known || !inet_ntop(AF_INET6, event->peer_gid, gid, sizeof(gid)))
		return;
	sh_json_print(json, ", \"peer_gid\": \"%s\", \"peer_from\": %u", gid, event->peer_from);
	if (*event->to)
		sh_json_print(json, ", \"peer_to\": %u", event->peer_to);
}

static void event_json_qp(struct sh_json *json, const struct sh_event *event)
{
	if (event->qpn)
		sh_json_print(json, ", \"qpn\": %u, \"peer_qpn\": %u", event->qpn, event->peer_qpn);
}

static bool event_has_times(const struct sh_event *event)
{
	return event->kind == SH_EVENT_SWITCH || event->kind == SH_EVENT_RETURN ||
	       event->kind == SH_EVENT_FAILED;
}

static void event_json_number(struct sh_json *json, const char *name, uint64_t value)
{
	sh_json_print(json, ", \"%s\": %llu", name, (unsigned long long)value);
}

bool sh_event_has_share(const struct sh_event *event)
{
	return event->kind == SH_EVENT_DEGRADED || event->kind == SH_EVENT_WHOLE;
}

static void event_json_share(struct sh_json *json, const struct sh_event *event)
{
	char date[SH_DATE_MAX];

	sh_date_print(event->since_ns, date);
	event_json_string(json, "since", date);
	sh_json_print(json, ", \"bandwidth_left\": %u.%03u", event->left / 1000,
		      event->left % 1000);
}

static void event_json_times(struct sh_json *json, const struct sh_event *event)
{
	event_json_number(json, "decided_ns", event->decided_ns);
	event_json_number(json, "detect_ns", event->detect_ns);
	event_json_number(json, "switch_ns", event->switch_ns);
	event_json_number(json, "resent", event->resent);
	event_json_number(json, "resent_bytes", event->resent_bytes);
	event_json_number(json, "settled", event->settled);
	event_json_number(json, "unknown", event->unknown);
}

void sh_event_json(struct sh_json *json, const struct sh_event *event)
{
	char date[SH_DATE_MAX];

	sh_date_print(event->wall_ns, date);
	sh_json_print(json, "{\"number\": %llu, \"time\": \"%s\"",
		      (unsigned long long)event->number, date);
	event_json_number(json, "monotonic_ns", event->at_ns);
	event_json_string(json, "kind", sh_event_kind_name(event->kind));
	event_json_string(json, "cause", sh_event_cause_name(event->cause));
	event_json_string(json, "why", event->why);
	event_json_string(json, "from", event->from);
	event_json_string(json, "to", event->to);
	event_json_peer(json, event);
	event_json_number(json, "qps", event->qps);
	event_json_qp(json, event);
	if (event_has_times(event))
		event_json_times(json, event);
	if (sh_event_has_share(event))
		event_json_share(json, event);
	sh_json_print(json, "}");
}

static double event_ms(uint64_t ns)
{
	return (double)ns / 1e6;
}

static void event_text_times(const struct sh_event *event, char *out, size_t size)
{
	if (event->kind == SH_EVENT_FAILED)
		snprintf(out, size,
			 ", could not be moved and got errors %.1f ms after the decision, %llu "
			 "requests of unknown fate",
			 event_ms(event->switch_ns), (unsigned long long)event->unknown);
	else
		snprintf(out, size,
			 ", detected in %.1f ms, switched in %.1f ms, %llu requests (%llu bytes) "
			 "sent again, %llu settled",
			 event_ms(event->detect_ns), event_ms(event->switch_ns),
			 (unsigned long long)event->resent, (unsigned long long)event->resent_bytes,
			 (unsigned long long)event->settled);
}

static void event_text_share(const struct sh_event *event, char *out, size_t size)
{
	char date[SH_DATE_MAX];

	sh_date_print(event->since_ns, date);
	if (event->kind == SH_EVENT_WHOLE)
		snprintf(out, size, ", it was degraded since %s", date);
	else if (!event->left)
		snprintf(out, size, ", nothing passes since %s", date);
	else
		snprintf(out, size, ", %u.%03u of the bandwidth left since %s", event->left / 1000,
			 event->left % 1000, date);
}

/* ", 2 connections to 10.0.0.2 (its NIC 0 -> 1), the first QP 0x000040 to QP 0x000041" */
static void event_text_ends(const struct sh_event *event, char *out, size_t size)
{
	char gid[SH_GID_TEXT], to[16] = "", peer[SH_GID_TEXT + 48] = "", qp[64] = "";

	if (!event->qps)
		return;
	if (event->peer_known) {
		sh_gid_text(event->peer_gid, gid);
		if (*event->to && event->peer_to != event->peer_from)
			snprintf(to, sizeof(to), " -> %u", event->peer_to);
		snprintf(peer, sizeof(peer), " to %s (its NIC %u%s)", gid, event->peer_from, to);
	}
	if (event->qpn)
		snprintf(qp, sizeof(qp), ", %sQP 0x%06x to QP 0x%06x",
			 event->qps > 1 ? "the first " : "", event->qpn, event->peer_qpn);
	snprintf(out, size, ", %u connection%s%s%s", event->qps, event->qps > 1 ? "s" : "", peer,
		 qp);
}

void sh_event_text(const struct sh_event *event, char *out, size_t size)
{
	char qps[256] = "", nics[2 * SH_EVENT_NIC + 16] = "", times[256] = "";

	event_text_ends(event, qps, sizeof(qps));
	if (*event->from && *event->to)
		snprintf(nics, sizeof(nics), " %s -> %s", event->from, event->to);
	else if (*event->from)
		snprintf(nics, sizeof(nics), " %s", event->from);
	if (event_has_times(event))
		event_text_times(event, times, sizeof(times));
	if (sh_event_has_share(event))
		event_text_share(event, times, sizeof(times));
	snprintf(out, size, "%s%s (%s)%s%s%s%s", sh_event_kind_name(event->kind), nics,
		 sh_event_cause_name(event->cause), qps, times, event->why ? ": " : "",
		 event->why ? event->why : "");
}

void sh_event_nic(const char *name, enum sh_event_kind kind, enum sh_event_cause cause,
		  uint32_t qps)
{
	struct sh_event event = { .kind = kind, .cause = cause, .qps = qps };

	snprintf(event.from, sizeof(event.from), "%s", name);
	sh_event_record(&event);
}

void sh_event_kv(bool lost)
{
	struct sh_event event = { .kind = lost ? SH_EVENT_KV_LOST : SH_EVENT_KV_BACK };

	sh_event_record(&event);
}

const struct sh_module sh_events_module = { .name = "events", .reset = sh_events_forget };
