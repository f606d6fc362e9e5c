/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The exact count: the engine's numbers of packets, and what must hold of expected PSNs.
 *
 * X1: nothing that ran is laid again, but one cut request per carrier; nothing that never ran is delivered.
 * X2: an expected PSN is used for the carrier that it was told of, and only when that executes no more.
 * X3: an atomic completes with the value of its one execution, or both ends get errors.
 * X4: what somebody else has written, having seen one of our WRITEs, is not overwritten by it.
 *
 * Where no number was told, or not a true one, X1 and X4 hold for what the count tells alone.
 */
#ifndef TESTS_SIM_SIM_EXACT_H
#define TESTS_SIM_SIM_EXACT_H

#include "shiftlib/core/core.h"
#include "sim_app.h"
#include "sim_nic.h"

struct sim_world;

/* What sc_settle() was asked, and said. */
struct sim_settled {
	const struct sc_counts *counts;
	const struct sp_request *requests;
	uint32_t n;
	const enum sp_fate *fates;
	const struct sc_verdict *verdict;
	enum sc_reason reason;
};

/* Where it was laid last; NULL: it was not. */
const struct sim_entry *sim_exact_entry(const struct sim_qp *qp, uint32_t request);
void sim_exact_init(struct sim_world *w);
void sim_exact_posted(const struct sim_world *w, struct sim_qp *qp, const struct sim_request *r);
void sim_exact_logged(struct sim_qp *qp);
void sim_exact_number(const struct sim_world *w, const struct sim_qp *qp, uint32_t first,
		      struct sp_request *requests, uint32_t n);
void sim_exact_counts(struct sim_world *w, uint32_t end, const struct sc_action *a,
		      struct sc_counts *counts);
void sim_exact_settled(struct sim_world *w, uint32_t end, const struct sim_settled *s);
void sim_exact_written(struct sim_world *w, uint32_t end, uint32_t cell, uint32_t request);
void sim_exact_third(struct sim_world *w, uint32_t end, uint32_t cell);

#endif
