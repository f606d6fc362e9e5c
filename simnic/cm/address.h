/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Addresses of the hosts of a fabric: binding to one, and the way to another. On Ethernet an
 * address is one of a NIC's GIDs. On InfiniBand, where a NIC has no interface here, it is
 * 10.<rail>.0.<host + 1>, as IPoIB could have it. Lock held.
 */
#ifndef SIMNIC_CM_ADDRESS_H
#define SIMNIC_CM_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "simnic/fabric/cmbind.h"

struct sn_cm_id;
struct sn_nic;

uint32_t sn_cm_sockaddr_size(const void *address); /* 0: a family that rdma_cm does not know */
void sn_cm_addr_read(const struct sockaddr_storage *from, struct sn_cm_addr *to);
void sn_cm_addr_write(const struct sn_cm_addr *from, struct sockaddr_storage *to);
/* The entry of the NIC's GID table for the address, RoCE v2 rather than v1. 0: none has it. */
uint32_t sn_cm_gid_index(const struct sn_nic *nic, const uint8_t ip[16]);
/* The service that an AF_IB address, or a port of the port space, names. */
uint64_t sn_cm_service_id(uint16_t ps, const struct sockaddr_storage *address);
/* The GID by which the id's packets leave; by which they find the peer. */
void sn_cm_sgid(const struct sn_cm_id *id, uint8_t gid[16]);
void sn_cm_dgid(const struct sn_cm_id *id, uint8_t gid[16]);

/*
 * Binds the id, to a free port if the address names none. -EADDRNOTAVAIL: no interface of the
 * host has the address; -ENODEV: one has it that is no NIC.
 */
int sn_cm_bind_id(struct sn_cm_id *id, const struct sockaddr_storage *address);
/*
 * Begins to find the NIC that has the address, and the own one that reaches it. Either the id gets
 * an event, later at the latest after @timeout_ms, or this returns -errno. @source may be NULL.
 */
int sn_cm_resolve(struct sn_cm_id *id, const struct sockaddr_storage *source,
		  const struct sockaddr_storage *to, uint32_t timeout_ms);
int sn_cm_resolve_route(struct sn_cm_id *id, uint32_t timeout_ms);
/* Asks once more for an address or a route that has not answered. */
void sn_cm_resolve_again(struct sn_cm_id *id, uint64_t now_ns);

#endif
