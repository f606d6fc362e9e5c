/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The sending half of the network interface: requests, and the way of frames through switches. */
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <string.h>

#include "simnic/device/copy.h"
#include "simnic/device/cq.h"
#include "simnic/device/dev.h"
#include "simnic/device/engine.h"
#include "simnic/device/ether_own.h"
#include "simnic/device/frame.h"
#include "simnic/device/stage.h"
#include "simnic/device/wire.h"
#include "simnic/device/wqe.h"
#include "simnic/fabric/nic.h"

enum { WQEBB = 64, SEGMENT = 16, MULTICAST = 1, MAC_BYTES = 6, TYPE_VLAN = 0x8100 };
/* The Ethernet segment of a request, behind the control segment. */
enum { ETH_FLAGS = 20, ETH_MSS = 22, ETH_INLINE = 28, ETH_INLINE_START = 30, ETH_BYTES = 32 };
enum { INLINE_BYTES = 0x3ff, INSERT_VLAN = 1 << 15, FILL_L3 = 1 << 6, FILL_L4 = 1 << 7 };
enum { FRAMES_PER_TURN = 64, LONGEST = 1 << 17 };
#define AGAIN_NS 50000 /* nap while the fabric has no room for a frame */

/* A send request, read out of its ring. */
struct request {
	uint8_t raw[SN_WQE_MAX_BYTES];
	uint32_t bytes; /* of raw */
	uint8_t opcode;
	uint16_t wqebbs;
	bool signaled;
};

/* Scratch of the device: a frame to be sent, and a segment of it. */
static struct {
	uint8_t frame[LONGEST];
	uint8_t segment[SN_UD_MTU];
	struct sn_pkt pkt;
	struct request request;
	bool waits;
} scratch;

static uint32_t get32(const uint8_t *at)
{
	return (uint32_t)sn_ether_get16(at) << 16 | sn_ether_get16(at + 2);
}

static uint64_t mac_of(const uint8_t *at)
{
	return (uint64_t)sn_ether_get16(at) << 32 | get32(at + 2);
}

/* ---- to the wire ---------------------------------------------------------------------------- */

static bool in_reach(const struct sn_nic *from, const struct sn_nic *to)
{
	return from != to && (sn_engine.fabric->joined || from->rail == to->rail) &&
	       atomic_load_explicit(&to->qpn_owner[SN_QPN_FRAMES], memory_order_relaxed);
}

/* The next NIC that the frame goes to, from this place on. false: none. */
static bool next_nic(const struct sn_nic *from, uint64_t mac, uint32_t *place)
{
	struct sn_fabric *f = sn_engine.fabric;

	for (; *place < f->n_hosts * f->n_nics; ++*place) {
		const struct sn_nic *to = &f->nic[*place / f->n_nics][*place % f->n_nics];

		if (in_reach(from, to) && (!mac || atomic_load(&to->end.mac) == mac))
			return true;
	}
	return false;
}

/* 0; -EAGAIN: there is no room for it now. */
static int send_to(struct sn_dev *dev, uint32_t place, const uint8_t *frame, uint32_t bytes)
{
	const struct iovec from = { (void *)frame, bytes };
	struct sn_pkt *pkt = &scratch.pkt;
	uint32_t n_nics = sn_engine.fabric->n_nics;
	int rc;

	memset(pkt, 0, offsetof(struct sn_pkt, sge));
	pkt->op = SN_PKT_FRAME;
	pkt->src_host = (uint8_t)sn_engine.host;
	pkt->src_nic = (uint8_t)dev->nic_index;
	pkt->src_proc = (uint16_t)sn_engine.slot;
	pkt->dst_host = (uint8_t)(place / n_nics);
	pkt->dst_nic = (uint8_t)(place % n_nics);
	pkt->dst_qpn = SN_QPN_FRAMES;
	pkt->length = bytes;
	rc = sn_stage_put(pkt, &from, 1, bytes);
	if (rc == -EAGAIN)
		return rc;
	if (rc)
		sn_count(&dev->nic->count.dropped, 1);
	else
		sn_wire_send_frame(dev->nic, pkt);
	return 0;
}

/*
 * Gives a frame to the switches. They learn the sender's address, as a bridge does (IEEE 802.1D
 * 7.8); only the last one, which is enough as a frame to an unknown address goes everywhere. 0;
 * -EAGAIN: there is no room now.
 */
static int send_frame(struct sn_dev *dev, const uint8_t *frame, uint32_t bytes)
{
	uint64_t to = mac_of(frame), from = mac_of(frame + MAC_BYTES);
	uint32_t place = 0;

	if (bytes < SN_FRAME_HEADER || bytes > SN_UD_MTU)
		return 0; /* the port passes no such frame */
	if (!(frame[MAC_BYTES] & MULTICAST))
		atomic_store(&dev->nic->end.mac, from);
	if (frame[0] & MULTICAST || !next_nic(dev->nic, to, &place)) {
		to = 0;
		place = 0;
	}
	/* With the first copy on its way, another one that finds no room gets lost. */
	for (uint32_t n = 0; next_nic(dev->nic, to, &place); n++, place++)
		if (send_to(dev, place, frame, bytes) && !n)
			return -EAGAIN;
	return 0;
}

/* ---- send requests -------------------------------------------------------------------------- */

static void read_request(const struct sn_ether_sq *sq, struct request *r)
{
	const uint8_t *ring = (const uint8_t *)sq->attr.buf;
	uint32_t size = sq->attr.entries * WQEBB, at = sq->done * WQEBB & (size - 1), first;

	r->bytes = (get32(ring + at + 4) & 0x3f) * SEGMENT;
	r->bytes = r->bytes ? r->bytes : SEGMENT;
	first = r->bytes < size - at ? r->bytes : size - at;
	memcpy(r->raw, ring + at, first);
	memcpy(r->raw + first, ring, r->bytes - first);
	r->opcode = r->raw[3];
	r->signaled = r->raw[11] & MLX5_WQE_CTRL_CQ_UPDATE;
	r->wqebbs = (uint16_t)((r->bytes + WQEBB - 1) / WQEBB);
}

static void complete(const struct sn_ether_sq *sq, uint8_t opcode, uint8_t syndrome)
{
	struct mlx5_cqe64 cqe = {
		.sop_drop_qpn = htobe32((uint32_t)scratch.request.opcode << 24 | sq->number),
		.wqe_counter = htobe16(sq->done),
		.op_own = (uint8_t)(opcode << 4),
	};

	if (opcode == MLX5_CQE_REQ_ERR)
		((struct mlx5_err_cqe *)&cqe)->syndrome = syndrome;
	sn_cq_push(sq->attr.cq, &cqe, NULL, 0, false);
}

static int fail(struct sn_ether_sq *sq, uint8_t syndrome)
{
	complete(sq, MLX5_CQE_REQ_ERR, syndrome);
	sq->failed = true;
	return -EIO;
}

static uint32_t insert_vlan(uint8_t *frame, uint32_t bytes, uint16_t tag)
{
	uint8_t *at = frame + SN_FRAME_TYPE;

	if (bytes < SN_FRAME_HEADER)
		return bytes;
	memmove(at + SN_FRAME_VLAN, at, bytes - SN_FRAME_TYPE);
	at[0] = TYPE_VLAN >> 8;
	at[1] = TYPE_VLAN & 0xff;
	at[2] = (uint8_t)(tag >> 8);
	at[3] = (uint8_t)tag;
	return bytes + SN_FRAME_VLAN;
}

/* Puts the frame together in scratch.frame; its bytes, or -EACCES, -EINVAL. */
static int gather(const struct sn_ether_sq *sq, const struct request *r, uint32_t headers)
{
	struct iovec iov[SN_WQE_MAX_SGE];
	struct sn_sge sge[SN_WQE_MAX_SGE];
	uint32_t at = ETH_BYTES, bytes = headers, n;
	int pieces;

	if (headers > 2)
		at += (headers - 2 + SEGMENT - 1) / SEGMENT * SEGMENT;
	if (at > r->bytes)
		return -EINVAL;
	memcpy(scratch.frame, r->raw + ETH_INLINE_START, headers);
	n = sn_wqe_scatter(r->raw + at, r->bytes - at, sge);
	for (uint32_t i = 0; i < n; i++)
		bytes = sge[i].length < LONGEST - bytes ? bytes + sge[i].length : LONGEST;
	if (bytes > LONGEST - SN_FRAME_VLAN)
		return -EINVAL;
	pieces = sn_sge_translate(sq->dev, sq->attr.pdn, sge, n, 0, iov);
	if (pieces < 0)
		return pieces;
	sn_copy_out(scratch.frame + headers, iov, (uint32_t)pieces, bytes - headers);
	return (int)bytes;
}

static void fill_checksums(const struct request *r, uint32_t bytes)
{
	struct sn_frame where;

	if (!(r->raw[ETH_FLAGS] & (FILL_L3 | FILL_L4)) ||
	    !sn_frame_read(scratch.frame, bytes, &where))
		return;
	if (r->raw[ETH_FLAGS] & FILL_L3)
		sn_frame_fill_l3(scratch.frame, &where);
	if (r->raw[ETH_FLAGS] & FILL_L4)
		sn_frame_fill_l4(scratch.frame, &where);
}

/* Sends a long frame in segments, from the first one that is not sent yet. */
static int send_segments(struct sn_ether_sq *sq, const struct sn_frame_long *whole)
{
	uint32_t n = sn_frame_segments(whole);
	int rc = 0;

	if (!n || whole->headers + whole->mss > sizeof(scratch.segment))
		return fail(sq, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
	while (!rc && sq->segments < n) {
		rc = send_frame(sq->dev, scratch.segment,
				sn_frame_segment(whole, sq->segments, scratch.segment));
		sq->segments += !rc;
	}
	return rc;
}

/* 0: done; -EAGAIN: later; -EIO: the ring has failed. */
static int send_request(struct sn_ether_sq *sq, const struct request *r)
{
	uint16_t word = sn_ether_get16(r->raw + ETH_INLINE);
	uint32_t headers = word & INSERT_VLAN ? 0 : word & INLINE_BYTES;
	struct sn_frame_long whole;
	int bytes = r->bytes < ETH_BYTES ? -EINVAL : gather(sq, r, headers);

	if (bytes < 0)
		return fail(sq, bytes == -EACCES ? MLX5_CQE_SYNDROME_LOCAL_PROT_ERR
						 : MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
	if (word & INSERT_VLAN)
		bytes = (int)insert_vlan(scratch.frame, (uint32_t)bytes,
					 sn_ether_get16(r->raw + ETH_INLINE_START));
	if (r->opcode == MLX5_OPCODE_TSO) {
		whole = (struct sn_frame_long){ scratch.frame, (uint32_t)bytes, headers,
						sn_ether_get16(r->raw + ETH_MSS) };
		return send_segments(sq, &whole);
	}
	fill_checksums(r, (uint32_t)bytes);
	return send_frame(sq->dev, scratch.frame, (uint32_t)bytes);
}

static int run_request(struct sn_ether_sq *sq, const struct request *r)
{
	switch (r->opcode) {
	case MLX5_OPCODE_NOP: return 0;
	case MLX5_OPCODE_SEND:
	case MLX5_OPCODE_TSO: return send_request(sq, r);
	default: return fail(sq, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
	}
}

static bool runs(const struct sn_ether_sq *sq)
{
	return sq->ready && !sq->failed && sq->done != sq->rung && !sn_dev_stands_still(sq->dev);
}

static bool run_ring(struct sn_ether_sq *sq)
{
	struct request *r = &scratch.request;
	int n;

	for (n = 0; n < FRAMES_PER_TURN && runs(sq); n++) {
		int rc;

		read_request(sq, r);
		rc = run_request(sq, r);
		scratch.waits |= rc == -EAGAIN;
		if (rc)
			break;
		if (r->signaled)
			complete(sq, MLX5_CQE_REQ, 0);
		sq->done = (uint16_t)(sq->done + r->wqebbs);
		sq->segments = 0;
	}
	return n > 0;
}

bool sn_ether_run(void)
{
	bool worked = false;

	scratch.waits = false;
	for (struct sn_dev *dev = sn_engine.devs; dev; dev = dev->next)
		for (struct sn_ether_sq *sq = dev->ether.sqs; sq; sq = sq->next)
			worked |= run_ring(sq);
	return worked;
}

uint64_t sn_ether_next_ns(void)
{
	return scratch.waits ? sn_engine.now_ns + AGAIN_NS : UINT64_MAX;
}

static void ring(struct sn_ether_sq *sq)
{
	if (sq->ready)
		sq->rung = sn_ether_producer(&sq->attr, SN_ETHER_RECORD_SEND);
}

bool sn_ether_ring(struct sn_dev *dev, uint32_t number)
{
	struct sn_ether_sq *sq = dev->ether.sqs;

	while (sq && sq->number != number)
		sq = sq->next;
	if (sq)
		ring(sq);
	return sq;
}

void sn_ether_ring_all(struct sn_dev *dev)
{
	struct sn_ether_sq *sq;

	for (sq = dev->ether.sqs; sq; sq = sq->next)
		ring(sq);
}
