/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Memory regions. Lock held. */
#ifndef SIMNIC_DEVICE_MR_H
#define SIMNIC_DEVICE_MR_H

#include <stdbool.h>
#include <stdint.h>

struct sn_dev;

#define SN_MR_BUCKETS 1024

struct sn_mr {
	struct sn_mr *next;
	uint32_t key, pdn, access;
	uint64_t addr, length, iova;
	bool own_command; /* the kernel's driver does not know it */
};

/* The address in this process, or 0: IBA 10.6.3 forbids it. */
uint64_t sn_mr_translate(struct sn_dev *dev, uint32_t key, uint32_t pdn, uint64_t va, uint64_t len,
			 uint32_t access);
void sn_mr_free_all(struct sn_dev *dev);

#endif
