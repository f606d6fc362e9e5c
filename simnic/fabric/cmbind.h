/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Bindings of rdma_cm: the ports of a host that ids of its processes have, and which of them
 * listen. A kernel keeps one such table for all programs of its host. Here it lies in the fabric,
 * and takes no lock: a binding is claimed first, and holds if no other one is in its way.
 */
#ifndef SIMNIC_FABRIC_CMBIND_H
#define SIMNIC_FABRIC_CMBIND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct sn_fabric;

#define SN_CM_BINDS 8192 /* bindings of all hosts together */

/* An address with its port. An IPv4 address is written as the GID that stands for it. */
struct sn_cm_addr {
	uint8_t ip[16];
	uint16_t family; /* AF_INET, AF_INET6 or AF_IB */
	uint16_t port;
};

/* A binding as its owner wants it. */
struct sn_cm_want {
	uint32_t host;
	uint32_t proc; /* process slot of the owner */
	uint32_t id;   /* the owner's id, which messages name */
	uint32_t nic;  /* number of the only NIC that it is bound to, + 1; 0: all */
	uint16_t ps;   /* port space: enum rdma_ucm_port_space */
	uint16_t qp_type;
	bool any; /* every address of the host, or the loopback address */
	bool reuse, afonly;
	struct sn_cm_addr addr;
};

enum sn_cm_bind_state { SN_CM_BIND_FREE, SN_CM_BIND_FILLING, SN_CM_BIND_CLAIMED, SN_CM_BIND_BOUND };

struct sn_cm_bind {
	_Atomic uint32_t state;	  /* enum sn_cm_bind_state */
	_Atomic uint32_t version; /* number of fillings: tells a reader that it read two */
	_Atomic uint32_t listens;
	_Atomic uint32_t owner; /* process slot */
	uint64_t life;		/* life of the owner: sn_proc_life() */
	struct sn_cm_want want;
};

/* Part of struct sn_fabric. */
struct sn_cm_binds {
	_Atomic uint32_t used; /* number of slots that were ever taken */
	struct sn_cm_bind slot[SN_CM_BINDS];
};

/*
 * Binds; port 0 is replaced by a free one in want->addr. Returns the slot's number. -EADDRNOTAVAIL:
 * the port is another's, or the table is full; -EADDRINUSE: the port is another's at this address.
 */
int sn_cm_bind(struct sn_fabric *fabric, struct sn_cm_want *want);
/* 0, or -EADDRNOTAVAIL or -EADDRINUSE: a binding is in the way of one that begins to listen. */
int sn_cm_bind_may_listen(struct sn_fabric *fabric, uint32_t slot);
void sn_cm_bind_listens(struct sn_fabric *fabric, uint32_t slot, bool listens);
void sn_cm_bind_release(struct sn_fabric *fabric, uint32_t slot);
/* The slots of a process that is gone. */
void sn_cm_bind_forget(struct sn_fabric *fabric, uint32_t proc);

/* Copies the binding in a slot below SN_CM_BINDS. False: there is none, or it changed meanwhile. */
bool sn_cm_bind_at(const struct sn_fabric *fabric, uint32_t slot, struct sn_cm_want *want,
		   bool *listens);

/* A process that listens, and its id. */
struct sn_cm_listener {
	uint32_t proc, id;
	uint64_t life;
};
/* -ENOENT: nobody. @host, @nic: where the request arrives. */
int sn_cm_bind_find(struct sn_fabric *fabric, uint32_t host, uint32_t nic, uint16_t ps,
		    uint16_t qp_type, const struct sn_cm_addr *to, struct sn_cm_listener *out);

#endif
