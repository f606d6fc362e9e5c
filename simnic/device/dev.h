/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* An opened user context on one NIC, in this process. Lock held. */
#ifndef SIMNIC_DEVICE_DEV_H
#define SIMNIC_DEVICE_DEV_H

#include "simnic/device/device.h"
#include "simnic/fabric/list.h"
#include "simnic/device/ether.h"
#include "simnic/device/mr.h"

struct sn_cq;
struct sn_qp;
struct sn_srq;
struct sn_uar;

#define SN_KEPT_KEYS 64

struct sn_dev {
	struct sn_dev *next;
	uint32_t nic_index;
	struct sn_nic *nic;
	bool broken;	   /* told of an internal error */
	bool fatal;	   /* saw an internal error: this context never works again */
	bool halted;	   /* by sn_dev_halt() */
	bool trapped;	   /* doorbells come by sn_uar_ring(), events go to calls */
	bool unheard;	   /* a doorbell came while the device stood still */
	bool leaving;	   /* commands fail, and the turn is yet to come: struct sn_removal */
	bool gone, warned; /* the kernel destroyed what it had, has said that it will */
	uint32_t file;	   /* number of files opened before it */
	int async_fd;
	struct sn_dev_events events; /* of a trapped device */
	uint32_t event_gen, port_was_up, gid_gen, pkey_gen, incarnation;
	struct sn_qp *qps;
	uint32_t scans;			  /* number of scans of the registers so far */
	struct sn_uar *uars, **uar_at;	  /* a list, and a table by index */
	uint32_t n_uar_at, n_reg_unknown; /* QPs of any register */
	struct {
		void *reg, *info; /* pages of the program; NULL: it has none */
		uint64_t info_due_ns;
	} clock;
	LIST_HEAD(, sn_cq) cqs;
	LIST_HEAD(, sn_srq) srqs;
	struct sn_ether ether;
	struct sn_mr *mr[SN_MR_BUCKETS];
	uint32_t kept_keys[SN_KEPT_KEYS], n_kept_keys; /* keys of regions that are gone */
};

bool sn_dev_stands_still(const struct sn_dev *dev);
/* Raises the asynchronous events of what happened to the NIC since the last call. */
void sn_dev_raise_events(struct sn_dev *dev);
uint64_t sn_dev_next_turn_ns(void); /* next turn among leaving devices; UINT64_MAX: none */
/*
 * Writes one event into an event file, or tells it by call; count, if not NULL, is how many there
 * were in the file.
 */
void sn_async_event(const struct sn_dev *dev, int fd, uint64_t element, uint32_t type,
		    uint32_t *count);

#endif
