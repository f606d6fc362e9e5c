/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * An outstanding request of a send queue, and what a move does with it: the words in which an
 * engine asks and the core decides. The core includes this header and no other of providers/, so
 * it is C alone.
 */
#ifndef SHIFT_REQUEST_H
#define SHIFT_REQUEST_H

#include <stdint.h>

enum sp_request_kind {
	SP_REQ_WRITE,
	SP_REQ_READ,
	SP_REQ_TWO_SIDED, /* SEND*, WRITE_WITH_IMM: consumes a receive at the peer */
	SP_REQ_ATOMIC,
	SP_REQ_LOCAL, /* NOP, BIND_MW, LOCAL_INV */
};

struct sp_request {
	uint8_t kind; /* enum sp_request_kind */
	uint8_t signaled;
	uint8_t send_fence; /* IBV_SEND_FENCE */
	uint8_t published; /* its doorbell was rung on the carrier that it lies in, or on one before */
	uint8_t answered; /* recalled (sp_qp_recall), and its data had come: READs, atomics */
	uint8_t numbered; /* psn and packets are known */
	uint32_t psn;	  /* of its first packet, on the carrier that it lies in; 24 bits */
	/* How many numbers it takes there: of a READ those of its answer, at least 1; 0: local ones. */
	uint32_t packets;
	/* So many more are a log WQE's, behind it, or in front of the oldest, whose packet may be missing too. */
	uint8_t behind, before;
	/* What it may change of the peer's memory, by the application's key; bytes 0: nothing. */
	uint64_t addr;
	uint32_t bytes, rkey;
	uint32_t brings; /* bytes that a READ writes to this end's memory */
	/* A compare-and-swap of 8 bytes; told: what its target was behind the peer's quiesce. */
	uint8_t cas, told;
	uint8_t uid; /* the process' word that such numbers are of shift/shift_uid.h */
	uint64_t compare, swap, word;
};

/* What a log WQE writes, little-endian: so many requests lie before it; tag: of the carrier. */
static inline uint64_t sp_log_word(uint32_t tag, uint32_t number)
{
	return (uint64_t)tag << 32 | number;
}

/* What the application saw complete last, when the rest was recalled. */
enum sp_last_seen {
	SP_SEEN_SAFE,	  /* all before it is in the peer's memory, if what was counted is */
	SP_SEEN_UNPLACED, /* it changes the peer's memory, and nobody can tell whether it did */
};

/* What the core decided for it. */
enum sp_fate {
	SP_FATE_DELIVERED, /* executed by the peer: complete it in software, in order */
	SP_FATE_WON, /* a compare-and-swap that has swapped: likewise, with the value that it compared */
	SP_FATE_READ_AGAIN, /* a READ among the delivered: lay it again */
	SP_FATE_RESEND,	    /* lay it into the new carrier */
};

#endif
