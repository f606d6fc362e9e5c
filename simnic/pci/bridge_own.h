/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What the files of the bridge share. The machine's lock held. */
#ifndef SIMNIC_PCI_BRIDGE_OWN_H
#define SIMNIC_PCI_BRIDGE_OWN_H

#include "simnic/device/device.h"
#include "simnic/pci/bridge.h"

enum sn_bridge_type {
	SN_BRIDGE_IS_CQ,
	SN_BRIDGE_IS_SRQ,
	SN_BRIDGE_IS_QP,
	SN_BRIDGE_IS_KEY,
	SN_BRIDGE_IS_SQ,
	SN_BRIDGE_IS_RQ
};

#define SN_BRIDGE_TYPES	  6
#define SN_BRIDGE_BUCKETS 256

#define SN_BRIDGE_RECORD_BYTES 8  /* of a doorbell record */
#define SN_BRIDGE_MAX_LOG_WQES 15 /* of a ring */

/* An object of the driver. Its address is the engine's user_handle of it. */
struct sn_bridge_object {
	struct sn_bridge_object *next; /* in its bucket */
	enum sn_bridge_type type;
	uint32_t number; /* of a key: its index */
	uint32_t user;	 /* of a CQ: as it was made with */
	union {
		struct sn_cq *cq;
		struct sn_srq *srq;
		struct sn_qp *qp;
		struct sn_ether_sq *ether_sq;
		struct sn_ether_rq *ether_rq;
	};
	struct {
		void *at; /* NULL: it has none */
		uint64_t bytes;
	} map;
	struct sn_bridge_key key;	    /* of a key: as it was made */
	enum sn_bridge_transport transport; /* of a QP */
};

struct sn_bridge_space;

struct sn_bridge {
	struct sn_bridge_config config;
	struct sn_bridge_space *space; /* of DMA addresses; NULL: they are guest addresses */
	const struct sn_fabric *fabric;
	struct sn_nic *nic;
	struct sn_dev *dev;
	uint32_t gid_type[SN_MAX_GIDS]; /* of the NIC's own table, to be put back */
	struct sn_bridge_object *table[SN_BRIDGE_TYPES][SN_BRIDGE_BUCKETS];
};

/* bridge_port.c: the NIC's link layer. */
bool sn_bridge_is_ethernet(const struct sn_bridge *bridge);

/* Makes an object without a number, and maps its pages, if any. NULL: errno says why. */
struct sn_bridge_object *sn_bridge_make(struct sn_bridge *bridge, enum sn_bridge_type type,
					const struct sn_bridge_pages *pages, uint64_t bytes);
/* Frees an object that is in no table, and its map. */
void sn_bridge_discard(struct sn_bridge *bridge, struct sn_bridge_object *object);
void sn_bridge_add(struct sn_bridge *bridge, struct sn_bridge_object *object, uint32_t number);
struct sn_bridge_object *sn_bridge_find(struct sn_bridge *bridge, enum sn_bridge_type type,
					uint32_t number);
/* Takes an object out of its table, and discards it. */
void sn_bridge_drop(struct sn_bridge *bridge, struct sn_bridge_object *object);
/* Discards all objects, which the engine has forgotten. */
void sn_bridge_drop_all(struct sn_bridge *bridge);

/* Where guest memory is in this process; 0: not all the bytes can be guest memory. */
uint64_t sn_bridge_at(const struct sn_bridge *bridge, uint64_t guest, uint64_t bytes);
/* How many guest addresses there are, from 0 on; behind an IOMMU, DMA addresses. */
uint64_t sn_bridge_reach(const struct sn_bridge *bridge);

/* sn_bridge_map() and sn_bridge_unmap(), with the engine's lock held. */
void *sn_bridge_map_locked(struct sn_bridge *bridge, const struct sn_bridge_pages *pages,
			   uint64_t bytes);
void sn_bridge_unmap_locked(struct sn_bridge *bridge, void *at, uint64_t bytes);

/* A piece of a list of pages that is one piece of guest memory, too. */
struct sn_bridge_run {
	uint64_t guest, bytes;
};

/* Addresses behind an IOMMU (bridge_space.c). */
int sn_bridge_space_new(struct sn_bridge *bridge);
void sn_bridge_space_free(struct sn_bridge *bridge);
uint64_t sn_bridge_space_at(const struct sn_bridge *bridge, uint64_t dma, uint64_t bytes);
/*
 * Shows runs side by side; NULL: no memory. The engine's lock held, here and where the view ends:
 * by an address in the view, or in none.
 */
void *sn_bridge_space_view(struct sn_bridge *bridge, const struct sn_bridge_run *run, uint32_t n);
void sn_bridge_space_end_view(struct sn_bridge *bridge, const uint8_t *at);

#endif
