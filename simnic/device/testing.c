/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Entry points for tests; see simnic/device/testing.h. */
#include <errno.h>
#include <string.h>

#include "simnic/device/cq.h"
#include "simnic/device/dev.h"
#include "simnic/device/device.h"
#include "simnic/device/engine.h"
#include "simnic/device/mr.h"
#include "simnic/device/qp.h"
#include "simnic/device/testing.h"
#include "simnic/device/uar.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT void simnic_test_freeze(bool frozen)
{
	sn_lock();
	sn_engine.frozen = frozen;
	sn_unlock();
	sn_engine_kick();
}

EXPORT void *simnic_test_uar(unsigned int i, uint32_t *uar_index)
{
	const struct sn_uar *uar = NULL;
	const struct sn_dev *dev;
	void *page = NULL;

	sn_lock();
	for (dev = sn_engine.devs; dev && !page; dev = dev->next)
		for (uar = dev->uars; uar && !page; uar = uar->next)
			if (!i--) {
				page = uar->page;
				*uar_index = uar->index;
			}
	sn_unlock();
	return page;
}

EXPORT int simnic_test_inject_cqe(uint32_t cqn, const void *cqe, const void *data)
{
	struct sn_cq *cq;
	int rc;

	sn_lock();
	cq = sn_cq_find(cqn);
	rc = cq ? sn_cq_put_raw(cq, cqe, data) : -ENOENT;
	sn_unlock();
	return rc;
}

static unsigned int dev_reachable(const struct sn_dev *dev, uint64_t addr, uint64_t length)
{
	const struct sn_mr *mr;
	unsigned int n = 0;

	for (unsigned int i = 0; i < SN_MR_BUCKETS; i++)
		for (mr = dev->mr[i]; mr; mr = mr->next)
			n += mr->addr < addr + length && addr < mr->addr + mr->length;
	return n;
}

EXPORT unsigned int simnic_test_reachable_by(const char *ibdev, const void *addr, uint64_t length)
{
	const struct sn_dev *dev;
	unsigned int n = 0;

	sn_lock();
	for (dev = sn_engine.devs; dev; dev = dev->next)
		if (!ibdev || !strcmp(dev->nic->ibdev, ibdev))
			n += dev_reachable(dev, (uintptr_t)addr, length);
	sn_unlock();
	return n;
}

EXPORT unsigned int simnic_test_cq_vectors(const char *ibdev)
{
	const struct sn_dev *dev;
	const struct sn_cq *cq;
	unsigned int vectors = 0;

	sn_lock();
	for (dev = sn_engine.devs; dev; dev = dev->next)
		if (!strcmp(dev->nic->ibdev, ibdev))
			LIST_FOREACH (cq, &dev->cqs, link)
				vectors |= 1u << cq->attr.vector;
	sn_unlock();
	return vectors;
}

EXPORT unsigned int simnic_test_reachable(const void *addr, uint64_t length)
{
	return simnic_test_reachable_by(NULL, addr, length);
}

EXPORT uint64_t simnic_test_protocol_errors(void)
{
	return atomic_load(&sn_engine.protocol_errors);
}

EXPORT int simnic_test_qp_register(const char *ibdev, uint32_t qpn)
{
	const struct sn_dev *dev;
	const struct sn_qp *qp;
	int reg = -ENOENT;

	sn_lock();
	for (dev = sn_engine.devs; dev; dev = dev->next) {
		if (strcmp(dev->nic->ibdev, ibdev))
			continue;
		for (qp = dev->qps; qp; qp = qp->dev_next)
			if (qp->qpn == qpn)
				reg = (int)qp->reg;
	}
	sn_unlock();
	return reg;
}
