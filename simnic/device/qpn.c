/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* QP numbers: whose they are in the fabric, and the QPs of this process by number. */
#include "simnic/device/qpn.h"

#include <errno.h>

#include "simnic/device/dev.h"
#include "simnic/device/engine.h"
#include "simnic/device/qp.h"
#include "simnic/fabric/check.h"
#include "simnic/fabric/nic.h"

struct sn_qp *sn_qp_find(uint32_t nic, uint32_t qpn)
{
	if (nic >= SN_MAX_NICS || qpn >= SN_QPN_MAX || !sn_engine.qp_table[nic])
		return NULL;
	return sn_engine.qp_table[nic][qpn];
}

static int qpn_take(struct sn_nic *nic, uint32_t *qpn)
{
	uint16_t owner = (uint16_t)(sn_engine.slot + 1), nobody;
	uint32_t i, n;

	for (i = 0; i < SN_QPN_MAX; i++) {
		n = sn_nic_quirk(nic, SN_QUIRK_QPN_AGAIN)
			    ? i
			    : atomic_fetch_add(&nic->next_qpn, 1) % SN_QPN_MAX;
		nobody = 0;
		if (n < SN_QPN_FIRST ||
		    !atomic_compare_exchange_strong(&nic->qpn_owner[n], &nobody, owner))
			continue;
		*qpn = n;
		return 0;
	}
	return -ENOMEM;
}

/* Takes the number under which peers know the QP besides its own. -EBUSY: another one has it. */
static int alias_take(struct sn_nic *nic, uint32_t alias)
{
	uint16_t nobody = 0;

	if (!alias)
		return 0;
	SN_ASSERT(alias < SN_QPN_FIRST);
	return atomic_compare_exchange_strong(&nic->qpn_owner[alias], &nobody,
					      (uint16_t)(sn_engine.slot + 1))
		       ? 0
		       : -EBUSY;
}

static void qpn_put(struct sn_nic *nic, uint32_t qpn)
{
	uint16_t owner = (uint16_t)(sn_engine.slot + 1);

	atomic_compare_exchange_strong(&nic->qpn_owner[qpn], &owner, 0);
}

int sn_qpn_take(struct sn_qp *qp)
{
	int rc = alias_take(qp->dev->nic, qp->attr.alias);

	if (rc)
		return rc;
	rc = qpn_take(qp->dev->nic, &qp->qpn);
	if (rc && qp->attr.alias)
		qpn_put(qp->dev->nic, qp->attr.alias);
	return rc;
}

void sn_qpn_enter(struct sn_qp *qp)
{
	struct sn_qp **table = sn_engine.qp_table[qp->dev->nic_index];

	SN_ASSERT(!table[qp->qpn]);
	table[qp->qpn] = qp;
	if (qp->attr.alias)
		table[qp->attr.alias] = qp;
}

void sn_qpn_leave(struct sn_qp *qp)
{
	struct sn_qp **table = sn_engine.qp_table[qp->dev->nic_index];

	SN_ASSERT(table[qp->qpn] == qp);
	table[qp->qpn] = NULL;
	qpn_put(qp->dev->nic, qp->qpn);
	if (!qp->attr.alias)
		return;
	table[qp->attr.alias] = NULL;
	qpn_put(qp->dev->nic, qp->attr.alias);
}
