/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "simnic/cm/connect.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>

#include "simnic/cm/address.h"
#include "simnic/cm/file.h"
#include "simnic/cm/gone.h"
#include "simnic/cm/id.h"
#include "simnic/cm/retry.h"
#include "simnic/cm/send.h"
#include "simnic/device/device.h"
#include "simnic/fabric/fabric.h"

#define BACKLOG_MAX 1024 /* net.rdma_ucm.max_backlog */
#define RETRIES_MAX 7
#define QPN_MASK    0xffffffu

/* ---- terms ---------------------------------------------------------------------------------- */

static uint8_t at_most(uint8_t value, uint8_t most)
{
	return value < most ? value : most;
}

int sn_cm_data_put(struct sn_cm_msg *msg, const uint8_t *data, uint8_t len, uint8_t most)
{
	if (len > most)
		return -EINVAL;
	memcpy(msg->data, data, len);
	return 0;
}

/* Writes the terms of this end, as the program says them, into a REQ or REP. */
static int terms_put(struct sn_cm_id *id, const struct rdma_ucm_conn_param *param,
		     struct sn_cm_msg *msg, uint8_t most)
{
	id->terms.responder_resources = param->responder_resources;
	id->terms.initiator_depth = param->initiator_depth;
	msg->qpn = param->qp_num & QPN_MASK;
	msg->psn = id->terms.rq_psn;
	msg->srq = param->srq;
	msg->responder_resources = param->responder_resources;
	msg->initiator_depth = param->initiator_depth;
	msg->flow_control = param->flow_control;
	msg->retry_count = at_most(param->retry_count, RETRIES_MAX);
	msg->rnr_retry_count = at_most(param->rnr_retry_count, RETRIES_MAX);
	return sn_cm_data_put(msg, param->private_data, param->private_data_len, most);
}

/* Takes the peer's terms. Its reads are those that this end answers, and the other way round. */
static void terms_take(struct sn_cm_id *id, const struct sn_cm_msg *msg)
{
	id->peer.proc = msg->proc;
	id->peer.life = msg->life;
	id->peer.id = msg->local_id;
	id->peer.qpn = msg->qpn;
	id->terms.sq_psn = msg->psn;
	id->terms.responder_resources = msg->initiator_depth;
	id->terms.initiator_depth = msg->responder_resources;
	id->terms.rnr_retry_count = msg->rnr_retry_count;
}

/* Fills the event of a REQ, REP or REJ: a program reads all bytes of that kind of message. */
static void conn_event(struct rdma_ucm_event_resp *resp, const struct sn_cm_msg *msg, uint8_t bytes)
{
	struct rdma_ucm_conn_param *param = &resp->param.conn;

	memcpy(param->private_data, msg->data, bytes);
	param->private_data_len = bytes;
	param->responder_resources = msg->initiator_depth;
	param->initiator_depth = msg->responder_resources;
	param->flow_control = msg->flow_control;
	param->retry_count = msg->retry_count;
	param->rnr_retry_count = msg->rnr_retry_count;
	param->srq = msg->srq;
	param->qp_num = msg->qpn;
	resp->ece.vendor_id = msg->ece_vendor;
	resp->ece.attr_mod = msg->ece_attr;
}

/* ---- what a program asks for ---------------------------------------------------------------- */

static int connect_stream(struct sn_cm_id *id, const struct rdma_ucm_connect *cmd)
{
	struct sn_cm_msg *msg = &id->retry.msg;
	int err;

	sn_cm_msg_begin(id, msg, SN_CM_REQ);
	err = terms_put(id, &cmd->conn_param, msg, SN_CM_REQ_DATA);
	if (err)
		return err;
	id->terms.mtu = (uint8_t)atomic_load(&id->nic->mtu);
	id->terms.retry_count = msg->retry_count;
	msg->mtu = id->terms.mtu;
	msg->traffic_class = id->options.tos;
	msg->life_time = id->options.ack_timeout;
	msg->ece_vendor = cmd->ece.vendor_id;
	msg->ece_attr = cmd->ece.attr_mod;
	id->dialog = SN_CM_REQ_SENT;
	return 0;
}

int sn_cm_connect(struct sn_cm_id *id, const struct rdma_ucm_connect *cmd)
{
	int err;

	if (!cmd->conn_param.valid || id->state != SN_CM_ROUTE_RESOLVED)
		return -EINVAL;
	err = id->qp_type == IBV_QPT_UD ? sn_cm_datagram_ask(id, &cmd->conn_param)
					: connect_stream(id, cmd);
	if (err)
		return err;
	id->state = SN_CM_CONNECT;
	sn_cm_retry_begin(id);
	return 0;
}

int sn_cm_listen(struct sn_cm_id *id, uint32_t backlog)
{
	struct sockaddr_storage any = { .ss_family = AF_INET };
	int err = id->state == SN_CM_IDLE ? sn_cm_bind_id(id, &any) : 0;

	if (err)
		return err;
	if (id->state != SN_CM_BOUND)
		return -EINVAL;
	err = sn_cm_bind_may_listen(sn_cm.fabric, (uint32_t)id->bind);
	if (err)
		return err;
	id->backlog = backlog && backlog < BACKLOG_MAX ? backlog : BACKLOG_MAX;
	id->state = SN_CM_LISTEN;
	sn_cm_bind_listens(sn_cm.fabric, (uint32_t)id->bind, true);
	return 0;
}

static int accept_request(struct sn_cm_id *id, const struct rdma_ucm_accept *cmd)
{
	struct sn_cm_msg *msg = &id->retry.msg;
	int err;

	if (id->dialog != SN_CM_REQ_RCVD)
		return -EINVAL;
	sn_cm_msg_begin(id, msg, SN_CM_REP);
	err = terms_put(id, &cmd->conn_param, msg, SN_CM_REP_DATA);
	if (err)
		return err;
	msg->mtu = id->terms.mtu;
	msg->ece_vendor = cmd->ece.vendor_id;
	msg->ece_attr = cmd->ece.attr_mod;
	id->dialog = SN_CM_REP_SENT;
	id->uid = cmd->uid;
	sn_cm_retry_begin(id);
	return 0;
}

/* The program that asked for the connection has its queue pair ready. */
static int accept_reply(struct sn_cm_id *id)
{
	if (id->dialog != SN_CM_REP_RCVD)
		return -EINVAL;
	id->dialog = SN_CM_ESTABLISHED;
	sn_cm_send_plain(id, SN_CM_RTU);
	return 0;
}

static int accept_datagrams(struct sn_cm_id *id, const struct rdma_ucm_accept *cmd)
{
	int err = sn_cm_datagram_answer(id, SN_CM_SIDR_OK, &cmd->conn_param);

	if (!err && cmd->conn_param.valid)
		id->uid = cmd->uid;
	return err;
}

static int accept_any(struct sn_cm_id *id, const struct rdma_ucm_accept *cmd)
{
	if (id->qp_type == IBV_QPT_UD)
		return accept_datagrams(id, cmd);
	return cmd->conn_param.valid ? accept_request(id, cmd) : accept_reply(id);
}

static int reject_with(struct sn_cm_id *id, uint8_t reason, const uint8_t *data, uint8_t len)
{
	struct sn_cm_msg msg;

	sn_cm_msg_begin(id, &msg, SN_CM_REJ);
	msg.code = reason;
	if (sn_cm_data_put(&msg, data, len, SN_CM_REJ_DATA))
		return -EINVAL;
	switch (id->dialog) {
	case SN_CM_REQ_SENT:
	case SN_CM_REQ_RCVD:
	case SN_CM_REP_RCVD:
		sn_cm_retry_stop(id);
		id->dialog = SN_CM_SILENT;
		break;
	case SN_CM_REP_SENT: sn_cm_timewait(id); break;
	default: return -EINVAL;
	}
	sn_cm_send(id, &msg);
	return 0;
}

int sn_cm_accept(struct sn_cm_id *id, const struct rdma_ucm_accept *cmd)
{
	int err;

	if (id->state != SN_CM_CONNECT)
		return -EINVAL;
	err = accept_any(id, cmd);
	if (err && id->qp_type != IBV_QPT_UD)
		reject_with(id, SN_CM_REJ_CONSUMER_DEFINED, NULL, 0);
	return err;
}

int sn_cm_reject(struct sn_cm_id *id, const struct rdma_ucm_reject *cmd)
{
	struct rdma_ucm_conn_param param = { .private_data_len = cmd->private_data_len };
	uint8_t reason = cmd->reason ? cmd->reason : SN_CM_REJ_CONSUMER_DEFINED;

	if (reason != SN_CM_REJ_CONSUMER_DEFINED && reason != SN_CM_REJ_VENDOR_OPTION)
		return -EINVAL;
	if (id->qp_type != IBV_QPT_UD)
		return reject_with(id, reason, cmd->private_data, cmd->private_data_len);
	memcpy(param.private_data, cmd->private_data, cmd->private_data_len);
	return sn_cm_datagram_answer(id, SN_CM_SIDR_REJECT, &param);
}

/* Begins the end, or answers the peer that has begun it. */
int sn_cm_disconnect(struct sn_cm_id *id)
{
	if (!id->nic || id->state < SN_CM_CONNECT)
		return -EINVAL;
	if (id->dialog == SN_CM_ESTABLISHED) {
		id->dialog = SN_CM_DREQ_SENT;
		sn_cm_msg_begin(id, &id->retry.msg, SN_CM_DREQ);
		sn_cm_retry_begin(id);
	} else if (id->dialog == SN_CM_DREQ_RCVD) {
		sn_cm_send_plain(id, SN_CM_DREP);
		sn_cm_timewait(id);
	}
	return 0;
}

static void established(struct sn_cm_id *id)
{
	sn_cm_retry_stop(id);
	id->dialog = SN_CM_ESTABLISHED;
	sn_cm_tell(id, SN_CM_EVENT_ESTABLISHED, 0);
}

int sn_cm_notify(struct sn_cm_id *id, uint32_t event)
{
	if (!id->nic || event != IBV_EVENT_COMM_EST)
		return -EINVAL;
	if (id->dialog == SN_CM_ESTABLISHED)
		return -EISCONN;
	if (id->dialog != SN_CM_REP_SENT)
		return -EINVAL;
	established(id);
	return 0;
}

void sn_cm_say_goodbye(struct sn_cm_id *id)
{
	sn_cm_retry_stop(id);
	switch (id->dialog) {
	case SN_CM_REQ_SENT: sn_cm_reject_as(id, SN_CM_REJ_TIMEOUT); break;
	case SN_CM_REQ_RCVD:
	case SN_CM_REP_SENT:
	case SN_CM_REP_RCVD: sn_cm_reject_as(id, SN_CM_REJ_CONSUMER_DEFINED); break;
	case SN_CM_ESTABLISHED: sn_cm_send_plain(id, SN_CM_DREQ); break;
	case SN_CM_DREQ_RCVD: sn_cm_send_plain(id, SN_CM_DREP); break;
	case SN_CM_SIDR_REQ_RCVD: sn_cm_datagram_answer(id, SN_CM_SIDR_REJECT, NULL); break;
	case SN_CM_SILENT:
	case SN_CM_DREQ_SENT:
	case SN_CM_TIMEWAIT:
	case SN_CM_SIDR_REQ_SENT: break;
	}
	id->dialog = SN_CM_SILENT;
}

/* ---- what the peer says --------------------------------------------------------------------- */

static void disconnected(struct sn_cm_id *id)
{
	if (id->state != SN_CM_CONNECT)
		return;
	id->state = SN_CM_DISCONNECT;
	sn_cm_tell(id, SN_CM_EVENT_DISCONNECTED, 0);
}

static void rep_arrives(struct sn_cm_id *id, const struct sn_cm_msg *msg)
{
	if (id->dialog == SN_CM_ESTABLISHED)
		return sn_cm_send_plain(id, SN_CM_RTU); /* the first one was lost */
	if (id->dialog == SN_CM_REP_RCVD)
		return sn_cm_send_plain(id, SN_CM_MRA);
	if (id->dialog != SN_CM_REQ_SENT)
		return;
	sn_cm_retry_stop(id);
	id->dialog = SN_CM_REP_RCVD;
	terms_take(id, msg);
	sn_cm_send_plain(id, SN_CM_MRA);
	conn_event(sn_cm_tell(id, SN_CM_EVENT_CONNECT_RESPONSE, 0), msg, SN_CM_REP_DATA);
}

static void rej_arrives(struct sn_cm_id *id, const struct sn_cm_msg *msg)
{
	switch (id->dialog) {
	case SN_CM_REQ_SENT:
	case SN_CM_REQ_RCVD:
	case SN_CM_REP_SENT:
		sn_cm_retry_stop(id);
		id->dialog = SN_CM_SILENT;
		break;
	case SN_CM_REP_RCVD:
	case SN_CM_ESTABLISHED:
	case SN_CM_DREQ_SENT: sn_cm_timewait(id); break;
	default: return;
	}
	if (id->state == SN_CM_CONNECT)
		conn_event(sn_cm_tell(id, SN_CM_EVENT_REJECTED, msg->code), msg, SN_CM_REJ_DATA);
}

static void dreq_arrives(struct sn_cm_id *id)
{
	switch (id->dialog) {
	case SN_CM_REP_SENT:
	case SN_CM_ESTABLISHED:
	case SN_CM_DREQ_SENT:
		sn_cm_retry_stop(id);
		id->dialog = SN_CM_DREQ_RCVD;
		disconnected(id);
		break;
	case SN_CM_TIMEWAIT: sn_cm_send_plain(id, SN_CM_DREP); break;
	default: break;
	}
}

static void drep_arrives(struct sn_cm_id *id)
{
	if (id->dialog != SN_CM_DREQ_SENT && id->dialog != SN_CM_DREQ_RCVD)
		return;
	sn_cm_timewait(id);
	disconnected(id);
}

/* The peer of a message that was not waited for is learnt from the first one that comes. */
static bool is_from_peer(struct sn_cm_id *id, const struct sn_cm_msg *msg)
{
	if (!msg->local_id)
		return true; /* its kernel's own */
	if (id->peer.life)
		return id->peer.id == msg->local_id && id->peer.life == msg->life;
	id->peer.proc = msg->proc;
	id->peer.life = msg->life;
	id->peer.id = msg->local_id;
	return true;
}

static void dialog_arrives(struct sn_cm_id *id, const struct sn_cm_msg *msg)
{
	switch (msg->type) {
	case SN_CM_MRA:
		if (id->dialog == SN_CM_REQ_SENT || id->dialog == SN_CM_REP_SENT)
			sn_cm_retry_extend(id);
		return;
	case SN_CM_REP: return rep_arrives(id, msg);
	case SN_CM_RTU:
		if (id->dialog == SN_CM_REP_SENT)
			established(id);
		return;
	case SN_CM_REJ: return rej_arrives(id, msg);
	case SN_CM_DREQ: return dreq_arrives(id);
	case SN_CM_DREP: return drep_arrives(id);
	default: return sn_cm_datagram_arrives(id, msg);
	}
}

void sn_cm_peer_gone(struct sn_cm_id *id)
{
	struct sn_cm_msg msg = { .type = SN_CM_DREQ };

	if (id->dialog == SN_CM_REQ_SENT || id->dialog == SN_CM_REQ_RCVD ||
	    id->dialog == SN_CM_REP_RCVD) {
		msg.type = SN_CM_REJ;
		msg.code = id->dialog == SN_CM_REQ_RCVD ? SN_CM_REJ_TIMEOUT
							: SN_CM_REJ_CONSUMER_DEFINED;
	}
	dialog_arrives(id, &msg);
}

/* ---- requests ------------------------------------------------------------------------------- */

/* The id that this request has made already, as it is repeated. */
static struct sn_cm_id *request_known(const struct sn_cm_msg *msg)
{
	struct sn_cm_id *id;

	for (id = sn_cm_id_next(0); id; id = sn_cm_id_next(id->handle + 1))
		if (id->peer.id == msg->local_id && id->peer.life == msg->life)
			return id;
	return NULL;
}

static void request_fill(struct sn_cm_id *id, const struct sn_pkt *pkt, const struct sn_cm_msg *msg)
{
	struct sn_nic *nic = &sn_cm.fabric->nic[sn_cm.host][pkt->dst_nic];
	uint8_t mtu = (uint8_t)atomic_load(&nic->mtu);

	sn_cm_addr_write(&msg->dst, &id->src);
	sn_cm_addr_write(&msg->src, &id->dst);
	sn_cm_id_take_nic(id, nic, sn_cm_gid_index(nic, msg->dst.ip));
	id->peer.host = pkt->src_host;
	id->peer.nic = pkt->src_nic;
	terms_take(id, msg);
	id->terms.mtu = at_most(msg->mtu, mtu);
	id->terms.retry_count = msg->retry_count;
	id->options.tos = msg->traffic_class;
	id->options.ack_timeout = msg->life_time;
	id->state = SN_CM_CONNECT;
	id->dialog = id->qp_type == IBV_QPT_UD ? SN_CM_SIDR_REQ_RCVD : SN_CM_REQ_RCVD;
}

static void request_tell(struct sn_cm_id *id, struct rdma_ucm_event_resp *resp,
			 const struct sn_cm_msg *msg)
{
	resp->event = SN_CM_EVENT_CONNECT_REQUEST;
	if (id->qp_type != IBV_QPT_UD)
		return conn_event(resp, msg, SN_CM_REQ_DATA);
	memcpy(resp->param.ud.private_data, msg->data, SN_CM_SIDR_REQ_DATA);
	resp->param.ud.private_data_len = SN_CM_SIDR_REQ_DATA;
}

/* A new id for a request. Where there is no room the request is dropped, and comes again. */
static void request_new(struct sn_cm_id *listener, const struct sn_pkt *pkt,
			const struct sn_cm_msg *msg)
{
	struct rdma_ucm_event_resp *resp;
	struct sn_cm_id *id;

	if (!listener->backlog ||
	    sn_cm_id_make(listener->file, listener->ps, listener->qp_type, &id))
		return;
	request_fill(id, pkt, msg);
	if (sn_cm_tell_request(listener, id, &resp)) {
		id->dialog = SN_CM_SILENT;
		sn_cm_id_destroy(id);
		return;
	}
	listener->backlog--;
	request_tell(id, resp, msg);
	if (id->dialog == SN_CM_REQ_RCVD)
		sn_cm_send_plain(id, SN_CM_MRA);
}

static void request_arrives(const struct sn_pkt *pkt, const struct sn_cm_msg *msg)
{
	struct sn_cm_id *listener = sn_cm_id_of_message(msg->remote_id);
	struct sn_cm_id *known = request_known(msg);

	if (known && known->dialog == SN_CM_REQ_RCVD)
		sn_cm_send_plain(known, SN_CM_MRA);
	else if (!known && (!listener || listener->state != SN_CM_LISTEN))
		sn_cm_answer_unknown(pkt, msg);
	else if (!known)
		request_new(listener, pkt, msg);
}

void sn_cm_receive(const struct sn_pkt *pkt)
{
	struct sn_cm_msg msg;
	struct sn_cm_id *id;

	memcpy(&msg, pkt->data, sizeof(msg));
	sn_cm_gone_watch(sn_clock_ns());
	if (msg.type == SN_CM_REQ || msg.type == SN_CM_SIDR_REQ)
		return request_arrives(pkt, &msg);
	id = sn_cm_id_of_message(msg.remote_id);
	if (id && id->nic && id->nic->index == pkt->dst_nic && is_from_peer(id, &msg))
		dialog_arrives(id, &msg);
	else
		sn_cm_answer_unknown(pkt, &msg);
}
