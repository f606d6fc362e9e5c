/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The requester: a QP's send queue, and the messages of it that are on the wire. Lock held. */
#ifndef SIMNIC_DEVICE_REQUESTER_H
#define SIMNIC_DEVICE_REQUESTER_H

#include <stdbool.h>
#include <stdint.h>

struct sn_qp;

#define SN_WINDOW 128 /* messages on the wire per QP, power of two */

/* One message of the send window. */
struct sn_txe {
	uint16_t idx;
	uint8_t opcode, syndrome; /* syndrome != 0: fails when it becomes the oldest */
	bool signaled, done, rd_atomic, to_cqe;
	bool under_way;	       /* of a UMR: it takes effect later than it was taken */
	uint32_t psn, packets; /* the first one; packets: 0: never on the wire */
	uint32_t sent;	       /* of them, at least once; of a READ, its request */
	uint32_t acked;	       /* of them, from the first on */
	uint64_t length, got;
	uint8_t data[64]; /* scatter-to-CQE */
};

/* Its part of a QP. */
struct sn_requester {
	uint16_t sq_cons;		    /* next WQEBB to decode */
	uint16_t sq_rung;		    /* WQEBBs announced by the register */
	uint32_t rung_scan;		    /* dev.scans when that last changed */
	uint32_t tx_head, tx_next, tx_tail; /* window: oldest, next to (re)send, next free */
	uint32_t
		piece; /* of message tx_next: the packet that leaves next; 0: the first that has not come */
	uint32_t psn; /* of the next new message */
	uint32_t rd_outstanding;
	uint8_t retry_left, rnr_left;
	uint64_t rto_ns;	 /* deadline; 0: no timer */
	struct {		 /* the last packet */
		uint32_t owner;	 /* of the queue pair that it went to; 0: nobody */
		uint64_t before; /* this place of the owner's inbox */
		uint64_t at_ns;
	} sent;
	uint64_t rnr_ns; /* waits until; 0: does not */
	uint64_t umr_ns; /* when the first UMR that is under way takes effect; 0: there is none */
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
void sn_requester_go_back(struct sn_qp *qp); /* to the first packet that has not come */

#endif
