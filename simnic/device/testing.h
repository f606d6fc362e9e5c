/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The calls of tests to the software ConnectX in their own process. libsimnic.so is preloaded, not
 * linked: look these up with dlsym(RTLD_DEFAULT, "simnic_test_..."). Any thread.
 *
 * With SIMNIC_FREEZE=1 in the environment the device starts frozen: it raises port events, but
 * takes no doorbell and no packet and writes no CQE. Ring bytes, records and register stores then
 * stay as the poster left them.
 */
#ifndef SIMNIC_TESTING_H
#define SIMNIC_TESTING_H

#include <stdbool.h>
#include <stdint.h>

/* Returns after a batch in progress has ended. Thawing acts on what is in the registers. */
void simnic_test_freeze(bool frozen);

/*
 * The i-th UAR page of this process, over all contexts, newest context and page first: NULL behind
 * the last. Plain memory, 4096 bytes; registers at 0x800 + 512 * r (r = 0, 1), two halves of 256
 * bytes each; CQ doorbell at 0x20. While frozen the caller may read and clear it.
 */
void *simnic_test_uar(unsigned int i, uint32_t *uar_index);

/*
 * Appends a CQE to a CQ of this process, whatever it says: `cqe` is 64 bytes in mlx5_cqe64 layout,
 * of which the owner bit is replaced; `data` is the 64 bytes in front of it (128-byte
 * CQEs only) or NULL. 0, -ENOENT: no such CQ number, -ENOSPC: full.
 */
int simnic_test_inject_cqe(uint32_t cqn, const void *cqe, const void *data);

/* Violations of the doorbell protocol since start; each of the first ones is on stderr. */
uint64_t simnic_test_protocol_errors(void);

/* The process-wide number of a QP's doorbell register (uar index * 2 + r), or -ENOENT. */
int simnic_test_qp_register(const char *ibdev, uint32_t qpn);

/* Number of memory regions of this process, on any of its NICs, that reach a byte of this range. */
unsigned int simnic_test_reachable(const void *addr, uint64_t length);
/* Completion vectors that CQs of this process have on that NIC: a bit for each. */
unsigned int simnic_test_cq_vectors(const char *ibdev);
unsigned int simnic_test_reachable_by(const char *ibdev, const void *addr, uint64_t length);

#endif
