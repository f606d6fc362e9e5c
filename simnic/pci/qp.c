/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Queue pairs: their contexts and transitions. */
#include <string.h>

#include "simnic/pci/data.h"
#include "simnic/pci/handlers.h"
#include "simnic/pci/pci.h"

/* How a QP receives, in its context. */
enum { OWN_RING = 0, FROM_SRQ = 1 };
enum { LOG_SEGMENT = 4, GID = 16 };

static void read_rings(const uint8_t *qpc, struct sn_bridge_qp *qp)
{
	qp->has_sq = !SN_GET(qpc, qpc, no_sq);
	qp->log_sq = SN_GET(qpc, qpc, log_sq_size);
	qp->has_rq = SN_GET(qpc, qpc, rq_type) == OWN_RING;
	qp->log_rq = SN_GET(qpc, qpc, log_rq_size);
	qp->log_rq_stride = LOG_SEGMENT + SN_GET(qpc, qpc, log_rq_stride);
	qp->has_srq = SN_GET(qpc, qpc, rq_type) == FROM_SRQ;
	qp->srq = SN_GET(qpc, qpc, srqn_rmpn_xrqn);
	qp->record = SN_GET(qpc, qpc, dbr_addr);
}

static void read_context(const uint8_t *qpc, struct sn_bridge_qp *qp)
{
	qp->transport = SN_GET(qpc, qpc, st);
	qp->pd = SN_GET(qpc, qpc, pd);
	qp->send_cq = SN_GET(qpc, qpc, cqn_snd);
	qp->recv_cq = SN_GET(qpc, qpc, cqn_rcv);
	qp->uar = SN_GET(qpc, qpc, uar_page);
	qp->user_index = SN_GET(qpc, qpc, user_index);
	qp->cs_req = SN_GET(qpc, qpc, cs_req);
	qp->cs_res = SN_GET(qpc, qpc, cs_res);
	qp->source_qpn = SN_GET(qpc, qpc, deth_sqpn);
	read_rings(qpc, qp);
}

uint8_t sn_create_qp(struct sn_pci *pci, struct sn_command *cmd)
{
	const uint8_t *qpc = SN_AT(create_qp_in, cmd->in, qpc);
	struct sn_data_ring ring = {
		.list = SN_FIELD_BYTE(create_qp_in, pas),
		.log_page = 12 + SN_GET(qpc, qpc, log_page_size),
		.page_offset = SN_GET(qpc, qpc, page_offset),
	};
	struct sn_bridge_qp qp = { 0 };
	struct sn_pas pas = { 0 };
	uint32_t qpn;
	uint8_t status;

	if (!pci->bridge)
		return SN_NO_RESOURCES;
	read_context(qpc, &qp);
	ring.bytes = sn_bridge_ring_bytes(&qp);
	status = sn_data_pages(cmd, &ring, &pas, &qp.pages);
	if (!status)
		status = sn_data_status(sn_bridge_qp_create(pci->bridge, &qp, &qpn));
	sn_pas_free(&pas);
	if (!status)
		SN_SET(create_qp_out, cmd->out, qpn, qpn);
	return status;
}

uint8_t sn_destroy_qp(struct sn_pci *pci, struct sn_command *cmd)
{
	if (!pci->bridge)
		return SN_BAD_RESOURCE;
	return sn_data_status(sn_bridge_qp_destroy(pci->bridge, sn_command_number(cmd)));
}

static void read_path(const uint8_t *ads, struct sn_bridge_path *path)
{
	path->grh = SN_GET(ads, ads, grh);
	path->pkey_index = SN_GET(ads, ads, pkey_index);
	path->rlid = SN_GET(ads, ads, rlid);
	path->sl = SN_GET(ads, ads, sl);
	path->rate = SN_GET(ads, ads, stat_rate);
	path->port = SN_GET(ads, ads, vhca_port_num);
	path->ack_timeout = SN_GET(ads, ads, ack_timeout);
	path->sgid_index = SN_GET(ads, ads, src_addr_index);
	path->hop_limit = SN_GET(ads, ads, hop_limit);
	path->traffic_class = SN_GET(ads, ads, tclass);
	path->flow_label = SN_GET(ads, ads, flow_label);
	memcpy(path->rgid, SN_AT(ads, ads, rgid_rip), GID);
}

static void write_path(uint8_t *ads, const struct sn_bridge_path *path)
{
	SN_SET(ads, ads, grh, path->grh);
	SN_SET(ads, ads, pkey_index, path->pkey_index);
	SN_SET(ads, ads, rlid, path->rlid);
	SN_SET(ads, ads, sl, path->sl);
	SN_SET(ads, ads, stat_rate, path->rate);
	SN_SET(ads, ads, vhca_port_num, path->port);
	SN_SET(ads, ads, ack_timeout, path->ack_timeout);
	SN_SET(ads, ads, src_addr_index, path->sgid_index);
	SN_SET(ads, ads, hop_limit, path->hop_limit);
	SN_SET(ads, ads, tclass, path->traffic_class);
	SN_SET(ads, ads, flow_label, path->flow_label);
	memcpy(SN_AT(ads, ads, rgid_rip), path->rgid, GID);
}

static void read_attributes(const uint8_t *qpc, struct sn_bridge_qpc *attributes)
{
	read_path(SN_AT(qpc, qpc, primary_address_path), &attributes->path);
	attributes->remote_qpn = SN_GET(qpc, qpc, remote_qpn);
	attributes->qkey = SN_GET(qpc, qpc, q_key);
	attributes->next_send_psn = SN_GET(qpc, qpc, next_send_psn);
	attributes->next_rcv_psn = SN_GET(qpc, qpc, next_rcv_psn);
	attributes->mtu = SN_GET(qpc, qpc, mtu);
	attributes->retry_count = SN_GET(qpc, qpc, retry_count);
	attributes->rnr_retry = SN_GET(qpc, qpc, rnr_retry);
	attributes->min_rnr_nak = SN_GET(qpc, qpc, min_rnr_nak);
	attributes->log_sra_max = SN_GET(qpc, qpc, log_sra_max);
	attributes->log_rra_max = SN_GET(qpc, qpc, log_rra_max);
	attributes->rre = SN_GET(qpc, qpc, rre);
	attributes->rwe = SN_GET(qpc, qpc, rwe);
	attributes->rae = SN_GET(qpc, qpc, rae);
}

static void write_attributes(uint8_t *qpc, const struct sn_bridge_qpc *attributes)
{
	write_path(SN_AT(qpc, qpc, primary_address_path), &attributes->path);
	SN_SET(qpc, qpc, remote_qpn, attributes->remote_qpn);
	SN_SET(qpc, qpc, q_key, attributes->qkey);
	SN_SET(qpc, qpc, next_send_psn, attributes->next_send_psn);
	SN_SET(qpc, qpc, next_rcv_psn, attributes->next_rcv_psn);
	SN_SET(qpc, qpc, mtu, attributes->mtu);
	SN_SET(qpc, qpc, retry_count, attributes->retry_count);
	SN_SET(qpc, qpc, rnr_retry, attributes->rnr_retry);
	SN_SET(qpc, qpc, min_rnr_nak, attributes->min_rnr_nak);
	SN_SET(qpc, qpc, log_sra_max, attributes->log_sra_max);
	SN_SET(qpc, qpc, log_rra_max, attributes->log_rra_max);
	SN_SET(qpc, qpc, rre, attributes->rre);
	SN_SET(qpc, qpc, rwe, attributes->rwe);
	SN_SET(qpc, qpc, rae, attributes->rae);
	SN_SET(qpc, qpc, state, attributes->state);
	SN_SET(qpc, qpc, hw_sq_wqebb_counter, attributes->sq_counter);
	SN_SET(qpc, qpc, hw_rq_counter, attributes->rq_counter);
}

/* All transitions have their context at the same place; those to ERR and RST send none. */
uint8_t sn_modify_qp(struct sn_pci *pci, struct sn_command *cmd)
{
	uint32_t mask = SN_GET(rst2init_qp_in, cmd->in, opt_param_mask);
	struct sn_bridge_qpc attributes = { 0 };
	int error;

	if (!pci->bridge)
		return SN_BAD_RESOURCE;
	read_attributes(SN_AT(rst2init_qp_in, cmd->in, qpc), &attributes);
	error = sn_bridge_qp_modify(pci->bridge, sn_command_number(cmd), cmd->opcode, mask,
				    &attributes);
	return sn_data_status(error);
}

uint8_t sn_query_qp(struct sn_pci *pci, struct sn_command *cmd)
{
	struct sn_bridge_qpc attributes;
	int error;

	if (!pci->bridge)
		return SN_BAD_RESOURCE;
	error = sn_bridge_qp_query(pci->bridge, sn_command_number(cmd), &attributes);
	if (!error)
		write_attributes(SN_AT(query_qp_out, cmd->out, qpc), &attributes);
	return sn_data_status(error);
}
