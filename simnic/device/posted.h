/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Posted writes: payload that is in memory later than its completion. Lock held. */
#ifndef SIMNIC_DEVICE_POSTED_H
#define SIMNIC_DEVICE_POSTED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

struct sn_dev;
struct sn_pkt;
struct sn_posted;
struct sn_qp;
struct sn_span;

/* What a NIC wrote that is not in memory yet, oldest first. */
struct sn_posted_queue {
	struct sn_posted *first, *last;
};

int sn_posted_land(const struct sn_qp *qp, const struct sn_pkt *pkt, const struct iovec *dst,
		   uint32_t n_dst, struct sn_span *span);
void sn_posted_push(const struct sn_dev *dev); /* all that its NIC wrote is in memory then */
/* The same, if something of it goes where this is. */
void sn_posted_push_under(const struct sn_dev *dev, const struct iovec *iov, uint32_t n);
void sn_posted_push_completion(const struct sn_dev *dev); /* one is about to be written */
bool sn_posted_run(void);				  /* what is due */
uint64_t sn_posted_next_ns(void); /* when the next one is; UINT64_MAX: none */

#endif
