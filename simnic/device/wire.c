/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The wire: packets out, payload in. Payload lands with one copy: the receiver's device thread
 * pulls it out of the sender's memory, while the sender's QP is still in the generation that the
 * packet names. READ responses and datagrams are staged by the sender instead, because nothing
 * keeps their source stable until the receiver has come round; datagrams in the fabric, as nobody
 * sends them again when the sender is gone.
 */
#include <errno.h>
#include <string.h>

#include "simnic/device/copy.h"
#include "simnic/device/count.h"
#include "simnic/device/dev.h"
#include "simnic/device/engine.h"
#include "simnic/device/generation.h"
#include "simnic/device/qp.h"
#include "simnic/device/stage.h"
#include "simnic/device/wire.h"
#include "simnic/device/wqe.h"
#include "simnic/fabric/check.h"
#include "simnic/fabric/fault.h"
#include "simnic/fabric/held.h"
#include "simnic/fabric/inbox.h"
#include "simnic/fabric/nic.h"
#include "simnic/fabric/packet.h"
#include "simnic/fabric/path.h"

#define PULL_CHUNK (256 * 1024)	 /* bytes between two looks at the link and the sender's QP */
#define UNREAD_NS  5000000000ULL /* age after which the receiver has no device thread any more */

/* ---- addresses ------------------------------------------------------------------------------ */

int sn_wire_find_gid(const uint8_t gid[16], uint16_t vlan, int *host, int *nic)
{
	return sn_fabric_find_gid(sn_engine.fabric, gid, vlan, host, nic);
}

static bool has_lid(uint32_t host, uint32_t nic, uint16_t lid)
{
	return lid && sn_engine.fabric->nic[host][nic].lid == lid;
}

/* A rail is a subnet of its own, unless all are joined: LIDs repeat on the others. */
int sn_wire_find_lid(uint32_t rail, uint16_t lid, int *host, int *nic)
{
	const struct sn_fabric *f = sn_engine.fabric;
	uint32_t first = f->joined ? 0 : rail, end = f->joined ? f->n_nics : rail + 1, h, n;

	for (h = 0; h < f->n_hosts; h++)
		for (n = first; n < end; n++)
			if (has_lid(h, n, lid)) {
				*host = (int)h;
				*nic = (int)n;
				return 0;
			}
	return -EHOSTUNREACH;
}

/* ---- sending -------------------------------------------------------------------------------- */

static void wire_service(const struct sn_qp *qp, struct sn_pkt *pkt)
{
	const struct sn_nic *nic = qp->dev->nic;
	uint32_t index = qp->dest.is_global ? qp->dest.sgid_index : SN_MAX_GIDS;

	sn_nic_gid_at(nic, index, pkt->sgid);
	pkt->service = (struct sn_service){
		.pkey = atomic_load_explicit(&nic->tenant.pkey[qp->pkey_index],
					     memory_order_relaxed),
		.vlan = sn_nic_vlan_at(nic, index),
		.sl = qp->dest.sl,
		.traffic_class = qp->dest.is_global ? qp->dest.traffic_class : 0,
	};
}

void sn_wire_prepare(const struct sn_qp *qp, struct sn_pkt *pkt, enum sn_pkt_op op)
{
	memset((char *)pkt + offsetof(struct sn_pkt, op), 0,
	       offsetof(struct sn_pkt, sge) - offsetof(struct sn_pkt, op));
	pkt->op = op;
	pkt->src_host = (uint8_t)sn_engine.host;
	pkt->src_nic = (uint8_t)qp->dev->nic_index;
	pkt->src_proc = (uint16_t)sn_engine.slot;
	pkt->src_qpn = qp->qpn;
	pkt->src_gen = qp->gen;
	pkt->slid = qp->dev->nic->lid;
	wire_service(qp, pkt);
	pkt->dst_host = (uint8_t)qp->dst_host;
	pkt->dst_nic = (uint8_t)qp->dst_nic;
	pkt->dst_qpn = qp->dest_qpn;
}

static bool pkt_is_request(const struct sn_pkt *pkt)
{
	return pkt->op < SN_PKT_ACK || pkt->op == SN_PKT_UD;
}

static bool pkt_begins_message(const struct sn_pkt *pkt)
{
	return pkt_is_request(pkt) && !(pkt->flags & SN_PKT_F_PIECE && pkt->first);
}

/* Payload leaves with every operation but a READ, whose answer has it. */
static uint64_t pkt_bytes(const struct sn_pkt *pkt)
{
	struct sn_span span = sn_psn_payload(pkt);

	return pkt->op == SN_PKT_READ	     ? 0
	       : pkt->flags & SN_PKT_F_PIECE ? span.to - span.from
					     : pkt->length;
}

/* Faults "at the N-th message" strike before that message is on the wire. */
static void wire_count(struct sn_counters *count, const struct sn_pkt *pkt)
{
	if (!pkt_begins_message(pkt))
		return;
	sn_count(&count->tx_messages, 1);
	if (atomic_load_explicit(&sn_engine.fabric->faults_armed, memory_order_relaxed))
		sn_fault_poll(sn_engine.fabric, sn_engine.now_ns);
}

/* True if the packet is from a NIC to itself: no tenant of the fabric meets it. */
static bool pkt_stays(const struct sn_pkt *pkt)
{
	return pkt->src_host == pkt->dst_host && pkt->src_nic == pkt->dst_nic;
}

static void wire_count_sent(struct sn_nic *nic, const struct sn_pkt *pkt)
{
	struct sn_counters *count = &nic->count;
	uint64_t bytes = pkt_bytes(pkt);

	sn_count(&count->tx_bytes, bytes);
	if (!pkt_stays(pkt))
		sn_class_count(nic, &pkt->service, pkt->op == SN_PKT_UD);
	if (pkt->op == SN_PKT_UD) {
		sn_count(&count->ud_tx_packets, 1);
		sn_count(&count->ud_tx_bytes, bytes);
		return;
	}
	sn_count(&count->rc_tx_messages, pkt_begins_message(pkt));
	sn_count(&count->rc_tx_bytes, bytes);
}

void sn_count_landed(const struct sn_qp *qp, uint32_t messages, uint64_t bytes)
{
	struct sn_counters *count = &qp->dev->nic->count;
	bool ud = qp->attr.type == IBV_QPT_UD;

	sn_count(&count->rx_bytes, bytes);
	sn_count(ud ? &count->ud_rx_packets : &count->rc_rx_messages, messages);
	sn_count(ud ? &count->ud_rx_bytes : &count->rc_rx_bytes, bytes);
}

/* ---- landing -------------------------------------------------------------------------------- */

static int pull_by_kernel(int32_t pid, const struct iovec *dst, const struct iovec *src,
			  uint32_t n_src, uint64_t bytes)
{
	ssize_t got = process_vm_readv(pid, dst, 1, src, n_src, 0);

	if (got == (ssize_t)bytes)
		return 0;
	return got < 0 ? -errno : -EFAULT;
}

/*
 * Fetches the bytes from another process, and stores them in a second step: the kernel's copy
 * writes words in parts where an end is not aligned.
 */
static int pull_remote(int32_t pid, const struct iovec *dst, uint32_t n_dst,
		       const struct iovec *src, uint32_t n_src, uint64_t bytes)
{
	static uint8_t fetched[PULL_CHUNK] __attribute__((aligned(4096)));
	const struct iovec whole = { fetched, bytes };
	int rc;

	SN_ASSERT(bytes <= sizeof(fetched));
	if (!sn_copy_is_guarded() && !sn_copy_mapped(dst, n_dst))
		return -EFAULT;
	rc = pull_by_kernel(pid, &whole, src, n_src, bytes);
	return rc ? rc : sn_copy_pieces(dst, n_dst, &whole, 1, bytes);
}

static int pull_slice(const struct sn_pkt *pkt, int32_t pid, struct iovec *dst, uint32_t n_dst,
		      struct iovec *src, uint32_t n_src, uint64_t bytes)
{
	if (pkt->src_proc != sn_engine.slot && pkt->op != SN_PKT_UD)
		return pull_remote(pid, dst, n_dst, src, n_src, bytes);
	return sn_copy_pieces(dst, n_dst, src, n_src, bytes);
}

/* 0: of another PID namespace, where that number names somebody else here, or nobody. */
static int32_t pid_of_sender(const struct sn_pkt *pkt)
{
	const struct sn_proc *from = &sn_engine.fabric->proc[pkt->src_proc];
	int32_t pid = atomic_load(&from->pid);

	return atomic_load(&from->pid_space) == atomic_load(&sn_engine.proc->pid_space) ? pid : 0;
}

/*
 * Looks at the link and the sender's QP for every chunk: a fault can cut a message. The holder of
 * the sender's slot is read first: checks that succeed later then hold for that process, and not
 * for one that died before it.
 */
static int pull_chunk(const struct sn_pkt *pkt, struct iovec *dst, uint32_t n_dst,
		      struct iovec *src, uint32_t n_src, uint64_t bytes)
{
	int32_t pid = pid_of_sender(pkt);
	int rc;

	if (pkt->flags & SN_PKT_F_LATE)
		return sn_copy_pieces(dst, n_dst, src, n_src, bytes);
	if (!(pkt->flags & SN_PKT_F_CUT) &&
	    !sn_path_open(sn_engine.fabric, pkt->src_host, pkt->src_nic, pkt->dst_host,
			  pkt->dst_nic, pkt->op))
		return -ENOLINK;
	if (pkt->bounce) {
		rc = sn_stage_check(pkt);
		return rc ? rc : pull_slice(pkt, pid, dst, n_dst, src, n_src, bytes);
	}
	if (!sn_gen_pull_begin(pkt))
		return -ESTALE;
	rc = pull_slice(pkt, pid, dst, n_dst, src, n_src, bytes);
	sn_gen_pull_end(pkt);
	return rc;
}

static const struct sn_nic *wire_destination(const struct sn_pkt *pkt)
{
	return &sn_engine.fabric->nic[pkt->dst_host][pkt->dst_nic];
}

static int land_inline(const struct sn_pkt *pkt, const struct iovec *dst, uint32_t n_dst,
		       struct sn_span *span)
{
	struct iovec src = { (uint8_t *)pkt->data + span->from, SN_PKT_INLINE - span->from };

	int rc = sn_copy_pieces(dst, n_dst, &src, 1, span->to - span->from);

	if (!rc)
		span->from = span->to;
	return rc;
}

/* Whole packets. A long message is looked at anywhere, by the seed, and then now and again. */
static uint64_t first_chunk(const struct sn_pkt *pkt, const struct sn_span *span)
{
	uint32_t most = pkt->mtu ? PULL_CHUNK >> (7 + pkt->mtu) : 1;

	if (span->to - span->from <= PULL_CHUNK || !pkt->mtu)
		return PULL_CHUNK;
	return sn_psn_offset(1 + sn_psn_dice(most), pkt->mtu);
}

int sn_wire_land(const struct sn_pkt *pkt, const struct iovec *dst, uint32_t n_dst,
		 struct sn_span *span)
{
	struct iovec src[SN_PKT_MAX_SGE], from[SN_PKT_MAX_SGE], to[SN_WQE_MAX_SGE];
	struct sn_cursor d = { .iov = dst, .n = n_dst }, s = { .iov = src };
	uint64_t begin = span->from, chunk;
	int rc = 0;

	if (span->from == span->to)
		return 0;
	sn_copy_tear(
		atomic_load_explicit(&wire_destination(pkt)->posted.torn, memory_order_relaxed));
	if (!pkt->n_sge && !pkt->bounce)
		return land_inline(pkt, dst, n_dst, span);
	s.n = sn_iov_skip(src, sn_stage_source(pkt, src), span->from - sn_psn_payload(pkt).from);
	for (chunk = first_chunk(pkt, span); span->from < span->to; chunk = PULL_CHUNK) {
		uint64_t left = span->to - span->from, take = left < chunk ? left : chunk;
		uint32_t n_to = sn_cursor_slice(&d, take, to),
			 n_from = sn_cursor_slice(&s, take, from);

		rc = pull_chunk(pkt, to, n_to, from, n_from, take);
		if (rc)
			break;
		span->from += take;
	}
	if (!sn_stage_check(pkt))
		return rc;
	span->from = begin; /* the bytes that came may be another packet's */
	return -ESTALE;
}

/* ---- sending, at last ----------------------------------------------------------------------- */

/*
 * Copies the payload. The sender's memory has the whole message, of which a piece copies its own
 * bytes.
 */
static void wire_copy_payload(const struct sn_pkt *pkt, void *to, uint64_t bytes)
{
	struct iovec src[SN_PKT_MAX_SGE];
	uint32_t n = sn_iov_skip(src, sn_stage_source(pkt, src), sn_psn_payload(pkt).from);

	sn_copy_out(to, src, n, bytes);
}

/* Keeps a copy that can be delivered later, without its sender. */
static int wire_hold(struct sn_pkt *pkt)
{
	struct sn_held *held = sn_held_begin(sn_engine.fabric, sn_engine.slot);
	uint64_t bytes = pkt_bytes(pkt), kept = bytes < SN_HELD_BYTES ? bytes : SN_HELD_BYTES;

	if (!held) {
		sn_count(&sn_engine.fabric->nic[pkt->src_host][pkt->src_nic].count.dropped, 1);
		return -ENOSPC;
	}
	memcpy(&held->pkt, pkt, sizeof(*pkt));
	held->pkt.flags |= SN_PKT_F_LATE;
	if (pkt->n_sge || pkt->bounce) {
		wire_copy_payload(pkt, held->payload, kept);
		held->pkt.n_sge = 0;
		held->pkt.bounce = 1; /* the receiver has its own address for the payload */
		held->pkt.flags |= kept < bytes ? SN_PKT_F_CUT : 0;
		held->pkt.part = (uint32_t)kept;
	}
	sn_held_end(sn_engine.fabric, held);
	sn_stage_release(pkt);
	return 0;
}

bool sn_wire_is_long(const struct sn_pkt *pkt)
{
	return sn_line_of(sn_engine.fabric, pkt) != NULL;
}

/*
 * The packet's long cable, or NULL. Answers to UC are no packets: they only free its sender early.
 * Messages that began whole while the cable was short go so, too.
 */
static struct sn_line *wire_line(const struct sn_qp *qp, const struct sn_pkt *pkt)
{
	if (qp->attr.type == IBV_QPT_UC && sn_pkt_is_response(pkt->op))
		return NULL;
	if ((pkt->op == SN_PKT_SEND || pkt->op == SN_PKT_WRITE) && !(pkt->flags & SN_PKT_F_PIECE))
		return NULL;
	return sn_line_of(sn_engine.fabric, pkt);
}

static void wire_copy_to(const struct sn_pkt *pkt, struct sn_line_slot *slot)
{
	memcpy(&slot->pkt, pkt, sizeof(*pkt));
	slot->pkt.flags |= SN_PKT_F_LATE; /* the sender may be gone when it arrives */
	if (pkt->n_sge || pkt->bounce) {
		wire_copy_payload(pkt, slot->payload, pkt_bytes(pkt));
		slot->pkt.n_sge = 0;
		slot->pkt.bounce = 1; /* the receiver has its own address for the payload */
	}
	sn_line_ready(sn_engine.fabric, slot);
}

/*
 * Returns 0, even if the packet is lost; -ENOBUFS: the line is busy. Datagrams do not wait, as
 * with a full inbox.
 */
static int wire_enter(struct sn_line *line, const struct sn_pkt *pkt)
{
	struct sn_line_slot *slots[2];
	int n = sn_line_enter(sn_engine.fabric, line, pkt_bytes(pkt), sn_engine.slot,
			      sn_engine.now_ns, !sn_pkt_is_datagram(pkt->op), slots);

	for (int i = 0; i < n; i++)
		wire_copy_to(pkt, slots[i]);
	if (n >= 0)
		sn_stage_release(pkt);
	return n < 0 ? n : 0;
}

static bool wire_begin_cut(struct sn_nic *nic, const struct sn_pkt *pkt)
{
	uint32_t armed = SN_CUT_ARMED;

	if (!atomic_load_explicit(&nic->fault.cut_next, memory_order_relaxed))
		return false;
	if ((pkt->op != SN_PKT_SEND && pkt->op != SN_PKT_WRITE) || pkt->length < 2)
		return false;
	return atomic_compare_exchange_strong(&nic->fault.cut_next, &armed, SN_CUT_BEGUN);
}

static bool wire_take_cut(struct sn_nic *nic, struct sn_pkt *pkt)
{
	if (!wire_begin_cut(nic, pkt))
		return false;
	pkt->flags |= SN_PKT_F_CUT;
	pkt->part = sn_psn_cut(pkt);
	return true;
}

/* If the fault has ended meanwhile, its link comes up again: nobody else would see to that. */
static void wire_cut_link(struct sn_nic *nic, const struct sn_pkt *pkt)
{
	uint32_t begun = SN_CUT_BEGUN;

	sn_fault_apply(sn_engine.fabric, SN_FAULT_PORT_DOWN, pkt->src_host, pkt->src_nic, 0);
	if (!atomic_compare_exchange_strong(&nic->fault.cut_next, &begun, SN_CUT_NONE))
		sn_fault_apply(sn_engine.fabric, SN_FAULT_PORT_UP, pkt->src_host, pkt->src_nic, 0);
}

bool sn_wire_paused(const struct sn_qp *qp)
{
	return qp->dst_host >= 0 && sn_qp_is_connected(qp) &&
	       sn_path_paused(sn_engine.fabric, sn_engine.host, qp->dev->nic_index,
			      (uint32_t)qp->dst_host, (uint32_t)qp->dst_nic);
}

bool sn_wire_blind(const struct sn_qp *qp)
{
	const struct sn_dev *dev = qp->dev;

	return atomic_load_explicit(&dev->nic->fault.blind, memory_order_relaxed) ||
	       (dev->events.unread && dev->events.unread(dev->events.ctx));
}

uint32_t sn_wire_owner(const struct sn_qp *qp)
{
	if (qp->dst_host < 0 || qp->dest_qpn >= SN_QPN_MAX)
		return 0;
	return atomic_load(
		&sn_engine.fabric->nic[qp->dst_host][qp->dst_nic].qpn_owner[qp->dest_qpn]);
}

void sn_wire_sent(struct sn_qp *qp)
{
	uint32_t owner = sn_wire_owner(qp);

	qp->req.sent.owner = owner;
	qp->req.sent.at_ns = sn_engine.now_ns;
	qp->req.sent.before = owner ? sn_inbox_end(&sn_engine.fabric->proc[owner - 1]) : 0;
}

bool sn_wire_unread(const struct sn_qp *qp)
{
	uint32_t owner = sn_wire_owner(qp);
	const struct sn_proc *to = owner ? &sn_engine.fabric->proc[owner - 1] : NULL;

	return to && owner == qp->req.sent.owner && !sn_inbox_read(to, qp->req.sent.before) &&
	       sn_engine.now_ns - qp->req.sent.at_ns < UNREAD_NS &&
	       sn_proc_runs(sn_proc_device(to));
}

static bool wire_is_open(const struct sn_pkt *pkt)
{
	const struct sn_fabric *f = sn_engine.fabric;

	return pkt->dst_host < f->n_hosts && pkt->dst_nic < f->n_nics &&
	       pkt->dst_qpn < SN_QPN_MAX &&
	       sn_path_open(sn_engine.fabric, pkt->src_host, pkt->src_nic, pkt->dst_host,
			    pkt->dst_nic, pkt->op);
}

/* Delivers into the inbox of the QP's process. -ENOBUFS: that is full. */
static int wire_deliver(struct sn_nic *nic, struct sn_pkt *pkt)
{
	const struct sn_nic *dst = &sn_engine.fabric->nic[pkt->dst_host][pkt->dst_nic];
	uint32_t owner = atomic_load(&dst->qpn_owner[pkt->dst_qpn]);
	bool cut;
	int rc;

	if (!owner)
		return -ESRCH;
	cut = wire_take_cut(nic, pkt);
	rc = sn_inbox_push(sn_engine.fabric, owner - 1, pkt);
	if (cut)
		wire_cut_link(nic, pkt);
	return rc;
}

/* Cuts on a long cable: the message's first packet goes, and before the second the link is down. */
static bool wire_cut_before(struct sn_nic *nic, const struct sn_pkt *pkt)
{
	if (!pkt->first || !(pkt->flags & SN_PKT_F_PIECE) || !wire_begin_cut(nic, pkt))
		return false;
	wire_cut_link(nic, pkt);
	return true;
}

static int wire_go(struct sn_nic *nic, struct sn_line *line, struct sn_pkt *pkt)
{
	if (sn_held_wanted(nic, pkt))
		return wire_hold(pkt);
	if (line && wire_cut_before(nic, pkt))
		return -ENOLINK;
	if (line)
		return wire_enter(line, pkt);
	/* The cable was made short meanwhile: its payload is nowhere but in this process. */
	return pkt->flags & SN_PKT_F_PIECE ? -ENOLINK : wire_deliver(nic, pkt);
}

/*
 * 0: on the wire, or lost there, which the sender cannot tell. -ENOBUFS: the receiver's inbox is
 * full, or the path is paused; send it again later. Staging is freed where the packet was lost.
 */
int sn_wire_send(const struct sn_qp *qp, struct sn_pkt *pkt)
{
	struct sn_nic *nic = qp->dev->nic;
	struct sn_line *line = wire_line(qp, pkt);
	int rc = -ENOLINK;

	if (sn_wire_paused(qp)) {
		sn_count(&nic->count.hw.tx_wait, 1);
		sn_stage_release(pkt);
		return -ENOBUFS;
	}
	wire_count(&nic->count, pkt);
	if (wire_is_open(pkt))
		rc = wire_go(nic, line, pkt);
	if (rc)
		sn_stage_release(pkt);
	if (rc != -ENOBUFS) {
		wire_count_sent(nic, pkt);
		sn_count(&nic->count.hw.tx_packets, sn_count_packets(qp, pkt));
		return 0;
	}
	if (pkt_begins_message(pkt)) /* the message will be sent again */
		atomic_fetch_sub_explicit(&nic->count.tx_messages, 1, memory_order_relaxed);
	return rc;
}

void sn_wire_send_frame(struct sn_nic *nic, struct sn_pkt *pkt)
{
	struct sn_line *line = sn_line_of(sn_engine.fabric, pkt);

	if (!wire_is_open(pkt) || wire_go(nic, line, pkt))
		sn_stage_release(pkt);
	sn_count(&nic->count.tx_bytes, pkt->length);
	sn_count(&nic->count.hw.tx_packets, 1);
}
