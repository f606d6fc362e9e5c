/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A way by which messages go from one end of a connection to the other: the n-th message lands in
 * the n-th receive. A connection goes one way. A path is used by one thread at a time.
 *
 * Functions return 0 or a negative errno, unless their comment says otherwise.
 */
#ifndef SDR_NCCL_PATH_H
#define SDR_NCCL_PATH_H

#include "devices.h"

enum { PLUG_INFO_MAX = SDR_QP_INFO_MAX };

/* Terms that both ends of a connection keep to. The receiver decides, by what both can. */
struct plug_terms {
	uint64_t max_message, max_parity, lifetime_ns;
	uint32_t slots, in_flight, channels;
	bool is_near; /* by RC; the sender decides */
};

struct plug_counts {
	uint64_t messages, bytes, packets, resent, restored, nics_lost, rtt_ns;
	double loss;
};

struct plug_path;
struct plug_mr;
struct plug_op;

struct plug_path_ops {
	const char *name;
	/* nics: names with commas between them; sends: this end is the sender */
	int (*open)(struct plug_path **path, const char *nics, const struct plug_settings *s,
		    const struct plug_terms *terms, bool sends);
	void (*close)(struct plug_path *path);
	/* Ends all messages at once, so that memory can be given back. No call but that follows. */
	void (*stop)(struct plug_path *path);
	int (*info_get)(struct plug_path *path, void *info, size_t *length);
	int (*connect)(struct plug_path *path, const void *info, size_t length);
	int (*reg)(struct plug_path *path, void *addr, size_t length, struct plug_mr **mr);
	/* -EBUSY: a message has not ended. */
	int (*dereg)(struct plug_path *path, struct plug_mr *mr);
	/* Tells of the receive that the message after ahead others will land in. -EAGAIN. */
	int (*posted)(struct plug_path *path, uint32_t ahead, uint64_t *length, uint64_t *word);
	/* -EAGAIN: there is no room for a further one now. */
	int (*send)(struct plug_path *path, struct plug_mr *mr, const void *addr, uint64_t length,
		    struct plug_op **op);
	int (*recv)(struct plug_path *path, struct plug_mr *mr, void *addr, uint64_t length,
		    uint64_t word, struct plug_op **op);
	/* Returns 1 when op is over, and gone; 0: not yet. */
	int (*test)(struct plug_path *path, struct plug_op *op, int *status, uint64_t *length);
	/* Moves everything. */
	int (*poll)(struct plug_path *path);
	/* The other end sends nothing any more. */
	void (*peer_over)(struct plug_path *path);
	void (*rate_set)(struct plug_path *path, uint64_t bps);
	const char *(*why)(struct plug_path *path);
	void (*counts)(struct plug_path *path, struct plug_counts *counts);
};

extern const struct plug_path_ops plug_path_sdr, plug_path_rc;

#endif
