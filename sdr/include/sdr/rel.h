/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Reliable Writes over a connection of sdr.h: the n-th Write lands in the n-th receive, whole, or fails at its sender. How
 * losses are made good is a scheme's matter; the sender chooses. A connection that has this uses no sends and receives
 * of its own. Rules as in sdr.h.
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

/* 0 in any number: the default. Both ends need the same k and m, which bound the parity. */
struct sdr_rel_attr {
	int scheme; /* enum sdr_scheme_kind, or SDR_SCHEME_AUTO: by the model, for each Write */
	enum sdr_code_kind code;
	uint32_t k, m;	     /* of a submessage; 32 and 8 */
	uint32_t writes;     /* open at once, in each direction; a power of two; 4 */
	uint64_t timeout_ns; /* of a Write, from its post; 30 s */
	uint64_t rtt_ns;     /* first guess; 10 ms */
	uint64_t
		reorder_ns; /* by how much packets overtake each other; an eighth of a round trip */
	double max_sent;    /* auto: at most so many bytes are sent for one; 1.3 */
};

struct sdr_result {
	/* 0, -ETIMEDOUT, -ECANCELED: the receive is gone, -EPROTO: it is too short, or k and m differ, -EIO */
	int status;
	uint64_t bytes;
	uint32_t imm; /* receives: the sender's */
	enum sdr_scheme_kind scheme;
	uint64_t chunks, sent, resent, decoded; /* chunks; sent has parity and repeats */
};

/* qp: not yet connected. */
struct sdr_rel *sdr_rel_create(struct sdr_qp *qp, const struct sdr_rel_attr *attr);
/* Open Writes are given up. */
int sdr_rel_destroy(struct sdr_rel *rel);
/* -EAGAIN: as many as may be are open. length: 1 to the connection's max_msg_size. */
int sdr_rel_write(struct sdr_rel *rel, struct sdr_mr *mr, const void *addr, uint64_t length,
		  uint32_t imm, struct sdr_req **req);
int sdr_rel_recv(struct sdr_rel *rel, struct sdr_mr *mr, void *addr, uint64_t length,
		 struct sdr_req **req);
/*
 * 1: over, and the handle is gone; 0: not yet. The buffer is the caller's again, whatever the status: where the connection has
 * failed, not before it is closed, as of sdr_recv_complete().
 */
int sdr_req_test(struct sdr_req *req, struct sdr_result *result);
const char *sdr_scheme_name(int scheme);

#ifdef __cplusplus
}
#endif
#endif
