/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* shift-exporter: counters of all programs with SHIFT on a host, for Prometheus. One thread. */
#ifndef TOOLS_EXPORTER_EXPORTER_H
#define TOOLS_EXPORTER_EXPORTER_H

#include <poll.h>
#include <stdio.h>

#include "tools/ctl_client.h"

/* ---- series.c: families of series, and their text (Prometheus' text format 0.0.4) ------------ */

#define FAMILIES(X)                                                                                \
	X(INFO, GAUGE, "shift_exporter_info", "Version of the exporter, as a label.")              \
	X(START, GAUGE, "shift_exporter_start_time_seconds",                                       \
	  "When the exporter was started, and its counters began, since 1970.")                    \
	X(GATHER, GAUGE, "shift_exporter_gather_seconds",                                          \
	  "How long the processes took to answer, all of them together.")                          \
	X(REFUSED_DIRS, GAUGE, "shift_exporter_refused_directories",                               \
	  "Run directories that are not looked into, as others could write there.")                \
	X(DROPPED, COUNTER, "shift_exporter_dropped_series_total",                                 \
	  "Series that were not taken as there were too many, or as they were malformed.")         \
	X(PROCESSES, GAUGE, "shift_processes", "Processes that run with SHIFT.")                   \
	X(ENDED, COUNTER, "shift_processes_ended_total",                                           \
	  "Processes that have ended; without a farewell their last counts are those of the "      \
	  "last scrape before.")                                                                   \
	X(UNREACHED, GAUGE, "shift_unreached_processes",                                           \
	  "Processes that have the NIC open past SHIFT, as far as this user may look.")            \
	X(PROCESS, GAUGE, "shift_process_info", "What runs, as labels.")                           \
	X(PROCESS_QPS, GAUGE, "shift_process_qps",                                                 \
	  "Connected RC queue pairs of a process, by level of protection.")                        \
	X(QPS, GAUGE, "shift_qps",                                                                 \
	  "Connected RC queue pairs of a default NIC, by level of protection.")                    \
	X(UNPROTECTED, GAUGE, "shift_unprotected_qps",                                             \
	  "Connected RC queue pairs that are not protected, by reason.")                           \
	X(NIC, GAUGE, "shift_nic_processes", "Processes that see the NIC in this state.")          \
	X(GRAY, GAUGE, "shift_nic_gray",                                                           \
	  "Processes by what counters, links and paths of a NIC that is open say of it.")          \
	X(PAIR, GAUGE, "shift_pair_connections",                                                   \
	  "Connections of a default NIC and a backup, by state.")                                  \
	X(AWAY, COUNTER, "shift_backup_connection_seconds_total",                                  \
	  "Time that connections have spent on the backup, added up over them.")                   \
	X(DEGRADED, COUNTER, "shift_degraded_seconds_total",                                       \
	  "Time that processes had connections on NICs that are not their own, added up.")         \
	X(LEFT, GAUGE, "shift_process_bandwidth_left",                                             \
	  "What a process has left of its bandwidth: 1, or less while it is degraded.")            \
	X(STALLED, GAUGE, "shift_stalled_connections",                                             \
	  "Connections that have not gone on for a second, by what they wait for.")                \
	X(SWITCHES, COUNTER, "shift_switches_total",                                               \
	  "Switches from one NIC to another; connections that moved together are one.")            \
	X(SWITCHED, COUNTER, "shift_switched_connections_total", "Connections that moved.")        \
	X(DETECTION, HISTOGRAM, "shift_detection_seconds",                                         \
	  "From the first sign of a fault to the decision to switch.")                             \
	X(SWITCH, HISTOGRAM, "shift_switch_seconds",                                               \
	  "From the decision until the traffic of all connections of the switch flows again.")     \
	X(RESENT, COUNTER, "shift_resent_requests_total", "Requests sent again in switches.")      \
	X(RESENT_BYTES, COUNTER, "shift_resent_bytes_total", "Their data.")                        \
	X(SETTLED, COUNTER, "shift_settled_requests_total",                                        \
	  "Requests that a switch found to be executed, and completed.")                           \
	X(FAILED, COUNTER, "shift_failed_connections_total",                                       \
	  "Connections that could not be moved: their programs got errors.")                       \
	X(WORDS, COUNTER, "shift_atomics_by_word_total",                                           \
	  "Compare-and-swaps whose words told whether they had swapped, or had to run again.")     \
	X(KV_PROCESSES, GAUGE, "shift_kv_processes",                                               \
	  "Processes by what the key-value store is to them.")                                     \
	X(KV_OPERATIONS, COUNTER, "shift_kv_operations_total",                                     \
	  "Operations on the key-value store.")                                                    \
	X(KV_FAILURES, COUNTER, "shift_kv_failures_total",                                         \
	  "Operations on the key-value store that had no answer.")                                 \
	X(KV_LATENCY, GAUGE, "shift_kv_last_roundtrip_seconds",                                    \
	  "Of the last round trip to the key-value store of each process the longest.")            \
	X(REFUSED, COUNTER, "shift_refused_datagrams_total",                                       \
	  "Datagrams of the control plane that were refused, by reason.")

enum family {
#define X(id, type, name, help) FAMILY_##id,
	FAMILIES(X)
#undef X
		FAMILY_COUNT
};

/*
 * Number of series of all counters. A process has no more than SERIES_OF_ONE_MAX: one with 16
 * NICs, each of which may stand in for others, has 11,084, 52 for each pair.
 */
#define SERIES_MAX	  100000u
#define SERIES_OF_ONE_MAX 32768u
#define LABEL_MAX	  128u /* bytes of a value; longer ones are cut */

/* Series with their values: for each family an object, in the order in which they came. */
struct series {
	json_t *of[FAMILY_COUNT];
	unsigned n, most;
	double *dropped; /* counter of series that were left out */
};

/*
 * Adds a series. Names and values of labels follow in turn, NULL at the end. suffix: "", or the
 * text behind the family's name.
 */
void series_add(struct series *series, enum family family, const char *suffix, double value, ...);
void series_max(struct series *series, enum family family, double value);
/*
 * Adds to @to the rise of each series from before to now; a new series begins with 0 in @to.
 * counted: if false, nothing counts as risen yet.
 */
void series_rise(struct series *to, const struct series *before, const struct series *now,
		 bool counted);
void series_free(struct series *series);
/* Prints counters and gauges together: a family is in one of them. */
void series_print(FILE *out, const struct series *counters, const struct series *gauges);

/* ---- answer.c: what a process says, as series ------------------------------------------------ */

/* Reads counters and gauges of an answer to `metrics`. -EPROTO: it is none. */
int answer_read(const json_t *answer, struct series *counters, struct series *gauges);

/* ---- processes.c: who runs, who ran --------------------------------------------------------- */

struct processes;

struct processes *processes_new(void); /* NULL: no memory */
void processes_free(struct processes *processes);
/* Looks for new processes. Those found the first time began before our counters did. */
void processes_scan(struct processes *processes);
/* Asks all processes, no longer than timeout_ms, and prints the series. 0 or -ENOMEM. */
int processes_gather(struct processes *processes, int timeout_ms, FILE *out);
/*
 * processes_poll() fills in the connections on which farewells come, at most room, and returns
 * their number. processes_polled() takes the result of poll().
 */
unsigned processes_poll(struct processes *processes, struct pollfd *fds, unsigned room);
void processes_polled(struct processes *processes, const struct pollfd *fds, unsigned n);

/* ---- http.c --------------------------------------------------------------------------------- */

struct http;

/* page: what /metrics answers, to be released by free(); NULL: 503. -errno with a sentence. */
int http_start(const char *listen, char *(*page)(void *arg, size_t *length), void *arg,
	       struct http **out, char err[CTL_ERR_MAX]);
int http_fd(const struct http *http);
int http_timeout_ms(struct http *http, int longest);
void http_run(struct http *http);
void http_stop(struct http *http);

#endif
