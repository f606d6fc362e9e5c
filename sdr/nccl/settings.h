/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The settings NCCL_SDR_*, read once when NCCL first begins the plugin. */
#ifndef SDR_NCCL_SETTINGS_H
#define SDR_NCCL_SETTINGS_H

#include "far.h"
#include "sdr/include/sdr/rel.h"

struct plug_settings {
	char hca[1024];	  /* NICs with commas between them; a semicolon begins another device */
	char ifname[256]; /* interfaces that the ends may meet by */
	int gid_index;	  /* -1: libsdr chooses */
	int scheme;
	enum sdr_backend backend;
	uint64_t rate_bps; /* of this process's connections together; 0: no limit; SDR_RATE_AUTO */
	uint64_t rtt_ns;   /* first guess of the round trip */
	uint64_t timeout_ns, lifetime_ns;
	struct plug_far far;
	uint8_t rc_timeout; /* near peers: 4.096 us * 2^this until a packet is sent again */
	uint64_t max_message, max_parity; /* bytes */
	uint32_t in_flight;		  /* messages open at once in a connection */
	uint32_t slots;			  /* of a connection: ids that packets have */
};

/* Returns 0, or -EINVAL after the log has named the setting that makes no sense. */
int plug_settings_read(struct plug_settings *s);

/*
 * Reads a number with a unit: K, M, G or none (bytes by 1,024; rates by 1,000), or ns, us, ms, s.
 * False: the text is no such number.
 */
bool plug_number_read(const char *text, const char *units, uint64_t *value);

#endif
