/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The device engine of this process. Everything in this folder is protected by sn_lock() (priority
 * inheriting): commands of application threads take it, the device thread holds it for a batch.
 * Rings, doorbell records and registers are the application's memory and are read with acquire
 * after the register store that announced them.
 */
#ifndef SIMNIC_DEVICE_ENGINE_H
#define SIMNIC_DEVICE_ENGINE_H

#include "simnic/device/atomic.h"
#include "simnic/device/device.h"
#include "simnic/device/posted.h"
#include "simnic/device/qp.h"
#include "simnic/device/stage.h"
#include "simnic/device/wqe.h"
#include "simnic/fabric/fabric.h"

struct sn_dev;

struct sn_engine {
	struct sn_fabric *fabric;
	struct sn_proc *proc;
	uint32_t host, slot;
	bool attached, running;
	bool in_program; /* the device is a thread of the program, with its priority */
	_Atomic bool frozen;
	struct sn_dev *devs;
	const struct sn_device_guest *guest; /* NULL: there is none */
	struct sn_qp *list[SN_LISTS];
	uint64_t waiting_at; /* the first timer of those that wait; 0: none */
	uint32_t n_dead;
	uint64_t dead_at; /* the next look at them */
	struct sn_qp **qp_table[SN_MAX_NICS];
	uint32_t n_active; /* QPs whose registers must be polled: RTS, SQD, SQE, ERR */
	uint32_t next_cqn, next_srqn;
	uint64_t now_ns;
	uint64_t dice; /* of sn_psn_dice() */
	struct sn_atomic atomic[SN_MAX_NICS];
	uint32_t n_atomics; /* number of atomics under way */
	_Atomic uint64_t protocol_errors;
	struct sn_stage stage, datagrams;
	struct sn_posted_queue posted[SN_MAX_NICS];
	uint64_t n_posted;    /* number of posted writes in all queues */
	struct sn_pkt rx, tx; /* scratch of the device: one packet in, one out */
	struct sn_wqe wqe;
};
extern struct sn_engine sn_engine;

void sn_lock_forget(void); /* called in the child of a fork */
bool sn_lock_held(void);   /* true: somebody holds it, for assertions */
/*
 * Makes sure that there is a thread, and a table for the QPs of this NIC. Lock held. 0, or -errno.
 */
int sn_engine_serve(uint32_t nic);
bool sn_engine_batch(void); /* does one round of work; lock held; true: there was some */
void sn_protocol_error(const char *what, uint32_t qpn, uint64_t seen, uint64_t expected);

#endif
