/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The requester: a QP's send queue, and the messages of it that are on the wire. Lock held. */
#ifndef SIMNIC_DEVICE_REQUESTER_H
#define SIMNIC_DEVICE_REQUESTER_H

#include <stdbool.h>
#include <stdint.h>

struct sn_qp;

#define SN_WINDOW 128 /* messages on the wire per QP, power of two */

/* A message of the send window. */
struct sn_txe {
	uint16_t idx;
	uint8_t opcode, syndrome; /* syndrome != 0: fails when it becomes the oldest */
	bool signaled, done, rd_atomic, to_cqe;
	bool under_way;	       /* UMR: taken, and not yet in effect */
	uint32_t psn, packets; /* PSN of the first packet; packets: 0: never on the wire */
	uint32_t sent;	       /* packets sent at least once; for a READ, its request */
	uint32_t acked;	       /* packets acknowledged, from the first on */
	uint64_t length, got;
	uint8_t data[64]; /* scatter-to-CQE */
};

/* The requester's part of a QP. */
struct sn_requester {
	uint16_t sq_cons;		    /* next WQEBB to decode */
	uint16_t sq_rung;		    /* WQEBBs announced by the register */
	uint32_t rung_scan;		    /* dev.scans when that last changed */
	uint32_t tx_head, tx_next, tx_tail; /* window: oldest, next to (re)send, next free */
	/* packet of message tx_next that leaves next; 0: the first that has not come */
	uint32_t piece;
	uint32_t psn; /* PSN of the next new message */
	uint32_t rd_outstanding;
	uint8_t retry_left, rnr_left;
	uint64_t rto_ns;	 /* deadline; 0: no timer */
	struct {		 /* the last packet */
		uint32_t owner;	 /* process slot + 1 of the queue pair that it went to; 0: nobody */
		uint64_t before; /* place in the owner's inbox behind the packet */
		uint64_t at_ns;
	} sent;
	uint64_t rnr_ns; /* end of the RNR wait; 0: no wait */
	uint64_t umr_ns; /* time at which the first UMR under way takes effect; 0: none */
	bool torn;	 /* blueflame-torn: request torn_idx goes astray */
	uint16_t torn_idx;
	struct sn_txe tx[SN_WINDOW];
};

bool sn_requester_run(struct sn_qp *qp);
bool sn_requester_timers(struct sn_qp *qp);
/* Retires what is done, oldest first. */
void sn_requester_complete(struct sn_qp *qp);
/* Writes a completion with an error for the request at @idx. */
void sn_requester_req_err(struct sn_qp *qp, uint16_t idx, uint8_t opcode, uint8_t syndrome);
/* An answer came: counters and timer start over. */
void sn_requester_progress(struct sn_qp *qp);
void sn_requester_rnr(struct sn_qp *qp, uint64_t wait_ns);
void sn_requester_go_back(struct sn_qp *qp); /* goes to the first packet that has not come */

#endif
