/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A packet, as it lies in an inbox or is held back by the fabric. */
#ifndef SIMNIC_FABRIC_PACKET_H
#define SIMNIC_FABRIC_PACKET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "simnic/fabric/limits.h"
#include "simnic/fabric/tenant.h"

enum sn_pkt_op {
	SN_PKT_SEND,
	SN_PKT_WRITE,
	SN_PKT_READ,
	SN_PKT_FETCH_ADD,
	SN_PKT_CMP_SWAP,
	SN_PKT_ACK,
	SN_PKT_NAK, /* code in syndrome */
	SN_PKT_RNR,
	SN_PKT_READ_RESP,
	SN_PKT_ATOMIC_RESP,
	SN_PKT_UD,
	/* a message of rdma_cm (cm/msg.h), sent as a MAD; dst_qpn: the receiver's process slot */
	SN_PKT_CM,
	/* a frame of Ethernet, of a NIC's network interface; dst_qpn: SN_QPN_FRAMES */
	SN_PKT_FRAME,
};

enum {
	SN_PKT_F_CUT = 1,  /* lands in part, then the link is down: passes a closed path */
	SN_PKT_F_LAST = 2, /* last chunk of a READ response */
	SN_PKT_F_GRH = 4,  /* UD with a global route */
	/* the packet was held: only its receiver's end of the path counts any more */
	SN_PKT_F_LATE = 8,
	/* a packet of a SEND or WRITE, whose number is `first`: the payload is its own */
	SN_PKT_F_PIECE = 16,
	SN_PKT_F_ROCE_V1 = 32,	  /* UD: left by a RoCE v1 GID */
	SN_PKT_F_INVALIDATE = 64, /* SEND that ends the receiver's key in imm */
};

struct sn_pkt {
	_Atomic uint32_t seq;	/* turn of the inbox slot (Vyukov): owned by inbox.c */
	_Atomic int32_t filler; /* process that has taken the slot; 0: none, or not said yet */
	uint8_t op;		/* enum sn_pkt_op */
	uint8_t has_imm, solicited, syndrome;
	uint8_t mtu; /* path MTU of the sender's QP, as enum ibv_mtu counts */
	uint8_t src_host, src_nic, dst_host, dst_nic;
	uint8_t sgid[16];
	uint16_t slid;
	struct sn_service service;
	uint16_t src_proc;		      /* process slot of the sender, whose memory is read */
	uint32_t src_qpn, dst_qpn, psn, qkey; /* psn: the PSN of the message's first packet */
	uint32_t first; /* first packet of the message that is in here: those before have come */
	uint32_t imm;	/* big endian, verbatim */
	uint32_t rkey;
	uint64_t raddr, length;
	uint64_t atomic_a, atomic_b;
	uint64_t src_gen; /* generation of the sending QP: payload may be pulled only while equal */
	/* Payload staged by the sender: its address there, 0 = none; of a datagram 1. */
	uint64_t bounce;
	/* Value of the sender's bounce[bounce_slot] (datagram[...]) while bounce is valid. */
	uint64_t bounce_ticket;
	uint32_t bounce_slot;
	uint8_t flags;	   /* SN_PKT_F_* */
	uint32_t part;	   /* SN_PKT_F_CUT: bytes that land, from the message's first */
	uint32_t n_sge;	   /* payload is to be pulled from the sender by these; else inline */
	uint32_t n_inline; /* bytes of data[] in use when n_sge is 0 */
	union {		   /* last: only the used part travels */
		struct {
			uint64_t addr;
			uint32_t len;
		} sge[SN_PKT_MAX_SGE];
		uint8_t data[SN_PKT_INLINE];
	};
};

/* Nobody sends it again: it does not wait, and its payload lies in the fabric (struct sn_proc). */
static inline bool sn_pkt_is_datagram(enum sn_pkt_op op)
{
	return op == SN_PKT_UD || op == SN_PKT_FRAME;
}

static inline bool sn_pkt_is_response(enum sn_pkt_op op)
{
	return op == SN_PKT_ACK || op == SN_PKT_NAK || op == SN_PKT_RNR || op == SN_PKT_READ_RESP ||
	       op == SN_PKT_ATOMIC_RESP;
}

#endif
