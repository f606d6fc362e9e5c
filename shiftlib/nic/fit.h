/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the application has on its default NIC, on a NIC that can do less: another vendor's, or another
 * model. What may be cut without the application's noticing is cut; else there is a reason.
 */
#ifndef SHIFTLIB_NIC_FIT_H
#define SHIFTLIB_NIC_FIT_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

/* What a device says, or has shown, that it can do. 0: not known. */
struct sh_limits {
	int qp_wr, sge;
	int cqe; /* of a completion queue */
	int reads_out,
		reads_in; /* of a queue pair: READs and atomics under way, and of its peer's */
	struct {	  /* replica/prove.c: does it tell expected PSNs? */
		bool asked, known;
		const char *why; /* known: NULL, or why not */
	} exact;
	bool atomics_global; /* they are atomic to other NICs and the CPU */
};

static inline bool sh_fit_over(uint32_t wanted, int limit)
{
	return limit > 0 && wanted > (uint32_t)limit;
}

static inline bool sh_fit_caps(const struct ibv_qp_cap *cap, const struct sh_limits *max)
{
	return !sh_fit_over(cap->max_send_wr, max->qp_wr) &&
	       !sh_fit_over(cap->max_recv_wr, max->qp_wr) &&
	       !sh_fit_over(cap->max_send_sge, max->sge) &&
	       !sh_fit_over(cap->max_recv_sge, max->sge);
}

/* A queue that is smaller overruns only if the application lets that many completions lie, and then what is
 * on it moves away. */
static inline int sh_fit_cqe(int cqe, const struct sh_limits *max)
{
	return max->cqe > 0 && cqe > max->cqe ? max->cqe : cqe;
}

static inline uint8_t sh_fit_reads(uint8_t reads, int limit)
{
	return sh_fit_over(reads, limit) ? (uint8_t)limit : reads;
}

/* As the peer hears it: how many the standby takes at once, and one more. 0: it is not told. */
static inline uint8_t sh_fit_told(uint8_t reads)
{
	return reads < UINT8_MAX ? (uint8_t)(reads + 1) : UINT8_MAX;
}

/*
 * How many may be under way: those of the application, what its NIC can, what the peer's takes. Where the
 * peer's application takes none the application posts none, or has its own error, as on the default NIC.
 */
static inline uint8_t sh_fit_reads_out(uint8_t reads, const struct sh_limits *max, uint8_t told)
{
	uint8_t can = sh_fit_reads(reads, max->reads_out);

	return told > 1 && can >= told ? (uint8_t)(told - 1) : can;
}

#endif
