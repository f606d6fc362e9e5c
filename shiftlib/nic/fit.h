/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The fit of the application's objects on a NIC that can do less than its default NIC: another
 * vendor's, or another model. What may be cut without the application's noticing is cut; else there
 * is a reason.
 */
#ifndef SHIFTLIB_NIC_FIT_H
#define SHIFTLIB_NIC_FIT_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

/* Limits that a device tells, or has shown. 0: not known. */
struct sh_limits {
	int qp_wr, sge;
	int cqe; /* entries of a completion queue */
	int reads_out,
		reads_in; /* per queue pair: READs and atomics under way, and of its peer's */
	struct {	  /* expected PSNs, by replica/prove.c */
		bool asked, known;
		const char *why; /* known: NULL, or the reason why not */
	} exact;
	bool atomics_global; /* atomics are atomic to other NICs and the CPU */
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

/*
 * Returns the size of a completion queue. A smaller one overruns only if the application lets that
 * many completions lie; then what is on it moves away.
 */
static inline int sh_fit_cqe(int cqe, const struct sh_limits *max)
{
	return max->cqe > 0 && cqe > max->cqe ? max->cqe : cqe;
}

static inline uint8_t sh_fit_reads(uint8_t reads, int limit)
{
	return sh_fit_over(reads, limit) ? (uint8_t)limit : reads;
}

/* Returns the number for the peer: what the standby takes at once, plus one. 0: not told. */
static inline uint8_t sh_fit_told(uint8_t reads)
{
	return reads < UINT8_MAX ? (uint8_t)(reads + 1) : UINT8_MAX;
}

/*
 * Returns how many may be under way: the least of the application's own, its NIC's limit and the
 * peer's. If the peer's application takes none, the application posts none, or has its own error,
 * as on the default NIC.
 */
static inline uint8_t sh_fit_reads_out(uint8_t reads, const struct sh_limits *max, uint8_t told)
{
	uint8_t can = sh_fit_reads(reads, max->reads_out);

	return told > 1 && can >= told ? (uint8_t)(told - 1) : can;
}

#endif
