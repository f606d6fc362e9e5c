/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Atomics of two scopes: those of one NIC alone, and those of all of the host. Lock held. */
#ifndef SIMNIC_DEVICE_ATOMIC_H
#define SIMNIC_DEVICE_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

struct sn_nic;
struct sn_pkt;
struct sn_qp;

/*
 * An atomic between its read and its write. One at a time for each NIC: the next one waits for it.
 */
struct sn_atomic {
	struct sn_nic *nic; /* NULL: none is under way */
	const struct sn_qp *qp;
	uint64_t *at, due_ns;
	uint64_t seen, value; /* value of the word when it was read; value to write */
	bool adds;
};

/* Returns the word's value before. */
uint64_t sn_atomic_execute(struct sn_qp *qp, uint64_t *at, const struct sn_pkt *pkt);
/*
 * Writes the atomic under way: of a NIC; of a queue pair, before its next request; of a NIC, to
 * these bytes.
 */
void sn_atomic_land(uint32_t nic);
void sn_atomic_land_of(const struct sn_qp *qp);
bool sn_atomic_is_under_way(const struct sn_qp *qp);
void sn_atomic_land_under(uint32_t nic, const struct iovec *iov, uint32_t n);
bool sn_atomic_run(void);	  /* writes atomics that are due */
uint64_t sn_atomic_next_ns(void); /* time of the next write; UINT64_MAX: none */

#endif
