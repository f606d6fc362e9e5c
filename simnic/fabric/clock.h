/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A NIC's free-running clock: each has its own, which runs at about the nominal frequency. */
#ifndef SIMNIC_FABRIC_CLOCK_H
#define SIMNIC_FABRIC_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>

#define SN_CLOCK_KHZ	   156250 /* nominal, as programs are told */
#define SN_CLOCK_NS_NUM	   32	  /* 32 ns are 5 cycles of it */
#define SN_CLOCK_CYCLE_NUM 5
#define SN_CLOCK_MAX_PPB   1000000

struct sn_clock {
	_Atomic uint64_t offset; /* cycles at time 0 of the host's monotonic clock */
	_Atomic int32_t ppb;	 /* parts per billion faster than nominal */
};

/* NICs of a fabric differ in both. */
void sn_clock_begin(struct sn_clock *clock, uint32_t host, uint32_t index);
uint64_t sn_clock_cycles(const struct sn_clock *clock, uint64_t now_ns);

#endif
