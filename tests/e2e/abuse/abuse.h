/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * abuse: a pair that uses the verbs in every order that is allowed and that few programs do. Each
 * scenario prints what it reached; its runner puts faults between.
 */
#ifndef ABUSE_H
#define ABUSE_H

#include "tests/lib/pair.h"

/* One connection, which the runner is told of; behind its "go". */
void abuse_begin(struct nic *nic, struct conn *c);

void run_churn(void);
void run_reset(void);
void run_late_rts(void);
void run_late_peer(void);
void run_late_second(void);
void run_more_memory(void);
void run_on_demand(void);
void run_dmabuf(void);
void run_teardown(void);
void run_limits(void);
void run_resize(void);
void run_overrun(void);
void run_regions(void);
void run_stopped_peer(void);
void run_storm(void);
void run_implicit(void);
void run_huge(void);
void run_squeeze(void);
void run_destroy(void);
void run_late_mr(void);
void run_bad_key(void);
void run_exit(void);
void run_fork(void);
void run_cycles(void);
void run_kill(void);
void run_abandon(void);
void run_hung_nic(void);
void run_many(void);
void run_query(void);
void run_bare(void);
void run_domains(void);
void run_ece(void);
void run_ended(void);
void run_ending(void);
void run_events(void);
void run_windows(void);
void run_tight(void);
void run_held(void);
void run_tuned(void);
void run_forks(void);
void run_bound(void);
void run_solicited(void);
void run_armed(void);
void run_armed_foreign(void);
void run_states(void);
void run_changed(void);
void run_limit(void);
void run_last(void);
void run_asked(void);
void run_cancelled(void);

#endif
