/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Datagrams: a SIDR_REQ asks for the queue pair of a service, a SIDR_REP names it (IBA 12.11). */
#include <errno.h>
#include <string.h>

#include "simnic/cm/attr.h"
#include "simnic/cm/connect.h"
#include "simnic/cm/file.h"
#include "simnic/cm/id.h"
#include "simnic/cm/retry.h"
#include "simnic/cm/send.h"

int sn_cm_datagram_ask(struct sn_cm_id *id, const struct rdma_ucm_conn_param *param)
{
	struct sn_cm_msg *msg = &id->retry.msg;
	int err;

	sn_cm_msg_begin(id, msg, SN_CM_SIDR_REQ);
	err = sn_cm_data_put(msg, param->private_data, param->private_data_len,
			     SN_CM_SIDR_REQ_DATA);
	if (err)
		return err;
	id->dialog = SN_CM_SIDR_REQ_SENT;
	return 0;
}

int sn_cm_datagram_answer(struct sn_cm_id *id, uint8_t code,
			  const struct rdma_ucm_conn_param *param)
{
	struct sn_cm_msg msg;

	if (id->dialog != SN_CM_SIDR_REQ_RCVD)
		return -EINVAL;
	sn_cm_msg_begin(id, &msg, SN_CM_SIDR_REP);
	msg.code = code;
	if (param &&
	    sn_cm_data_put(&msg, param->private_data, param->private_data_len, SN_CM_SIDR_REP_DATA))
		return -EINVAL;
	if (code == SN_CM_SIDR_OK) {
		msg.qpn = param->qp_num;
		msg.qkey = sn_cm_qkey(id);
	}
	id->dialog = SN_CM_SILENT;
	sn_cm_send(id, &msg);
	return 0;
}

static void told(struct sn_cm_id *id, const struct sn_cm_msg *msg)
{
	bool ok = msg->code == SN_CM_SIDR_OK;
	struct rdma_ucm_ud_param *ud;

	ud = &sn_cm_tell(id, ok ? SN_CM_EVENT_ESTABLISHED : SN_CM_EVENT_UNREACHABLE, msg->code)
		      ->param.ud;
	memcpy(ud->private_data, msg->data, SN_CM_SIDR_REP_DATA);
	ud->private_data_len = SN_CM_SIDR_REP_DATA;
	if (!ok)
		return;
	ud->qp_num = msg->qpn;
	ud->qkey = msg->qkey;
	sn_cm_ah_attr(id, &ud->ah_attr);
}

void sn_cm_datagram_arrives(struct sn_cm_id *id, const struct sn_cm_msg *msg)
{
	if (msg->type != SN_CM_SIDR_REP || id->dialog != SN_CM_SIDR_REQ_SENT)
		return;
	sn_cm_retry_stop(id);
	id->dialog = SN_CM_SILENT;
	told(id, msg);
}
