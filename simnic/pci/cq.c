/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Completion queues. */
#include "simnic/pci/data.h"
#include "simnic/pci/handlers.h"
#include "simnic/pci/pci.h"

/* States of a CQ in its context. */
enum { ARMED = 9, FIRED = 10 };
enum { RESIZE = 1, CQE_128 = 1 };

/* Creation and resizing have the context and the list at the same place. */
static uint8_t read_context(const struct sn_command *cmd, struct sn_bridge_cq *cq,
			    struct sn_pas *pas)
{
	const uint8_t *context = SN_AT(create_cq_in, cmd->in, cq_context);
	struct sn_data_ring ring = {
		.list = SN_FIELD_BYTE(create_cq_in, pas),
		.log_page = 12 + SN_GET(cqc, context, log_page_size),
		.page_offset = SN_GET(cqc, context, page_offset),
	};

	cq->log_size = SN_GET(cqc, context, log_cq_size);
	cq->cqe_size = SN_GET(cqc, context, cqe_sz) == CQE_128 ? 128 : 64;
	cq->record = SN_GET(cqc, context, dbr_addr);
	cq->user = SN_GET(cqc, context, c_eqn_or_apu_element) & 0xff;
	ring.bytes = (uint64_t)cq->cqe_size << cq->log_size;
	return sn_data_pages(cmd, &ring, pas, &cq->pages);
}

uint8_t sn_create_cq(struct sn_pci *pci, struct sn_command *cmd)
{
	struct sn_bridge_cq cq = { 0 };
	struct sn_pas pas = { 0 };
	uint32_t cqn;
	uint8_t status;

	if (!pci->bridge)
		return SN_NO_RESOURCES;
	status = read_context(cmd, &cq, &pas);
	if (!status)
		status = sn_data_status(sn_bridge_cq_create(pci->bridge, &cq, &cqn));
	sn_pas_free(&pas);
	if (!status)
		SN_SET(create_cq_out, cmd->out, cqn, cqn);
	return status;
}

/* Moderation of events is taken and not obeyed: each arming gives one event. */
uint8_t sn_modify_cq(struct sn_pci *pci, struct sn_command *cmd)
{
	uint32_t cqn = SN_GET(modify_cq_in, cmd->in, cqn);
	struct sn_bridge_cq cq = { 0 };
	struct sn_pas pas = { 0 };
	uint8_t status;

	if (!pci->bridge)
		return SN_BAD_RESOURCE;
	if (cmd->op_mod != RESIZE)
		return SN_OK;
	status = read_context(cmd, &cq, &pas);
	if (!status)
		status = sn_data_status(sn_bridge_cq_resize(pci->bridge, cqn, &cq));
	sn_pas_free(&pas);
	return status;
}

uint8_t sn_destroy_cq(struct sn_pci *pci, struct sn_command *cmd)
{
	if (!pci->bridge)
		return SN_BAD_RESOURCE;
	return sn_data_status(sn_bridge_cq_destroy(pci->bridge, sn_command_number(cmd)));
}

uint8_t sn_query_cq(struct sn_pci *pci, struct sn_command *cmd)
{
	uint8_t *context = SN_AT(query_cq_out, cmd->out, cq_context);
	struct sn_bridge_cq_state state;
	int error;

	if (!pci->bridge)
		return SN_BAD_RESOURCE;
	error = sn_bridge_cq_query(pci->bridge, sn_command_number(cmd), &state);
	if (error)
		return sn_data_status(error);
	SN_SET(cqc, context, status, state.failed ? FIRED : 0);
	SN_SET(cqc, context, st, state.armed ? ARMED : FIRED);
	SN_SET(cqc, context, producer_counter, state.produced);
	SN_SET(cqc, context, consumer_counter, state.consumed);
	return SN_OK;
}
