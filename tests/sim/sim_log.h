/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The log: in some schedules a word that the peer's NIC writes behind each n-th request that changes memory. It lies
 * there behind what it counts, may be lost with its NIC, and may be one of an earlier carrier, as all of a
 * connection write to the same place; numbers are those of a carrier's ring.
 *
 * L1: what the word counts ran, and of what else ran there are no more than n that change memory.
 */
#ifndef TESTS_SIM_SIM_LOG_H
#define TESTS_SIM_SIM_LOG_H

#include "sim_exact.h"

void sim_log_init(struct sim_world *w);
/* The sender lays that request: does it lay a log WQE behind it? */
bool sim_log_due(const struct sim_world *w, struct sim_qp *qp, const struct sim_request *r);
/* The receiver takes a packet of that entry: before it, and behind the last one. */
void sim_log_before(struct sim_world *w, struct sim_qp *qp, const struct sim_entry *entry,
		    uint32_t index);
void sim_log_behind(struct sim_world *w, struct sim_qp *qp, const struct sim_entry *entry,
		    uint32_t index);
void sim_log_unwrite(struct sim_world *w, const struct sim_posted *posted);
/* What settling asks, and is told if messages pass. */
void sim_log_counts(struct sim_world *w, uint32_t end, struct sc_counts *counts);
void sim_log_settled(struct sim_world *w, uint32_t end, const struct sim_settled *s);

#endif
