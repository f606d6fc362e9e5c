/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <stdlib.h>
#include <string.h>
#include "shiftlib/report/metrics.h"
#include "shiftlib/base/util.h"

const double sh_metrics_bounds[SH_METRICS_BUCKETS] = { 0.00025, 0.0005, 0.001, 0.0025, 0.005,
						       0.01,	0.025,	0.05,  0.1,    0.25,
						       0.5,	1,	2.5,   5,      10 };

static struct sh_metrics metrics = { .ways = { &metrics.ways, &metrics.ways },
				     .failed = { &metrics.failed, &metrics.failed } };

const struct sh_metrics *sh_metrics(void)
{
	return &metrics;
}

static void histogram_add(struct sh_histogram *histogram, uint64_t ns)
{
	int i = 0;

	while (i < SH_METRICS_BUCKETS && (double)ns > sh_metrics_bounds[i] * 1e9)
		i++;
	histogram->n[i]++;
	histogram->sum_ns += ns;
}

/* ---- by NIC --------------------------------------------------------------------------------- */

struct sh_way *sh_metrics_way(const char *from, const char *to)
{
	struct sh_way *way;

	list_for_each (&metrics.ways, way, struct sh_way, link)
		if (!strcmp(way->from, from) && !strcmp(way->to, to))
			return way;
	way = calloc(1, sizeof(*way));
	if (!way)
		return NULL;
	strncpy(way->from, from, sizeof(way->from) - 1);
	strncpy(way->to, to, sizeof(way->to) - 1);
	list_add_tail(&metrics.ways, &way->link);
	return way;
}

struct sh_failed *sh_metrics_failed(const char *nic)
{
	struct sh_failed *failed;

	list_for_each (&metrics.failed, failed, struct sh_failed, link)
		if (!strcmp(failed->nic, nic))
			return failed;
	failed = calloc(1, sizeof(*failed));
	if (!failed)
		return NULL;
	strncpy(failed->nic, nic, sizeof(failed->nic) - 1);
	list_add_tail(&metrics.failed, &failed->link);
	return failed;
}

/* ---- what happens --------------------------------------------------------------------------- */

/*
 * False where nothing was detected: in an ordered move, or where the other end has seen the fault
 * first.
 */
static bool event_has_detection(const struct sh_event *event)
{
	return event->kind == SH_EVENT_SWITCH && event->cause != SH_CAUSE_DRAIN &&
	       event->cause != SH_CAUSE_BETTER_NIC &&
	       (event->cause != SH_CAUSE_PEER || event->detect_ns);
}

static void metrics_moved(const struct sh_event *event)
{
	struct sh_way *way = sh_metrics_way(event->from, event->to);

	if (!way)
		return;
	way->switches[event->cause]++;
	way->connections += event->qps;
	way->resent += event->resent;
	way->resent_bytes += event->resent_bytes;
	way->settled += event->settled;
	histogram_add(&way->move, event->switch_ns);
	if (event_has_detection(event))
		histogram_add(&way->detect, event->detect_ns);
}

void sh_metrics_event(const struct sh_event *event)
{
	struct sh_failed *failed;

	if (event->kind == SH_EVENT_SWITCH || event->kind == SH_EVENT_RETURN)
		metrics_moved(event);
	failed = event->kind == SH_EVENT_FAILED ? sh_metrics_failed(event->from) : NULL;
	if (failed)
		failed->connections[event->cause] += event->qps;
}

void sh_metrics_kv(uint32_t operations, uint32_t failures, uint64_t took_ns)
{
	metrics.kv.operations += operations;
	metrics.kv.failures += failures;
	metrics.kv.last_ns = took_ns ? took_ns : metrics.kv.last_ns;
}

void sh_metrics_words(uint32_t swapped, uint32_t again)
{
	metrics.words.swapped += swapped;
	metrics.words.again += again;
}

void sh_metrics_forget(void)
{
	memset(&metrics.kv, 0, sizeof(metrics.kv));
	memset(&metrics.words, 0, sizeof(metrics.words));
	list_init(&metrics.ways); /* the parent's stay where they are, as all that it has made */
	list_init(&metrics.failed);
}

/* ---- time away ------------------------------------------------------------------------------ */

uint64_t sh_away_ns(const struct sh_away *away, uint64_t now)
{
	return away->total_ns + (now - away->since) * away->n;
}

void sh_away_change(struct sh_away *away, int by, uint64_t now)
{
	away->total_ns = sh_away_ns(away, now);
	away->since = now;
	away->n += (uint32_t)by;
}

const struct sh_module sh_metrics_module = { .name = "metrics", .reset = sh_metrics_forget };
