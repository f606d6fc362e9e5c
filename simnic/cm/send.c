/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "simnic/cm/send.h"

#include <string.h>

#include "simnic/cm/address.h"
#include "simnic/cm/id.h"
#include "simnic/device/device.h"
#include "simnic/fabric/fabric.h"
#include "simnic/fabric/inbox.h"
#include "simnic/fabric/path.h"

struct way {
	uint32_t src_host, src_nic, dst_host, dst_nic;
	uint32_t proc; /* process slot of the receiver */
};

void sn_cm_msg_begin(const struct sn_cm_id *id, struct sn_cm_msg *msg, enum sn_cm_msg_type type)
{
	*msg = (struct sn_cm_msg){
		.type = (uint8_t)type,
		.qp_type = id->qp_type,
		.local_id = id->comm_id,
		.remote_id = id->peer.id,
		.life = sn_proc_life(&sn_cm.fabric->proc[sn_cm.slot]),
		.proc = (uint16_t)sn_cm.slot,
		.ps = id->ps,
	};
	sn_cm_addr_read(&id->src, &msg->src);
	sn_cm_addr_read(&id->dst, &msg->dst);
}

/* ---- onto the wire -------------------------------------------------------------------------- */

static void pkt_fill(struct sn_pkt *pkt, const struct way *way, const struct sn_cm_msg *msg,
		     uint8_t flags)
{
	memset((char *)pkt + offsetof(struct sn_pkt, op), 0,
	       offsetof(struct sn_pkt, sge) - offsetof(struct sn_pkt, op));
	pkt->op = SN_PKT_CM;
	pkt->flags = flags;
	pkt->src_host = (uint8_t)way->src_host;
	pkt->src_nic = (uint8_t)way->src_nic;
	pkt->dst_host = (uint8_t)way->dst_host;
	pkt->dst_nic = (uint8_t)way->dst_nic;
	pkt->dst_qpn = way->proc;
	pkt->src_proc = (uint16_t)sn_cm.slot;
	pkt->n_inline = sizeof(*msg);
	memcpy(pkt->data, msg, sizeof(*msg));
}

static void line_enter(struct sn_line *line, const struct sn_pkt *pkt)
{
	struct sn_line_slot *slots[2];
	int n = sn_line_enter(sn_cm.fabric, line, pkt->n_inline, sn_cm.slot, sn_clock_ns(), false,
			      slots);

	for (int i = 0; i < n; i++) {
		memcpy(&slots[i]->pkt, pkt, sizeof(*pkt));
		slots[i]->pkt.flags |= SN_PKT_F_LATE; /* the sender may be gone when it arrives */
		sn_line_ready(sn_cm.fabric, slots[i]);
	}
}

static void emit(const struct way *way, const struct sn_cm_msg *msg, uint8_t flags)
{
	static struct sn_pkt pkt;
	struct sn_line *line;

	pkt_fill(&pkt, way, msg, flags);
	line = sn_line_of(sn_cm.fabric, &pkt);
	if (line)
		line_enter(line, &pkt);
	else
		sn_inbox_push(sn_cm.fabric, way->proc, &pkt); /* a full inbox is a full wire */
}

/* ---- who gets it ---------------------------------------------------------------------------- */

/* The answer of a host's kernel where no program has the id or the service. 0: none. */
static uint8_t answer_of(const struct sn_cm_msg *msg, uint8_t *code)
{
	*code = 0;
	switch (msg->type) {
	case SN_CM_REQ: *code = SN_CM_REJ_INVALID_SERVICE_ID; return SN_CM_REJ;
	case SN_CM_REP: *code = SN_CM_REJ_INVALID_COMM_ID; return SN_CM_REJ;
	case SN_CM_SIDR_REQ: *code = SN_CM_SIDR_UNSUPPORTED; return SN_CM_SIDR_REP;
	case SN_CM_DREQ: return SN_CM_DREP;
	default: return 0;
	}
}

/* @way: the answer's. */
static void answer(const struct way *way, const struct sn_cm_msg *msg)
{
	struct sn_cm_msg to_it = { .remote_id = msg->local_id,
				   .qp_type = msg->qp_type,
				   .ps = msg->ps,
				   .src = msg->dst,
				   .dst = msg->src };

	to_it.type = answer_of(msg, &to_it.code);
	if (to_it.type)
		emit(way, &to_it, 0);
}

void sn_cm_answer_unknown(const struct sn_pkt *pkt, const struct sn_cm_msg *msg)
{
	struct way back = { pkt->dst_host, pkt->dst_nic, pkt->src_host, pkt->src_nic,
			    pkt->src_proc };

	answer(&back, msg);
}

/* Finds the process that has the id, or listens. False: there is none. */
static bool receiver_find(const struct sn_cm_id *id, struct way *way, struct sn_cm_msg *msg)
{
	struct sn_cm_listener listener;
	const struct sn_proc *proc;

	if (msg->type == SN_CM_REQ || msg->type == SN_CM_SIDR_REQ) {
		if (sn_cm_bind_find(sn_cm.fabric, way->dst_host, way->dst_nic, msg->ps,
				    msg->qp_type, &msg->dst, &listener))
			return false;
		way->proc = listener.proc;
		msg->remote_id = listener.id;
		return true;
	}
	way->proc = id->peer.proc;
	proc = &sn_cm.fabric->proc[way->proc];
	return id->peer.life && sn_proc_life(proc) == id->peer.life && sn_proc_lives(proc);
}

/*
 * True if the message leaves. A NIC that is taken away in good order sends its goodbyes before its
 * queue pairs are gone, hence without a look at its own state.
 */
static bool leaves(const struct sn_cm_id *id, const struct way *way, uint8_t *flags)
{
	bool going = atomic_load(&id->nic->state) == SN_NIC_DISASSOCIATED &&
		     !atomic_load(&id->nic->removal.still);

	*flags = going ? SN_PKT_F_LATE : 0;
	if (atomic_load(&id->nic->incarnation) != id->incarnation)
		return false;
	if (!going)
		return sn_path_open(sn_cm.fabric, way->src_host, way->src_nic, way->dst_host,
				    way->dst_nic, SN_PKT_CM);
	return sn_path_wire_open(sn_cm.fabric, way->src_host, way->src_nic, way->dst_host,
				 way->dst_nic);
}

void sn_cm_send(struct sn_cm_id *id, const struct sn_cm_msg *msg)
{
	struct way way = { id->nic->host, id->nic->index, id->peer.host, id->peer.nic, 0 };
	struct way back = { way.dst_host, way.dst_nic, way.src_host, way.src_nic, sn_cm.slot };
	struct sn_cm_msg out = *msg;
	uint8_t flags;

	if (!leaves(id, &way, &flags))
		return;
	sn_count(&id->nic->count.hw.tx_packets, 1);
	if (receiver_find(id, &way, &out))
		emit(&way, &out, flags);
	else
		answer(&back, &out);
}

void sn_cm_send_plain(struct sn_cm_id *id, enum sn_cm_msg_type type)
{
	struct sn_cm_msg msg;

	sn_cm_msg_begin(id, &msg, type);
	sn_cm_send(id, &msg);
}

void sn_cm_reject_as(struct sn_cm_id *id, uint8_t reason)
{
	struct sn_cm_msg msg;

	sn_cm_msg_begin(id, &msg, SN_CM_REJ);
	msg.code = reason;
	sn_cm_send(id, &msg);
}
