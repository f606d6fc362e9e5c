/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* See pci_fake_bridge.h. */
#include <string.h>

#include "tests/unit/simnic/pci_fake_bridge.h"

struct fake_bridge fake_bridge;

static void keep(struct sn_bridge_pages *pages)
{
	for (uint32_t i = 0; i < pages->n && i < FAKE_PAGES; i++)
		fake_bridge.page[i] = pages->page[i];
	pages->page = fake_bridge.page;
}

int sn_bridge_new(const struct sn_bridge_config *config, struct sn_bridge **out)
{
	fake_bridge.config = *config;
	*out = (struct sn_bridge *)&fake_bridge;
	return fake_bridge.answer;
}

void sn_bridge_free(struct sn_bridge *bridge)
{
}

int sn_bridge_reset(struct sn_bridge *bridge)
{
	fake_bridge.resets++;
	fake_bridge.stopped = false;
	return 0;
}

void sn_bridge_stop(struct sn_bridge *bridge, bool stop)
{
	fake_bridge.stopped = stop;
}

void sn_bridge_port(const struct sn_bridge *bridge, struct sn_bridge_port *port)
{
	*port = fake_bridge.port;
}

uint16_t sn_bridge_pkey(const struct sn_bridge *bridge, uint32_t index)
{
	return 0x8000 + index;
}

void sn_bridge_gid(const struct sn_bridge *bridge, uint32_t index, uint8_t gid[16])
{
	memset(gid, 0x10 + index, 16);
}

uint64_t sn_bridge_counter(const struct sn_bridge *bridge, const char *file)
{
	return fake_bridge.count + strlen(file);
}

/* The answer has the request's attribute in its data. */
bool sn_bridge_mad(const struct sn_bridge *bridge, uint8_t mad[256])
{
	memcpy(mad + 64, mad + 16, 2);
	return fake_bridge.agent;
}

int sn_bridge_set_gid(struct sn_bridge *bridge, uint32_t index, const uint8_t gid[16],
		      uint32_t roce_version, uint16_t vlan)
{
	fake_bridge.gid_index = index;
	fake_bridge.gid_version = roce_version;
	fake_bridge.gid_vlan = vlan;
	memcpy(fake_bridge.gid, gid, 16);
	return fake_bridge.answer;
}

void sn_bridge_doorbell(struct sn_bridge *bridge, uint32_t uar, uint32_t offset, uint64_t bytes)
{
	fake_bridge.doorbells++;
	fake_bridge.doorbell_uar = uar;
	fake_bridge.doorbell_offset = offset;
	fake_bridge.doorbell = bytes;
}

int sn_bridge_key_create(struct sn_bridge *bridge, const struct sn_bridge_key *key, uint32_t *index)
{
	fake_bridge.key = *key;
	keep(&fake_bridge.key.pages);
	*index = FAKE_NUMBER;
	return fake_bridge.answer;
}

int sn_bridge_key_destroy(struct sn_bridge *bridge, uint32_t index)
{
	fake_bridge.destroyed = index;
	return fake_bridge.answer;
}

int sn_bridge_key_query(struct sn_bridge *bridge, uint32_t index, struct sn_bridge_key *key)
{
	*key = fake_bridge.key;
	return fake_bridge.answer;
}

int sn_bridge_cq_create(struct sn_bridge *bridge, const struct sn_bridge_cq *cq, uint32_t *cqn)
{
	fake_bridge.cq = *cq;
	keep(&fake_bridge.cq.pages);
	*cqn = FAKE_NUMBER;
	return fake_bridge.answer;
}

int sn_bridge_cq_resize(struct sn_bridge *bridge, uint32_t cqn, const struct sn_bridge_cq *cq)
{
	return sn_bridge_cq_create(bridge, cq, &cqn);
}

int sn_bridge_cq_destroy(struct sn_bridge *bridge, uint32_t cqn)
{
	return sn_bridge_key_destroy(bridge, cqn);
}

int sn_bridge_cq_query(struct sn_bridge *bridge, uint32_t cqn, struct sn_bridge_cq_state *state)
{
	const struct sn_bridge_cq_state some = { .produced = 5, .consumed = 3, .armed = true };

	*state = some;
	return fake_bridge.answer;
}

int sn_bridge_srq_create(struct sn_bridge *bridge, const struct sn_bridge_srq *srq, uint32_t *srqn)
{
	fake_bridge.srq = *srq;
	keep(&fake_bridge.srq.pages);
	*srqn = FAKE_NUMBER;
	return fake_bridge.answer;
}

int sn_bridge_srq_arm(struct sn_bridge *bridge, uint32_t srqn, uint32_t limit)
{
	fake_bridge.limit = limit;
	return fake_bridge.answer;
}

int sn_bridge_srq_limit(struct sn_bridge *bridge, uint32_t srqn, uint32_t *limit)
{
	*limit = fake_bridge.limit;
	return fake_bridge.answer;
}

int sn_bridge_srq_destroy(struct sn_bridge *bridge, uint32_t srqn)
{
	return sn_bridge_key_destroy(bridge, srqn);
}

int sn_bridge_qp_create(struct sn_bridge *bridge, const struct sn_bridge_qp *qp, uint32_t *qpn)
{
	fake_bridge.qp = *qp;
	keep(&fake_bridge.qp.pages);
	*qpn = FAKE_NUMBER;
	return fake_bridge.answer;
}

int sn_bridge_qp_destroy(struct sn_bridge *bridge, uint32_t qpn)
{
	return sn_bridge_key_destroy(bridge, qpn);
}

int sn_bridge_qp_modify(struct sn_bridge *bridge, uint32_t qpn,
			enum sn_bridge_transition transition, uint32_t opt_param_mask,
			const struct sn_bridge_qpc *qpc)
{
	fake_bridge.transition = transition;
	fake_bridge.mask = opt_param_mask;
	fake_bridge.qpc = *qpc;
	return fake_bridge.answer;
}

int sn_bridge_qp_query(struct sn_bridge *bridge, uint32_t qpn, struct sn_bridge_qpc *qpc)
{
	*qpc = fake_bridge.qpc;
	return fake_bridge.answer;
}

int sn_bridge_sq_create(struct sn_bridge *bridge, const struct sn_bridge_frames *ring,
			uint32_t *sqn)
{
	fake_bridge.frames = *ring;
	keep(&fake_bridge.frames.pages);
	*sqn = FAKE_NUMBER;
	return fake_bridge.answer;
}

int sn_bridge_rq_create(struct sn_bridge *bridge, const struct sn_bridge_frames *ring,
			uint32_t *rqn)
{
	return sn_bridge_sq_create(bridge, ring, rqn);
}

int sn_bridge_sq_set_ready(struct sn_bridge *bridge, uint32_t sqn, bool ready)
{
	fake_bridge.ready = ready;
	return fake_bridge.answer;
}

int sn_bridge_rq_set_ready(struct sn_bridge *bridge, uint32_t rqn, bool ready)
{
	return sn_bridge_sq_set_ready(bridge, rqn, ready);
}

int sn_bridge_sq_failed(struct sn_bridge *bridge, uint32_t sqn, bool *failed)
{
	*failed = true;
	return fake_bridge.answer;
}

int sn_bridge_sq_destroy(struct sn_bridge *bridge, uint32_t sqn)
{
	return sn_bridge_key_destroy(bridge, sqn);
}

int sn_bridge_rq_destroy(struct sn_bridge *bridge, uint32_t rqn)
{
	return sn_bridge_key_destroy(bridge, rqn);
}

void sn_bridge_receive_into(struct sn_bridge *bridge, uint32_t rqn)
{
	fake_bridge.receives = rqn;
}

void sn_bridge_switch_off(struct sn_bridge *bridge, bool off)
{
	fake_bridge.off = off;
}

int sn_bridge_space_map(struct sn_bridge *bridge, const struct sn_bridge_mapping *mapping)
{
	fake_bridge.mapping = *mapping;
	return fake_bridge.answer;
}

void sn_bridge_space_unmap(struct sn_bridge *bridge, uint64_t at, uint64_t bytes)
{
	fake_bridge.mapping = (struct sn_bridge_mapping){ .at = at, .bytes = bytes };
}

bool sn_bridge_space_take(struct sn_bridge *bridge, struct sn_bridge_stray *stray)
{
	*stray = fake_bridge.stray;
	fake_bridge.stray.bytes = 0;
	return stray->bytes;
}

int sn_bridge_go_astray(struct sn_bridge *bridge, uint64_t at, bool write)
{
	fake_bridge.stray = (struct sn_bridge_stray){ at, 4096, write };
	return fake_bridge.answer;
}
