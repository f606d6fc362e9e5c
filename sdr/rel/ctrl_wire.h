/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Control messages: one datagram of at most 4096 bytes each, little endian, a head of 44 bytes and
 * a body. All may be lost, doubled or reordered. Lengths, counts and names are checked when read;
 * nothing else is believed.
 */
#ifndef SDR_REL_CTRL_WIRE_H
#define SDR_REL_CTRL_WIRE_H

#include "sdr/core/core.h"
#include "sdr/core/join.h"
#include "sdr/rel/rel.h"

enum {
	SDR_CTRL_VERSION = 4,
	SDR_CTRL_MAX = 4096,
	SDR_CTRL_HEAD = 44,
	SDR_CTRL_CTS_SIZE = 28, /* and 4 for each key */
	SDR_CTRL_WORDS = SDR_WINDOW_BITS / SDR_WORD,
	SDR_CTRL_NICS = 8,
	SDR_CTRL_QPS = 64 /* queue pairs of a NIC, in a JOIN */
};

enum sdr_ctrl_type {
	SDR_CTRL_CTS = 1,
	SDR_CTRL_END,
	SDR_CTRL_ACK,
	SDR_CTRL_PROBE,
	SDR_CTRL_DONE,
	SDR_CTRL_OFFER,
	SDR_CTRL_KNOWN, /* a head alone */
	SDR_CTRL_JOIN
};

enum { SDR_CTRL_ASKS = 1 };

struct sdr_ctrl_head {
	enum sdr_ctrl_type type;
	uint16_t flags;	     /* SDR_CTRL_ASKS: says again until it was answered */
	uint32_t connection; /* of the receiver */
	uint32_t sequence;
	uint32_t sent_us, echo_us;
	uint64_t cts_seen;  /* CTS known of all messages below */
	uint32_t ends_seen; /* low half of: END known of all below */
	/* a life for each NIC's way; odd: nothing is sent there any more (core/join.h) */
	uint8_t life[SDR_CTRL_NICS];
	uint8_t down; /* channels whose port is not active now */
};

/*
 * A NIC that is to be used again: how far this end is, and from SDR_STAGE_MADE on its new queue
 * pairs.
 */
struct sdr_ctrl_join {
	uint32_t nic, life, stage, lid;
	uint8_t gid[16];
	uint32_t n_controls, n_channels;
	uint32_t control_qpn[SDR_CTRL_NICS], qpn[SDR_CTRL_QPS];
};

struct sdr_ctrl {
	struct sdr_ctrl_head head;
	uint64_t n;	/* CTS: the first; END: message; else: Write */
	uint32_t count; /* CTS: entries; END: packets sent; DONE: chunks that a code restored */
	int32_t status; /* DONE: 0 or -errno */
	uint32_t keys;	/* CTS: of each entry */
	struct sdr_cts cts[SDR_CTS_MAX];
	struct sdr_ack ack; /* have, wanted: the two fields below */
	uint64_t have[SDR_CTRL_WORDS], wanted[SDR_CTRL_WORDS];
	struct sdr_plan plan;
	struct sdr_ctrl_join join;
};

/*
 * Returns the bytes written, at most SDR_CTRL_MAX; -EINVAL: it does not fit, or makes no sense. An
 * ACK's words: ack.have, wanted.
 */
int sdr_ctrl_write(const struct sdr_ctrl *c, void *buf, size_t size);
/* 0; -EPROTONOSUPPORT: another version; -EBADMSG: anything else. */
int sdr_ctrl_read(struct sdr_ctrl *c, const void *buf, size_t size);
const char *sdr_ctrl_name(enum sdr_ctrl_type type);

#endif
