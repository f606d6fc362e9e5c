/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A connection as NCCL sees it, which goes one way. It matches sends with receives as NCCL's own
 * net_ib does: in the order of both, and within a receive of several buffers by tags. NCCL's thread
 * moves it by its calls; the plugin's own thread does while NCCL's does not call (progress.c).
 */
#ifndef SDR_NCCL_COMM_H
#define SDR_NCCL_COMM_H

#include "interface.h"
#include "link.h"
#include "path.h"

#include <pthread.h>

enum {
	PLUG_RECVS_MAX = 8, /* buffers of one receive */
	PLUG_REQUESTS = PLUG_RECVS_MAX * NCCL_REQUESTS_MAX,
	PLUG_ENTRIES_MAX = PLUG_REQUESTS * PLUG_RECVS_MAX
};

/* Memory that NCCL has registered: an mhandle. */
struct plug_region {
	struct plug_region *next;
	struct plug_mr *mr; /* NULL: it has no bytes */
	uint8_t *addr;
	size_t size;
};

enum plug_entry_state { PLUG_ENTRY_WAITS, PLUG_ENTRY_OPEN, PLUG_ENTRY_OVER };

/* A buffer of a request. */
struct plug_entry {
	enum plug_entry_state entry_state;
	struct plug_op *op; /* while open */
	struct plug_mr *mr;
	uint8_t *addr;
	uint64_t size, done; /* bytes: asked for; sent or received */
	uint64_t word;	     /* receives: what the sender is told */
	uint64_t number;     /* the message's, while open */
};

struct plug_comm;

struct plug_request {
	struct plug_comm *comm;
	bool used;
	int n;
	struct plug_entry entries[PLUG_RECVS_MAX];
};

/* At a sender: a receive of n buffers, each of which waits for the send with its tag. */
struct plug_group {
	uint32_t n, filled; /* n: 0: there is none */
	struct plug_entry *entries[PLUG_RECVS_MAX];
	int tags[PLUG_RECVS_MAX];
	uint64_t sizes[PLUG_RECVS_MAX];
};

struct plug_comm {
	struct plug_comm *next; /* of progress.c */
	pthread_mutex_t lock;	/* guards all that follows */
	bool sends;
	char peer[PLUG_NAME_MAX]; /* for people */
	const struct plug_path_ops *ops;
	struct plug_path *path;
	bool stopped;
	struct plug_link link;
	uint64_t max_message, rate_bps, rate_now;
	enum nccl_result error;
	uint64_t polled_at, looked_at, moved_at;
	bool gone;	    /* the other end is */
	uint64_t gone_ns;   /* time that this end has had since */
	uint64_t peer_done; /* number of messages that the other end says have ended well */
	struct plug_group group;
	/* a ring of messages for which the path has had no room yet, in their order */
	struct plug_entry *waiting[PLUG_ENTRIES_MAX];
	uint32_t first_waiting, n_waiting;
	struct plug_entry *open[PLUG_ENTRIES_MAX];
	uint32_t n_open;
	bool counted; /* counted as busy, among those that share the rate */
	uint64_t next_number;
	uint64_t done_below; /* all messages below this number have ended well */
	struct plug_region *regions, empty;
	uint8_t scratch[64]; /* bytes for receives of none */
	struct plug_counts counts;
	struct plug_request requests[PLUG_REQUESTS];
};

uint64_t plug_now(void);

/*
 * Makes a connection of a path that is connected, and takes both path and link. NULL: no memory,
 * and both are closed.
 */
struct plug_comm *plug_comm_new(bool sends, const struct plug_path_ops *ops, struct plug_path *path,
				struct plug_link *link, const struct plug_settings *s,
				const struct plug_terms *terms);
void plug_comm_close(struct plug_comm *c);
/* Ends the connection and all its messages: the path lets go of their memory. */
void plug_comm_stop(struct plug_comm *c);
/* True if a message that has not ended has its bytes there. With the lock. */
bool plug_comm_uses(const struct plug_comm *c, const struct plug_mr *mr);
enum nccl_result plug_comm_reg(struct plug_comm *c, void *data, size_t size,
			       struct plug_region **region);
enum nccl_result plug_comm_dereg(struct plug_comm *c, struct plug_region *region);
enum nccl_result plug_comm_send(struct plug_comm *c, void *data, size_t size, int tag,
				struct plug_region *region, struct plug_request **request);
enum nccl_result plug_comm_recv(struct plug_comm *c, int n, void **data, const size_t *sizes,
				const int *tags, struct plug_region **regions,
				struct plug_request **request);
enum nccl_result plug_comm_test(struct plug_request *request, int *done, int *sizes);
/* Moves it if its lock is free and nobody has moved it for a while. True: it has work to do. */
bool plug_comm_tend(struct plug_comm *c, uint64_t now);

/* progress.c */
int plug_progress_add(struct plug_comm *c);
void plug_progress_remove(struct plug_comm *c);

#endif
