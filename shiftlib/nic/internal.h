/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Declarations that the files of this folder share. Lock held, but where a job runs. */
#ifndef SHIFTLIB_NIC_INTERNAL_H
#define SHIFTLIB_NIC_INTERNAL_H

#include "shiftlib/base/locked.h"
#include "shiftlib/nic/nic.h"

#define NIC_PORT 1

/* The opened parts, while they are not the NIC's yet, or not any more. */
struct nic_parts {
	struct ibv_context *ctx;
	struct sp_dev *dev[SP_ENGINES];
	struct sh_control *control;
	struct ibv_device_attr attr; /* zeros: not known */
	bool atomics_global;
	int pci; /* pci.h; negative: not known */
	char name[64];
};

struct nic_job {
	struct sh_job job;
	struct sh_nic *nic;
	struct nic_parts made; /* open */
	struct sh_address address;
	const char *why; /* open: NULL if it worked */
	int ret;	 /* ask */
	uint64_t began;	 /* ask: time of the command */
};

/* open.c: gives a job to the NIC's worker. Returns NULL, or the reason why not. */
const char *sh_nic_submit(struct sh_nic *nic, void (*run)(struct sh_job *),
			  void (*done)(struct sh_job *)) SH_LOCKED;
void sh_nic_reopen(struct sh_nic *nic) SH_LOCKED;

void sh_nic_ask_run(struct sh_job *job);
/* health.c. closed: no earlier path leads there. */
void sh_nic_set_address(struct sh_nic *nic, const struct sh_address *address,
			bool closed) SH_LOCKED;
void sh_nic_poll_soon(struct sh_nic *nic) SH_LOCKED; /* look at a dead or sick NIC */
void sh_nic_control_readable(void *nic) SH_LOCKED;
void sh_nic_async_readable(void *nic) SH_LOCKED;

/* open.c. Starts a worker unless it runs; false: no memory. It lives as long as the process. */
bool sh_nic_worker(struct sh_worker **worker, const char *name) SH_LOCKED;

/* cut.c. begin: the NIC is dead, or sick. look: its time has come. */
void sh_nic_cut_begin(struct sh_nic *nic) SH_LOCKED;
void sh_nic_cut_poll(struct sh_nic *nic) SH_LOCKED;

/* going.c. watch: the NIC has been opened. look: its time has come. */
void sh_nic_going_watch(struct sh_nic *nic) SH_LOCKED;
void sh_nic_going_poll(struct sh_nic *nic) SH_LOCKED;

/*
 * give.c. look: true if the NIC is closed as the job needed the room; then it is looked after.
 * again: there was no room.
 */
bool sh_nic_give_poll(struct sh_nic *nic) SH_LOCKED;
void sh_nic_give_again(struct sh_nic *nic) SH_LOCKED;
/* A control queue pair that rested is awake, or rests on and is woken later. */
void sh_nic_control_woken(struct sh_nic *nic, bool awake) SH_LOCKED;

/* widen.c: gives the control queue pair room for more datagrams, if that is due. */
void sh_nic_widen_poll(struct sh_nic *nic, uint64_t now) SH_LOCKED;

/* partition.c: the port's table has changed. */
void sh_nic_pkeys_ask(struct sh_nic *nic) SH_LOCKED;
/* Makes SHIFT's own datagrams follow their partition to its new place, once the worker is free. */
void sh_nic_own_partition(struct sh_nic *nic) SH_LOCKED;

/* vlan.c: the NIC has been opened. */
void sh_nic_vlan_ask(struct sh_nic *nic) SH_LOCKED;

/* link.c: finds its own interface, and the state of that. The NIC is open. */
void sh_nic_link_find(struct sh_nic *nic) SH_LOCKED;

#endif
