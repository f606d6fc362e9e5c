/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What both ends tell each other beside the data. */
#ifndef VERIFY_OOB_H
#define VERIFY_OOB_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

struct verify;

enum { COUNTERS = 4 };

struct peer_info {
	uint64_t addr;
	uint64_t seed;
	uint32_t rkey;
	uint32_t qpn;
	uint32_t psn;
	uint16_t lid;
	uint8_t mtu;
	uint8_t pattern;
	union ibv_gid gid;
};

/* What each side tells the other when all work is done. */
struct final_info {
	uint64_t sent;
	uint64_t received;
	uint64_t failed;
	uint64_t last_sent;
	uint64_t counters[COUNTERS];
};

int oob_open(struct verify *v);
int oob_exchange(int sock, const void *mine, void *theirs, size_t len);

#endif
