/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The receiving half of the network interface: frames land, with what the NIC says of them. */
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <string.h>

#include "simnic/device/copy.h"
#include "simnic/device/cq.h"
#include "simnic/device/dev.h"
#include "simnic/device/engine.h"
#include "simnic/device/ether_own.h"
#include "simnic/device/frame.h"
#include "simnic/device/stage.h"
#include "simnic/device/wqe.h"
#include "simnic/fabric/nic.h"

/* Of a completion of a receive, as Linux' mlx5/device.h has them. */
enum {
	CQE_SUM = 20,
	L2_OK = 1,
	L3_OK = 2,
	L4_OK = 4,
	HAS_VLAN = 1,
	L3_IP6 = 1 << 2,
	L3_IP4 = 2 << 2
};
enum { L4_TCP = 4 << 4, L4_UDP = 2 << 4 };
enum { TYPE_VLAN = 0x8100 };
/* A flag in the length of a receive's segment: the NIC may pad the frame to a cache line. */
#define START_PADDING (1u << 31)

static uint8_t arrived[SN_UD_MTU]; /* the frame that lands now */

/* ---- frames that arrive --------------------------------------------------------------------- */

/* Takes the frame off the wire, into arrived. False: it is gone. */
static bool fetch(const struct sn_pkt *pkt)
{
	struct iovec from[SN_PKT_MAX_SGE];

	if (pkt->length > SN_UD_MTU || pkt->length < SN_FRAME_HEADER)
		return false;
	if (!pkt->bounce) {
		memcpy(arrived, pkt->data, pkt->length);
		return pkt->length <= SN_PKT_INLINE;
	}
	sn_copy_out(arrived, from, sn_stage_source(pkt, from), pkt->length);
	return !sn_stage_check(pkt);
}

/* Takes the tag out of the frame, into the completion. */
static uint32_t strip_vlan(uint8_t *frame, uint32_t bytes, struct mlx5_cqe64 *cqe)
{
	uint8_t *at = frame + SN_FRAME_TYPE;

	if (sn_ether_get16(at) != TYPE_VLAN || bytes < SN_FRAME_HEADER + SN_FRAME_VLAN)
		return bytes;
	cqe->vlan_info = htobe16(sn_ether_get16(at + 2));
	cqe->l4_hdr_type_etc |= HAS_VLAN;
	memmove(at, at + SN_FRAME_VLAN, bytes - SN_FRAME_TYPE - SN_FRAME_VLAN);
	return bytes - SN_FRAME_VLAN;
}

/* What the NIC says of the headers, and the sum of all that is behind the Ethernet header. */
static void describe(const uint8_t *frame, uint32_t bytes, struct mlx5_cqe64 *cqe)
{
	struct sn_frame where;
	uint16_t sum;

	cqe->hds_ip_ext = L2_OK;
	if (!sn_frame_read(frame, bytes, &where))
		return;
	sum = htobe16(sn_frame_sum(frame + where.l3, bytes - where.l3));
	memcpy((uint8_t *)cqe + CQE_SUM, &sum, sizeof(sum));
	cqe->l4_hdr_type_etc |= where.version == 4 ? L3_IP4 : L3_IP6;
	cqe->l4_hdr_type_etc |= where.proto == SN_PROTO_TCP   ? L4_TCP
				: where.proto == SN_PROTO_UDP ? L4_UDP
							      : 0;
	if (sn_frame_l3_is_right(frame, &where))
		cqe->hds_ip_ext |= L3_OK;
	if (where.proto && sn_frame_l4_is_right(frame, &where))
		cqe->hds_ip_ext |= L4_OK;
}

/* The next receive request has room for the frame: the number of its pieces. Else 0. */
static uint32_t room_for(const struct sn_ether_rq *rq, uint32_t bytes, struct iovec *iov)
{
	const uint8_t *ring = (const uint8_t *)rq->attr.buf;
	uint32_t stride = 1u << rq->attr.log_stride, room = 0, n;
	struct sn_sge sge[SN_WQE_MAX_SGE];
	int pieces;

	if (sn_ether_producer(&rq->attr, SN_ETHER_RECORD_RECEIVE) == rq->done)
		return 0;
	n = sn_wqe_scatter(ring + (size_t)(rq->done & (rq->attr.entries - 1)) * stride, stride,
			   sge);
	for (uint32_t i = 0; i < n; i++)
		sge[i].length &= ~START_PADDING;
	pieces = sn_sge_translate(rq->dev, rq->attr.pdn, sge, n, IBV_ACCESS_LOCAL_WRITE, iov);
	for (int i = 0; i < pieces; i++)
		room += (uint32_t)iov[i].iov_len;
	return room >= bytes ? (uint32_t)pieces : 0;
}

static void land(struct sn_ether_rq *rq, uint32_t bytes)
{
	struct mlx5_cqe64 cqe = { .sop_drop_qpn = htobe32(rq->number),
				  .wqe_counter = htobe16(rq->done),
				  .op_own = MLX5_CQE_RESP_SEND << 4 };
	struct iovec to[SN_WQE_MAX_SGE], from = { arrived, 0 };
	struct sn_nic *nic = rq->dev->nic;
	uint32_t n;

	if (!rq->attr.keeps_vlan)
		bytes = strip_vlan(arrived, bytes, &cqe);
	from.iov_len = bytes;
	n = room_for(rq, bytes, to);
	if (!n || sn_copy_pieces(to, n, &from, 1, bytes)) {
		sn_count(&nic->count.dropped, 1);
		return;
	}
	describe(arrived, bytes, &cqe);
	cqe.byte_cnt = htobe32(bytes);
	sn_cq_push(rq->attr.cq, &cqe, NULL, 0, false);
	rq->done++;
	sn_count(&nic->count.rx_bytes, bytes);
	sn_count(&nic->count.hw.rx_packets, 1);
}

void sn_ether_receive(const struct sn_pkt *pkt)
{
	struct sn_dev *dev = sn_engine.devs;

	while (dev && (dev->nic_index != pkt->dst_nic || !dev->ether.into))
		dev = dev->next;
	if (dev && dev->ether.into->ready && !sn_dev_stands_still(dev) && fetch(pkt))
		land(dev->ether.into, (uint32_t)pkt->length);
}
