/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The responder: requests that come from the wire, and what is answered. Lock held. */
#ifndef SIMNIC_DEVICE_RESPONDER_H
#define SIMNIC_DEVICE_RESPONDER_H

#include "simnic/fabric/packet.h"

struct sn_qp;

#define SN_RD_QUEUE 32 /* READs being answered per QP: a window of the peer, and re-reads */

/* A READ that the responder is answering. */
struct sn_rd {
	uint32_t psn; /* PSN of the first response */
	uint8_t mtu;
	uint64_t addr, length, sent;
};

struct sn_atomic_reply {
	bool valid;
	uint32_t psn;
	uint64_t result;
};

/* The responder's part of a QP. */
struct sn_responder {
	uint16_t rq_cons;
	uint32_t held;	   /* 1 + the shared queue's receive that holds a part of a SEND; 0: none */
	uint32_t epsn;	   /* the PSN that is expected next */
	uint64_t executed; /* packets executed since epsn was set */
	bool ack_due, nak_sent;
	uint32_t acks_held;
	uint32_t rd_head, rd_tail;
	struct sn_rd rd[SN_RD_QUEUE];
	struct sn_atomic_reply replay[SN_MAX_RD_ATOMIC];
	uint32_t replay_next;
	/*
	 * answer to the newest atomic is due: it goes behind the write, or the requester would be
	 * the first to know
	 */
	bool answer_due;
};

void sn_responder_receive(struct sn_qp *qp, const struct sn_pkt *pkt);
bool sn_responder_run(struct sn_qp *qp); /* pending READ responses and acknowledgements */

#endif
