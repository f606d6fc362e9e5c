/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "simnic/device/count.h"

#include "simnic/device/dev.h"
#include "simnic/device/psn.h"
#include "simnic/device/qp.h"
#include "simnic/fabric/nic.h"

uint32_t sn_count_packets(const struct sn_qp *qp, const struct sn_pkt *pkt)
{
	if (pkt->flags & SN_PKT_F_PIECE)
		return 1;
	switch ((enum sn_pkt_op)pkt->op) {
	case SN_PKT_SEND:
	case SN_PKT_WRITE: return sn_psn_packets(pkt) - pkt->first;
	case SN_PKT_READ_RESP: return sn_psn_count(pkt->length, qp->path_mtu);
	case SN_PKT_READ:
	case SN_PKT_FETCH_ADD:
	case SN_PKT_CMP_SWAP:
	case SN_PKT_ACK:
	case SN_PKT_NAK:
	case SN_PKT_RNR:
	case SN_PKT_ATOMIC_RESP:
	case SN_PKT_UD:
	case SN_PKT_CM:
	case SN_PKT_FRAME: break;
	}
	return 1;
}

void sn_count_request(const struct sn_qp *qp, enum sn_pkt_op op)
{
	struct sn_hw_counters *hw = &qp->dev->nic->count.hw;

	if (op == SN_PKT_WRITE)
		sn_count(&hw->rx_write_requests, 1);
	else if (op == SN_PKT_READ)
		sn_count(&hw->rx_read_requests, 1);
	else if (op == SN_PKT_FETCH_ADD || op == SN_PKT_CMP_SWAP)
		sn_count(&hw->rx_atomic_requests, 1);
}
