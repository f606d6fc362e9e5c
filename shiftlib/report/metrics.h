/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Counters of this process since its start, for shift-exporter(8): fed by events, moves and the
 * KV's thread, never by the data path. Guarded by sh_lock(), in static memory but for the ways, of
 * which there are no more than pairs of NICs.
 */
#ifndef SHIFTLIB_METRICS_H
#define SHIFTLIB_METRICS_H

#include <stdint.h>
#include "shiftlib/report/event.h"
#include "shiftlib/base/list.h"
#include "shiftlib/loop/loop.h"

#define SH_METRICS_BUCKETS 15

/* Upper bounds in seconds; what took longer than the last is in the bucket behind it. */
extern const double sh_metrics_bounds[SH_METRICS_BUCKETS];

struct sh_histogram {
	uint64_t n[SH_METRICS_BUCKETS + 1]; /* each bucket alone */
	uint64_t sum_ns;
};

/* A way from one NIC of this host to another. */
struct sh_way {
	struct list_node link;
	char from[SH_EVENT_NIC], to[SH_EVENT_NIC];
	uint64_t switches[SH_CAUSES]; /* events: one for all connections that moved together */
	uint64_t connections, resent, resent_bytes, settled;
	struct sh_histogram detect, move; /* detect: of faults only */
};

/* Connections that could not be moved off a NIC. */
struct sh_failed {
	struct list_node link;
	char nic[SH_EVENT_NIC];
	uint64_t connections[SH_CAUSES];
};

struct sh_kv_health {
	uint64_t operations, failures;
	uint64_t last_ns; /* time of the last round trip; 0: none yet */
};

/* Compare-and-swaps whose words told what had become of them (SHIFT_ATOMICS=owner). */
struct sh_words_told {
	uint64_t swapped, again; /* again: they had not, and ran again */
};

struct sh_metrics {
	struct list_node ways, failed; /* in the order of their first event */
	struct sh_kv_health kv;
	struct sh_words_told words;
};

const struct sh_metrics *sh_metrics(void);

/*
 * Makes a counter, with zeros, if it is new: what is counted from nothing on can be seen to rise.
 * NULL: no memory.
 */
struct sh_way *sh_metrics_way(const char *from, const char *to);
struct sh_failed *sh_metrics_failed(const char *nic);

void sh_metrics_event(const struct sh_event *event); /* a sink of event_sinks[] */
/* A round trip to the KV: how many operations, how many of them without an answer. */
void sh_metrics_kv(uint32_t operations, uint32_t failures, uint64_t took_ns);
void sh_metrics_words(uint32_t swapped, uint32_t again); /* the counts of one move */
void sh_metrics_forget(void); /* called in the child of a fork, whose counters begin at 0 */

/* Connections that run on a backup, and the time that they have spent there, added up. */
struct sh_away {
	uint32_t n;
	uint64_t since, total_ns;
};
void sh_away_change(struct sh_away *away, int by, uint64_t now);
uint64_t sh_away_ns(const struct sh_away *away, uint64_t now);

extern const struct sh_module sh_metrics_module;

#endif
