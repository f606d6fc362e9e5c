/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Ids: what a program makes by rdma_create_id(), or gets with a request to connect. One number, the
 * handle, names an id to the program; another one, which holds the handle, to other processes. Lock
 * held (device.h).
 */
#ifndef SIMNIC_CM_ID_H
#define SIMNIC_CM_ID_H

#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "simnic/cm/msg.h"

struct sn_cm_file;
struct sn_fabric;
struct sn_nic;

#define SN_CM_MAX_IDS 60000 /* number for a process; librdmacm finds handles below 65,536 only */

/* States of an id, by what the program has done with it, as in a kernel's cma.c. */
enum sn_cm_state {
	SN_CM_IDLE,
	SN_CM_BOUND,
	SN_CM_ADDR_QUERY,
	SN_CM_ADDR_RESOLVED,
	SN_CM_ROUTE_QUERY,
	SN_CM_ROUTE_RESOLVED,
	SN_CM_CONNECT,
	SN_CM_DISCONNECT,
	SN_CM_LISTEN,
	SN_CM_REMOVED, /* the id's NIC is gone; destroying it is all that works */
};

/* States of the dialog between the two connection managers (IBA 12.9.5). */
enum sn_cm_dialog {
	SN_CM_SILENT,
	SN_CM_REQ_SENT,
	SN_CM_REQ_RCVD,
	SN_CM_REP_SENT,
	SN_CM_REP_RCVD,
	SN_CM_ESTABLISHED,
	SN_CM_DREQ_SENT,
	SN_CM_DREQ_RCVD,
	SN_CM_TIMEWAIT,
	SN_CM_SIDR_REQ_SENT,
	SN_CM_SIDR_REQ_RCVD,
};

/* The other end. */
struct sn_cm_peer {
	uint32_t host, nic;
	uint32_t proc; /* process slot; valid while life is not 0 */
	uint64_t life; /* 0: nothing was heard of it yet */
	uint32_t id, qpn;
};

/* The terms that both ends agree on for their queue pairs. */
struct sn_cm_terms {
	uint32_t sq_psn, rq_psn; /* rq_psn is drawn here, sq_psn by the peer */
	uint8_t mtu, responder_resources, initiator_depth, retry_count, rnr_retry_count;
};

struct sn_cm_options {
	uint8_t tos;
	uint8_t ack_timeout; /* 0: not set */
	uint8_t min_rnr_timer;
	bool reuse, afonly, afonly_is_set;
};

/* The message that is repeated until its answer comes, or another reason to wait. */
struct sn_cm_retry {
	uint64_t due_ns; /* 0: nothing is awaited */
	uint64_t until_ns;
	uint32_t left; /* number of repetitions left */
	struct sn_cm_msg msg;
};

struct sn_cm_id {
	uint32_t handle, comm_id;
	uint64_t uid; /* 0: it came with a request and is not accepted yet; events are dropped */
	struct sn_cm_file *file;
	uint32_t backlog, events_reported;
	uint16_t ps;
	uint8_t qp_type;
	enum sn_cm_state state;
	enum sn_cm_dialog dialog;
	struct sn_cm_options options;
	struct sockaddr_storage src, dst;
	struct sn_nic *nic; /* NULL: not bound to one */
	uint32_t incarnation, gid_index;
	int32_t bind; /* slot of its port; -1: none */
	struct sn_cm_peer peer;
	struct sn_cm_terms terms;
	struct sn_cm_retry retry;
};

/* The connection manager of this process. */
struct sn_cm {
	struct sn_fabric *fabric; /* NULL: not started */
	uint32_t host, slot;
	uint64_t due_ns; /* time of the first retry that is due; UINT64_MAX: none */
	uint32_t n_ids, next_handle, made;
	struct sn_cm_id *ids[SN_CM_MAX_IDS]; /* by handle */
};
extern struct sn_cm sn_cm;

int sn_cm_id_make(struct sn_cm_file *file, uint16_t ps, uint8_t qp_type, struct sn_cm_id **out);
struct sn_cm_id *sn_cm_id_find(uint32_t handle); /* NULL: no such id */
struct sn_cm_id *sn_cm_id_of_message(uint32_t comm_id);
/* The next id, from the handle on; NULL: there are no more. */
struct sn_cm_id *sn_cm_id_next(uint32_t handle);
/* Says goodbye to the peer, and frees the id with its unread events. Returns those it read. */
uint32_t sn_cm_id_destroy(struct sn_cm_id *id);
void sn_cm_id_take_nic(struct sn_cm_id *id, struct sn_nic *nic, uint32_t gid_index);
void sn_cm_ids_forget(void); /* called in the child of a fork */

#endif
