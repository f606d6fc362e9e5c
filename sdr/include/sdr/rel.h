/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Reliable Writes over a connection of sdr.h: the n-th Write lands in the n-th receive, whole, or
 * fails at its sender. A scheme, which the sender chooses, makes losses good. A connection that
 * carries Writes has no sends and receives of its own. Rules as in sdr.h.
 */
#ifndef SDR_REL_H
#define SDR_REL_H

#include "model.h"
#include "sdr.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sdr_rel;
struct sdr_req;

enum { SDR_SCHEME_AUTO = -1 };

/*
 * Attributes, in which the number 0 stands for the default. Both ends need the same k and m, which
 * bound the parity.
 */
struct sdr_rel_attr {
	int scheme; /* enum sdr_scheme_kind, or SDR_SCHEME_AUTO: by the model, for each Write */
	enum sdr_code_kind code;
	uint32_t k, m;	     /* chunks of data and of parity in a submessage; 32 and 8 */
	uint32_t writes;     /* number open at once; a power of two; 4 */
	uint32_t receives;   /* number of receives open at once; a power of two; as writes */
	uint64_t timeout_ns; /* deadline of a Write, counted from its post; 30 s */
	/* deadline of a receive, counted from its post; as timeout_ns; UINT64_MAX: none */
	uint64_t receive_timeout_ns;
	/*
	 * Most bytes of parity that a Write may have, as m of k of max_msg_size by default. Both
	 * ends need the same. A scheme that was chosen gives way to it.
	 */
	uint64_t max_parity;
	uint64_t rtt_ns; /* first guess of the round trip; 10 ms */
	/* time by which packets overtake each other; an eighth of a round trip */
	uint64_t reorder_ns;
	double max_sent; /* auto: the most bytes sent for one byte of data; 1.3 */
	/*
	 * auto: the part of all Writes whose time is to be least; 0.999. Less, where many Writes
	 * are under way: a late one holds up no other, and parity takes the link from all.
	 */
	double tail;
	/*
	 * 1: the oldest open Write leaves first, and each is over as soon as can be; 0: all open
	 * Writes take turns
	 */
	uint8_t in_order;
};

struct sdr_result {
	/*
	 * 0; -ETIMEDOUT; -ECANCELED: the receive is gone; -EPROTO: the receive is too short, or k
	 * and m differ; -EIO
	 */
	int status;
	uint64_t bytes;
	uint32_t imm; /* receives: the sender's number */
	enum sdr_scheme_kind scheme;
	/* numbers of chunks; sent includes parity and repeats */
	uint64_t chunks, sent, resent, decoded;
};

/* qp: not yet connected. */
struct sdr_rel *sdr_rel_create(struct sdr_qp *qp, const struct sdr_rel_attr *attr);
/* Gives open Writes up. */
int sdr_rel_destroy(struct sdr_rel *rel);
/* -EAGAIN: no further Write may be open now. length: 0 to the connection's max_msg_size. */
int sdr_rel_write(struct sdr_rel *rel, struct sdr_mr *mr, const void *addr, uint64_t length,
		  uint32_t imm, struct sdr_req **req);
int sdr_rel_recv(struct sdr_rel *rel, struct sdr_mr *mr, void *addr, uint64_t length,
		 struct sdr_req **req);
/* The same with a word for the other end, which sdr_rel_posted() tells there. */
int sdr_rel_recv_word(struct sdr_rel *rel, struct sdr_mr *mr, void *addr, uint64_t length,
		      uint64_t word, struct sdr_req **req);

/* A receive of the other end. */
struct sdr_rel_posted {
	uint64_t length, word;
};

/*
 * Tells of the receive that a Write would land in, ahead Writes from the next one: 0 stands for the
 * next. -EAGAIN: the other end has not posted it, or this end has not heard of it yet; -ECANCELED:
 * it is gone again.
 */
int sdr_rel_posted(const struct sdr_rel *rel, uint64_t ahead, struct sdr_rel_posted *posted);
/*
 * Returns 1 when the Write or receive is over: the handle is gone; 0: not yet. After 1 the buffer
 * is the caller's again, whatever the status. Where the connection has failed, 1 does not come
 * before the connection is closed, as with sdr_recv_complete().
 */
int sdr_req_test(struct sdr_req *req, struct sdr_result *result);
const char *sdr_scheme_name(int scheme);

#ifdef __cplusplus
}
#endif
#endif
