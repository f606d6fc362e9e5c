/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <endian.h>
#include <infiniband/ib.h>
#include <rdma/ib_user_sa.h>
#include <string.h>

#include "simnic/cm/address.h"
#include "simnic/cm/attr.h"
#include "simnic/cm/id.h"
#include "simnic/fabric/fabric.h"

#define RATE_EXACT  2
#define RATE_100    16 /* enum ibv_rate: 100 Gb/s */
#define REVERSIBLE  0x80
#define EXACTLY	    (2 << 6) /* selector in front of an MTU, a rate or a time */
#define HOP_LIMIT   64
#define PATH_FLAGS  (IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL)
#define PATH_RECORD 64

/* A path record as subnet managers have it (IBA 15.2.5.16), big endian. */
struct path_record {
	uint64_t service_id;
	uint8_t dgid[16], sgid[16];
	uint16_t dlid, slid;
	uint32_t flow_hops;
	uint8_t traffic_class, reversible;
	uint16_t pkey, qos_sl;
	uint8_t mtu, rate, life_time, preference;
	uint8_t reserved[6];
} __attribute__((packed));

_Static_assert(sizeof(struct path_record) == PATH_RECORD, "as the subnet manager has it");

static bool has_path(const struct sn_cm_id *id)
{
	return id->nic && id->state >= SN_CM_ROUTE_RESOLVED && id->state != SN_CM_LISTEN;
}

static uint16_t peer_lid(const struct sn_cm_id *id)
{
	return sn_cm.fabric->nic[id->peer.host][id->peer.nic].lid;
}

static uint8_t path_mtu(const struct sn_cm_id *id)
{
	return (uint8_t)atomic_load(&id->nic->mtu);
}

uint32_t sn_cm_query_path(const struct sn_cm_id *id, struct rdma_ucm_query_path_resp *resp,
			  uint32_t room)
{
	struct path_record record = { 0 };
	struct ib_path_rec_data data = { .flags = PATH_FLAGS };

	*resp = (struct rdma_ucm_query_path_resp){ .num_paths = has_path(id) };
	if (!resp->num_paths || room < sizeof(*resp) + sizeof(data))
		return sizeof(*resp);
	record.service_id = sn_cm_service_id(id->ps, &id->dst);
	sn_cm_dgid(id, record.dgid);
	sn_cm_sgid(id, record.sgid);
	record.dlid = htobe16(peer_lid(id));
	record.slid = htobe16(id->nic->lid);
	record.flow_hops = htobe32(id->nic->link_layer == SN_LINK_ETH ? HOP_LIMIT : 0);
	record.traffic_class = id->options.tos;
	record.reversible = REVERSIBLE;
	record.pkey = htobe16(sn_cm_pkey(id));
	record.mtu = EXACTLY | path_mtu(id);
	record.rate = EXACTLY | RATE_100;
	record.life_time = EXACTLY | sn_cm_life_time(id);
	memcpy(data.path_rec, &record, sizeof(record));
	memcpy(resp->path_data, &data, sizeof(data));
	return sizeof(*resp) + sizeof(data);
}

static void device_fill(const struct sn_cm_id *id, uint64_t *guid, uint8_t *port, uint32_t *index)
{
	if (!id->nic)
		return;
	*guid = htobe64(id->nic->node_guid);
	*port = 1;
	*index = id->nic->index;
}

static void route_fill(const struct sn_cm_id *id, struct ib_user_path_rec *route)
{
	sn_cm_dgid(id, route->dgid);
	sn_cm_sgid(id, route->sgid);
	route->pkey = htobe16(sn_cm_pkey(id));
	if (!has_path(id))
		return;
	route->dlid = htobe16(peer_lid(id));
	route->slid = htobe16(id->nic->lid);
	route->reversible = 1;
	route->mtu_selector = route->rate_selector = route->packet_life_time_selector = RATE_EXACT;
	route->mtu = path_mtu(id);
	route->rate = RATE_100;
	route->packet_life_time = sn_cm_life_time(id);
	route->traffic_class = id->options.tos;
	route->hop_limit = id->nic->link_layer == SN_LINK_ETH ? HOP_LIMIT : 0;
}

static void sockaddr_copy(struct sockaddr_in6 *to, const struct sockaddr_storage *from)
{
	memcpy(to, from, from->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(*to));
}

uint32_t sn_cm_query_route(const struct sn_cm_id *id, struct rdma_ucm_query_route_resp *resp)
{
	uint64_t guid = 0;

	memset(resp, 0, sizeof(*resp));
	sockaddr_copy(&resp->src_addr, &id->src);
	sockaddr_copy(&resp->dst_addr, &id->dst);
	device_fill(id, &guid, &resp->port_num, &resp->ibdev_index);
	resp->node_guid = guid;
	if (!id->nic)
		return sizeof(*resp);
	resp->num_paths = has_path(id);
	route_fill(id, &resp->ib_route[0]);
	return sizeof(*resp);
}

static void query_begin(const struct sn_cm_id *id, struct rdma_ucm_query_addr_resp *resp)
{
	uint64_t guid = 0;

	memset(resp, 0, sizeof(*resp));
	device_fill(id, &guid, &resp->port_num, &resp->ibdev_index);
	resp->node_guid = guid;
	resp->pkey = id->nic ? htobe16(sn_cm_pkey(id)) : 0;
}

uint32_t sn_cm_query_addr(const struct sn_cm_id *id, struct rdma_ucm_query_addr_resp *resp)
{
	query_begin(id, resp);
	resp->src_size = (uint16_t)sn_cm_sockaddr_size(&id->src);
	resp->dst_size = (uint16_t)sn_cm_sockaddr_size(&id->dst);
	memcpy(&resp->src_addr, &id->src, resp->src_size);
	memcpy(&resp->dst_addr, &id->dst, resp->dst_size);
	return sizeof(*resp);
}

/* Writes an address as AF_IB has it. */
static void ib_write(const struct sn_cm_id *id, const struct sockaddr_storage *address,
		     const uint8_t gid[16], void *to)
{
	struct sockaddr_ib ib = { .sib_family = AF_IB, .sib_pkey = htobe16(sn_cm_pkey(id)) };

	if (address->ss_family == AF_IB) {
		memcpy(to, address, sizeof(ib));
		return;
	}
	memcpy(&ib.sib_addr, gid, 16);
	ib.sib_sid = address->ss_family ? sn_cm_service_id(id->ps, address) : 0;
	memcpy(to, &ib, sizeof(ib));
}

uint32_t sn_cm_query_gid(const struct sn_cm_id *id, struct rdma_ucm_query_addr_resp *resp)
{
	uint8_t gid[16];

	query_begin(id, resp);
	resp->src_size = resp->dst_size = sizeof(struct sockaddr_ib);
	sn_cm_sgid(id, gid);
	ib_write(id, &id->src, gid, &resp->src_addr);
	sn_cm_dgid(id, gid);
	ib_write(id, &id->dst, gid, &resp->dst_addr);
	return sizeof(*resp);
}
