/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Messages between connection managers (IBA 12.6, 12.11), as they lie in an SN_PKT_CM. */
#ifndef SIMNIC_CM_MSG_H
#define SIMNIC_CM_MSG_H

#include <stdint.h>

#include "simnic/fabric/cmbind.h"
#include "simnic/fabric/packet.h"

enum sn_cm_msg_type {
	SN_CM_REQ = 1,
	SN_CM_MRA, /* the message has come, and its answer takes longer */
	SN_CM_REJ,
	SN_CM_REP,
	SN_CM_RTU,
	SN_CM_DREQ,
	SN_CM_DREP,
	SN_CM_SIDR_REQ,
	SN_CM_SIDR_REP,
};

/* Reasons of a REJ (IBA 12.6.7.2). */
enum {
	SN_CM_REJ_TIMEOUT = 4,
	SN_CM_REJ_INVALID_COMM_ID = 6,
	SN_CM_REJ_INVALID_SERVICE_ID = 8,
	SN_CM_REJ_CONSUMER_DEFINED = 28,
	SN_CM_REJ_VENDOR_OPTION = 35,
};

/* States of a SIDR_REP (IBA 12.11.2.1). */
enum { SN_CM_SIDR_OK = 0, SN_CM_SIDR_UNSUPPORTED = 1, SN_CM_SIDR_REJECT = 2 };

/* Bytes of private data in each message. The kernel's own header takes 36 of a request's. */
enum {
	SN_CM_HEADER = 36,
	SN_CM_REQ_DATA = 92 - SN_CM_HEADER,
	SN_CM_REJ_DATA = 148,
	SN_CM_REP_DATA = 196,
	SN_CM_SIDR_REQ_DATA = 216 - SN_CM_HEADER,
	SN_CM_SIDR_REP_DATA = 136,
	SN_CM_DATA = SN_CM_REP_DATA,
};

struct sn_cm_msg {
	uint8_t type; /* enum sn_cm_msg_type */
	uint8_t code; /* reason of a REJ; state of a SIDR_REP */
	uint8_t qp_type, mtu;
	uint32_t local_id, remote_id; /* ids at the sender, and at the receiver (0: not known) */
	uint64_t life;		      /* life of the sending process: sn_proc_life() */
	uint16_t proc;		      /* process slot of the sender */
	uint16_t ps;
	struct sn_cm_addr src, dst;
	uint32_t qpn, qkey;
	uint32_t psn; /* the PSN with which the receiver begins to send */
	uint8_t responder_resources, initiator_depth, flow_control, retry_count, rnr_retry_count;
	uint8_t srq, traffic_class, life_time;
	uint32_t ece_vendor, ece_attr;
	uint8_t data[SN_CM_DATA]; /* behind what the program gave all is 0 */
};

_Static_assert(sizeof(struct sn_cm_msg) <= SN_PKT_INLINE, "a message fits into a packet");

#endif
