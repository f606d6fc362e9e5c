/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Which peers are far, so that SDR serves them, and which are near, so that RC does. */
#ifndef SDR_NCCL_FAR_H
#define SDR_NCCL_FAR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum { PLUG_NETS_MAX = 64 };

struct plug_net {
	uint8_t bytes[16]; /* an address of IPv6, or of IPv4 as one that is mapped */
	uint8_t bits;
};

struct plug_far {
	bool asked; /* peers are told apart; else all are far */
	struct plug_net nets[PLUG_NETS_MAX];
	uint32_t n_nets;
	uint64_t rtt_ns; /* a peer is far from this round trip on; 0: the round trip says nothing */
};

/* "10.2.0.0/16,fd00:2::/32"; a text of no nets has none. False: it is no such list. */
bool plug_nets_read(const char *text, struct plug_far *far);
bool plug_is_far(const struct plug_far *far, const struct sockaddr_storage *peer, uint64_t rtt_ns);

#endif
