/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Times and switches of connections, as the operator set them. Included by the configuration of the
 * shell and by connection.h.
 */
#ifndef SHIFTLIB_CORE_CONFIG_H
#define SHIFTLIB_CORE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

/*
 * IBA 9.7.6.1.3: a QP's timer of T expires after T at the earliest and 4 T at the latest; the NIC
 * decides.
 */
enum { SC_RETRY_STRETCH = 4 };

struct sc_config {
	uint64_t resend_min_ns, resend_max_ns; /* retransmission of messages, doubling */
	uint64_t busy_ns;	/* work of both ends takes so long: no repetition sooner */
	uint64_t retry_time_ns; /* the QP's own: 4.096 us * 2^timeout * (retry_cnt + 1); 0: none */
	uint32_t retry_stretch; /* longest retries of its NIC, as a multiple of retry_time_ns:
				 * sc_retries_ns() */
	uint64_t silence_ns;	/* limit for a fenced end to wait for a silent peer */
	uint64_t deadline_ns;	/* limit of a move, also where the QP retries for less */
	uint64_t limit_ns;	/* the operator's limit of a move; 0: as the QP retries */
	uint64_t packet_lifetime_ns; /* longest packet lifetime on the fabric */
	uint64_t settle_ns;	     /* sick NIC: delay until all that it took in is in memory */
	uint64_t exact_ns;	     /* limit for a NIC to tell an expected PSN */
	uint64_t fence_ns;	     /* limit for an ordered switch to wait for its fences */
	uint64_t stay_ns;	     /* limit for waiting out a flap; 0: flaps are not waited out */
	uint64_t standby_ns; /* limit for making a standby, after which another one is chosen */
	uint64_t choose_min_ns, choose_max_ns; /* pause after a standby failed, doubling */
	bool atomics;			       /* the QP accepts atomics of the peer */
	bool exact; /* expected PSNs are asked for and told, if the peer does the same */
	bool lazy;  /* standbys are made only when needed, if the peer is lazy too */
};
void sc_config_default(struct sc_config *config);

#endif
