/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Shared receive queues. The driver makes them by CREATE_SRQ, as XRC SRQs, or as RMPs, by what the
 * firmware can; the contexts of the first two have the same fields at the same place.
 */
#include "simnic/pci/data.h"
#include "simnic/pci/handlers.h"
#include "simnic/pci/pci.h"

/* A stride of 0 in an SRQ's context is one data segment. */
enum { LOG_SEGMENT = 4, RMP_READY = 1 };

static uint8_t create(struct sn_pci *pci, struct sn_command *cmd, struct sn_bridge_srq *srq,
		      struct sn_data_ring *ring)
{
	struct sn_pas pas = { 0 };
	uint32_t srqn;
	uint8_t status;

	if (!pci->bridge)
		return SN_NO_RESOURCES;
	ring->bytes = 1ull << (srq->log_size + srq->log_stride);
	status = sn_data_pages(cmd, ring, &pas, &srq->pages);
	if (!status)
		status = sn_data_status(sn_bridge_srq_create(pci->bridge, srq, &srqn));
	sn_pas_free(&pas);
	if (!status)
		sn_command_give_number(cmd, srqn);
	return status;
}

uint8_t sn_create_srq(struct sn_pci *pci, struct sn_command *cmd)
{
	const uint8_t *context = SN_AT(create_srq_in, cmd->in, srq_context_entry);
	struct sn_bridge_srq srq = {
		.log_size = SN_GET(srqc, context, log_srq_size),
		.log_stride = LOG_SEGMENT + SN_GET(srqc, context, log_rq_stride),
		.record = SN_GET(srqc, context, dbr_addr),
		.pd = SN_GET(srqc, context, pd),
	};
	struct sn_data_ring ring = {
		.list = SN_FIELD_BYTE(create_srq_in, pas),
		.log_page = 12 + SN_GET(srqc, context, log_page_size),
		.page_offset = SN_GET(srqc, context, page_offset),
	};

	return create(pci, cmd, &srq, &ring);
}

uint8_t sn_create_rmp(struct sn_pci *pci, struct sn_command *cmd)
{
	const uint8_t *context = SN_AT(create_rmp_in, cmd->in, ctx);
	const uint8_t *wq = SN_AT(rmpc, context, wq);
	struct sn_bridge_srq srq = {
		.log_size = SN_GET(wq, wq, log_wq_sz),
		.log_stride = SN_GET(wq, wq, log_wq_stride),
		.record = SN_GET(wq, wq, dbr_addr),
		.pd = SN_GET(wq, wq, pd),
	};
	struct sn_data_ring ring = {
		.list = SN_FIELD_BYTE(create_rmp_in, ctx) + SN_FIELD_BYTE(rmpc, wq) +
			SN_FIELD_BYTE(wq, pas),
		.log_page = 12 + SN_GET(wq, wq, log_wq_pg_sz),
		.page_offset = SN_GET(wq, wq, page_offset),
	};

	return create(pci, cmd, &srq, &ring);
}

uint8_t sn_destroy_srq(struct sn_pci *pci, struct sn_command *cmd)
{
	if (!pci->bridge)
		return SN_BAD_RESOURCE;
	return sn_data_status(sn_bridge_srq_destroy(pci->bridge, sn_command_number(cmd)));
}

static uint8_t arm(struct sn_pci *pci, const struct sn_command *cmd, uint32_t limit)
{
	if (!pci->bridge)
		return SN_BAD_RESOURCE;
	return sn_data_status(sn_bridge_srq_arm(pci->bridge, sn_command_number(cmd), limit));
}

uint8_t sn_arm_srq(struct sn_pci *pci, struct sn_command *cmd)
{
	return arm(pci, cmd, SN_GET(arm_rq_in, cmd->in, lwm));
}

uint8_t sn_arm_rmp(struct sn_pci *pci, struct sn_command *cmd)
{
	const uint8_t *context = SN_AT(modify_rmp_in, cmd->in, ctx);

	return arm(pci, cmd, SN_GET(wq, SN_AT(rmpc, context, wq), lwm));
}

static uint8_t limit_of(struct sn_pci *pci, const struct sn_command *cmd, uint32_t *limit)
{
	if (!pci->bridge)
		return SN_BAD_RESOURCE;
	return sn_data_status(sn_bridge_srq_limit(pci->bridge, sn_command_number(cmd), limit));
}

uint8_t sn_query_srq(struct sn_pci *pci, struct sn_command *cmd)
{
	uint8_t *context = SN_AT(query_srq_out, cmd->out, srq_context_entry);
	uint32_t limit = 0;
	uint8_t status = limit_of(pci, cmd, &limit);

	SN_SET(srqc, context, lwm, limit);
	return status;
}

uint8_t sn_query_rmp(struct sn_pci *pci, struct sn_command *cmd)
{
	uint8_t *context = SN_AT(query_rmp_out, cmd->out, rmp_context);
	uint32_t limit = 0;
	uint8_t status = limit_of(pci, cmd, &limit);

	SN_SET(rmpc, context, state, RMP_READY);
	SN_SET(wq, SN_AT(rmpc, context, wq), lwm, limit);
	return status;
}
