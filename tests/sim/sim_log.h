/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The log: in some schedules a hidden WQE behind each n-th request that changes memory, with a packet of its own, which
 * writes a word at the peer: how many requests lie before it in its carrier's ring. The packet may be lost, and comes again; the
 * word may be lost with its NIC, or be one of an earlier carrier, as all of a connection write to one place here, which
 * is as hard as can be. At some ends memory has no order: the word is there before the data that it counts. Nobody logs
 * there.
 *
 * Who settles asks the peer what the word says, as often as messages are lost, and the peer reads it behind its quiesce.
 *
 * L1: what the word counts ran and is in memory, and of what else ran there are no more than n that change memory.
 */
#ifndef TESTS_SIM_SIM_LOG_H
#define TESTS_SIM_SIM_LOG_H

#include "sim_exact.h"

struct sim_log_message;

void sim_log_init(struct sim_world *w);
/* In how many schedules no end asks for PSNs. */
uint32_t sim_log_without_psn_percent(void);
/* That request was laid last: a log WQE behind it is due. */
bool sim_log_due(const struct sim_world *w, struct sim_qp *qp, const struct sim_request *r);
/* The receiver takes its packet, of a carrier of the peer's. */
void sim_log_execute(struct sim_world *w, const struct sim_qp *qp, const struct sim_qp *from,
		     const struct sim_entry *entry);
void sim_log_unwrite(struct sim_world *w, const struct sim_posted *posted);
/* Another move begins. */
void sim_log_withheld(struct sim_world *w, uint32_t end);
void sim_log_heard(struct sim_world *w, uint32_t end, const struct sim_log_message *m);
/* Before settling: true: what the word says is in counts, or nobody can tell; false: it was asked for. */
bool sim_log_settle(struct sim_world *w, uint32_t end, const struct sp_request *requests,
		    uint32_t n, struct sc_counts *counts);
void sim_log_settled(struct sim_world *w, uint32_t end, const struct sim_settled *s);

#endif
