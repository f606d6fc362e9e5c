/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The fate of the n-th packet of a line. Its number and the line's seed alone decide, so that a
 * run can be repeated.
 */
#ifndef SIMNIC_FABRIC_LOSS_H
#define SIMNIC_FABRIC_LOSS_H

#include <stdbool.h>
#include <stdint.h>

struct sn_loss {
	uint64_t seed;
	double loss;	/* part of the packets, on the long run */
	uint32_t burst; /* packets that are lost together; 0, 1: each alone */
	double reorder, duplicate;
};

struct sn_fate {
	bool lost, late, twice;
};

struct sn_fate sn_fate_of(const struct sn_loss *loss, uint64_t n);

#endif
