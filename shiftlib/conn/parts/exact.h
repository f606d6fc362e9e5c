/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Expected PSNs: asked of the NIC for the core, and whether to believe the peer's. Lock held. */
#ifndef SHIFTLIB_CONN_PARTS_EXACT_H
#define SHIFTLIB_CONN_PARTS_EXACT_H

#include <stdint.h>

struct sc_action;
struct sc_counts;
struct sh_qp;

/* Its sends are withheld: are there some whose fate the peer's count does not tell? */
void sh_exact_withheld(struct sh_qp *qp, uint32_t epoch);
/* SC_ACT_ASK_PSN: of the carrier of that epoch. */
void sh_exact_ask(struct sh_qp *qp, uint32_t epoch);
/* What the peer told of the carrier that the sends lie in, if it is believed. */
void sh_exact_counts(const struct sh_qp *qp, const struct sc_action *settle,
		     struct sc_counts *counts);
/* It contradicted the count of receives. */
void sh_exact_doubt(struct sh_qp *qp);
/* The NICs that such a connection may use show what they tell, each once. */
void sh_exact_prove(struct sh_qp *qp);

#endif
