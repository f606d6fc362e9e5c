/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Unreliable datagrams: address vectors, Q_Keys, and the 40 bytes before each receive. */
#include <errno.h>
#include <string.h>

#include "simnic/device/count.h"
#include "simnic/device/dev.h"
#include "simnic/device/engine.h"
#include "simnic/device/qp.h"
#include "simnic/device/receive.h"
#include "simnic/device/stage.h"
#include "simnic/device/ud.h"
#include "simnic/device/wire.h"
#include "simnic/device/wqe.h"
#include "simnic/fabric/nic.h"
#include "simnic/fabric/packet.h"

#define AV_GRH_PRESENT	(1u << 30)
#define AV_SGID_SHIFT	20
#define QKEY_PRIVILEGED (1u << 31) /* IBA 10.2.5: then the QP's own Q_Key is sent */
#define ROCE_V2_UDP	17
#define IP4_OFFSET	20

enum { L3_IP6 = 1, L3_IP4 = 2, BEHIND_UDP = 8 }; /* kinds of RoCE packets, in a CQE's SL */

static bool is_ethernet(const struct sn_qp *qp)
{
	return qp->dev->nic->link_layer == SN_LINK_ETH;
}

static void ud_address(const struct sn_qp *qp, const struct sn_wqe *wqe, struct sn_pkt *pkt)
{
	uint32_t gid_word = be32toh(wqe->av.grh_gid_fl);
	uint32_t sgid = gid_word >> AV_SGID_SHIFT & 0xff;
	int host = -1, nic = -1;

	sn_nic_gid_at(qp->dev->nic, sgid, pkt->sgid);
	pkt->service.vlan = sn_nic_vlan_at(qp->dev->nic, sgid);
	pkt->service.traffic_class = wqe->av.tclass;
	pkt->service.sl =
		is_ethernet(qp) ? (wqe->av.stat_rate_sl & 0xf) >> 1 : wqe->av.stat_rate_sl & 0xf;
	if (is_ethernet(qp)) {
		sn_wire_find_gid(wqe->av.rgid, pkt->service.vlan, &host, &nic);
		pkt->flags |= SN_PKT_F_GRH;
		if (sgid < SN_MAX_GIDS &&
		    atomic_load(&qp->dev->nic->gid_type[sgid]) == SN_GID_ROCE_V1)
			pkt->flags |= SN_PKT_F_ROCE_V1;
	} else {
		if (gid_word & AV_GRH_PRESENT)
			pkt->flags |= SN_PKT_F_GRH;
		if (sn_wire_find_lid(qp->dev->nic_index, be16toh(wqe->av.rlid), &host, &nic) &&
		    (gid_word & AV_GRH_PRESENT))
			sn_wire_find_gid(wqe->av.rgid, 0, &host, &nic);
	}
	pkt->dst_host = (uint8_t)host;
	pkt->dst_nic = (uint8_t)nic;
	pkt->dst_qpn = be32toh(wqe->av.dqp_dct) & 0xffffff;
}

/* 0: gone. -EACCES, -EMSGSIZE: the WQE is at fault. -EAGAIN, -ENOBUFS: later. */
int sn_ud_send(struct sn_qp *qp, const struct sn_wqe *wqe)
{
	struct iovec iov[SN_WQE_MAX_SGE];
	struct sn_pkt *pkt = &sn_engine.tx;
	uint32_t qkey = be32toh(wqe->av.key.qkey.qkey);
	int n, rc;

	if (wqe->length > SN_UD_MTU)
		return -EMSGSIZE;
	n = sn_wqe_gather(qp, wqe, 0, iov);
	if (n < 0)
		return n;
	sn_wire_prepare(qp, pkt, SN_PKT_UD);
	if (qp->attr.source_qpn)
		pkt->src_qpn = qp->attr.source_qpn;
	ud_address(qp, wqe, pkt);
	pkt->qkey = qkey & QKEY_PRIVILEGED ? qp->qkey : qkey;
	pkt->length = wqe->length;
	pkt->imm = wqe->imm;
	pkt->has_imm = wqe->opcode == MLX5_OPCODE_SEND_IMM;
	pkt->solicited = !!(wqe->fm_ce_se & MLX5_WQE_CTRL_SOLICITED);
	rc = sn_stage_put(pkt, iov, (uint32_t)n, wqe->length);
	if (rc == -ENOSPC) {
		sn_count(&qp->dev->nic->count.dropped, 1);
		return 0;
	}
	if (rc)
		return rc;
	/* A full inbox is a full wire: datagrams get lost. */
	sn_wire_send(qp, pkt);
	return 0;
}

static uint16_t ip4_checksum(const uint8_t *header)
{
	uint32_t sum = 0;
	int i;

	for (i = 0; i < 20; i += 2)
		sum += (uint32_t)header[i] << 8 | header[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

/* RoCE v2 over IPv4: the last 20 of the 40 bytes are the IPv4 header (RoCEv2 annex A17.4.5). */
static void grh_ip4(uint8_t grh[SN_GRH_BYTES], const struct sn_pkt *pkt, const uint8_t *dgid)
{
	uint8_t *ip = grh + IP4_OFFSET;
	uint16_t sum, total = (uint16_t)(20 + 8 + 12 + 8 + pkt->length + 4);

	ip[0] = 0x45;
	ip[2] = (uint8_t)(total >> 8);
	ip[3] = (uint8_t)total;
	ip[8] = 64;
	ip[9] = ROCE_V2_UDP;
	memcpy(ip + 12, pkt->sgid + 12, 4);
	memcpy(ip + 16, dgid + 12, 4);
	sum = ip4_checksum(ip);
	ip[10] = (uint8_t)(sum >> 8);
	ip[11] = (uint8_t)sum;
}

static void grh_ip6(uint8_t grh[SN_GRH_BYTES], const struct sn_pkt *pkt, const uint8_t *dgid)
{
	uint16_t payload = (uint16_t)(pkt->length + 24);

	grh[0] = 0x60;
	grh[4] = (uint8_t)(payload >> 8);
	grh[5] = (uint8_t)payload;
	grh[6] = 0x1b; /* IBA 8.3: next header is a BTH */
	grh[7] = 64;
	memcpy(grh + 8, pkt->sgid, 16);
	memcpy(grh + 24, dgid, 16);
}

static bool is_mapped(const uint8_t gid[16])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(gid, mapped, sizeof(mapped));
}

static bool is_ip4(const struct sn_qp *qp, const struct sn_pkt *pkt)
{
	return is_ethernet(qp) && !(pkt->flags & SN_PKT_F_ROCE_V1) && is_mapped(pkt->sgid);
}

uint8_t sn_ud_sl(const struct sn_qp *qp, const struct sn_pkt *pkt)
{
	if (!is_ethernet(qp))
		return pkt->service.sl & 0xf;
	if (pkt->flags & SN_PKT_F_ROCE_V1)
		return 0;
	return BEHIND_UDP | (is_ip4(qp, pkt) ? L3_IP4 : L3_IP6);
}

/* Kinds of GIDs that do not talk to each other: mapped IPv4, link-local, others. */
static int gid_kind(const uint8_t gid[16])
{
	if (is_mapped(gid))
		return 0;
	return gid[0] == 0xfe && gid[1] == 0x80 ? 1 : 2;
}

/*
 * The address that a datagram went to. Of a driver's table, the packet does not tell which entry it
 * was: the first of the sender's kind and VLAN is taken.
 */
static void dgid_of(const struct sn_qp *qp, const struct sn_pkt *pkt, uint8_t dgid[16])
{
	const struct sn_nic *nic = qp->dev->nic;

	memcpy(dgid, nic->gid, 16);
	if (!atomic_load_explicit(&nic->tenant.driver_gid.used, memory_order_relaxed))
		return;
	for (uint32_t i = 0; i < SN_MAX_GIDS; i++) {
		if (atomic_load(&nic->gid_type[i]) == SN_GID_NONE ||
		    sn_nic_vlan_at(nic, i) != pkt->service.vlan)
			continue;
		sn_nic_gid_at(nic, i, dgid);
		if (gid_kind(dgid) == gid_kind(pkt->sgid))
			return;
	}
}

static void build_grh(const struct sn_qp *qp, const struct sn_pkt *pkt, uint8_t grh[SN_GRH_BYTES])
{
	uint8_t dgid[16];

	memset(grh, 0, SN_GRH_BYTES);
	if (!(pkt->flags & SN_PKT_F_GRH))
		return;
	dgid_of(qp, pkt, dgid);
	if (is_ip4(qp, pkt))
		grh_ip4(grh, pkt, dgid);
	else
		grh_ip6(grh, pkt, dgid);
}

static bool ud_accepts(const struct sn_qp *qp, const struct sn_pkt *pkt)
{
	return qp->attr.type == IBV_QPT_UD && pkt->qkey == qp->qkey &&
	       (qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD ||
		qp->state == IBV_QPS_SQE);
}

void sn_ud_receive(struct sn_qp *qp, const struct sn_pkt *pkt)
{
	uint8_t grh[SN_GRH_BYTES];
	enum sn_rq_verdict verdict;

	if (!ud_accepts(qp, pkt))
		return;
	build_grh(qp, pkt, grh);
	verdict = sn_rq_consume(qp, pkt, grh);
	if (verdict == SN_RQ_OK)
		sn_count_landed(qp, 1, pkt->length);
	if (verdict != SN_RQ_TOO_LONG && verdict != SN_RQ_PROT)
		return;
	sn_rq_fail(qp, verdict == SN_RQ_PROT ? MLX5_CQE_SYNDROME_LOCAL_PROT_ERR
					     : MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR);
	sn_qp_enter_error(qp);
}
