/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Objects of the network interface: send and receive rings, and the tables that lead frames to a
 * receive ring (TIR, RQT). Flow rules are taken and not obeyed: every frame goes where the driver's
 * hash of all traffic leads, to the first ring of its table. The driver has a table of that kind
 * from its load to its end, and points it at a ring without requests while the interface is down.
 */
#include <stdlib.h>

#include "simnic/pci/bridge_ether.h"
#include "simnic/pci/data.h"
#include "simnic/pci/ether.h"
#include "simnic/pci/handlers.h"
#include "simnic/pci/pci.h"

/* States of a ring; memory and types of a receive ring; the hash of a TIR. */
enum { RESET = 0, READY = 1, FAILED = 3 };
enum { IN_LINE = 0, CYCLIC = 1, TOEPLITZ = 2 };

struct sn_table {
	struct sn_table *next;
	uint32_t number;
	uint32_t leads_to; /* of a TIR: its RQT; of an RQT: its first ring */
	bool hashes;	   /* of a TIR: over all traffic */
};

/* ---- rings ---------------------------------------------------------------------------------- */

static uint8_t read_wq(const struct sn_command *cmd, uint32_t at, struct sn_bridge_frames *frames,
		       struct sn_pas *pas)
{
	const uint8_t *wq = cmd->in + at;
	struct sn_data_ring ring = {
		.list = at + SN_FIELD_BYTE(wq, pas),
		.log_page = 12 + SN_GET(wq, wq, log_wq_pg_sz),
		.page_offset = SN_GET(wq, wq, page_offset),
	};

	if (SN_GET(wq, wq, wq_type) != CYCLIC)
		return SN_BAD_PARAM;
	frames->log_size = SN_GET(wq, wq, log_wq_sz);
	frames->log_stride = SN_GET(wq, wq, log_wq_stride);
	frames->record = SN_GET(wq, wq, dbr_addr);
	frames->pd = SN_GET(wq, wq, pd);
	ring.bytes = 1ull << (frames->log_size + frames->log_stride);
	return sn_data_pages(cmd, &ring, pas, &frames->pages);
}

uint8_t sn_create_sq(struct sn_pci *pci, struct sn_command *cmd)
{
	const uint8_t *sqc = SN_AT(create_sq_in, cmd->in, ctx);
	uint32_t wq = SN_FIELD_BYTE(create_sq_in, ctx) + SN_FIELD_BYTE(sqc, wq);
	struct sn_bridge_frames frames = { .cq = SN_GET(sqc, sqc, cqn) };
	struct sn_pas pas = { 0 };
	uint32_t sqn;
	uint8_t status;

	if (!pci->bridge)
		return SN_NO_RESOURCES;
	status = read_wq(cmd, wq, &frames, &pas);
	if (!status)
		status = sn_data_status(sn_bridge_sq_create(pci->bridge, &frames, &sqn));
	sn_pas_free(&pas);
	if (!status)
		sn_command_give_number(cmd, sqn);
	return status;
}

uint8_t sn_create_rq(struct sn_pci *pci, struct sn_command *cmd)
{
	const uint8_t *rqc = SN_AT(create_rq_in, cmd->in, ctx);
	uint32_t wq = SN_FIELD_BYTE(create_rq_in, ctx) + SN_FIELD_BYTE(rqc, wq);
	struct sn_bridge_frames frames = { .cq = SN_GET(rqc, rqc, cqn),
					   .keeps_vlan = SN_GET(rqc, rqc, vsd) };
	struct sn_pas pas = { 0 };
	uint32_t rqn;
	uint8_t status;

	if (!pci->bridge)
		return SN_NO_RESOURCES;
	if (SN_GET(rqc, rqc, mem_rq_type) != IN_LINE)
		return SN_BAD_PARAM;
	status = read_wq(cmd, wq, &frames, &pas);
	if (!status)
		status = sn_data_status(sn_bridge_rq_create(pci->bridge, &frames, &rqn));
	sn_pas_free(&pas);
	if (!status)
		sn_command_give_number(cmd, rqn);
	return status;
}

uint8_t sn_modify_sq(struct sn_pci *pci, struct sn_command *cmd)
{
	const uint8_t *sqc = SN_AT(modify_sq_in, cmd->in, ctx);
	bool ready = SN_GET(sqc, sqc, state) == READY;

	if (!pci->bridge)
		return SN_BAD_RESOURCE;
	return sn_data_status(sn_bridge_sq_set_ready(pci->bridge, sn_command_number(cmd), ready));
}

uint8_t sn_modify_rq(struct sn_pci *pci, struct sn_command *cmd)
{
	const uint8_t *rqc = SN_AT(modify_rq_in, cmd->in, ctx);
	bool ready = SN_GET(rqc, rqc, state) == READY;

	if (!pci->bridge)
		return SN_BAD_RESOURCE;
	return sn_data_status(sn_bridge_rq_set_ready(pci->bridge, sn_command_number(cmd), ready));
}

/* What a driver asks for behind a completion with an error. */
uint8_t sn_query_sq(struct sn_pci *pci, struct sn_command *cmd)
{
	uint8_t *sqc = SN_AT(query_sq_out, cmd->out, sq_context);
	bool failed;
	int error;

	if (!pci->bridge)
		return SN_BAD_RESOURCE;
	error = sn_bridge_sq_failed(pci->bridge, sn_command_number(cmd), &failed);
	if (error)
		return sn_data_status(error);
	SN_SET(sqc, sqc, state, failed ? FAILED : READY);
	return SN_OK;
}

uint8_t sn_destroy_sq(struct sn_pci *pci, struct sn_command *cmd)
{
	if (!pci->bridge)
		return SN_BAD_RESOURCE;
	return sn_data_status(sn_bridge_sq_destroy(pci->bridge, sn_command_number(cmd)));
}

uint8_t sn_destroy_rq(struct sn_pci *pci, struct sn_command *cmd)
{
	if (!pci->bridge)
		return SN_BAD_RESOURCE;
	return sn_data_status(sn_bridge_rq_destroy(pci->bridge, sn_command_number(cmd)));
}

/* ---- tables --------------------------------------------------------------------------------- */

static struct sn_table **find(struct sn_table **list, uint32_t number)
{
	while (*list && (*list)->number != number)
		list = &(*list)->next;
	return list;
}

static void forget(struct sn_table **list)
{
	while (*list) {
		struct sn_table *table = *list;

		*list = table->next;
		free(table);
	}
}

void sn_ether_forget(struct sn_ether_tables *tables)
{
	forget(&tables->tirs);
	forget(&tables->rqts);
}

/* The oldest TIR that hashes over all traffic: they are listed by age. */
static void lead_frames(struct sn_pci *pci)
{
	struct sn_table *tir = pci->ether.tirs, *rqt;

	if (!pci->bridge)
		return;
	while (tir && !tir->hashes)
		tir = tir->next;
	rqt = tir ? *find(&pci->ether.rqts, tir->leads_to) : NULL;
	sn_bridge_receive_into(pci->bridge, rqt ? rqt->leads_to : 0);
}

static uint8_t create(struct sn_pci *pci, struct sn_command *cmd, struct sn_table **list,
		      const struct sn_table *made)
{
	struct sn_table *table = malloc(sizeof(*table));
	uint32_t number = table ? sn_numbers_give(pci->numbers, cmd->row->kind) : 0;

	if (!number) {
		free(table);
		return SN_NO_RESOURCES;
	}
	*table = *made;
	table->number = number;
	while (*list)
		list = &(*list)->next;
	*list = table;
	lead_frames(pci);
	sn_command_give_number(cmd, number);
	return SN_OK;
}

static uint8_t destroy(struct sn_pci *pci, const struct sn_command *cmd, struct sn_table **list)
{
	uint32_t number = sn_command_number(cmd);
	struct sn_table **link = find(list, number), *table = *link;

	if (!table)
		return SN_BAD_RESOURCE;
	*link = table->next;
	free(table);
	sn_numbers_drop(pci->numbers, cmd->row->kind, number);
	lead_frames(pci);
	return SN_OK;
}

uint8_t sn_create_tir(struct sn_pci *pci, struct sn_command *cmd)
{
	const uint8_t *tirc = SN_AT(create_tir_in, cmd->in, ctx);
	const struct sn_table tir = { .leads_to = SN_GET(tirc, tirc, indirect_table),
				      .hashes = SN_GET(tirc, tirc, rx_hash_fn) == TOEPLITZ };

	return create(pci, cmd, &pci->ether.tirs, &tir);
}

uint8_t sn_destroy_tir(struct sn_pci *pci, struct sn_command *cmd)
{
	return destroy(pci, cmd, &pci->ether.tirs);
}

static uint32_t first_ring(const uint8_t *rqtc)
{
	return SN_GET(rq_num, SN_AT(rqtc, rqtc, rq_num), rq_num);
}

uint8_t sn_create_rqt(struct sn_pci *pci, struct sn_command *cmd)
{
	const struct sn_table rqt = {
		.leads_to = first_ring(SN_AT(create_rqt_in, cmd->in, rqt_context)),
	};

	return create(pci, cmd, &pci->ether.rqts, &rqt);
}

uint8_t sn_modify_rqt(struct sn_pci *pci, struct sn_command *cmd)
{
	struct sn_table *rqt = *find(&pci->ether.rqts, sn_command_number(cmd));

	if (!rqt)
		return SN_BAD_RESOURCE;
	rqt->leads_to = first_ring(SN_AT(modify_rqt_in, cmd->in, ctx));
	lead_frames(pci);
	return SN_OK;
}

uint8_t sn_destroy_rqt(struct sn_pci *pci, struct sn_command *cmd)
{
	return destroy(pci, cmd, &pci->ether.rqts);
}
