/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The fabric: one shared-memory file that all processes of a simulation map. It holds hosts, their
 * NICs, one rail switch per NIC index, the processes that opened a NIC, and their inboxes.
 *
 * Ownership: configuration is written once by `simnicctl create` before any process attaches; each
 * header of this folder says whose the rest is.
 */
#ifndef SIMNIC_FABRIC_FABRIC_H
#define SIMNIC_FABRIC_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "simnic/fabric/cmbind.h"
#include "simnic/fabric/fault.h"
#include "simnic/fabric/held.h"
#include "simnic/fabric/line.h"
#include "simnic/fabric/nic.h"
#include "simnic/fabric/proc.h"

#define SN_MAGIC 0x53494d4e49433031ULL
/*
 * Raise this with each change of what lies in the shared file: of struct sn_fabric and all that is
 * in it, and of what a value there means. Every process compares it when it attaches.
 */
#define SN_VERSION 19

struct sn_switch {
	_Atomic uint32_t down;
};

/* The first three stay where they are, in each version. */
struct sn_fabric {
	uint64_t magic;
	uint32_t version, size_check;
	uint32_t n_hosts, n_nics;
	uint32_t seed, link_layer;
	uint32_t joined; /* the rails' switches are connected to each other */
	uint32_t direct; /* there are no switches: a cable connects the two NICs of a rail */
	char dir[256];	 /* where the fake sysfs trees are: <dir>/h<N>/sys/class/... */
	char name[64];
	struct sn_switch rail[SN_MAX_NICS];
	struct sn_fault fault[SN_MAX_FAULTS];
	_Atomic uint32_t faults_armed; /* fast check: number of ARMED slots */
	_Atomic uint64_t fault_order;
	_Atomic int32_t fault_owner; /* process that applies faults; 0: none */
	_Atomic uint32_t n_held;     /* fast check: slots of held that are KEPT */
	_Atomic uint64_t held_order;
	/* number of slots of proc and of held with room in /dev/shm; nobody touches those behind */
	_Atomic uint32_t proc_slots, held_slots;
	struct sn_nic nic[SN_MAX_HOSTS][SN_MAX_NICS];
	struct sn_proc proc[SN_MAX_PROCS];
	struct sn_held held[SN_MAX_HELD];
	struct sn_line line[SN_LINES];
	struct sn_cm_binds cm;
};

/* All return 0 or -errno. */
int sn_fabric_path(const char *name, char *buf, size_t len); /* /dev/shm/simnic-<name>/fabric */
int sn_fabric_dir(const char *name, char *buf, size_t len);  /* the folder that it is in */
/* Maps an existing fabric. -EPROTO: it was made by another version. */
int sn_fabric_attach(const char *name, struct sn_fabric **out);
int sn_fabric_map(int fd, struct sn_fabric **out); /* maps it as it is, for its maker */
void sn_fabric_detach(struct sn_fabric *fabric);
int sn_fabric_find_host(const struct sn_fabric *fabric, const char *name); /* "h0" -> 0 */

struct sn_fabric_config {
	uint32_t n_hosts, n_nics, link_layer, seed;
	uint64_t cmd_cost_ns;
	uint32_t card_ports; /* number of NICs that are ports of one card; 0: one */
	/* number of nodes that the cards are spread over; 0: the machine does not tell */
	uint32_t numa_nodes;
	bool joined; /* each NIC reaches each, in one subnet */
	bool direct; /* a cable for each rail, of two hosts: a link is up or down at both ends */
	/* number of cards below one PCIe switch, each with a GPU there; 0: neither is there */
	uint32_t gpu_cards;
};
enum { SN_MAX_GPU_CARDS = 6 };
/* Makes the shared file and the sysfs trees. -EEXIST when the fabric exists. */
int sn_fabric_create(const char *name, const struct sn_fabric_config *config);
/* Removes file and trees; processes that still map it keep a fabric without a name. */
int sn_fabric_destroy(const char *name);

#endif
