/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Posted writes: payload that is in memory later than its completion. Lock held. */
#ifndef SIMNIC_DEVICE_POSTED_H
#define SIMNIC_DEVICE_POSTED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

struct mlx5_cqe64;
struct sn_dev;
struct sn_pkt;
struct sn_posted;
struct sn_qp;
struct sn_span;

/* A NIC's writes that are not in memory yet, oldest first. */
struct sn_posted_queue {
	struct sn_posted *first, *last;
};

int sn_posted_land(const struct sn_qp *qp, const struct sn_pkt *pkt, const struct iovec *dst,
		   uint32_t n_dst, struct sn_span *span);
void sn_posted_push(const struct sn_dev *dev); /* writes all that its NIC has posted to memory */
/* Writes all, if a posted write of the NIC goes to these bytes. */
void sn_posted_push_under(const struct sn_dev *dev, const struct iovec *iov, uint32_t n);
/* called before a completion is written */
void sn_posted_push_completion(const struct sn_dev *dev, const struct mlx5_cqe64 *cqe);
/* Writes all that was posted before a command to ERR or RESET ends. */
void sn_posted_push_command(const struct sn_dev *dev);
bool sn_posted_run(void);	  /* lands writes that are due */
uint64_t sn_posted_next_ns(void); /* time of the next one; UINT64_MAX: none */

#endif
