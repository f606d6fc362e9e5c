/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * An outstanding request of a send queue, and what a move does with it: the words in which an
 * engine asks and the core decides. The core includes this header and no other of providers/, so it
 * is C alone.
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
	uint8_t published;  /* 1: its doorbell was rung, on this carrier or on one before */
	uint8_t answered;   /* 1: recalled (sp_qp_recall), and its data had come: READs, atomics */
	uint8_t numbered;   /* 1: psn and packets are known */
	uint32_t psn;	    /* PSN of its first packet, on the carrier that it lies in; 24 bits */
	/* PSNs that it takes there (a READ: those of its answer), at least 1; 0: local ones */
	uint32_t packets;
	/* PSNs of log WQEs behind it, or in front of the oldest, whose packet may be missing too */
	uint8_t behind, before;
	/* The peer's memory that it may change, by the application's key; bytes 0: none. */
	uint64_t addr;
	uint32_t bytes, rkey;
	uint32_t brings; /* bytes that a READ writes to this end's memory */
	/*
	 * cas: a compare-and-swap of 8 bytes. told: `word` is the target's value behind the peer's
	 * quiesce.
	 */
	uint8_t cas, told;
	uint8_t uid; /* 1: the process' word that such numbers are of shift/shift_uid.h */
	uint64_t compare, swap, word;
};

/*
 * Returns the value that a log WQE writes, little-endian. number: requests before it; tag: the
 * carrier's.
 */
static inline uint64_t sp_log_word(uint32_t tag, uint32_t number)
{
	return (uint64_t)tag << 32 | number;
}

/* The last request that the application saw complete, when the rest was recalled. */
enum sp_last_seen {
	SP_SEEN_SAFE, /* all before it is in the peer's memory, if what was counted is */
	/* the request changes the peer's memory, and nobody can tell whether it did */
	SP_SEEN_UNPLACED,
};

/* The core's decision about a request. */
enum sp_fate {
	SP_FATE_DELIVERED, /* executed by the peer: complete it in software, in order */
	/* a compare-and-swap that has swapped: complete it with the value that it compared */
	SP_FATE_WON,
	SP_FATE_READ_AGAIN, /* a READ among the delivered: lay it again */
	SP_FATE_RESEND,	    /* lay it into the new carrier */
};

#endif
