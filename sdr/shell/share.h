/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* How fast a connection sends: at the rate that its program sets, or at one that is found. */
#ifndef SDR_SHELL_SHARE_H
#define SDR_SHELL_SHARE_H

#include "sdr/rel/rate.h"

struct sdr_qp;

struct sdr_share {
	uint64_t pace_at;     /* time from which packets may leave */
	struct sdr_rate rate; /* with SDR_RATE_AUTO */
	bool asks;	      /* packets left since the last question */
	uint64_t ask_at;
	uint32_t delay_us; /* the last answer's */
};

/* Returns bits per second; 0: no limit. */
uint64_t sdr_rate_of(const struct sdr_qp *qp);
void sdr_share_begin(struct sdr_qp *qp);
void sdr_share_sent(struct sdr_qp *qp, uint32_t packets);
/* Returns how many packets may leave at once, of at most max. */
uint32_t sdr_share_burst(const struct sdr_qp *qp, uint32_t max);
void sdr_share_lost(struct sdr_qp *qp, uint32_t chunks);
/* A code has restored so many of a Write's chunks. */
void sdr_share_restored(struct sdr_qp *qp, uint32_t chunks, uint32_t of);
/* delay_us: from here to the other end, with what its clock is off by. */
void sdr_share_heard(struct sdr_qp *qp, uint64_t rtt_ns, uint32_t delay_us);
/* Notes an answer that tells no time, as the other end may have read the question late. */
void sdr_share_alive(struct sdr_qp *qp);
/* Returns how long a program may not have polled when it reads a question. */
uint64_t sdr_share_late_ns(const struct sdr_qp *qp);
void sdr_share_tick(struct sdr_qp *qp);

#endif
