/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* UAR pages and their doorbell registers. Lock held. */
#ifndef SIMNIC_DEVICE_UAR_H
#define SIMNIC_DEVICE_UAR_H

#include "simnic/device/device.h"

struct sn_dev;
struct sn_qp;

#define SN_BFREG_SIZE	512 /* two halves of 256 bytes */
#define SN_BFREG_OFFSET 0x800
#define SN_HALF_BYTES	(SN_BFREG_SIZE / 2)

/* Half of a doorbell register, and a BlueFlame copy there that looked wrong. */
struct sn_uar_half {
	uint64_t taken_ns;   /* time of the last doorbell */
	uint64_t suspect_ns; /* time since which it looks wrong; 0: it does not */
	uint32_t suspect_qpn;
	uint16_t suspect_idx;
	/* ring bytes that should be in the copy; zero: not compared */
	uint64_t ring[SN_HALF_BYTES / 8];
};

struct sn_uar {
	struct sn_uar *next;
	struct sn_dev *dev;
	uint32_t index;
	uint8_t *page;
	uint32_t users[SN_BFREGS_PER_UAR]; /* QPs of each register */
	struct sn_qp *sharers[SN_BFREGS_PER_UAR];
	struct sn_uar_half half[SN_BFREGS_PER_UAR][2];
};

void sn_uar_scan(struct sn_dev *dev, bool *worked);
/* Scans the QP's own register, if that is known. */
void sn_uar_scan_of(const struct sn_qp *qp);
void sn_uar_enter(struct sn_qp *qp);
void sn_uar_leave(struct sn_qp *qp);
void sn_uar_free_all(struct sn_dev *dev);

#endif
