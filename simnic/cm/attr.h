/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Attributes of a queue pair and of a path, as a connection gives them. Lock held. */
#ifndef SIMNIC_CM_ATTR_H
#define SIMNIC_CM_ATTR_H

#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>
#include <stdint.h>

struct sn_cm_id;

#define SN_CM_LIFE_TIME 16 /* life of a RoCE packet in cma.c: 4.096 us * 2^16 */

uint32_t sn_cm_qkey(const struct sn_cm_id *id); /* key of the port space's datagrams */
uint16_t sn_cm_pkey(const struct sn_cm_id *id);
uint8_t sn_cm_life_time(const struct sn_cm_id *id); /* exponent, in units of 4.096 us */
void sn_cm_ah_attr(const struct sn_cm_id *id, struct ib_uverbs_ah_attr *attr);
/* Attributes for a state of the queue pair. -EINVAL: the connection is not that far. */
int sn_cm_qp_attr(const struct sn_cm_id *id, uint32_t qp_state, struct ib_uverbs_qp_attr *attr);

/* query.c: what the id knows, in the form of each command. Each returns the bytes written. */
uint32_t sn_cm_query_route(const struct sn_cm_id *id, struct rdma_ucm_query_route_resp *resp);
uint32_t sn_cm_query_addr(const struct sn_cm_id *id, struct rdma_ucm_query_addr_resp *resp);
uint32_t sn_cm_query_gid(const struct sn_cm_id *id, struct rdma_ucm_query_addr_resp *resp);
/* @room: bytes at resp; paths that do not fit are counted only */
uint32_t sn_cm_query_path(const struct sn_cm_id *id, struct rdma_ucm_query_path_resp *resp,
			  uint32_t room);

#endif
